#!/usr/bin/env python3
"""bench/peers/products.py - products of features by e3nn, of the sizes of `build/bench --only product`

    python3 -m venv venv && venv/bin/pip install e3nn
    venv/bin/python bench/peers/products.py [--seconds 1] [--threads 1]

Prints the median time of each; the bench prints ours. Run both on the same machine, one after the other. The products
are compiled by e3nn (TorchScript), f32, without gradients:
  full    128 channels, degrees 0 to L, every path, summed to degrees 0 to L, copy by copy (uuu), no weights
  conv    64 copies of 0e, 1o, 2e times harmonics to degree 2, every path to degree 2 (uvu), a weight for each edge,
          path and copy; rows gathered, messages summed with index_add_"""
import argparse, statistics, time
import torch
from e3nn import o3


def median(run, seconds):
    run()
    spent, all_ = 0.0, []
    while spent < seconds or len(all_) < 5:
        start = time.perf_counter()
        run()
        all_.append(time.perf_counter() - start)
        spent += all_[-1]
    return statistics.median(all_)


def parity(l):
    return 1 if l % 2 == 0 else -1


def full(l_max, batch, channels=128):
    # all features even: then every path is allowed
    irreps = o3.Irreps([(channels, (l, 1)) for l in range(l_max + 1)])
    paths = [(a, b, c, 'uuu', False) for a in range(l_max + 1) for b in range(l_max + 1)
             for c in range(abs(a - b), min(a + b, l_max) + 1)]
    tp = o3.TensorProduct(irreps, irreps, irreps, paths, irrep_normalization='none', path_normalization='none')
    x, y = irreps.randn(batch, -1), irreps.randn(batch, -1)
    return lambda: tp(x, y)


def conv(nodes, degree, copies=64, l_max=2):
    first = o3.Irreps([(copies, (l, parity(l))) for l in range(l_max + 1)])
    harmonics = o3.Irreps.spherical_harmonics(l_max)
    out, paths = [], []
    for i, (_, a) in enumerate(first):
        for j, (_, b) in enumerate(harmonics):
            for c in a * b:
                if c.l <= l_max and c.p == parity(c.l):
                    paths.append((i, j, len(out), 'uvu', True))
                    out.append((copies, c))
    tp = o3.TensorProduct(first, harmonics, o3.Irreps(out), paths, shared_weights=False, internal_weights=False)
    edges = nodes * degree
    to = torch.arange(nodes).repeat_interleave(degree)
    source = torch.randint(nodes, (edges,))
    x, y, w = first.randn(nodes, -1), harmonics.randn(edges, -1), torch.randn(edges, tp.weight_numel)

    def run():
        return torch.zeros(nodes, tp.irreps_out.dim).index_add_(0, to, tp(x[source], y, w))
    return run


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seconds', type=float, default=1.0)
    p.add_argument('--threads', type=int, default=1)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    with torch.no_grad():
        for l_max in range(1, 5):
            for batch in (1, 64):
                t = median(full(l_max, batch), o.seconds)
                print('full  L = %d, batch %2d   %9.1f us   %8.2f us a sample' %
                      (l_max, batch, t * 1e6, t * 1e6 / batch))
        t = median(conv(1000, 16), o.seconds)
        print('conv  1000 nodes, 16000 edges   %9.1f us   %8.2f us an edge' % (t * 1e6, t * 1e6 / 16000))


if __name__ == '__main__':
    main()
