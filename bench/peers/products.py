#!/usr/bin/env python3
"""bench/peers/products.py - harmonics by e3nn and sphericart, products of features by e3nn, as `build/bench`

    python3 -m venv venv && venv/bin/pip install 'torch<2.15' e3nn sphericart sphericart-torch
    venv/bin/python bench/peers/products.py [harm full conv] [--seconds 1] [--threads 1] [--cpu]

Prints the median time of each; `build/bench --only harmonics` and `--only product` print ours. Run both on the same
machine, one after the other. --cpu counts the processor time of all threads, for a machine that is busy. f32. What:
  harm    1 000 000 vectors, degrees 0 to 2, 4 and 6, of the direction, by components: the values alone; with their
          derivatives (sphericart); and as a part of a loss, with its gradient by the vectors (e3nn, sphericart.torch)
  full    128 channels, degrees 0 to L, every path, summed to degrees 0 to L, copy by copy (uuu), no weights; compiled
          by e3nn (TorchScript), without gradients, as conv is
  conv    64 copies of 0e, 1o, 2e times harmonics to degree 2, every path to degree 2 (uvu), a weight for each edge,
          path and copy; rows gathered, messages summed with index_add_"""
import argparse, os, statistics, sys, time

if '--threads' in sys.argv:                 # sphericart asks OpenMP
    os.environ['OMP_NUM_THREADS'] = sys.argv[sys.argv.index('--threads') + 1]
import numpy
import torch
import sphericart, sphericart.torch
from e3nn import o3

clock = time.perf_counter


def median(run, seconds):
    run()
    spent, all_ = 0.0, []
    while spent < seconds or len(all_) < 5:
        start = clock()
        run()
        all_.append(clock() - start)
        spent += all_[-1]
    return statistics.median(all_)


def parity(l):
    return 1 if l % 2 == 0 else -1


def harmonics(l_max, vectors):
    """name and call of each way"""
    x = numpy.random.default_rng(1).normal(size=(vectors, 3)).astype(numpy.float32)
    degrees, t = list(range(l_max + 1)), torch.from_numpy(x)
    ours, torched = sphericart.SphericalHarmonics(l_max), sphericart.torch.SphericalHarmonics(l_max)

    def e3nn_values():
        with torch.no_grad():
            return o3.spherical_harmonics(degrees, t, True, 'component')

    g = torch.randn(vectors, (l_max + 1) ** 2)

    def gradient(values):
        def run():
            v = t.clone().requires_grad_(True)
            values(v).backward(g)
            return v.grad
        return run

    return [('e3nn', e3nn_values), ('sphericart', lambda: ours.compute(x)),
            ('sphericart with derivatives', lambda: ours.compute_with_gradients(x)),
            ('sphericart with Hessians', lambda: ours.compute_with_hessians(x[:vectors // 10])),
            ('e3nn and gradient', gradient(lambda v: o3.spherical_harmonics(degrees, v, True, 'component'))),
            ('sphericart.torch and gradient', gradient(torched.compute))]


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
    global clock
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('what', nargs='*', help='harm, full, conv; default: all')
    p.add_argument('--seconds', type=float, default=1.0)
    p.add_argument('--threads', type=int, default=1)
    p.add_argument('--vectors', type=int, default=1000000)
    p.add_argument('--cpu', action='store_true')
    o = p.parse_args()
    if o.cpu:
        clock = time.process_time
    what = o.what or ['harm', 'full', 'conv']
    torch.set_num_threads(o.threads)
    if 'harm' in what:
        for l_max in (2, 4, 6):
            for name, run in harmonics(l_max, o.vectors):
                n = o.vectors // 10 if 'Hessians' in name else o.vectors
                print('harm  degree %d, %7d vectors, %-30s %8.2f ns a vector' %
                      (l_max, n, name, median(run, o.seconds) * 1e9 / n), flush=True)
    with torch.no_grad():
        for l_max in range(1, 5) if 'full' in what else ():
            for batch in (1, 64):
                t = median(full(l_max, batch), o.seconds)
                print('full  L = %d, batch %2d   %9.1f us   %8.2f us a sample' %
                      (l_max, batch, t * 1e6, t * 1e6 / batch), flush=True)
        if 'conv' in what:
            t = median(conv(1000, 16), o.seconds)
            print('conv  1000 nodes, 16000 edges   %9.1f us   %8.2f us an edge' % (t * 1e6, t * 1e6 / 16000))


if __name__ == '__main__':
    main()
