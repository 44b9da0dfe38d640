#!/usr/bin/env python3
"""Numbers of one-shot pruning by numpy in double, written from the papers: SparseGPT (E. Frantar, D. Alistarh, 2023,
arXiv 2301.00774, algorithm 1), Wanda (M. Sun et al., 2023, arXiv 2306.11695, eq. 1), magnitude. It shares no code with
the library. H^-1 is formed as a matrix here, and its Cholesky factor is taken as in the paper.

    env/bin/python tests/golden/make/oneshot.py > tests/golden/oneshot.tsv

    loss WAY PATTERN L Z    12 x 40 weights, 300 inputs with a common part: tr(D H D^T), and how many are zero
    row WAY PATTERN V...    the last row"""
import numpy as np

R, N, T = 12, 40, 300


def numbers(seed, n):
    x, out = seed, np.empty(n)
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2**32
        out[i] = float((x >> 16) - 32768) / 32768.0
    return out


x = (numbers(21, T * N).reshape(T, N) + numbers(22, T)[:, None]) * (1 + np.arange(N) % 5)[None]
x = x.astype(np.float32).astype(float)
w0 = numbers(23, R * N).reshape(R, N)
H = x.T @ x


def smallest(score, count):
    order = np.argsort(score.reshape(-1), kind='stable')
    gone = np.zeros(score.size, bool)
    gone[order[:count]] = True
    return gone.reshape(score.shape)


def groups(score, zeros, of):
    s = score.reshape(-1, of)
    gone = np.zeros(s.shape, bool)
    for k, row in enumerate(s):
        gone[k, np.argsort(row, kind='stable')[:zeros]] = True
    return gone.reshape(score.shape)


def half_up(v):
    return int(v + 0.5)


def magnitude(share, zeros, of):
    s = np.abs(w0)
    return np.where(groups(s, zeros, of) if of else smallest(s, half_up(share * s.size)), 0, w0)


def wanda(share, zeros, of):
    s = np.abs(w0) * np.sqrt(np.diag(H))[None]
    if of:
        return np.where(groups(s, zeros, of), 0, w0)
    return np.where(np.stack([smallest(r, half_up(share * N)) for r in s]), 0, w0)


def sparsegpt(share, zeros, of, block):
    w = w0.copy()
    inverse = np.linalg.inv(H + 0.01 * np.mean(np.diag(H)) * np.eye(N))
    u = np.linalg.cholesky(inverse).T       # upper, inverse = u^T u
    d = np.diag(u)
    for i1 in range(0, N, block):
        i2 = min(i1 + block, N)
        if not of:
            part = w[:, i1:i2]
            gone = smallest(part ** 2 / d[i1:i2][None] ** 2, half_up(share * part.size))
        else:
            gone = np.zeros((R, i2 - i1), bool)
        error = np.zeros((R, i2 - i1))
        for i in range(i1, i2):
            if of and i % of == 0:
                gone[:, i - i1:i - i1 + of] = groups(w[:, i:i + of] ** 2 / d[i:i + of][None] ** 2, zeros, of)
            q = np.where(gone[:, i - i1], 0, w[:, i])
            e = (w[:, i] - q) / d[i]
            w[:, i:i2] -= np.outer(e, u[i, i:i2])
            w[:, i] = q
            error[:, i - i1] = e
        w[:, i2:] -= error @ u[i1:i2, i2:]
    return w


for way, f in (('magnitude', magnitude), ('wanda', wanda), ('sparsegpt', lambda *a: sparsegpt(*a, 16))):
    for name, how in (('0.5', (0.5, 0, 0)), ('0.7', (0.7, 0, 0)), ('2:4', (0, 2, 4)), ('5:8', (0, 5, 8))):
        w = f(*how)
        print('loss\t%s\t%s\t%.9g\t%d' % (way, name, np.trace((w - w0) @ H @ (w - w0).T), (w == 0).sum()))
        print('row\t%s\t%s\t%s' % (way, name, '\t'.join('%.7g' % v for v in w[-1])))
