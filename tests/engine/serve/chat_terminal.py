# SPDX-License-Identifier: Apache-2.0
"""kt chat at a terminal: keys, commands, signals, and what must not reach the screen.
chat_terminal.py KT FOLDER [MODEL]"""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import sys
import termios
import time

import chat_server
from serve_client import check, equal, finish

kt, folder = sys.argv[1], sys.argv[2]
server = chat_server.Server()
server.models = [(200, {"data": [{"id": "fa\x1b[31mke", "max_model_len": 1000}]})]
os.environ["XDG_STATE_HOME"] = os.path.join(folder, "state")
history = os.path.join(folder, "state/kt-kernel/chat_history")


def take_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore it


class Terminal:
    """A program in a terminal of its own; `all` is what it wrote."""

    def __init__(self, *arguments, columns=80, **environment):
        changed = dict({"TERM": "xterm", "LC_ALL": "C.UTF-8"}, **environment)
        changed = {k: v for k, v in dict(os.environ, **changed).items() if v is not None}
        self.fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.all, self.seen = b"", 0
        self.process = subprocess.Popen([kt, "chat", *arguments], stdin=slave, stdout=slave, stderr=slave, env=changed,
                                        start_new_session=True, preexec_fn=take_terminal)
        self.slave = slave

    def wait(self, holds, seconds=60):
        """Reads until this stands behind what was waited for last; what came until then."""
        wanted, end = holds.encode() if isinstance(holds, str) else holds, time.monotonic() + seconds
        while wanted not in self.all[self.seen:]:
            ready = select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]
            try:
                piece = os.read(self.fd, 65536) if ready else b""
            except OSError:
                piece = b""
            if not piece:
                check(False, "waited for", holds, "in", self.all[self.seen:])
                self.process.kill()
                finish()
            self.all += piece
        start, self.seen = self.seen, self.all.index(wanted, self.seen) + len(wanted)
        return self.all[start:self.seen].decode(errors="replace")

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def prompt(self):
        return self.wait("\x1b[?2004h> ")

    def say(self, line):
        """Types a line; what comes until the next prompt."""
        self.type(line + "\r")
        return self.prompt()

    def end(self, code=0, keys=b"\x04"):
        self.type(keys)
        equal(self.process.wait(60), code, "exit status")
        while select.select([self.fd], [], [], 0)[0]:
            self.all += os.read(self.fd, 65536)
        equal(termios.tcgetattr(self.slave), self.before, "the terminal's modes")
        check(b"Sanitizer" not in self.all and b"runtime error" not in self.all, self.all)
        os.close(self.slave)
        os.close(self.fd)


def plain(text):
    """What stands on the screen, without the codes that dim and that mark pasted text."""
    return re.sub(r"\x1b\[([02]m|\?2004[hl])", "", text).replace("\r\n", "\n")


# What is typed, and what comes back.
t = Terminal("--port", str(server.port))
text = t.prompt()
check("fa^[[31mke at http://127.0.0.1:%d, 1000 tokens of context" % server.port in text, "greeting", repr(text))
text = t.say("escape")
check("^[]0;owned^G ^[[2J \ufffd31m ^? \ufffd" in text, "escape sequences are shown", repr(text))
check("\x1b" not in plain(text), "and nothing else", repr(text))
text = t.say("reason")
check("\x1b[2mLet me think.\x1b[0m\r\n\r\nDone.\r\n" in text, "reasoning is dim", repr(text))
check("7 tokens" in text and "context 97/1000" in text, repr(text))
check("[call] look{}" in plain(t.say("call")), "calls are shown")
equal(len(server.said()), 5, "messages of the third request")

# Messages of several lines.
for keys, wanted in (
        ("a\\\rb\\\rc\r", "a\nb\nc"), ('"""\rone\r  two\r"""\r', "one\n  two"), ('"""x"""\r', "x"),
        ('"""x\ry"""\r', "x\ny"), ("p\x1b\rq\r", "p\nq"), ("\x1b[200~one\rtwo\tthree\x01\x1b[201~!\r", "one\ntwo\tthree!"),
        ("//quit\r", "/quit"), ("世界 é\r", "世界 é")):
    t.type(keys)
    t.prompt()
    equal(server.said()[-1], ("user", wanted), "typed", repr(keys))

# Faults leave the conversation as it was.
n = len(server.said())
check("hung up in the middle" in t.say("hangup"), "a hang-up is named")
check("that cannot be" in t.say("refuse"), "a refusal is named")
t.say("next")
equal(len(server.said()), n + 2, "messages behind two failed ones")
equal(server.said()[-2:], [("assistant", "<世界 é>"), ("user", "next")], "messages behind two failed ones")
t.say("broken")
t.say("/retry")
equal(server.said()[-1], ("user", "broken"), "/retry asks again what failed")
equal(len(server.said()), n + 4, "and the messages before it stay")
t.say("fine")
t.say("/retry")
equal(server.said()[-2:], [("assistant", "<next>"), ("user", "fine")], "/retry asks again what was answered")

# Ctrl-C stops the answer, which stays.
t.type("slow\r")
t.wait("so far")
server.begun.wait(60)
t.type("\x03")
check("stopped]" in t.prompt(), "a stopped answer")
check(server.gone.wait(60), "the server hears of it")
t.say("on")
equal(server.said()[-2:], [("assistant", "so far"), ("user", "on")], "the answer so far stays")
t.type("half")
t.wait("half")
t.type("\x03")
check("Ctrl-C again" not in t.prompt(), "Ctrl-C at a line that is not empty")
t.say("all of it")
equal(server.said()[-1], ("user", "all of it"), "Ctrl-C empties the line")

