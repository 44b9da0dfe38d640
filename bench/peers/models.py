"""bench/peers/models.py - the same model files on llama.cpp or quantcpp and on build/bench-model, in turn

    python models.py [--build DIR] [--rounds 3] [-p 512] [-n 64] [-t 1,2] [--batch 1,2,4,8,16,32,64] [--target T]
                     [--repack] [--ik | --litert | --quantcpp] [--rows FILE.tsv] [--page FILE.md]
                     [--curve FILE.svg] [SHAPE-TYPE.gguf ...]

Each round measures ours and theirs once on the same file with the same number of threads: a prompt of -p tokens
(0: none), then -n tokens one by one. With --batch it measures only that many sequences that decode together, -n tokens
in all and at least four steps. Theirs is llama.cpp (the package llama-cpp-python), called through its C functions in a
process of its own for each file and number of threads, with its defaults (memory mapping, repacked weights, keys and
values in half precision) and a batch of 512. With an option it is another one:

    --ik        ik_llama.cpp (ik-llama-cpp-python), called the same way. Its repacking on loading is asked for, since
                it is not its default
    --litert    LiteRT-LM, with the file of litert.py beside each model, under the same name (.litertlm)
    --quantcpp  that package (one header; QUANTCPP_LIB names its library). It packs any file into its own 4 bits on
                loading and reports text as it arrives, so only decoding is timed

Each round appends its rows to --rows, so a comparison can be made in pieces, one file at a time. --page writes the
table of all rows between its two marks; --curve draws the batches. Both take the last run of each model and the median
of its rounds. Without a model file only these two are done. A share is tokens per second over (read bandwidth / bytes
of weights that a token reads), both measured in the same round."""
import argparse, json, math, os, platform, statistics, subprocess, sys, tempfile, time
from importlib.metadata import version

COLUMNS = "run processor model threads who what n per_s share memory_MB".split()
FIRST, LAST = "<!-- table: make bench-peers -->", "<!-- end of table -->"


# ---- theirs: a line on its input is a round

def resident():
    if not os.path.exists("/proc/self/status"): return 0.0
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


