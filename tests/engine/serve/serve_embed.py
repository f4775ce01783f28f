# SPDX-License-Identifier: Apache-2.0
"""Embeddings of a server of the model of serve_script.py, whose layer adds nothing, so each token's state is its row:
serve_embed.py PORT last|mean|refused [eos: texts end with that token]"""
import base64
import json
import socket
import struct
import sys
import threading

import serve_script
from serve_client import Server, check, equal, finish

server, pooling, ends = Server(int(sys.argv[1])), sys.argv[2], sys.argv[3:] == ["eos"]
PATH = "/v1/embeddings"
ROWS = serve_script.make_rows(serve_script.make_vocabulary()[0])
END = serve_script.END


def expected(ids, n=serve_script.SIZE, power=2):
    rows = [ROWS[i][:n] for i in (ids if pooling == "mean" else ids[-1:])]
    mean = [sum(column) / len(rows) / (1 + 1e-5) ** 0.5 for column in zip(*rows)]
    length = {-1: 1, 0: max(map(abs, mean)) / 32760}.get(power) or sum(abs(x) ** power for x in mean) ** (1 / power)
    return [x / length for x in mean]


def close(got, ids, *what, **how):
    wanted = expected(ids, **how)
    check(len(got) == len(wanted) and all(abs(x - y) <= 1e-5 * max(map(abs, wanted)) for x, y in zip(got, wanted)),
          *what, got[:4], "and must be", wanted[:4])


def encode(text):
    return list(text.encode()) + ([END] if ends else [])


def test_openai():
    text = "go and see"
    status, reply = server.post(PATH, {"input": text, "model": None, "user": "me"})
    equal(status, 200, reply)
    equal((reply["object"], reply["data"][0]["object"], reply["data"][0]["index"], reply["model"]),
          ("list", "embedding", 0, server.get("/v1/models")[1]["data"][0]["id"]), "the form")
    equal(reply["usage"], {"prompt_tokens": len(encode(text)), "total_tokens": len(encode(text))}, "usage")
    close(reply["data"][0]["embedding"], encode(text), "a text")
    texts = ["a", "be", "see me", "a"] * 40
    for path in (PATH, "/embeddings"):
        status, reply = server.post(path, {"input": texts, "encoding_format": "base64"})
        equal([d["index"] for d in reply["data"]], list(range(160)), "indices")
        for text, item in zip(texts[-4:], reply["data"][-4:]):
            data = base64.b64decode(item["embedding"], validate=True)
            close(struct.unpack("<256f", data), encode(text), "base64", text)
    status, reply = server.post(PATH, {"input": "see", "dimensions": 7})
    close(reply["data"][0]["embedding"], encode("see"), "dimensions", n=7)
    status, reply = server.post(PATH, {"input": "see", "dimensions": 4, "encoding_format": "base64"})
    equal(len(base64.b64decode(reply["data"][0]["embedding"], validate=True)), 16, "bytes of four numbers")
    for ids in ([98, 99], [[98, 99], [100]]):  # as they are, without an end
        for item, given in zip(server.post(PATH, {"input": ids})[1]["data"], ids if isinstance(ids[0], list) else [ids]):
            close(item["embedding"], given, "ids", ids)


