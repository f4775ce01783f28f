# SPDX-License-Identifier: Apache-2.0
"""kt chat for programs: one question, an answer alone on standard output; and servers that misbehave.
chat_pipes.py KT"""
import os
import subprocess
import sys

import chat_server
from serve_client import check, equal, finish

server = chat_server.Server()


def ask(*arguments, text=None, port=None, **environment):
    """Exit status, output, messages."""
    command = [sys.argv[1], "chat", "--port", str(port or server.port), *arguments]
    done = subprocess.run(command, input=text, stdin=None if text is not None else subprocess.DEVNULL,
                          capture_output=True, timeout=60, env=dict(os.environ, **environment))
    check(b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, arguments, done.stderr)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def expect(question, code, output, *holds):
    got, out, err = ask("--prompt", question)
    equal(got, code, question, "exit status", err)
    equal(out, output, question, "output")
    for text in holds:
        check(text in err, question, "messages", err, "must hold", text)
    check("\x1b" not in err, question, "messages hold an escape sequence", repr(err))


# Answers.
expect("greet", 0, b"Hello\n", "7 tokens, ")
expect("reason", 0, b"Done.\n", "context 97/100", "takes 97 of the context's 100 tokens",
       "'kt run --context N' gives more context")
expect("bytes", 0, (chat_server.LOST + "\n").encode())
expect("half", 0, "a\ufffd b\ufffd\n".encode())
expect("nul", 0, b"a\0b\n")
expect("lines", 0, b"two lines\n", "7 tokens")
expect("unended", 0, b"whole\n")
expect("mark", 0, b"marked\n")
expect("empty", 0, b"not empty\n")
expect("surrogates", 0, "\ufffd \\ud83d\ufffd\U0001f600\ufffd\n".encode())
expect("zipped", 0, b"unzipped\n")
expect("long", 0, b"cut\n", "the response was truncated")
expect("call", 0, b"x\n")
# What a program reads is what the model wrote; only a terminal is protected.
expect("escape", 0, "\x1b]0;owned\x07 \x1b[2J \x9b31m \x7f \u2028\n".encode())

# Faults: named, with what came before them.
expect("hangup", 1, b"only a part\n", "hung up in the middle of its answer")
expect("broken", 1, b"before\n", "not a JSON object: {nonsense")
expect("list", 1, b"", "not a JSON object: [1]")
expect("deep", 1, b"", "not a JSON object")
expect("error", 1, b"begun\n", "aborted the response: out of ?[31mluck")
expect("endless", 1, b"", "a line of the stream is longer than 4 MiB")
expect("event", 1, b"", "an event of the stream is longer than 4 MiB")
expect("whole", 1, b"", "did not send a stream")
expect("chunked", 1, b"", "hung up")
expect("nothing", 1, b"", "hung up (")
expect("huge", 1, b"", "larger than 1 MiB")
expect("moved", 1, b"", "returned status 307: it has moved to https://127.0.0.1:1/", "--host takes a URL")
expect("header", 1, b"", "a header of the reply is too long")
expect("headers", 1, b"", "headers")
expect("refuse", 1, b"", "returned status 400: that cannot be")
expect("full", 1, b"", "900 tokens", "'kt run --context N' gives more context")
expect("key", 1, b"", "KT_API_KEY")
expect("busy", 1, b"", "429: too many")
expect("proxy", 1, b"", "502: no reason given")

# Standard input, and what stands before it.
equal(ask(text=b"one\ntwo\n\n")[:2], (0, b"<one\ntwo>\n"), "standard input is one question")
equal(ask("-q", "sum", "-f", "-", text=b"1 2\n")[1], b"<sum\n\n1 2>\n", "a prompt before a file")
for text, holds in (b"", "empty"), (b"\n", "empty"), (b"ab\xff", "not UTF-8 from its byte 3 on"):
    code, out, err = ask(text=text)
    equal((code, out), (1, b""), text)
    check(holds in err, text, err)

# KTransformers' names.
ask("-q", "x", "-t", "0.25", "-s", "be brief", "--max-tokens", "3", "--save-history", "--stream")
body = server.requests[-1][1]
equal((body["temperature"], body["max_tokens"], server.said()[0]), (0.25, 3, ("system", "be brief")), "KTransformers' names")

# What is asked of the server.
ask("-q", "x", "--system", "be kind", "-n", "5", "--temperature", "0.5", "--top-k", "3", "--seed", "7", "--stop", "a",
    "--stop", "b", "--typical", "0.9", "--dry-length", "4", "--no-think", KT_API_KEY="secret")
headers, body = server.requests[-1]
equal(headers.get("Authorization"), "Bearer secret", "the key")
equal(body, {"stream": True, "stream_options": {"include_usage": True}, "model": "first", "max_tokens": 5,
             "temperature": 0.5, "top_k": 3, "seed": 7, "stop": ["a", "b"], "typical_p": 0.9, "dry_allowed_length": 4,
             "chat_template_kwargs": {"enable_thinking": False, "thinking": False},
             "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "x"}]}, "the request")
ask("-q", "x", "--model", "other", "--api-key", "k", KT_API_KEY="secret")
equal(server.requests[-1][1]["model"], "other", "--model")
equal(server.requests[-1][0].get("Authorization"), "Bearer k", "--api-key")
ask("-q", "x", "--host", "http://127.0.0.1:%d/v1/" % server.port, http_proxy="http://127.0.0.1:1/", port=1)
check("Authorization" not in server.requests[-1][0], "no key is sent where there is none")
equal(ask("-q", "x", http_proxy="http://127.0.0.1:1/")[0], 0, "this machine needs no proxy")

# A list of models that is not there, or whose server is not ready yet.
server.models = [(404, {"error": "no"})]
equal(ask("-q", "greet")[:2], (0, b"Hello\n"), "a server without a list of models")
check("model" not in server.requests[-1][1], "then none is named")
server.models = [(503, {"error": {"message": "the model is being loaded: 4 %"}}), (200, {"data": [{"id": "late"}]})]
code, out, err = ask("-q", "greet")
equal((code, out), (0, b"Hello\n"), "a server that loads")
check("is loading its model" in err, err)
equal(server.requests[-1][1]["model"], "late", "the model that was loaded")
server.models = [(503, {"error": {"message": "out of order"}})]
check("503: out of order" in ask("-q", "greet")[2], "a server that is not ready")

# The command line, and a port at which nobody listens.
for wrong in ("--penalty-last-n", "3"), ("--dry-last-n", "3"), ("--port", "0"), ("--api-key", "a\nb"), ("a", "b"), \
        ("--context", "9"), ("--kv", "f32"), ("--experts", "a"), ("--format", "json"):
    equal(ask("-q", "x", *wrong)[0], 2, wrong)
code = subprocess.run([sys.argv[1], "chat", "a.gguf", "--host", "b", "-q", "x"], capture_output=True).returncode
equal(code, 2, "a server beside a model")
server.shutdown()
server.server_close()
code, out, err = ask("-q", "x")
equal((code, out), (1, b""), "no server")
check("no server answers at http://127.0.0.1:%d" % server.port in err and "'kt run MODEL' starts one" in err, err)
finish()