def theirs(o, threads):
    name = "ik-llama-cpp-python" if o.ik else "llama-cpp-python"
    if o.ik:
        from ik_llama_cpp import _ctypes_api as L
        clear = L.llama_kv_cache_clear
        finish = L._lib.llama_synchronize
        finish.argtypes = [L.llama_context_p]
    else:
        import llama_cpp as L
        clear = lambda context: L.llama_memory_clear(L.llama_get_memory(context), True)
        finish = L.llama_synchronize
    before = resident()
    L.llama_backend_init()
    params = L.llama_model_default_params()
    if o.ik: params.repack_tensors, params.use_mmap = True, False
    model = L.llama_model_load_from_file(o.files[0].encode(), params)
    if not model: sys.exit("llama.cpp does not load " + o.files[0])
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
    batch = L.llama_batch_init(512, 0, 1)

    def opened(tokens, sequences):
        params = L.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = tokens, 512, 512, sequences
        params.n_threads = params.n_threads_batch = threads
        return L.llama_init_from_model(model, params) or sys.exit("llama.cpp opens no context")

    def step(context, items):               # (token, sequence, position), the last of each sequence
        batch.n_tokens = len(items)
        for i, (token, seq, at) in enumerate(items):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, at, 1
            batch.logits[i] = i + 1 == len(items) or items[i + 1][1] != seq
            batch.seq_id[i][0] = seq
        if L.llama_decode(context, batch): sys.exit("llama_decode failed")
        finish(context)

    def timed(context, steps):
        clear(context)
        start = time.perf_counter()
        for items in steps: step(context, items)
        return sum(map(len, steps)) / (time.perf_counter() - start)

    tokens = [i * 7919 % vocab for i in range(o.p + o.n)]
    prompt = [[(t, 0, i + at) for i, t in enumerate(tokens[at:min(at + 512, o.p)])] for at in range(0, o.p, 512)]
    decode = [[(t, 0, i)] for i, t in enumerate(tokens[:o.n])]
    together = {b: [[((i + 31 * j) * 7919 % vocab, j, i) for j in range(b)] for i in range(max(o.n // b, 4))]
                for b in o.batch}
    contexts = {b: opened(b * len(steps), b) for b, steps in together.items()} or {0: opened(o.p + o.n + 1, 1)}
    for b, context in contexts.items(): timed(context, together[b][:1] if b else decode[:2])
    print("ready", flush=True)
    for _ in sys.stdin:
        rates = [("batch", b, timed(contexts[b], steps)) for b, steps in together.items()]
        if not rates:
            rates = [("prompt", o.p, timed(contexts[0], prompt))] * (o.p > 0)
            rates += [("decode", o.n, timed(contexts[0], decode))]
        print(json.dumps({"rates": rates, "memory": resident() - before, "who": f"{name} {version(name)}"}),
              flush=True)


def theirs_litert(o, threads):
    import litert_lm
    before, path, cache = resident(), o.files[0].replace(".gguf", ".litertlm"), tempfile.TemporaryDirectory()
    runs = litert_lm.Benchmark(path, backend=litert_lm.Backend.CPU(thread_count=threads), prefill_tokens=o.p,
                               decode_tokens=o.n, cache_dir=cache.name)
    runs.run()                              # the first run writes its cache of packed weights
    print("ready", flush=True)
    for _ in sys.stdin:
        x = runs.run()
        rates = [("prompt", o.p, x.last_prefill_tokens_per_second), ("decode", o.n, x.last_decode_tokens_per_second)]
        print(json.dumps({"rates": rates, "memory": resident() - before, "who": "litert-lm " + version("litert-lm")}),
              flush=True)


def theirs_quantcpp(o, threads):
    import ctypes
    from quantcpp import _binding as q
    lib, before = q._get_lib(), resident()
    model = lib.quant_load(o.files[0].encode()) or sys.exit("quantcpp does not load " + o.files[0])
    config = q.QuantConfig(temperature=0.0, top_p=1.0, max_tokens=o.n + 1, n_threads=threads, context_length=o.n + 64)
    context = lib.quant_new(model, ctypes.byref(config)) or sys.exit("quantcpp opens no context")

    def rate():
        came = []
        lib.quant_generate(context, b"once", q.ON_TOKEN_CB(lambda text, user: came.append(time.perf_counter())), None)
        if len(came) <= o.n / 2: sys.exit(f"quantcpp stopped after {len(came)} tokens")
        return (len(came) - 1) / (came[-1] - came[0])
    rate()
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps({"rates": [("decode", o.n, rate())], "memory": resident() - before, "who": "quantcpp "
                          + version("quantcpp")}), flush=True)


class Peer:
    def __init__(self, command):
        self.said = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said,
                                        text=True)
        self.answer()

    def answer(self):
        for line in self.process.stdout:            # quantcpp prints more than its answers
            if line.startswith(("ready", "{")): return line
        self.said.seek(0)
        code = self.process.wait()
        sys.exit("theirs: " + ((self.said.read().strip().splitlines() or [""])[-1] or f"ended by {code}"))

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.answer())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# ---- ours, and both in turn

def ours(o, path, threads):
    command = [os.path.join(o.build, "bench-model"), path, "-p", str(o.p), "-n", str(o.n), "-t", str(threads), "-r",
               "1", "--no-mixed", "--json"]
    done = subprocess.run(command + ["--target", o.target] * bool(o.target) + ["--repack"] * o.repack
                          + ["--batch", ",".join(map(str, o.batch))] * bool(o.batch), capture_output=True, text=True)
    if done.returncode: sys.exit("bench-model: " + (done.stderr.strip() or f"ended by {done.returncode}"))
    x = json.loads(done.stdout)[0]
    rates = [("batch", b["sequences"], b["per_s"]) for b in x["batches"]]
    if not rates: rates = [("prompt", o.p, x["prompt_per_s"])] * (o.p > 0) + [("decode", o.n, x["decode_per_s"])]
    seconds = x["weight_bytes_per_token"] / x["read_GB_per_s"] / 1e9
    return {"rates": rates, "memory": x["resident_MB"], "who": "ours " + x["target"]}, seconds


