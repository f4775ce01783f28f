# SPDX-License-Identifier: Apache-2.0
"""Clients that others wrote, each with the APIs that it speaks: the table in tools/engine/serve/README. Their server's
model says what it is told to (serve_script.py)."""

import asyncio
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest

SOURCE, BUILD = pathlib.Path(os.environ["KT_TEST_SOURCE"]), pathlib.Path(os.environ["KT_TEST_BUILD"])
SERVE = SOURCE / "tests/engine/serve"
sys.path.insert(0, str(SERVE))
import serve_script  # noqa: E402

WEATHER = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
ANSWER = "The answer is \u00e9 forty-two."
QUESTION = [{"role": "user", "content": "go a"}]


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    if not (BUILD / ".libs/kt-serve").exists():
        pytest.skip("kt-serve was not built")
    folder = tmp_path_factory.mktemp("script")
    serve_script.write(folder / "script.gguf")
    command = [BUILD / ".libs/kt", "run", "--port", "0", "--threads", "2", "--context", "2048", "--served-model-name",
               "script", "--chat-template", SERVE / "serve_script.jinja", folder / "script.gguf"]
    libraries = f"{BUILD}/.libs:{os.environ.get('LD_LIBRARY_PATH', '')}"
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "LD_LIBRARY_PATH": libraries})
    lines = []
    for line in server.stderr:
        lines.append(line)
        if "ready: http" in line:
            break
    else:
        pytest.fail("the server did not start: " + "".join(lines))
    reader = threading.Thread(target=server.stderr.read)
    reader.start()
    yield int(line.rsplit(":", 1)[1])
    server.terminate()
    reader.join()
    assert server.wait() == 0


def post(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    data = json.loads(reply.read())
    connection.close()
    return reply.status, data


@pytest.fixture
def openai(port):
    package = pytest.importorskip("openai")
    return package.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0, timeout=60)


# ---- openai ----


def test_openai_chat(openai):
    tool = {"type": "custom", "custom": {"name": "patch", "description": "It"}}
    asked = dict(model="script", messages=[{"role": "user", "content": "go p"}], tools=[tool], temperature=0)
    message = openai.chat.completions.create(**asked).choices[0].message
    assert message.tool_calls[0].custom.input == '*** Begin\n+"x"'
    streamed = [c.choices[0].delta.tool_calls for c in openai.chat.completions.create(stream=True, **asked)]
    assert [t[0].custom["input"] for t in streamed if t] == ['*** Begin\n+"x"']
    again = [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "done"}, *QUESTION]
    asked["messages"] += again
    assert openai.chat.completions.create(**asked).choices[0].message.content == ANSWER


def test_openai_allowed_tools(openai):
    tools = [{"type": "function", "function": {"name": name, "parameters": WEATHER}} for name in ("weather", "delete")]
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "delete"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    reply = openai.chat.completions.create(model="script", messages=[{"role": "user", "content": "go p"}], tools=tools,
                                           tool_choice=choice, max_tokens=60, temperature=0)
    assert {c.function.name for c in reply.choices[0].message.tool_calls} == {"delete"}


def test_openai_without_v1(port):
    package = pytest.importorskip("openai")
    client = package.OpenAI(base_url=f"http://127.0.0.1:{port}", api_key="any", max_retries=0)
    assert client.models.list().data[0].id == "script"
    assert client.chat.completions.create(model="script", messages=QUESTION).choices[0].message.content == ANSWER
    assert client.completions.create(model="script", prompt="go a", max_tokens=20).choices[0].text == ANSWER
    filled = client.completions.create(model="script", prompt="x", suffix="y", max_tokens=20)
    assert filled.choices[0].text == "the gap"
    vectors = [client.embeddings.create(model="script", input=["x", "y"], encoding_format=how).data  # base64 else
               for how in (package.NOT_GIVEN, "float")]
    assert vectors[0][1].embedding == pytest.approx(vectors[1][1].embedding) and len(vectors[0]) == 2
    assert sum(x * x for x in vectors[0][0].embedding) == pytest.approx(1)


