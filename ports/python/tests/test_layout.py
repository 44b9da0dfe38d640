"""Structs and constants have the layout and the values that the C compiler gave them."""
import ctypes

import pytest

import tinyllm
from tinyllm import _declared, c
from tinyllm._c import _struct, constants, library
from tinyllm._ops import _rows, params_of


def size_of(made, field):
    return getattr(made, field).size


def test_structs():
    n = sum(1 + 2 * len(fields) for fields in _declared.structs.values())
    table = iter((ctypes.c_size_t * n).in_dll(library, "tinypy_layout"))
    for name, fields in _declared.structs.items():
        made = _struct(name)
        assert ctypes.sizeof(made) == next(table), name
        for (field, *_), (declared, *_) in zip(made._fields_, fields):
            assert field.rstrip("_") == declared
            assert (getattr(made, field).offset, getattr(made, field).size) == (next(table), next(table)), (name, field)
    assert len(_declared.structs) > 150


def test_constants():
    table = (ctypes.c_longlong * len(_declared.constants)).in_dll(library, "tinypy_value")
    assert list(_declared.constants.values()) == list(table)
    assert c.TINY_F32 == 0 and c.TINY_BF16 == 2 and c.TINY_OP_BASE_LLM == 1000


def test_every_operation_of_the_headers_is_in_this_build():
    kinds = {name for first in ("TINY_OP_NONE", "TLLM_OP_NONE", "TGNN_OP_NONE") for name in _declared.enums[first]}
    kinds = {getattr(c, name): name for name in kinds if not name.endswith(("_NONE", "_COUNT", "_END"))}
    assert set(kinds) - {row.kind for _, row in _rows.values()} == set(), kinds


def test_every_row_has_its_params():
    assert len(_rows) > 80
    for name, (wing, row) in _rows.items():
        made = params_of(row)
        assert (ctypes.sizeof(made) if made else 0) == row.params_size, name


def test_every_text_of_a_parameter_names_something():
    from tinyllm._ops import _PREFIXES, settable
    structs = {row.params_name.decode() for _, row in _rows.values() if row.params_name}
    for key, prefix in _PREFIXES.items():
        assert constants(prefix), prefix
        struct, field = key if isinstance(key, tuple) else (None, key)
        assert any(field in settable(getattr(c, s)) for s in ([struct] if struct else structs)), key


def test_numbers_are_of_the_right_sort():
    """size and place do not tell a float from an int"""
    row = c.tinyllm_op_find(b"softmax").contents
    x = (ctypes.c_float * 2)(1.0, 3.0)
    y = (ctypes.c_float * 2)()
    with tinyllm.Context() as ctx:
        tx, ty = c.tinyllm_tensor_1d(x, c.TINY_F32, 2), c.tinyllm_tensor_1d(y, c.TINY_F32, 2)
        ctx.call("softmax", tx, c.tiny_softmax_params(scale=0.5), ty)
    assert y[0] == pytest.approx(0.26894142) and row.kind == c.TINY_OP_SOFTMAX


def test_functions_are_there_or_say_so():
    missing = []
    for name in _declared.functions:
        try:
            getattr(c, name)
        except AttributeError as e:
            assert "not in this build" in str(e)
            missing.append(name)
    assert len(missing) < len(_declared.functions) / 2
    for name in ("tinyllm_run", "tinygnn_run", "tllm_generate", "tllm_embed", "tgnn_fastrp", "tinyllm_conform"):
        assert name not in missing
    with pytest.raises(AttributeError, match="declare no"):
        c.tiny_nothing


def test_texts_with_a_length_are_addresses():
    """as c_char_p ctypes would read on to a 0 that is not there"""
    assert dict(c.tllm_text._fields_)["at"] is ctypes.c_void_p
    callback = dict(c.tllm_generate_desc._fields_)["text"]
    assert callback._argtypes_ == (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    assert c.tinyllm_status_text(0) == b"done"
