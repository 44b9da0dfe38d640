"""bench/peers/dllama.py - one model on two processes: distributed-llama beside build/cluster, in turns

    python3 bench/peers/dllama.py MODEL.gguf [--dllama PROGRAM] [--build build] [--tokens 64] [--rounds 5]
                                  [--cores 0,1] [--folder DIR]

PROGRAM is what `make dllama` builds in its sources (github.com/b4rtaz/distributed-llama). The script converts the model
to its format. Both programs hold the same weights, because blocks of Q4_0 and floats have the same bytes there; its
embedding is always F32. The model must be of the architecture llama, and its matrices all Q4_0 or all F32. With Q4_0
distributed-llama accepts only Q80 for its buffers, and sends that; with F32 they are F32. --folder keeps the converted
files (1.4 times the size of a file in Q4_0) and uses them again. Without --dllama the script runs our programs alone.

Each run starts from the BOS token without a prompt, since after a prompt distributed-llama can continue from another
token than the last one. Each step takes the most probable token. A process has one thread: one process runs on the
first core, two on a core each, connected over loopback.

    ms a token       from the first token of a run to the last, by the clock of this script
    speedup          compared with one process of the same program
    against theirs   their time divided by ours, with the same number of processes
    KB sent          by rank 0 for a token, as the program counts it
    same             tokens at the start that equal those of one process of ours. With a model in F32 all of them do;
                     with Q4_0 the texts diverge, because each program rounds activations to 8 bits in its own way

distributed-llama does not authenticate messages, so the rows "no MACs" compare with it.
"""
import argparse
import mmap
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

Q4_0, F32 = 2, 0                    # types of GGUF
SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
PIECE = "<%05d>"                    # the text of a token there: its number


