"""Operations compared with numpy, scipy and PyTorch; invalid calls."""
import numpy as np
import pytest

import tinyllm
from tinyllm import c, run

U = 2.0 ** -24


def close(got, want, tolerance):
    """within tolerance roundings of the largest number of the row"""
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape and got.dtype == np.float32
    scale = np.abs(want).max(axis=-1, keepdims=True) if want.ndim else np.abs(want)
    assert np.all(np.abs(got - want) <= tolerance * U * scale + 1e-45)


def test_table():
    table = tinyllm.operations()
    assert table["softmax"].formula.startswith("y = exp(scale x")
    assert table["softmax"].params == {"scale": "float", "form": "int", "cache_bytes": "size_t"}
    assert table["matmul"].inputs == 3 and table["matmul"].needed == 2
    assert table["axpy"].flags == ("accumulates",) and "inplace" in table["add"].flags
    assert {"matmul_blocks", "paged_attention", "a2q"} <= set(table)
    assert tinyllm.targets()[:2] == ["reference", "scalar"]


def test_softmax(rng, target):
    x = rng.standard_normal((7, 33), np.float32)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    close(run("softmax", x, target=target), e / e.sum(-1, keepdims=True), 64)
    e = np.exp(2 * (x.astype(np.float64) - x.max(-1, keepdims=True)))
    close(run("softmax", x, target=target, scale=2.0, form="two_pass"), e / e.sum(-1, keepdims=True), 64)


def test_targets_are_what_was_asked_for(rng):
    x = rng.standard_normal((7, 33), np.float32)
    edges = np.array([0, 1], np.int64), np.ones((3, 2), np.float32), np.array([2], np.int32)
    for name in tinyllm.targets():
        kernels = "avx512" if name == "amx" else name                      # amx lends those it has nothing better for
        with tinyllm.Context(target=name) as ctx:
            run("softmax", x, ctx=ctx)
            assert ctx.target == name and ctx.ran_on == kernels
            run("convert", x, to="f64", ctx=ctx)
            assert np.array_equal(run("spmm", *edges, ctx=ctx), [[1, 1]]) and ctx.ran_on == kernels


def test_layernorm(rng, target):
    x, g, b = rng.standard_normal((5, 40), np.float32), *rng.standard_normal((2, 40), np.float32)
    d = x.astype(np.float64)
    want = g * (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-3) + b
    close(run("layernorm", x, g, b, eps=1e-3, target=target), want, 64)
    want = (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-5)
    close(run("layernorm", x, target=target), want, 64)


def test_matmul(rng, target):
    a, b, bias = rng.standard_normal((6, 19), np.float32), rng.standard_normal((19, 23), np.float32), np.ones(23, "f4")
    want = a.astype(np.float64) @ b
    close(run("matmul", a, b, target=target), want, 64)
    close(run("matmul", a, b, bias, act="relu", target=target), np.maximum(want + 1, 0), 64)
    close(run("matmul", a, b.astype(np.float16), target=target), a.astype(np.float64) @ b.astype(np.float16), 64)


def test_strides(rng, target):
    a, b = rng.standard_normal((19, 6), np.float32), rng.standard_normal((46, 38), np.float32)
    close(run("matmul", a.T, b[::2, ::-2].T, target=target), a.T.astype(np.float64) @ b[::2, ::-2].T, 64)
    one = np.broadcast_to(np.float32(3), (6, 19))
    assert np.array_equal(run("add", a.T, one, target=target), a.T + 3)
    bytes_between = np.ones(4, [("x", "f4"), ("y", "i1")])["x"]             # strides of 5 bytes: copied
    assert np.array_equal(run("neg", bytes_between, target=target), -np.ones(4))
    swapped = a.astype(">f4")
    assert np.array_equal(run("neg", swapped, target=target), -a)


def test_output(rng):
    x = rng.standard_normal((4, 6), np.float32)
    wide = np.zeros((4, 12), np.float32)
    assert run("exp", x, out=wide[:, ::2]) is not None
    assert np.array_equal(wide[:, ::2], run("exp", x)) and not wide[:, 1::2].any()
    y = x.copy()
    run("relu", y, out=y)
    assert np.array_equal(y, np.maximum(x, 0))
    total = np.ones_like(x)
    run("axpy", x, alpha=2.0, out=total)
    assert np.array_equal(total, 1 + 2 * x) and np.array_equal(run("axpy", x, alpha=2.0), 2 * x)
    values, places = run("topk", x, k=2)
    order = np.argsort(-x, axis=-1)[:, :2]
    assert np.array_equal(places, order) and np.array_equal(values, np.take_along_axis(x, order, -1))


