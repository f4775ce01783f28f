# SPDX-License-Identifier: Apache-2.0
"""The Python package openai as a client: serve_openai.py PORT"""
import json
import sys

import openai

from serve_client import check, equal, finish

client = openai.OpenAI(base_url="http://127.0.0.1:%s/v1" % sys.argv[1], api_key="any", max_retries=0, timeout=60)
MODEL = client.models.list().data[0].id
MESSAGES = [{"role": "system", "content": "Speak."}, {"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}


def raises(kind, status, **request):
    try:
        client.chat.completions.create(**dict({"model": MODEL, "messages": MESSAGES, "max_tokens": 3}, **request))
    except kind as error:
        equal(error.status_code, status, request, "status")
        check(error.message and error.body["message"], request, "message")
        return error
    return check(False, request, "must raise", kind)


whole = client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=8, logprobs=True,
                                       top_logprobs=2)
equal(whole.usage.completion_tokens, 8, "completion_tokens")
equal(whole.choices[0].finish_reason, "length", "finish_reason")
equal(len(whole.choices[0].logprobs.content), 8, "logprobs")
text, usage, finish_reason = "", None, None
with client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=8, stream=True,
                                    stream_options={"include_usage": True}) as stream:
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish_reason = choice.finish_reason or finish_reason
equal(text, whole.choices[0].message.content, "the streamed text")
equal((usage.completion_tokens, finish_reason), (8, "length"), "the streamed usage")
with client.chat.completions.stream(model=MODEL, messages=MESSAGES, temperature=0, max_tokens=8) as stream:
    for _ in stream:
        pass
    equal(stream.current_completion_snapshot.choices[0].message.content, text, "the stream helper")
for choice in ("auto", "none"):
    told = client.chat.completions.create(model=MODEL, messages=MESSAGES, tools=[TOOL], tool_choice=choice, max_tokens=4)
    check(told.choices[0].finish_reason in ("length", "stop", "tool_calls"), "tools")
several = client.chat.completions.create(model=MODEL, messages=MESSAGES, n=3, seed=5, max_tokens=6, stop=["\n"],
                                         presence_penalty=0.5, frequency_penalty=0.5, top_p=0.9,
                                         logit_bias={"5": -100}, extra_body={"top_k": 20, "min_p": 0.01})
equal([c.index for c in several.choices], [0, 1, 2], "n")
old = client.completions.create(model=MODEL, prompt="ROMEO:", temperature=0, max_tokens=6, logprobs=1)
equal("".join(old.choices[0].logprobs.tokens), old.choices[0].text, "a completion's logprobs")
pieces = "".join(c.choices[0].text for c in client.completions.create(model=MODEL, prompt="ROMEO:", temperature=0,
                                                                      max_tokens=6, stream=True))
equal(pieces, old.choices[0].text, "a streamed completion")
# A form: any text of the model has it, and no other one.
SCHEMA = {"type": "object", "properties": {
    "kind": {"enum": ["a", "bc"]}, "n": {"type": "integer", "minimum": -20, "maximum": 300},
    "tag": {"type": ["string", "null"], "maxLength": 6}}, "required": ["kind", "n", "tag"],
    "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "made", "schema": SCHEMA, "strict": True}}
formed = client.chat.completions.create(model=MODEL, messages=MESSAGES, n=3, seed=1, temperature=1.5, max_tokens=200,
                                        response_format=FORM)
for choice in formed.choices:
    equal(choice.finish_reason, "stop", "a formed answer's finish_reason")
    made = json.loads(choice.message.content)
    equal(list(made), ["kind", "n", "tag"], "its members")
    check(made["kind"] in ("a", "bc") and -20 <= made["n"] <= 300 and len(made["tag"] or "") <= 6, "its values", made)
# A call that must be.
STRICT = {"type": "function", "function": {"name": "note", "strict": True, "parameters": {
    "type": "object", "properties": {"level": {"enum": ["low", "high"]}, "n": {"type": "integer", "maximum": 9}},
    "required": ["level"], "additionalProperties": False}}}
told = client.chat.completions.create(model=MODEL, messages=MESSAGES, tools=[STRICT], tool_choice={"type": "function", "function": {"name": "note"}}, seed=2,
                                      temperature=1.5, max_tokens=180, parallel_tool_calls=False).choices[0]
equal((told.finish_reason, len(told.message.tool_calls), told.message.content or ""), ("tool_calls", 1, ""), "a call")
equal(told.message.tool_calls[0].function.name, "note", "its name")
made = json.loads(told.message.tool_calls[0].function.arguments)
check(made["level"] in ("low", "high") and made.get("n", 0) <= 9 and set(made) <= {"level", "n"}, "arguments", made)
error = raises(openai.BadRequestError, 400, tools=[STRICT], tool_choice={"type": "function", "function": {"name": "x"}})
equal(error.param, "tool_choice", "a tool that is none")
error = raises(openai.BadRequestError, 400, temperature=5)
equal(error.param, "temperature", "param")
equal(raises(openai.NotFoundError, 404, model="gpt-none").code, "model_not_found", "code")
equal(raises(openai.BadRequestError, 400, messages=[{"role": "user", "content": "word " * 800}]).code,
      "context_length_exceeded", "code")
try:
    client.with_options(timeout=0.001).chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=200,
                                                              extra_body={"ignore_eos": True})
    check(False, "a timeout must be raised")
except openai.APITimeoutError:
    pass
equal(client.models.retrieve(MODEL).id, MODEL, "models.retrieve")
finish()