def test_openai_responses(openai):
    tools = [{"type": "custom", "name": "patch", "description": "It"}, {"type": "web_search"}]
    asked = dict(model="script", input=[{"role": "user", "content": "go p"}], tools=tools, store=True)
    reply = openai.responses.create(**asked)
    assert (reply.output[0].type, reply.output[0].input, reply.store) == ("custom_tool_call", '*** Begin\n+"x"', False)
    with openai.responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
    assert "response.custom_tool_call_input.done" in kinds
    asked["input"] += [item.model_dump() for item in reply.output]
    asked["input"] += [{"type": "custom_tool_call_output", "call_id": reply.output[0].call_id, "output": "done"},
                       *QUESTION]
    assert openai.responses.create(**asked).output_text == ANSWER
    del asked["store"]
    counted = openai.responses.input_tokens.count(**asked).input_tokens
    assert counted == openai.responses.create(**asked).usage.input_tokens


def test_openai_agents(port):
    agents = pytest.importorskip("agents")
    package = pytest.importorskip("openai")
    agents.set_tracing_disabled(True)
    called = []

    @agents.function_tool
    def weather(place: str) -> str:
        """The weather."""
        called.append(place)
        return "sun; go a"

    @agents.function_tool
    def time() -> str:
        """The time."""
        return "go a"

    async def ask():
        client = package.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0)
        for model in (agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel):
            agent = agents.Agent("tester", instructions="Work.", model=model("script", client), tools=[weather, time])
            assert (await agents.Runner.run(agent, "go c")).final_output == ANSWER
            run = agents.Runner.run_streamed(agent, "go c")
            async for _ in run.stream_events():
                pass
            assert run.final_output == ANSWER
        await client.close()

    asyncio.run(ask())
    assert called == ["Paris"] * 4


# ---- others ----


def test_anthropic(port):
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key="any", max_retries=0)
    model = client.models.list().data[0]
    assert (model.type, model.display_name, model.created_at.year > 2000) == ("model", "script", True)
    tools = [{"name": "weather", "input_schema": WEATHER}, {"type": "web_search_20250305", "name": "web_search"}]
    asked = dict(model="script", messages=QUESTION, tools=tools)
    reply = client.messages.create(max_tokens=20, **asked)
    assert reply.content[0].text == ANSWER
    counted = client.messages.count_tokens(**asked).input_tokens
    assert counted == reply.usage.input_tokens + reply.usage.cache_read_input_tokens
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(max_tokens=20, model="script", messages=QUESTION, tools=tools[1:],
                               tool_choice={"type": "any"})


def test_ollama(port):
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(f"http://127.0.0.1:{port}")
    assert client.list().models[0].model == "script"
    assert client.ps().models[0].context_length == 2048
    assert "tools" in client.show("script:latest").capabilities
    messages = [{"role": "user", "content": "go c"}]
    tool = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}
    whole = client.chat("script", messages, tools=[tool], options={"temperature": 0})
    assert (whole.message.content, whole.message.thinking) == ("Let me see.", "Where?")
    assert [c.function.arguments for c in whole.message.tool_calls] == [{"place": "Paris"}, {}]
    parts = list(client.chat("script", messages, tools=[tool], stream=True))
    assert "".join(p.message.content for p in parts) == "Let me see."
    assert (parts[-1].done_reason, parts[-1].eval_count) == ("stop", whole.eval_count)
    messages += [whole.message, {"role": "tool", "tool_name": "weather", "content": "sun"}, *QUESTION]
    assert client.chat("script", messages, tools=[tool]).message.content == ANSWER
    assert client.generate("script", "go a").response == ANSWER
    raw = client.generate("script", "a", raw=True, stream=True, options={"num_predict": 2, "stop": ["x"]})
    assert "".join(p.response for p in raw) == "The answer"
    shaped = client.chat("script", QUESTION, format={"enum": ["x"]}, options={"num_predict": 8})
    assert json.loads(shaped.message.content) == "x"
    assert client.generate("script", "x", suffix="y").response == "the gap"
    assert len(client.embed("script", ["x", "y"], dimensions=8).embeddings[1]) == 8
    assert len(client.embeddings("script", "x").embedding) == serve_script.SIZE
    for wrong in (lambda: client.chat("other", QUESTION), lambda: client.embed("other", "x"),
                  lambda: client.generate("script", "x", context=[1]), lambda: client.pull("other")):
        with pytest.raises(ollama.ResponseError) as error:
            wrong()
        assert error.value.status_code in (400, 404) and error.value.error


