#!/usr/bin/env python3
"""bench/peers/fastrp.py - FastRP beside the published algorithm written with scipy, and what a classifier makes of both

    python3 -m venv venv && venv/bin/pip install numpy scipy
    venv/bin/python bench/peers/fastrp.py [--build build] [--data ../shared/data/graphs/blogcatalog] [--seeds 3] [--shuffles 5] [--C 0.1] [--page docs/fastrp.md]

BlogCatalog, d = 512, the settings in the authors' notebook for it (github.com/GTmac/FastRP, fast-random-projection-blogcatalog.ipynb): the
mean over neighbours, four powers with the weights 1, 1, 7.81, 45.28, alpha (our beta) -0.628, s = sqrt(nodes), columns with mean 0 and
variance 1 at last; rows of each power brought to the length 1, and not (no option of build/fastrp: theirs alone). Judged as DeepWalk's
authors do: a share of the nodes is drawn to learn from, logistic regression of one class against the rest (L2, C as liblinear counts it,
the intercept among the weights), and of each other node the k best classes are taken, where k is the number that it has. Both
sides have the same shuffles and the same classifier; the embedding of each seed meets each shuffle.

--speed N takes a power-law graph of N nodes instead, ten edges a node, d = 128, three powers, and prints seconds only: theirs with dense rows, and
with sparse matrices for all powers, which is what the published program does."""
import argparse, os, resource, statistics, subprocess, sys, tempfile, time
import numpy as np, scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit


