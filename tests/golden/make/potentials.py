#!/usr/bin/env python3
"""tests/golden/make/potentials.py - energies, forces and stress of small MACE models by mace-torch, in double

    python3 -m venv venv && venv/bin/pip install mace-torch safetensors
    venv/bin/python tests/golden/make/potentials.py

Writes tests/golden/mace.h and tests/golden/mace.safetensors. The weights of the first models are numbers of a formula
that tests/gnn/equivariant/mace.c has too, as our files hold them; here they are divided by what each layer of
mace-torch multiplies its weights by. ports/mace/export.py must give them back. The last model has mace-torch's
own random weights and is written by that script, couplings included."""
import os, sys, warnings
os.environ.setdefault('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
warnings.filterwarnings('ignore')
import ase, numpy as np, torch
top = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..')
sys.path.insert(0, os.path.join(top, 'ports', 'mace'))
torch.set_default_dtype(torch.float64)
import export
from e3nn import o3
from mace import data, modules, tools
import mace


def formula(name, shape):
    """numbers from -1 to 1, over the root of the inputs"""
    n = int(np.prod(shape))
    seed = 2166136261
    for c in name.encode(): seed = (seed ^ c) * 16777619 % 2 ** 32
    with np.errstate(over='ignore'):
        x = np.arange(n, dtype=np.uint64) + np.uint64(seed << 32)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        x = x ^ (x >> np.uint64(31))
    x = (x >> np.uint64(11)).astype(np.float64) * 2.0 ** -52 - 1.0
    fan = shape[-2] if len(shape) > 1 else shape[0]
    return (x * (1.7 / np.sqrt(float(fan)))).reshape(shape)


def model(c, l_max, hidden, layers, correlation, first, other, radial, bessel, late=False, **more):
    cls = modules.interaction_classes
    irreps = '+'.join(f'{c}x{l}{"eo"[l % 2]}' for l in range(hidden + 1))
    return modules.ScaleShiftMACE(
        r_max=4.5, num_bessel=bessel, num_polynomial_cutoff=5, max_ell=l_max, interaction_cls=cls[other],
        interaction_cls_first=cls[first], num_interactions=layers, num_elements=2, hidden_irreps=o3.Irreps(irreps),
        MLP_irreps=o3.Irreps('16x0e'), atomic_energies=np.array([-1.5, -2.25]), avg_num_neighbors=12.0,
        atomic_numbers=[1, 8], correlation=correlation, gate=torch.nn.functional.silu, atomic_inter_scale=0.8,
        atomic_inter_shift=0.1, radial_MLP=radial, apply_cutoff=not late, **more)


def put_linear(module, i, o, w):
    for k, ins in enumerate(module.instructions):
        if (ins.i_in, ins.i_out) != (i, o): continue
        view = module.weight_view_for_instruction(k)
        view.fill_(1.0)
        view.copy_(torch.tensor(w) / export.linear(module, i, o)[0, 0])
        return
    raise KeyError((i, o))


def put_linear_alone(module, i, o, w):
    """of a layer whose other weights must be 0 while it is measured"""
    module.weight.zero_()
    put_linear(module, i, o, w)


def fill(m):
    """gives the model the weights of the formula; returns what export.py must give"""
    d, t = export.export(m, couple=False)
    t = {k: v if k in ('energies', 'bessel', 'radii', 'zbl', 'agnesi') else formula(k, v.shape) for k, v in t.items()}
    put_linear_alone(m.node_embedding.linear, 0, 0, t['embed'])
    for k, (inter, prod) in enumerate(zip(m.interactions, m.products)):
        c = d['channels']
        inter.linear_up.weight.zero_()
        for l in range(len(inter.node_feats_irreps)): put_linear(inter.linear_up, l, l, t[f'layer.{k}.up.{l}'])
        tp = inter.conv_tp
        of = {(tp.irreps_out[i.i_out].ir.l, tp.irreps_in1[i.i_in1].ir.l, tp.irreps_in2[i.i_in2].ir.l): (at, i)
              for at, i in enumerate(tp.instructions)}
        order, by = sorted(of), 1.0
        for i, layer in enumerate(inter.conv_tp_weights.children()):
            w = t[f'layer.{k}.radial.{i}']
            if layer.act is None:
                w3 = w.reshape(len(w), len(of), c).copy()
                w = np.zeros_like(w3)
                for q, p in enumerate(order):
                    w[:, of[p][0]] = w3[:, q] / (of[p][1].path_weight / (2 * p[0] + 1) ** 0.5)
                w = w.reshape(len(w), -1)
            factor = (layer.h_in * layer.var_in / (layer.var_out if layer.act is None else 1)) ** 0.5
            layer.weight.copy_(torch.tensor(w) * factor / by)
            by = layer.act.cst if layer.act is not None else 1.0
        seen = {}
        scale = {}
        for l in range(d['l_max'] + 1):     # all weights of a degree are multiplied by one number
            inter.linear.weight.fill_(1.0)
            rows = inter.linear.irreps_in.slices()
            ins = [i for i in inter.linear.instructions if inter.linear.irreps_out[i.i_out].ir.l == l]
            x = export.unit(inter.linear.irreps_in.dim, [rows[ins[0].i_in].start])
            scale[l] = inter.linear(x)[0, export.block(inter.linear.irreps_out, ins[0].i_out)[0]]
        for p in order:
            l = p[0]
            n = seen.get(l, 0)
            seen[l] = n + 1
            for at, ins in enumerate(inter.linear.instructions):
                start = inter.linear.irreps_in.slices()[ins.i_in].start
                mine = tp.irreps_out.slices()[of[p][1].i_out].start
                mul = inter.linear.irreps_in[ins.i_in].mul
                if inter.linear.irreps_out[ins.i_out].ir.l != l: continue
                copy = (mine - start) // (2 * l + 1)
                if 0 <= copy < mul:
                    inter.linear.weight_view_for_instruction(at)[copy:copy + c].copy_(
                        torch.tensor(t[f'layer.{k}.mix.{l}'][n * c:(n + 1) * c]) / scale[l])
        skips = [int(n.rsplit('.', 1)[1]) for n in t if n.startswith(f'layer.{k}.skip.')]
        for at, ins in enumerate(inter.skip_tp.instructions):
            l = inter.skip_tp.irreps_out[ins.i_out].ir.l
            if l not in skips: continue
            view = inter.skip_tp.weight_view_for_instruction(at)
            view.fill_(1.0)
            factor = export.skip(inter.skip_tp, 2, ins.i_in1, ins.i_out)[0, 0, 0]
            view.copy_(torch.tensor(t[f'layer.{k}.skip.{l}']).transpose(0, 1) / factor)
        if f'layer.{k}.density' in t:
            layer = list(inter.density_fn.children())[0]
            w = torch.tensor(t[f'layer.{k}.density']).reshape(-1, 1)
            layer.weight.fill_(1.0)
            layer.weight.copy_(w / export.network(inter.density_fn)[0][0, 0])
        for l, con in enumerate(prod.symmetric_contractions.contractions):
            weights = [con.weights_max] + list(con.weights)
            for nu in range(1, con.correlation + 1):
                weights[con.correlation - nu].copy_(torch.tensor(t[f'layer.{k}.product.{l}.{nu}']))
        prod.linear.weight.zero_()
        for l in range(len(prod.linear.irreps_out)): put_linear(prod.linear, l, l, t[f'layer.{k}.out.{l}'])
        r = m.readouts[k]
        if hasattr(r, 'linear_1'):
            act = [a for a in r.non_linearity.acts if a is not None][0]
            put_linear_alone(r.linear_1, 0, 0, t[f'layer.{k}.readin'])
            put_linear_alone(r.linear_2, 0, 0, t[f'layer.{k}.readout'].reshape(-1, 1) / act.cst)
        else: put_linear_alone(r.linear, 0, 0, t[f'layer.{k}.readout'].reshape(-1, 1))
    return t


def run(m, numbers, positions, cell, periodic):
    atoms = ase.Atoms(numbers=numbers, positions=positions, cell=cell, pbc=periodic)
    table = tools.AtomicNumberTable([1, 8])
    one = data.AtomicData.from_config(data.config_from_atoms(atoms), z_table=table, cutoff=4.5)
    batch = next(iter(tools.torch_geometric.dataloader.DataLoader([one], batch_size=1)))
    return m(batch.to_dict(), compute_stress=True)


def array(name, x):
    text = [f'{v:.17g}' for v in np.asarray(x).reshape(-1)]
    lines, line = [], ''
    for v in text:
        if len(line) + len(v) + 2 > 112: lines, line = lines + [line], ''
        line += (', ' if line else '') + v
    return f'static const double mace_{name}[] = {{\n    ' + ',\n    '.join(lines + [line]) + '\n};\n'


def main():
    torch.manual_seed(1)
    plain, rest = 'RealAgnosticInteractionBlock', 'RealAgnosticResidualInteractionBlock'
    dense, dense_rest = 'RealAgnosticDensityInteractionBlock', 'RealAgnosticDensityResidualInteractionBlock'
    cell = np.array([[3.6, 0, 0], [0.9, 4.1, 0.2], [-0.5, 0.4, 5.3]])
    rng = np.random.default_rng(5)
    grid = np.array([[i, j, k] for i in range(2) for j in range(2) for k in range(2)])[:6]
    places = ((grid + 0.35 * rng.random((6, 3))) / 2).round(6) @ cell
    numbers = [1, 8, 1, 1, 8, 1]
    models = {
        'scalars': (dict(c=128, l_max=2, hidden=0, layers=2, correlation=2, first=plain, other=rest, radial=[64] * 3,
                         bessel=8), (False, False, False)),
        'vectors': (dict(c=16, l_max=2, hidden=1, layers=2, correlation=3, first=plain, other=rest, radial=[64] * 3,
                         bessel=8), (True, True, True)),
        'kinds': (dict(c=5, l_max=3, hidden=2, layers=3, correlation=2, first=dense_rest, other=dense, radial=[12],
                       bessel=6, late=True, pair_repulsion=True, distance_transform='Agnesi'), (True, True, False)),
        'file': (dict(c=2, l_max=3, hidden=1, layers=2, correlation=3, first=plain, other=dense_rest, radial=[4],
                      bessel=4), (True, False, True))
    }
    out = [f'/* tests/golden/mace.h - energies (of each atom), forces and stress by mace-torch {mace.__version__}, '
           f'torch {torch.__version__.split("+")[0]}, in double,\n * written by tests/golden/make/potentials.py. '
           'Periodic: scalars not, vectors in three directions, kinds in the first\n * two (its positions are half of '
           'these), file in the first and the third. */\n']
    out.append(array('cell', cell) + array('positions', places))
    for name, (d, periodic) in models.items():
        m = model(**d)
        if name == 'file':
            description, t = export.export(m)
            export.write(os.path.join(top, 'tests', 'golden', 'mace.safetensors'), description, t)
            os.chmod(os.path.join(top, 'tests', 'golden', 'mace.safetensors'), 0o644)
        else:
            with torch.no_grad(): want = fill(m)
            got = export.export(m, couple=False)[1]
            for k in want: assert np.allclose(got[k], want[k], rtol=1e-11, atol=1e-13), (name, k)
        r = run(m, numbers, places * (0.5 if name == 'kinds' else 1), cell, periodic)
        out.append(array(f'{name}_atoms', r['node_energy'].detach()) + array(f'{name}_forces', r['forces'].detach()))
        if all(periodic): out.append(array(f'{name}_stress', r['stress'].detach()))
    open(os.path.join(top, 'tests', 'golden', 'mace.h'), 'w').write('\n'.join(out))


main()
