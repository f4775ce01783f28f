#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py SOURCE BUILD [--write]

Compares the ABI of the library and that of plugins with tests/abi/baseline, which is what the last release
promised, and says which number to raise. --write makes the baseline anew."""
import os
import re
import sys

from describe import describe

# The core makes these and hands them to plugins one at a time, so they may grow.
HANDED_OUT = {f"struct kt_{name}" for name in
              ("act_pack", "caps", "cut", "gather", "layout", "pack", "product", "unpack")}


def search(path, pattern):
    with open(path, encoding="utf-8") as text:
        match = re.search(pattern, text.read(), re.M)
    if not match:
        raise SystemExit(f"check.py: {path} does not hold {pattern}")
    return tuple(int(number) for number in match.groups())


def read_baseline(path):
    numbers, sections, facts = {}, {}, None
    with open(path, encoding="utf-8") as text:
        for line in text:
            if line.startswith("#") or not line.strip():
                continue
            key, _, value = line.rstrip("\n").partition(": ")
            if key in ("library", "plugin"):
                numbers[key] = tuple(int(number) for number in re.split("[:.]", value))
                facts = sections[key] = {}
            else:
                facts[key] = value
    return numbers, sections


def write_baseline(path, numbers, sections):
    with open(path, "w", encoding="utf-8") as out:
        out.write("# The ABI as it was last released; make abi-check compares, make abi-baseline writes it.\n")
        for name, joint in (("library", ":"), ("plugin", ".")):
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


def library_number(verdict, was, now):
    """What KT_LIBRARY_VERSION must be, or None if it is that."""
    current, _, age = was
    soname = now[0] - now[2]
    if soname > current - age or (verdict == "added" and soname == current - age and now[0] > current):
        return None
    wanted = f"{current + 1}:0:0" if verdict == "broken" else f"{current + 1}:0:{age + 1}"
    return f"KT_LIBRARY_VERSION in configure.ac from {':'.join(map(str, now))} to {wanted}"


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
        "plugin": (*search(plugin_h, r"^#define KT_PLUGIN_ABI_MAJOR (\d+)$"),
                   *search(plugin_h, r"^#define KT_PLUGIN_ABI_MINOR (\d+)$")),
    }
    new = {
        "library": describe(os.path.join(build, ".libs/libktkernel.so"),
                            [os.path.join(include, name) for name in ("kt.h", "gpu.h", "kv.h", "linear.h", "model.h", "stats.h", "types.h")]),
        "plugin": describe(os.path.join(build, "tests/abi/now/kt_example.so"), [plugin_h, shared]),
    }
    if sys.argv[3:] == ["--write"]:
        write_baseline(path, now, new)
        return 0
    was, old = read_baseline(path)
    raise_number = {"library": library_number, "plugin": plugin_number}
    code = 0
    for name, handed_out in (("library", set()), ("plugin", HANDED_OUT)):
        verdict = compare(name, old[name], new[name], handed_out)
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
