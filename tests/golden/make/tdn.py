#!/usr/bin/env python3
"""tests/golden/make/tdn.py - energies and forces of a small potential by numpy, in double: tests/golden/tdn.tsv

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python tests/golden/make/tdn.py > tests/golden/tdn.tsv

The model of the head comment of src/gnn/equivariant/tdn.c, written from its formulas with loops over edges, and forces
as differences of the energy. Couplings are found as null vectors of the condition that a coupling must not change
under rotations, with rotation matrices of degree 2 from the harmonics themselves; their sign is fixed by the first
number that is not 0, as in e3nn for these degrees. Parameters are the sines of tests/gnn/equivariant/tdn.c. Columns:
smooth, place (two energies, then the forces), value."""
import numpy as np
from math import sin, sqrt, pi

L, C, BLOCKS, HEADS, TYPES, BASIS, HIDDEN, CUT, DEGREE, ATOMS = 2, 4, 2, 2, 3, 5, 4, 2.0, 4.0, 4.0
D = (L + 1) ** 2


def harmonics(v):
    x, y, z = v / np.linalg.norm(v)
    return np.array([1, sqrt(3) * x, sqrt(3) * y, sqrt(3) * z, sqrt(15) * x * z, sqrt(15) * x * y,
                     sqrt(5) * (y * y - (x * x + z * z) / 2), sqrt(15) * y * z, sqrt(15) / 2 * (z * z - x * x)])


rng = np.random.default_rng(1)
POINTS = rng.normal(size=(40, 3))


def turned(r):
    """D of degrees 0, 1, 2: Y(R v) = D Y(v) at many points."""
    a, b = np.array([harmonics(p) for p in POINTS]), np.array([harmonics(r @ p) for p in POINTS])
    return [np.linalg.lstsq(a[:, l * l:(l + 1) ** 2], b[:, l * l:(l + 1) ** 2], rcond=None)[0].T for l in range(3)]


def coupling(l1, l2, l3):
    n, rows = [2 * l + 1 for l in (l1, l2, l3)], []
    for _ in range(3):
        q, _r = np.linalg.qr(rng.normal(size=(3, 3)))
        d = turned(q * np.linalg.det(q))
        rows.append(np.kron(np.kron(d[l1], d[l2]), d[l3]) - np.eye(np.prod(n)))
    _u, s, v = np.linalg.svd(np.concatenate(rows))
    assert s[-1] < 1e-10 and (len(s) == 1 or s[-2] > 1e-3)
    return v[-1].reshape(n)


def sign(l1, l2, l3, c):
    """The first number that is not 0, and its sign in the worked numbers of e3nn's table."""
    first = [x for x in c.ravel() if abs(x) > 1e-9][0]
    return c * np.sign(first) * SIGNS[(l1, l2, l3)]


SIGNS = {}
M = np.zeros((D, D, D))


def table(signs):
    SIGNS.update(signs)
    for l1 in range(L + 1):
        for l2 in range(L + 1):
            for l3 in range(abs(l1 - l2), min(l1 + l2, L) + 1):
                M[l1 * l1:(l1 + 1) ** 2, l2 * l2:(l2 + 1) ** 2, l3 * l3:(l3 + 1) ** 2] = \
                    sign(l1, l2, l3, coupling(l1, l2, l3))


# signs of the first number that is not 0 in e3nn's wigner_3j (0.5.1), read from its output
table({(0, 0, 0): 1, (0, 1, 1): 1, (0, 2, 2): 1, (1, 0, 1): 1, (1, 1, 0): 1, (1, 1, 1): 1, (1, 1, 2): -1,
       (1, 2, 1): 1, (1, 2, 2): -1, (2, 0, 2): 1, (2, 1, 1): 1, (2, 1, 2): 1, (2, 2, 0): 1, (2, 2, 1): -1,
       (2, 2, 2): -1})