# Commands.
check("/hlep is not a command, did you mean /help?" in t.say("/hlep"), "an unknown command")
check("/clear does not take an argument" in t.say("/clear now"), "an argument too many")
check("/history " in t.say("/help"), "/help")
t.say("/system be brief")
check("be brief" in t.say("/system"), "/system")
check("/save FILE: a file's name is needed" in t.say("/save"), "/save without a name")
check("/save: " in plain(t.say("/save %s/none/below" % folder)), "/save where no folder is")
path = os.path.join(folder, "talk.json")
check("messages in" in t.say("/save " + path), "/save")
with open(path) as file:
    kept = json.load(file)["messages"]
equal(kept[0], {"role": "system", "content": "be brief"}, "saved")
equal(kept[-2:], [{"role": "user", "content": "all of it"}, {"role": "assistant", "content": "<all of it>"}], "saved")
equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of what is saved")
other = os.path.join(folder, "other")
with open(other, "w") as file:
    file.write('[{"role": "user",\n"content": "x"},\n\n {"role": "assistant", "content": [1]}]')
check("is there already" in t.say("/save " + other), "/save does not overwrite")
check("line 4: message 2: its content is not text" in plain(t.say("/load " + other)).replace("\n", ""), "/load")
with open(other, "w") as file:
    file.write('{"messages": [\n{"role": "user", "content": "x"}\n{}]}')
check("line 3, column 1" in plain(t.say("/load " + other)).replace("\n", ""), "/load of no JSON")
check("No such file" in plain(t.say("/load %s/none" % folder)), "/load of nothing")
empty = os.path.join(folder, "empty")
with open(empty, "w") as file:
    file.write('{"messages": 3}')
check("it has no list of messages" in plain(t.say("/load " + empty)).replace("\n", ""), "/load of other JSON")
t.say("/clear")
check("no question to repeat" in t.say("/retry"), "/retry of nothing")
t.say("again")
equal(server.said(), [("system", "be brief"), ("user", "again")], "/clear")
t.say("nul")
t.say("/save " + path + "2")
check("messages of" in t.say("/load " + path + "2"), "/load of a zero byte")
t.say("/load " + path)
t.say("and on")
equal(server.requests[-1][1]["messages"][:-1], kept, "what was saved and loaded")
check("assistant:" in t.say("/history"), "/history")
with open(other, "w") as file:
    file.write('[{"role": "user", "content": "left"}]')
check("/retry asks it" in t.say("/load " + other), "/load of a question without its answer")
t.say("/retry")
equal(server.said(), [("user", "left")], "/retry of what was loaded")
t.say("/load " + path)
t.say("and on")
check("messages  %d" % (len(kept) + 1) in plain(t.say("/info")), "/info")

# Both ways to end; what was typed is kept for the next time.
t.type("\x03")
check("Ctrl-C again" in t.prompt(), "Ctrl-C at an empty line")
t.end(0, b"\x03")
equal(stat.S_IMODE(os.stat(history).st_mode), 0o600, "mode of the history")
with open(history, encoding="utf-8") as file:
    lines = file.read().split("\n")
check("a\\\nb\\\nc" in lines or "a\\nb\\nc" in lines, "the history has several lines in one", lines)

# Without colors words say what is reasoning; without escape sequences no mark of pasted text is asked for.
t = Terminal("-p", str(server.port), NO_COLOR="1")
t.prompt()
t.type("\x1b[A\x1b[A\r")
check("assistant:" not in t.prompt(), "the line before the last one")
text = t.say("reason")
check("[reasoning]\r\nLet me think.\r\n\r\n[answer]\r\nDone.\r\n" in text and "\x1b[2m" not in text, repr(text))
fcntl.ioctl(t.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
os.kill(t.process.pid, signal.SIGWINCH)
t.say("greet")
t.end()
t = Terminal("-p", str(server.port), "--no-save-history", TERM="dumb", LC_ALL="C", LANG="C")
t.wait("> ")
t.type("bytes\r")
text = t.wait("context")
check("? and ??" in text and "\x1b" not in text, "a terminal of ASCII", repr(text))
t.wait("> ")
os.kill(t.process.pid, signal.SIGTERM)
t.end(-signal.SIGTERM, b"")

# A model in this process.
if len(sys.argv) > 3:
    t = Terminal(sys.argv[3], "--chat-template", "chatml", "--temperature", "0", "--threads", "2")
    check("in this process, 2048 tokens of context" in t.prompt(), "greeting")
    stopped = 0  # a machine that is busy enough may write to the context's end before it hears of Ctrl-C
    for question in "Who are you?", "Tell me a tale of kings, of the sea, and of all the wars that they had.", "Go on":
        t.type(question + "\r")
        t.wait("\x1b[?2004l")
        t.wait(" ")  # the answer has begun
        t.type("\x03")
        stopped += "stopped]" in t.prompt()
    check(stopped > 0, "Ctrl-C stops a model")
    known = re.search(r"(\d+) tokens, of which (\d+) were known", plain(t.say("/info")))
    # An answer that went on to the context's end made the conversation begin again.
    check(known and (int(known[2]) >= 64 or stopped < 3), "only what is new is computed:", known and known[0])
    t.end()
    path = os.path.join(folder, "shrinks.gguf")
    shutil.copyfile(sys.argv[3], path)
    t = Terminal(path, "--chat-template", "chatml", "--temperature", "1", "--seed", "5", "--tokens", "16")
    t.prompt()
    check(plain(t.say("Who?")).split("[16")[0].split("\n", 1)[1] != plain(t.say("/retry")).split("[16")[0].split("\n", 1)[1],
          "/retry has another answer")
    # Its file becomes shorter while it is mapped.
    os.truncate(path, 20000)
    t.type("Why?\r")
    t.wait("kt: error: a mapped file shrank or could not be read: %s; " % path)
    t.end(1, b"")
finish()
