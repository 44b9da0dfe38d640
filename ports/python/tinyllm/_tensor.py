"""numpy arrays as tensors, and back."""
import ctypes

import numpy as np

from ._c import c
from ._context import Error


class BFloat16(np.ndarray):
    """bfloat16 numbers as uint16 bits, since numpy has no such type: x.view(BFloat16), and .float32() of it."""

    def float32(self):
        return (np.asarray(self).astype(np.uint32) << 16).view(np.float32)


_DTYPES = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "U8": "u1", "I16": "i2", "I32": "i4", "I64": "i8"}
_NUMBER = {np.dtype(code): getattr(c, "TINY_" + name) for name, code in _DTYPES.items()}
_NUMBER[np.dtype("bool")] = c.TINY_U8
_NUMPY = {getattr(c, "TINY_" + name): np.dtype(code) for name, code in _DTYPES.items()}
_NUMPY[c.TINY_BF16] = np.dtype("u2")


def number_of(x, what):
    if isinstance(x, BFloat16) or x.dtype.name == "bfloat16":               # the second: of the package ml_dtypes
        return c.TINY_BF16
    number = _NUMBER.get(x.dtype.newbyteorder("="))
    if number is None:
        raise Error(c.TINY_E_DTYPE, f"{what} is an array of {x.dtype}: tensors hold float32, float16, float64, int8, "
                                    "uint8, int16, int32, int64 or tinyllm.BFloat16")
    return number


def as_array(x, what):
    """x as it is when it is an array (or a tensor of torch); numbers and lists become float32 or int32"""
    if isinstance(x, np.ndarray) or hasattr(x, "__array__") or isinstance(x, np.generic):
        x = x.detach() if hasattr(x, "detach") else x       # of torch
        return x if isinstance(x, np.ndarray) else np.asarray(x)
    x = np.asarray(x)
    return x.astype({"f": np.float32, "i": np.int32}.get(x.dtype.kind, x.dtype))


def tensor_of(x, what):
    """(tiny_tensor, the array that it views): x itself, or a copy where its bytes cannot be taken as they are"""
    number = number_of(x, what)
    if x.ndim > c.TINY_MAX_RANK:
        raise Error(c.TINY_E_SHAPE, f"{what} has {x.ndim} axes, a tensor has at most {c.TINY_MAX_RANK}")
    size = x.dtype.itemsize
    if not x.dtype.isnative or not x.flags.aligned or any(s % size for s in x.strides):
        x = np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("=")).reshape(x.shape)
    t = c.tiny_tensor(data=x.ctypes.data, dtype=number, rank=x.ndim)
    t.dim[:x.ndim] = x.shape
    t.stride[:x.ndim] = [s // size for s in x.strides]
    return t, x


def empty(t):
    """a new array of the type and shape of a tiny_tensor"""
    made = np.empty(tuple(t.dim[:t.rank]), _NUMPY[t.dtype])
    return made.view(BFloat16) if t.dtype == c.TINY_BF16 else made


def view(t, writeable):
    """the memory of a tiny_tensor as an array, strides and all; valid as long as that memory is"""
    dtype, shape = _NUMPY[t.dtype], tuple(t.dim[:t.rank])
    strides = tuple(s * dtype.itemsize for s in t.stride[:t.rank])
    if 0 in shape:
        made = np.empty(shape, dtype)
    else:
        low = sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
        end = sum((n - 1) * s for n, s in zip(shape, strides) if s > 0) + dtype.itemsize
        memory = (ctypes.c_char * (end - low)).from_address(t.data + low)
        made = np.ndarray(shape, dtype, memory, -low, strides)
    made.flags.writeable = writeable
    return made.view(BFloat16) if t.dtype == c.TINY_BF16 else made
