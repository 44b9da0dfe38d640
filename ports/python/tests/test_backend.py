"""Back ends in Python and what the conformance kit says about them."""
import re

import numpy as np
import pytest

import tinyllm
from tinyllm import c


def right(x, scale=0, **hints):
    x = x * (scale or 1)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_right_one_passes():
    mine = tinyllm.backend("softmax")(right)
    report = tinyllm.conformance(mine, ops=["softmax"])
    assert report.ok and len(report) == 1
    assert (report[0].op, report[0].cases, report[0].failed, report[0].declined) == ("softmax", 40, 0, 0)
    assert 0 < report[0].worst_of_bound <= 1
    assert "40 cases,    0 failed" in str(report)
    x = np.array([[1, 2]], np.float32)
    assert np.array_equal(mine(x), right(x))


def tail(x, scale=0, **hints):
    y = right(x, scale)
    if x.shape[-1] % 8:
        y[..., -1] = 0
    return y


def no_max(x, scale=0, **hints):
    e = np.exp(x * (scale or 1))
    return e / e.sum(axis=-1, keepdims=True)


def no_scale(x, **hints):
    return right(x)


def half(x, scale=0, **hints):
    return right(x.astype(np.float16), scale)


def strides_ignored(x, out, scale=0, **hints):
    size = 4 * int(np.prod(x.shape))
    dense = np.lib.stride_tricks.as_strided(x, x.shape, np.zeros(x.shape, np.float32).strides) if size else x
    out[...] = right(dense, scale)


