# SPDX-License-Identifier: Apache-2.0
"""Answers and calls that must have a form, whatever the model would write: serve_forms.py PORT, of a server whose
template has tools. The model is a tiny one that writes verse, so masks do all of it."""
import json
import re
import sys

from serve_client import Server, check, equal, finish

server = Server(int(sys.argv[1]))
CHAT = "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {
    "kind": {"enum": ["a", "bc"]}, "n": {"type": "integer", "minimum": -20, "maximum": 300},
    "tag": {"type": ["string", "null"], "maxLength": 6}}, "required": ["kind", "n", "tag"],
    "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "made", "schema": SCHEMA, "strict": True}}
NOTE = {"type": "function", "function": {"name": "note", "strict": True, "parameters": {
    "type": "object", "properties": {"level": {"enum": ["low", "high"]}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["level"], "additionalProperties": False}}}


def ask(**request):
    """The choices of a chat."""
    status, reply = server.post(CHAT, dict({"messages": [{"role": "user", "content": "Speak"}], "seed": 1,
                                            "temperature": 1.5, "max_tokens": 200}, **request))
    return reply["choices"] if equal(status, 200, request, reply) else []


def check_made(text):
    made = json.loads(text)
    equal(list(made), ["kind", "n", "tag"], "members")
    check(made["kind"] in ("a", "bc") and -20 <= made["n"] <= 300 and len(made["tag"] or "") <= 6, "values", made)


choices = ask(n=3, response_format=FORM)
for choice in choices:
    equal(choice["finish_reason"], "stop", "finish_reason of a form")
    check_made(choice["message"]["content"])
check(len({choice["message"]["content"] for choice in choices}) == 3, "answers differ")
equal(ask(response_format=FORM)[0]["message"]["content"], choices[0]["message"]["content"], "by its seed")
events, _ = server.stream(CHAT, {"messages": [{"role": "user", "content": "Speak"}], "seed": 2, "max_tokens": 200,
                                 "response_format": FORM})
check_made("".join(event["choices"][0]["delta"].get("content") or "" for event in events))
check(ask(response_format={"type": "json_object"})[0]["message"]["content"].lstrip().startswith("{"), "json_object")
equal(ask(response_format=FORM, max_tokens=2)[0]["finish_reason"], "length", "a form that is cut")
status, reply = server.post("/v1/responses", {"input": "Speak", "temperature": 0, "max_output_tokens": 200, "text": {
    "format": {"type": "json_schema", "name": "made", "schema": SCHEMA}}})
check(status == 200, reply)
check_made("".join(part["text"] for item in reply["output"] for part in item.get("content", ())))
status, reply = server.post("/v1/messages", {"messages": [{"role": "user", "content": "Speak"}], "max_tokens": 200, "temperature": 0,
                                             "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}})
check(status == 200, reply)
check_made("".join(part["text"] for part in reply["content"]))

# What other servers have for it, in chats, completions and, where a client sends it, in the other dialects.
RULES = 'root ::= "n" [0-9]{2,3} (" " word)?\nword ::= "a" | "b" word'
PATTERN, RULED = "[A-C]{2}-\\d{3}", "n[0-9]{2,3}( b*a)?"
for wish, form in (({"guided_regex": PATTERN}, PATTERN), ({"regex": PATTERN}, PATTERN), ({"grammar": RULES}, RULED),
                   ({"ebnf": RULES}, RULED), ({"guided_grammar": RULES, "guided_regex": None}, RULED),
                   ({"structured_outputs": {"regex": PATTERN, "json": None}}, PATTERN),
                   ({"structured_outputs": {"grammar": RULES}}, RULED), ({"guided_choice": ["yes", "no \u00e9"]}, "yes|no \u00e9"),
                   ({"structured_outputs": {"choice": ["x"]}, "grammar": ""}, "x"),
                   ({"json_schema": {"enum": [12, "a"]}}, '12|"a"'), ({"guided_json": '{"const": 7}'}, "7"),
                   ({"structured_outputs": {"json": {"const": 7}}}, "7"),
                   ({"response_format": {"type": "json_schema", "schema": {"const": 7}}}, "7"),
                   ({"response_format": {"type": "json_object", "schema": {"const": {}}}}, "[{]\\s*[}]")):
    text = ask(**wish)[0]["message"]["content"].lstrip()
    check(re.fullmatch(form, text), "a chat", wish, text)
    status, reply = server.post("/v1/completions", dict({"prompt": ["Speak", "Say"], "max_tokens": 100, "temperature": 1.5}, **wish))
    check(status == 200 and all(re.fullmatch(form, choice["text"].lstrip()) for choice in reply["choices"]), "a completion", wish, reply)
    status, reply = server.post("/v1/responses", dict({"input": "Speak", "max_output_tokens": 100}, **wish))
    text = "".join(part["text"] for item in reply.get("output", ()) for part in item.get("content", ()))
    check(status == 200 and re.fullmatch(form, text.lstrip()), "a response", wish, reply)
    status, reply = server.post("/v1/messages", dict({"messages": [{"role": "user", "content": "Speak"}], "max_tokens": 100}, **wish))
    check(status == 200 and re.fullmatch(form, "".join(part["text"] for part in reply["content"]).lstrip()), "a message", wish, reply)
for wish, param, words in (
        ({"guided_regex": "(?<=a)b"}, "guided_regex", "lookbehind"), ({"grammar": "root = 1"}, "grammar", "line 1"),
        ({"guided_choice": []}, "guided_choice", "one at least"), ({"guided_choice": "a"}, "guided_choice", "an array of strings"),
        ({"guided_choice": [1]}, "guided_choice", "no string"), ({"regex": 1}, "regex", "must be a string"),
        ({"regex": "a\0"}, "regex", "a zero byte"), ({"guided_json": {"uniqueItems": True}}, "guided_json", "uniqueItems"),
        ({"json_schema": [1]}, "json_schema", "a JSON Schema"), ({"guided_json_object": 1}, "guided_json_object", "a boolean"),
        ({"regex": "a", "ebnf": RULES}, "regex", "exclude each other"), ({"structural_tag": "x"}, "structural_tag", "not supported"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs", "structural_tag"),
        ({"structured_outputs": 1}, "structured_outputs", "an object"),
        ({"structured_outputs": {"regex": "a"}, "response_format": FORM}, "structured_outputs", "exclude each other"),
        ({"response_format": {"type": "json_object", "schema": 1}}, "response_format", "must be an object"),
        ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern", "not supported")):
    for path, body in ((CHAT, {"messages": [{"role": "user", "content": "Speak"}]}), ("/v1/completions", {"prompt": "Speak"}),
                       ("/v1/responses", {"input": "Speak"}),
                       ("/v1/messages", {"messages": [{"role": "user", "content": "Speak"}], "max_tokens": 9})):
        status, reply = server.post(path, dict(body, **wish))
        check(status == 400 and words in json.dumps(reply, ensure_ascii=False), path, wish, status, reply)
status, reply = server.post(CHAT, {"messages": [{"role": "user", "content": "Speak"}], "tools": [NOTE], "regex": "a"})
check(status == 400 and "tools that may be called" in reply["error"]["message"], "an expression beside tools", reply)
check(ask(tools=[NOTE], tool_choice="none", regex="a+b")[0]["message"]["content"].endswith("b"), "an expression, and no call")
for path, body in (("/v1/responses", {"input": "Speak", "text": {"format": {"type": "json_object"}}, "response_format": FORM}),
                   ("/v1/messages", {"messages": [{"role": "user", "content": "Speak"}], "max_tokens": 9, "response_format": FORM,
                                     "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}})):
    status, reply = server.post(path, body)
    check(status == 400 and "exclude each other" in json.dumps(reply), path, reply)

# Reasoning may stand before a form, in whatever tokens it is spelled, unless the prompt ends behind it.
begins = str(server.post("/tokenize", {"prompt": "<", "add_special": False})[1]["tokens"][0])
for thinks in True, False:
    choice = ask(response_format=FORM, logit_bias={begins: 100}, max_tokens=24 if thinks else 200,
                 chat_template_kwargs={"enable_thinking": thinks})[0]
    equal((choice["finish_reason"], bool(choice["message"].get("reasoning_content"))),
          ("length", True) if thinks else ("stop", False), "enable_thinking", thinks, choice)
    thinks or check_made(choice["message"]["content"])

# Calls that must be: of any tool, or of one.
for wanted in ("required", {"type": "function", "function": {"name": "note"}}):
    choice = ask(tools=[NOTE], tool_choice=wanted, max_tokens=280, parallel_tool_calls=False)[0]
    calls = choice["message"].get("tool_calls", [])
    equal((choice["finish_reason"], len(calls), choice["message"]["content"] or ""), ("tool_calls", 1, ""), "a call")
    made = json.loads(calls[0]["function"]["arguments"])
    check(made["level"] in ("low", "high") and 0 <= made.get("n", 0) <= 9 and set(made) <= {"level", "n"}, "arguments", made)

# One that is cut off in its tags has no text.
for length in range(1, 12):
    choice = ask(tools=[NOTE], tool_choice="required", max_tokens=length, stop=["a", "_"], chat_template_kwargs={"enable_thinking": False})[0]
    equal((choice["finish_reason"], (choice["message"]["content"] or "").strip()), ("length", ""), "a call that is cut off", length)

# A form beside tools that may be called: the answer is one or the other.
kinds = set()
for seed in range(4):
    choice = ask(tools=[NOTE], response_format=FORM, seed=seed, max_tokens=280, parallel_tool_calls=False,
                 logit_bias={begins: 100 if seed % 2 else -100})[0]
    kinds.add(choice["finish_reason"])
    if choice["finish_reason"] == "stop":
        check_made(choice["message"]["content"])
    elif choice["finish_reason"] == "tool_calls":
        equal(choice["message"]["content"] or "", "", "a call")
        check(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["level"] in ("low", "high"), choice)
check({"stop", "tool_calls"} <= kinds, "calls and forms", kinds)
status, reply = server.post("/v1/messages", {
    "messages": [{"role": "user", "content": "Speak"}], "max_tokens": 280, "temperature": 0,
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "tools": [{"name": "note", "strict": True, "input_schema": NOTE["function"]["parameters"]}]})
check(status == 200 and reply["stop_reason"] == "tool_use" and reply["content"][-1]["input"]["level"] in ("low", "high"),
      "a call of messages", reply)
finish()
