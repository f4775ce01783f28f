# SPDX-License-Identifier: Apache-2.0
"""Ollama's and llama-server's own APIs, and what they reject: serve_native.py PORT"""
import json
import sys

from serve_client import Server, check, equal, finish

server = Server(int(sys.argv[1]))
name = server.get("/v1/models")[1]["data"][0]["id"]
SAID = [{"role": "user", "content": "c"}]
GAPS = {"input_prefix": "a", "input_suffix": "b"}


def lines_of(path, body):
    """The objects of a stream, one per line."""
    status, headers, data = server.request("POST", path, body)
    equal(status, 200, path, data[:300])
    check(headers["Content-Type"].startswith("application/x-ndjson"), path, headers)
    return [json.loads(line) for line in data.decode().splitlines()]


# ---- Ollama ----
status, whole = server.post("/api/chat", {"model": name, "messages": SAID, "stream": False})
check(status == 200 and whole["done"] and whole["message"]["role"] == "assistant", "a chat", whole)
streamed = lines_of("/api/chat", {"model": name, "messages": SAID})
equal("".join(part["message"]["content"] for part in streamed), whole["message"]["content"], "a stream is the same text")
check(streamed[-1]["done"] and not streamed[0]["done"], "only the last line is done", streamed)
status, whole = server.post("/api/generate", {"model": name + ":latest", "prompt": "c", "stream": False, "think": "low"})
check(status == 200 and isinstance(whole["response"], str), "a text", whole)
for path, body, status, words in (
        ("chat", {}, 400, "'model' is missing"), ("chat", {"model": "none"}, 404, "'none' not found"),
        ("generate", {"model": name, "images": ["AA"]}, 400, "'images' are not supported"),
        ("generate", {"model": name, "prompt": "a", "context": [1]}, 400, "'context' is not supported"),
        ("generate", {"model": name, "prompt": "a", "template": "x"}, 400, "'template' is not supported"),
        ("chat", {"model": name, "messages": SAID, "logprobs": True}, 400, "'logprobs' is not supported"),
        ("chat", {"model": name, "messages": SAID, "format": 1}, 400, "'format' must be"),
        ("chat", {"model": name, "messages": SAID, "think": 1}, 400, "'think' must be"),
        ("chat", {"model": name, "messages": [dict(SAID[0], images=["AA"])]}, 400, "images' are not supported")):
    got, reply = server.post("/api/" + path, body)
    check(got == status and words in reply["error"], path, body, got, reply)

# ---- llama-server ----
status, whole = server.post("/completion", {"prompt": "c", "n_predict": 3})
check(status == 200 and whole["stop"] and isinstance(whole["content"], str), "a completion", whole)
for path, body, words in (
        ("/completion", {"prompt": "c", "n_predict": 0}, "'n_predict' is 0"),
        ("/completion", {"prompt": "c", "logit_bias": [[1]]}, "'logit_bias[0]' must be"),
        ("/completion", {"prompt": "c", "temperature": "hot", "stream": True}, "'temperature'"),
        ("/infill", dict(GAPS, input_extra=[{"filename": "a"}]), "input_extra"),
        ("/v1/completions", {"prompt": [1], "suffix": "a"}, "'suffix' needs a text"),
        ("/v1/chat/completions", {"messages": SAID + [{"role": "assistant", "function_call": {}}]}, "needs a name"),
        ("/v1/completions", {"prompt": "c", "response_format": 1}, "'response_format'"),
        ("/v1/completions", {"prompt": "c", "structured_outputs": 1}, "an object")):
    got, reply = server.post(path, body)
    check(got == 400 and words in reply["error"]["message"], path, body, got, reply)
finish()
