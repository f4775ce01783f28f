# SPDX-License-Identifier: Apache-2.0
"""Several models of one server, loaded when they are asked for: serve_several.py MODEL FOLDER KT"""
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading

from serve_client import check, equal, finish
from serve_process import COMPLETIONS, Process, begin, folder, kt, model, read_all

LONG_NAME = "x" * 10000
names = ["one", "two", "three"]
paths = [os.path.join(folder, name + ".gguf") for name in names]
os.link(model, paths[0]) if os.stat(model).st_dev == os.stat(folder).st_dev else shutil.copy(model, paths[0])
for path in paths[1:]:
    os.link(paths[0], path)


def plan(*options):
    """What a model takes."""
    command = [kt, "run", *paths, "--dry-run", "--format", "json", *options]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["rows"]
    equal([row["name"] for row in rows], names, "the plan")
    return rows[0]["total_bytes"]


size = plan()


def room_for(n, *options):
    """Those options, and room for so many models that have them."""
    return "--max-memory", str(int((plan(*options) if options else size) * (n + 0.5))), *options


def ask(server, name, n=2, **more):
    return server.post(COMPLETIONS, dict({"model": name, "prompt": "ROMEO:", "max_tokens": n, "temperature": 0}, **more),
                       timeout=600)


def loaded(server):
    running = [entry["name"] for entry in server.get("/api/ps")[1]["models"] if entry["name"] in names]
    numbers = server.metrics()
    equal([name for name in names if numbers.get('kt_model_loaded{model="%s"}' % name)], running, "/metrics and /api/ps")
    return running


def loads(server, name):
    return server.metrics()['kt_model_loads_total{model="%s"}' % name]


def waits_for(server, name, n):
    server.wait_metric('kt_model_waiting{model="%s"}' % name, lambda value: value == n)


def answer_of(s):
    s.settimeout(600)  # other tests may take the machine
    head, body = read_all(s).split(b"\r\n\r\n", 1)
    return int(head.split()[1]), json.loads(body)


def check_lists(server):
    equal([entry["id"] for entry in server.get("/v1/models")[1]["data"]], names[:2], "/v1/models")
    equal([entry["name"] for entry in server.get("/api/tags")[1]["models"]], names[:2], "/api/tags")
    equal(server.get("/v1/models/two")[0], 200, "/v1/models/two")
    equal(server.get("/props")[1]["model_alias"], "one", "the first one is the default")
    # What needs no weights loads none.
    check(server.post("/tokenize", {"model": "two", "prompt": "a"})[1]["tokens"], "ids")
    equal(server.post("/api/show", {"model": "two"})[0], 200, "/api/show")
    server.error(COMPLETIONS, {"model": "two", "prompt": "a", "temperature": "hot"}, 400, param="temperature")
    server.error(COMPLETIONS, {"model": "none", "prompt": "a"}, 404, code="model_not_found", holds="/v1/models")
    equal(loaded(server), ["one"], "at the start")


def check_unload(server):
    """In turns; each answer is the same whoever was there before."""
    first = ask(server, "one")
    for name in ("two", "one", "two"):
        status, reply = ask(server, name)
        check(status == 200 and reply["model"] == name and loaded(server) == [name], name, reply)
        equal(reply["choices"], first[1]["choices"], "the answer")
    equal(server.metrics()["kt_generated_tokens_total"], 8, "unloaded models count")
    equal(server.post("/api/chat", {"model": "one:latest"})[1].get("done_reason"), "load", "a chat without messages")
    equal(loaded(server), ["one"], "it loads")
    equal(server.post("/v1/embeddings", {"model": "two", "input": "a"})[0], 200, "an embedding")
    equal(loaded(server), ["two"], "it loads, too")
    equal(server.post("/api/embed", {"model": "one"})[0], 200, "an embedding of nothing")
    equal(loaded(server), ["one"], "it loads, too")


