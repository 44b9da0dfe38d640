#!/usr/bin/env python3
"""The gguf and safetensors packages of PyPI read the files that we write, and we read theirs.

    gguf_check.py BUILD     needs BUILD/inspect, BUILD/libtinyllm.a, and tinyllm.h in the current folder (or in INC)

Prints a line for each direction. The exit status is 1 when something differs."""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import safetensors.numpy

build = sys.argv[1] if len(sys.argv) > 1 else "build"
inc = os.environ.get("INC", ".")
bad = 0


def check(ok, what):
    global bad
    if not ok:
        bad += 1
        print("differs:", what)


WRITER = r"""
#include "tinyllm.h"
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    static const float f[64] = { 0.5f, -1.25f, 3 };
    static const int32_t ints[3] = { 1, -2, 2147483647 };
    static const double doubles[2] = { 0.1, -1e300 };
    static const unsigned char bools[3] = { 1, 0, 1 };
    static const int8_t i8 = -5;
    static const uint8_t u8 = 200;
    static const int16_t i16 = -3000;
    static const uint16_t u16 = 60000;
    static const int64_t i64 = -(INT64_C(1) << 60);
    static const double f64 = 0.1;
    static const unsigned char q8[34 * 2] = { 0x00, 0x3c, 1, 2, 3, 0xff };     /* scale 1.0 */
    const uint64_t two[2] = { 4, 3 }, row[2] = { 64, 1 }, one[1] = { 3 };
    tllm_text words[12];
    tllm_writer_desc d;
    tllm_writer *w;
    tiny_ctx *ctx;
    tllm_text t;
    char text[12][8];
    int i;
    memset(&d, 0, sizeof d);
    d.path = argv[1];
    d.version = argv[2][0] == '2' ? 2 : 3;
    d.alignment = argc > 3 ? 64 : 0;
    if (tiny_ctx_open(NULL, &ctx) || tllm_writer_open(ctx, &d, &w)) return 1;
    for (i = 0; i < 12; i++) {
        sprintf(text[i], "w%d", i);
        words[i].at = text[i];
        words[i].n = i == 5 ? 0 : strlen(text[i]);
    }
    tllm_writer_put_text(ctx, w, "general.architecture", "llama");
    tllm_writer_put(ctx, w, "v.u8", TLLM_U8, &u8);
    tllm_writer_put(ctx, w, "v.i8", TLLM_I8, &i8);
    tllm_writer_put(ctx, w, "v.u16", TLLM_U16, &u16);
    tllm_writer_put(ctx, w, "v.i16", TLLM_I16, &i16);
    tllm_writer_put_u32(ctx, w, "v.u32", 4000000000u);
    tllm_writer_put_i32(ctx, w, "v.i32", -7);
    tllm_writer_put_f32(ctx, w, "v.f32", 0.5f);
    tllm_writer_put_bool(ctx, w, "v.bool", 1);
    tllm_writer_put_u64(ctx, w, "v.u64", UINT64_MAX);
    tllm_writer_put(ctx, w, "v.i64", TLLM_I64, &i64);
    tllm_writer_put(ctx, w, "v.f64", TLLM_F64, &f64);
    tllm_writer_put_array(ctx, w, "a.i32", TLLM_I32, ints, 3);
    tllm_writer_put_array(ctx, w, "a.f64", TLLM_F64, doubles, 2);
    tllm_writer_put_array(ctx, w, "a.bool", TLLM_BOOL, bools, 3);
    tllm_writer_put_array(ctx, w, "a.text", TLLM_STRING, words, 12);
    t.at = "f32"; t.n = 3; tllm_writer_put_tensor(ctx, w, t, 0, 2, two, f);
    t.at = "q8";  t.n = 2; tllm_writer_put_tensor(ctx, w, t, 8, 2, row, NULL);
    t.at = "i32"; t.n = 3; tllm_writer_put_tensor(ctx, w, t, 26, 1, one, ints);
    tllm_writer_data(ctx, w, q8, 30);
    tllm_writer_data(ctx, w, q8 + 30, 38);
    if (tllm_writer_finish(ctx, w)) { puts(tiny_ctx_message(ctx)); return 1; }
    tllm_writer_close(ctx, w);
    tiny_ctx_close(ctx);
    return 0;
}
"""


def field(reader, key):
    f = reader.get_field(key)
    return None if f is None else f.contents()


def we_write(folder):
    source = os.path.join(folder, "write.c")
    program = os.path.join(folder, "write")
    with open(source, "w") as f:
        f.write(WRITER)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fopenmp", "-I" + inc, source,
                    os.path.join(build, "libtinyllm.a"), "-o", program, "-lm", "-pthread"], check=True)
    n = 0
    for arguments in (["3"], ["2"], ["3", "64"]):
        path = os.path.join(folder, "ours-%s.gguf" % "-".join(arguments))
        subprocess.run([program, path] + arguments, check=True)
        reader = gguf.GGUFReader(path)
        want = {"v.u8": 200, "v.i8": -5, "v.u16": 60000, "v.i16": -3000, "v.u32": 4000000000, "v.i32": -7, "v.f32": 0.5,
                "v.bool": True,
                "v.u64": 2**64 - 1, "v.i64": -(2**60), "v.f64": 0.1, "a.i32": [1, -2, 2147483647],
                "a.f64": [0.1, -1e300], "a.bool": [True, False, True],
                "a.text": ["" if i == 5 else "w%d" % i for i in range(12)], "general.architecture": "llama"}
        for key, value in want.items():
            check(field(reader, key) == value, "%s: %s is %r, not %r" % (path, key, field(reader, key), value))
            n += 1
        tensors = {t.name: t for t in reader.tensors}
        check(sorted(tensors) == ["f32", "i32", "q8"], path + ": names")
        check(list(tensors["f32"].shape) == [4, 3] and tensors["f32"].data.flatten().tolist()[:3] == [0.5, -1.25, 3.0],
              path + ": f32")
        check(tensors["i32"].data.tolist() == [1, -2, 2147483647], path + ": i32")
        q8 = gguf.quants.dequantize(tensors["q8"].data, gguf.GGMLQuantizationType.Q8_0).flatten()
        check(q8[:4].tolist() == [1.0, 2.0, 3.0, -1.0] and q8.size == 64, path + ": q8")
        n += 4
    print("the gguf package %s reads our files: %d things compared" % (importlib.metadata.version("gguf"), n))


