#!/usr/bin/env python3
"""tests/golden/make/nets.py - scores of the weights of two tiny networks by PyTorch, in double: tests/golden/nets.h

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python tests/golden/make/nets.py > tests/golden/nets.h

Each score is written from its published definition, with automatic differentiation: SNIP by the gradient of a mask of
ones, GraSP by a second backward pass, SynFlow on absolute values, GradSign from one backward pass a sample. Weights,
inputs and labels are fractions that floats hold exactly; tests/llm/lab/nets/score.c makes the same ones."""
import numpy as np, torch, torch.nn.functional as F
torch.set_default_dtype(torch.float64)


def fractions(n, a, b, m, low, scale): return torch.tensor([((i * a + b) % m - low) / scale for i in range(n)])


def weights(shapes, first=0):
    w, b, i, j = [], [], 0, 0
    for s in shapes:
        n = int(np.prod(s))
        w.append(fractions(n + i, 37, 11, 97, 48, 64)[i:].reshape(s).clone().requires_grad_())
        b.append(fractions(s[0] + j, 23, 5, 31, 15, 64)[j:].clone().requires_grad_())
        i, j = i + n, j + s[0]
    return w, b


def mlp(w, b, x, taps=None):
    h = x
    for l in range(len(w)):
        h = F.linear(h, w[l], b[l])
        if taps is not None: h.retain_grad(); taps.append(h)
        if l + 1 < len(w): h = torch.relu(h)
    return h


def conv(w, b, x, taps=None):
    h = F.conv2d(x, w[0], b[0], padding=1)
    if taps is not None: h.retain_grad(); taps.append(h)
    h = F.max_pool2d(torch.relu(h), 2)
    h = F.linear(h.flatten(1), w[1], b[1])
    if taps is not None: h.retain_grad(); taps.append(h)
    return h


def flat(ts): return torch.cat([t.reshape(-1) for t in ts])


def put(name, values):
    print('static const double %s[] = {' % name)
    line = '   '
    for v in values:
        t = ' %.17g,' % float(v)
        if len(line) + len(t) > 118: print(line); line = '   '
        line += t
    print(line)
    print('};')


def net(name, run, shapes, x, labels):
    w, b = weights(shapes)
    ce = lambda out: F.cross_entropy(out, labels)
    put(name + '_logits', run(w, b, x).detach().reshape(-1))
    g = torch.autograd.grad(ce(run(w, b, x)), w)
    put(name + '_gradient', flat(g))
    m = [torch.ones_like(t, requires_grad=True) for t in w]
    s = flat(torch.autograd.grad(ce(run([t * k for t, k in zip(w, m)], b, x)), m)).abs()
    put(name + '_snip_zero_cost', s)
    put(name + '_snip', s / s.sum())
    for label, T, sign in (('grasp', 200.0, 1.0), ('grasp_zero_cost', 1.0, -1.0)):
        first = torch.autograd.grad(ce(run(w, b, x) / T), w)
        second = torch.autograd.grad(ce(run(w, b, x) / T), w, create_graph=True)
        h = torch.autograd.grad((flat(first).detach() * flat(second)).sum(), w)
        s = sign * flat(w).detach() * flat(h)
        put(name + '_' + label, s / (s.sum().abs() + 1e-10) if T != 1.0 else s)
    a = [t.detach().abs().requires_grad_() for t in w]
    total = run(a, [torch.zeros_like(t) for t in b], torch.ones_like(x[:1])).sum()
    put(name + '_synflow', flat([t * d for t, d in zip(a, torch.autograd.grad(total, a))]).detach())
    put(name + '_synflow_sum', [total.detach()])
    # whole networks
    put(name + '_grad_norm', [sum(t.norm() for t in g)])
    taps = []
    ce(run(w, b, x, taps)).backward()
    fisher, codes = 0.0, []
    for t in taps:
        p = (t * t.grad).detach()
        p = p.reshape(p.shape[0], p.shape[1], -1).sum(2)
        fisher += float((p ** 2).mean(0).mul(0.5).abs().sum())
    put(name + '_fisher', [fisher])
    c = torch.cat([(t.detach() > 0).reshape(len(x), -1) for t in taps[:-1]], 1).double()
    k = c @ c.T + (1 - c) @ (1 - c).T
    put(name + '_naswot', [np.linalg.slogdet(k.numpy())[1]])
    tau = 0
    for i in range(len(x)):
        out = F.cross_entropy(run(w, b, x[i:i + 1]), labels[i:i + 1])
        tau = tau + flat(torch.autograd.grad(out, w)).sign()
    put(name + '_gradsign', [tau.abs().sum()])


print('/* tests/golden/nets.h - written by tests/golden/make/nets.py with PyTorch %s: do not edit */'
      % torch.__version__.split('+')[0])
net('mlp', mlp, [(7, 5), (6, 7), (3, 6)], fractions(7 * 5, 29, 7, 61, 30, 16).reshape(7, 5),
    torch.arange(7) % 3)
net('cnn', conv, [(3, 1, 3, 3), (4, 27)], fractions(8 * 36, 29, 7, 61, 30, 16).reshape(8, 1, 6, 6),
    torch.arange(8) % 4)
