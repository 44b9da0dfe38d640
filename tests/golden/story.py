#!/usr/bin/env python3
"""The text that examples/models/story.gguf gives, by a plain pass in double over its weights: no library, no vectors,
no cache of rounded numbers. Written from the formulas of the llama family (RMS norm, rotated pairs of neighbours,
grouped heads, SwiGLU) and the layout of Q8_0 (a half float and 32 signed bytes).

    tests/golden/story.py "Once upon a time" 40 > tests/golden/story.tsv

A line for each position: the token there, and the logits after it: the best token and its logit, the second and its.
From the end of the prompt on each token is the best of the line before."""
import math
import struct
import sys

data = open('examples/models/story.gguf', 'rb').read()
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
    name = text().decode()
    meta[name] = value(take('I'))
tensors = {}
for _ in range(n_tensors):
    name = text().decode()
    dims = [take('Q') for _ in range(take('I'))]
    tensors[name] = (dims, take('I'), take('Q'))
base = (at + 31) // 32 * 32


def load(name):
    dims, kind, offset = tensors[name]
    n, p = math.prod(dims), base + offset
    if kind == 0:
        x = [float(v) for v in struct.unpack_from('<%df' % n, data, p)]
    else:
        assert kind == 8
        x = []
        for i in range(0, n, 32):
            block = struct.unpack_from('<e32b', data, p + i // 32 * 34)
            x += [block[0] * q for q in block[1:]]
    return [x[i:i + dims[0]] for i in range(0, n, dims[0])] if len(dims) > 1 else x


def product(w, x):
    return [math.fsum(a * b for a, b in zip(row, x)) for row in w]


def normed(x, gain):
    r = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + eps)
    return [v * r * g for v, g in zip(x, gain)]


def turned(x, pos):
    y = []
    for i in range(0, len(x), 2):
        a = pos * theta ** (-(i % head) / head)
        y += [x[i] * math.cos(a) - x[i + 1] * math.sin(a), x[i] * math.sin(a) + x[i + 1] * math.cos(a)]
    return y


heads, kv, width = (meta['llama.' + k] for k in ('attention.head_count', 'attention.head_count_kv', 'embedding_length'))
layers, eps, theta = (meta['llama.' + k] for k in ('block_count', 'attention.layer_norm_rms_epsilon', 'rope.freq_base'))
head = width // heads
embd, last = load('token_embd.weight'), load('output_norm.weight')
W = [{k: load('blk.%d.%s.weight' % (i, k))
      for k in ('attn_norm', 'attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_norm', 'ffn_gate', 'ffn_up', 'ffn_down')}
     for i in range(layers)]
keys, values = [[] for _ in W], [[] for _ in W]


def logits(token, pos):
    x = list(embd[token])
    for i, w in enumerate(W):
        y = normed(x, w['attn_norm'])
        q = turned(product(w['attn_q'], y), pos)
        keys[i].append(turned(product(w['attn_k'], y), pos))
        values[i].append(product(w['attn_v'], y))
        out = []
        for h in range(heads):
            f = h // (heads // kv) * head
            s = [math.fsum(a * b for a, b in zip(q[h * head:h * head + head], k[f:f + head])) / math.sqrt(head)
                 for k in keys[i]]
            top = max(s)
            e = [math.exp(v - top) for v in s]
            z = math.fsum(e)
            out += [math.fsum(p * v[f + c] for p, v in zip(e, values[i])) / z for c in range(head)]
        x = [a + b for a, b in zip(x, product(w['attn_output'], out))]
        y = normed(x, w['ffn_norm'])
        gate, up = product(w['ffn_gate'], y), product(w['ffn_up'], y)
        x = [a + b for a, b in zip(x, product(w['ffn_down'], [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]))]
    return product(embd, normed(x, last))       # the output is tied


pieces = meta['tokenizer.ggml.tokens']
spelt = {}                                      # RWKV spells bytes as escapes, the longest piece that fits is taken
for i, p in enumerate(pieces):
    if meta['tokenizer.ggml.token_type'][i] == 1:
        spelt.setdefault(p.decode('unicode_escape').encode('latin-1') if b'\\x' in p else p, i)
prompt, tokens = sys.argv[1].encode(), []       # vocabularies of RWKV put nothing in front
while prompt:
    n = max(n for n in range(1, len(prompt) + 1) if prompt[:n] in spelt)
    tokens.append(spelt[prompt[:n]])
    prompt = prompt[n:]
n_prompt = len(tokens)
print('# ' + sys.argv[1])
print('# tests/golden/story.py: token, and after it the best, its logit, the second, its logit, rms of all')
for i in range(n_prompt + int(sys.argv[2])):
    y = logits(tokens[i], i)
    order = sorted(range(len(y)), key=lambda t: -y[t])
    print('%d\t%d\t%.7f\t%d\t%.7f\t%.7f' % (tokens[i], order[0], y[order[0]], order[1], y[order[1]],
                                              math.sqrt(math.fsum(v * v for v in y) / len(y))), flush=True)
    if i + 1 == len(tokens):
        tokens.append(order[0])
