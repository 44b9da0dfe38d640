#!/usr/bin/env python3
"""tests/golden/make/ranks.py - schedules, groups, layers and steps of training by Megatron Core and PyTorch, in double:
tests/golden/ranks.h

    python3 -m venv venv && venv/bin/pip install torch numpy packaging && venv/bin/pip install --no-deps megatron-core
    venv/bin/python tests/golden/make/ranks.py > tests/golden/ranks.h

Megatron Core gives the interleaved schedule (its table and its number of first passes), the groups of ranks of both
grids, the choices of a router with and without a capacity, the order of rows, and the balancing loss. PyTorch gives a
transformer by its own functions, with gradients by automatic differentiation, and steps of AdamW and of Adam. Weights,
inputs and labels are fractions that floats hold exactly; tests/llm/dist makes the same ones."""
import math, types
import torch, torch.nn.functional as F
import megatron.core as core
from megatron.core.parallel_state import RankGenerator
from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches, get_schedule_table
from megatron.core.transformer.moe import moe_utils

torch.set_default_dtype(torch.float64)


def fractions(n, a, b, m, low, scale): return torch.tensor([((i * a + b) % m - low) / scale for i in range(n)])


def squares(n, a, b, m, low, scale):
    return torch.tensor([((i * i * a + i * b) % m - low) / scale for i in range(n)])


def put(name, values):
    print('static const double %s[] = {' % name)
    line = '   '
    for v in values:
        t = ' %.8g,' % float(v)
        if len(line) + len(t) > 118: print(line); line = '   '
        line += t
    print(line)
    print('};')


def put_lines(name, lines):
    print('static const char *const %s[] = {' % name)
    for l in lines:
        parts = [l[i:i + 108] for i in range(0, len(l), 108)]
        print('    ' + '\n        '.join('"%s"' % p for p in parts) + ',')
    print('};')


# ---- schedules: "stages micros chunks stage: F0.0 ...", micro-batch and chunk of each pass

class Group:
    def __init__(self, size, rank): self.n, self.r = size, rank
    def size(self): return self.n
    def rank(self): return self.r


def schedule(p, m, v, r):
    of = types.SimpleNamespace(pp_group=Group(p, r), virtual_pipeline_model_parallel_size=v if v > 1 else None)
    n, _, first, rest = get_pp_rank_microbatches(m, v, p if v > 1 else None, False, p2p_communicator=of)
    table = get_schedule_table(m, v, p if v > 1 else 1)
    forward = lambda k: 'F%d.%d' % table[k]
    backward = lambda k: 'B%d.%d' % (table[k][0], v - 1 - table[k][1])
    items = [forward(k) for k in range(first)]
    for k in range(rest): items += [forward(first + k), backward(k)]
    items += [backward(k) for k in range(rest, n)]
    return '%d %d %d %d: ' % (p, m, v, r) + ' '.join(items)


# ---- groups: "tp cp dp pp etp ep axis: 0 1|2 3", all groups of an axis

def groups(tp, cp, dp, pp, etp, ep):
    order, lines = 'tp-cp-ep-dp-pp', []
    edp = tp * cp * dp // (etp * ep)
    attention = RankGenerator(tp=tp, ep=1, dp=dp, pp=pp, cp=cp, order=order)
    experts = RankGenerator(tp=etp, ep=ep, dp=edp, pp=pp, cp=1, order=order)
    for name, of, token in (('tp', attention, 'tp'), ('cp', attention, 'cp'), ('dp', attention, 'dp'),
                            ('pp', attention, 'pp'), ('sequence', attention, 'tp-cp'), ('etp', experts, 'tp'),
                            ('ep', experts, 'ep'), ('edp', experts, 'dp'), ('experts', experts, 'tp-ep')):
        lines.append('%d %d %d %d %d %d %s: ' % (tp, cp, dp, pp, etp, ep, name) +
                     '|'.join(' '.join(str(r) for r in g) for g in of.get_ranks(token)))
    return lines


# ---- a transformer: 2 layers of width 8, 2 heads, 6 tokens, 4 places, 4 sequences

