# SPDX-License-Identifier: Apache-2.0
"""Malformed requests, from a seed: serve_fuzz.py PORT COUNT SEED. Each is answered or closed, none is answered
with a 5xx that says it is the server's fault, and beside them a client is answered as ever."""
import copy
import json
import random
import re
import socket
import sys
import threading

from serve_client import Server, check, equal, finish

port, count, seed = (int(word) for word in sys.argv[1:4])
server = Server(port)
PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
         "/tokenize", "/detokenize", "/apply-template", "/v1/embeddings", "/embedding", "/api/embed", "/v1/models",
         "/v1/models/x", "/health", "/metrics", "/version", "/", "/nowhere", "*", "http://localhost/health", "https://[::1]:1",
         "http://localhost@x/", "http:///", "HTTP://a.localhost/tokenize"]
GOOD = [{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "temperature": 0},
        {"prompt": "ROMEO:", "max_tokens": 2, "stop": ["x"], "logit_bias": {"1": 1}, "seed": 3},
        {"prompt": ["a", "b"], "n": 2, "max_tokens": 1, "stream": True, "stream_options": {"include_usage": True}},
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]},
                      {"role": "assistant", "content": None, "tool_calls": [
                          {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                      {"role": "tool", "tool_call_id": "c", "content": "1"}],
         "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
         "max_tokens": 2, "logprobs": True, "top_logprobs": 2, "stream": True},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                      {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "tool_use", "id": "x",
                                                         "name": "f", "input": {"a": 1}}]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [
                          {"type": "search_result", "content": [{"type": "text", "text": "t"}]}]}, {
                              "type": "document", "source": {"type": "text", "data": "d"}}]},
                      {"role": "assistant", "content": "So"}], "system": [{"type": "text", "text": "s"}],
         "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "auto"}, "thinking": {"type": "enabled"},
         "max_tokens": 2, "stop_sequences": ["x"], "stream": True, "output_config": {"effort": "low"}},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                   {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
                   {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"},
                   {"type": "function_call_output", "call_id": "x", "output": "1"}], "instructions": "i",
         "tools": [{"type": "function", "name": "f", "parameters": {}}], "text": {"format": {"type": "text"}},
         "max_output_tokens": 2, "stream": True, "reasoning": {"effort": "low"}, "store": False, "metadata": {}},
        {"input": ["a", [1, 2]], "encoding_format": "base64", "dimensions": 3, "embd_normalize": 3},
        {"model": "tiny-moe-q4_k_m", "input": "a", "truncate": False, "dimensions": 2},
        {"tokens": [1, 2, 3]}, {"content": "text", "with_pieces": True, "add_special": False}]
ODD = [None, True, -1, 0, 1.5, 1e308, 2 ** 62, -2 ** 63, "", "x", "\u0000", "\ud800", "<|im_end|>", [], {}, [[]],
       [None], {"": None}, "a" * 5000, ["x"] * 100, {"type": "json_schema"}, [{}], "\U0001f600", "{{ x }}", "{% for %}"]


def places(value, found, parent=None, key=None):
    if parent is not None:
        found.append((parent, key))
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, v in items:
        places(v, found, value, k)
    return found


def make_body(rng):
    """A request whose values, or bytes, are not what they must be."""
    value = json.loads(json.dumps(rng.choice(GOOD)))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        parent, key = rng.choice(places(value, []) or [(value, "x")])
        how = rng.randrange(4)
        if how == 0 and isinstance(parent, dict):
            parent.pop(key, None)
        elif how == 1 and isinstance(parent, dict):
            parent[rng.choice(("tools", "stop", "messages", "prompt", "n", "seed", "tool_choice", "top_p",
                               "response_format", "chat_template_kwargs", "reasoning_effort", "model", "echo",
                               "logprobs", "stop_token_ids", "min_tokens", "x\u00e9", "input", "system", "store",
                               "continue_final_message", "output_config", "content", "role", "type", "name"))] = copy.deepcopy(rng.choice(ODD))
        else:
            parent[key] = copy.deepcopy(rng.choice(ODD))
    data = bytearray(json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice((0, 0, 0, 1, 3, 10))):
        at = rng.randrange(len(data))
        how = rng.randrange(3)
        if how == 0:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at:at + rng.randrange(1, 9)]
            data = data or bytearray(b"{")
        else:
            data[at:at] = bytes(rng.choice(b'{}[]",:\\ue+-0\x00\xff\xc3') for _ in range(rng.randrange(1, 40)))
    return bytes(data)


