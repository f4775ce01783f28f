#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py SOURCE BUILD [--write]

Compares the ABI of the libraries and that of plugins with tests/abi/baseline, which is what the last release
promised, and says which number to raise. --write makes the baseline anew. A build without libktengine is compared
as far as it goes, and writes no baseline."""
import os
import re
import sys

from describe import describe

# The core makes these and hands them to plugins one at a time, so they may grow.
HANDED_OUT = {f"struct kt_{name}" for name in
              ("act_pack", "caps", "cut", "gather", "layout", "pack", "product", "unpack")}


KINDS = {"library": ":", "engine": ":", "plugin": "."}  # what joins their numbers
ENGINE = ("constraint.h", "engine.h", "sampling.h", "speculate.h", "text.h")  # of include/kt


def search(path, pattern):
    with open(path, encoding="utf-8") as text:
        match = re.search(pattern, text.read(), re.M)
    if not match:
        raise SystemExit(f"check.py: {path} does not hold {pattern}")
    return tuple(int(number) for number in match.groups())


def headers_of(header):
    """The header and what it includes of its folder, all of which are public."""
    with open(header, encoding="utf-8") as text:
        names = re.findall(r"^#include <kt/(\w+\.h)>", text.read(), re.M)
    found = [os.path.join(os.path.dirname(header), name) for name in names]
    return [header, *filter(os.path.exists, found)]  # version.h is made, and has no types


def read_baseline(path):
    numbers, sections, facts = {}, {}, None
    with open(path, encoding="utf-8") as text:
        for line in text:
            if line.startswith("#") or not line.strip():
                continue
            key, _, value = line.rstrip("\n").partition(": ")
            if key in KINDS:
                numbers[key] = tuple(int(number) for number in re.split("[:.]", value))
                facts = sections[key] = {}
            else:
                facts[key] = value
    return numbers, sections


def write_baseline(path, numbers, sections):
    with open(path, "w", encoding="utf-8") as out:
        out.write("# The ABI as it was last released; make abi-check compares, make abi-baseline writes it.\n")
        for name, joint in KINDS.items():
            out.write(f"\n{name}: {joint.join(map(str, numbers[name]))}\n")
            out.writelines(f"{key}: {value}\n" for key, value in sorted(sections[name].items()))


def size(value):
    return int(value.split()[0])


def offset(value):
    return int(value.split()[0][1:])


def grows(name, facts, handed_out):
    """May this struct get longer? Not where it lies inside another one or in an array."""
    embedded = re.compile(rf"@\d+ {name}(\[|$)")
    return (name in handed_out or facts.get(f"{name}.struct_size", "").startswith("@0 ")) and not any(
        embedded.match(value) for value in facts.values())


def is_addition(key, old, new, handed_out):
    """Can what was built against the old facts live with this difference?"""
    owner, _, field = key.partition(".")
    if key in old and key in new:
        return bool(size_of_struct(key, old)) and size(new[key]) > size(old[key]) and grows(key, old, handed_out)
    if key in old:
        # A field kept for later use that got its use.
        heir = [other for other in new if other.startswith(owner + ".") and new[other] == old[key]]
        return field.startswith("reserved") and bool(heir)
    if not owner.startswith("struct ") or owner not in old or not field:
        return True
    heir = [other for other in old if other.startswith(f"{owner}.reserved") and old[other] == new[key]]
    return bool(heir) or (offset(new[key]) >= size(old[owner]) and grows(owner, old, handed_out))


def size_of_struct(key, facts):
    return key.startswith("struct ") and "." not in key and facts[key].endswith(" bytes")


def compare(name, old, new, handed_out):
    """Prints the differences: "", "added" or "broken"."""
    verdict = ""
    for key in sorted(set(old) | set(new)):
        if old.get(key) == new.get(key):
            continue
        addition = is_addition(key, old, new, handed_out)
        verdict = "broken" if not addition else verdict or "added"
        print(f"{name}: {'added' if addition else 'BROKEN'}: {key}")
        for sign, facts in (("-", old), ("+", new)):
            if key in facts:
                print(f"    {sign} {facts[key]}")
    return verdict


def library_number(verdict, was, now, variable="KT_LIBRARY_VERSION"):
    """What that variable of configure.ac must be, or None if it is that."""
    current, _, age = was
    soname = now[0] - now[2]
    if soname > current - age or (verdict == "added" and soname == current - age and now[0] > current):
        return None
    wanted = f"{current + 1}:0:0" if verdict == "broken" else f"{current + 1}:0:{age + 1}"
    return f"{variable} in configure.ac from {':'.join(map(str, now))} to {wanted}"


def engine_number(verdict, was, now):
    return library_number(verdict, was, now, "KT_ENGINE_VERSION")


def plugin_number(verdict, was, now):
    """Which number of the plugin ABI to raise, or None if it was."""
    if now[0] > was[0] or (verdict == "added" and now > was):
        return None
    if verdict == "added":
        return f"KT_PLUGIN_ABI_MINOR in include/kt/plugin.h from {now[1]} to {was[1] + 1}"
    return (f"KT_PLUGIN_ABI_MAJOR in include/kt/plugin.h and KT_PLUGIN_ABI in configure.ac from {now[0]} to "
            f"{was[0] + 1}")


def main():
    source, build = sys.argv[1:3]
    include, path = os.path.join(source, "include/kt"), os.path.join(source, "tests/abi/baseline")
    plugin_h = os.path.join(include, "plugin.h")
    shared = os.path.join(include, "types.h")
    now = {
        "library": search(os.path.join(source, "configure.ac"), r"KT_LIBRARY_VERSION\], \[(\d+):(\d+):(\d+)\]"),
        "engine": search(os.path.join(source, "configure.ac"), r"KT_ENGINE_VERSION\], \[(\d+):(\d+):(\d+)\]"),
        "plugin": (*search(plugin_h, r"^#define KT_PLUGIN_ABI_MAJOR (\d+)$"),
                   *search(plugin_h, r"^#define KT_PLUGIN_ABI_MINOR (\d+)$")),
    }
    new = {
        "library": describe(os.path.join(build, ".libs/libktkernel.so"), headers_of(os.path.join(include, "kt.h"))),
        "plugin": describe(os.path.join(build, "tests/abi/now/kt_example.so"), [plugin_h, shared]),
    }
    engine = os.path.join(build, ".libs/libktengine.so")
    if os.path.exists(engine):
        # What it shares with libktkernel is that one's.
        new["engine"] = describe(engine, [os.path.join(include, name) for name in ENGINE])
    if sys.argv[3:] == ["--write"]:
        if "engine" not in new:
            raise SystemExit("check.py: the baseline has libktengine too: build with it")
        write_baseline(path, now, new)
        return 0
    was, old = read_baseline(path)
    raise_number = {"library": library_number, "engine": engine_number, "plugin": plugin_number}
    code = 0
    for name in KINDS:
        if name not in new:
            print(f"{name}: libktengine was not built")
            continue
        verdict = compare(name, old[name], new[name], HANDED_OUT if name == "plugin" else set())
        advice = raise_number[name](verdict, was[name], now[name]) if verdict else None
        if advice:
            print(f"{name}: raise {advice}")
            code = 1
        else:
            print(f"{name}: {'as in the baseline' if not verdict else 'changed, and its number was raised'}")
    if code:
        print("Where the version in the baseline was never released: make abi-baseline, and commit the difference.")
    return code


if __name__ == "__main__":
    sys.exit(main())
