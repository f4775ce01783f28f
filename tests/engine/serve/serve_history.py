# SPDX-License-Identifier: Apache-2.0
"""Conversations go on: serve_history.py PORT, of a server of serve_script.py's model. Whatever was answered can be sent
back, in each API's form; numbers of any size and half characters anywhere; and what was computed for who hung up is
kept."""
import json
import socket
import sys

from serve_client import Server, check, equal, finish

server = Server(int(sys.argv[1]))
CHAT = "/v1/chat/completions"
BIG = 123456789012345678901234567890
TOOL = {"type": "function", "function": {"name": "time"}}
USER = {"role": "user", "content": "go a"}


def call(arguments):
    return [{"id": "call_1", "type": "function", "function": {"name": "time", "arguments": arguments}}]


def history(arguments, **more):
    return [USER, dict({"role": "assistant", "tool_calls": call(arguments)}, **more),
            {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}, USER]


def prompt(messages, **more):
    """What the template makes of a chat, which must be answered, too."""
    body = dict({"messages": messages, "tools": [TOOL], "max_tokens": 1}, **more)
    status, reply = server.post(CHAT, body)
    equal(status, 200, body, reply)
    return server.post("/apply-template", body)[1].get("prompt", "")


for arguments, shown in (("", "{}"), ("null", "{}"), ('{"zone": "Cent', '{"zone": "Cent"}'), ('{"a": %d}' % BIG, '{"a": %d}' % BIG),
                         ('{"a": 1e400}', '{"a": 1e400}'), ('{"a": "\\ud83d"}', '{"a": "\ufffd"}'), ("no", '{"arguments": "no"}')):
    for content in ({"content": None}, {"content": ""}, {}, {"content": []}, {"content": [{"type": "refusal", "refusal": ""}]}):
        got = prompt(history(arguments, **content))
        check('"name": "time", "arguments": ' + shown in got, arguments, content, got)
        check("None" not in got, "None", got)
    items = [{"role": "user", "content": "go a"}, {"type": "function_call", "call_id": "1", "name": "time", "arguments": arguments},
             {"type": "function_call_output", "call_id": "1", "output": "12:00"}, {"role": "user", "content": "go a"}]
    equal(server.post("/v1/responses", {"input": items, "max_output_tokens": 1})[0], 200, "responses", arguments)
blocks = [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "time", "input": {"a": [BIG]}}]},
          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": None}, {"type": "text", "text": "go a"}]}]
equal(server.post("/v1/messages", {"messages": blocks, "max_tokens": 1})[0], 200, "messages")


def cached(*results):
    calls = [{"type": "tool_use", "id": name, "name": "time", "input": {}} for name in "ab"]
    messages = [USER, {"role": "assistant", "content": calls}, {"role": "user", "content": list(results)}]
    usage = server.post("/v1/messages", {"messages": messages, "max_tokens": 1})[1]["usage"]
    return usage["cache_read_input_tokens"]


# Results come first, wherever they stand: so the prompt is the same.
RESULTS, TEXT = [{"type": "tool_result", "tool_use_id": name, "content": "12:00 " * 50} for name in "ab"], {"type": "text", "text": "go a"}
cached(*RESULTS, TEXT)
check(cached(TEXT, *RESULTS) > 500 and cached(RESULTS[0], TEXT, RESULTS[1]) > 500, "results before texts")
got = prompt([{"role": "system", "content": "SYSA"}, {"role": "developer", "content": [{"type": "text", "text": "SYSB"}]}, USER,
              {"role": "assistant", "content": "x", "reasoning": "WHY", "function_call": None, "audio": None},
              {"role": "system", "content": "SYSC"}, USER])
check(all(word in got for word in ("SYSA", "SYSB", "SYSC", "WHY")), got)

# Old forms of calls.
got = prompt([USER, {"role": "assistant", "content": None, "function_call": {"name": "time", "arguments": "{}"}},
              {"role": "function", "name": "time", "content": "12:00"}, USER])
check('"name": "time"' in got and "12:00" in got, got)

# Numbers and half characters anywhere in a body.
raw = json.dumps({"messages": [{"role": "user", "content": "half \ud83d go a"}], "max_tokens": 1, "seed": 2 ** 64 - 1,
                  "user": "\udc00", "metadata": {"n": BIG}, "tools": [{"type": "function", "function": {
                      "name": "time", "parameters": {"type": "object", "properties": {"n": {"const": BIG}}}}}]})
status, _, data = server.request("POST", CHAT, raw.encode(), {"Content-Type": "application/json"})
equal(status, 200, data)
status, _, data = server.request("POST", "/apply-template", raw.encode(), {"Content-Type": "application/json"})
text = json.loads(data)["prompt"]
check(str(BIG) in text and "half \ufffd go a" in text, text)
status, _, data = server.request("POST", "/v1/responses", {"input": "go a", "max_output_tokens": 1, "metadata": {"n": BIG}})
check(status == 200 and json.loads(data)["metadata"] == {"n": BIG}, data)
server.error(CHAT, {"messages": [USER], "temperature": BIG}, 400, "temperature")
server.error(CHAT, {"messages": [USER], "max_tokens": BIG}, 400, "max_tokens")
server.error(CHAT, {"messages": [{"role": "user", "content": BIG}]}, 400, "messages[0].content", holds="not a number")
server.error(CHAT, {"messages": BIG}, 400, "messages", holds="not a number")
status, _, data = server.request("POST", CHAT, b'{"messages": [], "seed": 01234567890123456789012}')
equal(status, 400, data)

# Who hangs up finds what was computed in the next turn.
long = [{"role": "user", "content": "once upon a time " * 20 + "go l"}]
body = json.dumps({"messages": long, "stream": True, "max_tokens": 400, "ignore_eos": True}).encode()
with socket.create_connection(("127.0.0.1", server.port), 20) as s:
    s.sendall(b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body)) + body)
    got = b""
    while b"la" not in got:
        got += s.recv(65536)
check(server.wait_metric("kt_running", lambda n: n == 0), "the request must end")
status, reply = server.post(CHAT, {"messages": long + [{"role": "assistant", "content": "la "}, USER], "max_tokens": 1})
check(reply["usage"]["prompt_tokens_details"]["cached_tokens"] >= 256, reply["usage"])
finish()
