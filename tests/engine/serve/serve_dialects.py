# SPDX-License-Identifier: Apache-2.0
"""Three APIs of one server, whose model says what it is told to (serve_script.py): serve_dialects.py PORT"""
import json
import sys

from serve_client import Server, check, equal, finish
from serve_script import CALLS, SAID

server = Server(int(sys.argv[1]))
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
TOOLS = {CHAT: [{"type": "function", "function": {"name": "weather", "description": "It", "parameters": SCHEMA}}],
         MESSAGES: [{"name": "weather", "description": "It", "input_schema": SCHEMA}],
         RESPONSES: [{"type": "function", "name": "weather", "description": "It", "parameters": SCHEMA}]}
N_TOKENS = 16  # of the script c, its end included


def events_of(path, body):
    """The events of a stream, with their names."""
    status, headers, data = server.request("POST", path, dict(body, stream=True))
    if not equal(status, 200, path, "status of a stream", data[:300]):
        return []
    check(headers["Content-Type"].startswith("text/event-stream"), path, headers)
    found = []
    for block in data.decode().split("\n\n"):
        if block and not block.startswith(":"):
            name, line = block.split("\n")
            check(name.startswith("event: ") and line.startswith("data: "), path, "an event", block[:200])
            found.append(json.loads(line[6:]))
            equal(found[-1]["type"], name[7:], path, "name of an event")
    return found


# ---- each API's way to say it, as blocks, a reason and the numbers of tokens ----

def count_reasoning(blocks, n):
    """Pieces of a script are tokens."""
    said = [block for block in blocks if block[0] == "thinking"]
    equal(n, {"I wonder.": 2, "Where?": 1, "Alone.": 3}[said[0][1]] if said else 0, "tokens of reasoning", blocks)


def of_message(message):
    names = {"text": "text", "thinking": "thinking"}
    blocks = [("call", b["name"], b["input"]) if b["type"] == "tool_use" else (b["type"], b[names[b["type"]]])
              for b in message["content"]]
    usage = message["usage"]
    count_reasoning(blocks, usage["output_tokens_details"]["thinking_tokens"])
    return blocks, message["stop_reason"], (usage["input_tokens"] + usage["cache_read_input_tokens"],
                                            usage["output_tokens"])


def stream_message(body):
    events, message, open_block, parts = events_of(MESSAGES, body), None, None, []
    for event in events:
        kind = event["type"]
        if kind == "message_start":
            check(message is None and event["message"]["content"] == [], "message_start", event)
            message = event["message"]
        elif kind == "content_block_start":
            check(open_block is None and event["index"] == len(message["content"]), "content_block_start", event)
            open_block, parts = event["content_block"], []
            message["content"].append(open_block)
        elif kind == "content_block_delta":
            equal(event["index"], len(message["content"]) - 1, "index")
            delta = event["delta"]
            field = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[open_block["type"]]
            parts.append(delta[field])
        elif kind == "content_block_stop":
            text = "".join(parts)
            if open_block["type"] == "tool_use":
                try:
                    open_block["input"] = json.loads(text)
                except ValueError:
                    pass  # it was cut off
            else:
                open_block[open_block["type"]] = text
            open_block = None
        elif kind == "message_delta":
            check(open_block is None, "message_delta", event)
            message.update(event["delta"])
            message["usage"] = event["usage"]
        else:
            equal((kind, event), ("message_stop", events[-1]), "the last event")
    return of_message(message) if message else None


