# SPDX-License-Identifier: Apache-2.0
"""A hub of models on this machine, which also misbehaves: pull_hub.py FOLDER.

FOLDER/REPOSITORY/... are the files of repositories; FOLDER/NAME.rules of a repository called NAME has a line
"PATTERN RULE..." for each file that is treated badly. Requests are logged to FOLDER/log as "METHOD PATH HEADERS";
the port goes to standard output.
"""

import fnmatch
import hashlib
import http.server
import json
import pathlib
import sys
import threading
import urllib.parse

root = pathlib.Path(sys.argv[1])
lock = threading.Lock()
counts = {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes
    other = 0  # a second port: another origin

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def rules(self, name, path):
        """The words of the first line that fits; "once" in front: at the first request only."""
        file = root / f"{name}.rules"
        for number, line in enumerate(file.read_text().splitlines() if file.exists() else []):
            pattern, *words = line.split() or [""]
            if not fnmatch.fnmatch(path, pattern) or path.startswith("list:") != pattern.startswith("list:"):
                continue
            if words[0] == "once":
                with lock:
                    counts[name, number] = counts.get((name, number), 0) + 1
                    if counts[name, number] > 1:
                        continue
                words = words[1:]
            return words
        return []

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        words = [urllib.parse.unquote(word) for word in url.path.strip("/").split("/")]
        with lock, open(root / "log", "a") as log:
            print(self.server.server_port, self.path, self.headers.get("Range", "-"),
                  self.headers.get("Authorization", "-"), file=log)
        try:
            if words[0] == "cdn":
                self.file(words[1], words[2], "/".join(words[3:]), [])
            elif words[:2] == ["api", "models"]:
                self.api(words[2], words[3], words[4:], urllib.parse.parse_qs(url.query))
            elif words[:3] == ["api", "v1", "models"]:
                self.modelscope(words[3], words[4])
            else:
                words = words[1:] if words[0] == "models" else words
                owner, name, _, _, *path = words
                self.file(owner, name, "/".join(path), self.rules(name, "/".join(path)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def files(self, owner, name):
        folder = root / owner / name
        if not folder.is_dir():
            return None
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())

    def entry(self, owner, name, path):
        data = (root / owner / name / path).read_bytes()
        rules = self.rules(name, f"list:{path}")
        entry = {"type": "file", "path": path, "size": len(data),
                 "oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}
        if len(data) > 1000:
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            entry["oid"] = "0" * 40
        if rules[:1] == ["hash"]:
            (entry["lfs"] if "lfs" in entry else entry)["oid"] = "1" * (64 if "lfs" in entry else 40)
        if rules[:1] == ["size"]:
            entry["lfs"]["size"] = int(rules[1])
        if rules[:1] == ["name"]:
            entry["path"] = json.loads(f'"{rules[1]}"')
        return entry

    def wait_for_the_end(self):
        """Silent until the client has gone."""
        self.connection.settimeout(60)
        self.connection.recv(1)
        self.close_connection = True

    def api(self, owner, name, words, query):
        files = self.files(owner, name)
        rules = self.rules(name, "list")
        if files is None:
            return self.answer(404, b'{"error":"Repository not found"}')
        if rules[:1] == ["status"]:
            return self.answer(int(rules[1]), b"no", [("Retry-After", "0")])
        if rules[:1] == ["huge"]:
            self.send_response(200)
            self.end_headers()
            for _ in range(20):
                self.wfile.write(b"[" + b" " * (1 << 20))
            self.close_connection = True
            return None
        if rules[:1] == ["text"]:
            return self.answer(200, rules[1].encode())
        if rules[:1] == ["next"]:
            return self.answer(200, b"[]", [("Link", f'<{rules[1]}>; rel="next"')])
        if rules[:1] == ["silent"]:
            self.wait_for_the_end()
            return None
        if words[0] == "revision":
            return self.answer(200, json.dumps({"sha": hashlib.sha1(words[1].encode()).hexdigest()}).encode())
        # Two pages, the second by the header Link.
        entries = [{"type": "directory", "path": "sub", "size": 0, "oid": "0" * 40}]
        entries += [self.entry(owner, name, path) for path in files]
        page = int(query.get("cursor", ["0"])[0])
        entries = entries[page * 4:page * 4 + 4]
        link = []
        if page * 4 + 4 <= len(files):
            host = self.headers["Host"]
            link = [("Link", f'<http://{host}{urllib.parse.urlsplit(self.path).path}?recursive=true&cursor={page + 1}>'
                     '; rel="next"')]
        return self.answer(200, json.dumps(entries).encode(), link)

    def modelscope(self, owner, name):
        files = self.files(owner, name)
        if files is None:
            return self.answer(404, b'{"Code":404,"Message":"no such model"}')
        rules = self.rules(name, "list")
        if rules[:1] == ["text"]:
            return self.answer(200, rules[1].encode())
        entries = []
        for path in files:
            data = (root / owner / name / path).read_bytes()
            entries.append({"Path": path, "Size": len(data), "Type": "blob",
                            "Sha256": hashlib.sha256(data).hexdigest()})
        return self.answer(200, json.dumps({"Code": 200, "Data": {"Files": entries}}).encode())

    def file(self, owner, name, path, rules):
        file = root / owner / name / path
        if not file.is_file():
            return self.answer(404, b"no such file")
        data = file.read_bytes()
        rule = rules[0] if rules else ""
        if rule == "redirect":  # to the other port, as hubs do with large files
            return self.answer(302, b"", [("Location", f"http://127.0.0.1:{Handler.other}/cdn/{owner}/{name}/{path}")])
        if rule == "location":
            return self.answer(302, b"", [("Location", rules[1])])
        if rule == "loop":
            return self.answer(302, b"", [("Location", self.path)])
        if rule == "status":
            return self.answer(int(rules[1]), b"wait", [("Retry-After", rules[2] if len(rules) > 2 else "0")])
        if rule == "wrong":
            data = bytes(reversed(data))
        if rule == "long":
            data += b"more"
        wanted = self.headers.get("Range")
        status, headers, start = 200, [], 0
        if wanted and rule != "ignore":
            start = int(wanted[len("bytes="):-1])
            if start >= len(data):
                return self.answer(416)
            status = 206
            shown = 0 if rule == "shift" else start
            headers = [("Content-Range", f"bytes {shown}-{len(data) - 1}/{len(data)}")]
        body = data[start:]
        if rule == "cut":  # hangs up in the middle
            length = int(rules[1])
            self.answer(status, body[:length], headers, len(body))
            self.close_connection = True
            return None
        if rule == "short":  # says a shorter length than was listed
            body = body[:int(rules[1])]
        if rule == "slow":
            self.answer(status, body[:2000], headers, len(body))
            self.wfile.flush()
            self.wait_for_the_end()
            return None
        return self.answer(status, body, headers)


servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2)]
Handler.other = servers[1].server_port
for server in servers:
    server.daemon_threads = True
threading.Thread(target=servers[1].serve_forever, daemon=True).start()
print(servers[0].server_port, flush=True)
servers[0].serve_forever(poll_interval=0.05)
