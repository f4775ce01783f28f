#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds for fuzz_template: the small templates of the tests, some with their variables. seeds_template.py CASES FOLDER"""
import json
import os
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    data = json.load(file)
for number, case in enumerate(data["cases"]):
    with open(os.path.join(sys.argv[2], "seed-%03d" % number), "wb") as out:
        out.write(case["template"].encode())
        if number % 4 == 0:
            out.write(b"\0" + json.dumps(data["variables"]).encode())