def of_response(reply):
    blocks = []
    for item in reply["output"]:
        if item["type"] == "function_call":
            blocks.append(("call", item["name"], item["arguments"]))
        else:
            kind = {"reasoning": "thinking", "message": "text"}[item["type"]]
            blocks.append((kind, "".join(part["text"] for part in item["content"])))
    usage = reply["usage"]
    equal(usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"], "total_tokens")
    equal([item["status"] for item in reply["output"]][:-1], ["completed"] * (len(blocks) - 1), "status of items")
    count_reasoning(blocks, usage["output_tokens_details"]["reasoning_tokens"])
    return blocks, reply["status"], (usage["input_tokens"], usage["output_tokens"])


def stream_response(body):
    events, items, texts = events_of(RESPONSES, body), [], {}
    equal([e["sequence_number"] for e in events], list(range(len(events))), "sequence_number")
    equal([e["type"] for e in events[:2]], ["response.created", "response.in_progress"], "the first events")
    for event in events[2:-1]:
        kind, at = event["type"], event["output_index"]
        if kind == "response.output_item.added":
            equal(at, len(items), "output_index")
            items.append(event["item"])
            continue
        equal(at, len(items) - 1, "output_index of", kind)
        if kind == "response.output_item.done":
            equal(event["item"]["id"], items[at]["id"], "id of an item")
            items[at] = event["item"]
        else:
            equal(event["item_id"], items[at]["id"], "item_id of", kind)
        if kind.endswith(".delta"):
            texts[at] = texts.get(at, "") + event["delta"]
        elif kind.endswith("_text.done") or kind.endswith("arguments.done"):
            equal(event.get("text", event.get("arguments")), texts.get(at, ""), "the text of", kind)
    if not events:
        return None
    reply = events[-1]["response"]
    equal(events[-1]["type"], "response." + reply["status"], "the last event")
    equal(reply["output"], items, "the output of the last event")
    return of_response(reply)


def of_choice(reply):
    choice, usage = reply["choices"][0], reply["usage"]
    message, blocks = choice["message"], []
    if message.get("reasoning_content"):
        blocks.append(("thinking", message["reasoning_content"]))
    if message["content"]:
        blocks.append(("text", message["content"]))
    blocks += [("call", c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])]
    count_reasoning(blocks, usage["completion_tokens_details"]["reasoning_tokens"])
    return blocks, choice["finish_reason"], (usage["prompt_tokens"], usage["completion_tokens"])


def stream_choice(body):
    message, calls, last = {"content": "", "reasoning_content": ""}, [], None
    events, done = server.stream(CHAT, dict(body, stream_options={"include_usage": True}))
    check(done, "[DONE]")
    for event in events[:-1]:
        choice = event["choices"][0]
        for name in message:
            message[name] += choice["delta"].get(name) or ""
        for call in choice["delta"].get("tool_calls", []):
            if "id" in call:
                equal(call["index"], len(calls), "number of a call")
                calls.append(call)
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
        last = choice["finish_reason"] or last
    message["tool_calls"] = calls
    return of_choice({"choices": [{"message": message, "finish_reason": last}], "usage": events[-1]["usage"]})


def ask(path, text, most=40, tools=True, **more):
    """A reply and a stream of the same question, which must say the same."""
    body = dict({"temperature": 0}, **more)
    body["max_output_tokens" if path == RESPONSES else "max_tokens"] = most
    body["input" if path == RESPONSES else "messages"] = [{"role": "user", "content": text}]
    if tools:
        body["tools"] = TOOLS[path]
    status, reply = server.post(path, body)
    if not equal(status, 200, path, text, reply):
        return None, reply
    whole = {CHAT: of_choice, MESSAGES: of_message, RESPONSES: of_response}[path](reply)
    streamed = {CHAT: stream_choice, MESSAGES: stream_message, RESPONSES: stream_response}[path](body)
    equal(streamed, whole, path, text, "streamed")
    return whole, reply


# ---- answers ----

REASONS = {CHAT: ("stop", "length", "tool_calls"), MESSAGES: ("end_turn", "max_tokens", "tool_use"),
           RESPONSES: ("completed", "incomplete", "completed")}


def with_inputs(path, blocks):
    return [("call", b[1], json.loads(b[2])) if b[0] == "call" and path == MESSAGES else b for b in blocks]


def test_blocks():
    for script, blocks in SAID.items():
        for path in (CHAT, MESSAGES, RESPONSES):
            (got, reason, _), _ = ask(path, "go " + script)
            wanted = with_inputs(path, blocks)
            if path == CHAT and script == "b":  # its form has one text, before the calls
                wanted = [("text", "Both:\nand text."), wanted[1]]
            equal(got, wanted, path, script)
            equal(reason, REASONS[path][2 if script in "cb" else 0], path, script, "why it ended")


