# SPDX-License-Identifier: Apache-2.0
"""More connections than there are places, of several addresses: serve_crowd.py MODEL FOLDER KT"""
import http.client
import json
import resource
import select
import signal
import socket
import time

from serve_client import check, equal, finish
from serve_process import LONG, SLOW, Process, begin, read_all

HEAD = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n"
BODY = b'{"prompt": "x"}'
FIRST, SECOND, THIRD = ("127.0.0.%d" % i for i in (1, 2, 3))


def connect(server, source=FIRST):
    return socket.create_connection(("127.0.0.1", server.port), 60, (source, 0))


def hold(server, source=FIRST):
    """A request that is being answered until its body comes; its socket, and the status if that is no 100."""
    s = connect(server, source)
    s.sendall(HEAD)
    reply = s.recv(65536)
    return s, None if reply.startswith(b"HTTP/1.1 100 ") else reply


def let_go(held):
    for s in held:
        s.sendall(BODY)
        check(b" 200 " in s.recv(65536)[:20], "a request that was answered all the time")
        s.close()


def ask(server, source=FIRST):
    """Status, message."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, 60, (source, 0))
    connection.request("GET", "/health")
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    if reply.status == 503:
        equal((reply.headers["Retry-After"], json.loads(body)["error"]["code"]), ("1", "too_many_connections"), "a 503")
    return reply.status, body.decode()


def wait_ended(sockets, n):
    """Waits until the first n of them or more are closed by the server; whether each is. Each is closed by its own
    thread there, so that one is seen closed before another that was ended earlier."""
    end, ended = time.monotonic() + 60, []
    poll = select.poll()
    numbers = {s.fileno(): i for i, s in enumerate(sockets)}
    for s in sockets:
        poll.register(s, select.POLLIN)
    while time.monotonic() < end and (len(ended) < n or max(ended, default=-1) >= len(ended)):
        for fd, _ in poll.poll(1000):
            poll.unregister(fd)
            ended.append(numbers[fd])
    return [i in ended for i in range(len(sockets))]


def test_idle():
    """Connections that nobody uses, 100 more than there are places."""
    with Process("--max-connections", "200", "--context", "64") as server:
        held, _ = hold(server)
        quiet = [connect(server, SECOND) for _ in range(3)]
        for s in quiet[1:]:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(b" 200 " in s.recv(1000), "a request of another address")
        crowd = [connect(server) for _ in range(316)]
        equal([ask(server, source)[0] for source in (FIRST, SECOND, THIRD)], [200] * 3, "requests beside idle connections")
        # 216 may be there. One is used, three are of another address, of whose requests each takes a moment's place.
        ended = wait_ended(crowd, 316 + 4 - 216)
        n = sum(ended)
        check(104 <= n <= 107 and ended == [True] * n + [False] * (316 - n), "those that wait longest are ended", n, ended)
        equal(wait_ended(quiet, 0), [False] * 3, "the connections of an address that has few")
        for s in (quiet[0], quiet[2], crowd[-1]):
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(b" 200 " in s.recv(1000), "a connection that was not ended")
        let_go([held])
        for s in quiet + crowd:
            s.close()


def test_shares():
    """Requests that are answered: no address has all places, and none of them is ended."""
    with Process("--max-connections", "16", "--context", "64") as server:
        first = [hold(server) for _ in range(14)]
        equal([reply for _, reply in first], [None] * 14, "requests of one address")
        status, said = ask(server)
        check(status == 503 and "14 requests of this client's address are being answered; the last 2 places" in said,
              "one address's share", status, said)
        equal(ask(server, SECOND)[0], 200, "another address")
        second = [hold(server, SECOND) for _ in range(2)]
        equal([reply for _, reply in second], [None] * 2, "requests of another address")
        for source in FIRST, SECOND, THIRD:
            status, said = ask(server, source)
            check(status == 503 and "16 requests are being answered" in said, "no place is left", status, said)
        crowd = [connect(server, THIRD) for _ in range(64)]
        ended = wait_ended(crowd, 48)
        check(all(ended[:48]) and not ended[63], "idle connections behind 16 requests", ended)
        let_go([s for s, _ in first + second])
        equal([ask(server, source)[0] for source in (FIRST, SECOND)], [200] * 2, "places that are free again")


def test_burst():
    """Connections that come at once, each with its request: some find no place, none hangs."""
    with Process("--max-connections", "1", "--context", "64") as server:
        server.process.send_signal(signal.SIGSTOP)
        crowd = [connect(server) for _ in range(80)]
        for s in crowd:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        server.process.send_signal(signal.SIGCONT)
        said = [read_all(s)[9:12] for s in crowd]
        check(b"200" in said and set(said) <= {b"200", b"503", b""}, "a burst", said)
        equal(ask(server)[0], 200, "a request behind it")


def test_full():
    with Process("--max-connections", "2", "--context", "2048", *SLOW) as server:
        held = [begin(server, LONG) for _ in range(2)]
        end, status = time.monotonic() + 20, 0
        while status != 503 and time.monotonic() < end:
            status, _ = ask(server)
        equal(status, 503, "more requests than --max-connections")
        for s in held:
            s.close()


def test_files():
    """Few files may be open, fewer than the default of --max-connections takes."""
    most = 330
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Process("--context", "64", before=few) as server:
        check(any("of --max-connections 512 there are files for 21; " in line for line in server.log), "the note", server.log)
        crowd = [connect(server) for _ in range(100)]
        equal([ask(server)[0] for _ in range(3)], [200] * 3, "requests beside idle connections")
        for s in crowd:
            s.close()


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
