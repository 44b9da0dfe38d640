#!/usr/bin/env python3
"""bench/arm/run.py - instructions and modelled cycles of products with block formats on ARM, without such a machine

    run.py FOLDER HEADERS [--check]      builds in FOLDER with the headers in HEADERS; --check: one row, in seconds

Each product runs under qemu-aarch64 with bench/arm/count.c. Printed for 256 weights times one row of activations:
executed instructions, and cycles as the port bound of llvm-mca: every executed instruction weighs what the model of the
core says that it occupies, and the largest of vector pipes (one alone, half of both), loads and width counts. No
caches, no waiting: a lower bound, good for ratios of kernels. llama.cpp's figures come from docs/dev/notes-arm.tsv.
Q4_0+ is Q4_0 with repacked weights.

CC, ARM_CC, QEMU, LLVM_MCA name the programs. Without llvm-mca 17 or newer, whose models these are, cycles are left out.
"""
import collections, csv, json, os, re, shutil, subprocess, sys

K, OUT = 2048, 1024                                     # as in products.c
# name, processor of QEMU, model of llvm-mca, vector pipes, load pipes, instructions a cycle
LEVELS = [("a72", "cortex-a72", "cortex-a72", ("UnitW", "UnitX"), 1, 3),
          ("a76", "cortex-a76", "neoverse-n1", ("UnitV0", "UnitV1", "UnitV"), 2, 4),
          ("max", "max", "neoverse-n2", ("UnitV0", "UnitV1", "UnitV"), 2, 4)]
FORMATS = ["Q4_0", "Q8_0", "Q4_K", "Q5_0", "Q6_K", "Q2_K", "IQ4_NL", "MXFP4"]
REPACKED = ["Q4_0+", "Q8_0+", "Q4_K+", "Q4_1+", "Q5_0+", "Q5_1+", "Q5_K+", "Q6_K+"]   # with dotprod only
ROWS = [1, 8, 32, 128]


def tool(variable, *names):
    for name in (os.environ[variable],) if os.environ.get(variable) else names:
        if shutil.which(name):
            return name
    return None


