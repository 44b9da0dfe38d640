"""Models: text compared with the program in C, logits, tokens, embeddings; invalid calls."""
import gc
import json
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import tinyllm
from tinyllm import c

PROMPT = "Once upon a time"


def test_text_is_that_of_the_program_in_c(model, story):
    program = story.parents[2] / "build" / "generate"
    if not program.is_file():
        pytest.skip("build/generate is not here: make examples")
    for arguments, options in (([], {}), (["--temp", "0.8", "--seed", "5"], {"temperature": 0.8, "seed": 5}),
                               (["--stop", "cake"], {"stop": "cake"})):
        said = subprocess.run([program, story, PROMPT, "--n", "60", *arguments], stdout=subprocess.PIPE, check=True)
        assert "".join(model.generate(PROMPT, n=60, **options)).encode() + b"\n" == said.stdout


def test_a_text_that_has_ended_runs_nothing_when_it_is_freed(model, monkeypatch):
    closed = []                                             # Ctrl-C in a finalizer is printed, and lost
    monkeypatch.setattr(tinyllm._model._Writer, "close", lambda writer: closed.append(writer))
    assert len(list(model.generate(PROMPT, n=3))) == 3
    gc.collect()
    assert not closed


def test_generate(model):
    text = model.generate(PROMPT, n=20)
    pieces = list(text)
    assert len(pieces) > 5 and text.end == "length" and text.stats["n_made"] == 20
    assert "".join(model.generate(PROMPT, n=20)) == "".join(pieces)
    whole = "".join(pieces)
    word = whole.split()[3]
    stopped = model.generate(PROMPT, n=20, stop=[word])
    assert "".join(stopped) == whole[:whole.index(word)] and stopped.end == "string"
    seeds = {"".join(model.generate(PROMPT, n=20, temperature=1.0, seed=s)) for s in range(4)}
    assert len(seeds) > 1
    assert "".join(model.generate(model.encode(PROMPT), n=20)) == whole
    yes = model.generate(PROMPT, grammar='root ::= " yes" | " no"')
    assert "".join(yes) in (" yes", " no")
    number = model.generate(PROMPT, schema={"enum": ["red", "blue"]})
    assert json.loads("".join(number)) in ("red", "blue")


def test_it_is_greedy_on_the_logits(model):
    tokens = list(model.encode(PROMPT))
    for _ in range(8):
        logits = model.logits(tokens)
        tokens.append(int(logits.argmax()))
    assert model.decode(tokens[-8:]) .strip() == "".join(model.generate(PROMPT, n=8)).strip()


def test_logits(model):
    tokens = model.encode(PROMPT)
    rows = model.logits(PROMPT, all=True)
    assert rows.shape == (len(tokens), model.about["n_vocab"]) and rows.dtype == np.float32
    last = model.logits(PROMPT)
    assert np.abs(rows[-1] - last).max() < 1e-3
    assert np.array_equal(model.tokens, tokens)
    assert np.abs(model.logits(tokens[:3]) - rows[2]).max() < 1e-3


def test_tokens(model):
    for text in (PROMPT, "", "Zwölf Boxkämpfer 🙂", "a\0b"):
        assert model.decode(model.encode(text, ends=False)) == text
    tokens = model.encode(PROMPT, ends=False)
    assert b"".join(map(model.piece, tokens)).decode().strip() == PROMPT
    assert model.piece(10 ** 6) == b"" and model.piece(-1) == b""
    assert model.special("mask") is None or model.special("mask") >= 0
    assert model.metadata["general.architecture"] == model.about["arch"]
    assert len(model.metadata["tokenizer.ggml.tokens"]) == model.about["n_vocab"]


def test_memory(story):
    with tinyllm.Model(story.read_bytes()) as a, tinyllm.Model(story) as b:
        assert np.array_equal(a.logits(PROMPT), b.logits(PROMPT))


