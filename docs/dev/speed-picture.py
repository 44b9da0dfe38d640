#!/usr/bin/env python3
"""Draws the picture of README.md, speed of tinyllm.h beside llama.cpp, from docs/dev/speed.tsv: make picture

    speed-picture.py ROWS.tsv PICTURE.svg

For each model it takes the last run that holds both programs and draws the median of the rounds of that run, as the
table of docs/dev/speed.md does. Nothing but the rows decides the bytes of the picture.
"""
import statistics
import sys

MODELS = ["1.1B Q4_0", "1.1B Q4_K_M", "1.1B Q8_0", "1.1B F16"]     # weights used where the file has them
THREADS = "2"
PANELS = [("prompt", "Reading a prompt of %s tokens", "%.0f"), ("decode", "Writing %s tokens, one by one", "%.1f")]
PEER = "llama-cpp-python "
INK, QUIET, OURS, THEIRS = "#1f2328", "#59636e", "#0b6bcb", "#a9b4c0"
WIDTH, TOP, STEP, BAR, LEFT, LENGTH, PANEL = 1000, 106, 56, 20, 96, 270, 490


def rows(path):
    with open(path, encoding="utf-8") as f:
        names = f.readline().rstrip("\n").split("\t")
        return [dict(zip(names, line.rstrip("\n").split("\t"))) for line in f]


def last_run(table, model, what):
    """the rows of ours and of theirs of the last run that has both"""
    runs = {}
    for r in table:
        if (r["model"], r["threads"], r["what"]) == (model, THREADS, what):
            side = 0 if r["who"].startswith("ours ") else 1 if r["who"].startswith(PEER) else None
            if side is not None: runs.setdefault(r["run"], ([], []))[side].append(r)
    both = [run for run, sides in runs.items() if sides[0] and sides[1]]
    if not both: sys.exit(f"no run of {model}, {what}, {THREADS} threads has both programs")
    return runs[max(both)]


def text(x, y, words, size, color=INK, more=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}"{more}>{words}</text>'


def picture(table):
    height = TOP + STEP * len(MODELS) + 66
    body, used = [], []
    for i, (what, title, form) in enumerate(PANELS):
        pairs = [last_run(table, model, what) for model in MODELS]
        used += [r for sides in pairs for side in sides for r in side]
        rates = [[statistics.median(float(r["per_s"]) for r in side) for side in sides] for sides in pairs]
        x, most = i * PANEL + LEFT, max(max(pair) for pair in rates)
        body.append(text(x, TOP - 14, title % " or ".join(sorted({r["n"] for sides in pairs for r in sides[0]})), 14))
        for k, (model, pair) in enumerate(zip(MODELS, rates)):
            y = TOP + k * STEP
            body.append(text(x - 10, y + BAR + 5, model.split(" ", 1)[1], 14, INK, ' text-anchor="end"'))
            for j, (rate, color) in enumerate(zip(pair, (OURS, THEIRS))):
                long = LENGTH * rate / most
                body.append(f'<rect x="{x}" y="{y + j * (BAR + 2)}" width="{long:.1f}" height="{BAR}" fill="{color}"/>')
                more = f" ({rate / pair[1]:.2f} times)" if j == 0 else ""
                label = form % rate + more
                body.append(text(x + long + 6, y + j * (BAR + 2) + 15, label, 13, QUIET if j else INK))
    one = lambda name: " or ".join(sorted({r[name] for r in used}))
    peers = " or ".join(sorted({r["who"] for r in used if r["who"].startswith(PEER)}))
    target = " or ".join(sorted({r["who"].split(" ", 1)[1] for r in used if r["who"].startswith("ours ")}))
    days = sorted({r["run"][:10] for r in used})
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            text(20, 32, "Tokens a second, model of 1.1 billion weights (more is better)", 18),
            f'<rect x="20" y="46" width="14" height="14" fill="{OURS}"/>', text(40, 58, "tinyllm.h", 14),
            f'<rect x="130" y="46" width="14" height="14" fill="{THEIRS}"/>', text(150, 58, f"llama.cpp ({peers})", 14)]
    when = " to ".join(dict.fromkeys((days[0], days[-1])))
    first = (f"{one('processor')}, {target}; {THREADS} threads; {when}; medians, the two in turn; a "
             "virtual machine with shared memory")
    second = ("Shape of TinyLlama, random weights. Both with their defaults: llama.cpp repacks Q4_0 and Q4_K "
              "when it opens a file, tinyllm.h on request only.")
    foot = [text(20, height - 34, first, 12, QUIET), text(20, height - 14, second, 12, QUIET), "</svg>"]
    return "\n".join(head + body + foot) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 3: sys.exit(__doc__)
    drawn = picture(rows(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as f: f.write(drawn)