def test_cuts():
    """Wherever an answer is cut, all APIs say the same, and none says that a call is whole which is not."""
    for n in range(1, N_TOKENS + 1):
        said = {path: ask(path, "go c", n)[0] for path in (CHAT, MESSAGES, RESPONSES)}
        blocks = said[RESPONSES][0]
        # Where no name had come, what was to be a call is text; a chat has one text only.
        late = [b for b in blocks[2:] if b[0] == "text"]
        check(late in ([], [("text", "\n<tool_call>\n{")]), n, "tokens:", blocks)
        texts = "".join(b[1] for b in blocks if b[0] == "text")
        equal([b for b in said[CHAT][0] if b[0] != "text"], [b for b in blocks if b[0] != "text"], n, "tokens")
        equal("".join(b[1] for b in said[CHAT][0] if b[0] == "text"), texts, n, "tokens: the text")
        check(texts in ("", "Let me ", "Let me see.", "Let me see.\n<tool_call>\n", "Let me see.\n<tool_call>\n{"), texts)
        is_whole = n == N_TOKENS
        for path, (blocks, reason, (_, n_tokens)) in said.items():
            equal(reason, REASONS[path][2 if is_whole else 1], path, n, "tokens: why it ended")
            equal(n_tokens, n, path, "tokens of the answer")
        calls = [b for b in blocks if b[0] == "call"]
        for call, wanted in zip(calls, CALLS):
            check(call[1] == wanted[1] and wanted[2].startswith(call[2]), n, "tokens:", calls)
        for got, block in zip(said[MESSAGES][0], blocks):
            if got[0] == "call":
                cut = block[2] not in ('{"place": "Paris"}', "{}")
                equal(got[2], {} if cut else json.loads(block[2]), n, "tokens: the input of a call")


def test_choice():
    for path in (CHAT, MESSAGES, RESPONSES):
        none = {"type": "none"} if path == MESSAGES else "none"
        (blocks, reason, _), _ = ask(path, "go b", tool_choice=none)
        equal((reason, len(blocks)), (REASONS[path][0], 1), path, "without tools", blocks)
        check("<tool_call>" in blocks[0][1], path, "what looks like a call is text", blocks)
        serial = {"parallel_tool_calls": False}
        if path == MESSAGES:
            serial = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        (blocks, reason, _), _ = ask(path, "go c", **serial)
        equal((blocks[2:], reason), (with_inputs(path, CALLS[:1]), REASONS[path][2]), path, "one call at a time")


def test_stops():
    (blocks, reason, _), reply = ask(MESSAGES, "go s", stop_sequences=["zzz", "STOP"])
    equal((blocks, reason, reply["stop_sequence"]), ([("text", "one two three ")], "stop_sequence", "STOP"), "stops")
    (blocks, reason, _), reply = ask(MESSAGES, "go s", stop_sequences=["five"])  # only at the end
    equal((blocks, reason, reply["stop_sequence"]), ([("text", "one two three STOP four ")], "stop_sequence", "five"),
          "stop at the end")
    (blocks, reason, _), reply = ask(MESSAGES, "go s")
    equal((reason, reply["stop_sequence"]), ("end_turn", None), "no stop sequence")
    # In text that was held back to the end of the answer, as a call might have begun with it.
    for stop, text in (("<to", "hold on "), ("n <tool_", "hold o"), ("_", "hold on <tool"), (None, "hold on <tool_")):
        (blocks, reason, _), reply = ask(MESSAGES, "go h", tools=TOOLS[MESSAGES], stop_sequences=[stop] if stop else [])
        equal((blocks, reason, reply["stop_sequence"]),
              ([("text", text)], "stop_sequence" if stop else "end_turn", stop), "stops in what was held back")
    # What might have become a stop string stands before the call that comes instead.
    blocks = ask(MESSAGES, "go b", tools=TOOLS[MESSAGES], stop_sequences=["h:!"])[0][0]
    equal((blocks[0], len(blocks)), (("text", "Both:"), 3), "text before a call")
    events = events_of(MESSAGES, {"max_tokens": 9, "messages": [{"role": "user", "content": "go s"}],
                                  "stop_sequences": ["STOP"], "temperature": 0})
    equal(events[-2]["delta"], {"stop_reason": "stop_sequence", "stop_sequence": "STOP"}, "message_delta")
    equal(ask(MESSAGES, "go l", 4000)[0][1], "model_context_window_exceeded", "a full context")
    (blocks, _, _), _ = ask(RESPONSES, "go l", 5)
    equal(blocks, [("text", "la la la la la ")], "the text of 5 tokens")


# ---- prompts ----