def test_accelerator(story):
    asked = []

    @tinyllm.backend("rmsnorm")
    def norm(x, g=None, eps=0, **more):
        asked.append(x.shape)
        d = x.astype(np.float64)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + (eps or 1e-5)) * (1 if g is None else g)

    with tinyllm.Model(story, accel=norm) as a, tinyllm.Model(story) as b:
        got, want = a.logits(PROMPT), b.logits(PROMPT)
        assert asked and np.abs(got - want).max() < 1e-3 * np.abs(want).max()


def test_a_text_ends_when_the_model_is_asked_for_something_else(model):
    text = model.generate(PROMPT, n=500, past_end=True, shift=False)
    next(text)
    model.encode("still allowed")
    before = model.logits(PROMPT)
    assert list(text) == [] or text.end == "caller"
    assert text.end == "caller"
    assert np.abs(model.logits(PROMPT) - before).max() < 1e-3


def test_freed_while_a_call_runs():
    """the garbage collector comes at any moment, a context serves one caller at a time"""
    t = tinyllm.Template("a")
    hold = t.context._hold
    hold.busy.acquire()                                     # as a call in another thread does
    t.close()
    assert len(hold.late) == 1 and hold.handle
    t.context.close()
    assert len(hold.late) == 2
    hold.leave()
    assert not hold.late and not hold.handle


def test_a_loop_may_be_left(model):
    for piece in model.generate(PROMPT, n=100):
        break
    gc.collect()
    assert "".join(model.generate(PROMPT, n=5))
    assert threading.active_count() < 10


def test_closing_while_a_text_is_written(story):
    m = tinyllm.Model(story)
    text = m.generate(PROMPT, n=100)
    next(text)
    m.close()
    assert list(text) == []
    for call in (lambda: m.logits(PROMPT), lambda: m.generate(PROMPT), lambda: m.encode("a"), lambda: m.about,
                 lambda: m.metadata, lambda: m.tokens, lambda: m.embed("a"), lambda: m.decode([1])):
        with pytest.raises(tinyllm.Error, match="closed"):
            call()
    m.close()


def test_nothing_leaks(story):
    def resident():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not pathlib.Path("/proc/self/statm").is_file():
        pytest.skip("no /proc")

    def once():
        m = tinyllm.Model(story)
        next(m.generate(PROMPT, n=10))
        m.logits(PROMPT)
        tinyllm.Graph([[0, 1], [1, 2]]).fastrp(16)

    for _ in range(5):
        once()
    gc.collect()
    before = resident()
    for _ in range(40):
        once()
    gc.collect()
    assert resident() - before < 8 << 20
    ctx = tinyllm.Context()
    held = ctx.bytes
    tinyllm.run("fft", np.zeros((30, 2), "f4"), ctx=ctx)
    tinyllm.run("fft", np.zeros((30, 2), "f4"), ctx=ctx)
    after = ctx.bytes
    tinyllm.run("fft", np.zeros((30, 2), "f4"), ctx=ctx)
    assert ctx.bytes == after and held <= after


