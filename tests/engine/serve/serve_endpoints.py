# SPDX-License-Identifier: Apache-2.0
"""All paths of a server of the trained model: serve_endpoints.py PORT"""
import json
import socket
import sys

from serve_client import Server, check, equal, finish

server = Server(int(sys.argv[1]))
PROMPT = "KATHARINA:\nI pray you,"
VOCABULARY = 2048  # tokens of the model
GREEDY = " sir, I will not be so.\n\nPETRUCHIO:\nI'll tell you, sir, I will not be a gentleman.\n"
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def whole(events, index=0):
    """What a stream says, as a reply that does not stream has it."""
    message, calls, finish_reason = {"content": "", "reasoning_content": ""}, [], None
    logprobs = []
    for event in events:
        for choice in event["choices"]:
            if choice["index"] != index:
                continue
            delta = choice.get("delta", {"content": choice.get("text")})
            for name in message:
                message[name] += delta.get(name) or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    calls.append({"name": call["function"]["name"], "arguments": ""})
                calls[call["index"]]["arguments"] += call["function"]["arguments"]
            if choice["logprobs"]:
                logprobs += choice["logprobs"].get("content") or choice["logprobs"]["token_logprobs"]
            if choice["finish_reason"]:
                check(finish_reason is None, "two reasons to end")
                finish_reason = choice["finish_reason"]
    return message, calls, finish_reason, logprobs


def both(path, body):
    """A reply and a stream of the same request must say the same; the reply."""
    status, reply = server.post(path, body)
    if not equal(status, 200, path, body, reply):
        return None
    events, done = server.stream(path, dict(body, stream_options={"include_usage": True}))
    check(done, path, "a stream must end with [DONE]")
    for i, choice in enumerate(reply["choices"]):
        message, calls, reason, logprobs = whole(events, i)
        said = choice.get("message", {"content": choice.get("text")})
        equal(message["content"], said.get("content") or "", path, body, "streamed content")
        equal(message["reasoning_content"], said.get("reasoning_content") or "", path, body, "reasoning")
        equal(reason, choice["finish_reason"], path, body, "streamed finish_reason")
        wanted = [{k: c["function"][k] for k in ("name", "arguments")} for c in said.get("tool_calls", [])]
        equal(calls, wanted, path, body, "calls")
        if choice["logprobs"]:
            equal(logprobs, choice["logprobs"].get("content") or choice["logprobs"]["token_logprobs"], "logprobs")
    usage = dict(events[-1]["usage"], prompt_tokens_details=None)
    equal(usage, dict(reply["usage"], prompt_tokens_details=None), path, body, "usage")
    equal(events[-1]["choices"], [], "choices of the event with usage")
    check(all(event["usage"] is None for event in events[:-1]), "other events have a usage of null")
    ids = {event["id"] for event in events}
    equal(len(ids), 1, "one id for all events")
    return reply


