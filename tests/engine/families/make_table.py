#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_table.py [--check] - the table of models in README.md.

It has a row for each class of config.json in tests/data/families, with the architecture of its GGUF files, and for
classes whose language model test_changes compares with another one's. Writes the lines between the table's head and
the next empty line, or compares them with --check.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data" / "families"
HEAD = "| Models | config.json | GGUF |\n| --- | --- | --- |\n"
TITLES = {
    "AXK1ForCausalLM": "A.X K1", "AfmoeForCausalLM": "Trinity", "AriaForConditionalGeneration": "Aria",
    "AriaTextForCausalLM": "Aria, text", "BeamForCausalLM": "Beam", "Cohere2MoeForCausalLM": "Command A+",
    "DbrxForCausalLM": "DBRX",
    "DeepseekV2ForCausalLM": "DeepSeek V2", "DeepseekV3ForCausalLM": "DeepSeek V3, R1, V3.1; Kimi K2",
    "DeepseekV32ForCausalLM": "DeepSeek V3.2",
    "Dots1ForCausalLM": "dots.llm1", "Ernie4_5ForCausalLM": "ERNIE 4.5, dense",
    "Ernie4_5_MoeForCausalLM": "ERNIE 4.5", "Exaone4ForCausalLM": "EXAONE 4", "ExaoneMoeForCausalLM": "K-EXAONE",
    "FlexOlmoForCausalLM": "FlexOlmo", "FlintForCausalLM": "Flint", "Gemma3ForCausalLM": "Gemma 3",
    "Gemma3ForConditionalGeneration": "Gemma 3 that sees images",
    "Gemma4ForConditionalGeneration": "Gemma 4 that sees images",
    "Gemma4ForCausalLM": "Gemma 4", "Glm4ForCausalLM": "GLM-4, dense", "Glm4MoeForCausalLM": "GLM-4.5 to 4.7",
    "Glm4MoeLiteForCausalLM": "GLM-4.7-Flash", "GlmMoeDsaForCausalLM": "GLM-5 to 5.2", "Glm4vMoeForConditionalGeneration": "GLM-4.5V",
    "GptOssForCausalLM": "gpt-oss", "GraniteForCausalLM": "Granite",
    "GraniteMoeSWAForCausalLM": "Granite with experts and windows",
    "GraniteMoeSharedForCausalLM": "Granite with experts", "GraniteSWAForCausalLM": "Granite with windows",
    "HYV3ForCausalLM": "Hy3", "HunYuanDenseV1ForCausalLM": "Hunyuan, dense", "HunYuanMoEV1ForCausalLM": "Hunyuan A13B",
    "InternLM3ForCausalLM": "InternLM 3",
    "KimiK25ForConditionalGeneration": "Kimi K2.5", "Kolibri1ForCausalLM": "Kolibri 1", "LagunaForCausalLM": "Laguna",
    "Llama4ForCausalLM": "Llama 4", "LlamaForCausalLM": "Llama 2 and 3",
    "LongcatFlashForCausalLM": "LongCat-Flash", "MellumForCausalLM": "Mellum 2",
    "MiMoV2FlashForCausalLM": "MiMo-V2-Flash", "MiniMaxM2ForCausalLM": "MiniMax-M2",
    "MiniMaxM3SparseForConditionalGeneration": "MiniMax-M3, where no layer chooses blocks of keys",
    "MiniMaxM3VLForCausalLM": "MiniMax-M3, its language model alone",
    "Ministral3ForCausalLM": "Ministral 3", "Mistral3ForConditionalGeneration": "Mistral Small 3.1 and later",
    "Mistral4ForCausalLM": "Mistral Small 4", "MistralForCausalLM": "Mistral", "MixtralForCausalLM": "Mixtral",
    "Olmo2ForCausalLM": "OLMo 2", "Olmo3ForCausalLM": "OLMo 3", "OlmoeForCausalLM": "OLMoE",
    "Phi3ForCausalLM": "Phi-3 and Phi-4", "PhimoeForCausalLM": "Phi-3.5-MoE", "Qwen2ForCausalLM": "Qwen 2, 2.5",
    "Qwen2MoeForCausalLM": "Qwen1.5-MoE, Qwen2-57B-A14B", "Qwen3ForCausalLM": "Qwen 3, dense",
    "Qwen3MoeForCausalLM": "Qwen 3", "Qwen3NextForCausalLM": "Qwen3-Next",
    "Qwen3VLMoeForConditionalGeneration": "Qwen3-VL with experts", "Qwen3_5ForCausalLM": "Qwen 3.5, dense",
    "Qwen3_5MoeForCausalLM": "Qwen 3.5, 3.6", "SarvamMLAForCausalLM": "Sarvam 105B",
    "SarvamMoEForCausalLM": "Sarvam 30B", "SeedOssForCausalLM": "Seed-OSS", "SmolLM3ForCausalLM": "SmolLM3",
    "SolarOpenForCausalLM": "Solar Open", "Step3p5ForCausalLM": "Step 3.5",
    "Step3p7ForConditionalGeneration": "Step 3.7"}


def arch_of(path):
    """The last that a table or one that it includes names."""
    found = None
    for words in map(str.split, path.read_text().splitlines()):
        if words[:1] == ["include"]:
            found = arch_of(DATA / words[1]) or found
        elif words[:1] == ["arch"]:
            found = words[1]
    return found


def rows():
    arches = {}
    for table in sorted(DATA.glob("*/model")):
        name = json.loads((table.parent / "config.json").read_text())["architectures"][0]
        arch = arch_of(table)
        arches[name] = arch if arch not in (None, "none") else arches.get(name)
    wrapped = (ROOT / "tests" / "engine" / "families" / "test_changes.c").read_text()
    for name in re.findall(r'"(\w+ForConditionalGeneration)"', wrapped):
        arches.setdefault(name, None)
    for name in sorted(arches, key=lambda name: TITLES[name].lower()):
        yield f"| {TITLES[name]} | {name} | {arches[name] or ''} |\n"


def main():
    path = ROOT / "README.md"
    text = path.read_text()
    begin = text.index(HEAD) + len(HEAD)
    end = text.index("\n\n", begin - 1) + 1
    table = "".join(rows())
    if "--check" in sys.argv[1:]:
        sys.exit(None if text[begin:end] == table else f"{path}: its table of models is not what make_table.py writes")
    path.write_text(text[:begin] + table + text[end:])


main()