def machine():
    if not os.path.exists("/proc/cpuinfo"): return platform.machine()
    with open("/proc/cpuinfo") as f: fields = [[x.strip() for x in line.split(":", 1)] for line in f if ":" in line]
    of = lambda name: next((x[1] for x in fields if x[0] == name), "?")
    return f"{of('model name')} family {of('cpu family')} model {of('model')}, {os.cpu_count()} processors"


def measure(o):
    run, processor = time.strftime("%Y-%m-%d %H:%M:%S"), machine()
    for path in o.files:
        model = os.path.basename(path).replace(".gguf", "").replace("-", " ", 1) + ", repacked" * o.repack
        for threads in o.threads:
            peer = None if o.alone else Peer([sys.executable, os.path.abspath(__file__), path, "--theirs", str(threads),
                                              "-p", str(o.p), "-n", str(o.n)] +
                                             ["--batch", ",".join(map(str, o.batch))] * bool(o.batch) +
                                             ["--ik"] * o.ik + ["--litert"] * o.litert + ["--quantcpp"]
                                             * o.quantcpp)
            for _ in range(o.rounds):
                x, seconds = ours(o, path, threads)
                lines = []
                for side in [x] + ([peer.round()] if peer else []):
                    for what, n, rate in side["rates"]:
                        share = f"{rate * seconds:.3f}" if what == "decode" else "-"
                        lines.append("\t".join(map(str, (run, processor, model, threads, side["who"], what, n,
                                                         f"{rate:.2f}", share, f"{side['memory']:.1f}"))))
                print("\n".join(lines), flush=True)
                if o.rows:
                    if not os.path.exists(o.rows): lines.insert(0, "\t".join(COLUMNS))
                    with open(o.rows, "a") as f: f.write("\n".join(lines) + "\n")
            if peer: peer.end()


# ---- the table and the curve

def medians(path):
    """(processor, model, threads, who, what, n) -> its runs, last first: medians of per_s, share and memory, date"""
    with open(path) as f: rows = [dict(zip(COLUMNS, line.rstrip("\n").split("\t"))) for line in f][1:]
    found = {}
    for r in rows:
        runs = found.setdefault((r["processor"], r["model"], int(r["threads"]), r["who"], r["what"], int(r["n"])), {})
        runs.setdefault(r["run"], []).append(r)
    answer = {}
    for key, runs in found.items():
        of = lambda run, name: (statistics.median(float(r[name]) for r in runs[run])
                                if runs[run][0][name] != "-" else None)
        answer[key] = [dict(per_s=of(run, "per_s"), share=of(run, "share"), memory=of(run, "memory_MB"), run=run,
                            rounds=len(runs[run])) for run in sorted(runs, reverse=True)]
    return answer


def pairs(found, what):
    """(processor, model, threads, n) -> the last run of each of theirs with ours of that run, as (ours, theirs with
    its name); (ours, None) where ours ran alone. In the order of first rows"""
    answer, mine = {}, {}
    for (processor, model, threads, who, w, n), runs in found.items():
        if w == what and who.startswith("ours "): mine.setdefault((processor, model, threads, n), []).extend(runs)
    for key, runs in mine.items():
        peers = [(who, runs) for (p, m, t, who, w, n), runs in found.items() if w == what and (p, m, t, n) == key
                 and not who.startswith("ours ")]
        both = [(x, dict(theirs[0], who=who)) for who, theirs in peers for x in runs if x["run"] == theirs[0]["run"]]
        answer[key] = both or [(max(runs, key=lambda x: x["run"]), None)]
    return answer


