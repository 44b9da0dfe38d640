#!/usr/bin/env python3
"""tests/golden/make/rules.py - rules of tensor parallelism by Redco's own program: tests/golden/rules.tsv

    python3 -m venv venv && venv/bin/pip install --no-deps redco==0.4.23
    venv/bin/python tests/golden/make/rules.py > tests/golden/rules.tsv

Only get_sharding_rules of redco/deployers/partition_utils.py runs, with a dict of shapes; jax and flax are not needed.
The parameters are those of six architectures as flax names them, and of random trees. Rows: case, ranks, path, dims,
the dimension that is split or -1."""
import ast
import importlib.util
import pathlib
import random
import types

folder = pathlib.Path(importlib.util.find_spec("redco").submodule_search_locations[0])
text = (folder / "deployers" / "partition_utils.py").read_text(encoding="utf-8")
body = [f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef) and f.name == "get_sharding_rules"]
space = {"flatten_dict": lambda d: d, "P": lambda *dims: dims}
exec(compile(ast.Module(body=body, type_ignores=[]), "partition_utils.py", "exec"), space)


def layers(prefix, per_layer, others, n=2):
    out = dict(others)
    for i in range(n):
        for path, shape in per_layer.items():
            out[prefix % i + path] = shape
    return out


CASES = {
    "llama": layers("model.layers.%d.", {
        "self_attn.q_proj.kernel": (64, 64), "self_attn.k_proj.kernel": (64, 32), "self_attn.v_proj.kernel": (64, 32),
        "self_attn.o_proj.kernel": (64, 64), "mlp.gate_proj.kernel": (64, 96), "mlp.up_proj.kernel": (64, 96),
        "mlp.down_proj.kernel": (96, 64), "input_layernorm.weight": (64,)},
        {"model.embed_tokens.embedding": (255, 64), "lm_head.kernel": (64, 255), "model.norm.weight": (64,)}),
    "gpt2": layers("transformer.h.%d.", {
        "attn.c_attn.kernel": (64, 192), "attn.c_attn.bias": (192,), "attn.c_proj.kernel": (64, 64),
        "mlp.c_fc.kernel": (64, 256), "mlp.c_proj.kernel": (256, 64), "ln_1.scale": (64,)},
        {"transformer.wte.embedding": (50, 64), "transformer.wpe.embedding": (32, 64)}),
    "opt": layers("model.decoder.layers.%d.", {
        "self_attn.q_proj.kernel": (64, 64), "self_attn.k_proj.kernel": (64, 64), "self_attn.v_proj.kernel": (64, 64),
        "self_attn.out_proj.kernel": (64, 64), "fc1.kernel": (64, 256), "fc2.kernel": (256, 64), "fc2.bias": (64,)},
        {"model.decoder.embed_tokens.embedding": (256, 64), "lm_head.kernel": (64, 256)}),
    "gptj": layers("transformer.h.%d.", {
        "attn.q_proj.kernel": (64, 64), "attn.k_proj.kernel": (64, 64), "attn.v_proj.kernel": (64, 64),
        "attn.out_proj.kernel": (64, 64), "mlp.fc_in.kernel": (64, 256), "mlp.fc_out.kernel": (256, 64)},
        {"transformer.wte.embedding": (256, 64), "lm_head.kernel": (64, 256)}),
    "t5": layers("encoder.block.%d.layer.", {
        "0.SelfAttention.q.kernel": (64, 64), "0.SelfAttention.k.kernel": (64, 64),
        "0.SelfAttention.v.kernel": (64, 64), "0.SelfAttention.o.kernel": (64, 64),
        "1.DenseReluDense.wi.kernel": (64, 256), "1.DenseReluDense.wo.kernel": (256, 64)},
        {"shared.embedding": (256, 64), "lm_head.kernel": (64, 256)}),
    "neox": layers("gpt_neox.layers.%d.", {
        "attention.query_key_value.kernel": (64, 192), "attention.dense.kernel": (64, 64),
        "mlp.fc1.kernel": (64, 256), "mlp.fc2.kernel": (256, 64)},
        {"gpt_neox.embed_in.embedding": (256, 64), "embed_out.kernel": (64, 256)}),
}
draw = random.Random(7)
PARTS = ["attn", "Attention", "mlp", "layer", "q", "kv", "out_proj", "fc_in", "wi_0", "wo", "gate", "down_a", "c_attn",
         "o", "lm_head", "header", "conv", "x_out_y", "proj", "v_b", "main", "uplift"]
for i in range(50):
    tree = {}
    for j in range(draw.randint(1, 6)):
        parts = [draw.choice(PARTS) for _ in range(draw.randint(1, 3))]
        last = draw.choice(["kernel", "kernel", "kernel", "kernel", "embedding", "scale"])
        rank = 2 if draw.random() < 0.8 else draw.randint(1, 4)
        tree[".".join(parts + [last])] = tuple(draw.choice([3, 4, 6, 8, 12, 64]) for _ in range(rank))
    CASES["random%d" % i] = tree

print("# redco 0.4.23, tests/golden/make/rules.py")
for name, tree in CASES.items():
    for n in ([4] if name != "llama" else [2, 4, 5]) if not name.startswith("random") else [draw.choice([2, 3, 4])]:
        try:
            rules = dict(space["get_sharding_rules"]({tuple(path.split(".")): types.SimpleNamespace(shape=shape)
                                                      for path, shape in tree.items()}, n))
        except TypeError:                   # its program fails where a third tensor of such a key follows
            continue
        for path, shape in tree.items():
            key = tuple(path.split("."))
            rule = rules[key[-2:] if key[-1] == "kernel" else key[-1:]]
            dim = rule.index("mp") if "mp" in rule else -1
            print(name, n, path, "x".join(map(str, shape)), dim, sep="\t")
