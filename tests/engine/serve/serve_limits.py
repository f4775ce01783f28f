# SPDX-License-Identifier: Apache-2.0
"""Keys, limits and signals, with servers of its own: serve_limits.py MODEL FOLDER KT"""
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from serve_client import Server, check, equal, finish

model, folder, kt = sys.argv[1:]
# What takes a second or more on any machine: the reference backend is slow everywhere.
SLOW = ("--backend", "reference")
LONG = {"prompt": "ROMEO:", "max_tokens": 700, "ignore_eos": True, "temperature": 0}
COMPLETIONS = "/v1/completions"


class Process(Server):
    """A server that was started with `words`; `with` ends it."""

    def __init__(self, *words, environment=None):
        self.process = subprocess.Popen([kt, "run", model, "--port", "0", "--threads", "2", *words],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))
        self.log, self.is_ready, port = [], threading.Event(), []

        def read():
            for line in self.process.stderr:
                self.log.append(line)
                found = re.search(r"ready: http://.*:(\d+)$", line)
                if found:
                    port.append(int(found.group(1)))
                    self.is_ready.set()
            self.is_ready.set()

        self.reader = threading.Thread(target=read)
        self.reader.start()
        self.is_ready.wait(120)
        if not port:
            sys.exit("no server: " + "".join(self.log))
        super().__init__(port[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.wait(0)

    def wait(self, code):
        try:
            equal(self.process.wait(60), code, "exit status", "".join(self.log)[-2000:])
        except subprocess.TimeoutExpired:
            self.process.kill()
            check(False, "the server did not end")
        self.reader.join()
        check("Sanitizer" not in "".join(self.log), "".join(self.log)[-3000:])


def memory(server, what):
    """Bytes: VmRSS now, VmHWM at most."""
    with open("/proc/%d/status" % server.process.pid) as file:
        return int(re.search(what + r":\s+(\d+) kB", file.read()).group(1)) << 10


def begin(server, body, headers=b""):
    """Sends a request and leaves the answer in the socket."""
    data = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", server.port), 60)
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
              b"Content-Length: %d\r\n\r\n" % len(data) + data)
    return s


def read_all(s):
    data = b""
    while True:
        try:
            piece = s.recv(65536)
        except OSError:
            return data
        if not piece:
            return data
        data += piece


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
        server.key = "second-key"
        equal([m["id"] for m in server.get("/v1/models")[1]["data"]], ["a", "b"], "names")
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


def test_bodies():
    with Process("--max-body", "1024", "--timeout", "1", "--context", "64") as server:
        server.error("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, 400,
                     code="no_chat_template")
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
    with Process("--context", "64", "--measure-memory") as server:
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
        # A server that was held up for longer than --timeout goes on with its streams.
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


def test_connections():
    with Process("--max-connections", "2", "--context", "2048", *SLOW) as server:
        held = [begin(server, LONG) for _ in range(2)]
        end = time.monotonic() + 20
        status = 0
        while status != 503 and time.monotonic() < end:
            status, headers, body = server.request("GET", "/health")
        equal(status, 503, "more requests than --max-connections")
        equal(json.loads(body)["error"]["code"], "too_many_connections", "code")
        check("Retry-After" in headers, "Retry-After")
        for s in held:
            s.close()


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
