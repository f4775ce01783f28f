# SPDX-License-Identifier: Apache-2.0
"""A server of a test's own; whoever imports this has the arguments MODEL FOLDER KT."""
import json
import os
import re
import socket
import subprocess
import sys
import threading

from serve_client import Server, check, equal

model, folder, kt = sys.argv[1:]
# What takes a second or more on any machine: the reference backend is slow everywhere.
SLOW = ("--backend", "reference")
LONG = {"prompt": "ROMEO:", "max_tokens": 700, "ignore_eos": True, "temperature": 0}
COMPLETIONS = "/v1/completions"


class Process(Server):
    """A server that was started with `words`; `with` ends it."""

    def __init__(self, *words, environment=None, served=model, before=None):
        self.process = subprocess.Popen([kt, "run", served, "--port", "0", "--threads", "2", *words],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before,
                                        env=dict(os.environ, **(environment or {})))
        self.log, self.is_ready, port = [], threading.Event(), []
        self.has_logged = threading.Condition()

        def read():
            for line in self.process.stderr:
                with self.has_logged:
                    self.log.append(line)
                    self.has_logged.notify_all()
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

    def check_logged(self, words, why):
        """Some line has, or soon will have, the words: an answer may be here before its line is read."""
        with self.has_logged:
            found = self.has_logged.wait_for(lambda: any(words in line for line in self.log), 60)
        check(found, why, "".join(self.log)[-2000:])

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


def begin(server, body, headers=b"", source="127.0.0.1"):
    """Sends a request and leaves the answer in the socket."""
    data = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", server.port), 60, (source, 0))
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
