"""tests/serve/soak.py PROGRAM MINUTES - build/serve under mixed load: is every answer right, is memory bounded?

Clients that chat, stream, count, want JSON, hang up, send pieces of requests or nonsense, all at once. Every answer to
one greedy request has the same text, since the server runs with --exact. Memory is read at least every ten seconds.
"""
import http.client
import json
import os
import random
import re
import socket
import sys
import threading
import time

from served import Checks, Served

STORY = "examples/models/story.gguf"
WORDS = "one day , Ella Tom the a red box dog saw went to . and he she was".split()


class Soak:
    def __init__(self, served, seconds):
        self.host, self.port = served.url.split("//")[1].split(":")
        self.process = served.process
        self.end = time.time() + seconds
        self.lock = threading.Lock()
        self.count, self.wrong, self.truth = {}, [], None

    def did(self, kind, wrong=None):
        with self.lock:
            self.count[kind] = self.count.get(kind, 0) + 1
            if wrong:
                self.wrong.append(f"{kind}: {wrong}")

    def ask(self, path, body, method="POST"):
        c = http.client.HTTPConnection(self.host, int(self.port), timeout=120)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {"Content-Type": "application/json"})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def greedy(self, rng):
        status, body = self.ask("/v1/completions", {"prompt": "one day , Ella", "max_tokens": 24, "temperature": 0})
        text = json.loads(body)["choices"][0]["text"] if status == 200 else None
        if status == 200:
            with self.lock:
                self.truth = self.truth or text
        return None if status == 503 or (text and text == self.truth) else f"{status} {text!r}"

    def chat(self, rng):
        talk = [{"role": "user", "content": " ".join(rng.choices(WORDS, k=rng.randint(1, 60)))}]
        status, body = self.ask("/v1/chat/completions", {
            "messages": talk, "max_tokens": rng.randint(1, 60), "temperature": 1, "seed": rng.randint(0, 9),
            "n": rng.randint(1, 3), "logprobs": rng.random() < 0.3})
        return None if status in (200, 503) else f"{status} {body[:200]}"

    def schema(self, rng):
        form = {"type": "json_schema", "json_schema": {"name": "s", "schema": {
            "type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"],
            "additionalProperties": False}}}
        status, body = self.ask("/v1/chat/completions", {
            "messages": [{"role": "user", "content": "a box"}], "max_tokens": 40, "response_format": form})
        if status != 200:
            return None if status == 503 else f"{status} {body[:200]}"
        choice = json.loads(body)["choices"][0]
        if choice["finish_reason"] == "length":
            return None
        return None if json.loads(choice["message"]["content"])["a"] in ("x", "y") else "no value of the schema"

    def stream(self, rng, hang_up=False):
        s = socket.create_connection((self.host, int(self.port)), 120)
        body = json.dumps({"prompt": " ".join(rng.choices(WORDS, k=rng.randint(1, 80))), "max_tokens": 50,
                           "stream": True, "ignore_eos": True}).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        got = b""
        until = rng.choice([0, 10, 500, 2000]) if hang_up else 1 << 30
        while len(got) < until and b"[DONE]" not in got and b" 503 " not in got[:20]:
            piece = s.recv(4096)
            if not piece:
                break
            got += piece
        s.close()
        return None if hang_up or b"[DONE]" in got or b" 503 " in got[:20] else f"a stream ended with {got[-80:]}"

    def hang_up(self, rng):
        return self.stream(rng, True)

    def small(self, rng):
        path, body, want = rng.choice([
            ("/tokenize", {"content": "one day"}, b"tokens"), ("/detokenize", {"tokens": [1, 2, 3]}, b"content"),
            ("/health", None, b"ok"), ("/v1/models", None, b"story"), ("/metrics", None, b"# TYPE"),
            ("/props", None, b"{"), ("/slots", None, b"["), ("/", None, b"<html")])
        status, got = self.ask(path, body, "POST" if body is not None else "GET")
        return None if status == 200 and want in got else f"{path}: {status} {got[:100]}"

    def nonsense(self, rng):
        bad = rng.choice([b"", b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", bytes(rng.randrange(256) for _ in range(300)),
                          b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
                          b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 20\r\n\r\n{\"prompt\"",
                          b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n",
                          b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n" +
                          b"[" * 4000])
        s = socket.create_connection((self.host, int(self.port)), 120)
        s.sendall(bad)
        if rng.random() < 0.5:
            s.shutdown(socket.SHUT_WR)
            s.settimeout(120)
            try:
                while s.recv(4096):
                    pass
            except ConnectionError:
                pass
        s.close()

    def client(self, seed):
        rng = random.Random(seed)
        kinds = [self.greedy, self.chat, self.chat, self.schema, self.stream, self.stream, self.hang_up, self.small,
                 self.nonsense]
        while time.time() < self.end and self.process.poll() is None:
            kind = rng.choice(kinds)
            try:
                self.did(kind.__name__, kind(rng))
            except (OSError, http.client.HTTPException, ValueError, KeyError) as e:
                self.did(kind.__name__, f"{type(e).__name__}: {e}" if kind != self.nonsense else None)

    def megabytes(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmRSS:\s*(\d+)", f.read()).group(1)) / 1024


def main():
    seconds = 60 * float(sys.argv[2])
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8")
    checks = Checks()
    served = Served(sys.argv[1], STORY, *"--exact --slots 4 --context 256 --threads 1 --queue 16".split())
    start, memory = time.time(), []
    with served:
        soak = Soak(served, seconds)
        clients = [threading.Thread(target=soak.client, args=(i,)) for i in range(12)]
        for c in clients:
            c.start()
        while time.time() < soak.end and served.process.poll() is None:
            time.sleep(max(0.1, min(10, seconds / 30, soak.end - time.time())))
            if served.process.poll() is None:
                memory.append(soak.megabytes())
                done = sum(soak.count.values())
                print(f"{time.time() - start:5.0f} s  {done} requests  {memory[-1]:.1f} MB", flush=True)
        alive = served.process.poll() is None
        for c in clients:
            c.join()
    print(", ".join(f"{n} {kind}" for kind, n in sorted(soak.count.items())))
    print("\n".join(soak.wrong[:10]))
    third = max(1, len(memory) // 3)
    early, late = max(memory[third:2 * third], default=0), max(memory[2 * third:], default=0)
    print(f"most memory in the second third {early:.1f} MB, in the last {late:.1f} MB")

    def answered():
        assert sum(soak.count.values()) > seconds / 10 and not soak.wrong, f"{len(soak.wrong)} wrong answers"

    def ended():
        assert alive and served.status in (0, -15), f"the server ended with {served.status}"

    def small():
        assert late <= 1.02 * early + 1, "memory grew"

    checks.run("answers", answered)
    checks.run("the end of the server", ended)
    checks.run("memory", small)
    checks.end()


main()