def make_request(rng):
    body = make_body(rng) if rng.random() < 0.85 else bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    method = rng.choice(("POST",) * 12 + ("GET", "HEAD", "PUT", "OPTIONS", "DELETE", "TRACE", "x" * 50, "p\xf6st"))
    path = rng.choice(PATHS[:11] if rng.random() < 0.8 else PATHS)
    if rng.random() < 0.1:
        path += rng.choice(("/", "?a=b", "%00", "%ff", "/../../etc/passwd", "#", "?" + "q" * 3000, " x", "\t"))
    version = rng.choice(("HTTP/1.1",) * 20 + ("HTTP/1.0", "HTTP/9.9", "HTP", "", "HTTP/1.1\x00"))
    headers = ["Host: localhost", "Connection: close"]
    sent = body
    if rng.random() < 0.15:
        sent = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
        sent += rng.choice((b"0\r\n\r\n", b"", b"0\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"z\r\n"))
        headers.append("Transfer-Encoding: chunked")
        if rng.random() < 0.2:
            headers.append("Content-Length: 5")
    else:
        length = rng.choice([str(len(body))] * 12 + ["-1", "x", "", "99999999999999999999", "0", str(len(body) + 9),
                                                     "1 2", "+3"])
        headers.append("Content-Length: " + length)
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        headers.append(rng.choice(("Host: evil.example", "Origin: null", "X: " + "y" * 5000, ": x", "noColon",
                                   " folded", "Authorization: Bearer " + "k" * 300, "Expect: 100-continue",
                                   "Content-Encoding: gzip", "Transfer-Encoding: gzip", "A\x00: b", "Host:",
                                   "Connection: upgrade", "Cookie: a=b; c", "Content-Type: \xff")))
    rng.random() < 0.9 or rng.shuffle(headers)
    head = "%s %s %s\r\n%s\r\n\r\n" % (method, path, version, "\r\n".join(headers))
    data = head.encode("latin-1") + sent
    return data[:rng.randrange(len(data))] if rng.random() < 0.08 else data


def work(numbers):
    for number in numbers:
        rng = random.Random(seed * 1000003 + number)
        data = make_request(rng)
        try:
            # Whoever closes the sending half gets no answer of the model's; many do, as they need not wait for
            # the server to lose patience.
            reply = server.raw(data, end=rng.random() < 0.7, parts=rng.choice((2, 9)) if rng.random() < 0.03 else 1)
        except OSError as error:
            check(False, "request", number, data[:300], error)
            return
        line = reply.split(b"\r\n")[0]
        check(not reply or line.startswith(b"HTTP/1."), "request", number, data[:400], "answered", reply[:200])
        check(b"<timeout>" not in reply, "request", number, data[:400], "was not answered")
        check(b" 5" not in line[8:10] or b" 505 " in line or b" 501 " in line, "request", number, data[:600], "answered", reply[:300])
        head, _, body = reply.partition(b"\r\n\r\n")
        if b"application/json" in head and b"Content-Length" in head and body:
            try:
                length = int(re.search(rb"\nContent-Length: (\d+)", head).group(1))
                check(line[9:10] == b"2" or "error" in json.loads(body[:length]), "request", number, data[:300], "answered", reply)
            except ValueError:
                check(False, "request", number, data[:300], "is answered by what is not JSON:", reply[:300])
        check(b"root:" not in reply, "request", number, "reads a file")


def watch(stopped):
    """Another client, who must not notice any of that."""
    body = {"prompt": "KATHARINA:\nI pray you,", "temperature": 0, "max_tokens": 6}
    wanted = server.post("/v1/completions", body)[1]["choices"]
    while not stopped.wait(0.1):
        status, reply = server.post("/v1/completions", body)
        if not equal((status, reply.get("choices")), (200, wanted), "beside malformed requests"):
            return


stopped = threading.Event()
watcher = threading.Thread(target=watch, args=(stopped,))
watcher.start()
threads = [threading.Thread(target=work, args=(range(i, count, 16),)) for i in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
stopped.set()
watcher.join()
server.wait_metric("kt_running", lambda n: n == 0)
server.wait_metric('kt_kv_pages{state="used"}', lambda n: n == 0)
equal(server.get("/health")[0], 200, "/health at the end")
print("%d malformed requests" % count)
finish()
