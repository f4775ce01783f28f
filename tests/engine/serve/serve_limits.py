# SPDX-License-Identifier: Apache-2.0
"""Keys, limits and signals, with servers of its own: serve_limits.py MODEL FOLDER KT"""
import json
import os
import re
import select
import shutil
import signal
import socket
import threading
import time
from functools import partial

import serve_process
from serve_client import check, equal, finish
from serve_process import COMPLETIONS, LONG, SLOW, begin, folder, model, read_all

# Two threads would wait for each other, beside other tests longer than they compute.
Process = partial(serve_process.Process, "--threads", "1")


def memory(server, what):
    """Bytes: VmRSS now, VmHWM at most."""
    with open("/proc/%d/status" % server.process.pid) as file:
        return int(re.search(what + r":\s+(\d+) kB", file.read()).group(1)) << 10


def cached(server, key):
    """Of a prompt of 100 tokens, those that were there already."""
    server.key = key
    usage = server.post(COMPLETIONS, {"prompt": [5] * 100, "max_tokens": 1})[1]["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def test_keys():
    keys = os.path.join(folder, "keys")
    with open(keys, "w") as file:
        file.write("# keys\nfirst-key\n\n  second-key  \n")
    os.chmod(keys, 0o600)
    with Process("--api-key-file", keys, "--api-key", "third-key", "--served-model-name", "a,b",
                 "--cors", "https://page.example", "--context", "256") as server:
        for path in ("/health", "/"):
            equal(server.request("GET", path)[0], 200, path, "needs no key")
        for path in ("/v1/models", "/metrics", "/version", "/nowhere"):
            equal(server.request("GET", path)[0], 401, path, "needs a key")
        status, headers, body = server.request("POST", COMPLETIONS, {"prompt": "x"})
        equal((status, json.loads(body)["error"]["code"]), (401, "invalid_api_key"), "no key")
        equal(headers["WWW-Authenticate"], "Bearer", "WWW-Authenticate")
        for key, wanted in (("first-key", 200), ("second-key", 200), ("third-key", 200), ("first-ke", 401),
                            ("first-keyy", 401), ("", 401), ("# keys", 401), ("first-keyfirst-key", 401)):
            status = server.request("GET", "/v1/models", headers={"Authorization": "Bearer " + key})[0]
            equal(status, wanted, "key", key)
        equal(server.request("GET", "/v1/models", headers={"X-Api-Key": "first-key"})[0], 200, "X-Api-Key")
        for header in ("Authorization: Bearer first-key \t", "Authorization:bearer \t", "Authorization: Bearer  first-key",
                       "X-Api-Key: \tfirst-key ", "X-Api-Key: first-key\tx "):
            reply = server.raw(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n\r\n" %
                               header.encode(), end=False)
            equal(reply[9:12], b"200" if header.rstrip().endswith("first-key") else b"401", header)
        server.key = "second-key"
        equal([m["id"] for m in server.get("/v1/models")[1]["data"]], ["a", "b"], "names")
        # A model without a template, or tokens for gaps: what it would refuse is not in the document.
        paths = server.get("/openapi.json")[1]["paths"]
        for path, is_there in (("/v1/completions", True), ("/v1/chat/completions", False), ("/responses", False),
                               ("/v1/messages/count_tokens", False), ("/infill", False), ("/api/chat", False)):
            equal(path in paths, is_there, path)
            equal(server.post(path, {"model": "a", "messages": [{"role": "user", "content": "x"}], "input": "x", "prompt": "x",
                                     "input_prefix": "x", "max_tokens": 1})[0], 200 if is_there else 400, path)
        check("401" in paths["/v1/completions"]["post"]["responses"], "a key is asked for")
        equal(server.post(COMPLETIONS, {"prompt": "x", "model": "b"})[1]["model"], "b", "model")
        status, headers, _ = server.request("GET", "/health", headers={"Origin": "https://page.example"})
        equal((status, headers["Access-Control-Allow-Origin"]), (200, "https://page.example"), "CORS")
        equal(server.request("GET", "/health", headers={"Origin": "https://other.example"})[0], 403, "CORS")
        asked = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
        server.key = None
        status, headers, _ = server.request("OPTIONS", "/v1/chat/completions", headers=asked)
        equal((status, "authorization" in headers.get("Access-Control-Allow-Headers", "").lower()), (204, True),
              "a browser's question before")
        for words, wanted in (("x-stainless-os,x-api-key", "x-stainless-os,x-api-key"),
                              ("x: y", "Authorization, Content-Type"), ("", "Authorization, Content-Type")):
            headers = server.request("OPTIONS", "/v1/models",
                                     headers=dict(asked, **{"Access-Control-Request-Headers": words}))[1]
            equal((headers["Access-Control-Allow-Headers"], headers["Vary"]),
                  (wanted, "Access-Control-Request-Headers"), "headers that a page asks for", words)
        # Nobody hears of what others have asked by how soon it is read.
        equal([cached(server, key) for key in ("first-key", "first-key", "second-key", "second-key", "first-key")],
              [0, 64, 0, 64, 64], "cached tokens of a prompt that keys share")
        check("-key" not in "".join(server.log), "no key may be logged")


SHIM = os.path.join(os.environ["KT_TEST_BUILD"], ".libs/serve_clock.so")
SET_BACK = {"LD_PRELOAD": SHIM, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
if not os.path.exists(SHIM):
    print("not run: a clock that is set back: serve_clock.so was not built")
    SET_BACK = {}


def test_bodies():
    # Somebody sets the clock back by an hour.
    with Process("--max-body", "1024", "--timeout", "1", "--context", "64", environment=SET_BACK) as server:
        server.error("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, 400,
                     code="no_chat_template")
        server.error("/tokenize", {"content": "KATHARINA", "add_special": "ROMEO"}, 400, param="add_special")
        equal(server.request("POST", "/tokenize", b"{KATHARINA}")[0], 400, "no JSON")
        status, reply = server.post("/tokenize", {"prompt": "x" * 2000})
        equal((status, reply["error"]["code"]), (413, "body_too_large"), "a long body")
        chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        reply = server.raw(head + chunk * 2 + b"0\r\n\r\n", end=False)
        check(b" 413 " in reply.split(b"\r\n")[0], "a long body in chunks", reply[:100])
        equal(server.raw(head + chunk * 200), b"", "a very long one")
        equal(server.post("/tokenize", {"prompt": "x" * 900})[0], 200, "a body that fits")
        # A body that comes too slowly, and one that never comes.
        with socket.create_connection(("127.0.0.1", server.port), 20) as s:
            s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n")
            try:
                sent = 0
                while sent < 900 and not select.select([s], [], [], 0.1)[0]:  # until it is closed
                    sent += s.send(b" ")
            except OSError:
                pass
            check(sent < 900, "a slow body must be closed")
        # Heads that come byte by byte, the first one and a later one of a connection.
        for begin_with in (b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), 20) as s:
                s.sendall(begin_with)
                check(not begin_with or b" 200 " in s.recv(1000), "a request before")
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: ")
                try:
                    sent = 0
                    while sent < 900 and not select.select([s], [], [], 0.1)[0]:
                        sent += s.send(b"y")
                except OSError:
                    pass
                check(sent < 900, "a head that comes slowly must be closed")
        reply = server.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n", end=False)
        check(b"<timeout>" not in reply, "a body that never comes")
        equal(server.get("/health")[0], 200, "still there")
    for status, n in (("408", 2), ("413", 3)):
        logged = [line for line in server.log if '"POST /tokenize" %s ' % status in line]
        equal(len(logged), n, "lines in the log", "".join(server.log)[-1000:])
    for path, status, why in (("/v1/chat/completions", 400, "no_chat_template"), ("/tokenize", 413, "body_too_large"),
                              ("/tokenize", 400, "add_special"), ("/tokenize", 400, "the body is not valid JSON")):
        check(any(re.search('"POST %s" %d [0-9.]+ s \\(%s\\)\n$' % (path, status, why), line) for line in server.log),
              "why a request is refused", why, server.log)


# What is freed goes back to the system at once, also with sanitizers.
FRUGAL = {"MALLOC_MMAP_THRESHOLD_": "131072",
          "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1"}


def test_memory():
    with Process("--api-key", "key", "--max-body", str(32 << 20), environment=FRUGAL) as server:
        before = memory(server, "VmHWM")
        equal(server.request("GET", "/health", body=b" " * (30 << 20))[0], 200, "a GET with a body")
        grown = memory(server, "VmHWM") - before
        check(grown < 15 << 20, "the body of a GET must not be kept: memory grew by", grown)
    with Process(*SLOW, "--max-body", str(32 << 20), environment=FRUGAL) as server:
        before = memory(server, "VmRSS")
        held = begin(server, dict(LONG, stream=True, unknown="x" * (20 << 20), stop=["\u0001"]))
        check(b" 200 " in held.recv(100), "a stream begins")
        grown = memory(server, "VmRSS") - before
        check(grown < 15 << 20, "the body must go when the prompt is read: memory grew by", grown)
        held.close()
    path = os.path.join(folder, "divides.jinja")
    with open(path, "w") as file:
        file.write("{% if boom is string %}{{ raise_exception(boom) }}{% endif %}{{ 1 // (0 if boom else 1) }}")
    with Process("--context", "64", "--measure-memory", "--chat-template", path) as server:
        for boom, said in (True, "divides.jinja:1:73: division by zero"), (folder + "/x", folder + "/x"):
            reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}],
                                                         "chat_template_kwargs": {"boom": boom}})
            equal((reply[0], reply[1]["error"]["message"]), (400, said), "what a template says, without the server's folders")
        body = {"prompt": "x", "max_tokens": 30, "ignore_eos": True}
        fraction = server.post(COMPLETIONS, body)[1]["timings"]["fraction_of_limit"]
        numbers = server.metrics()
        most = numbers["kt_memory_bytes_per_second"] * numbers["kt_model_seconds_total"]
        wanted = numbers["kt_step_bytes_total"] / most
        check(0 < fraction and abs(numbers["kt_bandwidth_fraction"] / wanted - 1) < 1e-6, "fractions", fraction, wanted)
        # 29 steps and the prompt's read no less than weights without experts, and no more than all.
        each = numbers["kt_step_bytes_total"] / numbers["kt_steps_total"]
        check(1e6 < each < 6e6, "bytes of a step", each)
        for n, wanted in ((1 << 17, 200), ((1 << 20) + 1, 400)):
            body = b'{"prompt": "x", "unknown": [0' + b",0" * n + b"]}"
            equal(server.request("POST", "/tokenize", body)[0], wanted, n, "values")
        equal(server.post("/tokenize", {"prompt": "x", "unknown": ",[" * (1 << 20)})[0], 200, "brackets of a string")
        head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (5 << 20)
        check(b" 413 " in server.raw(head, end=False)[:20], "5 MiB, which is above the default")


