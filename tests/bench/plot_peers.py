#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the plots of peers.csv: plot_peers.py FOLDER, which holds it, writes FOLDER/peers-xeon.svg and peers-zen4.svg.

Needs matplotlib (Debian: python3-matplotlib). What is drawn is how many times kt-kernel's time another
program takes, the best time of each in any run and layout; each plot says the same in its description."""

import csv
import pathlib
import re
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

matplotlib.rcParams.update(
    {"svg.hashsalt": "kt-kernel", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"], "path.simplify": False}
)
GREY = "#e4e4e4"
XEON, ZEN = "Intel Xeon with AMX; 2 cores", "AMD Zen 4; 2 cores"
QWEN3, DEEPSEEK = "2048-768-128-8", "7168-2048-32-8"
SHAPES = {
    "2880-2880-32-4": "gpt-oss",
    "4096-14336-8-2": "Mixtral",
    "4096-1408-128-8": "4096 x 1408",
    "2048-512-512-10": "Qwen3-Next",
}
FORMATS = {
    "bf16": "BF16",
    "fp8": "FP8",
    "int8": "INT8",
    "int4": "INT4",
    "rawint4": "INT4, published",
    "q8_0": "Q8_0",
    "q6_k": "Q6_K",
    "q5_k": "Q5_K",
    "q4_k": "Q4_K",
    "q4_0": "Q4_0",
    "mxfp4": "MXFP4",
    "iq4_xs": "IQ4_XS",
    "iq3_xxs": "IQ3_XXS",
}
# Colors that the color-blind tell apart; markers and dashes say the same without them.
LINES = {
    "KT-Kernel": ("#c44e00", "s", "--"),
    "ik_llama.cpp": ("#0067a8", "^", "-"),
    "ggml": ("#007f5f", "D", ":"),
    "avx512": ("#0067a8", "^", "-"),
    "other": ("#007f5f", "D", ":"),
    "avx2": ("#c44e00", "v", "--"),
}
TOKENS = (1, 8, 32, 128, 512, 2048)


def read(path):
    """{(machine, level, shape, format): {program: {tokens: times kt-kernel's time}}}"""
    times, clean, ratios = {}, set(), {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            panel = row["machine"], row["level"], row["shape"], row["format"]
            point = panel, row["program"], int(row["n_tokens"])
            if row["time_ms"]:
                times[point] = min(times.get(point, float("inf")), float(row["time_ms"]))
                if row["clean"] == "yes":
                    clean.add(point)
            elif row["times_kt_kernel"]:
                ratios.setdefault(panel, {}).setdefault(row["program"], {})[point[2]] = float(row["times_kt_kernel"])
    for point, time in times.items():
        panel, program, tokens = point
        ours = times.get((panel, "kt-kernel", tokens))
        # A disturbed run's time is only an upper bound: it counts beside a clean one, not alone.
        if program != "kt-kernel" and ours and point in clean:
            ratios.setdefault(panel, {}).setdefault(program, {})[tokens] = time / ours
    return ratios


def draw_line(axes, points, style):
    color, marker, dashes = LINES[style]
    tokens = sorted(points)
    values = [points[n] for n in tokens]
    look = {"color": color, "marker": marker, "markersize": 5.5, "markeredgewidth": 0, "linewidth": 1.4}
    axes.plot(tokens, values, dashes, clip_on=False, **look)


def describe(lines):
    return "\n".join(
        " ".join([*words, *(f"{n}:{points[n]:.2f}" for n in sorted(points))]) for words, points in lines
    )


def grid(rows, columns, gap, y_range, y_ticks, y_label):
    """Panels, row by row, and the place that is left out for the legend."""
    height = 1.75 * rows + 0.75
    figure, axes = plt.subplots(rows, columns, sharex=True, sharey=True, figsize=(9, height))
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.45 / height, top=1 - 0.6 / height, hspace=0.25, wspace=0.1)
    panels = list(axes.flat)
    legend = panels.pop(gap)
    legend.set_axis_off()
    for ax in panels:
        ax.set(xscale="log", yscale="log", xlim=(0.75, 2700), ylim=y_range)
        ax.set_xticks(TOKENS, [str(n) for n in TOKENS])
        ax.set_yticks(y_ticks, [f"{y:g}" for y in y_ticks])
        ax.minorticks_off()
        ax.tick_params(length=0, labelsize=7.5)
        ax.patch.set_visible(False)
        ax.axhspan(y_range[0], 1, color=GREY, linewidth=0, clip_on=False)
        ax.axhline(1, color="black", linewidth=1.4, clip_on=False)
        for edge in ("top", "right"):
            ax.spines[edge].set_visible(False)
    figure.supylabel(y_label, x=0.008, fontsize=9)
    figure.supxlabel("tokens a call", y=0.08 / height, fontsize=9)
    return figure, panels, legend


def draw_legend(axes, entries):
    handles = [
        plt.Line2D([], [], color=LINES[style][0], marker=LINES[style][1], linestyle=LINES[style][2], label=text)
        for style, text in entries
    ]
    handles.append(plt.Line2D([], [], color="black", label="kt-kernel: 1"))
    handles.append(plt.Rectangle((0, 0), 1, 1, color=GREY, label="kt-kernel is slower"))
    axes.legend(handles=handles, loc="center", fontsize=8.5, frameon=False)


def save(figure, path, title, description):
    about = {"Title": title, "Description": description, "Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(path, metadata=about, facecolor="white")
    # Half the size: without indentation, digits that nobody sees and the address of a DTD.
    about, drawing = path.read_text().split("</metadata>")
    about = re.sub(r"<!DOCTYPE.*?>\n", "", about, flags=re.DOTALL)
    drawing = re.sub(r"\n +", "\n", drawing)
    drawing = re.sub(r"(?<=[0-9]\.[0-9])[0-9]+(?=[ \n\")])", "", drawing)
    drawing = re.sub(r' (transform="rotate\(-0 [0-9. ]*\)"|id="[a-z0-9.]+_[0-9]+")', "", drawing)
    drawing = re.sub(r"<g>\s*(<g/>\s*)*</g>\n|<g/>\n", "", drawing)
    drawing = re.sub(r"<g>\s*</g>\n", "", drawing)
    drawing = re.sub(r" *\n(?=[LMz\"])", " ", drawing)
    path.write_text(f"{about}</metadata>{drawing}")


def draw_xeon(ratios, path):
    names = [(shape, name) for shape in (QWEN3, DEEPSEEK) for name in FORMATS if (XEON, "amx", shape, name) in ratios]
    figure, panels, legend = grid(4, 4, 11, (0.6, 25), (1, 2, 5, 10, 20), "time of the other program / kt-kernel's")
    lines = []
    for ax, (shape, name) in zip(panels, names, strict=True):
        ax.set_title(f"{FORMATS[name]}" + ("" if shape == QWEN3 else ", DeepSeek-V3"), fontsize=9, pad=3)
        for program, points in sorted(ratios[XEON, "amx", shape, name].items()):
            draw_line(ax, points, program)
            lines.append(((shape, name, program), points))
    draw_legend(legend, [(name, name) for name in ("KT-Kernel", "ik_llama.cpp", "ggml")])
    title = "Time of one MoE layer beside kt-kernel's, Xeon with AMX, 2 cores"
    figure.suptitle(f"{title}\nQwen3-30B-A3B's shape, but for the last row", fontsize=10, y=0.995)
    save(figure, path, title, describe(lines))


def draw_zen4(ratios, path):
    names = [name for name in FORMATS if (ZEN, "avx2", QWEN3, name) in ratios]
    figure, panels, legend = grid(3, 4, 11, (0.65, 2.4), (0.7, 1, 1.5, 2), "time of ik_llama.cpp / kt-kernel's")
    lines = []
    for ax, name in zip(panels, names):
        ax.set_title(FORMATS[name], fontsize=9, pad=3)
        for level in ("avx512", "avx2"):
            points = ratios.get((ZEN, level, QWEN3, name), {}).get("ik_llama.cpp")
            if points:
                draw_line(ax, points, level)
                lines.append(((level, QWEN3, name, "ik_llama.cpp"), points))
    others = [key for key in ratios if key[0] == ZEN and key[2] != QWEN3]
    for ax, pair in zip(panels[len(names) :], (others[:2], others[2:]), strict=True):
        ax.set_title(", ".join(f"{SHAPES[key[2]]} {FORMATS[key[3]]}" for key in pair), fontsize=8, pad=3)
        for key, color in zip(pair, ("avx512", "other")):
            points = ratios[key]["ik_llama.cpp"]
            draw_line(ax, points, color)
            lines.append(((*key[1:], "ik_llama.cpp"), points))
    labels = {"avx512": "ik_llama.cpp, AVX-512", "other": "the same, second shape", "avx2": "ik_llama.cpp, AVX2 only"}
    draw_legend(legend, labels.items())
    title = "Time of one MoE layer in ik_llama.cpp beside kt-kernel's, AMD Zen 4, 2 cores"
    figure.suptitle(f"{title}\nQwen3-30B-A3B's shape, unless a panel names another one", fontsize=10, y=0.995)
    save(figure, path, title, describe(lines))


def main():
    folder = pathlib.Path(sys.argv[1])
    ratios = read(folder / "peers.csv")
    draw_xeon(ratios, folder / "peers-xeon.svg")
    draw_zen4(ratios, folder / "peers-zen4.svg")


if __name__ == "__main__":
    main()