def test_others():
    for path, body in (("/embedding", {"content": "see"}), ("/embedding", {"input": "see"}), ("/embeddings", {"content": "see"})):
        for power in (2, -1, 0, 1, 3):
            status, reply = server.post(path, dict(body, embd_normalize=power))
            equal((status, reply[0]["index"], len(reply[0]["embedding"])), (200, 0, 1), path, body)
            close(reply[0]["embedding"][0], encode("see"), path, "normalized by", power, power=power)
    model = {"model": server.get("/v1/models")[1]["data"][0]["id"]}
    status, reply = server.post("/api/embed", dict(model, input=["see", "be"], keep_alive="5m", options={}))
    equal((status, reply["model"], reply["prompt_eval_count"]), (200, model["model"], len(encode("see") + encode("be"))), "Ollama")
    close(reply["embeddings"][1], encode("be"), "Ollama's second")
    for nothing in ({}, {"input": ""}, {"input": []}):
        equal(server.post("/api/embed", dict(model, **nothing))[1]["embeddings"], [], "Ollama, nothing")
    long = "b" + "a" * 3000
    equal(server.post("/api/embed", dict(model, input=long))[1]["prompt_eval_count"], 1024, "what is too long is cut")
    close(server.post("/api/embed", dict(model, input=long))[1]["embeddings"][0], (list(long.encode())[:1024 - ends] +
          [END] * ends), "a text that is cut")
    status, reply = server.post("/api/embeddings", dict(model, prompt="see"))
    close(reply["embedding"], encode("see"), "Ollama's old form", power=-1)
    equal(server.post("/api/embeddings", model)[1], {"embedding": []}, "Ollama's old form, nothing")


def test_refused():
    server.error(PATH, {}, 400, param="input", holds="missing")
    server.error(PATH, {"input": ""}, 400, param="input", holds="empty")
    server.error(PATH, {"input": []}, 400, param="input", holds="empty array")
    server.error(PATH, {"input": [[]]}, 400, param="input", holds="empty list")
    server.error(PATH, {"input": 3}, 400, param="input", holds="not an integer")
    server.error(PATH, {"input": ["a", {}]}, 400, param="input", holds="an object")
    server.error(PATH, {"input": [99999]}, 400, param="input", holds="ids below")
    server.error(PATH, {"input": ["a"] * 2049}, 400, param="input", holds="2048")
    server.error(PATH, {"input": "a" * 1025}, 400, code="context_length_exceeded", holds="1024")
    server.error(PATH, {"input": "a", "dimensions": 257}, 400, param="dimensions", holds="256")
    server.error(PATH, {"input": "a", "dimensions": 0}, 400, param="dimensions")
    server.error(PATH, {"input": "a", "encoding_format": "hex"}, 400, param="encoding_format", holds="base64")
    server.error(PATH, {"input": "a", "model": "none"}, 404, code="model_not_found")
    server.error(PATH, {"input": "a", "strict": True, "content": "x"}, 400, param="strict", holds="'content'")
    server.error("/embedding", {"content": None}, 400, param="content", holds="missing")
    for path, body, status in (("/api/embed", {"input": "a"}, 400), ("/api/embed", {"model": "none", "input": "a"}, 404),
                               ("/api/embeddings", {"model": "script", "prompt": ["a"]}, 400),
                               ("/api/embed", {"model": "script", "input": "a" * 1025, "truncate": False}, 400)):
        got, reply = server.post(path, body)
        equal((got, list(reply)), (status, ["error"]), path, body)


def test_beside_answers():
    """An answer is the same beside a batch, and a batch whose client has gone is let go."""
    ask = {"messages": [{"role": "user", "content": "go l"}], "max_tokens": 100, "temperature": 0}
    got = []
    threads = [threading.Thread(target=lambda: got.append(server.post(PATH, {"input": ["see"] * 300, "dimensions": 4}))),
               threading.Thread(target=lambda: got.append(server.post("/v1/chat/completions", ask)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for status, reply in got:
        equal(status, 200, reply)
        if "choices" in reply:
            equal(reply["choices"][0]["message"]["content"], ("la " * 100).strip(" ") + " ", "beside others")
        else:
            check(all(d["embedding"] == reply["data"][0]["embedding"] for d in reply["data"]), "300 times the same")
    body = json.dumps({"input": ["x" * 1000] * 2000}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        server.wait_metric("kt_running", lambda n: n > 0)
    server.wait_metric("kt_running", lambda n: n == 0)
    server.wait_metric("kt_requests", lambda n: n == 1)  # that of /metrics itself


if pooling == "refused":
    server.error(PATH, {"input": "a"}, 400, code="not_supported", holds="pooling_type is 2")
else:
    for name, test in list(globals().items()):
        if name.startswith("test_") and (name != "test_beside_answers" or not ends):
            test()
finish()