def check_failure(server):
    """A file that is gone, then damaged, then back."""
    os.rename(paths[1], paths[1] + ".away")
    server.error(COMPLETIONS, {"model": "two", "prompt": "a"}, 500, code="model_not_loaded", holds="log")
    check(folder not in json.dumps(ask(server, "two")[1]), "no path of the server")
    equal(loaded(server), ["one"], "nothing was unloaded for it")
    shutil.copy(paths[1] + ".away", paths[1])
    with open(paths[1], "r+b") as file:
        file.truncate(os.path.getsize(paths[0]) // 2)
    equal(ask(server, "two")[0], 500, "half a file")
    with open(paths[0], "rb") as file:
        whole = file.read()
    at = whole.index(b"qwen3moe.context_length") + len("qwen3moe.context_length") + 4
    with open(paths[1], "wb") as file:
        file.write(whole[:at] + (4096).to_bytes(4, "little") + whole[at + 4:])
    equal(ask(server, "two")[0], 500, "another model")
    server.check_logged("its files are of another model", "the log says so")
    os.rename(paths[1] + ".away", paths[1])
    equal(ask(server, "two")[0], 200, "when the file is back")
    server.check_logged(paths[1] + ": ", "the log has the reason")


def begin_unread(server):
    """A stream of the first model that is in flight until finish_unread reads it: no sockets' buffers hold megabytes,
    and each event repeats the long name."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sock.connect(("127.0.0.1", server.port))
    body = {"model": LONG_NAME, "prompt": "ROMEO:", "max_tokens": 40, "n": 16, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}
    connection.request("POST", COMPLETIONS, json.dumps(body))
    reply = connection.getresponse()
    equal(reply.status, 200, "a stream begins")
    return connection, reply


def finish_unread(stream, *what):
    connection, reply = stream
    data = reply.read()
    events = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    equal(events[-1:], [b"[DONE]"], *what)
    equal(json.loads(events[-2])["usage"]["completion_tokens"], 16 * 40, *what)
    check(len(data) > 6e6, "an answer that fits into buffers is not in flight:", len(data))
    connection.close()


def check_flight(server):
    """While one answers, the other is asked for: nothing is cut."""
    long = begin_unread(server)
    # Who hangs up takes nobody's place.
    gone = [begin(server, {"model": "two", "prompt": "a"}) for _ in range(32)]
    waits_for(server, "two", 32)
    status, reply = ask(server, "two")
    equal((status, reply["error"]["code"]), (429, "queue_full"), "more than --max-queue")
    for s in gone:
        s.close()
    waits_for(server, "two", 0)
    equal(ask(server, "one")[0], 200, "beside the long answer")
    # Who waits goes first; what comes later for the one that must leave has to wait, too.
    others = [begin(server, {"model": "two", "prompt": "a", "max_tokens": 2})]
    server.wait_metric('kt_model_leaving{model="one"}', lambda value: value == 1)
    others.append(begin(server, {"model": "one", "prompt": "a", "max_tokens": 2}))
    waits_for(server, "one", 1)
    equal(loaded(server), ["one"], "as long as it answers")
    finish_unread(long, "the long answer")
    equal([answer_of(s)[0] for s in others], [200, 200], "those that waited")
    equal(loaded(server), ["one"], "in their order")


def check_end(server):
    """SIGTERM: the answer is finished, who waits for a model is told."""
    long = begin_unread(server)
    other = begin(server, {"model": "two", "prompt": "a"})
    waits_for(server, "two", 1)
    server.process.terminate()
    status, reply = answer_of(other)
    equal((status, reply["error"]["code"]), (503, "shutting_down"), "who waits")
    finish_unread(long, "who is answered")


def check_memory():
    """Without --max-memory it is what the system has free: here, what a file says."""
    shim, path = os.path.join(os.environ["KT_TEST_BUILD"], ".libs/serve_memory.so"), os.path.join(folder, "memory")
    if os.environ.get("KT_TEST_SANITIZERS") or not os.path.exists(shim):
        return print("not run: what is free: serve_memory.so was not built, or a sanitizer must be loaded before it")
    environment = {"LD_PRELOAD": " ".join(filter(None, [os.environ.get("LD_PRELOAD"), shim])), "KT_TEST_MEMORY": path}

    def set_free(n):
        with open(path, "w") as file:
            file.write(str(int(size * n)))

    set_free(0.9)
    ended = subprocess.run([kt, "run", *paths, "--dry-run"], capture_output=True, text=True, env=dict(os.environ, **environment))
    check(ended.returncode == 1 and "one: it requires" in ended.stderr, "no model fits", ended.stderr)
    set_free(1.1)
    with Process(*paths[1:], served=paths[0], environment=environment) as server:
        equal([ask(server, name)[0] for name in names[:2]], [200, 200], "as much is free as for one more")
        equal(loaded(server), names[:2], "so both stay")
        set_free(0.5)  # and what leaves gives nothing back, so that the third finds too little even then
        status, reply = ask(server, "three")
        equal((status, reply["error"]["code"]), (503, "model_not_loaded"), "too little memory", reply)
        equal(loaded(server), [], "all have left for it")
        equal(ask(server, "three")[0], 503, "nobody is left to make room")
        set_free(1.1)
        equal([ask(server, name)[0] for name in names], [200] * 3, "when there is memory again")


def check_crowd(server, room):
    """Requests to all at once: each is answered, by its model."""
    wrong = []

    def many(number):
        for i in range(6):
            name = names[(number + i) % len(names)]
            status, reply = ask(server, name, 4)
            if status != 200 or reply["model"] != name or reply["usage"]["completion_tokens"] != 4:
                wrong.append((name, status, reply))

    threads = [threading.Thread(target=many, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [], "answers with room for", room)
    if room == len(names):
        equal([loads(server, name) for name in names], [1, 1, 1], "loads")
        equal(loaded(server), names, "all stay")
    else:
        check(len(loaded(server)) <= room, "more are loaded than fit")
        for name in ("one", "two", "one", "three"):
            equal(ask(server, name)[0], 200, name)
        equal(loaded(server), ["one", "three"], "the least recently used one is unloaded")


with Process(paths[1], *room_for(1, "--context", "512"), served=paths[0]) as server:
    check_lists(server)
    check_unload(server)
    check_failure(server)
subprocess.run([kt, "model", "add", paths[0], "--name", "one", "--served-model-name", "one," + LONG_NAME],
               stdout=subprocess.DEVNULL, check=True)
with Process(paths[1], *room_for(1), "--max-queue", "32", "--timeout", "600", "--drain", "600", served="one") as server:
    check_flight(server)
    check_end(server)
check_memory()
with Process("large", served="small") as server:  # with threads of its own, as a backend is kept with it
    equal([(entry["id"], entry["max_model_len"]) for entry in server.get("/v1/models")[1]["data"]],
          [("small", 128), ("large", 512)], "what is kept with names")
    equal([ask(server, name)[0] for name in ("large", "small")], [200, 200], "each has its context")
for room in (len(names), 2):
    with Process(*paths[1:], *room_for(room), served=paths[0]) as server:
        check_crowd(server, room)
finish()
