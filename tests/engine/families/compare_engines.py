#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_engines.py BUILD [FAMILY...] - the GGUF files of tiny models in other engines, beside expected.f32.

Writes each model in float32 by BUILD/tests/engine/families/write_family and runs it in llama.cpp (package xllamacpp)
and in ik_llama.cpp (ik-llama-cpp-python); an engine whose package is missing is skipped by name. They agree where
the file has the right names, keys and order of rows. Each model runs in a process of its own, as engines abort
on what they do not know. Logits are compared up to a constant, which probabilities do not tell, by the sums that
are recorded of them.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from draws import PROJECTIONS, project

DATA = pathlib.Path(__file__).resolve().parents[2] / "data" / "families"
ERROR_LOGITS = 64  # of a deliberate error, as make_expected.py records them
# What they compute otherwise, at the versions that README names: a deliberate error of the table whose logits they
# have, or a sentence.
KNOWN = {("xllamacpp", "deepseek-v2"): "refuses files that have kv_b_proj whole and parted; without the whole one: the "
                                       "error groups-by-their-best-two",
         ("xllamacpp", "deepseek-v2-lite"): "knows it by its 26 or 27 layers",
         ("xllamacpp", "glm-4.7-flash"): "refuses files that have kv_b_proj whole and parted, and knows its router by 47 "
                                         "layers; without the whole one, and with expert_gating_func: 1.2e-5",
         ("xllamacpp", "gpt-oss"): "borders-rounded",
         ("xllamacpp", "kimi-k2"): "refuses files that have kv_b_proj whole and parted",
         ("xllamacpp", "llama-yarn"): "only-the-factor",
         ("xllamacpp", "mistral"): "no-window",
         ("ik_llama_cpp", "deepseek-v2"): "aborts at heads of these sizes",
         ("ik_llama_cpp", "deepseek-v2-lite"): "knows it by its 26 or 27 layers",
         ("ik_llama_cpp", "deepseek-v3"): "aborts at heads of these sizes",
         ("ik_llama_cpp", "glm-4.7-flash"): "aborts at heads of these sizes",
         ("ik_llama_cpp", "gpt-oss"): "borders-rounded",
         ("ik_llama_cpp", "kimi-k2"): "aborts at heads of these sizes",
         ("ik_llama_cpp", "llama-yarn"): "only-the-factor",
         ("ik_llama_cpp", "llama3"): "not-scaled",
         ("ik_llama_cpp", "mistral"): "no-window",
         ("ik_llama_cpp", "mixtral"): "is another one from the first token on"}
LETTER = 68  # what the server is to write, so that it answers; probabilities are those of before
TOLERANCE = 1e-3  # values of attention are float16 in ik_llama.cpp


def run_llama_cpp(path, ids, keep, vocabulary):
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.warmup = path, 512, 1, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(params)
    rows = np.zeros((len(keep), vocabulary))
    for row, position in zip(rows, keep):
        answer = server.handle_completions({"prompt": ids[:position + 1], "n_predict": 1, "n_probs": vocabulary,
                                            "cache_prompt": False, "logit_bias": [[LETTER, 1000]]})
        for item in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            row[item["id"]] = item["logprob"]
    return rows


def run_ik_llama_cpp(path, ids, keep, vocabulary):
    from ik_llama_cpp import _ctypes_api as api
    from ik_llama_cpp._internals import IkModel, make_batch_single
    params = api.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 512, 1, 1
    params.type_k = 0  # GGML_TYPE_F32; values stay float16
    params.flash_attn = False
    model = IkModel(path)
    context = api.llama_init_from_model(model.model, params)
    rows = []
    for position, token in enumerate(ids):
        if api.llama_decode(context, make_batch_single(token, position)) != 0:
            sys.exit("it cannot decode")
        logits = api.llama_get_logits_ith(context, -1)
        if position in keep:
            rows.append([logits[i] for i in range(vocabulary)])
    return rows


ENGINES = {"xllamacpp": run_llama_cpp, "ik_llama_cpp": run_ik_llama_cpp}


def run_one(engine, path, out):
    given = json.load(sys.stdin)
    np.array(ENGINES[engine](path, given["ids"], given["keep"], given["vocabulary"]), dtype="<f4").tofile(out)


def difference(got, position, recorded):
    """Relative to the size of the logits, the constant removed that brings sums nearest."""
    away = project(got, position)[1:] - recorded[1:]
    of_one = project(np.ones(len(got)), position)[1:]
    away -= of_one * (away @ of_one) / (of_one @ of_one)
    return np.sqrt(np.mean(away ** 2)) / recorded[0]


def compare(engine, family, program, folder):
    """What there is to say of it; whether it agrees."""
    lines = (DATA / family / "model").read_text().splitlines()
    keep = [int(word) for line in lines if line.startswith("keep ") for word in line.split()[1:]]
    path, out = f"{folder}/{family}.gguf", f"{folder}/logits"
    subprocess.run([program, "--f32", DATA, family, path], check=True)
    ids = subprocess.run([program, DATA, family, "--ids"], check=True, capture_output=True).stdout
    vocabulary = json.loads((DATA / family / "config.json").read_text())["vocab_size"]
    given = {"ids": [int(word) for word in ids.split()], "keep": keep, "vocabulary": vocabulary}
    done = subprocess.run([sys.executable, __file__, "--one", engine, path, out], input=json.dumps(given).encode(),
                          capture_output=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        reasons = [line for line in said if "unknown model arch" in line or "error" in line.lower()]
        return f"does not run it: {(reasons or said or ['no word'])[0].strip()}", False
    rows = np.fromfile(out, dtype="<f4").reshape(-1, vocabulary)
    recorded = np.fromfile(DATA / family / "expected.f32", dtype="<f4")
    errors = [line.split()[1] for line in lines if line.startswith("error ")]
    recorded = recorded[:(len(keep) + 1 + len(errors)) * (1 + PROJECTIONS)].reshape(-1, 1 + PROJECTIONS)
    worst = max(difference(*row) for row in zip(rows, keep, recorded))
    words = f"relative difference {worst:.1e}"
    known = KNOWN.get((engine, family))
    if worst < TOLERANCE or known not in errors:
        return words, worst < TOLERANCE
    away = difference(rows[-1, :ERROR_LOGITS], keep[-1], recorded[len(keep) + 1 + errors.index(known)])
    return f"{words}; from the error {known} {away:.1e}", away < TOLERANCE


def main():
    program = f"{sys.argv[1]}/tests/engine/families/write_family"
    families = sys.argv[2:] or sorted(p.parent.name for p in DATA.glob("*/model"))
    failed = False
    for engine in ENGINES:
        done = subprocess.run([sys.executable, "-c", f"import {engine}"], capture_output=True)
        if done.returncode != 0:
            print(f"SKIP: the package {engine} is not installed")
            continue
        for family in families:
            if "arch none" in (DATA / family / "model").read_text():
                continue
            with tempfile.TemporaryDirectory() as folder:
                words, agrees = compare(engine, family, program, folder)
            known = None if agrees else KNOWN.get((engine, family))
            failed |= not agrees and not known
            print(f"{'ok ' if agrees else 'known' if known else 'BAD'} {engine} {family}: {words}",
                  f"({known})" if known else "", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:])
    else:
        main()