def test_calls_without_text():
    """A message of calls has no content: some templates need the null, others fail at it."""
    call = "{{ m.tool_calls[0].function.name }}{{ m.tool_calls[0].function.arguments | tojson }}"
    shapes = ("{% if m.content is none %}" + call + "{% else %}{{ 'A' + m.content }}{% endif %}",
              "{{ m.content + '' }}{% if m.tool_calls %}" + call + "{% endif %}",
              "{{ m.content | tojson }}{% if m.tool_calls %}" + call + "{% endif %}")
    for number, shape in enumerate(shapes):
        path = os.path.join(folder, f"calls{number}.jinja")
        with open(path, "w") as file:
            file.write("{% for m in messages %}{% if m.role == 'assistant' %}" + shape +
                       "{% elif m.role == 'tool' %}{{ m.tool_call_id }}={{ m.content }}{% else %}{{ m.content }}{% endif %}{% endfor %}")
        with Process("--context", "1024", "--chat-template", path) as server:
            sizes = []
            for name in "f", "f" * 300:
                messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}]},
                    {"role": "tool", "tool_call_id": "c1", "content": "x"}]
                status, reply, *_ = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1})
                equal(status, 200, shape, reply)
                sizes.append(reply["usage"]["prompt_tokens"])
            check(sizes[1] > sizes[0] + 30, "the call is shown", shape, sizes)