def published(a, d, weights, alpha, seed, rows=True, standardize=True, sparse=False):
    """scipy's csr matrix a -> nodes x d"""
    n = a.shape[0]
    rng = np.random.default_rng(seed)
    degree = np.asarray(a.sum(1)).ravel()
    s = np.sqrt(n)
    entries = rng.binomial(n * d, 1 / s)
    places = np.unique(rng.integers(0, n * d, entries))         # the few that fall together count once
    r = sp.csr_matrix((rng.choice([-1.0, 1.0], len(places)) * np.sqrt(s / d), (places // d, places % d)), shape=(n, d))
    p = sp.diags(1 / np.maximum(degree, 1e-300)) @ a
    u = p @ (sp.diags(np.where(degree > 0, np.maximum(degree, 1e-300) ** alpha, 0)) @ r)
    if not sparse: u = u.toarray()
    out = np.zeros((n, d))
    for k, w in enumerate(weights):
        if k: u = p @ u
        full = u.toarray() if sparse else u
        out += w * (full / np.maximum(np.linalg.norm(full, axis=1, keepdims=True), 1e-300) if rows else full)
    if standardize: out = (out - out.mean(0)) / np.maximum(out.std(0), 1e-300)
    return out


def ours(o, edges, d, seed, more):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + '/y.npy'
        done = subprocess.run([o.build + '/fastrp', edges, '-d', str(d), '-o', path, '--seed', str(seed)] + more, capture_output=True, text=True)
        if done.returncode: sys.exit('fastrp: ours failed: ' + done.stderr)
        return np.load(path), float(done.stdout.split('embedded in ')[1].split()[0])


def f1(x, y, train, C):
    """micro and macro F1 of the nodes that are not in train"""
    x = np.concatenate([x, np.ones((len(x), 1))], 1).astype(np.float32)
    t, k = np.where(y[train], 1.0, -1.0).astype(np.float32), y.shape[1]
    xt = x[train]

    def loss(w):
        w = w.reshape(-1, k)
        z = -t * (xt @ w.astype(np.float32))
        g = xt.T @ (-t * expit(z))
        return C * float(np.logaddexp(0, z).sum(dtype=np.float64)) + 0.5 * float((w * w).sum()), (C * g.astype(np.float64) + w).ravel()
    w = minimize(loss, np.zeros(x.shape[1] * k), jac=True, method='L-BFGS-B', options=dict(maxiter=200, maxfun=260)).x.reshape(-1, k)
    score = x[~train] @ w.astype(np.float32)
    want = y[~train]
    place = np.argsort(np.argsort(-score, 1), 1)
    said = place < want.sum(1, keepdims=True)
    hit, claimed, there = (said & want).sum(0), said.sum(0), want.sum(0)
    return 2 * hit.sum() / (claimed.sum() + there.sum()), float(np.mean(2 * hit / np.maximum(claimed + there, 1)))


def classify(o):
    pairs = np.loadtxt(o.data + '/edges.tsv', dtype=np.int64)
    lines = [[int(v) for v in line.split()] for line in open(o.data + '/labels_multi.txt')]
    n = len(lines)
    y = np.zeros((n, max(max(v, default=0) for v in lines) + 1), bool)
    for i, v in enumerate(lines): y[i, v] = True
    one = np.ones(len(pairs))
    a = sp.csr_matrix((np.r_[one, one], (np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]])), shape=(n, n))
    weights, alpha, d = [1.0, 1.0, 7.81, 45.28], -0.628, o.d
    kinds, spent = {'ours': [], 'scipy': [], 'scipy, rows as they are': []}, {}
    for seed in range(o.seeds):
        x, t = ours(o, o.data + '/edges.tsv', d, seed + 1, ['--powers', ','.join(map(str, weights)), '--beta', str(alpha), '--standardize'])
        kinds['ours'].append(x)
        spent.setdefault('ours', []).append(t)
        for name, rows in (('scipy', True), ('scipy, rows as they are', False)):
            t = time.perf_counter()
            kinds[name].append(published(a, d, weights, alpha, seed, rows))
            spent.setdefault(name, []).append(time.perf_counter() - t)
    score = {}
    for share in o.shares:
        for shuffle in range(o.shuffles):
            train = np.zeros(n, bool)
            train[np.random.default_rng(1000 + shuffle).permutation(n)[:int(round(share * n))]] = True
            for name, xs in kinds.items():
                for x in xs[:1 if 'as they are' in name else None]: score.setdefault((name, share), []).append(f1(x, y, train, o.C))
            print('  %.0f %%, shuffle %d: %s' % (100 * share, shuffle, ', '.join('%s %.4f' % (k, statistics.mean(v[0] for v in score[k, share][-o.seeds if 'as they' not in k else -1:])) for k in kinds)), flush=True)
    out = ['| BlogCatalog, d = %d | ' % d + ' | '.join('micro F1, %.0f %% to learn from' % (100 * s) for s in o.shares) + ' | ' + ' | '.join('macro F1, %.0f %%' % (100 * s) for s in o.shares) + ' | seconds to embed |',
           '|---' * (2 + 2 * len(o.shares)) + '|']
    cell = lambda v: '%.4f (%.4f)' % (statistics.mean(v), statistics.stdev(v))
    for name in kinds: out.append('| %s | ' % name + ' | '.join(cell([v[k] for v in score[name, s]]) for k in (0, 1) for s in o.shares) + ' | %.2f |' % statistics.median(spent[name]))
    return out + ['', 'Means and deviations over %d seeds and %d shuffles (rows as they are: one seed), C = %g; seconds: medians, ours with two threads, scipy with one.' % (o.seeds, o.shuffles, o.C)]


def speed(o):
    path = '%s/peers/fastrp-%d.tgraph' % (o.build, o.speed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path): subprocess.run([o.build + '/graph', 'make', 'rmat', path, '--nodes', str(o.speed), '--degree', '10', '--seed', '1'], check=True, stdout=subprocess.DEVNULL)
    raw = np.memmap(path, mode='r')
    n, _, m = (int(v) for v in raw[16:40].view('<i8'))
    at = 64 + (8 * (n + 1) + 63) // 64 * 64
    g = sp.csr_matrix((np.ones(m), raw[at:at + 4 * m].view('<i4').copy(), raw[64:64 + 8 * (n + 1)].view('<i8').astype('i4')), shape=(n, n))
    a = ((g + g.T) > 0).astype(np.float64)                      # both directions, each once, as build/fastrp reads it
    t = {}
    for turn in range(o.seeds):
        t.setdefault('ours', []).append(ours(o, path, 128, turn, [])[1])
        for name, sparse in (('scipy, dense rows', False), ('scipy, sparse as published', True)):
            if sparse and turn: continue
            start = time.perf_counter()
            published(a, 128, [0, 1, 1], 0, turn, True, False, sparse)
            t.setdefault(name, []).append(time.perf_counter() - start)
    base = statistics.median(t['ours'])
    return ['R-MAT, %d nodes, %.1f M edges (both directions), d = 128: ' % (n, a.nnz / 1e6) + '; '.join('%s %.2f s%s' % (k, statistics.median(v), '' if k == 'ours' else ' (%.1f times)' % (statistics.median(v) / base)) for k, v in t.items())
            + '; the most memory of this program %.1f GB' % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)]


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--data', default='../shared/data/graphs/blogcatalog')
    a.add_argument('-d', type=int, default=512)
    a.add_argument('--seeds', type=int, default=3)
    a.add_argument('--shuffles', type=int, default=5)
    a.add_argument('--shares', default='0.1,0.5')
    a.add_argument('--C', type=float, default=0.1)
    a.add_argument('--speed', type=int)
    a.add_argument('--page')
    o = a.parse_args()
    o.shares = [float(v) for v in o.shares.split(',')]
    if not o.speed and not os.path.exists(o.data): return print('fastrp: %s is not here' % o.data)
    lines = speed(o) if o.speed else classify(o)
    from page import put, where
    lines[-1] += ' `bench/peers/fastrp.py`, %s.' % where()
    print('\n'.join(lines))
    if o.page: put(o.page, 'bench/peers/fastrp.py --speed' if o.speed else 'bench/peers/fastrp.py', lines)


main()