def test_types(rng):
    x = rng.standard_normal(9, np.float32)
    b = run("convert", x, to="bf16")
    assert isinstance(b, tinyllm.BFloat16) and np.allclose(b.float32(), x, rtol=2.0 ** -8)
    assert np.array_equal(run("convert", b), b.float32())
    assert run("convert", x, to="f16").dtype == np.float16
    assert np.array_equal(run("sum", [1.0, 2.0, 4.0]), 7) and run("sum", [1.0]).shape == ()
    assert run("permute", np.zeros((2, 3, 4), "f4"), axes=(2, 0, 1)).shape == (4, 2, 3)
    assert run("exp", np.ones(3)).dtype == np.float64       # f64 goes to the reference


def test_attention(rng, target):
    q, k, v = rng.standard_normal((5, 4, 16), np.float32), *rng.standard_normal((2, 9, 2, 16), np.float32)
    s = np.einsum("qhd,khd->hqk", q.astype(np.float64), np.repeat(k, 2, axis=1)) / 4
    s = np.where(np.arange(9)[None, None, :] > np.arange(5)[None, :, None] + 4, -np.inf, s)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), np.repeat(v, 2, axis=1))
    close(run("attention", q, k, v, causal=1, target=target), want, 128)


def test_spmm(rng, target):
    sparse = pytest.importorskip("scipy.sparse")
    a = rng.standard_normal((30, 20), np.float32)
    a = sparse.csr_matrix(np.where(rng.random((30, 20)) < 0.2, a, 0))
    x = rng.standard_normal((20, 7), np.float32)
    got = run("spmm", a.indptr.astype(np.int64), x, a.indices.astype(np.int32), a.data, target=target)
    close(got, a.astype(np.float64) @ x, 64)


def test_fft(rng, target):
    x = rng.standard_normal((3, 30), np.float32)
    got = run("rfft", x, target=target)
    close(got.reshape(3, -1), np.fft.rfft(x.astype(np.float64)).view(np.float64), 256)


def test_equal_torch(rng, target):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    x, w = torch.randn(2, 6, 9, 11), torch.randn(4, 3, 3, 3)
    d = lambda t: t.double().numpy()
    close(run("conv2d", x, w, groups=2, pad=(1, 1, 1, 1), stride=(2, 1), target=target),
          d(f.conv2d(x.double(), w.double(), groups=2, padding=1, stride=(2, 1))), 256)
    close(run("gelu", x, target=target), d(f.gelu(x.double())), 64)
    close(run("groupnorm", x, groups=3, target=target), d(f.group_norm(x.double(), 3)), 128)
    close(run("log_softmax", x, target=target), d(f.log_softmax(x.double(), -1)), 64)
    q = torch.randn(7, 2, 8)
    t = q.double().transpose(0, 1)
    want = f.scaled_dot_product_attention(t, t, t, is_causal=True).transpose(0, 1)
    close(run("attention", q, q, q, causal=1, target=target), d(want), 128)
    labels = torch.tensor([1, 0, 5, 10])
    x = x[0, 0, :4]
    close(run("cross_entropy", x, labels, target=target), d(f.cross_entropy(x.double(), labels)), 64)


