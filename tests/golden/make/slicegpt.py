#!/usr/bin/env python3
"""Numbers of SliceGPT (S. Ashkboos et al., 2024, arXiv 2401.15024) by numpy in double, written from the formulas of the
paper: gains fused, matrices rotated and cut, a shortcut matrix for each half, and a forward pass that multiplies by
them. It shares no code with the library, and nothing of the paper's program.

    python3 -m venv env && env/bin/pip install numpy
    env/bin/python tests/golden/make/slicegpt.py > tests/golden/slicegpt.tsv

    toy D E         two networks with residuals, 16 channels, hidden width 32, signals of rank 6 and 0.05 noise, 200 rows:
                    relative error E of the logits with D channels
    lost K S V...   examples/models/story-small.gguf: share of the energy of each signal that is deleted, share K kept
    logit K P V...  its logits after slicing, at position P of 24 tokens, of every eighth token of the vocabulary
    full P V...     the same without slicing"""
import math
import struct

import numpy as np


def numbers(seed, n):
    """a linear congruence, its upper 16 bits as numbers in -1 .. 1"""
    x, out = seed, np.empty(n)
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2**32
        out[i] = float((x >> 16) - 32768) / 32768.0
    return out


def axes(u):
    c = u.T @ u
    c += 0.01 * np.mean(np.diag(c)) * np.eye(len(c))
    return np.linalg.eigh(c)[1][:, ::-1]


def rms(x, width, eps):
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) / width + eps)


# ---- the toy -----------------------------------------------------------------------------------------------------

def toy(d):
    D, F, T, V, eps = 16, 32, 200, 24, 1e-5
    x = numbers(1, T * 6).reshape(T, 6) @ numbers(2, 6 * D).reshape(6, D) + 0.05 * numbers(3, T * D).reshape(T, D)
    up = [0.5 * numbers(4 + k, F * D).reshape(F, D) for k in range(2)]
    down = [0.25 * numbers(6 + k, D * F).reshape(D, F) for k in range(2)]
    head = numbers(8, V * D).reshape(V, D)

    def net(h):
        return np.maximum(h, 0)

    want = x
    for k in range(2):
        want = want + net(rms(want, D, eps) @ up[k].T) @ down[k].T
    want = rms(want, D, eps) @ head.T
    q = axes(x)
    x = x @ q[:, :d]
    for k in range(2):
        h = net(rms(x, D, eps) @ (up[k] @ q)[:, :d].T)
        s = q.T[:d]
        to = axes(x @ s + h @ down[k].T)
        wide = d if k == 0 else D
        x = x @ (s @ to[:, :wide]) + h @ (to.T @ down[k])[:wide].T
        q = to
    got = rms(x, D, eps) @ (head @ q).T
    return np.linalg.norm(got - want) / np.linalg.norm(want)


for d in (16, 12, 8, 6):
    print('toy\t%d\t%.9g' % (d, toy(d)))

# ---- the story model ---------------------------------------------------------------------------------------------

data = open('examples/models/story-small.gguf', 'rb').read()
at = 24
SIZE = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}


def take(form):
    global at
    v = struct.unpack_from('<' + form, data, at)[0]
    at += struct.calcsize('<' + form)
    return v


def text():
    global at
    n = take('Q')
    at += n
    return data[at - n:at]


def value(kind):
    if kind == 8:
        return text()
    if kind == 9:
        item, n = take('I'), take('Q')
        return [value(item) for _ in range(n)]
    return take(SIZE[kind])


n_tensors, n_meta = struct.unpack_from('<QQ', data, 8)
meta = {}
for _ in range(n_meta):
    key = text().decode()
    meta[key] = value(take('I'))
where = {}
for _ in range(n_tensors):
    key = text().decode()
    dims = [take('Q') for _ in range(take('I'))]
    where[key] = (dims, take('I'), take('Q'))
base = (at + 31) // 32 * 32


