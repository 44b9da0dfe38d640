#!/usr/bin/env python3
"""ports/mace/export.py - writes a mace-torch model as a potential for tinygnn.h

    python3 -m venv venv && venv/bin/pip install mace-torch safetensors
    venv/bin/python ports/mace/export.py model.model potential.safetensors

    --dtype f32     numbers of the file: f64 (the default) or f32

Each matrix is read from its layer by sending unit vectors through it, so e3nn's factors and the constants of normalised
activations are in the numbers of the file. A model with a part that src/gnn/equivariant/mace.h does not have is refused
with a sentence. The format is described in src/gnn/equivariant/mace_file.c."""
import argparse, json, os, sys
os.environ.setdefault('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
import numpy as np, torch
from safetensors.numpy import save_file


class Refused(Exception): pass


def need(holds, sentence):
    if not holds: raise Refused(sentence)


def degrees(irreps, channels, what):
    """[0 .. highest] of channels copies of each degree with natural parity"""
    ls = [ir.l for mul, ir in irreps]
    need(all(mul == channels and ir.p == (-1) ** ir.l for mul, ir in irreps) and ls == list(range(len(ls))),
         f'{what}: {irreps} is not {channels} copies of each degree from 0 on with natural parity')
    return len(ls) - 1


def unit(n, rows): return torch.eye(n, dtype=torch.get_default_dtype())[rows]


def block(irreps, i):
    """first components of the copies of block i"""
    mul, ir = irreps[i]
    start = irreps.slices()[i].start
    return [start + u * ir.dim for u in range(mul)]


def linear(module, i=0, o=0):
    """the matrix from block i to block o of an o3.Linear"""
    rows, columns = block(module.irreps_in, i), block(module.irreps_out, o)
    return module(unit(module.irreps_in.dim, rows))[:, columns]


def skip(module, elements, i, o):
    rows, columns = block(module.irreps_in1, i), block(module.irreps_out, o)
    x = unit(module.irreps_in1.dim, rows)
    return torch.stack([module(x, unit(elements, [z] * len(rows)))[:, columns] for z in range(elements)])


def network(net):
    """matrices of a FullyConnectedNet, the constant of each activation in the next one"""
    ws, by = [], 1.0
    for layer in net.children():
        ws.append(layer.weight / (layer.h_in * layer.var_in / (layer.var_out if layer.act is None else 1)) ** 0.5 * by)
        by = layer.act.cst * layer.var_out ** 0.5 if layer.act is not None else 1.0
    x = torch.randn(5, ws[0].shape[0])
    y = x
    for i, w in enumerate(ws): y = (torch.nn.functional.silu(y) if i else y) @ w
    need(torch.allclose(y, net(x), rtol=1e-4, atol=1e-5), 'the radial network is not made of linear layers and SiLU')
    return ws


def couplings(u, degree, nu):
    """U as sorted terms: component, up to three factors in rising order, polynomial"""
    u = u.double().numpy()
    if degree == 0: u = u[None]
    at = np.argwhere(u)
    v = u[tuple(at.T)]
    key = np.full((len(at), 5), -1, np.int64)
    key[:, 0], key[:, 4] = at[:, 0], at[:, -1]
    key[:, 1:1 + nu] = np.sort(at[:, 1:1 + nu], axis=1)
    key, where = np.unique(key, axis=0, return_inverse=True)
    value = np.bincount(where.reshape(-1), v, len(key))
    keep = np.abs(value) > 1e-13
    return key[keep].astype(np.int32), value[keep]


def export(model, couple=True):
    """(description, tensors) of a mace-torch model"""
    model = model.to('cpu').double().eval()
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(): return collect(model, couple)
    finally:
        torch.set_default_dtype(old)


def collect(model, couple):
    t = {}
    z, layers = len(model.atomic_numbers), len(model.interactions)
    radial = model.radial_embedding
    need(type(model).__name__ in ('MACE', 'ScaleShiftMACE'), f'the model is a {type(model).__name__}')
    need(not hasattr(model, 'joint_embedding'), 'the model embeds more than elements')
    transform = type(getattr(radial, 'distance_transform', None)).__name__
    need(transform in ('NoneType', 'AgnesiTransform'), f'distances are transformed by {transform}')
    need(type(radial.bessel_fn).__name__ == 'BesselBasis', 'the radial basis is not that of Bessel functions')
    need(len(getattr(model, 'heads', [0])) == 1, 'the model has several heads')
    need(not getattr(model, 'use_agnostic_product', False), 'the product does not depend on elements')
    need(not getattr(model, 'use_so3', False), 'the features have no parity')
    average = {float(i.avg_num_neighbors) for i in model.interactions}
    need(len(average) == 1, 'the layers have different averages of neighbours')

    t['energies'] = model.atomic_energies_fn.atomic_energies.reshape(-1)
    t['bessel'] = radial.bessel_fn.bessel_weights.reshape(-1)
    t['embed'] = linear(model.node_embedding.linear)
    channels = t['embed'].shape[1]
    d = {'elements': [int(n) for n in model.atomic_numbers], 'channels': channels, 'layers': layers,
         'bessel': len(t['bessel']), 'power': int(radial.cutoff_fn.p), 'r_max': float(model.r_max),
         'late': int(not getattr(model, 'apply_cutoff', True)), 'average': average.pop(), 'correlation': [],
         'kind': [], 'density': [], 'scale': 1.0, 'shift': 0.0, 'readout': 16, 'hidden': 0, 'last': 0}
    of = [int(n) for n in model.atomic_numbers]
    if hasattr(model, 'pair_repulsion'):
        f = model.pair_repulsion_fn
        c = torch.tensor([0.1818, 0.5099, 0.2802, 0.02817])
        need(torch.allclose(f.c.double(), c.double(), rtol=1e-6), 'the pair repulsion has other constants than ZBL')
        d['zbl'] = int(f.p)
        t['radii'] = f.covalent_radii[of]
        t['zbl'] = torch.stack([f.a_exp, f.a_prefactor])
    if transform == 'AgnesiTransform':
        f = radial.distance_transform
        d['agnesi'] = 1
        t['radii'] = f.covalent_radii[of]
        t['agnesi'] = torch.stack([f.a, f.q, f.p])
    d['l_max'] = degrees(model.interactions[0].target_irreps, channels, 'messages')
    if hasattr(model, 'scale_shift'):
        d['scale'] = float(model.scale_shift.scale.reshape(-1)[0])
        d['shift'] = float(model.scale_shift.shift.reshape(-1)[0])

    for k, (inter, prod) in enumerate(zip(model.interactions, model.products)):
        name = type(inter).__name__
        kinds = {'RealAgnosticInteractionBlock': (0, 0), 'RealAgnosticResidualInteractionBlock': (1, 0),
                 'RealAgnosticDensityInteractionBlock': (0, 1), 'RealAgnosticDensityResidualInteractionBlock': (1, 1)}
        need(name in kinds, f'interactions of kind {name}')
        kind, density = kinds[name]
        d['kind'].append(kind)
        d['density'].append(density)
        before = degrees(inter.node_feats_irreps, channels, 'features')
        after = degrees(prod.linear.irreps_out, channels, 'features')
        need(degrees(inter.target_irreps, channels, 'messages') == d['l_max'], 'the layers have different messages')
        need(inter.linear_up.irreps_out == inter.node_feats_irreps, 'edges have other features than atoms')
        if k: d['hidden'] = before
        if k == layers - 1: d['last'] = after
        for l in range(before + 1): t[f'layer.{k}.up.{l}'] = linear(inter.linear_up, l, l)

        tp = inter.conv_tp                                  # couplings in our order
        of = {}
        for at, ins in enumerate(tp.instructions):
            need(ins.connection_mode == 'uvu', 'a convolution that is not of mode uvu')
            of[(tp.irreps_out[ins.i_out].ir.l, tp.irreps_in1[ins.i_in1].ir.l, tp.irreps_in2[ins.i_in2].ir.l)] = at, ins
        *hidden, last = network(inter.conv_tp_weights)
        last = last.reshape(last.shape[0], len(of), channels)
        order = sorted(of)
        last = torch.stack([last[:, of[p][0]] * (of[p][1].path_weight / (2 * p[0] + 1) ** 0.5) for p in order], 1)
        for i, w in enumerate(hidden + [last.reshape(last.shape[0], -1)]): t[f'layer.{k}.radial.{i}'] = w
        d['radial'] = [w.shape[1] for w in hidden]
        rows = inter.linear.irreps_in
        starts = {}
        for i, (mul, ir) in enumerate(tp.irreps_out): starts[i] = tp.irreps_out.slices()[i].start
        for l in range(d['l_max'] + 1):
            o = [ir.l for mul, ir in inter.linear.irreps_out].index(l)
            parts = []
            for p in order:
                if p[0] != l: continue
                copies = [starts[of[p][1].i_out] + u * (2 * l + 1) for u in range(channels)]
                parts.append(inter.linear(unit(rows.dim, copies))[:, block(inter.linear.irreps_out, o)])
            t[f'layer.{k}.mix.{l}'] = torch.cat(parts)
        if kind:
            for l in range(min(before, after) + 1): t[f'layer.{k}.skip.{l}'] = skip(inter.skip_tp, z, l, l)
        else:
            for l in range(d['l_max'] + 1): t[f'layer.{k}.skip.{l}'] = skip(inter.skip_tp, z, l, l)
        if density: t[f'layer.{k}.density'] = network(inter.density_fn)[0].reshape(-1)

        for l, c in enumerate(prod.symmetric_contractions.contractions):
            weights = [c.weights_max] + list(c.weights)     # of correlation, correlation - 1, .. 1
            for nu in range(1, c.correlation + 1):
                u = c.U_tensors(nu)
                w = weights[c.correlation - nu]
                t[f'layer.{k}.product.{l}.{nu}'] = w if w.numel() else torch.zeros(z, u.shape[-1], channels)
                if couple and f'couple.{l}.{nu}.value' not in t:
                    t[f'couple.{l}.{nu}.index'], t[f'couple.{l}.{nu}.value'] = couplings(u, l, nu)
        d['correlation'].append(c.correlation)
        for l in range(after + 1): t[f'layer.{k}.out.{l}'] = linear(prod.linear, l, l)

    readouts = list(model.readouts)
    only_last = getattr(model, 'use_last_readout_only', False)
    for k in range(layers):
        r = None if only_last and k < layers - 1 else readouts[-1 if only_last else k]
        if r is None:
            t[f'layer.{k}.readout'] = torch.zeros(channels)
        elif hasattr(r, 'linear_1'):
            need(type(r).__name__ == 'NonLinearReadoutBlock', f'a readout of kind {type(r).__name__}')
            need(layers > 1 and k == layers - 1, 'a non-linear readout before the last layer')
            act = [a for a in r.non_linearity.acts if a is not None][0]
            x = torch.randn(7)
            need(torch.allclose(act(x), torch.nn.functional.silu(x) * act.cst), 'a readout without SiLU')
            t[f'layer.{k}.readin'] = linear(r.linear_1)
            t[f'layer.{k}.readout'] = linear(r.linear_2).reshape(-1) * act.cst
            d['readout'] = r.linear_1.irreps_out.dim
        else:
            need(k < layers - 1 or layers == 1, 'a linear readout after the last layer')
            t[f'layer.{k}.readout'] = linear(r.linear).reshape(-1)
    return d, {k: (v.detach().numpy() if torch.is_tensor(v) else v) for k, v in t.items()}


def write(path, d, t, dtype='f64'):
    number = {'f64': np.float64, 'f32': np.float32}[dtype]
    t = {k: np.ascontiguousarray(v if v.dtype == np.int32 else v.astype(number)) for k, v in t.items()}
    save_file(t, path + '.part', {'mace': json.dumps(d, separators=(',', ':'))})
    os.replace(path + '.part', path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('model', help='a file that mace-torch wrote')
    p.add_argument('out', help='the potential, a safetensors file')
    p.add_argument('--dtype', choices=('f64', 'f32'), default='f64', help='numbers of the file')
    a = p.parse_args()
    try:
        d, t = export(torch.load(a.model, map_location='cpu'))
        write(a.out, d, t, a.dtype)
    except (Refused, OSError) as e:
        sys.exit(f'export.py: {a.model}: {e}')
    print(f'{a.out}: {sum(v.size for v in t.values())} numbers, elements {d["elements"]}, r_max {d["r_max"]}')


if __name__ == '__main__':
    main()