@pytest.mark.parametrize("call, code, sentence", [
    (lambda: run("softmaxx", [1.0]), c.TINY_E_ARGUMENT, "no operation 'softmaxx'"),
    (lambda: run(None), c.TINY_E_ARGUMENT, "no operation None"),
    (lambda: run("swiglu", [1.0]), c.TINY_E_ARGUMENT, "swiglu: input 1 is missing"),
    (lambda: run("add", [1.0], [1.0], [1.0]), c.TINY_E_ARGUMENT, "takes 2 at most"),
    (lambda: run("add", [1.0, 2.0], [1.0, 2.0, 3.0]), c.TINY_E_SHAPE, "add"),
    (lambda: run("softmax", np.zeros(3, np.complex64)), c.TINY_E_DTYPE, "complex64"),
    (lambda: run("softmax", np.array(["a"])), c.TINY_E_DTYPE, "<U1"),
    (lambda: run("softmax", np.array([None])), c.TINY_E_DTYPE, "object"),
    (lambda: run("softmax", np.zeros(3, np.int32)), c.TINY_E_DTYPE, "softmax"),
    (lambda: run("neg", np.zeros((1,) * 5, "f4")), c.TINY_E_SHAPE, "5 axes"),
    (lambda: run("softmax", [1.0], sclae=2), c.TINY_E_ARGUMENT, "no parameter 'sclae': it has scale, form"),
    (lambda: run("add", [1.0], [1.0], alpha=2), c.TINY_E_ARGUMENT, "no parameter 'alpha'"),
    (lambda: run("softmax", [1.0], scale="big"), c.TINY_E_ARGUMENT, "scale='big'"),
    (lambda: run("softmax", [1.0], scale=[1]), c.TINY_E_ARGUMENT, "scale=\\[1\\]"),
    (lambda: run("matmul", [[1.0]], [[1.0]], act="sigmoid"), c.TINY_E_ARGUMENT, "none of .*relu"),
    (lambda: run("permute", np.zeros((2, 2), "f4"), axes=(0, 1, 2, 3, 4)), c.TINY_E_ARGUMENT, "axes="),
    (lambda: run("gather_rows", [[1.0]], [5]), None, "gather_rows"),
    (lambda: run("exp", [1.0], out=np.zeros(2, "f4")), c.TINY_E_SHAPE, "output 0"),
    (lambda: run("exp", [1.0], out=np.zeros(1, "f8")), c.TINY_E_DTYPE, "output 0"),
    (lambda: run("exp", [1.0], out=np.zeros(1, ">f4")), c.TINY_E_DTYPE, "output 0"),
    (lambda: run("exp", [1.0], out=np.broadcast_to(np.float32(0), (1,))), c.TINY_E_ARGUMENT, "can be written"),
    (lambda: run("exp", [1.0], out=[0.0]), c.TINY_E_ARGUMENT, "can be written"),
    (lambda: run("softmax", [1.0], target="mmx"), c.TINY_E_ARGUMENT, "no target 'mmx'"),
    (lambda: run("softmax", [1.0], threads=-1), c.TINY_E_ARGUMENT, "thread"),
])
def test_refused(call, code, sentence):
    with pytest.raises(tinyllm.Error, match=sentence) as e:
        call()
    assert code is None or e.value.code == code
    assert e.value.name.startswith("TINY_E_") and str(e.value)


def test_a_target_of_another_machine():
    absent = {"neon", "avx2", "avx512", "amx"} - set(tinyllm.targets())
    for name in absent:
        with pytest.raises(tinyllm.Error, match=name) as e:
            run("softmax", [1.0], target=name)
        assert e.value.code == c.TINY_E_TARGET


def test_nan_goes_through(target):
    x = np.array([[1, np.nan], [np.inf, 0], [-np.inf, 0]], np.float32)
    got = run("softmax", x, target=target)
    assert np.isnan(got[:2]).all() and np.array_equal(got[2], [0, 1])


def test_closed_context():
    ctx = tinyllm.Context(target="scalar", threads=1)
    assert ctx.threads == 1
    ctx.close()
    ctx.close()
    with pytest.raises(tinyllm.Error, match="closed"):
        run("softmax", [1.0], ctx=ctx)
    with pytest.raises(tinyllm.Error, match="closed"):
        ctx.target
    with pytest.raises(tinyllm.Error, match="closed"):
        run("spmm", [0], [[1.0]], ctx=ctx)
    with pytest.raises(tinyllm.Error, match="not a tinyllm.Backend"):
        tinyllm.Context(accel=np.exp)


def test_errors_travel():
    import pickle
    with pytest.raises(tinyllm.Error) as e:
        run("nothing")
    again = pickle.loads(pickle.dumps(e.value))
    assert (str(again), again.code, again.name) == (str(e.value), e.value.code, e.value.name)


def test_threads(rng):
    from concurrent.futures import ThreadPoolExecutor
    x = [rng.standard_normal((50, 50), np.float32) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        for a, got in zip(x, pool.map(lambda a: run("matmul", a, a), x)):
            close(got, a.astype(np.float64) @ a, 128)
