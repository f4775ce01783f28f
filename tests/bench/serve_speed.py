#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures kt run on a large model: serve_speed.py KT MODEL.gguf [--config INI] [--only NAME] [--tokens N] [--long N]

    streams    tokens a second of 32 streams beside those of one, and what scheduling, sampling and handing
               tokens to HTTP's threads take of a step at both: the time between steps. What those threads take beside a
               step shows in the steps' own time: compare with kt bench MODEL
    mixed      the inter-token time of 8 streams while prompts of --long tokens arrive: p99 beside the median of a
               run without prompts
    prefix     the time to the first token of a prompt of 4096 tokens, and of the same again

A model without a tokenizer, as make_model.py writes it, gets one in a copy beside it, of the same size: prompts are
ids. The machine should have nothing else to do. It ends with 1 where a figure is not what it should be."""
import argparse
import http.client
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("kt")
parser.add_argument("model")
parser.add_argument("--config")
parser.add_argument("--only", choices=("streams", "mixed", "prefix"))
parser.add_argument("--tokens", type=int, default=64, help="of each answer")
parser.add_argument("--long", type=int, default=8192, help="tokens of a long prompt")
parser.add_argument("--threads", default="2")
options = parser.parse_args()
rng = random.Random(1)
missed = []


# ---- a tokenizer for a file that has none ----

def skip_value(data, at, kind):
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    if kind == 8:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != 9:
        return at + sizes[kind]
    inner, n = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(n):
        at = skip_value(data, at, inner)
    return at


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def texts(values):
    return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def with_tokenizer(path):
    """The file, or a copy whose header has a tokenizer as well."""
    with open(path, "rb") as file:
        data = file.read(1 << 22)
    n_tensors, n_pairs = struct.unpack_from("<QQ", data, 8)
    at, vocabulary = 24, 0
    for _ in range(n_pairs):
        length = struct.unpack_from("<Q", data, at)[0]
        name = data[at + 8:at + 8 + length].decode()
        at += 8 + length
        kind = struct.unpack_from("<I", data, at)[0]
        at = skip_value(data, at + 4, kind)
        if name == "tokenizer.ggml.tokens":
            return path
    end_pairs = at
    for _ in range(n_tensors):
        length, = struct.unpack_from("<Q", data, at)
        name, at = data[at + 8:at + 8 + length], at + 8 + length
        n, = struct.unpack_from("<I", data, at)
        sizes = struct.unpack_from("<%dQ" % n, data, at + 4)
        at += 4 + 8 * n + 12
        vocabulary = sizes[1] if name == b"token_embd.weight" else vocabulary
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in visible] + [chr(256 + i) for i in range(256 - len(visible))]
    words = letters + ["tt"] + ["t%d" % i for i in range(257, vocabulary)]
    pairs = [("model", struct.pack("<I", 8) + text("gpt2")), ("pre", struct.pack("<I", 8) + text("qwen2")),
             ("tokens", texts(words)), ("merges", texts(["t t"])),
             ("token_type", struct.pack("<IIQ", 9, 5, vocabulary) + struct.pack("<i", 1) * vocabulary),
             ("eos_token_id", struct.pack("<II", 4, vocabulary - 1))]
    head = data[:16] + struct.pack("<Q", n_pairs + len(pairs)) + data[24:end_pairs]
    head += b"".join(text("tokenizer.ggml." + name) + value for name, value in pairs) + data[end_pairs:at]
    copy = path + ".served"
    if not os.path.exists(copy):
        with open(path, "rb") as source, open(copy + ".part", "wb") as out:
            out.write(head + b"\0" * (-len(head) % 32))
            source.seek(at + -at % 32)
            shutil.copyfileobj(source, out, 1 << 24)
        os.rename(copy + ".part", copy)
    return copy


# ---- a server and its clients ----

class Server:
    def __init__(self, *more):
        command = [options.kt] + (["--config", options.config] if options.config else [])
        command += ["run", with_tokenizer(options.model), "--port", "0", "--threads", options.threads,
                    "--log-level", "error", "--speculate", "off", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in self.process.stderr:
            said += line
            found = re.search(r"ready: http://.*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        else:
            sys.exit("the server did not start: " + said)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def times(self, ids, tokens):
        """Seconds at which the request was sent and its tokens came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        at = [time.monotonic()]
        body = {"prompt": ids, "max_tokens": tokens, "ignore_eos": True, "stream": True, "seed": 1, "logprobs": 0}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            sys.exit(reply.read().decode())
        for line in reply:
            if line.startswith(b"data: {"):
                choice = json.loads(line[6:])["choices"][0]
                at += [time.monotonic()] * len((choice["logprobs"] or {}).get("tokens", ()))
        connection.close()
        return at

    def many(self, n, tokens, length=16):
        """Times of n streams beside each other."""
        times = [None] * n
        prompts = [make_prompt(length) for _ in range(n)]

        def run(i):
            times[i] = self.times(prompts[i], tokens)
        threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        return times, threads

    def numbers(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def make_prompt(n):
    return [rng.randrange(256, 2000) for _ in range(n)]


def gaps(times):
    return sorted(b - a for t in times for a, b in zip(t[1:], t[2:]))


def wanted(name, value, bound, is_least=False):
    holds = value >= bound if is_least else value <= bound
    print("%-60s %8.3f  %s %.3f%s" % (name, value, ">=" if is_least else "<=", bound, "" if holds else "  MISSED"), flush=True)
    if not holds:
        missed.append(name)


# ---- what is measured ----

def streams():
    rates = {}
    with Server("--context", "1024", "--kv-size", "1G", "--max-running", "32") as server:
        server.times(make_prompt(16), 8)
        for n, share in ((1, 0.03), (32, 0.06)):
            before = server.numbers()
            times, threads = server.many(n, options.tokens)
            for thread in threads:
                thread.join()
            after = server.numbers()
            # While all of them are answered.
            begin, end = max(t[1] for t in times), min(t[-1] for t in times)
            if end <= begin:
                sys.exit("the first of %d streams ends before the last one begins: --tokens must be larger" % n)
            rates[n] = sum(begin < at <= end for t in times for at in t[1:]) / (end - begin)
            model, other = (after[name] - before[name] for name in ("kt_model_seconds_total", "kt_other_seconds_total"))
            print("%d streams: %.1f tokens/s" % (n, rates[n]))
            wanted("time between steps, of all, %d streams" % n, other / (model + other), share)
    wanted("throughput of 32 streams beside one", rates[32] / rates[1], 3.5, True)


def mixed():
    with Server("--context", str(options.long + 1024), "--kv-size", "3G", "--max-running", "16") as server:
        server.times(make_prompt(16), 8)
        plain, threads = server.many(8, options.tokens)
        for thread in threads:
            thread.join()
        quiet = gaps(plain)
        loaded, threads = server.many(8, 4 * options.tokens)
        while any(thread.is_alive() for thread in threads):
            server.times(make_prompt(options.long), 1)
        busy = gaps(loaded)
    median = quiet[len(quiet) // 2]
    print("inter-token time: median %.1f ms without prompts; with prompts median %.1f, p99 %.1f, most %.1f ms" %
          tuple(1e3 * t for t in (median, busy[len(busy) // 2], busy[len(busy) * 99 // 100], busy[-1])))
    wanted("p99 with prompts of %d beside the median without" % options.long, busy[len(busy) * 99 // 100] / median, 2.5)


def prefix():
    with Server("--context", "5000", "--kv-size", "2G") as server:
        server.times(make_prompt(16), 8)
        ids = make_prompt(4096)
        first, again = ((lambda t: t[1] - t[0])(server.times(ids, 2)) for _ in range(2))
    print("time to the first token: %.3f s, then %.4f s" % (first, again))
    wanted("time to the first token of a repeated prompt of 4096", again / first, 0.05)


for measure in (streams, mixed, prefix):
    if options.only in (None, measure.__name__):
        measure()
sys.exit(1 if missed else 0)
