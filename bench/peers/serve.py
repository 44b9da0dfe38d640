"""bench/peers/serve.py - build/serve and llama.cpp's server (xllamacpp of PyPI) under the same load, in turns

    python3 -m venv venv && venv/bin/pip install xllamacpp
    venv/bin/python bench/peers/serve.py MODEL.gguf [--build build] [--clients 16,32] [--rounds 2] [--target T]
                                         [--threads 2] [--prompt 100] [--answer 64] [--requests 2] [--server BINARY]
                                         [OPTION OF SERVE ...]

build/load is the client of both: each client sends a request, takes its stream, and sends the next one. Prompts are
words drawn at random, so that nothing is in a cache. Both servers have a slot for each client. --target: vectors of
our server; the package of the other one is compiled for AVX2. The other server runs in a process of its own: this
script with --theirs, or, with --server, that llama-server (compiled for this processor, say), without xllamacpp.
"""
import argparse
import json
import socket
import subprocess
import sys
import time
import urllib.request


def theirs(model, slots, context, threads):
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_parallel, p.n_ctx, p.port = model, slots, slots * context, 0
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
    p.verbosity = 0
    server = xllamacpp.Server(p)
    print(" at " + server.listening_address, flush=True)
    while True:
        time.sleep(60)


def binary(path, o, slots):
    """the command of a llama-server, with its default options but for the slots"""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return [path, "-m", o.model, "-np", str(slots), "-c", str(slots * o.context), "-t", str(o.threads), "-tb",
            str(o.threads), "--host", "127.0.0.1", "--port", str(port)]


def said(server):
    """the address that a server prints when it is ready, or None if it ends before"""
    for text in server.stdout:
        if " at http" in text:
            return text.split("//")[1].split()[0].rstrip("/")


def answers(server, address):
    """the address, when the server there has read its model; None if it ends before"""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{address}/health", timeout=5):
                return address
        except OSError:
            time.sleep(0.5)


def serve(line, load):
    """starts a server, waits for it, runs the load, ends the server"""
    told = "--port" in line
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL if told else subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    try:
        address = answers(server, "127.0.0.1:" + line[line.index("--port") + 1]) if told else said(server)
        if not address:
            sys.exit("this server did not start: " + " ".join(line))
        done = subprocess.run([load[0], address, *load[1:]], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit("load failed at " + " ".join(line))
        return json.loads(done.stdout)
    finally:
        server.kill()
        server.wait()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("--build", default="build")
    a.add_argument("--clients", default="16,32")
    a.add_argument("--requests", type=int, default=2, help="of each client")
    a.add_argument("--rounds", type=int, default=2)
    a.add_argument("--threads", type=int, default=2)
    a.add_argument("--prompt", default="100", help="words")
    a.add_argument("--answer", default="64", help="tokens")
    a.add_argument("--context", type=int, default=512)
    a.add_argument("--target")
    a.add_argument("--server", help="a llama-server to run as the other one")
    a.add_argument("--theirs", type=int, help="be the other server, with so many slots")
    o, rest = a.parse_known_args()
    if o.theirs:
        return theirs(o.model, o.theirs, o.context, o.threads)
    print("clients  server     tokens/s  first token, ms: mean    p95   between, ms   request, ms")
    for n in (int(x) for x in o.clients.split(",")):
        load = [o.build + "/load", "--json", "--clients", str(n), "--requests", str(o.requests * n), "--prompt",
                o.prompt, "--answer", o.answer, "--field", "ignore_eos=true", "--timeout", "1200"]
        ours = [o.build + "/serve", o.model, "--address", "127.0.0.1:0", "--slots", str(n), "--context",
                str(o.context), "--threads", str(o.threads), *(["--target", o.target] if o.target else []), *rest]
        other = [sys.executable, __file__, o.model, "--theirs", str(n), "--context", str(o.context), "--threads",
                 str(o.threads)]
        got = {"ours": [], "theirs": []}
        for r in range(o.rounds):
            for name, line in (("ours", ours), ("theirs", binary(o.server, o, n) if o.server else other)):
                got[name].append(serve(line, load))
        for name, runs in got.items():
            mid = sorted(runs, key=lambda x: x["tokens_per_second"])[len(runs) // 2]
            if mid["answered"] < mid["requests"]:
                sys.exit(f"{name}: only {mid['answered']} of {mid['requests']} requests were answered")
            print(f"{n:7}  {name:8} {mid['tokens_per_second']:10.1f} {1e3 * mid['first']['mean']:22.0f} "
                  f"{1e3 * mid['first']['p95']:6.0f} {1e3 * mid['between']['mean']:13.1f} "
                  f"{1e3 * mid['whole']['mean']:13.0f}")


main()
