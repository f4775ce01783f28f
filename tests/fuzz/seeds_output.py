# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_output: the cases of tests/data/output, behind the bytes that say the format and the
options, and the tags of each format as a dictionary. seeds_output.py SOURCE CORPUS DICTIONARY"""
import re
import sys

FORMATS = ["plain", "hermes", "function", "glm", "deepseek", "dsml", "kimi", "minimax",
           "harmony", "mistral", "json", "longcat", "longcat-markup"]
# Those whose tags are another one's with a word before, as output_cases.c makes them.
LIKE = {"longcat": "hermes", "longcat-markup": "glm"}
source, corpus, dictionary = sys.argv[1:]
tags = set()
for number, name in enumerate(FORMATS):
    with open(f"{source}/tests/data/output/{LIKE.get(name, name)}.txt", encoding="utf-8", newline="\n") as file:
        text = file.read()
    if name in LIKE:
        text = re.sub("(?<=[</])(?=tool_ca|arg_key|arg_value|think)", "longcat_", text)
    cases = re.split(r"^== ", text, flags=re.M)[1:]
    for i, case in enumerate(cases):
        title, rest = case.split("\n", 1)
        text = ("\n" + rest).split("\n--\n")[0][1:]
        options = ("[reasoning]" in title) + 2 * ("[no tools]" not in title)
        tags.update(re.findall(r"</?[^<> ]+[>= ]|\[/?[A-Z_]+\]|\"[a-z]+\":", text))
        with open(f"{corpus}/seed-{name}-{i}", "wb") as file:
            file.write(bytes([number, options, i]) + text.encode())
with open(dictionary, "w", encoding="ascii") as file:
    for tag in sorted(tags):
        if len(tag.encode()) < 64:
            file.write('"' + "".join(f"\\x{byte:02x}" for byte in tag.encode()) + '"\n')