def run_python(text, story, **more):
    return subprocess.run([sys.executable, "-c", text, str(story)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120, **more)


def test_a_program_may_end_in_the_middle(story):
    done = run_python("import sys, tinyllm\nm = tinyllm.Model(sys.argv[1])\ng = m.generate('Once', n=100)\n"
                      "print(len(next(g)) > 0)\n", story)
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("True", "", 0)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c(story):
    text = """
import ctypes, os, signal, sys, threading, time, tinyllm
m = tinyllm.Model(sys.argv[1])
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        for piece in m.generate("Once upon a time", n=200, past_end=True, temperature=1.0):
            pass
except KeyboardInterrupt:
    print("interrupted")
print(len("".join(m.generate("Once", n=5))) > 0)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.time()
try:
    tinyllm.conformance(cases=1000000)
except KeyboardInterrupt:
    print("again", time.time() - start < 60)
print(len(m.logits("Once")))
c, ctx = tinyllm.c, tinyllm.Context()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ctx.call("conform", c.tiny_conform_desc(n_cases=1000000), ctypes.byref(ctypes.c_int()), interruptible=True)
except KeyboardInterrupt:
    print(float(tinyllm.run("sum", [1.0, 2.0], ctx=ctx)))
"""
    done = run_python(text, story)
    assert (done.stdout.split(), done.stderr) == (["interrupted", "True", "again", "True", "544", "3.0"], "")


def test_embedding(tmp_path, story, model):
    with pytest.raises(tinyllm.Error, match="no hidden states") as e:
        model.embed("a text")
    assert e.value.code == c.TINY_E_UNSUPPORTED
    with pytest.raises(tinyllm.Error, match="pooling"):
        model.embed("a text", pooling="median")


def test_template():
    text = ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}<bot>{% endif %}")
    with tinyllm.Template(text) as t:
        assert t.render([{"role": "user", "content": "Hi"}]) == "<user>Hi<bot>"
        assert t.render([], add_generation_prompt=False) == ""
    with tinyllm.Template("{{ bos_token }}{{ name }}{{ tools[0].f }}") as t:
        assert t.render([], tools=[{"f": 3}], bos_token="<s>", name="Ada") == "<s>Ada3"
    with pytest.raises(tinyllm.Error, match="line 1"):
        tinyllm.Template("{% if %}")
    with pytest.raises(tinyllm.Error, match="closed"):
        t.render([])


@pytest.mark.parametrize("call, sentence", [
    (lambda m, f: tinyllm.Model(f.parent / "none.gguf"), "none.gguf"),
    (lambda m, f: tinyllm.Model(f.parent), ""),
    (lambda m, f: tinyllm.Model(b""), ""),
    (lambda m, f: tinyllm.Model(b"GGUF" + bytes(100)), ""),
    (lambda m, f: tinyllm.Model(f.read_bytes()[:50000]), ""),
    (lambda m, f: tinyllm.Model(f, type_k="q9"), "q9"),
    (lambda m, f: tinyllm.Model(f, context=-1), ""),
    (lambda m, f: tinyllm.Model(f, target="mmx"), "mmx"),
    (lambda m, f: tinyllm.Model(f, max_bytes=1000), ""),
    (lambda m, f: m.logits([10 ** 6]), "1000000"),
    (lambda m, f: m.logits([10 ** 12]), "32 bits"),
    (lambda m, f: m.logits([-1]), "-1"),
    (lambda m, f: m.logits([0.5]), "whole numbers"),
    (lambda m, f: m.logits([1] * 100000), ""),
    (lambda m, f: m.logits([1] * 100000, all=True), ""),
    (lambda m, f: list(m.generate([])), "no tokens"),
    (lambda m, f: list(m.generate([10 ** 6])), "1000000"),
    (lambda m, f: list(m.generate(PROMPT, temperature=1.0, top_p=-3)), ""),
    (lambda m, f: m.generate(PROMPT, grammar="root ::= other"), "other"),
    (lambda m, f: m.generate(PROMPT, schema={"pattern": "a"}), "pattern"),
    (lambda m, f: list(m.generate(PROMPT, stop=[""])), ""),
    (lambda m, f: m.decode([0.5]), "whole numbers"),
    (lambda m, f: m.special("nothing"), "none of bos"),
    (lambda m, f: m.chat([]), "no chat template"),
])
def test_refused(model, story, call, sentence):
    with pytest.raises(tinyllm.Error, match=sentence or ".") as e:
        call(model, story)
    assert e.value.code
    assert model.logits(PROMPT).shape == (544,)             # and the model still works