def text(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def counts(path):
    """blocks that ran: {(address, instructions): times}"""
    blocks = collections.Counter()
    with open(path) as lines:
        for line in lines:
            if not line.startswith("all"):
                at, n, times = line.split()
                blocks[int(at, 16), int(n)] += int(times)
    return blocks


def bound(mca, level, code, hot, folder):
    """cycles of all executed instructions"""
    kept, source = [], []
    for at in sorted(hot):
        op, operands = code.get(at, ("", ""))
        operands = re.sub(r"\s*//.*", "", operands)
        if hot[at] * 5000 < max(hot.values()) or op in ("", "bl", "blr", "br", "mrs", "msr", "ret", "svc", ".inst"):
            continue
        if re.match(r"b(\.|$)|cb|tb", op):
            operands = re.sub(r"[0-9a-f]+ <.*>", "#0", operands)
        if op in ("adrp", "adr"):
            operands = operands.split(",")[0] + ", #0"
        if op == "prfm":
            operands = re.sub(r"^#0x[0-9a-f]+", "pldl1keep", operands)
        source.append(op + " " + operands)
        kept.append(at)
    # each instruction by itself, often enough that what either pipe can do is done by both: then a pipe that does all
    # of it is the only one that can
    path = os.path.join(folder, "block.s")
    with open(path, "w") as to:
        for line in source:
            to.write("# LLVM-MCA-BEGIN\n%s\n# LLVM-MCA-END\n" % line)
    told = json.loads(text(mca, "-mcpu=" + level[2], "-mtriple=aarch64", "-mattr=+dotprod,+i8mm", "-iterations=16",
                           "-json", path))
    names = told["TargetInfo"]["Resources"]
    use, only = collections.Counter(), collections.Counter()
    for i, region in enumerate(told["CodeRegions"]):
        one = collections.Counter()
        for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
            if entry["InstructionIndex"] == 0:
                one[names[entry["ResourceIndex"]].split(".")[0]] += entry["ResourceUsage"] * hot[kept[i]]
        use.update(one)
        vector = [name for name in one if name.endswith(level[3])]
        if len(vector) == 1:
            only[vector[0]] += one[vector[0]]
    of = lambda *ends: sum(n for name, n in use.items() if name.endswith(ends))
    return max(of(*level[3]) / 2, max(only.values(), default=0), of("UnitL") / level[4], sum(hot.values()) / level[5])


def main():
    check = "--check" in sys.argv
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, headers = sys.argv[1:3]
    folder = os.path.join(folder, "arm")
    cc = tool("ARM_CC", "aarch64-linux-gnu-gcc")
    host, qemu = tool("CC", "cc", "gcc"), tool("QEMU", "qemu-aarch64")
    mca = tool("LLVM_MCA", "llvm-mca-19", "llvm-mca-18", "llvm-mca-17", "llvm-mca")
    dump = tool("ARM_OBJDUMP", "aarch64-linux-gnu-objdump")
    for program, what in ((cc, "aarch64-linux-gnu-gcc"), (host, "cc"), (dump, "aarch64-linux-gnu-objdump"),
                          (qemu, "qemu-aarch64 (package qemu-user; qemu-aarch64-static takes no plugins)")):
        if not program:
            print("bench-arm: not run: no %s" % what)
            return
    if mca and int(re.search(r"version (\d+)", text(mca, "--version")).group(1)) < 17:
        mca = None
    os.makedirs(folder, exist_ok=True)
    plugin, program = os.path.abspath(folder + "/count.so"), folder + "/products"
    text(host, "-O2", "-shared", "-fPIC", "bench/arm/count.c", "-o", plugin)
    library = folder + "/tinyllm.o"
    header = headers + "/tinyllm.h"
    if not os.path.exists(library) or os.path.getmtime(library) < os.path.getmtime(header):
        with open(folder + "/tinyllm.c", "w") as to:
            to.write("#define TINYLLM_WITH_PACK\n#define TINYLLM_IMPLEMENTATION\n#include <tinyllm.h>\n")
        text(cc, "-O2", "-std=c99", "-DTINY_NO_W128", "-I" + headers, "-c", folder + "/tinyllm.c", "-o", library)
    text(cc, "-O2", "-std=c99", "-I" + headers, "bench/arm/products.c", library, "-o", program, "-static", "-pthread",
         "-lm")
    code = {}
    for line in text(dump, "-d", "--no-show-raw-insn", program).splitlines():
        m = re.match(r"\s+([0-9a-f]+):\t(\S+)\s*(.*)", line)
        if m:
            code[int(m.group(1), 16)] = m.group(2, 3)
    theirs = {}
    with open("docs/dev/notes-arm.tsv") as lines:
        for row in csv.DictReader((s for s in lines if not s.startswith("#")), delimiter="\t"):
            theirs[row["level"], row["format"], int(row["rows"])] = row
    print("For 256 weights times one row of activations: instructions (modelled cycles%s)" %
          ("" if mca else ": no llvm-mca 17 or newer"))
    print("| format | level | pass | rows | ours | llama.cpp |")
    print("|---|---|---|---|---|---|")
    for name in FORMATS[:1] if check else FORMATS + REPACKED:
        for level in LEVELS[1:2] if check else LEVELS[1:] if name in REPACKED else LEVELS:
            rows = ROWS[1:2] if check else ROWS
            prefix = folder + "/" + name + "." + level[0]
            said = text(qemu, "-cpu", level[1], "-plugin", plugin + ",out=" + prefix, program, name,
                        *[str(n) for n in rows])
            for i, n in enumerate(rows):
                blocks = counts("%s.%d" % (prefix, 2 * (i + 2) + 1))
                blocks.subtract(counts("%s.%d" % (prefix, 2 * (i + 2))))
                hot = collections.Counter()
                for (at, length), times in blocks.items():
                    for j in range(length if times else 0):
                        hot[at + 4 * j] += times
                unit = n * OUT * K / 256
                ours = "%.1f" % (sum(hot.values()) / unit)
                if mca:
                    ours += " (%.1f)" % (bound(mca, level, code, hot, folder) / unit)
                other = theirs.get((level[0], name.rstrip("+"), n))
                print("| %s | %s | %s | %d | %s | %s |" %
                      (name, level[0], said.split()[0], n, ours,
                       "%s (%s)" % (other["instructions"], other["cycles"]) if other else ""))
                sys.stdout.flush()


main()
