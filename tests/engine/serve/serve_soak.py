# SPDX-License-Identifier: Apache-2.0
"""Streams beside each other, of which some hang up, are cancelled in the queue or ask for too much, for a while:
serve_soak.py PORT PID SECONDS STREAMS SEED. Whoever stays is answered as if he were alone; at the end nothing is held.
The server's model is that of serve_script.py."""
import collections
import json
import random
import re
import select
import socket
import sys
import threading
import time

from serve_client import Server, check, equal, finish
from serve_script import SAID

port, pid, seconds, n_streams, seed = (int(word) for word in sys.argv[1:6])
server = Server(port)
counts = collections.Counter()
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
TEXTS = {script: "".join(b[1] for b in blocks if b[0] == "text") for script, blocks in SAID.items()}


def rss():
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))


def make_body(rng, script, padding):
    text = "word " * padding + "go " + script
    path = rng.choice(("/v1/chat/completions", "/v1/messages", "/v1/responses"))
    body = {"temperature": 0, "stream": rng.random() < 0.8}
    body["max_output_tokens" if path == "/v1/responses" else "max_tokens"] = 40 if script != "l" else 4000
    body["input" if path == "/v1/responses" else "messages"] = [{"role": "user", "content": text}]
    if path == "/v1/chat/completions":
        body["tools"] = TOOLS
    return path, body


def send(path, body):
    data = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", port), 120)
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" %
              (path.encode(), len(data)) + data)
    return s


def read(s, most=1 << 30):
    data = b""
    while len(data) < most:
        piece = s.recv(min(65536, most - len(data)))
        if not piece:
            break
        data += piece
    return data


def stay(rng):
    script = rng.choice("arcb")
    path, body = make_body(rng, script, rng.choice((0, 0, 5, 40, 120)))
    if path != "/v1/chat/completions":
        script = rng.choice("ar")  # no tools there
        path, body = path, dict(body)
        for message in body.get("input", body.get("messages")):
            message["content"] = message["content"][:-1] + script
    if body["stream"]:
        with send(path, body) as s:
            data = read(s).decode()
        said = re.findall(r'"(?:content|text|delta)":"((?:[^"\\]|\\.)*)"', data) if path == "/v1/chat/completions" else \
            re.findall(r'"(?:text_delta","text|output_index":\d+,"delta)":"((?:[^"\\]|\\.)*)"', data)
        text = json.loads('"' + "".join(said) + '"')
        wanted = TEXTS[script] if path != "/v1/responses" or script == "a" else SAID[script][0][1] + TEXTS[script]
        equal(text, wanted, path, "a stream beside others", data[:300])
    else:
        status, reply = server.post(path, body, timeout=120)
        if equal(status, 200, path, reply):
            check(json.dumps(TEXTS[script])[1:-1] in json.dumps(reply), path, "a reply beside others", reply)
    counts["answered"] += 1


def hang_up(rng):
    path, body = make_body(rng, rng.choice("lllarcb"), rng.choice((0, 5, 100)))
    with send(path, body) as s:
        read(s, rng.randrange(1, 20000) if body["stream"] else 0)
        select.select([s], [], [], rng.random() * 0.05)  # one who loses patience
    counts["hung up"] += 1


def ask_too_much(rng):
    path, body = make_body(rng, "a", 1000)
    status, reply = server.post(path, body, timeout=120)
    check(status == 400 and "tokens" in reply["error"]["message"], path, "a prompt that is too long", status, reply)
    counts["too long"] += 1


def work(number, until):
    rng = random.Random(seed * 1000 + number)
    while time.monotonic() < until:
        try:
            rng.choice((stay, stay, stay, hang_up, hang_up, ask_too_much))(rng)
        except OSError as error:
            check(False, "stream", number, repr(error))
            return


def run(until):
    threads = [threading.Thread(target=work, args=(i, until)) for i in range(n_streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


begin = time.monotonic()
run(begin + seconds / 5)  # until all that is kept has been allocated
before = rss()
run(begin + seconds)
for name in ("kt_running", "kt_queue_depth", 'kt_kv_pages{state="used"}'):
    server.wait_metric(name, lambda n: n == 0)
server.wait_metric("kt_requests", lambda n: n <= 1)  # that which asks
after = rss()
print("%d s, %d streams: %s; RSS %d kB after a fifth of the time, %d kB at the end; pages used: 0" %
      (seconds, n_streams, ", ".join("%d %s" % (n, what) for what, n in sorted(counts.items())), before, after))
if seconds >= 100:
    check(after < before * 1.02, "RSS has grown from", before, "to", after, "kB")
finish()
