"""Back ends in Python, and the conformance kit over them: is my kernel right?"""
import collections
import ctypes
import inspect
import re

import numpy as np

from . import _tensor
from ._c import c
from ._context import Context, argument
from ._ops import read_params, row_of

Call = collections.namedtuple("Call", "name inputs outputs params")
Call.__doc__ = """One call of an operation: arrays (None for an input that is left out), a dictionary of parameters."""


class Backend:
    """Functions of Python as an accelerator of the library: {"softmax": f, "add": g}.

    A function gets the inputs as arrays and the parameters as keywords, and returns the result (several as a tuple).
    With a parameter named out it is given the output to fill instead, a tuple where there are several. Arrays have the
    strides of the case; inputs cannot be written.

    An operation is left to the processor when it has no function here, when its function does not take a parameter that
    is not 0 or an input that is given, or when accepts(call) is false; dtypes=["float32"] leaves arrays of other
    floating-point types to the processor.

    For memory of one's own a subclass defines some of upload(host), download(host), forget(host), synchronize(), and
    both or neither of fetch(out) and discard(out): docs/guide/accelerators.md says when each is called. They get arrays
    over the memory of the host, and raise an exception to fail.
    """

    def __init__(self, functions, name="python", accepts=None, dtypes=None):
        self.functions, self.name, self.accepts = dict(functions), name, accepts
        self.dtypes = None if dtypes is None else {np.dtype(d) for d in dtypes}
        self.error = None                                   # the last exception of a function
        self._stops = None
        self._takes = {}
        for operation, function in self.functions.items():
            row = row_of(operation)[1]                      # Error: there is no such operation
            if not callable(function):
                raise argument(f"the function for {operation} is a {type(function).__name__}")
            self._takes[operation] = _Takes(function)
            if row.flags & c.TINY_OP_ACCUMULATES and not self._takes[operation].out:
                raise argument(f"{operation} adds to its output: the function for it must have a parameter named out")
        if hasattr(self, "fetch") != hasattr(self, "discard"):
            raise argument("a back end has both fetch and discard, or neither")
        self._struct = self._make()

    def __call__(self, *args, **more):
        """the function of a back end that has one only: a decorated function can still be called"""
        if len(self.functions) != 1:
            raise argument("this back end has several functions: call one of .functions")
        return next(iter(self.functions.values()))(*args, **more)

    def _make(self):
        made = c.tiny_accel(version=c.TINY_ACCEL_VERSION, name=self.name.encode())
        types = dict(made._fields_)
        made.can_run, made.run = types["can_run"](self._can_run), types["run"](self._run)
        for name in ("synchronize", "upload", "download", "forget", "fetch", "discard"):
            if hasattr(self, name):
                setattr(made, name, types[name](getattr(self, "_call_" + name)))
        return made

    # -- what C calls; an exception must not leave a function here

    def _fail(self, error, says):
        self.error = error
        if not isinstance(error, Exception):                # KeyboardInterrupt, SystemExit
            self._stops = error
        if says:
            text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:255]
            ctypes.memmove(says, text + b"\0", len(text) + 1)
        return c.TINY_E_ACCEL

    def _raise_pending(self):
        stops, self._stops = self._stops, None
        if stops:
            raise stops

    def _guarded(self, says, function, *arguments):
        try:
            function(*arguments)
            return c.TINY_OK
        except BaseException as e:
            return self._fail(e, says)

    def _call_synchronize(self, user, says):
        return self._guarded(says, self.synchronize)

    def _call_upload(self, user, host, says):
        return self._guarded(says, lambda: self.upload(_tensor.view(host.contents, False)))

    def _call_download(self, user, host, says):
        return self._guarded(says, lambda: self.download(_tensor.view(host.contents, True)))

    def _call_forget(self, user, host):
        self._guarded(None, lambda: self.forget(_tensor.view(host.contents, False)))

    def _call_fetch(self, user, out, says):
        return self._guarded(says, lambda: self.fetch(_tensor.view(out.contents, True)))

    def _call_discard(self, user, out):
        self._guarded(None, lambda: self.discard(_tensor.view(out.contents, False)))

    def _can_run(self, user, op, row):
        try:
            name = row.contents.name.decode()
            takes = self._takes.get(name)
            if not takes:
                return 0
            call = call_of(op.contents, row.contents)
            if takes.split(call) is None:
                return 0
            arrays = [x for x in (*call.inputs, *call.outputs) if x is not None]
            if self.dtypes is not None and not all(map(self._knows, arrays)):
                return 0
            return int(self.accepts is None or bool(self.accepts(call)))
        except BaseException as e:
            self._fail(e, None)
            return 0

    def _knows(self, x):
        """is it of whole numbers, or of one of the floating-point types that were named?"""
        return not isinstance(x, _tensor.BFloat16) and (x.dtype.kind != "f" or x.dtype in self.dtypes)

    def _run(self, user, op, row, says):
        try:
            call = call_of(op.contents, row.contents)
            self._takes[call.name].answer(call)
            return c.TINY_OK
        except BaseException as e:
            return self._fail(e, says)