def test_litellm(port, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    root = f"http://127.0.0.1:{port}"
    for model, base in (("openai/script", root + "/v1"), ("hosted_vllm/script", root + "/v1"),
                        ("ollama_chat/script", root), ("anthropic/script", root)):
        reply = litellm.completion(model, QUESTION, api_base=base, api_key="any", max_tokens=20, num_retries=0)
        assert reply.choices[0].message.content == ANSWER, model
    for model, base in (("openai/script", root + "/v1"), ("hosted_vllm/script", root + "/v1"), ("ollama/script", root)):
        vectors = litellm.embedding(model, ["x", "y"], api_base=base, api_key="any").data
        assert [len(v["embedding"]) for v in vectors] == [serve_script.SIZE] * 2, model


def test_lm_eval(port):
    pytest.importorskip("lm_eval")
    models = pytest.importorskip("lm_eval.models.openai_completions")
    pytest.importorskip("tenacity")
    from lm_eval.api.instance import Instance
    model = models.LocalCompletionsAPI(base_url=f"http://127.0.0.1:{port}/v1/completions", model="script",
                                       tokenizer_backend="remote", max_length=1000)
    assert model.tok_encode("go a") == list(b"go a")
    asked = [Instance("loglikelihood", {}, ("go a", "The answer"), 0)]
    assert model.loglikelihood(asked, disable_tqdm=True)[0][0] < 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
def test_guidellm(port, tmp_path, path):
    pytest.importorskip("guidellm")
    (tmp_path / "prompts.txt").write_text("go a\ngo b\ngo s\n")
    done = subprocess.run(
        [pathlib.Path(sys.executable).with_name("guidellm"), "run", "--disable-console", "--profile", "kind=concurrent,streams=2",
         "--backend", f"kind=openai_http,target=http://127.0.0.1:{port},model=script,request_format={path}",
         "--constraint", "kind=max_requests,count=3", "--data", f"kind=text_file,path={tmp_path}/prompts.txt",
         "--output", f"kind=json,path={tmp_path}/out.json"], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    report, = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    assert report["metrics"]["request_totals"] == {"successful": 3, "errored": 0, "incomplete": 0, "total": 3}


def write_tokenizer(folder):
    """The script's tokens, for a client that counts by itself."""
    tokens, _ = serve_script.make_vocabulary()
    special = [{"id": i, "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for i, token in enumerate(tokens) if token.startswith("<|")]
    bytes_only = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": []}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": special, "pre_tokenizer": bytes_only, "decoder": bytes_only, "model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}))


@pytest.mark.parametrize("backend, path", [("openai", "/v1/completions"), ("openai-chat", "/v1/chat/completions")])
def test_vllm_bench(port, tmp_path, backend, path):
    """The benchmark of vLLM counts what it was sent; the texts are those of single requests."""
    vllm = pathlib.Path(sys.executable).with_name("vllm")
    if not vllm.exists():
        pytest.skip("there is no Python package vllm")
    prompts = ["go a", "Please go b", "go s"]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    write_tokenizer(tmp_path)
    done = subprocess.run(
        [vllm, "bench", "serve", "--backend", backend, "--base-url", f"http://127.0.0.1:{port}", "--endpoint", path, "--model", "script",
         "--tokenizer", tmp_path, "--dataset-name", "custom", "--dataset-path", tmp_path / "prompts.jsonl", "--disable-shuffle",
         "--skip-chat-template", "--custom-output-len", "40", "--num-prompts", "3", "--max-concurrency", "2", "--disable-tqdm",
         "--save-result", "--save-detailed", "--result-dir", tmp_path, "--result-filename", "out.json"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    key, chosen = ("messages", "message") if "chat" in path else ("prompt", "text")
    replies = [post(port, path, {key: [{"role": "user", "content": p}] if key == "messages" else p, "max_tokens": 40})[1] for p in prompts]
    texts = [reply["choices"][0][chosen] for reply in replies]
    assert (report["completed"], report["failed"]) == (3, 0), report
    assert report["generated_texts"] == [text if chosen == "text" else text["content"] for text in texts]
    assert report["output_lens"] == [reply["usage"]["completion_tokens"] for reply in replies]
    assert report["input_lens"] == [reply["usage"]["prompt_tokens"] for reply in replies]


# ---- requests as programs send them that are no packages ----


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    reply = connection.getresponse()
    data = json.loads(reply.read())
    connection.close()
    return reply.status, data


def stream(port, path, body, headers=None):
    """The lines of a stream that hold JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    lines = reply.read().decode().split("\n")
    connection.close()
    assert reply.status == 200, lines
    return [json.loads(line[line.index("{"):]) for line in lines if line.startswith(("{", "data: {"))]


def test_open_webui(port):
    """Open WebUI, which speaks to servers of both kinds: models, chats with tools, titles, documents, unloading."""
    assert get(port, "/v1/models")[1]["data"][0]["id"] == "script"
    tools = [{"type": "function", "function": {"name": "weather", "description": "It", "parameters": WEATHER}}]
    ask = {"model": "script", "stream": True, "stream_options": {"include_usage": True}, "tools": tools, "temperature": 0.8,
           "messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": [{"type": "text", "text": "go c"}]}]}
    deltas = [c["choices"][0]["delta"] for c in stream(port, "/v1/chat/completions", ask) if c["choices"]]
    assert "".join(d.get("content") or "" for d in deltas) == "Let me see."
    calls = [call for d in deltas for call in d.get("tool_calls", []) if "id" in call]
    turn = {"role": "assistant", "content": "", "tool_calls": [dict(c, function=dict(c["function"], arguments="{}")) for c in calls]}
    results = [{"role": "tool", "tool_call_id": c["id"], "content": "go a"} for c in calls]
    deltas = stream(port, "/v1/chat/completions", dict(ask, messages=ask["messages"] + [turn] + results + QUESTION))
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in deltas if c["choices"]) == ANSWER
    title = {"model": "script", "messages": QUESTION, "stream": False, "max_tokens": 1000, "user": {"name": "x", "id": "y"}}
    assert post(port, "/v1/chat/completions", title)[1]["choices"][0]["message"]["content"] == ANSWER
    begun = {"continue_final_message": True, "add_generation_prompt": False}
    begun["messages"] = QUESTION + [{"role": "assistant", "content": "go a"}]
    assert post(port, "/v1/chat/completions", dict(title, **begun))[1]["choices"][0]["message"]["content"] == ANSWER
    documents = {"model": "script", "input": ["a", "b"]}
    assert [d["index"] for d in post(port, "/v1/embeddings", documents)[1]["data"]] == [0, 1]
    # As it speaks to Ollama.
    model, = get(port, "/api/tags")[1]["models"]
    assert model["model"] == "script" and get(port, "/api/ps")[1]["models"] and get(port, "/api/version")[1]["version"]
    options = {"temperature": 0.8, "num_ctx": 2048, "num_batch": 512, "num_keep": 5, "num_thread": 2, "num_gpu": 1,
               "repeat_last_n": 64, "mirostat": 0, "tfs_z": 1, "use_mmap": True, "num_predict": 64, "stop": ["zz"]}
    ask = {"model": "script", "messages": [{"role": "user", "content": "go c", "images": []}], "tools": tools, "stream": True,
           "options": options, "keep_alive": "5m", "format": None}
    lines = stream(port, "/api/chat", ask)
    assert "".join(line["message"]["content"] for line in lines) == "Let me see." and lines[-1]["done"]
    assert post(port, "/api/embed", dict(documents, truncate=True))[1]["embeddings"][1]
    assert post(port, "/api/generate", {"model": "script", "keep_alive": 0, "prompt": ""})[1]["done"]


def test_claude_code(port):
    """Claude Code: what it asks for at its start, a turn with tools, what comes of it sent back, titles, a hosted tool."""
    path, headers = "/v1/messages?beta=true", {"anthropic-version": "2023-06-01", "anthropic-beta": "context-management-2025-06-27"}
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    tool = {"name": "weather", "description": "It", "eager_input_streaming": True, "input_schema": dict(
        WEATHER, additionalProperties=False, **{"$schema": "https://json-schema.org/draft/2020-12/schema"})}
    question = [{"type": "text", "text": "<system-reminder>x</system-reminder>"}, {"type": "text", "text": "go c", **cached}]
    ask = {"model": "script", "max_tokens": 32000, "tools": [tool], "thinking": {"type": "adaptive"}, "temperature": 1,
           "system": [{"type": "text", "text": "x-anthropic-billing-header: x"}, {"type": "text", "text": "You code.", **cached}],
           "messages": [{"role": "user", "content": question}], "metadata": {"user_id": "user_1"}, "output_config": {"effort": "xhigh"},
           "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    quota = {"model": "script", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}], "metadata": ask["metadata"]}
    assert post(port, path, quota)[0] == 200
    events = stream(port, path, dict(ask, stream=True), headers)
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            name = {"input_json_delta": "partial_json", "thinking_delta": "thinking", "text_delta": "text"}.get(delta["type"])
            if name == "partial_json":
                blocks[-1].setdefault(name, "")
            if name:
                blocks[-1][name] += delta[name]
    assert [b["type"] for b in blocks] == ["thinking", "text", "tool_use", "tool_use"]
    for block in blocks[2:]:
        block["input"] = json.loads(block.pop("partial_json", "") or "{}")
    assert blocks[2]["input"] == {"place": "Paris"}
    results = [{"type": "tool_result", "tool_use_id": blocks[2]["id"], "content": [{"type": "text", "text": "sun"}], **cached},
               {"type": "tool_result", "tool_use_id": blocks[3]["id"], "is_error": True}, {"type": "text", "text": "go a"}]
    turn = dict(ask, messages=ask["messages"] + [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}])
    status, reply = post(port, path, turn)
    assert (status, reply["content"][0]["text"], reply["stop_reason"]) == (200, ANSWER, "end_turn")
    del turn["max_tokens"]
    counted = post(port, "/v1/messages/count_tokens?beta=true", turn)[1]["input_tokens"]
    assert counted == sum(reply["usage"][name] for name in ("input_tokens", "cache_read_input_tokens"))
    title = {"type": "json_schema", "schema": {"type": "object", "properties": {"title": {"enum": ["x"]}}, "required": ["title"],
                                               "additionalProperties": False}}
    status, reply = post(port, path, dict(quota, max_tokens=100, output_config={"format": title}))
    assert (status, json.loads(reply["content"][-1]["text"])) == (200, {"title": "x"})
    found = dict(turn["messages"][-1]["content"][0], content=[{"type": "tool_reference", "tool_name": "weather"}])
    turn["messages"][-1]["content"][0] = found
    assert post(port, path, dict(turn, max_tokens=20))[0] == 200
    for part in ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                 {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
                 {"type": "document", "source": {"type": "content", "content": [{"type": "image"}]}},
                 {"type": "search_result", "content": 1}, {"type": "document"}):
        found["content"] = [part]
        assert post(port, path, dict(turn, max_tokens=20))[0] == 400, part
        assert post(port, path, dict(quota, messages=[{"role": "user", "content": [part]}]))[0] == 400, part
    search = {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]}
    assert post(port, path, dict(quota, **search))[0] == 200
    assert post(port, path, dict(quota, tool_choice={"type": "tool", "name": "web_search"}, **search))[0] == 400



def test_codex(port):
    """Codex: all of its tools, and what it sends back of a patch and of a command."""
    tools = [{"type": "custom", "name": "apply_patch", "description": "It patches", "format": {
        "type": "grammar", "syntax": "lark", "definition": "start: /[^x]*/"}}, {"type": "local_shell"},
        {"type": "web_search", "external_web_access": False}, {"type": "function", "name": "shell", "strict": False,
                                                               "parameters": WEATHER}]
    items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Do."}]},
             {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Patch."}]},
             {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
             {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin Patch"},
             {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
             {"type": "local_shell_call", "call_id": "c2", "status": "completed", "action": {
                 "type": "exec", "command": ["ls"]}}, {"type": "local_shell_call_output", "call_id": "c2", "output": "x"},
             {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}, "status": "completed"},
             {"type": "shell_call_output", "call_id": "c3", "output": [
                 {"stdout": "x", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
             {"type": "apply_patch_call", "call_id": "c4", "status": "completed", "operation": {
                 "type": "delete_file", "path": "x"}}, {"type": "apply_patch_call_output", "call_id": "c4", "status": "completed"},
             {"type": "web_search_call", "id": "ws_1", "status": "completed"},
             {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go a"}]}]
    body = {"model": "script", "instructions": "Code.", "input": items, "tools": tools, "tool_choice": "auto",
            "parallel_tool_calls": False, "store": True, "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "1", "reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "low"}}
    status, reply = post(port, "/v1/responses", body)
    assert (status, reply["output"][0]["content"][0]["text"]) == (200, ANSWER)
    for wrong in ({"tool_choice": {"type": "web_search"}}, {"tools": tools[1:3], "tool_choice": "required"},
                  {"input": [{"type": "item_reference", "id": "x"}]}):
        status, reply = post(port, "/v1/responses", dict(body, **wrong))
        assert status == 400 and reply["error"]["message"], wrong


def test_llama_server(port):
    """Programs made for llama-server."""
    status, reply = post(port, "/completion", {"prompt": "a", "n_predict": 2, "n_probs": 1, "cache_prompt": True})
    assert (status, reply["content"], reply["stop_type"]) == (200, "The answer", "limit")
    assert [p["token"] for p in reply["completion_probabilities"]] == ["The ", "answer"]
    for wrong in ({"n_predict": 0}, {"logit_bias": [[1, "x"]]}, {"prompt": {}}, {"n_predict": "x"}):
        assert post(port, "/completion", dict({"prompt": "a"}, **wrong))[0] == 400, wrong
    files = [{"filename": "other", "text": "<|fim_middle|>"}]
    for body in ({"input_prefix": "a", "input_suffix": "b"}, {"prompt": "<|im_end|>", "input_extra": files}):
        status, reply = post(port, "/infill", body)
        assert (status, reply["content"]) == (200, "the gap"), body
    assert post(port, "/infill", {"input_extra": [1]})[0] == 400


def test_openapi(port, tmp_path):
    """Every route is in the document, with every status that it gives here; schemathesis finds no deviation, in all phases
    and by all checks (KT_TEST_CASES and KT_TEST_SEED for more)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/openapi.json")
    paths = json.loads(connection.getresponse().read())["paths"]
    routes = (SOURCE / "tools/engine/serve/info.c").read_text().split("kt_routes[] = {")[1].split("NULL},\n};")[0]
    for method, path in re.findall(r'\{"(GET|POST)", "([^"]+)"', routes):
        operation = paths[path.replace("*", "{name}")][method.lower()]
        assert operation["summary"] and "200" in operation["responses"], path
        if method == "POST":
            status, _ = post(port, path, [])
            assert status == 400 and "400" in operation["responses"], path
    schemathesis = pathlib.Path(sys.executable).with_name("schemathesis")
    if not schemathesis.exists():
        pytest.skip("there is no Python package schemathesis")
    done = subprocess.run([schemathesis, "run", f"http://127.0.0.1:{port}/openapi.json", "-n", os.environ.get("KT_TEST_CASES", "3"),
                           "--seed", os.environ.get("KT_TEST_SEED", "1"), "--checks", "all", "--no-color"],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