def table(found):
    lines, machines = [], {}                # a table for each processor and version of theirs, then one of batches
    models = list(dict.fromkeys(key[1] for key in found))
    found = dict(sorted(found.items(), key=lambda kv: (models.index(kv[0][1]), kv[0][2])))
    prompts = pairs(found, "prompt")
    cell = lambda x, form: form % x if x is not None else "-"
    both = lambda a, b, form: [cell(a, form), cell(b, form), cell(a / b if a is not None and b else None, "%.2f")]
    for (processor, model, threads, n), sides in pairs(found, "decode").items():
        for mine, peer in sides:
            a, b = next(((x, y) for key, v in prompts.items() if key[:3] == (processor, model, threads) for x, y in v
                         if x["run"] == mine["run"] and bool(y) == bool(peer)), (None, None))
            row = [model, str(threads)] + both(a and a["per_s"], b and b["per_s"],
                                               "%.0f") + both(mine["per_s"], peer and peer["per_s"], "%.1f")
            row += [cell(mine["share"], "%.2f"), cell(peer and peer["share"], "%.2f"), cell(mine["memory"], "%.0f"),
                    cell(peer and peer["memory"], "%.0f")]
            machines.setdefault((processor, peer["who"] if peer else ""), []).append((row, mine, n))
    for (processor, who), rows in machines.items():
        days, rounds = " and ".join(sorted({x["run"][:10] for _, x, _ in rows})), min(x["rounds"] for _, x, _ in rows)
        if not who:                         # decode alone
            lines += [f"{processor}; ours alone, decode; {days}; medians of {rounds} rounds or more.", "",
                      "| model | threads | tokens/s | share of the limit | memory MB |", "|---|---|---|---|---|"]
            lines += ["| " + " | ".join(row[i] for i in (0, 1, 5, 8, 10)) + " |" for row, _, _ in rows] + [""]
            continue
        asked = " or ".join(map(str, sorted({k[3] for k, v in prompts.items() if k[0] == processor
                                             and any(y and y["who"] == who for _, y in v)})))
        lines += [f"{processor}; {who}; {days}; medians of {rounds} rounds or more, in turn. Tokens a second of "
                  f"{f'prompts of {asked} tokens, and of ' if asked else ''}"
                  f"{' or '.join(map(str, sorted({n for _, _, n in rows})))} one by one.", "",
                  "| model | threads | prompt, ours | theirs | ratio | decode, ours | theirs | ratio | share of the "
                  "limit, ours | theirs | memory MB, ours | theirs |",
                  "|---|---|---|---|---|---|---|---|---|---|---|---|"]
        lines += ["| " + " | ".join(row) + " |" for row, _, _ in rows] + [""]
    together = {}
    for (processor, model, threads, n), sides in pairs(found, "batch").items():
        for side in [sides[0][0]] + [y for _, y in sides if y]:
            together.setdefault((processor, model, threads, side.get("who", "ours")), {})[n] = side["per_s"]
    sizes = sorted({n for rates in together.values() for n in rates})
    for processor in dict.fromkeys(key[0] for key in together):
        lines += [f"{processor}; sequences that decode together, tokens a second of all of them (times as fast as "
                  "one).", "", "| model | threads | | " + " | ".join(map(str, sizes)) + " |",
                  "|---|---|---" + "|---" * len(sizes) + "|"]
        for (where, model, threads, who), rates in together.items():
            cells = [f"{rates[n]:.0f} ({rates[n] / rates[1]:.1f})" if n in rates and 1 in rates else "-" for n in sizes]
            if where == processor:
                lines.append(f"| {model} | {threads} | {who.split()[0]} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


def write_page(path, text):
    with open(path) as f: page = f.read()
    if page.count(FIRST) != 1 or page.count(LAST) != 1:
        sys.exit(f"{path} has no place for the table ({FIRST} ... {LAST})")
    head, rest = page.split(FIRST)
    write_beside(path, head + FIRST + "\n\n" + text + "\n" + LAST + rest.split(LAST)[1])


def write_beside(path, text):
    with open(path + ".part", "w") as f: f.write(text)
    os.replace(path + ".part", path)
    print(path)


def curve(found):
    """tokens per second over sequences, a panel per number of threads, theirs dashed; of the processor that was
    measured last among those with batches"""
    points = {k: [x for x in v[0] if x] for k, v in pairs(found, "batch").items()}
    have = {k[0] for k, v in points.items() if v}
    processor = max((kv for kv in found.items() if kv[0][0] in have), key=lambda kv: kv[1][0]["run"])[0][0]
    points = {k: v for k, v in points.items() if k[0] == processor}
    models, threads = list(dict.fromkeys(k[1] for k in points)), sorted({k[2] for k in points})
    colours = ("#1b6ca8", "#d1495b", "#3b8f5a", "#8d5fb8", "#c98a1b", "#555555")
    top = max(x["per_s"] for v in points.values() for x in v) * 1.06
    step = 10 ** math.floor(math.log10(top))
    step = step / 5 if top / step < 3 else step / 2 if top / step < 6 else step
    most = max(k[3] for k in points)
    width, panel = 420, lambda i: 70 + 420 * i
    x_of = lambda i, n: panel(i) + 340 * math.log2(n) / max(math.log2(most), 1)
    y_of = lambda v: 350 - 290 * v / top
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {70 + width * len(threads) + 90} 410" '
           f'font-family="sans-serif" font-size="12">',
           f'<rect width="{70 + width * len(threads) + 90}" height="410" fill="#fff"/>',
           '<text x="70" y="22" font-size="15">Sequences that decode together: tokens a second of all of them</text>']
    for i, t in enumerate(threads):
        out.append(f'<text x="{panel(i)}" y="44">{t} thread{"s" * (t > 1)}</text>')
        v = 0
        while v <= top:
            out.append(f'<path d="M{panel(i)} {y_of(v):.1f}h340" stroke="#ddd"/>'
                       f'<text x="{panel(i) - 6}" y="{y_of(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
            v += step
        for n in sorted({k[3] for k in points}):
            out.append(f'<text x="{x_of(i, n):.1f}" y="368" text-anchor="middle">{n}</text>')
        out.append(f'<text x="{panel(i) + 170}" y="390" text-anchor="middle">sequences</text>')
        for colour, model in zip(colours, models):
            sides = sorted((k[3], v) for k, v in points.items() if k[1] == model and k[2] == t)
            for side, dash in ((0, ""), (1, ' stroke-dasharray="5 4"')):
                line = [(n, v[side]["per_s"]) for n, v in sides if len(v) > side]
                if line:
                    points_of = " ".join(f"{x_of(i, n):.1f},{y_of(v):.1f}" for n, v in line)
                    out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dash} points="{points_of}"/>')
    x = 70 + width * len(threads) - 50
    for j, (colour, model) in enumerate(zip(colours, models)):
        out.append(f'<path d="M{x} {64 + 20 * j}h24" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{x + 30}" y="{68 + 20 * j}">{model}</text>')
    names = dict.fromkeys(x["who"] for v in points.values() for x in v[1:])
    if names:
        out.append(f'<path d="M{x} {64 + 20 * len(models)}h24" stroke="#333" stroke-width="2" stroke-dasharray="5 4"/>'
                   f'<text x="{x + 30}" y="{68 + 20 * len(models)}">llama.cpp</text>')
    return "\n".join(out) + "\n</svg>\n"