def tensor(key):
    dims, kind, offset = where[key]
    n, p = math.prod(dims), base + offset
    if kind == 0:
        x = np.frombuffer(data, '<f4', n, p).astype(float)
    else:                                   # Q8_0: a half and 32 signed bytes
        b = np.frombuffer(data, np.uint8, n // 32 * 34, p).reshape(-1, 34)
        scale = b[:, :2].copy().view('<f2').astype(float)
        x = (scale * b[:, 2:].copy().view(np.int8).astype(float)).reshape(-1)
    return x.reshape(dims[::-1])


D, L = meta['llama.embedding_length'], meta['llama.block_count']
H, KV = meta['llama.attention.head_count'], meta['llama.attention.head_count_kv']
EPS, BASE, V = meta['llama.attention.layer_norm_rms_epsilon'], meta['llama.rope.freq_base'], 544
d_head = D // H


def tokens(seed, n):
    x, out = seed, []
    for _ in range(n):
        x = (x * 1103515245 + 12345) % 2**32
        out.append((x >> 16) % V)
    return out


def turned(x):
    """neighbours rotated by position; x (T, heads, d_head)"""
    angle = np.arange(len(x))[:, None] * BASE ** (-2.0 * np.arange(d_head // 2) / d_head)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., 0::2], x[..., 1::2]
    y = np.empty_like(x)
    y[..., 0::2], y[..., 1::2] = a * c - b * s, a * s + b * c
    return y


def attend(h, wq, wk, wv):
    """heads of the attention before the last matrix; h (T, width)"""
    T = len(h)
    q, k = turned((h @ wq.T).reshape(T, H, -1)), turned((h @ wk.T).reshape(T, KV, -1))
    v, o = (h @ wv.T).reshape(T, KV, -1), np.empty((T, H, d_head))
    hide = np.triu(np.full((T, T), -np.inf), 1)
    for i in range(H):
        g = i // (H // KV)
        z = q[:, i] @ k[:, g].T / math.sqrt(d_head) + hide
        p = np.exp(z - z.max(axis=1, keepdims=True))
        o[:, i] = p / p.sum(axis=1, keepdims=True) @ v[:, g]
    return o.reshape(T, -1)


def silu(x):
    return x / (1 + np.exp(-x))


def fused(layer, name, gain):
    return tensor('blk.%d.%s.weight' % (layer, name)) * tensor('blk.%d.%s.weight' % (layer, gain))[None]


def plain(i, name):
    return tensor('blk.%d.%s.weight' % (i, name))


def sliced(windows, d):
    """the matrices of the sliced model, and the share of the energy that each basis deletes"""
    embd, lost, layers = tensor('token_embd.weight'), [], []

    def basis(us):
        u = np.concatenate(us)
        q = axes(u)
        lost.append(1 - ((u @ q[:, :d]) ** 2).sum() / (u ** 2).sum())
        return q

    q = basis([embd[w] for w in windows])
    first, xs = (embd @ q)[:, :d], None
    xs = [first[w] for w in windows]
    for i in range(L):
        last = D if i == L - 1 else d
        m = {k: (fused(i, 'attn_' + k, 'attn_norm') @ q)[:, :d] for k in 'qkv'}
        o, s = plain(i, 'attn_output'), q.T[:d]
        mid = [attend(rms(x, D, EPS), m['q'], m['k'], m['v']) for x in xs]
        q2 = basis([x @ s + a @ o.T for x, a in zip(xs, mid)])
        m['o'], m['s1'] = (q2.T @ o)[:d], s @ q2[:, :d]
        xs = [x @ m['s1'] + a @ m['o'].T for x, a in zip(xs, mid)]
        m['gate'] = (fused(i, 'ffn_gate', 'ffn_norm') @ q2)[:, :d]
        m['up'] = (fused(i, 'ffn_up', 'ffn_norm') @ q2)[:, :d]
        down, s = plain(i, 'ffn_down'), q2.T[:d]
        mid = [silu(rms(x, D, EPS) @ m['gate'].T) * (rms(x, D, EPS) @ m['up'].T) for x in xs]
        q = basis([x @ s + a @ down.T for x, a in zip(xs, mid)])
        if last == D:
            lost[-1] = 0.0
        m['down'], m['s2'] = (q.T @ down)[:last], s @ q[:, :last]
        xs = [x @ m['s2'] + a @ m['down'].T for x, a in zip(xs, mid)]
        layers.append(m)
    head = embd * tensor('output_norm.weight')[None] @ q
    return first, layers, head, lost


def logits(model, t):
    first, layers, head, _ = model
    x = first[t]
    for m in layers:
        x = x @ m['s1'] + attend(rms(x, D, EPS), m['q'], m['k'], m['v']) @ m['o'].T
        h = rms(x, D, EPS)
        x = x @ m['s2'] + (silu(h @ m['gate'].T) * (h @ m['up'].T)) @ m['down'].T
    return rms(x, D, EPS) @ head.T


all_tokens, probe = tokens(7, 1024), tokens(11, 24)
windows = [all_tokens[i:i + 64] for i in range(0, 1024, 64)]
for keep in (1.0, 0.75, 0.5):
    model = sliced(windows, int(keep * D) // 8 * 8)
    y = logits(model, probe)
    if keep == 1.0:
        for p in (0, 11, 23):
            print('full\t%d\t%s' % (p, '\t'.join('%.7g' % v for v in y[p, ::8])))
        continue
    print('lost\t%g\t%d\t%s' % (keep, len(model[3]), '\t'.join('%.7g' % v for v in model[3])))
    for p in (0, 11, 23):
        print('logit\t%g\t%d\t%s' % (keep, p, '\t'.join('%.7g' % v for v in y[p, ::8])))
