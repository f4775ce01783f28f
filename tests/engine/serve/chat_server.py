# SPDX-License-Identifier: Apache-2.0
"""A server of OpenAI's API that answers as its tests ask: the last message says how, or is echoed. Its faults are
those that servers, proxies and networks have."""
import gzip
import http.server
import json
import threading

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def event(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps(dict({"choices": [choice]}, **more)).encode() + b"\n\n"


def content(text):
    return event({"content": text})


USAGE = b"data: " + json.dumps({"choices": [], "usage": {
    "prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}}).encode() + b"\n\n"
END = event({}, "stop") + USAGE + b"data: [DONE]\n\n"
LOST = "é and 世界"

# What is sent for a question, byte strings one by one; then the connection is closed.
STREAMS = {
    "greet": [HEAD, event({"role": "assistant", "content": ""}), content("Hel"), content("lo"), END],
    "reason": [HEAD, event({"reasoning_content": "Let me think."}), content("Done."), END],
    "bytes": [HEAD] + [bytes([b]) for b in b"data: " + json.dumps(
        {"choices": [{"delta": {"content": LOST}}]}, ensure_ascii=False).encode() + b"\n\n"] + [END],
    "half": [HEAD, b'data: {"choices":[{"delta":{"content":"a\xe4\xb8 b\xff"}}]}\n\n', END],
    "nul": [HEAD, content("a\0b"), END],
    "lines": [HEAD, b": a comment\r\n\r\nevent: x\r\nid: 1\r\ndata: {\"choices\":\r\n"
              b"data:[{\"delta\":{\"content\":\"two lines\"}}]}\r\n\r\n", END.replace(b"\n", b"\r")],
    "unended": [HEAD, content("whole"), event({}, "stop")],
    "long": [HEAD, content("cut"), event({}, "length"), b"data: [DONE]\n\n"],
    "call": [HEAD, event({"tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}), content("x"), END],
    "escape": [HEAD, content("\x1b]0;owned\x07 \x1b[2J \x9b31m \x7f \u2028"), END],
    "hangup": [HEAD, content("only a part")],
    "broken": [HEAD, content("before"), b"data: {nonsense\n\n"],
    "mark": [HEAD, b"\xef\xbb\xbf" + content("marked"), END],
    "empty": [HEAD, b"data\n\ndata:\n\n", content("not empty"), b"data: \n\n", END],
    "surrogates": [HEAD, b'data: {"choices":[{"delta":{"content":"\\ud83d \\\\ud83d\\uDe00\\ud83d\\ude00\\ud83d\\n"}}]}\n\n', END],
    "zipped": [HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"), gzip.compress(content("unzipped") + END)],
    "moved": [b"HTTP/1.1 307 x\r\nLocation: https://127.0.0.1:1/\x1b[31m\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"],
    "header": [b"HTTP/1.1 200 OK\r\nX: "] + [b"x" * 65536] * 4,
    "headers": [b"HTTP/1.1 200 OK\r\n"] + [b"X: " + b"x" * 5000 + b"\r\n"] * 100,
    "list": [HEAD, b"data: [1]\n\n"],
    "deep": [HEAD, b"data: " + b'{"a":' * 5000 + b"\n\n"],
    "error": [HEAD, content("begun"), b'data: {"error":{"message":"out of \\u001b[31mluck"}}\n\n'],
    "endless": [HEAD, b"data: "] + [b"x" * 65536] * 80,
    "event": [HEAD] + [b"data: " + b"x" * 65536 + b"\n"] * 80,
    "whole": [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
              b'{"choices":[{"message":{"content":"no stream"}}]}'],
    "chunked": [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"ff\r\ndata: {"],
    "nothing": [],
    "huge": [b"HTTP/1.1 500 no\r\nConnection: close\r\n\r\n"] + [b"<html>" * 10000] * 30,
}
REFUSALS = {
    "refuse": (400, {"error": {"message": "that cannot be", "code": None}}),
    "full": (400, {"error": {"message": "the prompt has 900 tokens; it may have 100", "code": "context_length_exceeded"}}),
    "key": (401, {"error": {"message": "no key"}}),
    "busy": (429, {"error": "too many"}),
    "proxy": (502, "<html>"),
}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.requests = []  # of chats, as (headers, body)
        self.gone = threading.Event()  # a client has closed a slow answer
        self.begun = threading.Event()
        self.models = [(200, {"data": [{"id": "first", "max_model_len": 100}, {"id": "second"}]})]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that has gone is what some tests want

    def said(self):
        """The last request's messages, as (role, content)."""
        return [(m["role"], m["content"]) for m in self.requests[-1][1]["messages"]]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, value):
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        models = self.server.models
        self.reply(*(models.pop(0) if len(models) > 1 else models[0]))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((dict(self.headers), body))
        question = body["messages"][-1]["content"]
        self.close_connection = True
        if question in REFUSALS:
            return self.reply(*REFUSALS[question])
        if question == "slow":
            return self.dawdle()
        for piece in STREAMS.get(question, [HEAD, content("<" + question + ">"), END]):
            self.wfile.write(piece)
            self.wfile.flush()

    def dawdle(self):
        """Says something, and then waits until the client has gone."""
        self.wfile.write(HEAD + content("so far"))
        self.wfile.flush()
        self.server.begun.set()
        self.connection.settimeout(30)
        if not self.connection.recv(1):
            self.server.gone.set()