def gguf(path):
    """keys (of arrays: the length), tensors (name: type, offset, bytes) and the bytes of a file"""
    with open(path, "rb") as f:
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    at = 0

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode(errors="replace")

    def value(kind):
        nonlocal at
        if kind == 8: return text()
        if kind != 9: return take(SCALAR[kind])
        kind, n = take("I"), take("Q")
        if kind in SCALAR: at += n * struct.calcsize("<" + SCALAR[kind])
        else:
            for _ in range(n): value(kind)
        return n

    if data[:4] != b"GGUF": sys.exit(path + " is not a GGUF file")
    at = 8
    n_tensors, n_keys = take("Q"), take("Q")
    keys, tensors = {}, {}
    for _ in range(n_keys):
        name = text()
        keys[name] = value(take("I"))
    for _ in range(n_tensors):
        name, size = text(), 1
        for _ in range(take("I")): size *= take("Q")
        tensors[name] = (take("I"), take("Q"), size)
    start = -(-at // keys.get("general.alignment", 32)) * keys.get("general.alignment", 32)
    return keys, {name: (kind, start + offset, size // 32 * 18 if kind == Q4_0 else 4 * size)
                  for name, (kind, offset, size) in tensors.items()}, data


def floats(blocks):
    """blocks of Q4_0 (a scale of 16 bits, 16 bytes of two numbers less 8) as bytes of floats"""
    tables, out = {}, []
    for i in range(0, len(blocks), 18):
        scale = blocks[i:i + 2]
        table = tables.get(scale)
        if not table:
            d = struct.unpack("<e", scale)[0]
            four = [struct.pack("<f", (n - 8) * d) for n in range(16)]
            table = tables[scale] = [four[b & 15] for b in range(256)], [four[b >> 4] for b in range(256)]
        numbers = blocks[i + 2:i + 18]
        out += [table[0][b] for b in numbers]
        out += [table[1][b] for b in numbers]
    return b"".join(out)


def convert(path, model, vocabulary):
    """writes the two files of distributed-llama; returns the type of its buffers and the first token"""
    keys, tensors, data = gguf(path)
    get = lambda name, *other: keys.get("llama." + name, *other)
    heads, width = get("attention.head_count"), get("embedding_length")
    matrices = {kind for name, (kind, _, _) in tensors.items() if not name.endswith("norm.weight")}
    epsilon = {1e-5: 5, 1e-6: 6}.get(float("%.3g" % get("attention.layer_norm_rms_epsilon", 0)))
    base = get("rope.freq_base", 10000.0)
    if keys.get("general.architecture") != "llama" or get("expert_count", 0) or not epsilon or base != int(base) or \
            get("rope.scaling.type", "none") != "none" or "rope_freqs.weight" in tensors or \
            any(name.endswith(".bias") for name in tensors) or matrices not in ({Q4_0}, {F32}) or \
            get("rope.dimension_count", width // heads) != width // heads:
        sys.exit(path + ": this model has something that distributed-llama, or this script, does not know")
    kind = matrices.pop()
    buffers = "q80" if kind == Q4_0 else "f32"
    n_vocab, bos = keys["tokenizer.ggml.tokens"], keys.get("tokenizer.ggml.bos_token_id", 1)
    if os.path.exists(model) and os.path.exists(vocabulary): return buffers, bos
    header = {0: 0, 1: 0xabcd00, 2: width, 3: get("feed_forward_length"), 4: get("block_count"), 5: heads,
              6: get("attention.head_count_kv", heads), 7: 0, 8: 0, 9: n_vocab, 10: get("context_length"),
              11: 1, 12: int(base), 13: kind, 20: epsilon}
    per_block = "attn_q attn_k attn_v attn_output ffn_gate ffn_down ffn_up attn_norm ffn_norm".split()
    names = ["blk.%d.%s.weight" % (i, part) for i in range(get("block_count")) for part in per_block]
    names += ["output_norm.weight", "output.weight" if "output.weight" in tensors else "token_embd.weight"]
    bytes_of = lambda name: data[tensors[name][1]:tensors[name][1] + tensors[name][2]]

    def write(f, magic, numbers):
        f.write(struct.pack("<ii", magic, 8 + 8 * len(numbers)))
        for pair in numbers.items(): f.write(struct.pack("<ii", *pair))

    with open(model, "wb") as f:
        write(f, 0xa00abcd, header)
        table = bytes_of("token_embd.weight")
        for i in range(0, len(table), 18 << 16):
            part = table[i:i + (18 << 16)]
            f.write(floats(part) if kind == Q4_0 else part)
        for name in names: f.write(bytes_of(name))
    with open(vocabulary, "wb") as f:
        write(f, 0x567124, {0: 1, 1: n_vocab, 2: len(PIECE % 0), 3: bos, 9: 0, 10: 1})
        for i in range(n_vocab): f.write(struct.pack("<fI", 0, len(PIECE % i)) + (PIECE % i).encode())
    return buffers, bos


def run(line):
    """runs a program; returns its output, that to standard error, and the times when output came"""
    p = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    errors, out, times = [], b"", []
    other = threading.Thread(target=lambda: errors.append(p.stderr.read().decode(errors="replace")))
    other.start()
    while True:
        part = os.read(p.stdout.fileno(), 65536)
        if not part: break
        times.append((time.monotonic(), len(out)))
        out += part
    p.wait()
    other.join()
    return p.returncode, out, errors[0], times


def main():
    a = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    a.add_argument("model")
    a.add_argument("--dllama")
    a.add_argument("--build", default="build")
    a.add_argument("--tokens", type=int, default=64)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--cores")
    a.add_argument("--folder")
    o = a.parse_args()
    free = sorted(os.sched_getaffinity(0))
    cores = o.cores.split(",") if o.cores else [str(free[0]), str(free[1 % len(free)])]
    temporary = tempfile.TemporaryDirectory()
    folder = o.folder or temporary.name
    key = temporary.name + "/key"
    subprocess.run([o.build + "/cluster", "key", key], check=True, stdout=subprocess.DEVNULL)
    if o.dllama:
        stem = folder + "/" + os.path.basename(o.model)
        buffers, bos = convert(o.model, stem + ".m", stem + ".t")

    def on(core, *line): return ["taskset", "-c", cores[core], *map(str, line)]

    def port():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    def per_token(times, n):                # in ms; the text of a tiny model can arrive all at once
        return 1e3 * max(times[-1] - times[0], 1e-6) / (n - 1)

    def with_worker(worker, root):
        w = subprocess.Popen(worker, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                done = run(root)
                if not done[0] or b"Cannot connect" not in done[1] or w.poll() is not None: return done
                time.sleep(0.1)             # their worker does not listen yet
            return done
        finally:
            w.kill()
            w.wait()

    def theirs(two):
        root = [o.dllama, "inference", "--model", stem + ".m", "--tokenizer", stem + ".t", "--buffer-float-type",
                buffers, "--nthreads", 1, "--steps", o.tokens, "--temperature", 0, "--prompt", ""]
        p = port()
        status, out, errors, times = run(on(0, *root)) if not two else with_worker(
            on(1, o.dllama, "worker", "--host", "127.0.0.1", "--port", p, "--nthreads", 1),
            on(0, *root, "--workers", "127.0.0.1:%d" % p))
        said = re.findall(rb"Pred *\d+ ms Sync *\d+ ms \| Sent *(\d+) kB Recv *\d+ kB \| <?(\d+|~)", out)
        if status or len(said) != o.tokens:
            sys.exit("distributed-llama failed:\n" + (out.decode(errors="replace") + errors)[-2000:])
        times = [t for t, at in times if out.find(b"Pred") - 8 < at < out.find(b"\nEvaluation")]
        ids = [bos if i == b"~" else int(i) for _, i in said]
        lines = "".join(" ".join(map(str, ids[:i + 1])) + "\n" for i in range(len(ids))).encode()
        texts = subprocess.run([o.build + "/tokenize", o.model, "--decode", "-0"], input=lines, check=True,
                               stdout=subprocess.PIPE).stdout.split(b"\0")[:len(ids)]
        kb = statistics.median(int(kb) for kb, _ in said) * 1.024 if two else None
        return per_token(times, o.tokens), kb, texts

    def ours(two, *more):
        if two:
            p = port()
            same = ["--key", key, "--threads", 1, "--quiet", *more]
            status, out, errors, times = with_worker(
                on(1, o.build + "/cluster", "worker", o.model, "127.0.0.1:%d" % p, *same),
                on(0, o.build + "/cluster", "master", o.model, "--listen", "127.0.0.1:%d" % p, "--n", o.tokens,
                   "--stats", *same))
            table = re.search(r"\n *0 .*? ms.*? ms +([\d.]+) KB", errors)
            made, sent = re.search(r"(\d+) tokens\. For each", errors), table and float(table[1])
        else:
            status, out, errors, times = run(on(0, o.build + "/generate", o.model, "--n", o.tokens, "--threads", 1,
                                                "--stats", *more))
            made, sent = re.search(r"text: (\d+) tokens", errors), None
        if status or not made or (two and not sent): sys.exit("ours failed:\n" + errors[-2000:])
        if int(made[1]) < 3: sys.exit("ours ended the text after %s tokens" % made[1])
        texts = [out[:end] for _, end in times[1:] + [(0, len(out))]]
        times = [t for t, at in times if out[at:].strip()]
        return per_token(times, int(made[1])), sent, texts

    kinds = {}                              # name and processes: what runs it
    if o.dllama:
        for n in 1, 2: kinds["distributed-llama", n] = lambda n=n: theirs(n > 1)
    for name, repack in ("ours", []), ("ours, --repack", ["--repack"]):
        kinds[name, 1] = lambda r=repack: ours(False, *r)
        for text, more in (("", []), (", --wire q8", ["--wire", "q8"]), (", no MACs", ["--no-mac"]),
                           (", no MACs, --wire q8", ["--no-mac", "--wire", "q8"])):
            kinds[name + text, 2] = lambda r=repack, m=more: ours(True, *r, *m)
    got = {kind: [] for kind in kinds}
    for r in range(o.rounds):
        for kind, way in kinds.items():
            got[kind].append(way())
            print("round %d: %s, %d: %.1f ms" % (r + 1, *kind, got[kind][-1][0]), file=sys.stderr, flush=True)

    print("%s, %d tokens, median of %d rounds (least to most)\n" % (os.path.basename(o.model), o.tokens, o.rounds))
    form = "%-36s %9s  %-24s %7s %14s %8s %5s"
    print(form % ("", "processes", "ms a token", "speedup", "against theirs", "KB sent", "same"))
    middle = {kind: statistics.median(t for t, _, _ in runs) for kind, runs in got.items()}
    whole = got["ours", 1][0][2][-1].strip()
    for (name, n), runs in got.items():
        ms, all_ms = middle[name, n], [t for t, _, _ in runs]
        one = max((kind for kind in kinds if kind[1] == 1 and name.startswith(kind[0])), key=lambda kind: len(kind[0]))
        rival = middle.get(("distributed-llama", n)) if name.startswith("ours") else None
        print(form % (name, n, "%.1f (%.1f to %.1f)" % (ms, min(all_ms), max(all_ms)),
                      "%.2f" % (middle[one] / ms) if n > 1 else "", "%.2f" % (rival / ms) if rival else "",
                      "%.0f" % runs[0][1] if runs[0][1] else "",
                      sum(whole.startswith(text.strip()) for text in runs[0][2][:o.tokens])))


main()