class Params:
    """name -> array, in the order of the C code."""
    def __init__(self):
        self.n, self.p = 0, {}

    def add(self, name, *dim):
        k = np.arange(int(np.prod(dim)))
        x = 0.7 * np.sin(1.7 * self.n + 0.9 * k + 0.3)
        if name == 'basis.mean': x = (k + 0.5) / 5
        elif name == 'basis.width': x = 0.25 + 0.01 * k
        elif name == 'basis.scale' or 'gain' in name: x = 1 + 0.2 * x
        self.p[name] = x.reshape(dim)
        self.n += 1

    def radial(self, place, out):
        for i, k in ((0, BASIS), (1, HIDDEN)):
            self.add(f'{place}radial.{i}.weight', HIDDEN, k)
            for what in ('bias', 'gain', 'shift'): self.add(f'{place}radial.{i}.{what}', HIDDEN)
        self.add(f'{place}radial.2.weight', out, HIDDEN)
        self.add(f'{place}radial.2.offset', out)


P, ALL = Params(), C * C * (L + 1)
P.add('types', TYPES, C)
for one in ('scale', 'shift'): P.add('basis.' + one, 1)
for one in ('mean', 'width'): P.add('basis.' + one, BASIS)
P.radial('degree.', C)
for b in range(BLOCKS):
    at = f'block.{b}.'
    P.add(at + 'norm.0.gain', L + 1, C)
    P.add(at + 'norm.1.gain', L + 1, C)
    P.radial(at, 2 * C)
    for one, n in (('src.linear', ALL), ('dst.linear', ALL), ('dst.bias', C), ('mix.linear', ALL + 2 * C * C),
                   ('mix.bias', 3 * C), ('attention', C), ('out.linear', ALL), ('out.bias', C),
                   ('inner.0.linear', 2 * ALL + 2 * C * C), ('inner.0.bias', 4 * C), ('inner.1.linear', 2 * ALL),
                   ('inner.1.bias', C)):
        P.add(at + one, n)
P.add('norm.gain', L + 1, C)
P.add('energy.0.weight', C, C)
P.add('energy.0.bias', C)
P.add('energy.1.weight', 1, C)
P.add('energy.1.bias', 1)
p = P.p


def sigmoid(x): return 1 / (1 + np.exp(-x))
def silu(x): return x * sigmoid(x)


def degrees(x): return [x[l * l:(l + 1) ** 2] for l in range(L + 1)]


def linear(x, w, bias, scalars, others):
    """x: list of (2 l + 1, C in); the result likewise, with `scalars` channels at l = 0."""
    out, at = [], 0
    for l in range(L + 1):
        n_in, n_out = x[l].shape[1], scalars if l == 0 else others
        out.append(x[l] @ w[at:at + n_in * n_out].reshape(n_in, n_out) / sqrt(n_in))
        at += n_in * n_out
    assert at == len(w)
    if bias is not None: out[0] = out[0] + bias
    return out


def norm(x, gain):
    x = degrees(x)
    x[0] = x[0] - x[0].mean()
    return [x[l] / sqrt((x[l] ** 2).mean() + 1e-5) * gain[l] for l in range(L + 1)]


def radial(g, place):
    for i in (0, 1):
        q = place + f'radial.{i}.'
        g = p[q + 'weight'] @ g + p[q + 'bias']
        g = (g - g.mean()) / sqrt(g.var() + 1e-5) * p[q + 'gain'] + p[q + 'shift']
        g = silu(g)
    return p[place + 'radial.2.weight'] @ g + p[place + 'radial.2.offset']


def product(x, y, w): return np.einsum('ijk,ic,j->kc', M, x, y) * w


def gate(x, c):
    return np.concatenate([silu(x[0][:, :c])] + [t * sigmoid(x[0][:, c:2 * c]) for t in x[1:]])