def gguf(path, meta, tensors):
    """a model file of float32 tensors"""
    import struct
    text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<I?", 7, v)
        if isinstance(v, int):
            return struct.pack("<II", 4, v)
        if isinstance(v, float):
            return struct.pack("<If", 6, v)
        if isinstance(v, str):
            return struct.pack("<I", 8) + text(v)
        return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))
    head += b"".join(text(k) + value(v) for k, v in meta.items())
    data = b""
    for name, x in tensors.items():
        head += text(name) + struct.pack(f"<I{x.ndim}QIQ", x.ndim, *x.shape[::-1], 0, len(data))
        data += x.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + data)


@pytest.fixture
def encoder(tmp_path, rng):
    """A BERT of one layer and 8 numbers, and the same in numpy: (path, function from tokens to rows)"""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2581a", "\u2581small", "\u2581text", "\u2581here"]
    d, n_head, f = 8, 2, 12
    draw = lambda *shape: (rng.standard_normal(shape) / 2).astype(np.float32)
    w = {"token_embd.weight": draw(len(words), d), "position_embd.weight": draw(16, d),
         "token_types.weight": draw(2, d)}
    for name, shape in (("attn_q", (d, d)), ("attn_k", (d, d)), ("attn_v", (d, d)), ("attn_output", (d, d)),
                        ("ffn_up", (f, d)), ("ffn_down", (d, f)), ("attn_output_norm", (d,)),
                        ("layer_output_norm", (d,))):
        w[f"blk.0.{name}.weight"], w[f"blk.0.{name}.bias"] = draw(*shape), draw(shape[0])
    w["token_embd_norm.weight"], w["token_embd_norm.bias"] = draw(d), draw(d)
    gguf(tmp_path / "bert.gguf", {
        "general.architecture": "bert", "bert.block_count": 1, "bert.context_length": 16, "bert.embedding_length": d,
        "bert.feed_forward_length": f, "bert.attention.head_count": n_head, "bert.attention.layer_norm_epsilon": 1e-5,
        "bert.attention.causal": False, "bert.pooling_type": 1, "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": words, "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.eos_token_id": 3,
        "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.chat_template": "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
    }, w)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

    def rows(tokens):
        linear = lambda x, name: x @ w[f"blk.0.{name}.weight"].T.astype(np.float64) + w[f"blk.0.{name}.bias"]
        x = w["token_embd.weight"][tokens].astype(np.float64) + w["position_embd.weight"][:len(tokens)]
        x = norm(x + w["token_types.weight"][0], "token_embd_norm")
        q, k, v = (linear(x, n).reshape(-1, n_head, d // n_head) for n in ("attn_q", "attn_k", "attn_v"))
        s = np.einsum("qhc,khc->hqk", q, k) / np.sqrt(d // n_head)
        p = np.exp(s - s.max(-1, keepdims=True))
        o = np.einsum("hqk,khc->qhc", p / p.sum(-1, keepdims=True), v).reshape(-1, d)
        x = norm(x + linear(o, "attn_output"), "blk.0.attn_output_norm")
        h = linear(x, "ffn_up")
        h = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
        return norm(x + linear(h, "ffn_down"), "blk.0.layer_output_norm")

    return tmp_path / "bert.gguf", rows


def test_embeddings_equal_numpy(encoder):
    path, rows = encoder
    with tinyllm.Model(path) as m:
        assert m.about["is_encoder"] and m.about["output"] == "hidden"
        tokens = m.encode("a small text here")
        assert list(tokens) == [2, 4, 5, 6, 7, 3]
        for pooling, want in (("mean", rows(tokens).mean(0)), (None, rows(tokens).mean(0)), ("cls", rows(tokens)[0]),
                              ("last", rows(tokens)[-1])):
            got = m.embed("a small text here", pooling=pooling)
            assert np.abs(got - want / np.linalg.norm(want)).max() < 1e-5
        assert m.embed(["a text", "a small text"]).shape == (2, 8)
        assert m.chat([{"role": "user", "content": "hi"}]) == "[CLS]user:hi;"
        with pytest.raises(tinyllm.Error):
            list(m.generate("a text"))
        with pytest.raises(tinyllm.Error):
            m.embed("a " * 50)