class _Takes:
    """Which inputs and parameters a function takes, by its signature."""

    def __init__(self, function):
        self.function = function
        try:
            known = inspect.signature(function).parameters
        except (TypeError, ValueError):                     # a function of C that does not tell, such as np.add
            known = {"args": inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)}
        kinds = {name: p.kind for name, p in known.items()}
        self.out = "out" in kinds
        self.any = inspect.Parameter.VAR_KEYWORD in kinds.values()
        self.many = inspect.Parameter.VAR_POSITIONAL in kinds.values()
        self.names = [n for n, k in kinds.items() if n != "out" and k in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        self.keywords = {n for n, k in kinds.items() if k in (
            inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)}

    def split(self, call):
        """(inputs, keywords) as the function gets them; None when there is more than it takes"""
        inputs = list(call.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        places = [n for n in self.names if n not in call.params]
        if len(inputs) > len(places) and not self.many:
            return None
        more = {n: v for n, v in call.params.items() if self.any or n in self.keywords}
        if any(v != 0 and v != (0,) * len(v if isinstance(v, tuple) else ()) for n, v in call.params.items()
               if n not in more):
            return None
        return inputs, more

    def answer(self, call):
        inputs, more = self.split(call)
        if self.out:
            more["out"] = call.outputs[0] if len(call.outputs) == 1 else call.outputs
        with np.errstate(all="ignore"):                     # the kit strews in infinities on purpose
            result = self.function(*inputs, **more)
        if self.out and result is None:
            return
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(call.outputs):
            raise ValueError(f"{len(results)} results, the operation has {len(call.outputs)}")
        for i, (have, want) in enumerate(zip(results, call.outputs)):
            if have is want:
                continue
            if have is None:
                raise ValueError("the function returned None")
            have = _tensor.as_array(have, "result")
            if have.shape != want.shape:
                raise ValueError(f"result {i} has the shape {have.shape}, it must be {want.shape}")
            with np.errstate(all="ignore"):
                np.copyto(want, have, casting="same_kind")


def call_of(op, row):
    inputs = tuple(_tensor.view(op.in_[i].contents, False) if op.in_[i] else None for i in range(row.n_in))
    outputs = tuple(_tensor.view(op.out[i].contents, True) for i in range(row.n_out))
    return Call(row.name.decode(), inputs, outputs, read_params(row, op.params))


def backend(operation=None, **options):
    """Makes a function a Backend: @backend for the operation of the function's name, @backend("softmax") for another.
    Options are those of Backend."""
    if callable(operation):
        return Backend({operation.__name__: operation}, name=operation.__name__)
    return lambda function: Backend({operation or function.__name__: function},
                                    **{"name": function.__name__, **options})


# ---- the kit

class Verdict(collections.namedtuple("Verdict", "op cases failed declined worst_of_bound worst_ulp failure case")):
    """The result of the kit for one operation. failure describes the first case that failed ("" when none did), case is
    its number. worst_of_bound above 1 is a failure."""

    @property
    def ok(self):
        return self.cases > 0 and self.failed == 0

    def __str__(self):
        line = f"{self.op:<22} {self.cases:4} cases, {self.failed:4} failed"
        if self.declined:
            line += f", {self.declined} declined"
        if self.cases and not self.failed:
            line += f"; largest error {self.worst_of_bound:.2g} of the allowed one"
        return line + (f"\n  {self.failure}" if self.failure else "")


class Report(list):
    """A list of Verdicts. ok: something was tried and nothing failed."""

    @property
    def ok(self):
        return any(v.cases for v in self) and not any(v.failed for v in self)

    def __str__(self):
        return "\n".join(str(v) for v in self) or "no case was tried"


def conformance(backend=None, ops=None, target=None, threads=0, cases=40, seed=0, case=None):
    """The conformance kit: compares a back end, or the kernels of a target, with the reference, case by case.

    ops      names of operations; all that the back end has functions for, or all there are, without
    cases    how many for each operation; case runs one of them alone, counted from 1
    """
    if isinstance(ops, str):
        ops = [ops]
    names = list(ops) if ops is not None else list(backend.functions) if backend else None
    report, rows = Report(), {}
    for name in names or ():
        rows.setdefault(row_of(name)[0], []).append(name)
    for wing in (("tinyllm", "tinygnn") if names is None else rows):
        with Context(target=target, threads=threads, accel=backend, wing=wing) as ctx:
            ctx._hold.quiet = True                          # a verdict says what the log would
            for name in rows.get(wing, [None]):
                report += _examine(ctx, wing, name, cases, seed, case, backend)
    return report


def _examine(ctx, wing, name, cases, seed, case, backend):
    found = []
    desc = c.tiny_conform_desc(op=name.encode() if name else None, n_cases=cases, seed=seed, only_case=case or 0)

    def note(user, result):
        r = result.contents
        said = r.first_failure.decode("utf-8", "replace")
        number = re.search(r"(?:only_case = |--case )(\d+)", said)
        text = said.partition("\n")[2].strip()
        if number:
            text = f"case {number.group(1)}, seed {seed}: {text}"
        if backend and "took the operation and failed" in said and backend.error is not None:
            text += f": {type(backend.error).__name__}: {backend.error}"
        if r.n_cases or name:
            found.append(Verdict(r.row.contents.name.decode(), r.n_cases, r.n_failed, r.n_declined, r.worst_of_bound,
                                 r.worst_ulp, text, int(number.group(1)) if number else None))

    desc.row = dict(desc._fields_)["row"](note)
    failed = ctypes.c_int()
    ctx.call("conform", desc, ctypes.byref(failed), interruptible=True)
    if not name:                                            # what is in both copies is reported once
        found = [v for v in found if row_of(v.op)[0] == wing]
    return found


def case_of(name, case, seed=0):
    """A case of the kit as a Call: the inputs, the parameters, and the answer of the reference as outputs."""
    wing, row = row_of(name)
    found = []
    desc = c.tiny_conform_desc(op=name.encode(), only_case=case, n_cases=case, seed=seed)

    def keep(user, row, op):
        call = call_of(op.contents, row.contents)
        copy = lambda arrays: tuple(None if x is None else x.copy() for x in arrays)
        found.append(Call(call.name, copy(call.inputs), copy(call.outputs), call.params))

    desc.answer = dict(desc._fields_)["answer"](keep)
    failed = ctypes.c_int()
    with Context(target="reference", threads=1, wing=wing) as ctx:
        ctx.call("conform", desc, ctypes.byref(failed))
    return found[0]
