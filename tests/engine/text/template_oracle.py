#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random templates and conversations: Jinja2, set up as Hugging Face does, and ours must render the same text.

template_oracle.py RENDER_LINES N [SEED [TEMPLATE.jinja ...]]. Where both raise, that is the same; words count where
the template itself raises. Integers beyond 64 bits, which ours refuses by name, and what it says it cannot show or
does not support are counted apart and may not be many.
"""
import datetime
import json
import os
import random
import subprocess
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox


def make_environment():
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


WORDS = ["", "a", "Hi", "<|im_start|>", "a b  c", " x ", "\n", "ab\n\n c\n", "ÄöÜß", "日本語", "e\u0301", "'q'", '"', "it's \"x\"",
         "\\", "<b>&", "0", "12", "-3.5", "1_0", "1e3", "None", "</think>x</think>y", "a,b,,c", "\t\x01\x7f", "😀", "ΑΣ", "ŉǆ", "aXbXc",
         "{\"a\": [1, 2.50]}", "\u2028", "nan", "b.c", "x1 Y2", "hello world-foo (bar", "ßa", "²", "½", "三", "٣", "ǆa ŉ"]
NUMBERS = ["0", "1", "2", "-1", "-7", "3", "10", "255", "1.5", "-0.5", "0.1", "1e16", "1e-5", "2.5", "100000000000000000000.0",
           "123456789012345678", "1_000", "0x1f", "3.0"]
NAMES = ["s", "t", "n", "f", "b", "z", "l", "d", "e", "m", "u", "messages", "tools", "nest"]
FILTERS0 = ["upper", "lower", "title", "capitalize", "trim", "length", "count", "string", "list", "first", "last", "reverse|list",
            "tojson", "items|list", "int", "float", "abs", "sort", "unique|list", "join", "safe", "e", "default", "d", "min", "max",
            "sum", "dictsort", "round", "wordcount", "reverse", "forceescape", "escape", "from_json", "urlencode", "list|length",
            "center|length", "indent", "truncate(5)", "string|safe"]
FILTERS1 = ["join(%s)", "default(%s)", "default(%s, true)", "trim(%s)", "replace(%s, 'Z')", "replace('a', %s)", "tojson(indent=2)", "tojson(indent='--')", "tojson(indent=0)",
            "replace('', %s)", "int(%s)", "round(%s)", "batch(3)|list", "batch(2, %s)|list", "slice(3, %s)|list", "map('upper')|list", "map('string')|list",
            "map(attribute=%s)|list", "select|list", "reject|list", "select('string')|list", "select('eq', %s)|list",
            "reject('in', %s)|list", "selectattr(%s)|list", "selectattr('k', 'defined')|list", "selectattr('k', 'eq', %s)|list",
            "rejectattr('k', 'equalto', %s)|list", "map(attribute='k', default=%s)|list", "map(attribute='k')|join(%s)", "attr(%s)",
            "sort(reverse=%s)", "sort(attribute='k')", "indent(%s)", "indent(%s, true, true)", "format(%s)", "center(%s)",
            "truncate(%s, true)", "truncate(12, false, '..')", "tojson(ensure_ascii=%s)", "tojson(separators=(',', '=>'))",
            "tojson(sort_keys=true, indent=2)", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=%s)", "groupby(%s)",
            "unique(attribute=%s)|list", "max(attribute=%s)", "sum(attribute=%s)", "sum(start=%s)", "round(1, %s)", "int(%s, 16)",
            "map('trim')|map('length')|list", "map('default', %s)|list", "map('tojson')|join(%s)"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "boolean", "true", "false", "number", "integer",
         "float", "odd", "even", "callable", "lower", "upper", "escaped", "test", "filter", "eq(%s)", "equalto %s", "in(%s)", "ne(%s)", "lt(%s)", "ge(%s)",
         "gt %s", "le(%s)", "divisibleby(%s)", "sameas(%s)", "not none", "not string", "not eq(%s)"]
METHODS = ["upper()", "lower()", "strip()", "strip(%s)", "lstrip(%s)", "rstrip(%s)", "lstrip()", "rstrip()", "split()", "split(%s)",
           "split(%s, 1)", "rsplit(%s, 1)", "rsplit(none, 1)", "split(none, 1)", "startswith(%s)", "endswith(%s)", "startswith(('a', %s))",
           "replace(%s, 'Q')", "replace('a', %s)", "replace('', %s, 2)", "title()", "capitalize()", "find(%s)", "rfind(%s)", "count(%s)",
           "index(%s)", "splitlines()", "splitlines(true)", "join(l)", "join(%s)", "isdigit()", "isdecimal()", "isnumeric()", "isalpha()", "isspace()", "isalnum()",
           "islower()", "isupper()", "zfill(5)", "center(9, '*')", "ljust(%s)", "rjust(7, %s)", "partition(%s)", "rpartition(%s)",
           "removeprefix(%s)", "removesuffix(%s)", "swapcase()", "items()", "keys()", "values()", "get(%s)", "get(%s, 1)", "items()|list",
           "keys()|list", "values()|list", "append(%s)", "pop()", "pop(%s)", "copy()", "index(%s)", "extend(%s)", "insert(0, %s)",
           "update({'q': %s})", "setdefault('q', %s)", "pop('q', %s)", "reverse()", "remove(%s)", "find(%s, 1)", "startswith(%s, 1)",
           "count(%s, 1, -1)", "isascii()", "sort()", "clear()", "format(%s)", "replace('a', '{}').format(%s, 2)",
           "replace(' ', '{{').replace('i', '{x}').format(x=%s)", "replace('b', '{1!r}{0}').format(1, %s)"]
ATTRIBUTES = ["role", "content", "k", "items", "x", "0", "name", "length", "tool_calls"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or", "+", "~", "+", "=="]


class Generator:
    def __init__(self, rng):
        self.rng = rng

    def string(self):
        word = self.rng.choice(WORDS)
        out = word.replace("\\", "\\\\").replace("'", "\\'")
        if self.rng.random() < 0.5:
            out = out.replace("\n", "\\n").replace("\t", "\\t")
        if self.rng.random() < 0.1:
            out += self.rng.choice(["\\x41", "\\u00e9", "\\q", "\\101", "\\\n", "\\U0001f600"])
        return "'" + out + "'"

    def atom(self):
        r = self.rng.random()
        if r < 0.4:
            return self.rng.choice(NAMES)
        if r < 0.65:
            return self.string()
        if r < 0.85:
            return self.rng.choice(NUMBERS)
        return self.rng.choice(["true", "false", "none", "[]", "{}", "()", "True", "None", "range(4)", "range(5, 0, -2)", "nope", "ns", "ns.x",
                                "nope.x", "mac('a')", "mac(1, b=2)", "dict(a=1)", "strftime_now('%d %b %Y')", "namespace(a=1).a",
                                "messages[0].content", "messages[-1]['role']", "loop.index", "loop.first"])

    def fill(self, text, depth):
        return text.replace("%s", self.expression(depth - 1)) if "%s" in text else text

    def expression(self, depth):
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.atom()
        r = rng.random()
        inner = lambda: self.expression(depth - 1)
        if r < 0.22:
            left = inner()
            if rng.random() < 0.6:
                left = "(" + left + ")"
            return left + "|" + (rng.choice(FILTERS0) if rng.random() < 0.5 else self.fill(rng.choice(FILTERS1), depth))
        if r < 0.36:
            return "(" + inner() + ")." + self.fill(rng.choice(METHODS), depth)
        if r < 0.58:
            op = rng.choice(OPERATORS)
            text = inner() + " " + op + " " + (rng.choice(["2", "3", "-1", "0.5"]) if op == "**" else inner())
            return "(" + text + ")" if rng.random() < 0.7 else text
        if r < 0.66:
            return "(" + inner() + " is " + self.fill(rng.choice(TESTS), depth) + ")"
        if r < 0.72:
            return rng.choice(["not ", "-", "+", "not "]) + inner()
        if r < 0.80:
            part = lambda: rng.choice(["", "", "1", "-1", "2", "-2", "0", "100", "-100"])
            step = rng.choice(["", ":", ":-1", ":2", ":-2", ":1"])
            # Of what is not a constant: Jinja2 folds those by other rules than it runs.
            return "(" + rng.choice(NAMES + ["s|upper", "l + [1]", "'xyz' ~ s", "mac(t)"]) + ")[" + part() + ":" + part() + step + "]"
        if r < 0.86:
            return "(" + inner() + ")[" + rng.choice(["0", "-1", "1", "'role'", "'content'", inner()]) + "]"
        if r < 0.90:
            return "(" + inner() + ")." + rng.choice(ATTRIBUTES)
        if r < 0.94:
            return "[" + ", ".join(inner() for _ in range(rng.randrange(4))) + "]"
        if r < 0.96:
            return "(" + ", ".join(inner() for _ in range(rng.randrange(3))) + ",)"
        if r < 0.98:
            return "{" + ", ".join(self.atom() + ": " + inner() for _ in range(rng.randrange(3))) + "}"
        return "(" + inner() + " if " + inner() + rng.choice([" else " + inner(), ""]) + ")"

    def tag(self, text):
        rng = self.rng
        return "{%" + rng.choice(["", "", "-", "+"]) + " " + text + " " + rng.choice(["", "", "-", "+"]) + "%}"

    def text(self):
        return self.rng.choice(["", " ", "\n", "x", "  \n  ", "a\n", "\n\n", "<|x|>", "  ", "é", "\r\n", "{# c #}", "{#- c -#}\n", "  {# c\n #}\n",
                                "{% raw %} {{ x }} {% endraw %}\n", "{%- raw -%} q {%- endraw -%} "])

    def target(self):
        return self.rng.choice(["s", "q", "x", "n", "ns.x", "d", "q"])

    def statement(self, depth, loop):
        rng = self.rng
        body = lambda l=loop: self.block(depth - 1, l)
        expression = lambda: self.expression(rng.randrange(1, 3))
        r = rng.random()
        if depth <= 0 or r < 0.4:
            return "{{" + rng.choice(["", "-"]) + " " + self.expression(rng.randrange(1, 4)) + " " + rng.choice(["", "-"]) + "}}"
        if r < 0.52:
            out = self.tag("if " + expression()) + body()
            if rng.random() < 0.4:
                out += self.tag("elif " + expression()) + body()
            if rng.random() < 0.5:
                out += self.tag("else") + body()
            return out + self.tag("endif")
        if r < 0.68:
            head = rng.choice(["x in ", "k, v in ", "x in ", "x in "])
            over = rng.choice(["l", "d.items()", "messages", "nest", "range(3)", expression(), "d|dictsort", "d|items"])
            test = rng.choice(["", "", " if x", " if x is defined"])
            out = self.tag("for " + head + over + test) + body(True) + rng.choice(["", "{{ loop.index }}{{ loop.last }}", "{{ loop.previtem }}"])
            if rng.random() < 0.2:
                out += self.tag("else") + body()
            return out + self.tag("endfor")
        if r < 0.80:
            return self.tag("set " + self.target() + " = " + expression())
        if r < 0.85:
            name = rng.choice(["blk", "s", "q"])
            return self.tag("set " + name + rng.choice(["", "|upper", "|trim|length"])) + body(False) + self.tag("endset") + "{{ " + name + " }}"
        if r < 0.90:
            return (self.tag("macro mac(a, b=" + expression() + ")") + body(False) + "{{ a }}{{ b }}" + self.tag("endmacro"))
        if r < 0.93:
            return self.tag("filter " + rng.choice(["upper", "trim", "replace('a', 'b')|title"])) + body(False) + self.tag("endfilter")
        if r < 0.95:
            return self.tag("with q = " + expression() + ", w = 2") + body(False) + self.tag("endwith")
        if loop:
            return self.tag("if " + expression()) + self.tag(rng.choice(["break", "continue"])) + self.tag("endif")
        return self.tag("if " + expression()) + "{{ raise_exception(" + expression() + ") }}" + self.tag("endif")

    def block(self, depth, loop):
        return self.text() + "".join(self.statement(depth, loop) + self.text() for _ in range(self.rng.randrange(1, 3)))

    def scopes(self, depth):
        """Few names, assigned and read in scopes within scopes: which of them are seen where."""
        rng = self.rng
        name = lambda: rng.choice(["s", "t", "n", "f", "q"])
        body = lambda: self.scopes(depth - 1) if depth > 0 else "{{ %s }}" % name()
        out = ""
        for _ in range(rng.randrange(1, 4)):
            r = rng.random()
            if r < 0.25:
                out += "<{{ %s }}>" % name()
            elif r < 0.45:
                out += "{%% set %s = %s %%}" % (name(), rng.choice(["1", "'v'", name(), name() + " ~ 'w'", "s is defined"]))
            elif r < 0.52:
                out += "{%% set %s, %s = %s %%}" % (name(), name(), rng.choice(["(1, 2)", "'xy'", "(%s, %s)" % (name(), name())]))
            elif r < 0.60:
                out += "{%% set %s %%}%s{%% endset %%}" % (name(), body())
            elif r < 0.72:
                other = rng.choice(["", "{% else %}" + body(), "{% elif b %}" + body() + "{% else %}" + body()])
                out += "{%% if %s %%}%s%s{%% endif %%}" % (rng.choice(["b", name(), "true", "false"]), body(), other)
            elif r < 0.84:
                other = rng.choice(["", "{% else %}" + body()])
                out += "{%% for %s in [1, 2]%s %%}%s%s{%% endfor %%}" % (name(), rng.choice(["", " if " + name()]), body(), other)
            elif r < 0.92:
                out += "{%% macro mac(%s%s) %%}%s{%% endmacro %%}{{ mac(3) }}" % (name(), rng.choice(["", ", b=" + name(), ", b=b, z=" + name(), "=" + name()]), body())
            elif r < 0.95:
                out += "{%% with %s = %s %%}%s{%% endwith %%}" % (name(), name(), body())
            elif r < 0.98:
                out += "{%% filter replace('v', %s|string) %%}%s{%% endfilter %%}" % (name(), body())
            else:
                out += "{{ ns.x }}{% set ns.x = " + name() + " %}"
        return out

    def template(self):
        if self.rng.random() < 0.2:
            return "{% set ns = namespace(x=1) %}" + self.scopes(3)
        head = "{% set ns = namespace(x=1, y='a') %}" + "{% macro mac(a, b=2) %}({{ a }}{{ b }}){% endmacro %}"
        return head + self.block(self.rng.randrange(1, 4), False)

    def value(self, depth=2):
        rng = self.rng
        r = rng.random()
        if depth == 0 or r < 0.5:
            return rng.choice([rng.choice(WORDS), rng.randrange(-5, 300), rng.choice([0.5, 1e20, -2.0, 1.25e-7]), True, False, None])
        if r < 0.75:
            return [self.value(depth - 1) for _ in range(rng.randrange(4))]
        return {rng.choice(["k", "a", "content", "role", "ü", "B"]): self.value(depth - 1) for _ in range(rng.randrange(4))}

    def message(self):
        rng = self.rng
        role = rng.choice(["user", "assistant", "system", "tool", "user", "assistant", "developer"])
        message = {"role": role, "content": rng.choice([rng.choice(WORDS), rng.choice(WORDS), None, [{"type": "text", "text": rng.choice(WORDS)}]])}
        if role == "assistant" and rng.random() < 0.4:
            message["tool_calls"] = [{"id": "call%05d" % i, "type": "function", "function":
                                      {"name": "f%d" % i, "arguments": rng.choice([{"a": self.value()}, {}, "{\"a\": 1}", {"b": "x", "c": [1]}])}}
                                     for i in range(rng.randrange(1, 3))]
        if role == "assistant" and rng.random() < 0.3:
            message["reasoning_content"] = rng.choice(WORDS)
        if rng.random() < 0.05:
            del message["content"]
        if role == "tool":
            message["tool_call_id"] = "call00000"
            message["name"] = "f0"
        return message

    def conversation(self):
        rng = self.rng
        variables = {"messages": [self.message() for _ in range(rng.randrange(1, 6))], "add_generation_prompt": rng.random() < 0.5,
                     "bos_token": "<s>", "eos_token": "</s>"}
        if rng.random() < 0.6:  # a conversation that most templates take
            roles = [["system"] if rng.random() < 0.4 else [], ["user", "assistant"] * rng.randrange(0, 3), ["user"]]
            variables["messages"] = [{"role": role, "content": rng.choice(WORDS)} for part in roles for role in part]
        if rng.random() < 0.4:
            variables["tools"] = [{"type": "function", "function": {"name": "f%d" % i, "description": rng.choice(WORDS), "parameters": {
                "type": "object", "properties": {"a": {"type": rng.choice(["string", "integer", ["string", "null"], "array", "object"]),
                                                       "description": rng.choice(WORDS), "enum": ["x", "y"], "default": self.value(1)},
                                                 "b": {"type": "array", "items": {"type": "string"}}},
                "required": rng.choice([["a"], []])}}} for i in range(rng.randrange(1, 3))]
        for name in ("enable_thinking", "thinking"):
            if rng.random() < 0.3:
                variables[name] = rng.random() < 0.5
        if rng.random() < 0.2:
            variables["reasoning_effort"] = rng.choice(["low", "high"])
        return variables

    def variables(self):
        rng = self.rng
        return {"s": rng.choice(WORDS), "t": rng.choice(WORDS), "n": rng.randrange(-5, 20), "f": rng.choice([0.5, -1.5, 1e22, 3.0]),
                "b": rng.random() < 0.5, "z": None, "l": [self.value(1) for _ in range(rng.randrange(5))],
                "d": {rng.choice(["k", "a", "b", "Z", "items"]): self.value(1) for _ in range(rng.randrange(4))}, "e": [],
                "m": [{"k": rng.choice(WORDS), "v": i} for i in range(rng.randrange(4))], "nest": [[1, "a"], [2, "b"]],
                "messages": [self.message() for _ in range(rng.randrange(1, 4))], "tools": None}


def oracle(environment, source, variables):
    try:
        template = environment.from_string(source)
    except jinja2.exceptions.TemplateError:
        return None, ("", False)
    except Exception as error:  # what Jinja2 computes beforehand raises even where it is never reached
        return None, (str(error), None)
    try:
        return template.render(**variables), None
    except jinja2.exceptions.TemplateError as error:
        own = type(error) is jinja2.exceptions.TemplateError
        return None, (str(error.args[0]) if own else "", own)
    except RecursionError:
        return None, ("", False)
    except Exception as error:
        return None, (str(error), False)


ALLOWED = ("cannot be shown", "64 bits", "more memory", "not supported", "more than", "complex", "is not a character", "a range of")


# Jinja2 writes constants that it has computed into Python's code as they print.
NO_CONSTANTS = ("name 'nan' is not defined", "name 'inf' is not defined")


def main():
    warnings.simplefilter("ignore")
    program, n = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    generator = Generator(random.Random(seed))
    environment = make_environment()
    sources = [open(path, encoding="utf-8").read() for path in sys.argv[4:]]
    process = subprocess.Popen(program.split(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=dict(os.environ, TZ="UTC"))
    counts = {"texts": 0, "errors": 0, "own limits": 0, "differences": 0}
    for _ in range(n):
        real = sources and generator.rng.random() < 0.3
        source = generator.rng.choice(sources) if real else generator.template()
        variables = generator.conversation() if real else generator.variables()
        process.stdin.write(json.dumps({"template": source, "variables": variables}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            print("FAILED: the program ended at", json.dumps({"template": source, "variables": variables}))
            sys.exit(1)
        answer = json.loads(answer)
        text, error = oracle(environment, source, json.loads(json.dumps(variables)))
        if error:
            same = "error" in answer and (not error[1] or answer["error"] == error[0].replace("\n", " ").replace("\r", " ")[:1019] or "\0" in error[0])
            counts["errors"] += same
        else:
            same = answer.get("text") == text and "".join(part[0] for part in answer["parts"]) == text
            counts["texts"] += same
        if not same and "error" in answer and any(word in answer["error"] for word in ALLOWED):
            counts["own limits"] += 1
        elif not same and (" at 0x" in (error[0] if error else text) or (error and (error[1] is None or error[0] in NO_CONSTANTS))):
            counts["own limits"] += 1
        elif not same:
            counts["differences"] += 1
            if counts["differences"] <= 10:
                print(json.dumps({"template": source, "variables": variables}, ensure_ascii=False)[:3000])
                print("  Jinja2:", repr(text if error is None else error)[:600], "\n  ours:  ", repr(answer)[:600])
    print("seed %d: %s" % (seed, counts))
    sys.exit(counts["differences"] > 0 or counts["own limits"] * 5 > n)


main()