def test_many_values():
    """Bodies of 0.9 MB that take 60 MB each when they are parsed, at once."""
    with Process(environment=FRUGAL) as server:
        before = memory(server, "VmHWM")
        body = b'{"prompt": "x", "unknown": [' + b"{}," * 300000 + b"0]}"
        said = []
        threads = [threading.Thread(target=lambda: said.append(server.request("POST", "/tokenize", body)[0]))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(said, [200] * 8, "bodies of many values")
        grown = memory(server, "VmHWM") - before
        check(grown < 300 << 20, "they must be parsed in turns: memory grew by", grown)


def test_queue():
    with Process("--max-running", "1", "--max-queue", "1", "--timeout", "1", *SLOW) as server:
        # Some seconds, of which comments come each quarter.
        first = begin(server, dict(LONG, max_tokens=1500))
        server.wait_metric("kt_running", lambda n: n == 1)
        second = begin(server, dict(LONG, max_tokens=5, stream=True))
        server.wait_metric("kt_queue_depth", lambda n: n == 1)
        status, headers, body = server.request("POST", COMPLETIONS, LONG)
        equal((status, json.loads(body)["error"]["code"]), (429, "queue_full"), "a full queue")
        check(int(headers["Retry-After"]) > 0, "Retry-After")
        waited = read_all(second)  # also longer than --timeout
        check(b"\n: keep-alive, prompt " in waited, "comments while a stream waits", waited[:500])
        check(waited.rstrip(b"\r\n0").endswith(b"data: [DONE]"), "the stream is whole", waited[-100:])
        check(b" 200 OK" in read_all(first)[:20], "the first one")
        # A server that was held up for longer than --timeout continues with its streams.
        held = begin(server, dict(LONG, max_tokens=400, stream=True))
        check(b" 200 OK" in held.recv(100), "a stream begins")
        server.process.send_signal(signal.SIGSTOP)
        select.select([], [], [], 1.5)
        server.process.send_signal(signal.SIGCONT)
        waited = read_all(held)
        check(waited.rstrip(b"\r\n0").endswith(b"data: [DONE]"), "a stream beside a pause", waited[-100:])
        # The client that has waited in the queue, and hangs up there.
        first, second = begin(server, LONG), None
        server.wait_metric("kt_running", lambda n: n == 1)
        second = begin(server, LONG)
        server.wait_metric("kt_queue_depth", lambda n: n == 1)
        second.close()
        server.wait_metric("kt_queue_depth", lambda n: n == 0)
        first.close()
        server.wait_metric("kt_running", lambda n: n == 0)


def test_turns():
    keys = os.path.join(folder, "two")
    with open(keys, "w") as file:
        file.write("one\ntwo\n")
    os.chmod(keys, 0o600)
    with Process("--api-key-file", keys, "--max-running", "1", "--max-queue", "8", "--share-prefixes", *SLOW) as server:
        server.key = "two"
        said = (b"Bearer one", b"bearer one", b"Other\r\nX-Api-Key: one", b"BEARER one")
        held = [begin(server, dict(LONG, max_tokens=300), b"Authorization: Bearer two\r\n")]
        server.wait_metric("kt_running", lambda n: n == 1)
        for i, words in enumerate((b"Bearer two", *said)):
            held.append(begin(server, dict(LONG, max_tokens=i + 2), b"Authorization: " + words + b"\r\n"))
            server.wait_metric("kt_queue_depth", lambda n, i=i: n == i + 1)
        for s in held:
            check(b" 200 " in read_all(s)[:20], "an answer")
        # Nor does one key fill the queue: the last place is another's.
        one, two = b"Authorization: Bearer one\r\n", b"Authorization: Bearer two\r\n"
        held = [begin(server, LONG, one)]
        server.wait_metric("kt_running", lambda n: n == 1)
        held += [begin(server, LONG, one) for _ in range(7)]
        server.wait_metric("kt_queue_depth", lambda n: n == 7)
        refused = read_all(begin(server, LONG, one))
        check(b" 429 " in refused[:20] and b"of this client" in refused, "one client's share", refused)
        held.append(begin(server, LONG, two))
        server.wait_metric("kt_queue_depth", lambda n: n == 8)
        for s in held:
            s.close()
        server.wait_metric("kt_queue_depth", lambda n: n == 0)  # none runs between two of them, either
        server.wait_metric("kt_running", lambda n: n == 0)
        equal((cached(server, "one"), cached(server, "two")), (0, 64), "cached tokens with --share-prefixes")
    answers = [int(n) for n in re.findall(r"answer (\d+) tokens", "".join(l for l in server.log if "hung up" not in l))]
    equal([n for n in answers if 3 <= n < 300], [3, 4, 5, 6], "one key is one client, however it is spelled")


FAULTS = {signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS, signal.SIGABRT}


def blocked(pid):
    """The faults that some thread blocks, each of which would end the process without a message."""
    found = set()
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/status" % (pid, thread)) as file:
                mask = int(re.search(r"SigBlk:\s+(\w+)", file.read()).group(1), 16)
        except (FileNotFoundError, ProcessLookupError):
            continue  # that of a connection which has ended
        found |= {fault for fault in FAULTS if mask >> fault - 1 & 1}
    return found


def test_shrinks():
    """A model that becomes shorter while it is mapped, also where whoever starts kt has blocked the signal of that."""
    path = os.path.join(folder, "shrinks.gguf")
    for words, before in ((), None), (SLOW, lambda: signal.pthread_sigmask(signal.SIG_BLOCK, FAULTS)):
        shutil.copyfile(model, path)
        server = Process("--context", "64", *words, served=path, before=before)
        equal(server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1})[0], 200, "before the file shrinks")
        equal(blocked(server.process.pid), set(), "blocked signals of faults")
        os.truncate(path, 20000)
        equal(read_all(begin(server, {"prompt": "other", "max_tokens": 1})), b"", "an answer without weights")
        server.wait(1)
        said = [line for line in server.log if line.startswith("kt: error: ")]
        wanted = "kt: error: a mapped file shrank or could not be read: %s; " % path
        check(len(said) == 1 and said[0].startswith(wanted) and said[0].endswith(" --io read\n"), "the message", server.log)
    shutil.copyfile(model, path)
    with Process("--context", "64", "--io", "read", served=path) as server:
        os.truncate(path, 20000)
        equal(server.post(COMPLETIONS, {"prompt": "other", "max_tokens": 1})[0], 200, "a file that was read")


