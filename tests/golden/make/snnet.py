#!/usr/bin/env python3
"""Numbers of SN-Net (Z. Pan, J. Cai, B. Zhuang, 2023, arXiv 2302.06586) by numpy in double: the two story models read a
text, a ridge regression by normal equations maps the streams of the narrow one to those of the wide one, and the
stitched networks read other tokens. It shares no code with the library, and nothing of the authors' program.

    python3 -m venv env && env/bin/pip install numpy
    env/bin/python tests/golden/make/snnet.py > tests/golden/snnet.tsv

    deit FLOPS PARAMS   network by network, in order: the published result file of the authors,
                        stitching_deit/results/stitches_res.txt of github.com/ziplab/SN-Net at c2dcf30. With a copy of
                        that file as the first argument these lines are written anew; without one they are kept
    left X              mean share of the squares that the stitches leave
    logit K P V...      logits of network K at position P of 24 tokens, of every 16th token of the vocabulary"""
import json
import math
import struct
import sys

import numpy as np


class Model:
    """a GGUF file of the architecture llama with F32 and Q8_0 tensors"""
    SIZE = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q', 12: 'd'}

    def __init__(self, path):
        self.data, self.at = open(path, 'rb').read(), 24
        n_tensors, n_meta = struct.unpack_from('<QQ', self.data, 8)
        meta = {}
        for _ in range(n_meta):
            key = self.text().decode()
            meta[key] = self.value(self.take('I'))
        self.where = {}
        for _ in range(n_tensors):
            key = self.text().decode()
            dims = [self.take('Q') for _ in range(self.take('I'))]
            self.where[key] = (dims, self.take('I'), self.take('Q'))
        self.base = (self.at + 31) // 32 * 32
        self.D, self.L = meta['llama.embedding_length'], meta['llama.block_count']
        self.H, self.KV = meta['llama.attention.head_count'], meta['llama.attention.head_count_kv']
        self.eps, self.turn = meta['llama.attention.layer_norm_rms_epsilon'], meta['llama.rope.freq_base']
        self.embd = self.tensor('token_embd')

    def take(self, form):
        v = struct.unpack_from('<' + form, self.data, self.at)[0]
        self.at += struct.calcsize('<' + form)
        return v

    def text(self):
        n = self.take('Q')
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            item, n = self.take('I'), self.take('Q')
            return [self.value(item) for _ in range(n)]
        return self.take(self.SIZE[kind])

    def tensor(self, key):
        dims, kind, offset = self.where[key + '.weight']
        n, p = math.prod(dims), self.base + offset
        if kind == 0:
            x = np.frombuffer(self.data, '<f4', n, p).astype(float)
        else:                               # Q8_0: a half and 32 signed bytes
            b = np.frombuffer(self.data, np.uint8, n // 32 * 34, p).reshape(-1, 34)
            x = b[:, :2].copy().view('<f2').astype(float) * b[:, 2:].copy().view(np.int8).astype(float)
        return x.reshape(dims[::-1])

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps) * self.tensor(name)

    def turned(self, x):
        d = x.shape[-1]
        angle = np.arange(len(x))[:, None] * self.turn ** (-2.0 * np.arange(d // 2) / d)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., 0::2], y[..., 1::2] = a * c - b * s, a * s + b * c
        return y

    def layer(self, x, i):
        name, T = 'blk.%d.' % i, len(x)
        h = self.norm(x, name + 'attn_norm')
        q, k, v = ((h @ self.tensor(name + 'attn_' + c).T).reshape(T, n, -1)
                   for c, n in (('q', self.H), ('k', self.KV), ('v', self.KV)))
        q, k = self.turned(q), self.turned(k)
        out = np.empty_like(q)
        hide = np.triu(np.full((T, T), -np.inf), 1)
        for j in range(self.H):
            g = j // (self.H // self.KV)
            z = q[:, j] @ k[:, g].T / math.sqrt(q.shape[-1]) + hide
            p = np.exp(z - z.max(axis=1, keepdims=True))
            out[:, j] = p / p.sum(axis=1, keepdims=True) @ v[:, g]
        x = x + out.reshape(T, -1) @ self.tensor(name + 'attn_output').T
        h = self.norm(x, name + 'ffn_norm')
        gate = h @ self.tensor(name + 'ffn_gate').T
        up = h @ self.tensor(name + 'ffn_up').T
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.tensor(name + 'ffn_down').T

    def streams(self, windows):
        """before each layer, and after the last"""
        out = [[self.embd[w] for w in windows]]
        for i in range(self.L):
            out.append([self.layer(x, i) for x in out[-1]])
        return [np.concatenate(x) for x in out]


def tokens(seed, n):
    x, out = seed, []
    for _ in range(n):
        x = (x * 1103515245 + 12345) % 2**32
        out.append((x >> 16) % 544)
    return out


def deit():
    if len(sys.argv) > 1:
        rows = [json.loads(s) for s in open(sys.argv[1]) if s.strip()]
        return ['deit\t%d\t%d' % (r['flops'], r['params']) for r in rows]
    return [s.rstrip('\n') for s in open('tests/golden/snnet.tsv') if s.startswith('deit')]


lines = deit()
small, large = Model('examples/models/story-small.gguf'), Model('examples/models/story.gguf')
text = tokens(7, 512)
windows = [text[i:i + 64] for i in range(0, len(text), 64)]
front, back = small.streams(windows), large.streams(windows)
pairs, seen, shared = [], set(), {}
for i in range(small.L - 1):
    for f in (i, i + 1):
        for e in (i, i + 1):
            if (f, e) not in seen:
                seen.add((f, e))
                pairs.append((f, e, i))
left = []
for f, e, i in pairs:
    A, B = np.hstack([front[f + 1], np.ones((len(text), 1))]), back[e]
    M = np.linalg.solve(A.T @ A + 1e-6 * np.trace(A.T @ A) / A.shape[1] * np.eye(A.shape[1]), A.T @ B)
    left.append(((A @ M - B) ** 2).sum() / ((B - B.mean(axis=0)) ** 2).sum())
    shared.setdefault(i, []).append(M)
lines.append('left\t%.9g' % np.mean(left))
probe = tokens(11, 24)
for k in (2, 5, 8):
    f, e, i = pairs[k - 2]
    M = np.mean(shared[i], axis=0)
    x = small.embd[probe]
    for j in range(f + 1):
        x = small.layer(x, j)
    x = x @ M[:-1] + M[-1]
    for j in range(e, large.L):
        x = large.layer(x, j)
    y = large.norm(x, 'output_norm') @ large.embd.T
    for p in (0, 11, 23):
        lines.append('logit\t%d\t%d\t%s' % (k, p, '\t'.join('%.7g' % v for v in y[p, ::16])))
print('\n'.join(lines))
