"""bench/peers/models.py - the same model files on llama.cpp (llama-cpp-python) and on build/bench-model, in turn

    python models.py [--build DIR] [--rounds 3] [-p 512] [-n 64] [-t 1,2] [--target T] FILE.gguf ...

Prints the table that docs/speed.md has. Each round runs one of ours and one of theirs on the same file with the same number of
threads; a figure is the median of the rounds. Theirs runs in a process of its own each time, with its defaults, a batch of 512
and memory mapping; its time for a token includes what Python adds to a call, about 0.05 ms."""
import argparse, json, os, platform, statistics, subprocess, sys, time


def theirs(path, p, n, threads, plain):
    import llama_cpp
    if plain:
        defaults = llama_cpp.llama_model_default_params

        def without():
            params = defaults()
            params.use_extra_bufts = False
            return params
        llama_cpp.llama_cpp.llama_model_default_params = without
    model = llama_cpp.Llama(path, n_ctx=p + n + 1, n_batch=512, n_ubatch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    vocab = model.n_vocab()
    tokens = [i * 7919 % vocab for i in range(p + n)]
    model.eval(tokens[:2])
    model.reset()
    start = time.perf_counter()
    model.eval(tokens[:p])
    prompt = p / (time.perf_counter() - start)
    model.reset()
    start = time.perf_counter()
    for t in tokens[:n]:
        model.eval([t])
    decode = n / (time.perf_counter() - start)
    with open("/proc/self/status") as f:
        memory = next((int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS")), 0)
    print(json.dumps({"prompt_per_s": prompt, "decode_per_s": decode, "resident_MB": memory, "version": llama_cpp.__version__}))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or [""])[-1] or f"ended by {done.returncode}"
    answer = json.loads(done.stdout)
    return (answer[0] if isinstance(answer, list) else answer), ""


def main():
    a = argparse.ArgumentParser()
    a.add_argument("files", nargs="+")
    a.add_argument("--build", default="build")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("-p", type=int, default=512)
    a.add_argument("-n", type=int, default=64)
    a.add_argument("-t", default="1,2")
    a.add_argument("--target")
    a.add_argument("--plain", action="store_true", help="theirs without its AMX and repacked buffers: compiled by gcc 12 they crash")
    a.add_argument("--theirs", type=int, help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.theirs:
        return theirs(o.files[0], o.p, o.n, o.theirs, o.plain)
    print("| model | threads | prompt, ours | theirs | ratio | decode, ours | share | theirs | ratio | memory MB, ours | theirs |\n|---|---|---|---|---|---|---|---|---|---|---|")
    version = "?"
    for path in o.files:
        for threads in [int(t) for t in o.t.split(",")]:
            ours, peers, why = [], [], ""
            for _ in range(o.rounds):
                command = [os.path.join(o.build, "bench-model"), path, "-p", str(o.p), "-n", str(o.n), "-t", str(threads), "-r", "1", "--json"]
                x, says = run(command + (["--target", o.target] if o.target else []))
                ours.append(x) if x else sys.exit(f"bench-model: {says}")
                x, why = run([sys.executable, __file__, path, "--theirs", str(threads), "-p", str(o.p), "-n", str(o.n)] + ["--plain"] * o.plain)
                if x:
                    peers.append(x)
                    version = x["version"]
            of = lambda rows, key: statistics.median(r[key] for r in rows) if rows else float("nan")
            pp, pt, tg, tt = of(ours, "prompt_per_s"), of(peers, "prompt_per_s"), of(ours, "decode_per_s"), of(peers, "decode_per_s")
            print(f"| {os.path.basename(path)} | {threads} | {pp:.0f} | {pt:.0f} | {pp / pt:.2f} | {tg:.1f} | {of(ours, 'decode_share_of_read'):.2f} | {tt:.1f} | {tg / tt:.2f} | "
                  f"{of(ours, 'resident_MB'):.0f} | {of(peers, 'resident_MB'):.0f} |" + (f" theirs: {why} |" if why else ""), flush=True)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine()) if os.path.exists("/proc/cpuinfo") else platform.machine()
    print(f"\n{time.strftime('%Y-%m-%d')}, {cpu}, {os.cpu_count()} processors, llama-cpp-python {version}{' without extra buffers' * o.plain}; medians of {o.rounds} rounds in turn")


main()