def attention(x, edges, at, smooth):
    total = np.zeros((D, C))
    scores, values = [], []
    for j, y, g, q in edges['of']:
        w = radial(g, at)
        m = np.concatenate(linear(x[j], p[at + 'src.linear'], None, C, C)) + \
            np.concatenate(linear(x[edges['i']], p[at + 'dst.linear'], p[at + 'dst.bias'], C, C))
        m = linear(degrees(product(m, y, w[:C])), p[at + 'mix.linear'], p[at + 'mix.bias'], 3 * C, C)
        z = m[0][0, :C]
        leaky = 1.2 / 2 * z + 0.8 / 2 * z * (2 * sigmoid(z) - 1)
        s = (leaky * p[at + 'attention']).reshape(HEADS, -1).sum(1)
        scores.append(s + 3 * np.log(q) if smooth else s)
        v = gate([m[0][:, C:]] + m[1:], C)
        values.append(product(v, y, w[C:] * (q ** 3 if smooth else 1)))
    if scores:
        a = np.exp(np.array(scores))
        a /= a.sum(0)
        for alpha, v in zip(a, values): total += v * np.repeat(alpha, C // HEADS)
    return np.concatenate(linear(degrees(total), p[at + 'out.linear'], p[at + 'out.bias'], C, C))


def energy(types, pos, smooth):
    n, edges, x = len(types), [], []
    for i in range(n):
        of = []
        for j in range(n):
            v = pos[j] - pos[i]
            d = np.linalg.norm(v)
            if i == j or d >= CUT: continue
            sd = abs(p['basis.width']) + 1e-5
            g = np.exp(-((p['basis.scale'] * d / CUT + p['basis.shift'] - p['basis.mean']) / sd) ** 2 / 2) / \
                (sqrt(2 * pi) * sd)
            of.append((j, harmonics(v), g, 1 - (d / CUT) ** 2))
        edges.append({'i': i, 'of': of})
    ones = np.zeros((D, C))
    ones[0] = 1
    for i in range(n):
        t = sum((product(ones, y, radial(g, 'degree.') * (q ** 3 if smooth else 1)) for _j, y, g, q in edges[i]['of']),
                np.zeros((D, C))) / sqrt(DEGREE)
        t[0] += p['types'][types[i]]
        x.append(t)
    for b in range(BLOCKS):
        at = f'block.{b}.'
        h = [norm(t, p[at + 'norm.0.gain']) for t in x]
        x = [t + attention(h, e, at, smooth) for t, e in zip(x, edges)]
        for i in range(n):
            h = linear(norm(x[i], p[at + 'norm.1.gain']), p[at + 'inner.0.linear'], p[at + 'inner.0.bias'], 4 * C,
                       2 * C)
            h = linear(degrees(gate(h, 2 * C)), p[at + 'inner.1.linear'], p[at + 'inner.1.bias'], C, C)
            x[i] = x[i] + np.concatenate(h)
    total = 0.0
    for t in x:
        s = norm(t, p['norm.gain'])[0][0]
        s = silu(p['energy.0.weight'] @ s + p['energy.0.bias'])
        total += (p['energy.1.weight'] @ s + p['energy.1.bias'])[0]
    return total / sqrt(ATOMS)


TYPE = [0, 1, 2, 1, 0, 2]
POS = np.array([0, 0, 0, 1.1, 0.25, -0.5, -0.375, 1.25, 0.5, 0.5, -0.75, 1.25, -1, -0.25, 0.5, 0.25, 0.75,
                -1.25]).reshape(6, 3)
if __name__ == '__main__':
    print('# smooth, place, value: tests/golden/make/tdn.py')
    for smooth in (0, 1):
        out = [energy(TYPE[:3], POS[:3], smooth), energy(TYPE[3:], POS[3:], smooth)]
        for k in range(18):
            a, h, mol = k // 3, 1e-4, slice(0, 3) if k < 9 else slice(3, 6)
            e = []
            for step in (-2, -1, 1, 2):
                q = POS.copy()
                q[a, k % 3] += step * h
                e.append(energy(TYPE[mol], q[mol], smooth))
            out.append(-(e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * h))
        for i, v in enumerate(out): print(f'{smooth}\t{i}\t{v:.12g}')