def test_info():
    equal(server.get("/health"), (200, {"status": "ok"}), "/health")
    status, models = server.get("/v1/models")
    equal(status, 200, "/v1/models")
    equal([m["id"] for m in models["data"]], ["tiny-moe-q4_k_m"], "/v1/models")
    equal(models["data"][0]["max_model_len"], 256, "max_model_len")
    equal(server.get("/v1/models/tiny-moe-q4_k_m"), (200, models["data"][0]), "/v1/models/NAME")
    equal(server.get("/v1/models/other")[0], 404, "/v1/models/other")
    check("version" in server.get("/version")[1], "/version")
    status, headers, page = server.request("GET", "/")
    equal(status, 200, "/")
    check(b"<title>" in page and b"http://" not in page and b"https://" not in page and b"//cdn" not in page,
          "the page must load nothing from elsewhere")
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        status, headers, part = server.request("GET", path)
        check(status == 200 and headers["Content-Type"].startswith(kind), path, headers)
        policy = headers["Content-Security-Policy"]
        check("default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy, path, policy)
        check(b"innerHTML" not in part and b" style=" not in part and b"onclick=" not in part, path, "needs another policy")
    equal(server.request("HEAD", "/health")[::2], (200, b""), "HEAD")


def test_text():
    status, reply = server.post("/tokenize", {"prompt": PROMPT})
    equal(status, 200, "/tokenize", reply)
    equal(reply["count"], len(reply["tokens"]), "count")
    equal(reply["count"], 7, "tokens")
    status, back = server.post("/detokenize", {"tokens": reply["tokens"]})
    equal((status, back["prompt"]), (200, PROMPT), "/detokenize")
    status, pieces = server.post("/tokenize", {"content": PROMPT, "with_pieces": True})
    equal("".join(t["piece"] for t in pieces["tokens"]), PROMPT, "pieces")
    messages = [{"role": "user", "content": "Hello <|im_end|>"}]
    status, reply = server.post("/apply-template", {"messages": messages})
    equal(status, 200, "/apply-template", reply)
    check("Hello <|im_end|>" in reply["prompt"], "the template's text", reply)
    status, chat = server.post("/tokenize", {"messages": messages})
    _, raw = server.post("/tokenize", {"prompt": reply["prompt"]})
    check(len(chat["tokens"]) > len(raw["tokens"]), "a message's <|im_end|> must not become a control token")
    end = server.post("/tokenize", {"prompt": "<|im_end|>"})[1]["tokens"]
    equal(len(end), 1, "in a completion's prompt it is one")
    equal(chat["tokens"].count(end[0]), raw["tokens"].count(end[0]) - 1, "control tokens of the chat")
    equal(server.post("/tokenize", {"prompt": "a\u0000b"})[0], 200, "a zero byte")
    # In names of fields they are refused.
    for body in ({"prompt": "x", "a\u0000b": 1}, {"prompt": "x", "logit_bias": {"1\u0000": 1}}, {"\u0000": "x"}):
        server.error(COMPLETIONS, body, 400)
    server.error(COMPLETIONS, {"prompt": "x", "model": "tiny-moe-q4_k_m\u0000x"}, 400, param="model", holds="zero byte")


def test_completions():
    reply = both(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 28})
    choice = reply["choices"][0]
    check(GREEDY.startswith(choice["text"][:40]) and len(choice["text"]) > 40, "greedy", repr(choice["text"]))
    equal(choice["finish_reason"], "length", "finish_reason")
    equal((reply["usage"]["prompt_tokens"], reply["usage"]["completion_tokens"]), (7, 28), "usage")
    text = choice["text"]
    status, ids = server.post("/tokenize", {"prompt": PROMPT})
    again = server.post(COMPLETIONS, {"prompt": ids["tokens"], "temperature": 0, "max_tokens": 28})[1]
    equal(again["choices"][0]["text"], text, "ids as the prompt")
    equal(server.post(COMPLETIONS, {"prompt": PROMPT, "temperature": 0})[1]["usage"]["completion_tokens"], 16,
          "max_tokens where nothing is said")
    # Stop strings, over tokens.
    for stop in ("not be", ["zzz", "PETRUCHIO"], "\n\nPET", "o", " sir"):
        stops = [stop] if isinstance(stop, str) else stop
        reply = both(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 28, "stop": stop})
        at = min(text.find(s) for s in stops if s in text)
        equal(reply["choices"][0]["text"], text[:at], "stop", stop)
        equal(reply["choices"][0]["finish_reason"], "stop", "stop", stop)
    # What some clients say where they have nothing to say.
    for empty in ("", [], [""]):
        same = server.post(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 28.0, "stop": empty})[1]
        equal(same["choices"][0]["text"], text, "stop", empty)
    equal(server.post(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": -1})[1]["usage"]
          ["completion_tokens"], 16, "max_tokens -1")
    reply = both(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 28,
                               "stop": ["x" * 1024, "", "PETRUCHIO"], "stop_token_ids": [0] * 128})
    equal(reply["choices"][0]["text"], text[:text.find("PETRUCHIO")], "an empty string among stops")
    reply = both(COMPLETIONS, {"prompt": [PROMPT, "ROMEO:"], "n": 2, "temperature": 0, "max_tokens": 6})
    equal([c["index"] for c in reply["choices"]], [0, 1, 2, 3], "indexes")
    equal(reply["choices"][0]["text"], reply["choices"][1]["text"], "two answers of temperature 0")
    check(text.startswith(reply["choices"][0]["text"]), "the first prompt's answer")
    reply = both(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 4, "echo": True})
    check(reply["choices"][0]["text"].startswith(PROMPT + " sir"), "echo", reply["choices"][0]["text"])


