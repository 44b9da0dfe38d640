"""The table of operations: what there is, and run()."""
import collections
import ctypes

import numpy as np

from . import _tensor
from ._c import _declared, c, constants, enum_names
from ._context import Error, argument, shared

Operation = collections.namedtuple("Operation", "name kind formula inputs needed outputs params flags")
Operation.__doc__ = """A row of the table.

inputs counts the optional ones too, needed does not; params maps the name of each parameter to its type in C; flags
holds some of "inplace" (the first output may be the first input), "inplace_1" (the second) and "accumulates" (the
output is added to)."""

# a text given for a parameter becomes the constant of this prefix, where the header declares the member as int
_PREFIXES = {
    "act": "TINY_ACT_", "reduce": "TINY_EDGE_", "of": "TINY_OP_", "format": "TLLM_FORMAT_", "format_k": "TLLM_FORMAT_",
    "format_v": "TLLM_FORMAT_", "format_w": "TLLM_FORMAT_",
    ("tiny_softmax_params", "form"): "TINY_SOFTMAX_", ("tiny_gla_params", "form"): "TINY_GLA_",
    ("tllm_latent_params", "form"): "TLLM_LATENT_", ("tllm_vptq_params", "form"): "TLLM_VPTQ_",
    ("tllm_flash_params", "form"): "TLLM_FLASH_",
}


def _table():
    """name -> (copy, row): what both headers have comes from tinyllm.h; sums over edges are in tinygnn.h alone here"""
    found = {}
    for wing in ("tinyllm", "tinygnn"):
        at, i = getattr(c, wing + "_op_at"), 0
        while at(i):
            found.setdefault(at(i).contents.name.decode(), (wing, at(i).contents))
            i += 1
    return dict(sorted(found.items(), key=lambda item: item[1][1].kind))


_rows = _table()


def row_of(name):
    try:
        return _rows[name]
    except (KeyError, TypeError):
        raise argument(f"there is no operation {name!r}: tinyllm.operations() has them all") from None


def params_of(row):
    """the struct of its parameters; None when it has none"""
    return getattr(c, row.params_name.decode()) if row.params_name else None


def settable(struct):
    """its members that Python can set: all but pointers and padding"""
    return {name: text for name, text, _ in _declared.structs[struct.__name__] if "*" not in text} if struct else {}


def operations():
    """Every operation by its name, in the order of the table."""
    flags = {"inplace": c.TINY_OP_INPLACE, "inplace_1": c.TINY_OP_INPLACE_1, "accumulates": c.TINY_OP_ACCUMULATES}
    return {name: Operation(name, row.kind, row.formula.decode(), row.n_in, row.n_in_needed, row.n_out,
                            settable(params_of(row)), tuple(f for f, bit in flags.items() if row.flags & bit))
            for name, (_, row) in _rows.items()}


def _value(struct, name, value):
    """a number as it is, a text as the constant that it names: act="relu" """
    if not isinstance(value, str):
        return value
    prefix = _PREFIXES.get((struct.__name__, name), _PREFIXES.get(name))
    declared = settable(struct)[name]
    known = enum_names(declared) if declared in _declared.enums else constants(prefix) if prefix else {}
    if value.upper() not in known:
        raise argument(f"{name}={value!r} is none of {', '.join(sorted(k.lower() for k in known)) or 'the numbers'}")
    return known[value.upper()]


def make_params(operation, struct, given):
    made, known = struct() if struct else None, settable(struct)
    for name, value in given.items():
        if name not in known:
            raise argument(f"{operation} has no parameter {name!r}: it has {', '.join(known) or 'none'}")
        value = _value(struct, name, value)
        try:
            if isinstance(getattr(made, name), ctypes.Array):
                getattr(made, name)[:len(value)] = value
            else:
                setattr(made, name, value)
        except (TypeError, ValueError, IndexError) as e:
            raise argument(f"{operation}: {name}={value!r}: {e}") from None
    return made


def read_params(row, address):
    """the parameters of an operation as a dictionary: numbers, and tuples for arrays; pointers are left out"""
    struct = params_of(row)
    if not struct:
        return {}
    made = struct.from_address(address) if address else struct()
    read = {name: getattr(made, name) for name in settable(struct)}
    return {name: tuple(v) if isinstance(v, ctypes.Array) else v for name, v in read.items()}


def run(name, *inputs, out=None, ctx=None, target=None, threads=0, **params):
    """Runs one operation of the table: run("matmul", a, b, act="relu").

    inputs   arrays; None leaves an optional one out. Any strides are taken as they are.
    out      where the result goes; a new array without it. An operation that adds to its output starts from zeros then.
    target   "reference", or any of targets(); threads as in Context. ctx: a Context to run in instead.
    params   members of the operation's parameter struct; what is not given is 0, which means the default.

    The result is an array, or a tuple where the operation has several outputs.
    """
    wing, row = row_of(name)
    if len(inputs) > row.n_in:
        raise argument(f"{name}: {len(inputs)} inputs are given, it takes {row.n_in} at most")
    ctx = ctx.of(wing) if ctx else shared(wing, target, threads)
    op, keep = c.tiny_op(kind=row.kind), []
    for i, x in enumerate(inputs):
        if x is not None:
            tensor, x = _tensor.tensor_of(_tensor.as_array(x, f"{name}: input {i}"), f"{name}: input {i}")
            keep += [tensor, x]
            op.in_[i] = ctypes.pointer(tensor)
    made = make_params(name, params_of(row), params)
    if made is not None:
        op.params = ctypes.addressof(made)
    for i in range(row.n_in_needed):
        if not op.in_[i]:
            raise argument(f"{name}: input {i} is missing")
    if out is None:
        want = (c.tiny_tensor * len(op.out))()
        ctx.call("op_shape", op, want)
        outs = [_tensor.empty(want[i]) for i in range(row.n_out)]
        if row.flags & c.TINY_OP_ACCUMULATES:
            outs[0][...] = 0
    else:
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        for x in outs:
            if not isinstance(x, np.ndarray) or not x.flags.writeable:
                raise argument(f"{name}: out must be an array that can be written, or a tuple of them")
        if len(outs) != row.n_out:
            raise argument(f"{name}: it has {row.n_out} outputs, out has {len(outs)}")
    for i, x in enumerate(outs):
        tensor, same = _tensor.tensor_of(x, f"{name}: output {i}")
        if same is not x:
            raise Error(c.TINY_E_DTYPE, f"{name}: output {i} has bytes in another order or off their places")
        keep.append(tensor)
        op.out[i] = ctypes.pointer(tensor)
    ctx.call("run", op)
    return outs[0] if row.n_out == 1 else tuple(outs)
