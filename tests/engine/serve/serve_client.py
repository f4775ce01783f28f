# SPDX-License-Identifier: Apache-2.0
"""What the tests of kt run share: requests by http.client and by bare sockets, and counted checks."""
import http.client
import json
import select
import socket
import sys
import time

failed = []


def check(holds, *what):
    if not holds:
        failed.append(what)
        print("FAILED:", *what, file=sys.stderr)
    return holds


def equal(got, wanted, *what):
    return check(got == wanted, *what, "is", repr(got)[:600], "and must be", repr(wanted)[:600])


def finish():
    print("%d checks failed" % len(failed) if failed else "all checks passed")
    sys.exit(1 if failed else 0)


class Server:
    def __init__(self, port, key=None):
        self.port, self.key = port, key

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Status, headers, body as bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = {} if self.key is None else {"Authorization": "Bearer " + self.key}
        sent.update(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, sent)
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply.status, dict(reply.getheaders()), data

    def get(self, path, **more):
        status, _, data = self.request("GET", path, **more)
        return status, json.loads(data)

    def post(self, path, body, **more):
        status, _, data = self.request("POST", path, body, **more)
        return status, json.loads(data)

    def error(self, path, body, status, param=None, code=None, holds=""):
        """The request must be refused so, in OpenAI's form."""
        got, reply = self.post(path, body)
        what = (path, json.dumps(body)[:200])
        if not equal(got, status, *what, "status (%s)" % json.dumps(reply)[:200]):
            return
        error = reply.get("error", {})
        equal(sorted(error), ["code", "message", "param", "type"], *what, "error")
        if param is not None:
            equal(error.get("param"), param, *what, "param")
        if code is not None:
            equal(error.get("code"), code, *what, "code")
        check(holds in error.get("message", ""), *what, "message:", error.get("message"), "must hold", holds)

    def stream(self, path, body, headers=None):
        """The events' data, decoded, and whether [DONE] came."""
        body = dict(body, stream=True)
        status, got, data = self.request("POST", path, body, headers)
        if not equal(status, 200, path, "status of a stream", data[:300]):
            return [], False
        check(got["Content-Type"].startswith("text/event-stream"), path, got)
        events, done = [], False
        for block in data.decode().split("\n\n"):
            if not block or block.startswith(":"):
                continue
            check(block.startswith("data: "), path, "event", block[:100])
            check(not done, path, "an event behind [DONE]")
            if block == "data: [DONE]":
                done = True
            else:
                events.append(json.loads(block[6:]))
        return events, done

    def wait_until_read(self, s, timeout):
        """Until the server has read all that was sent, or has something to say."""
        ends = ":%04X " % self.port, ":%04X " % s.getsockname()[1]
        end = time.monotonic() + timeout
        while time.monotonic() < end and not select.select([s], [], [], 0)[0]:
            with open("/proc/net/tcp") as file:
                waiting = [line.split()[4] for line in file if ends[0] in line[:20] and ends[1] in line[20:34]]
            if all(queues.endswith(":00000000") for queues in waiting):
                return

    def raw(self, data, timeout=20, end=True, parts=1):
        """Sends bytes as they are, each when the last one was read if in parts; what comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as s:
            try:
                for i in range(parts):
                    s.sendall(data[len(data) * i // parts:len(data) * (i + 1) // parts])
                    if i + 1 < parts:
                        self.wait_until_read(s, timeout)
                if end:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            reply = b""
            try:
                while True:
                    piece = s.recv(65536)
                    if not piece:
                        return reply
                    reply += piece
            except socket.timeout:
                return reply + b"<timeout>"
            except OSError:
                return reply

    def metrics(self):
        _, _, data = self.request("GET", "/metrics")
        numbers = {}
        for line in data.decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                numbers[name] = float(value)
        return numbers

    def wait_metric(self, name, holds, seconds=30):
        """Waits until a number is as it must be; fails only after long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.metrics().get(name)
            if value is not None and holds(value):
                return True  # to ask again takes a connection and a thread, so this loop needs no rest
        return check(False, name, "is", self.metrics().get(name))
