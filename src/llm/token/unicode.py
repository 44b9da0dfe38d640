#!/usr/bin/env python3
"""Writes the tables of src/llm/token/unicode.c from the Unicode character database.

    python3 src/llm/token/unicode.py src/llm/token/unicode.c

replaces what stands between the two marks of that file. It takes the module unicodedata2 (15.1.0 was used) where it is
installed, else python's own unicodedata, whose version may be older; the version is written into the file.
"""
import sys

try:
    import unicodedata2 as ucd
except ImportError:
    import unicodedata as ucd

BEGIN, END = "/* tables: begin */\n", "/* tables: end */\n"
CLASS = {"L": 1, "N": 2, "P": 3, "S": 4, "M": 5, "Z": 6, "C": 7}
SPACES = {0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x20, *range(9, 14), *range(0x2000, 0x200B)}


def kind(c):
    name = ucd.category(chr(c))
    return (0 if name == "Cn" else CLASS[name[0]]) | (8 if c in SPACES else 0)


def base(c):
    """the first code point of the canonical decomposition"""
    return ord(ucd.normalize("NFD", chr(c))[0])


def lower(c):
    return ord(chr(c).lower()[0])


def rows(f, skip):
    """runs of code points c with f(c) != c: (first, count, step, target); the target is fixed or moves with c"""
    out = []
    for c in range(0x110000):
        if skip(c) or f(c) == c:
            continue
        t = f(c)
        if out:
            first, count, step, target, moves = out[-1]
            if count == 1:
                d = c - first
                if d in (1, 2) and t - target in (0, d):
                    out[-1] = (first, 2, d, target, t != target)
                    continue
            elif c == first + count * step and t == (target + count * step if moves else target) and count < 255:
                out[-1] = (first, count + 1, step, target, moves)
                continue
        out.append((c, 1, 1, t, False))
    return out


def numbers(name, kind_of, values):
    text, line = f"static const {kind_of} {name}[{len(values)}] = {{\n", "   "
    for v in values:
        piece = f" {v},"
        if len(line) + len(piece) > 150:
            text, line = text + line + "\n", "   "
        line += piece
    return text + line + "\n};\n"


def main():
    starts, last = [], None
    for c in range(0x110000):
        k = kind(c)
        if k != last:
            starts.append(c << 4 | k)
            last = k
    surrogate = lambda c: 0xD800 <= c < 0xE000
    hangul = lambda c: 0xAC00 <= c < 0xD7A4

    def pack(table):
        # first: 21 bits, count: 8 bits, step - 1: 1 bit, moves: 1 bit; then the target
        return [n for f, count, step, t, moves in table
                for n in (f | count << 21 | (step - 1) << 29 | (1 if moves else 0) << 30, t)]

    text = f'#define TINYI_UNICODE_VERSION "{ucd.unidata_version}"\n'
    text += "/* where a class begins: code point * 16 + class, + 8 for white space */\n"
    text += numbers("tinyi_unicode_starts", "uint32_t", starts)
    text += "/* pairs: first | count << 21 | (step - 1) << 29 | moves << 30, target */\n"
    text += numbers("tinyi_unicode_lower_rows", "uint32_t", pack(rows(lower, surrogate)))
    text += numbers("tinyi_unicode_base_rows", "uint32_t", pack(rows(base, lambda c: surrogate(c) or hangul(c))))
    path = sys.argv[1]
    source = open(path, encoding="utf-8").read()
    head, rest = source.split(BEGIN)
    tail = rest.split(END)[1]
    open(path, "w", encoding="utf-8").write(head + BEGIN + text + END + tail)
    print(f"Unicode {ucd.unidata_version}: {len(starts)} classes, {len(rows(lower, surrogate))} lower case rows")


if __name__ == "__main__":
    main()