def test_best_of():
    """Of best_of answers those whose tokens are the likeliest on average, and all of them in usage."""
    ask = {"prompt": [PROMPT, "ROMEO:"], "temperature": 1.5, "seed": 3, "max_tokens": 12, "stop": ","}
    every = server.post(COMPLETIONS, dict(ask, n=6, logprobs=0))[1]
    said = [(c["text"], c["logprobs"]["token_logprobs"]) for c in every["choices"]]
    for n, more in ((1, {}), (2, {"logprobs": 0})):
        status, reply = server.post(COMPLETIONS, dict(ask, n=n, best_of=6, **more))
        equal([c["index"] for c in reply["choices"]], list(range(2 * n)), "indexes")
        for prompt in range(2):
            best = sorted(said[6 * prompt:6 * prompt + 6], key=lambda s: -sum(s[1]) / len(s[1]))[:n]
            shown = reply["choices"][n * prompt:n * prompt + n]
            equal([c["text"] for c in shown], [text for text, _ in best], "the best", n, "of", said)
            equal([c["logprobs"] and c["logprobs"]["token_logprobs"] for c in shown],
                  [logprobs if more else None for _, logprobs in best], "their logprobs")
        equal(reply["usage"]["completion_tokens"], every["usage"]["completion_tokens"], "usage of all")
        equal(reply["usage"]["prompt_tokens"], every["usage"]["prompt_tokens"], "usage of prompts")


def test_sampling():
    body = {"prompt": PROMPT, "temperature": 1, "max_tokens": 20, "seed": 7}
    first = both(COMPLETIONS, body)["choices"][0]["text"]
    equal(server.post(COMPLETIONS, body)[1]["choices"][0]["text"], first, "the same seed")
    others = {server.post(COMPLETIONS, dict(body, seed=s))[1]["choices"][0]["text"] for s in range(8, 12)}
    check(len(others | {first}) > 2, "other seeds")
    several = server.post(COMPLETIONS, dict(body, n=4))[1]["choices"]
    check(len({c["text"] for c in several}) > 1, "n answers differ")
    equal(several[0]["text"], first, "the first of n has the seed itself")
    greedy = dict(body, temperature=0)
    text = server.post(COMPLETIONS, greedy)[1]["choices"][0]["text"]
    equal(server.post(COMPLETIONS, dict(body, top_k=1))[1]["choices"][0]["text"], text, "top_k 1")
    equal(server.post(COMPLETIONS, dict(body, top_p=1e-6))[1]["choices"][0]["text"], text, "top_p 0")
    equal(server.post(COMPLETIONS, dict(body, min_p=1))[1]["choices"][0]["text"], text, "min_p 1")
    token = server.post("/tokenize", {"prompt": " sir", "add_special": False})[1]["tokens"][0]
    biased = server.post(COMPLETIONS, dict(greedy, logit_bias={str(token): -100}))[1]["choices"][0]["text"]
    check(not biased.startswith(" sir"), "logit_bias -100", biased)
    # It is a ban, not a number: all others are as unlikely, and still one of them comes.
    others = {str(i): -99.5 for i in range(VOCABULARY) if i != token}
    for bias, comes in ((-99.9, True), (-100, False)):
        biased = dict(greedy, max_tokens=1, logit_bias=dict(others, **{str(token): bias}))
        text = server.post(COMPLETIONS, biased)[1]["choices"][0]["text"]
        equal(text.startswith(" sir"), comes, "logit_bias beside others of -99.5", bias, text)
    forced = server.post(COMPLETIONS, dict(greedy, max_tokens=3, logit_bias={str(token): 100}))[1]
    equal(forced["choices"][0]["text"], " sir" * 3, "logit_bias 100")
    # A bias moves a token by just as much as it says.
    top = server.post(COMPLETIONS, dict(greedy, max_tokens=1, logprobs=2))[1]["choices"][0]["logprobs"]["top_logprobs"][0]
    (first, most), (second, less) = sorted(top.items(), key=lambda item: -item[1])
    first_id, second_id = (server.post("/tokenize", {"prompt": t, "add_special": False})[1]["tokens"] for t in (first, second))
    if check(len(first_id) == len(second_id) == 1, "tokens that are text", first, second):
        for bias, wanted in ((most - less - 0.05, first), (most - less + 0.05, second)):
            for ids, sign in ((second_id, 1), (first_id, -1)):
                said = server.post(COMPLETIONS, dict(greedy, max_tokens=1, logit_bias={str(ids[0]): sign * bias}))[1]
                equal(said["choices"][0]["text"], wanted, "logit_bias", sign * bias, "of", ids)
    stopped = server.post(COMPLETIONS, dict(greedy, stop_token_ids=[token]))[1]["choices"][0]
    equal((stopped["text"], stopped["finish_reason"]), ("", "stop"), "stop_token_ids")
    repeated = server.post(COMPLETIONS, dict(greedy, frequency_penalty=2, presence_penalty=2))[1]
    check(repeated["choices"][0]["text"] != text, "penalties")


