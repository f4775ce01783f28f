#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fit_oracle.py FIT_LINES N SEED TEMPLATE.jinja ...: N random conversations, of all forms that OpenAI's API allows, as
the server makes prompts of them. None may be refused; what was said must be in the prompt; and the prompt must be what
Jinja2, set up as transformers does, makes of the same variables. Without Jinja2 the last is left out."""
import datetime
import json
import random
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    jinja2 = None


def make_environment():
    # Some templates append to lists, which Hugging Face's immutable sandbox forbids.
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    environment.filters["tojson"] = tojson
    environment.filters["from_json"] = json.loads
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda f: datetime.datetime(2026, 1, 2, 3, 4, 5).strftime(f)
    return environment


class Conversation:
    def __init__(self, rng):
        self.rng, self.words, self.messages, self.n = rng, [], [], 0
        self.tools = [self.tool(i) for i in range(rng.choice([0, 1, 1, 2]))]
        for _ in range(rng.choice([0, 0, 1, 2])):
            self.add(rng.choice(["system", "developer"]), self.content())
        if rng.random() < 0.1:
            self.add("assistant", self.content())
        for _ in range(rng.randrange(1, 4)):
            self.turn()
        if rng.random() < 0.1:
            self.add("system", self.content())
        if rng.random() < 0.03:
            self.messages = [m for m in self.messages if m["role"] in ("system", "developer")] or self.messages
            self.words = []

    def word(self):
        self.n += 1
        return "kt%dx" % self.n

    def text(self, kept=True):
        word = self.word()
        if kept:
            self.words.append(word)
        return self.rng.choice(["", "ä ", "a\nb ", "</think> "] if kept else [""]) + word

    def content(self, kept=True):
        text = self.text(kept)
        parts = [{"type": "text", "text": text}]
        if self.rng.random() < 0.3:
            parts.append({"type": "text", "text": self.word()})  # no </think>: what stands before it may be left out
            self.words += [parts[1]["text"]] if kept else []
        return parts if len(parts) > 1 else self.rng.choice([text, text, parts])

    def add(self, role, content, **more):
        self.messages.append({"role": role, "content": content, **more})

    def value(self, depth=2):
        rng = self.rng
        scalar = [self.word(), 5, -1, 0.5, True, None, "", 12345678901234567890123, "\u00e4\"\\", 9007199254740993]
        if depth == 0 or rng.random() < 0.6:
            return rng.choice(scalar)
        if rng.random() < 0.5:
            return [self.value(depth - 1) for _ in range(rng.randrange(3))]
        return {"k%d" % i: self.value(depth - 1) for i in range(rng.randrange(3))}

    def arguments(self):
        rng = self.rng
        whole = json.dumps({"a%d" % i: self.value() for i in range(rng.randrange(4))}, ensure_ascii=rng.random() < 0.5)
        r = rng.random()
        if r < 0.6:
            return whole
        if r < 0.75:
            return whole[:rng.randrange(len(whole) + 1)]
        return rng.choice(["", "null", " ", "{}", "{", "[1]", "5", "no", '"x"', '{"a": 1e400}', '{"a": "\\ud83d"}', whole + "}",
                           json.dumps(whole), '{"a": 00}', '{"a": NaN}', '{"a": "x\n\\d"}', '{"a": 123456789012345678901}',
                           '{"a": ' * 80 + "1" + "}" * 80, None, "{\"a\": {\"b\": [1, 2, {\"c\": \"d"])

    def schema(self, depth=2):
        rng = self.rng
        kind = rng.choice(["string", "integer", "number", "boolean", "array", "object", None, ["string", "null"], ["integer", "array"]])
        schema = {} if kind is None else {"type": kind}
        if rng.random() < 0.4:
            schema["description"] = rng.choice(["d", "", "two\nlines"])
        if rng.random() < 0.3:
            schema["enum"] = rng.choice([["x", "y"], [1, 2], ["x", None], [True], []])
        if rng.random() < 0.3:
            schema["default"] = rng.choice(["x", 1, 1.5, None, [], {}, True])
        if depth and kind == "array" and rng.random() < 0.8:
            schema["items"] = self.schema(depth - 1)
        if depth and kind == "object" and rng.random() < 0.8:
            schema["properties"] = {"p%d" % i: self.schema(depth - 1) for i in range(rng.randrange(3))}
            if rng.random() < 0.5:
                schema["required"] = list(schema["properties"])[:1]
        if depth and rng.random() < 0.15:
            schema[rng.choice(["anyOf", "oneOf", "allOf"])] = [self.schema(depth - 1), {"type": "null"}]
        if rng.random() < 0.05:
            return {"$ref": "#/$defs/x"}
        return rng.choice([schema] * 9 + [True])

    def tool(self, i):
        rng, name = self.rng, self.word()
        self.words.append(name)
        function = {"name": name}
        r = rng.random()
        if r < 0.7:
            function["description"] = rng.choice(["what it does", "", "a\nb", None])
        r = rng.random()
        if r < 0.7:
            function["parameters"] = {"type": "object", "properties": {"a%d" % k: self.schema() for k in range(rng.randrange(4))}}
            if rng.random() < 0.5:
                function["parameters"]["required"] = ["a0"]
            if rng.random() < 0.3:
                function["parameters"]["additionalProperties"] = False
        elif r < 0.9:
            function["parameters"] = rng.choice([{}, None, {"type": "object"}, {"type": "object", "properties": {}, "required": []},
                                                 {"anyOf": [{"type": "object"}]}])
        if rng.random() < 0.3:
            function["strict"] = rng.choice([True, False, None])
        return {"type": "function", "function": function}

    def turn(self):
        rng = self.rng
        for _ in range(rng.choice([1, 1, 1, 2])):
            self.add("user", self.content())
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            self.calls()
        if rng.random() < 0.8:
            more = {rng.choice(["reasoning_content", "reasoning", "thinking"]): self.text(False)} if rng.random() < 0.3 else {}
            more.update({name: None for name in ("refusal", "tool_calls", "function_call", "audio") if rng.random() < 0.1})
            for _ in range(rng.choice([1, 1, 1, 2])):
                self.add("assistant", self.content(), **more)

    def calls(self):
        rng, calls, results = self.rng, [], []
        for _ in range(rng.choice([1, 1, 2])):
            name = self.tools[0]["function"]["name"] if self.tools else self.word()
            id = rng.choice(["call_%d" % self.n, "abcdefgh%d" % rng.randrange(10), "toolu_01%sabcdefgh" % self.word(), "functions.%s:0" % name])
            while id in [c["id"] for c in calls]:
                id += "0"
            calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": self.arguments()}})
            self.words.append(name)
            results.append({"role": "tool", "tool_call_id": id, "content": self.content()})
        if rng.random() < 0.3:
            rng.shuffle(results)
        more = {rng.choice(["reasoning_content", "reasoning", "thinking"]): self.text(False)} if rng.random() < 0.3 else {}
        message = {"role": "assistant", "content": rng.choice([None, None, "", "absent", self.text(False), [{"type": "text", "text": self.text(False)}]]), "tool_calls": calls, **more}
        if message["content"] == "absent":
            del message["content"]
        self.messages += [message] + results


def tidy(message):
    """What the server does before it asks what the template needs."""
    message = {k: v for k, v in message.items() if v is not None or k == "content"}
    if message.get("content") is None:
        message["content"] = ""
    if message["role"] == "developer":
        message["role"] = "system"
    return message


def main():
    program, n, seed, paths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    process = subprocess.Popen(program.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    environment, rng, n_bad = make_environment() if jinja2 else None, random.Random(seed), 0

    def ask(request):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    for i, path in enumerate(paths):
        source = open(path, encoding="utf-8").read()
        needs = ask({"template": source})
        template = environment.from_string(source) if environment else None
        for _ in range(n * (i + 1) // len(paths) - n * i // len(paths)):
            said = Conversation(rng)
            request = {"messages": [tidy(m) for m in said.messages]}
            if said.tools:
                request["tools"] = said.tools
            answer = ask(request)
            faults = [answer["error"]] if "error" in answer else []
            faults += ["%s is lost" % word for word in said.words if not faults and word not in answer["text"]]
            if template and not faults and "Infinity" not in json.dumps(answer["variables"]):
                try:
                    text = template.render(**answer["variables"])
                except Exception as error:
                    text = "Jinja2 raises: %s" % error
                if text != answer["text"]:
                    at = next((k for k, (a, b) in enumerate(zip(text, answer["text"])) if a != b), min(len(text), len(answer["text"])))
                    faults = ["Jinja2: %r, ours: %r" % (text[max(at - 60, 0):at + 60], answer["text"][max(at - 60, 0):at + 60])]
            if faults:
                n_bad += 1
                if n_bad <= 10:
                    print("%s: %s\n  %s" % (path.split("/")[-1], faults, json.dumps(request)[:3000]))
    print("seed %d: %d conversations, %d faults%s" % (seed, n, n_bad, "" if jinja2 else ", without Jinja2"))
    sys.exit(n_bad > 0)


main()
