# SPDX-License-Identifier: Apache-2.0
"""The Python packages anthropic and openai ask for messages and responses: serve_packages.py PORT PACKAGE"""
import json
import sys

from serve_client import check, equal, finish
from serve_script import SAID

port, package = sys.argv[1:]
URL = "http://127.0.0.1:%s" % port
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}


def asked(script):
    return [{"role": "user", "content": "go " + script}]


def with_inputs(blocks):
    return [(b[0], b[1], json.loads(b[2])) if b[0] == "call" else b for b in blocks]


def of_message(message):
    return [("call", b.name, b.input) if b.type == "tool_use" else (b.type, getattr(b, b.type)) for b in message.content]


def try_anthropic():
    import anthropic
    client = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0, timeout=60)
    tools = [{"name": "weather", "description": "It", "input_schema": SCHEMA}]
    model = client.models.list().data[0].id
    for script, blocks in SAID.items():
        question = dict(model=model, max_tokens=40, messages=asked(script), tools=tools, extra_body={"top_k": 1})
        whole = client.messages.create(**question)
        equal(of_message(whole), with_inputs(blocks), script)
        equal(whole.stop_reason, "tool_use" if script in "cb" else "end_turn", script, "stop_reason")
        with client.messages.stream(**question) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        equal(of_message(final), of_message(whole), script, "streamed")
        equal(text, "".join(b[1] for b in blocks if b[0] == "text"), script, "the stream's text")
        equal((final.usage.output_tokens, final.stop_reason), (whole.usage.output_tokens, whole.stop_reason), script)
        # What the package has made of an answer is a part of the next question.
        calls = [b for b in whole.content if b.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sun"} for b in calls]
        results.append({"type": "text", "text": "go a"})
        question["messages"] = asked(script) + [{"role": "assistant", "content": whole.content},
                                                {"role": "user", "content": results}]
        equal(of_message(client.messages.create(**question)), SAID["a"], script, "the next answer")
    counted = client.messages.count_tokens(model=model, messages=asked("a"))
    once = client.messages.create(model=model, max_tokens=1, messages=asked("a"))
    equal(counted.input_tokens, once.usage.input_tokens + (once.usage.cache_read_input_tokens or 0), "count_tokens")
    for kind, more in ((anthropic.NotFoundError, {"model": "other"}), (anthropic.BadRequestError, {"max_tokens": -1}),
                       (anthropic.BadRequestError, {"messages": asked("long " * 2000)})):
        try:
            client.messages.create(**dict(dict(model=model, max_tokens=4, messages=asked("a")), **more))
            check(False, more, "must raise", kind)
        except kind as error:
            equal(error.body["type"], "error", more, "body")


def of_response(reply):
    return [("call", i.name, i.arguments) if i.type == "function_call" else
            ("thinking" if i.type == "reasoning" else "text", "".join(part.text for part in i.content)) for i in reply.output]


def try_openai():
    import openai
    client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0, timeout=60)
    if not hasattr(client, "responses"):
        print("not run: this package openai has no responses")
        return
    tools = [{"type": "function", "name": "weather", "description": "It", "parameters": SCHEMA}]
    model = client.models.list().data[0].id
    for script, blocks in SAID.items():
        question = dict(model=model, max_output_tokens=40, temperature=0, input=asked(script), tools=tools)
        whole = client.responses.create(**question)
        equal(of_response(whole), blocks, script)
        equal(whole.output_text, "".join(b[1] for b in blocks if b[0] == "text"), script, "output_text")
        final = None
        for event in client.responses.create(stream=True, **question):
            final = event
        equal(of_response(final.response), blocks, script, "streamed")
        equal(final.response.usage.output_tokens, whole.usage.output_tokens, script, "usage")
        with client.responses.stream(**question) as stream:
            equal(of_response(stream.until_done().get_final_response()), blocks, script, "the stream helper")
        question["input"] = asked(script) + [item.model_dump() for item in whole.output]
        question["input"] += [{"type": "function_call_output", "call_id": i.call_id, "output": "sun"}
                              for i in whole.output if i.type == "function_call"] + asked("a")
        equal(of_response(client.responses.create(**question)), SAID["a"], script, "the next answer")
    try:
        client.responses.create(model=model, input="x", previous_response_id="resp_1")
        check(False, "previous_response_id must be refused")
    except openai.BadRequestError as error:
        equal(error.param, "previous_response_id", "param")


{"anthropic": try_anthropic, "openai": try_openai}[package]()
finish()
