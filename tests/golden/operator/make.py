# tests/golden/operator/make.py - small networks of neuraloperator 2.0.0 in our file format, with input and result
#
#     pip install torch neuraloperator safetensors;  python tests/golden/operator/make.py tests/golden/operator
#
# NAME.safetensors: description and weights; NAME.f32: the input (points x channels), then the result. patches.f32: the
# patches of MultigridPatching2D, two levels and one point of padding, of a field of 32 x 32 points 0, 1, 2 ...
import json, sys
import torch
from safetensors.torch import save_file
from neuralop.models import FNO
from neuralop.training.patching import MultigridPatching2D


def ours(net, d, description):
    t, f = {}, net.state_dict()
    n = description["layers"]

    def planes(w, first):  # complex -> an axis of 2 before axis `first`
        return torch.view_as_real(w).movedim(-1, first).contiguous().float()

    def mlp(to, name):
        for i in (0, 1):
            t[f"{to}.{i}.weight"] = f[f"{name}.fcs.{i}.weight"].flatten(1).contiguous()
            t[f"{to}.{i}.bias"] = f[f"{name}.fcs.{i}.bias"]

    mlp("lift", "lifting")
    mlp("project", "projection")
    for b in range(n):
        s, w = f"block.{b}", f"fno_blocks.convs.{b}.weight"
        mlp(f"{s}.mlp", f"fno_blocks.channel_mlp.{b}")
        t[f"{s}.bias"] = f[f"fno_blocks.convs.{b}.bias"].flatten()
        t[f"{s}.skip"] = f[f"fno_blocks.fno_skips.{b}.conv.weight"].flatten(1).contiguous()
        t[f"{s}.gate"] = f[f"fno_blocks.channel_mlp_skips.{b}.weight"].flatten()
        if description["kind"] == "dense":  # (in, out, modes ...) -> (modes, 2, in, out)
            t[f"{s}.weight"] = planes(f[f"{w}.tensor"].flatten(2).permute(2, 0, 1), 1)
        elif description["kind"] == "tucker":
            core = f[f"{w}.core"]
            t[f"{s}.core"] = planes(core.flatten(2).permute(2, 0, 1), 1)
        elif description["kind"] == "cp":
            t[f"{s}.lambda"] = planes(f[f"{w}.weights"].to(torch.cfloat)[None], 1)
        for k in range(d + 2):
            name = f"{w}.factors.factor_{k}"
            if name in f:
                t[f"{s}.factor.{k}"] = planes(f[name], 0 if description["kind"] == "tt" or k < 2 else 1)
    return t


def write(name, size, modes, n_in, n_out, kind, ratio, **more):
    torch.manual_seed(5)
    d = len(size)
    net = FNO(n_modes=modes, in_channels=n_in, out_channels=n_out, hidden_channels=6, n_layers=2,
              factorization=None if kind == "dense" else kind, rank=ratio, implementation="reconstructed",
              **more).eval()
    for p in net.parameters():  # no gate of ones, no small numbers
        p.data = p.data + 0.1 * torch.randn_like(p.data) if not p.is_complex() else p.data * 1.5
    description = {"d": d, "modes": modes, "in": n_in, "out": n_out, "width": 6, "layers": 2, "kind": kind,
                   "ratio": ratio, "mlp": 3, "norm": int("norm" in more), "tanh": int("stabilizer" in more)}
    save_file(ours(net, d, description), f"{sys.argv[1]}/{name}.safetensors", {"fno": json.dumps(description)})
    x = torch.randn(1, n_in, *size)
    with torch.no_grad():
        y = net(x)
    with open(f"{sys.argv[1]}/{name}.f32", "wb") as out:
        for v in (x, y):
            out.write(v.flatten(2)[0].T.contiguous().numpy().tobytes())


write("dense2d", (12, 10), [6, 4], 2, 1, "dense", 1.0)
write("tucker2d", (12, 10), [6, 4], 1, 2, "tucker", 0.4)
write("cp1d", (16,), [8], 1, 1, "cp", 0.5)
write("tt2d", (8, 12), [4, 6], 1, 1, "tt", 0.5, norm="instance_norm", stabilizer="tanh")
write("tucker3d", (6, 4, 8), [4, 4, 4], 1, 1, "tucker", 0.3)
patching = MultigridPatching2D(model=torch.nn.Linear(1, 1), levels=2, padding_fraction=1 / 32)
p = patching._make_mg_patches(torch.arange(1024.0).reshape(1, 1, 32, 32))
with open(f"{sys.argv[1]}/patches.f32", "wb") as out:  # patches, rows, columns, levels
    out.write(p.permute(0, 2, 3, 1).contiguous().numpy().tobytes())
print(p.shape)