def test_prompts():
    """What is the same in all APIs makes the same prompt: of the second, all whole pages are there already."""
    tail = {"role": "user", "content": "word " * 50 + "a"}  # more than a page
    call = {"id": "x", "type": "function", "function": {"name": "weather", "arguments": '{"place":"Rome"}'}}
    chat = [{"role": "system", "content": "Be\nkind"}, {"role": "user", "content": "Hi\nthere"},
            {"role": "assistant", "content": "So:", "reasoning_content": "Hm\nm", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "x", "content": "rain\nwind"}, {"role": "user", "content": "And?"},
            {"role": "assistant", "content": "Wet"}, tail]
    texts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]
    result = [{"type": "text", "text": "rain"}, {"type": "text", "text": "wind"}]
    found = [texts[0], {"type": "document", "title": "x", "source": {"type": "text", "media_type": "text/plain", "data": "there"}}]
    hosted = [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
              {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}]
    message = [{"role": "user", "content": found},
               {"role": "assistant", "content": hosted + [{"type": "thinking", "thinking": "Hm", "signature": "s"},
                                                 {"type": "redacted_thinking", "data": "xyz"},
                                                 {"type": "thinking", "thinking": "m"}, {"type": "text", "text": "So:"},
                                                 {"type": "tool_use", "id": "x", "name": "weather",
                                                  "input": {"place": "Rome"}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [
                   result[0], {"type": "search_result", "source": "x", "title": "y", "content": result[1:]}]},
                                            {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}}]},
               {"role": "assistant", "content": "Wet"}, tail]
    items = [{"role": "developer", "content": "kind"},
             {"role": "user", "content": [{"type": "input_text", "text": t["text"]} for t in texts]},
             {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
             {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "m"}]},
             {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So:"}]},
             {"type": "function_call", "call_id": "x", "name": "weather", "arguments": '{"place":"Rome"}'},
             {"type": "function_call_output", "call_id": "x", "output": "rain\nwind"},
             {"type": "compaction", "encrypted_content": "x"}, {"type": None, "role": "user", "content": "And?"},
             {"role": "assistant", "content": "Wet"}, tail]
    bodies = {CHAT: {"messages": chat}, MESSAGES: {"messages": message, "system": [{"type": "text", "text": "Be"},
                                                                                   {"type": "text", "text": "kind"}]},
              RESPONSES: {"input": items, "instructions": "Be"}}
    for path, body in bodies.items():
        status, reply = server.post(path, dict(body, tools=TOOLS[path], temperature=0, max_tokens=9))
        if not equal(status, 200, path, reply):
            continue
        got = {CHAT: of_choice, MESSAGES: of_message, RESPONSES: of_response}[path](reply)
        equal(got[0], SAID["a"], path, "the answer")
        usage = reply["usage"]
        if path == CHAT:
            n = got[2][0]
            continue
        equal(got[2][0], n, path, "tokens of the prompt")
        cached = usage.get("cache_read_input_tokens", usage.get("input_tokens_details", {}).get("cached_tokens"))
        check(n - 64 <= cached < n, path, "must find the same prompt:", cached, "of", n)
    counted = server.post(MESSAGES + "/count_tokens", dict(bodies[MESSAGES], tools=TOOLS[MESSAGES]))
    equal(counted, (200, {"input_tokens": n}), "count_tokens")


def test_zeros():
    """Texts that are joined keep their zero bytes, and what is behind these."""
    prompts = [server.post("/apply-template", {"messages": [{"role": "user", "content": content}]}) for content in
               ([{"type": "text", "text": t} for t in ("a\u0000b", "", "c\u0000")], "a\u0000b\n\nc\u0000")]
    equal(prompts[0], prompts[1], "parts that are joined")
    check("a\u0000b\n\nc\u0000" in prompts[0][1].get("prompt", ""), "zero bytes in a template", prompts[0])


def test_thinking():
    counts = {}
    for word, more in (("on", {"type": "enabled", "budget_tokens": 1024}), ("off", {"type": "disabled"}), ("", None)):
        body = {"messages": [{"role": "user", "content": "a"}]}
        if more:
            body["thinking"] = more
        counts[word] = server.post(MESSAGES + "/count_tokens", body)[1]["input_tokens"]
    equal((counts["on"] - counts[""], counts["off"] - counts[""]), (len(" thinks ") - 1, len(" does not ") - 1), counts)
    plain = server.post(RESPONSES, {"input": "a", "max_output_tokens": 1})[1]["usage"]["input_tokens"]
    off = server.post(RESPONSES, {"input": "a", "max_output_tokens": 1, "reasoning": {"effort": "none"}})[1]
    equal(off["usage"]["input_tokens"] - plain, len(" does not ") - 1, "effort none")