def numbers(text): return [int(t) for t in text.split(",") if t]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("files", nargs="*")
    a.add_argument("--build", default="build")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("-p", type=int, default=512)
    a.add_argument("-n", type=int, default=64)
    a.add_argument("-t", dest="threads", type=numbers, default=[1, 2])
    a.add_argument("--batch", type=numbers, default=[])
    a.add_argument("--target")
    a.add_argument("--rows")
    a.add_argument("--page")
    a.add_argument("--curve")
    a.add_argument("--alone", action="store_true", help="ours only")
    a.add_argument("--repack", action="store_true",
                   help="ours with eight rows of weights side by side, as theirs has them by default")
    a.add_argument("--ik", action="store_true", help="theirs is ik_llama.cpp")
    a.add_argument("--litert", action="store_true", help="theirs is LiteRT-LM")
    a.add_argument("--quantcpp", action="store_true", help="theirs is quantcpp, and only its decode")
    a.add_argument("--theirs", type=int, help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.theirs: return (theirs_quantcpp if o.quantcpp else theirs_litert if o.litert else theirs)(o, o.theirs)
    if o.batch or o.quantcpp: o.p = 0
    measure(o)
    if o.page: write_page(o.page, table(medians(o.rows)))
    if o.curve: write_beside(o.curve, curve(medians(o.rows)))


main()