def test_logprobs():
    reply = both(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, "max_tokens": 5, "logprobs": 3})
    old = reply["choices"][0]["logprobs"]
    equal("".join(old["tokens"]), reply["choices"][0]["text"], "tokens")
    equal(old["text_offset"][:2], [0, len(old["tokens"][0])], "text_offset")
    for token, value, top in zip(old["tokens"], old["token_logprobs"], old["top_logprobs"]):
        equal(len(top), 3, "top_logprobs")
        equal(max(top, key=top.get), token, "the likeliest token of temperature 0")
        check(top[token] == value and value < 0, "logprobs", token, value, top)
    # Of the prompt, too: each token is as likely as where it is asked for behind those before it.
    ask = {"prompt": PROMPT, "temperature": 0, "max_tokens": 5, "logprobs": 3, "echo": True}
    echoed = both(COMPLETIONS, ask)["choices"][0]
    ids = server.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]
    got = echoed["logprobs"]
    equal([len(got[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")], [len(ids) + 5] * 4)
    equal((got["token_logprobs"][0], got["top_logprobs"][0]), (None, None), "the first token follows nothing")
    equal({name: got[name][len(ids):] for name in got if name != "text_offset"},
          {name: old[name] for name in old if name != "text_offset"}, "the answer behind an echo")
    for i, offset in enumerate(got["text_offset"]):
        check(echoed["text"].startswith(got["tokens"][i], offset) or i == 0, "text_offset", i, offset)
    for i in range(1, len(ids)):
        one = server.post(COMPLETIONS, dict(ask, prompt=ids[:i], max_tokens=1, echo=False))[1]
        equal(got["top_logprobs"][i], one["choices"][0]["logprobs"]["top_logprobs"][0], "of the prompt's token", i)
        chosen = server.post(COMPLETIONS, dict(ask, prompt=ids[:i], max_tokens=1, echo=False, logprobs=0,
                                               stop_token_ids=[], logit_bias={str(ids[i]): 100}))[1]
        if chosen["choices"][0]["logprobs"]["tokens"] == [got["tokens"][i]]:
            equal(got["token_logprobs"][i], chosen["choices"][0]["logprobs"]["token_logprobs"][0], "token", i)
    alone = both(COMPLETIONS, dict(ask, max_tokens=0, n=2))
    equal(alone["usage"]["completion_tokens"], 0, "tokens of max_tokens 0")
    for choice in alone["choices"]:
        equal((choice["text"], choice["finish_reason"]), (PROMPT, "length"), "max_tokens 0")
        equal(choice["logprobs"], {name: got[name][:len(ids)] for name in got}, "max_tokens 0")
    equal(both(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 0, "echo": True})["choices"][0]["text"], PROMPT, "echo alone")
    server.error(COMPLETIONS, dict(ask, prompt=[ids * 30] * 64, logprobs=20, n=1), 400, param="echo", holds="262144")
    chat = both(CHAT, {"messages": [{"role": "user", "content": "Speak."}], "temperature": 0, "max_tokens": 5,
                       "logprobs": True, "top_logprobs": 2})
    content = chat["choices"][0]["logprobs"]["content"]
    check(content and all(len(t["top_logprobs"]) == 2 for t in content), "logprobs of a chat")
    check(all(bytes(t["bytes"]).decode("utf-8", "replace") == t["token"] for t in content), "bytes")


def test_chat():
    messages = [{"role": "system", "content": "Speak."}, {"role": "user", "content": "Hello"}]
    reply = both(CHAT, {"messages": messages, "temperature": 0, "max_tokens": 12})
    message = reply["choices"][0]["message"]
    equal(message["role"], "assistant", "role")
    check(reply["id"].startswith("chatcmpl-") and reply["object"] == "chat.completion", "object", reply)
    parts = [{"role": "developer", "content": "Speak."},
             {"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    same = server.post(CHAT, {"messages": parts, "temperature": 0, "max_tokens": 12})[1]
    equal(same["choices"][0]["message"], message, "developer, and parts")
    equal(same["usage"]["prompt_tokens"], reply["usage"]["prompt_tokens"], "prompt_tokens")
    body = {"messages": messages, "temperature": 0, "max_tokens": 12, "unknown": [1], "user": "me"}
    equal(server.post(CHAT, body)[1]["choices"][0]["message"], message, "unknown fields are ignored")
    history = messages + [{"role": "assistant", "content": None, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "3"}]
    status, reply = server.post("/apply-template", {"messages": history})
    check(status in (200, 400), "calls in the history", reply)
    equal(server.post(CHAT, {"messages": messages, "max_completion_tokens": 3, "max_tokens": 9})[1]["usage"]
          ["completion_tokens"] <= 3, True, "max_completion_tokens")


def test_line_ends():
    ends = "\u0085\u2028\u2029"
    prompt = "a" + ends + "\u00c2\u00e2\u2027 b"
    reply = both(COMPLETIONS, {"prompt": prompt, "temperature": 0, "max_tokens": 1, "echo": True})
    check(reply["choices"][0]["text"].startswith(prompt), "echo", reply["choices"][0]["text"])
    data = server.request("POST", COMPLETIONS, {"prompt": prompt, "max_tokens": 1, "echo": True, "stream": True})[2]
    check(not any(end in data.decode() for end in ends), "line ends of Unicode in events", data[:300])


def test_refused():
    ok = [{"role": "user", "content": "x"}]
    for name, value in (("temperature", "hot"), ("temperature", 3), ("temperature", -1), ("top_p", 2), ("n", 0),
                        ("n", 1.5), ("max_tokens", -2), ("max_tokens", 0), ("max_tokens", "9"), ("stream", 1), ("stop", 7),
                        ("stop", "x" * 1025), ("stop", ["x"] * 17), ("top_k", 1e300), ("top_k", 40.5), ("seed", "x"), ("logit_bias", []),
                        ("logit_bias", {"x": 1}), ("logit_bias", {"1": 200}), ("logit_bias", {"99999999": 1}),
                        ("logit_bias", {"01": 1}), ("logit_bias", {str(i): 1 for i in range(4097)}),
                        ("stop_token_ids", [1] * 129),
                        ("presence_penalty", 9), ("logprobs", "x"), ("model", 3), ("stop_token_ids", [-1])):
        server.error(CHAT, {"messages": ok, name: value}, 400, param=name)
        server.error(COMPLETIONS, {"prompt": "x", name: value}, 400, param=name)
    for name, value in (("functions", [{"name": "f"}]), ("function_call", "auto")):
        server.error(CHAT, {"messages": ok, name: value}, 400, param=name, holds="'tools'")
    server.error(CHAT, {"messages": ok, "top_logprobs": 3}, 400, param="top_logprobs")
    server.error(CHAT, {"messages": ok, "stream_options": {}}, 400, param="stream_options")
    server.error(CHAT, {"messages": ok, "model": "gpt"}, 404, param="model", code="model_not_found")
    server.error(CHAT, {}, 400, param="messages")
    server.error(CHAT, {"messages": []}, 400, param="messages")
    server.error(CHAT, {"messages": [1]}, 400, param="messages[0].role")
    server.error(CHAT, {"messages": ok + [{"role": "king", "content": "x"}]}, 400, param="messages[1].role")
    server.error(CHAT, {"messages": [{"role": "user", "content": 3}]}, 400, param="messages[0].content")
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    server.error(CHAT, {"messages": image}, 400, param="messages[0].content", holds="image_url")
    server.error(CHAT, {"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400,
                 param="messages[0].tool_calls")
    server.error(CHAT, {"messages": ok, "tools": [{}]}, 400, param="tools")
    server.error(CHAT, {"messages": [{"role": "assistant", "tool_calls": 3}]}, 400, param="messages[0].tool_calls")
    for function, holds in (({"name": ""}, "must be a name"), ({"name": "f", "parameters": 3}, "must be an object")):
        server.error(CHAT, {"messages": ok, "tools": [{"type": "function", "function": function}]}, 400, param="tools",
                     holds=holds)
    begun = {"messages": ok + [{"role": "assistant", "content": "x"}], "continue_final_message": True}
    tools = [{"type": "function", "function": {"name": "f"}}]
    server.error(CHAT, dict(begun, tools=tools, tool_choice="required"), 400, param="tool_choice", holds="begun")
    server.error(CHAT, dict(begun, response_format={"type": "json_object"}), 400, param="response_format", holds="begun")
    server.error(COMPLETIONS, {"prompt": "x", "suffix": "y"}, 400, param="suffix")
    server.error(COMPLETIONS, {"prompt": "x", "best_of": 3, "stream": True}, 400, param="best_of", holds="streamed")
    server.error(COMPLETIONS, {"prompt": ["x"] * 9, "best_of": 8}, 400, param="prompt", holds="64")
    server.error(CHAT, {"messages": ok, "tool_choice": "required"}, 400, param="tool_choice")
    for wrong in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 1}}):
        server.error(CHAT, {"messages": ok, "response_format": wrong}, 400, param="response_format")
    wrong = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": {"a": {"uniqueItems": True}}}}}
    server.error(CHAT, {"messages": ok, "response_format": wrong}, 400, param="response_format",
                 holds="#/properties/a: 'uniqueItems' is supported for items")
    server.error(COMPLETIONS, {}, 400, param="prompt")
    server.error(COMPLETIONS, {"prompt": 3}, 400, param="prompt")
    server.error(COMPLETIONS, {"prompt": []}, 400, param="prompt")
    server.error(COMPLETIONS, {"prompt": [99999]}, 400, param="prompt")
    server.error(COMPLETIONS, {"prompt": ["x", {}]}, 400, param="prompt")
    server.error(COMPLETIONS, {"prompt": ["x"] * 40, "n": 2}, 400, param="prompt")
    server.error("/detokenize", {"tokens": ["x"]}, 400, param="tokens")
    server.error("/tokenize", {"prompt": {}}, 400, param="prompt")
    long = {"prompt": "word " * 400, "max_tokens": 1}
    server.error(COMPLETIONS, long, 400, code="context_length_exceeded", holds="256")
    server.error(COMPLETIONS, dict(long, stream=True), 400, code="context_length_exceeded")
    server.error(CHAT, [1, 2], 400, holds="an array")
    for body in (b"", b"{", b"\xff", b'{"a":1}x', b'{"a":' + b"[" * 5000, b"[" * 200 + b"]" * 200,
                 b'{"messages":"\xc3\x28"}', b'{"seed": 99999999999999999999}'):
        status, reply = server.post(CHAT, body)
        equal((status, reply["error"]["type"]), (400, "invalid_request_error"), "body", body[:30])
    equal(server.request("GET", CHAT)[0], 405, "GET")
    equal(server.request("GET", CHAT)[1]["Allow"], "POST", "Allow")
    equal(server.request("DELETE", "/health")[0], 405, "DELETE")
    for path in ("/nowhere", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1", "//", "/v1/models/../../etc"):
        equal(server.request("GET", path)[0], 404, path)
    for path, what in (("/v1/images/generations", "images"), ("/v1/audio/speech", "sound"), ("/lora-adapters", "LoRA")):
        server.error(path, {"input": "x"}, 400, code="not_implemented", holds=what)  # not 5xx, which clients send again
    equal(list(server.post("/api/pull", {})[1]), ["error"], "/api/pull")
    server.error("/infill", {"input_prefix": "x"}, 400, param="input_suffix", holds="tokens for gaps")
    server.error(COMPLETIONS, {"prompt": "x", "suffix": "y"}, 400, param="suffix", holds="tokens for gaps")


def test_strict():
    """Fields that nobody reads are refused where a request wants that; all that are read are known."""
    ok = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "strict": True}
    server.error(CHAT, dict(ok, temperatur=1), 400, param="strict", holds="'temperatur'")
    server.error(COMPLETIONS, {"prompt": "x", "strict": True, "": 1}, 400, param="strict")
    server.error(COMPLETIONS, {"prompt": "x", "strict": True, "top_k min_p": 1}, 400, param="strict")
    both_have = {"temperature": 0, "top_p": 1, "min_p": 0, "typical_p": 1, "top_n_sigma": 0, "xtc_probability": 0,
                 "xtc_threshold": 0.1, "repetition_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
                 "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "top_k": 5, "seed": 1, "min_tokens": 1,
                 "n": 1, "stream": False, "ignore_eos": False, "model": "tiny-moe-q4_k_m", "logit_bias": {},
                 "stop_token_ids": [], "stop": ["z"], "user": "me"}
    chat = {"logprobs": True, "top_logprobs": 1, "parallel_tool_calls": True, "max_completion_tokens": 1,
            "tools": [], "tool_choice": "none", "chat_template_kwargs": {}, "response_format": {"type": "text"},
            "reasoning_effort": "low", "add_generation_prompt": True, "continue_final_message": False,
            "separate_reasoning": True, "return_progress": True}
    equal(server.post(CHAT, dict(both_have, **ok, **chat))[0], 200, "all fields of chats")
    completion = {"prompt": "x", "strict": True, "max_tokens": 1, "echo": True, "logprobs": 1, "best_of": 1}
    equal(server.post(COMPLETIONS, dict(both_have, **completion))[0], 200, "all fields of completions")


def test_nesting():
    inner = []
    for _ in range(200):
        inner = [inner]
    server.error("/tokenize", {"prompt": "x", "unknown": inner}, 400, holds="nests deeper than 100")


def test_length():
    body = {"prompt": "word " * 100, "temperature": 0, "max_tokens": 1000, "ignore_eos": True}
    status, reply = server.post(COMPLETIONS, body)
    equal((status, reply["choices"][0]["finish_reason"]), (200, "length"), "the context ends an answer")
    check(reply["usage"]["total_tokens"] in (256, 257), "usage", reply["usage"])
    again = server.post(COMPLETIONS, body)[1]
    check(again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 64, "a kept prefix", again["usage"])
    equal(again["choices"], reply["choices"], "the same text from a kept prefix")


def test_hosts():
    for host, wanted in (("localhost", 200), ("127.0.0.1:9", 200), ("[::1]:30000", 200), ("a.localhost", 200),
                         ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403)):
        equal(server.request("GET", "/health", headers={"Host": host})[0], wanted, "Host", host)
    for origin, wanted in (("http://evil.example", 403), ("null", 403),
                           ("http://127.0.0.1:%d" % server.port, 200)):
        equal(server.request("GET", "/health", headers={"Origin": origin})[0], wanted, "Origin", origin)
    # A target with a host, which counts instead of the header; blanks around a header's value are not a part of it.
    for target, headers, wanted in (
            ("http://localhost/health", "Host: evil.example", 200), ("HTTP://LOCALHOST:1/health?a=b", "Host: x", 200),
            ("https://[::1]/version", "Host: x", 200), ("http://localhost", "Host: x", 200),
            ("http://localhost/nowhere", "Host: x", 404), ("http://evil.example/health", "Host: localhost", 403),
            ("http:///health", "Host: x", 400), ("http://localhost@evil.example/health", "Host: localhost", 400),
            ("http://evil.example@localhost/health", "Host: localhost", 400), ("ftp://localhost/", "Host: localhost", 404),
            ("http://localhost/health", "Host: x\r\nOrigin: http://LOCALHOST", 200),
            ("http://localhost/health", "Host: x\r\nOrigin: http://x", 403),
            ("/health", "Host:localhost \t ", 200), ("/health", "Host: \t localhost", 200),
            ("/health", "Host: localhost\t\r\nOrigin: http://localhost ", 200),
            ("/health", "Host: localhost \r\nOrigin: http://evil.example ", 403)):
        request = "GET %s HTTP/1.1\r\n%s\r\nConnection: close\r\n\r\n" % (target, headers)
        reply = server.raw(request.encode(), end=False)
        equal(reply[9:12], b"%d" % wanted, target, headers)
    equal("Access-Control-Allow-Origin" in server.request("GET", "/health")[1], False, "CORS")


def test_hang_up():
    before = server.metrics()
    body = json.dumps({"prompt": PROMPT, "max_tokens": 240, "ignore_eos": True, "n": 8}).encode()
    for stream in (b'"stream": false', b'"stream": true'):
        sent = b"{" + stream + b", " + body[1:]
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent)
        server.wait_metric("kt_running", lambda n: n > 0)
        if b"true" in stream:
            check(s.recv(10), "a stream must begin")
        s.close()
        server.wait_metric("kt_running", lambda n: n == 0)
        server.wait_metric("kt_requests", lambda n: n == 1)  # that of /metrics itself
    after = server.metrics()
    equal(after["kt_hung_up_total"] - before["kt_hung_up_total"], 2, "hung up")
    name = 'kt_answers_total{reason="cancelled"}'
    check(after[name] > before[name], "answers must be cancelled", before[name], after[name])


def test_metrics():
    numbers = server.metrics()
    stages = ['kt_step_seconds_sum{stage="%s"}' % s for s in ("linears", "experts", "attention", "head", "other")]
    total = numbers['kt_step_seconds_sum{stage="all"}']
    check(all(numbers[name] > 0 for name in stages), "stages", [numbers[name] for name in stages])
    check(abs(sum(numbers[name] for name in stages) - total) < 1e-3 * total + 1e-6, "stages add up", total)
    equal(numbers['kt_step_seconds_bucket{stage="head",le="+Inf"}'], numbers["kt_steps_total"], "steps")
    rate = numbers["kt_prompt_tokens_per_second_sum"] / numbers["kt_prompt_tokens_per_second_count"]
    check(1 < rate < 1e6, "tokens of prompts a second", rate)
    for name in ("kt_time_to_first_token_seconds", "kt_inter_token_seconds", "kt_request_seconds",
                 "kt_prompt_tokens_per_second"):
        check(numbers[name + "_count"] > 0, name)
        equal(numbers[name + '_bucket{le="+Inf"}'], numbers[name + "_count"], name)
    check(numbers["kt_generated_tokens_total"] > 100, "kt_generated_tokens_total")
    check(numbers['kt_requests_total{status="4xx"}'] > 50, "kt_requests_total")
    equal(numbers['kt_kv_pages{state="used"}'], 0, "pages that nobody uses")


def test_framing():
    host, chunks, body = b"Host: localhost\r\n", b"Transfer-Encoding: chunked\r\n", b'{"prompt": "x"}'
    length = b"Content-Length: %d\r\n" % len(body)
    hidden = b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for headers, sent, wanted in ((host + length, body, b" 200 "), (host + length + chunks, hidden, b" 400 "),
                                  (host + chunks + b"Content-Length: 5\r\n", hidden, b" 400 "),
                                  (host + length + length, body, b" 400 "),
                                  (host + length + b"Content-Length: 0\r\n", body, b" 400 "),
                                  (host + host + length, body, b" 400 "), (length, body, b" 400 "),
                                  (host + b"Transfer-Encoding: gzip, chunked\r\n", hidden, b" 501 "),
                                  (host + b"Transfer-Encoding: chunked \r\n", hidden, b" 501 ")):
        close = b"Connection: close\r\n" if wanted == b" 200 " else b""
        reply = server.raw(b"POST /tokenize HTTP/1.1\r\n" + close + headers + b"\r\n" + sent, end=False)
        check(wanted in reply.split(b"\r\n")[0], headers, reply[:300])
        equal(reply.count(b"\r\nDate: "), 1, headers, "replies")


def test_pipelined():
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reply = server.raw(one * 3 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), end=False)
    equal(reply.count(b"HTTP/1.1 200"), 4, "requests in a row")
    reply = server.raw(b"GET /health HTTP/1.0\r\n\r\n", end=False)
    check(b" 200 " in reply.split(b"\r\n")[0], "HTTP/1.0", reply[:80])
    reply = server.raw(b"POST /tokenize HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
                       b"f\r\n{\"prompt\": \"x\"}\r\n0\r\n\r\n" + one, end=False)
    check(b" 200 " in reply[:20] and reply.count(b" 200 ") == 1, "chunks are not a part of HTTP/1.0", reply)
    body = b'{"prompt": "x"}'
    # Without its length, or with a head that seems to end before it: what follows is no request.
    for head in (b"", b": x\r\nContent-Length: 15\r\n"):
        reply = server.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n" + body + one, end=False)
        check(b" 400 " in reply[:20] and reply.count(b"HTTP/1.1 ") == 1, "a body without a length", reply)
    reply = server.raw(b"GET /version%00x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", end=False)
    check(b" 404 " in reply[:20], "a path with a zero byte", reply[:80])
    chunks = b"".join(b"1\r\n" + body[i:i + 1] + b"\r\n" for i in range(len(body))) + b"0\r\n\r\n"
    reply = server.raw(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n" + chunks, end=False)
    check(b" 200 " in reply.split(b"\r\n")[0], "a body in chunks", reply[:80])


for name, test in list(globals().items()):
    if name.startswith("test_") and name != "test_metrics":
        test()
test_metrics()
finish()