@pytest.mark.parametrize("wrong", [tail, no_max, no_scale, half, strides_ignored])
def test_a_wrong_one_is_found(wrong):
    report = tinyllm.conformance(tinyllm.backend("softmax")(wrong), cases=60)
    verdict = report[0]
    assert not report.ok and not verdict.ok and verdict.failed > 0
    assert f"case {verdict.case}, seed 0: (" in verdict.failure and "out 0" in verdict.failure
    again = tinyllm.conformance(tinyllm.backend("softmax")(wrong), case=verdict.case)[0]
    assert (again.cases, again.failed, again.failure) == (1, 1, verdict.failure)
    call = tinyllm.case_of("softmax", verdict.case)
    assert call.name == "softmax" and call.inputs[0].shape == call.outputs[0].shape
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(right(call.inputs[0], call.params["scale"]), call.outputs[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("function, sentence", [
    (lambda x, **more: 1 / 0, "ZeroDivisionError"),
    (lambda x, **more: x[..., :0], "the shape"),
    (lambda x, **more: None, "returned None"),
    (lambda x, **more: (x, x), "2 results"),
    (lambda x, **more: x.astype(complex), "Cannot cast|complex"),
    (lambda x, **more: x.fill(0), "read-only"),
])
def test_one_that_cannot_answer(function, sentence):
    verdict = tinyllm.conformance(tinyllm.Backend({"softmax": function}), cases=3)[0]
    assert verdict.failed == verdict.cases > 0
    assert "took the operation and failed" in verdict.failure
    assert re.search(sentence, verdict.failure), verdict.failure


def test_what_it_does_not_take_is_declined():
    assert tinyllm.conformance(tinyllm.Backend({"softmax": lambda x: right(x)}))[0].declined > 10
    seen = []
    picky = tinyllm.Backend({"matmul": lambda a, b: seen.append(a) or a.astype(np.float64) @ b}, dtypes=["float32"])
    verdict = tinyllm.conformance(picky)[0]
    assert verdict.ok and verdict.declined > 20 and len(seen) >= verdict.cases
    none = tinyllm.Backend({"softmax": right}, accepts=lambda call: call.name != "softmax")
    report = tinyllm.conformance(none)
    assert not report.ok and report[0].cases == 0 and report[0].declined == 40


def test_several_and_out():
    def add(a, b=None, value=0, out=None):
        np.add(a, np.float32(value) if b is None else b, out=out)

    mine = tinyllm.Backend({"add": add, "abs": np.abs, "neg": lambda x: -x})
    report = tinyllm.conformance(mine)
    assert report.ok and [v.op for v in report] == ["add", "abs", "neg"] and all(v.ok for v in report)

    def axpy(x, alpha, out):
        out[...] = out + np.float32(alpha) * x

    assert tinyllm.conformance(tinyllm.backend(axpy)).ok
    with pytest.raises(tinyllm.Error, match="parameter named out"):
        tinyllm.Backend({"axpy": lambda x, alpha: x})


def test_in_programs(rng):
    calls = []

    @tinyllm.backend
    def exp(x):
        calls.append(x.shape)
        return np.exp(x)

    with tinyllm.Context(accel=exp) as ctx:
        x = rng.standard_normal((3, 4), np.float32)
        assert np.array_equal(tinyllm.run("exp", x, ctx=ctx), np.exp(x)) and calls == [(3, 4)]
        assert np.array_equal(tinyllm.run("neg", x, ctx=ctx), -x) and len(calls) == 1


def test_an_interrupt_in_a_function_is_raised():
    @tinyllm.backend
    def exp(x):
        raise KeyboardInterrupt

    with tinyllm.Context(accel=exp) as ctx, pytest.raises(KeyboardInterrupt):
        tinyllm.run("exp", [1.0], ctx=ctx)


def test_one_context_serves_one_call_at_a_time():
    @tinyllm.backend
    def exp(x):
        return tinyllm.run("log", x, ctx=ctx)

    with tinyllm.Context(accel=exp) as ctx:
        tinyllm.run("exp", [1.0], ctx=ctx)                  # the processor answers
        assert "in use by another call" in str(exp.error)
        assert tinyllm.run("log", [1.0], ctx=ctx) == 0


class Device(tinyllm.Backend):
    """Memory of its own: answers stay away, and the host's memory is NaN until fetch brings them."""

    def __init__(self, forget_one=False):
        self.away, self.fetched, self.forget_one = {}, 0, forget_one
        super().__init__({"exp": self.exp, "add": self.add}, name="device")

    @staticmethod
    def key(x):
        return x.__array_interface__["data"][0], x.shape, x.strides

    def get(self, x):
        return self.away.get(self.key(x), x)

    def put(self, y, out):
        self.away[self.key(out)] = np.array(y, np.float32)
        out[...] = np.nan

    def exp(self, x, out):
        self.put(np.exp(self.get(x)), out)

    def add(self, a, b=None, value=0, out=None):
        self.put(self.get(a) + (np.float32(value) if b is None else self.get(b)), out)

    def fetch(self, out):
        self.fetched += 1
        answer = self.away.pop(self.key(out))
        if not (self.forget_one and self.fetched % 7 == 0):
            out[...] = answer

    def discard(self, out):
        self.away.pop(self.key(out))


def test_answers_that_stay():
    device = Device()
    report = tinyllm.conformance(device, ops=["exp", "add"])
    assert report.ok, str(report)
    assert device.fetched >= 80 and not device.away
    with tinyllm.Context(accel=device) as ctx:
        x, y = np.zeros(5, np.float32), np.empty(5, np.float32)
        c.tinyllm_stay(ctx.handle, 1)
        tinyllm.run("exp", x, out=y, ctx=ctx)
        assert np.isnan(y).all() and len(device.away) == 1
        tinyllm.run("neg", y, out=x, ctx=ctx)               # not the device's: the door fetches y
        c.tinyllm_stay(ctx.handle, 0)
        assert np.array_equal(y, np.ones(5)) and np.array_equal(x, -np.ones(5))
    assert not tinyllm.conformance(Device(forget_one=True), ops=["exp"]).ok
    class Half(tinyllm.Backend):
        def fetch(self, out):
            pass
    with pytest.raises(tinyllm.Error, match="both fetch and discard"):
        Half({"exp": np.exp})


def test_targets(target):
    report = tinyllm.conformance(target=target, ops=["rmsnorm", "topk", "spmm", "a2q"], cases=5)
    assert report.ok and [v.cases for v in report] == [5] * 4, str(report)


def test_every_operation():
    report = tinyllm.conformance(cases=2)
    assert report.ok, str(report)
    assert sorted(v.op for v in report) == sorted(tinyllm.operations())


@pytest.mark.parametrize("call", [
    lambda: tinyllm.Backend({"nothing": abs}),
    lambda: tinyllm.Backend({"exp": 3}),
    lambda: tinyllm.conformance(ops=["nothing"]),
    lambda: tinyllm.conformance(ops=["exp"], target="mmx"),
    lambda: tinyllm.conformance(ops=["exp"], cases=-1),
    lambda: tinyllm.case_of("exp", -3),
    lambda: tinyllm.Backend({"exp": np.exp, "abs": np.abs})(1),
])
def test_refused(call):
    with pytest.raises(tinyllm.Error):
        call()