def inspect(path):
    out = subprocess.run([os.path.join(build, "inspect"), path, "--json", "--all"], capture_output=True, text=True)
    if out.returncode:
        print("inspect:", out.stderr.strip())
        sys.exit(1)
    return json.loads(out.stdout)


def same(a, b):
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def they_write(folder):
    rng = np.random.default_rng(1)
    n = 0
    for split in (0, 2):
        path = os.path.join(folder, "theirs%d.gguf" % split)
        w = gguf.GGUFWriter(path, "llama", split_max_tensors=split)
        words = ["", "a", "\u2581the", "\U0001f600", 'quote " and \\', "line\nbreak"] * 3
        keys = {"k.u8": 255, "k.i8": -128, "k.u16": 65535, "k.i16": -32768, "k.u32": 2**32 - 1, "k.i32": -(2**31),
                "k.u64": 2**64 - 1, "k.i64": -(2**63),
                "k.f32": 0.25, "k.f64": 0.1, "k.bool": True, "k.text": words[2]}
        adds = {"u8": w.add_uint8, "i8": w.add_int8, "u16": w.add_uint16, "i16": w.add_int16, "u32": w.add_uint32,
                "i32": w.add_int32, "u64": w.add_uint64,
                "i64": w.add_int64, "f32": w.add_float32, "f64": w.add_float64, "bool": w.add_bool,
                "text": w.add_string}
        for key, value in keys.items():
            adds[key[2:]](key, value)
        arrays = {"a.int": [1, -2, 3], "a.float": [0.5, -2.0], "a.text": words, "a.bool": [True, False]}
        for key, value in arrays.items():
            w.add_array(key, value)
        made = {}
        for name, type_, shape in (("f32", gguf.GGMLQuantizationType.F32, (3, 64)),
                                   ("f16", gguf.GGMLQuantizationType.F16, (2, 3, 4)),
                                   ("q8", gguf.GGMLQuantizationType.Q8_0, (5, 64)),
                                   ("q4", gguf.GGMLQuantizationType.Q4_0, (2, 32)),
                                   ("bf16", gguf.GGMLQuantizationType.BF16, (1, 7))):
            x = rng.standard_normal(shape).astype(np.float32)
            q = gguf.quants.quantize(x, type_)
            made[name] = (type_.name, list(reversed(shape)), q.tobytes())
            w.add_tensor(name, q, raw_dtype=type_ if type_ not in (gguf.GGMLQuantizationType.F32,
                                                                   gguf.GGMLQuantizationType.F16) else None)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        if split:
            path = os.path.join(folder, "theirs%d-00001-of-00003.gguf" % split)
        seen = inspect(path)
        values = {k["key"]: k["value"] for k in seen["keys"]}
        for key, value in list(keys.items()) + list(arrays.items()):
            check(same(values.get(key), value), "%s: %s is %r, not %r" % (path, key, values.get(key), value))
            n += 1
        check(seen["n_tensors"] == len(made) and len(seen["parts"]) == (3 if split else 1), path + ": counts")
        for t in seen["tensors"]:
            type_, shape, data = made[t["name"]]
            with open(seen["parts"][t["part"] - 1]["path"], "rb") as f:
                f.seek(t["offset"])
                check(t["type"] == type_ and t["shape"] == shape and f.read(t["bytes"]) == data, "%s: tensor %s"
                      % (path, t["name"]))
            n += 1
    print("we read the files of the gguf package: %d things compared" % n)

    path = os.path.join(folder, "theirs.safetensors")
    arrays = {"a.weight": rng.standard_normal((3, 4)).astype(np.float32), "b": np.arange(5, dtype=np.int64),
              "h": np.ones((2, 2, 2), np.float16),
              "u": np.arange(9, dtype=np.uint8).reshape(3, 3), "bool": np.array([True, False]), "scalar": np.array(2.5),
              "none": np.zeros((0, 3), np.float32)}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np", "note": 'a "b" \u00e9'})
    seen = inspect(path)
    check({k["key"]: k["value"] for k in seen["keys"]} == {"format": "np", "note": 'a "b" \u00e9'}, path + ": metadata")
    check(len(seen["tensors"]) == len(arrays), path + ": number of tensors")
    with open(path, "rb") as f:
        for t in seen["tensors"]:
            x = arrays[t["name"]]
            f.seek(t["offset"])
            check(t["shape"] == list(reversed(x.shape)) and f.read(t["bytes"]) == x.tobytes(), "%s: tensor %s"
                  % (path, t["name"]))
    print("we read a file of the safetensors package: %d tensors" % len(arrays))


with tempfile.TemporaryDirectory() as folder:
    we_write(folder)
    they_write(folder)
print("differences: %d" % bad)
sys.exit(1 if bad else 0)