def test_continued():
    """An answer that the request has begun."""
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "As I said, b"}]
    for system in ({"messages": begun, "system": "Be"}, {"messages": [{"role": "system", "content": "Be"}] + begun}):
        equal(server.post(MESSAGES + "/count_tokens", system)[1]["input_tokens"], 45, "a system's message")
    body = {"messages": begun, "continue_final_message": True, "add_generation_prompt": False}
    status, reply = server.post("/apply-template", body)
    check(status == 200 and reply["prompt"].endswith("<|im_start|>assistant\nAs I said, b"), "the prompt", reply)
    equal(server.post("/apply-template", {"messages": begun, "continue_final_message": True})[1], reply, "alone")
    equal(server.post(CHAT, dict(body, max_tokens=20, temperature=0, tools=TOOLS[CHAT]))[1]["choices"][0]["message"]
          ["tool_calls"][0]["function"]["arguments"], '{"zone": "UTC"}', "the rest of the answer")
    n = server.post("/tokenize", body)[1]["count"]
    equal(n, len(server.post("/tokenize", {"prompt": reply["prompt"]})[1]["tokens"]), "its tokens")
    status, message = server.post(MESSAGES, {"messages": begun, "max_tokens": 9, "temperature": 0})
    equal((status, message["usage"]["input_tokens"] + message["usage"]["cache_read_input_tokens"]), (200, n), message)
    check(message["content"][0]["text"].startswith("Both"), "Anthropic's messages continue with the last one", message)
    # Its end is where it was, whatever it holds.
    for text in ("a <|im_end|>", "b  \n", "kt-end-", "", "\u00e9"):
        body["messages"] = [begun[0], {"role": "assistant", "content": text}]
        prompt = server.post("/apply-template", body)[1]["prompt"]
        check(prompt.endswith("<|im_start|>assistant\n" + text), "the end of", repr(text), prompt)
    for messages in (begun[:1], [{"role": "assistant", "content": "a", "tool_calls": [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]):
        server.error(CHAT, {"messages": messages, "continue_final_message": True}, 400, param="continue_final_message")
    server.error(CHAT, {"messages": begun, "continue_final_message": True, "add_generation_prompt": True}, 400,
                 param="continue_final_message")
    zero = {"messages": [begun[0], {"role": "assistant", "content": "\u0000a"}], "continue_final_message": True}
    equal(server.post(CHAT, zero)[0], 200, "a zero byte in the message that is continued")


# ---- what is refused ----

def refused(path, body, status, kind, holds):
    """Anthropic's form of an error."""
    got, reply = server.post(path, body)
    what = (path, json.dumps(body)[:200])
    if equal(got, status, *what, reply):
        equal((sorted(reply), sorted(reply["error"])), (["error", "type"], ["message", "type"]), *what, reply)
        equal((reply["type"], reply["error"]["type"]), ("error", kind), *what)
        check(holds in reply["error"]["message"], *what, reply["error"]["message"], "must hold", holds)


def test_refused_messages():
    ok = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
    wrong = "invalid_request_error"
    for more, holds in (({"max_tokens": None}, "'max_tokens' is missing"), ({"max_tokens": 0}, "max_tokens"),
                        ({"max_tokens": "x"}, "max_tokens"), ({"messages": []}, "messages"),
                        ({"messages": [1]}, "messages[0].role"), ({"temperature": 9}, "temperature"),
                        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
                        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
                        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
                         "messages[0].content[0]' is of type image"),
                        ({"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "x"}]}]}, "tool_use"),
                        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "x"}]}]}, "input"),
                        ({"messages": [{"role": "assistant", "content": [
                            {"type": "tool_use", "id": "x", "name": "f", "input": {}}]}]}, "tool_result is missing"),
                        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "needs a string"),
                        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "tool_use_id"),
                        ({"messages": [{"role": "user", "content": [
                            {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "image"}]}]}]}, "image"),
                        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
                        ({"system": 4}, "system"), ({"tools": [{"name": "x"}]}, "input_schema"),
                        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}],
                          "tool_choice": {"type": "any"}}, "there are no 'tools'"), ({"tools": [{"type": 1}]}, "a string"),
                        ({"tool_choice": {"type": "tool"}}, "tool_choice"), ({"tool_choice": {}}, "tool_choice"),
                        ({"stop_sequences": ["x" * 2000]}, "'stop_sequences'"), ({"stop_sequences": [1]}, "'stop_sequences'"),
                        ({"output_config": {"format": {"type": "xml"}}}, "output_config")):
        refused(MESSAGES, {k: v for k, v in dict(ok, **more).items() if v is not None}, 400, wrong, holds)
    refused(MESSAGES, dict(ok, model="other"), 404, "not_found_error", "other")
    refused(MESSAGES, [], 400, wrong, "an array")
    long = dict(ok, messages=[{"role": "user", "content": "long " * 1000}])
    refused(MESSAGES, long, 400, wrong, "prompt is too long: ")
    equal(server.post(MESSAGES + "/count_tokens", long)[0], 200, "count_tokens of what is too long")
    status, _, data = server.request("GET", MESSAGES)
    equal((status, json.loads(data)["type"]), (405, "error"), "another method")
    # What would change the form of the answer, but is no field of this API.
    status, reply = server.post(MESSAGES, dict(ok, n=3, logprobs=True, echo=True, stop="The", temperature=0))
    equal((status, reply.get("content")), (200, [{"type": "text", "text": "The answer is "}]), "fields of other APIs")


