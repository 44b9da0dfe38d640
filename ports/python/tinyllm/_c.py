"""The C side: the shared object, and its structs, functions and constants as ctypes knows them.

Structs and prototypes are made on first use from _declared.py, which read_header.py makes from the two headers when the
package is built:

    c.tllm_session_open(ctx, path, None, ctypes.byref(handle))         any public function, by the name it is linked by
    c.tiny_softmax_params(scale=2.0)                                   any public struct
    c.TINY_ACT_RELU                                                    any constant

Functions of core and math have two copies, tinyllm_x and tinygnn_x; a context belongs to the copy that opened it. What
a pointer to an opaque struct is in C is a plain address here.
"""
import ctypes
import keyword
import os

try:
    from . import _declared
except ImportError:
    raise ImportError("this is the source of tinyllm, without its shared object: pip install it, and start Python in "
                      "another folder") from None

_NUMBERS = {
    "char": ctypes.c_char, "signed char": ctypes.c_byte, "unsigned char": ctypes.c_ubyte, "short": ctypes.c_short,
    "int": ctypes.c_int, "unsigned": ctypes.c_uint, "long": ctypes.c_long, "float": ctypes.c_float,
    "double": ctypes.c_double, "size_t": ctypes.c_size_t, "ptrdiff_t": ctypes.c_ssize_t,
    "intptr_t": ctypes.c_ssize_t, "int8_t": ctypes.c_int8, "uint8_t": ctypes.c_uint8, "int16_t": ctypes.c_int16,
    "uint16_t": ctypes.c_uint16, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}


def _kind(text):
    """the ctypes type of a type of C; None is void"""
    if isinstance(text, tuple):                             # (result, arguments): a pointer to a function
        return ctypes.CFUNCTYPE(_result(text[0]), *(_address(a) for a in text[1]))
    plain = " ".join(text.replace("const", " ").replace("struct ", " ").replace("*", " * ").split())
    if plain.endswith("*"):
        base = plain[:-1].strip()
        if base == "char" and "const" in text:              # bytes of Python; char * is an address
            return ctypes.c_char_p
        return ctypes.POINTER(_struct(base)) if base in _declared.structs else ctypes.c_void_p
    if plain == "void":
        return None
    if plain in _NUMBERS:
        return _NUMBERS[plain]
    if plain in _declared.enums:
        return ctypes.c_int
    if plain in _declared.aliases:
        return _kind(_declared.aliases[plain])
    return _struct(plain)


def _address(text):
    """The same, but texts are addresses: ctypes would look for the 0 at the end of a text that has a length instead."""
    kind = _kind(text)
    return ctypes.c_void_p if kind is ctypes.c_char_p else kind


def _result(text):
    """what ctypes lets a callback return: no structs; such callbacks can be handed on, not written in Python"""
    kind = _kind(text)
    return None if isinstance(kind, type) and issubclass(kind, ctypes.Structure) else kind


_structs = {}


def _struct(name):
    if name not in _structs:
        base = ctypes.Union if name in _declared.unions else ctypes.Structure
        made = _structs[name] = type(name, (base,), {})     # first the name: members may point back
        fields = [(f, (_address if f == "at" else _kind)(t), n) for f, t, n in _declared.structs[name]]
        made._fields_ = [(f + "_" * keyword.iskeyword(f), kind * n if n else kind) for f, kind, n in fields]    # in_
    return _structs[name]


def _load():
    path = os.path.join(os.path.dirname(__file__), "_tinyllm.so")
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        raise ImportError(f"the shared object of tinyllm cannot be loaded: {e}") from None


library = _load()


def _function(name):
    result, arguments = _declared.functions[name]
    function = getattr(library, name)
    function.restype = _kind(result)
    function.argtypes = [_kind(kind) for _, kind, _ in arguments]
    return function


class _C:
    """Each name is looked up once and kept as an attribute."""

    def __getattr__(self, name):
        if name in _declared.structs:
            value = _struct(name)
        elif name in _declared.constants:
            value = _declared.constants[name]
        elif name in _declared.functions:
            try:
                value = _function(name)
            except AttributeError:
                raise AttributeError(f"{name} is declared, but is not in this build of the library") from None
        else:
            raise AttributeError(f"tinyllm.h and tinygnn.h declare no {name}")
        setattr(self, name, value)
        return value


c = _C()


def constants(prefix):
    """{'RELU': 1, ...} of TINY_ACT_RELU, ..."""
    return {name[len(prefix):]: value for name, value in _declared.constants.items() if name.startswith(prefix)}


def enum_names(enum):
    """{'F32': 0, ...} of an enum, without what all its names begin with"""
    names = _declared.enums[enum]
    start = os.path.commonprefix(names).rfind("_") + 1
    return {name[start:]: _declared.constants[name] for name in names}