def transformer():
    layers, h, heads, vocab, s, b = 2, 8, 2, 6, 4, 4
    shapes = [('embd', (vocab, h)), ('places', (s, h))]
    for l in range(layers):
        shapes += [('%d.%s' % (l, n), d) for n, d in (
            ('norm1', (h,)), ('q', (h, h)), ('k', (h, h)), ('v', (h, h)), ('o', (h, h)), ('norm2', (h,)),
            ('w1', (4 * h, h)), ('b1', (4 * h,)), ('w2', (h, 4 * h)), ('b2', (h,)))]
    shapes += [('norm', (h,)), ('head', (vocab, h))]
    w = {}
    for name, d in shapes:
        x = fractions(math.prod(d), 37, 11 * sum(map(ord, name)), 97, 48, 128)
        w[name] = (x + ('norm' in name)).reshape(d).requires_grad_()
    token = torch.tensor([(3 * i * i + 5 * i) % vocab for i in range(b * (s + 1))]).reshape(b, s + 1)
    x = w['embd'][token[:, :-1]] + w['places']
    for l in range(layers):
        g = lambda n: w['%d.%s' % (l, n)]
        y = F.rms_norm(x, (h,), g('norm1'), 1e-5)
        q, k, v = (F.linear(y, g(n)).reshape(b, s, heads, h // heads).transpose(1, 2) for n in 'qkv')
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h)
        x = x + F.linear(y, g('o'))
        y = F.rms_norm(x, (h,), g('norm2'), 1e-5)
        x = x + F.linear(F.gelu(F.linear(y, g('w1'), g('b1'))), g('w2'), g('b2'))
    logits = F.linear(F.rms_norm(x, (h,), w['norm'], 1e-5), w['head'])
    loss = F.cross_entropy(logits.reshape(-1, vocab), token[:, 1:].reshape(-1))
    loss.backward()
    print('static const double torch_loss = %.12g;' % float(loss))
    put_lines('torch_names', [name for name, _ in shapes])
    put('torch_gradients', torch.cat([w[name].grad.reshape(-1) for name, _ in shapes]))


# ---- a layer of experts: 14 tokens of 4 numbers, 6 experts of 5, two for each token

def experts():
    t, e, k, width, hidden = 14, 6, 2, 4, 5
    x = squares(t * width, 37, 11, 997, 498, 512).reshape(t, width)
    router = squares(width * e, 61, 7, 1009, 504, 512).reshape(width, e)
    gate = fractions(e * width * hidden, 23, 5, 89, 44, 64).reshape(e, width, hidden)
    up = fractions(e * width * hidden, 31, 3, 83, 41, 64).reshape(e, width, hidden)
    down = fractions(e * width * hidden, 41, 13, 79, 39, 64).reshape(e, hidden, width)
    logits = x @ router
    order = logits.sort(dim=1, descending=True)[0]
    assert (order[:, :-1] - order[:, 1:]).abs().min() > 1e-4, 'a tie'

    def run(name, plain, factor):
        probs, keep = moe_utils.topk_routing_with_score_function(logits, k, use_pre_softmax=plain)
        if factor: probs, keep = moe_utils.apply_router_token_dropping(probs, keep, k, factor, 'probs', False)
        rows, _, where, *_ = moe_utils.permute(x, keep, num_out_tokens=int(keep.sum()))
        out, first = torch.empty_like(rows), 0
        for i, n in enumerate(keep.sum(0).tolist()):
            part = rows[first:first + n]
            out[first:first + n] = (F.silu(part @ gate[i]) * (part @ up[i])) @ down[i]
            first += n
        y = moe_utils.unpermute(out, where, x.shape, probs, keep)
        put('experts_' + name, y.reshape(-1))
        put_lines('experts_' + name + '_kept', [''.join('01'[int(v)] for v in row) for row in keep])
        return keep

    keep = run('all', False, None)
    run('plain', True, None)
    for factor, name in ((1.0, 'one'), (0.75, 'few')): run(name, True, factor)
    loss = moe_utils.switch_load_balancing_loss_func(torch.softmax(logits, 1), keep.sum(0), t, k, e, 0.25)
    print('static const double experts_balance = %.12g;' % float(loss))


# ---- steps: 12 inputs, 20 tanh units, 3 outputs, 64 samples; half of the mean of squares, summed over outputs

def steps(name, optim, **more):
    x = fractions(64 * 12, 37, 11, 97, 48, 32).reshape(64, 12)
    y = fractions(64 * 3, 23, 5, 31, 15, 16).reshape(64, 3)
    w = fractions(20 * 13 + 3 * 21, 29, 7, 101, 50, 128)
    w1, w2 = w[:260].reshape(20, 13).clone().requires_grad_(), w[260:].reshape(3, 21).clone().requires_grad_()
    o = optim([w1, w2], lr=0.01, **more)
    for _ in range(6):
        h = torch.tanh(F.linear(x, w1[:, :12], w1[:, 12]))
        loss = 0.5 * ((F.linear(h, w2[:, :20], w2[:, 20]) - y) ** 2).sum() / 64
        o.zero_grad()
        loss.backward()
        o.step()
    put(name, torch.cat([w1.detach().reshape(-1), w2.detach().reshape(-1)]))


print('/* tests/golden/ranks.h - by tests/golden/make/ranks.py with PyTorch %s, Megatron Core %s: '
      'do not edit */' % (torch.__version__.split('+')[0], core.__version__))
put_lines('schedules', [schedule(p, m, v, r) for p, m, v in
                        ((2, 4, 2), (4, 8, 2), (4, 4, 3), (3, 6, 4), (4, 6, 1), (4, 2, 1)) for r in range(p)])
put_lines('rank_groups', sum((groups(*g) for g in ((2, 2, 2, 1, 1, 8), (2, 2, 2, 1, 2, 4), (2, 1, 4, 2, 1, 4),
                                                   (1, 2, 3, 2, 2, 3), (4, 1, 2, 2, 1, 2))), []))
transformer()
experts()
steps('adamw_weights', torch.optim.AdamW, weight_decay=0.125)
steps('adam_weights', torch.optim.Adam, weight_decay=0.125)