def test_signals():
    # Notices to systemd, by an abstract socket.
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    name = "kt-test-%d" % os.getpid()
    notices.bind("\0" + name)
    notices.settimeout(60)
    got = []

    def hear():
        try:
            while not got or b"STOPPING=1" not in got[-1]:
                got.append(notices.recv(1000))
        except OSError as error:
            check(False, "notices", error, got)

    listener = threading.Thread(target=hear)
    listener.start()
    server = Process("--drain", "600", *SLOW, environment={"NOTIFY_SOCKET": "@" + name})
    # SIGTERM: who is being answered gets all of it, others nothing.
    s = begin(server, LONG)
    server.wait_metric("kt_running", lambda n: n == 1)
    server.process.terminate()
    listener.join()
    check(any(b"READY=1" in notice for notice in got), "READY=1", got)
    try:
        status = server.request("GET", "/v1/models")[0]
    except OSError:
        status = 0
    check(status in (0, 503), "a new request while it drains", status)
    reply = read_all(s)
    check(b'"finish_reason":"length"' in reply, "the answer is whole", reply[-300:])
    server.wait(0)
    # Without time to drain, answers are cut, and say so. Nobody reads the notices now, which must not stop it.
    server = Process("--drain", "0", *SLOW, environment={"NOTIFY_SOCKET": "@" + name})
    whole, stream = (begin(server, dict(LONG, max_tokens=1900, stream=streams)) for streams in (False, True))
    server.wait_metric("kt_running", lambda n: n == 2)
    server.process.send_signal(signal.SIGINT)
    check(b" 503 " in read_all(whole)[:20], "a reply that is cut")
    check(b'data: {"error":' in read_all(stream), "a stream that is cut")
    server.wait(0)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