def test_refused_responses():
    for more, param in (({"store": 1}, "store"), ({"previous_response_id": "resp_1"}, "previous_response_id"),
                        ({"conversation": "c"}, "conversation"), ({"background": True}, "background"),
                        ({"prompt": {"id": "p"}}, "prompt"), ({"truncation": "x"}, "truncation"),
                        ({"include": ["message.output_text.logprobs"]}, "include"), ({"top_logprobs": 2}, "top_logprobs"),
                        ({"input": None}, "input"), ({"input": []}, "input"), ({"input": {}}, "input"),
                        ({"input": [3]}, "input[0]"), ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
                        ({"input": [{"role": "king", "content": "x"}]}, "input[0]"), ({"input": [{"role": "user"}]}, "input[0]"),
                        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0]"),
                        ({"input": [{"type": "function_call", "name": "x"}]}, "input[0]"),
                        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0]"),
                        ({"tools": [{"type": "function", "name": "f", "parameters": 3}]}, "tools"),
                        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
                        ({"tools": [{"type": "custom"}]}, "tools"), ({"tools": [{}]}, "tools"),
                        ({"input": [{"type": "custom_tool_call", "name": "x"}]}, "input[0]"),
                        ({"input": [{"type": "local_shell_call"}]}, "input[0]"),
                        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
                        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "x"}]}}, "tool_choice"),
                        ({"tools": [{"type": "function"}]}, "tools"),
                        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
                        ({"max_output_tokens": 0}, "max_output_tokens"), ({"text": {"format": 3}}, "text.format")):
        server.error(RESPONSES, dict({"input": "a"}, **more), 400, param=param)
    status, reply = server.post(RESPONSES, {"input": "a", "store": True, "metadata": {"x": "y"}, "tools": TOOLS[RESPONSES],
                                            "instructions": "Be", "temperature": 0.5, "max_output_tokens": 9, "n": 4,
                                            "truncation": "auto", "include": ["reasoning.encrypted_content"]})
    wanted = {"metadata": {"x": "y"}, "tools": TOOLS[RESPONSES], "instructions": "Be", "temperature": 0.5,
              "max_output_tokens": 9, "store": False, "tool_choice": "auto", "error": None, "object": "response",
              "incomplete_details": None, "previous_response_id": None, "model": reply.get("model")}
    equal({name: reply.get(name) for name in wanted}, wanted, "what a reply repeats")
    cut = server.post(RESPONSES, {"input": "go r", "max_output_tokens": 6, "temperature": 0})[1]
    equal(([item["status"] for item in cut["output"]], cut["incomplete_details"]),
          (["completed", "incomplete"], {"reason": "max_output_tokens"}), "an answer that was cut")


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
finish()
