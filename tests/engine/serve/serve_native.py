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
        ("chat", {"model": name, "messages": SAID, "options": {"mirostat": 2}}, 400, "'options.mirostat' is not supported"),
        ("chat", {"model": name, "messages": [dict(SAID[0], images=["AA"])]}, 400, "images' are not supported")):
    got, reply = server.post("/api/" + path, body)
    check(got == status and words in reply["error"], path, body, got, reply)

def said_ollama(**options):
    return server.post("/api/generate", {"model": name, "prompt": "l", "raw": True, "stream": False, "options": dict(
        {"temperature": 0, "num_predict": 5}, **options)})[1]["response"]


equal((said_ollama(), said_ollama(num_predict=-2, num_ctx=64, stop=["la la"]), said_ollama(mirostat=0, repeat_last_n=64)),
      ("la la la la la ", "", "la la la la la "), "options")
check(said_ollama(repeat_penalty=100) != said_ollama(repeat_penalty=100, repeat_last_n=0) == said_ollama(), "repeat_last_n")

# ---- llama-server ----
status, whole = server.post("/completion", {"prompt": "c", "n_predict": 3})
check(status == 200 and whole["stop"] and isinstance(whole["content"], str), "a completion", whole)


def said(prompt="go a", **more):
    status, reply = server.post("/completion", dict({"prompt": prompt, "temperature": 0, "n_predict": 6}, **more))
    return reply["content"] if equal(status, 200, prompt, more, reply) else None


WHOLE = said()
for prompt in ([103, "o a"], ["go", 32, "a"], {"prompt_string": "go a"}, {"prompt_string": "go a", "multimodal_data": []}):
    equal(said(prompt), WHOLE, prompt)
status, several = server.post("/completion", {"prompt": ["go a", [103, "o a"], {"prompt_string": "go a"}], "temperature": 0, "n_predict": 6})
equal([answer["content"] for answer in several], [WHOLE] * 3, "prompts of all kinds")
status, reply = server.post("/completion", {"prompt": "go a", "temperature": 0, "n_predict": 3, "return_tokens": True})
equal(server.post("/detokenize", {"tokens": reply["tokens"]})[1]["content"], reply["content"], "tokens")
equal((whole["tokens"], reply["prompt"], reply["generation_settings"]["repeat_last_n"]), ([], "go a", -1), "a reply")
streamed = server.stream("/completion", {"prompt": "go a", "temperature": 0, "n_predict": 3})[0]
equal([id for part in streamed for id in part["tokens"]], reply["tokens"], "tokens of a stream")
equal(server.post("/completion", {"prompt": "a", "n_predict": 1, "response_fields": ["stop", "generation_settings/n_predict", "x/y", ""]})[1],
      {"stop": True, "generation_settings/n_predict": 1}, "response_fields")
banned = said(logit_bias={"195": -100})
check(banned != WHOLE, "a ban", banned)
for bias in ([[195, False]], [["\u00e9", False]], {"\u00e9": False}, {"\u00e9": -100}, [["\u00e9", -60], ["\u00e9", -60]]):
    equal(said(logit_bias=bias), banned, bias)
equal(said("r", n_indent=2, n_predict=20), "<think>\n", "n_indent")
late, full = said("r", t_max_predict_ms=1, n_predict=20), said("r", n_predict=20)
check(full.startswith(late) and (late == full or late.endswith("\n")), "t_max_predict_ms", late)
LOOP = said("l")
check(said("l", repeat_penalty=100) != LOOP and said("l", repeat_penalty=100, samplers=["top_k", "top_p"]) == LOOP, "samplers")
equal(said("l", repeat_penalty=100, repeat_last_n=0), LOOP, "repeat_last_n")
dry = {"dry_multiplier": 100, "dry_allowed_length": 1}
check(said("l", **dry) != LOOP, "DRY")
for more in ({"dry_penalty_last_n": 0}, {"dry_sequence_breakers": ["la"]}, {"dry_multiplier": 0, "dry_sequence_breakers": ["la"]}):
    equal(said("l", **dict(dry, **more)), LOOP, more)
for more in ({"temperature": -1}, {"top_n_sigma": -1}, {"mirostat": 0, "mirostat_tau": 5, "lora": [], "min_keep": 1, "n_keep": -1},
             {"lora": [{"id": 0, "scale": 0}], "dynatemp_range": 0.0, "timings_per_token": False, "image_data": []},
             {"samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]}):
    equal(said(**more), WHOLE, more)
equal(len(server.post("/completion", {"prompt": "go a", "n_predict": 1, "n_cmpl": 2})[1]), 2, "n_cmpl")
for field, value in (("dynatemp_range", 0.5), ("mirostat", 1), ("lora", [{"id": 0, "scale": 1}]), ("lora", [{}]), ("min_keep", 2),
                     ("post_sampling_probs", True), ("timings_per_token", True), ("image_data", [{}]), ("system_prompt", "x"),
                     ("samplers", ["infill"]), ("samplers", ["top_p", "top_k"]), ("samplers", "kp"), ("samplers", [1]),
                     ("n_probs", 21), ("return_tokens", 1), ("response_fields", "x"), ("n_indent", -1), ("repeat_last_n", -2),
                     ("dry_sequence_breakers", [""]), ("dry_sequence_breakers", ["x"] * 17), ("logit_bias", [["T", "x"]]),
                     ("logit_bias", {"T": None}), ("logit_bias", {"T": 101}), ("prompt", ["a", 1, []]), ("prompt", {"prompt_string": "a", "multimodal_data": ["AA"]})):
    got, reply = server.post("/completion", dict({"prompt": "c", "n_predict": 1}, **{field: value}))
    check(got == 400 and ("'" + field in reply["error"]["message"] or field == "prompt"), field, value, got, reply)
# Texts as tokens: each of the two servers presets it differently.
equal(server.post("/tokenize", {"content": "<|im_end|>"})[1]["tokens"], [257], "a control token")
equal(len(server.post("/tokenize", {"content": "<|im_end|>", "parse_special": False})[1]["tokens"]), 10, "its letters")
equal(server.post("/tokenize", {"content": "a\u00e9", "with_pieces": True})[1]["tokens"],
      [{"id": 97, "piece": "a"}, {"id": 195, "piece": [195]}, {"id": 169, "piece": [169]}], "pieces")
equal(server.post("/tokenize", {"prompt": "ab", "return_token_strs": True})[1]["token_strs"], ["a", "b"], "texts of tokens")
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
equal(server.get("/v1/health")[0], 200, "/v1/health")
for path in ("/v1/rerank", "/rerank", "/v1/reranking", "/lora-adapters", "/v1/audio/transcriptions", "/generate"):
    got, reply = server.post(path, {"query": "a", "documents": ["b"]})
    check(got in (400, 404) and " " in reply["error"]["message"], path, got, reply)
finish()
