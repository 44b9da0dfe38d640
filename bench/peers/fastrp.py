#!/usr/bin/env python3
"""bench/peers/fastrp.py - FastRP compared with the published algorithm in scipy, judged by a classifier on both

    python3 -m venv venv && venv/bin/pip install numpy scipy
    venv/bin/python bench/peers/fastrp.py [--build build] [--data FOLDER] [--seeds 3] [--shuffles 5] [--C 0.1]
                                          [--page docs/papers/fastrp.md]

BlogCatalog, d = 512, with the settings of the authors' notebook (github.com/GTmac/FastRP,
fast-random-projection-blogcatalog.ipynb): the mean over neighbours, four powers with the weights 1, 1, 7.81, 45.28,
alpha (our beta) -0.628, s = sqrt(nodes), columns with mean 0 and variance 1 at the end. Rows of each power are
normalised to length 1, and in a second form they are not (build/fastrp has no option for it: theirs only).
The judgement is that of DeepWalk's authors. A share of the nodes is the training set of a logistic regression of one
class against the rest (L2, C as liblinear counts it, the intercept among the weights). For each other node the k best
classes are taken, where k is its number of classes. Both sides have the same shuffles and the same classifier, and the
embedding of each seed meets each shuffle.

--speed N takes a power-law graph of N nodes instead, ten edges a node, d = 128, three powers, and prints seconds only.
Theirs is timed with dense rows, and with sparse matrices for all powers as in the published program.

--published FOLDER times the published program itself, fastrp.py of a clone of github.com/GTmac/FastRP, in turns with
ours: the same graph, d, powers and standardized columns, each run in a process of its own; BlogCatalog with d = 512,
then --sizes (R-MAT) with d = 128. It needs scikit-learn 1.1 and numpy 1.23 (`pip install scikit-learn==1.1.3
numpy==1.23.5 scipy==1.9.3`), since later versions reject its matrices. Its imports for notebooks are not installed.

--made N replaces BlogCatalog by N nodes in two groups, each with its own classes: a graph small enough to try the
script.

--deepwalk judges bench/gnn/deepwalk.c as well, d = 128 for all, whole walks. It is compiled with $CC and linked with
libtinygnn.a of --build."""
import argparse, importlib, os, resource, statistics, subprocess, sys, tempfile, time, types
import numpy as np, scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from page import put, times, where

BLOGCATALOG, ALPHA = [1.0, 1.0, 7.81, 45.28], -0.628           # of the authors' notebook
WALK = 'DeepWalk of our own'
numbers = lambda text: [float(v) for v in text.split(',')]


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
        done = subprocess.run([o.build + '/fastrp', edges, '-d', str(d), '-o', path, '--seed', str(seed)] + more,
                              capture_output=True, text=True)
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
        return (C * float(np.logaddexp(0, z).sum(dtype=np.float64)) + 0.5 * float((w * w).sum()),
                (C * g.astype(np.float64) + w).ravel())
    w = minimize(loss, np.zeros(x.shape[1] * k), jac=True, method='L-BFGS-B',
                 options=dict(maxiter=200, maxfun=260)).x.reshape(-1, k)
    score = x[~train] @ w.astype(np.float32)
    want = y[~train]
    place = np.argsort(np.argsort(-score, 1), 1)
    said = place < want.sum(1, keepdims=True)
    hit, claimed, there = (said & want).sum(0), said.sum(0), want.sum(0)
    return 2 * hit.sum() / (claimed.sum() + there.sum()), float(np.mean(2 * hit / np.maximum(claimed + there, 1)))


def deepwalk(o, edges, d, seed):
    program = o.build + '/peers/deepwalk'
    os.makedirs(os.path.dirname(program), exist_ok=True)
    newer = lambda path: os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(path)
    if not newer('bench/gnn/deepwalk.c') or not newer(o.library):
        subprocess.run([os.environ.get('CC', 'cc'), '-O2', '-std=c99', '-fopenmp', '-DTINYGNN_LINKED',
                        '-DB_DEEPWALK_MAIN', '-I' + os.environ.get('INC', '.'), 'bench/gnn/deepwalk.c', '-o', program,
                        o.library, '-pthread', '-lm'], check=True)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program, edges, '-d', str(d), '-o', folder + '/y.npy', '--seed', str(seed)],
                              capture_output=True, text=True)
        if done.returncode: sys.exit('fastrp: deepwalk failed: ' + done.stderr)
        return np.load(folder + '/y.npy'), float(done.stdout.split('embedded in ')[1].split()[0])


def classify(o):
    a = text_graph(o.data + '/edges.tsv')
    lines = [[int(v) for v in line.split()] for line in open(o.data + '/labels_multi.txt')]
    n = len(lines)
    y = np.zeros((n, max(max(v, default=0) for v in lines) + 1), bool)
    for i, v in enumerate(lines): y[i, v] = True
    weights, alpha, d = BLOGCATALOG, ALPHA, o.d
    kinds, spent = {'ours': [], 'scipy': [], 'scipy, rows as they are': []}, {}
    for seed in range(o.seeds):
        x, t = ours(o, o.data + '/edges.tsv', d, seed + 1, ['--powers', ','.join(map(str, weights)), '--beta',
                                                            str(alpha), '--standardize'])
        kinds['ours'].append(x)
        spent.setdefault('ours', []).append(t)
        if o.deepwalk:
            x, t = deepwalk(o, o.data + '/edges.tsv', d, seed + 1)
            for name, rows in ((WALK, (x - x.mean(0)) / x.std(0)), (WALK + ', rows of length 1, C = 1',
                                                                    x / np.linalg.norm(x, axis=1, keepdims=True))):
                kinds.setdefault(name, []).append(rows)
                spent.setdefault(name, []).append(t)
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
                for x in xs[:1 if 'as they are' in name else None]:
                    score.setdefault((name, share), []).append(f1(x, y, train, 1.0 if 'C = 1' in name else o.C))
            last = lambda k: score[k, share][-o.seeds if 'as they' not in k else -1:]
            means = ['%s %.4f' % (k, statistics.mean(v[0] for v in last(k))) for k in kinds]
            print('  %.0f %%, shuffle %d: %s' % (100 * share, shuffle, ', '.join(means)), flush=True)
    out = ['| %s, d = %d | ' % ('Two groups of %d nodes' % (n // 2) if o.made else 'BlogCatalog', d)
           + ' | '.join('micro F1, %.0f %% to learn from' % (100 * s) for s in o.shares) + ' | '
           + ' | '.join('macro F1, %.0f %%' % (100 * s) for s in o.shares) + ' | seconds to embed |',
           '|---' * (2 + 2 * len(o.shares)) + '|']
    cell = lambda v: '%.4f (%.4f)' % (statistics.mean(v), statistics.stdev(v))
    for name in kinds:
        out.append('| %s | ' % name + ' | '.join(cell([v[k] for v in score[name, s]]) for k in (0, 1) for s in o.shares)
                   + ' | %.2f |' % statistics.median(spent[name]))
    return out + ['',
                  'Means and deviations over %d seeds and %d shuffles (rows as they are: one seed), C = %g; seconds: '
                  'medians, ours%s with %d threads, scipy with one.' % (o.seeds, o.shuffles, o.C, ' and DeepWalk'
                                                                        if o.deepwalk else '',
                                                                        len(os.sched_getaffinity(0)))]


def made(folder, n):
    """edges.tsv and labels_multi.txt of n nodes in two groups"""
    rng = np.random.default_rng(1)
    os.makedirs(folder, exist_ok=True)
    pairs = {(min(i, j), max(i, j)) for i in range(n) for j in rng.integers(0, n // 2, 8) * 2 + i % 2 if i != j}
    with open(folder + '/edges.tsv', 'w') as f: f.writelines('%d\t%d\n' % p for p in sorted(pairs))
    with open(folder + '/labels_multi.txt', 'w') as f:
        f.writelines('%d%s\n' % (i % 2, ' 2' * (i % 3 == 0)) for i in range(n))
    return folder


def both_ways(path):
    """a .tgraph as build/fastrp reads it: both directions, each once"""
    raw = np.memmap(path, mode='r')
    raw = raw[192:]                        # the body of its box (docs/guide/checkpoints.md)
    n, _, m = (int(v) for v in raw[16:40].view('<i8'))
    at = 64 + (8 * (n + 1) + 63) // 64 * 64
    g = sp.csr_matrix((np.ones(m), raw[at:at + 4 * m].view('<i4').copy(),
                       raw[64:64 + 8 * (n + 1)].view('<i8').astype('i4')), shape=(n, n))
    return ((g + g.T) > 0).astype(np.float64)


def text_graph(path):
    pairs = np.loadtxt(path, dtype=np.int64)
    n = int(pairs.max()) + 1
    one = np.ones(len(pairs))
    return sp.csr_matrix((np.r_[one, one], (np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]])),
                         shape=(n, n))


def speed(o):
    path = '%s/peers/fastrp-%d.tgraph' % (o.build, o.speed)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        subprocess.run([o.build + '/graph', 'make', 'rmat', path, '--nodes', str(o.speed), '--degree', '10', '--seed',
                        '1'], check=True, stdout=subprocess.DEVNULL)
    a = both_ways(path)
    n = a.shape[0]
    t = {}
    for turn in range(o.seeds):
        t.setdefault('ours', []).append(ours(o, path, 128, turn, [])[1])
        for name, sparse in (('scipy, dense rows', False), ('scipy, sparse as published', True)):
            if sparse and turn: continue
            start = time.perf_counter()
            published(a, 128, [0, 1, 1], 0, turn, True, False, sparse)
            t.setdefault(name, []).append(time.perf_counter() - start)
    base = statistics.median(t['ours'])
    return ['R-MAT, %d nodes, %.1f M edges (both directions), d = 128: ' % (n, a.nnz / 1e6)
            + '; '.join('%s %.2f s%s' % (k, statistics.median(v), '' if k == 'ours'
                                         else ' (%s times)' % times(statistics.median(v), base)) for k, v in t.items())
            + '; the most memory of this program %.1f GB' % (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)]


def the_program(folder):
    """fastrp_wrapper of the published program"""
    for name in ('matplotlib', 'gensim', 'pandas', 'tqdm'):      # it imports them and calls nothing of them
        sys.modules[name] = types.ModuleType(name)
    sys.modules['tqdm'].tqdm_notebook = None
    # not this file, which has the same name
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder] + [p for p in sys.path if p and os.path.abspath(p) != here]
    return importlib.import_module('fastrp').fastrp_wrapper


def one(o):
    """a process of the published program: the graph is read, then the clock runs"""
    wrapper = the_program(o.published)
    a, conf = sp.load_npz(o.one), dict(dim=o.d, projection_method='sparse', input_matrix='trans', normalization=True,
                                       weights=o.powers, alpha=o.alpha)
    start = time.perf_counter()
    wrapper(a, conf)
    print('embedded in %.3f s' % (time.perf_counter() - start))


def timed(command, cpus):
    """seconds to embed, and the most memory of the process in GB"""
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as err:
        p = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        status, used = os.wait4(p.pid, 0)[1:]
        out.seek(0), err.seek(0)
        if status: sys.exit('fastrp: %s failed: %s' % (command[0], err.read()[-400:]))
        return float(out.read().split('embedded in ')[1].split()[0]), used.ru_maxrss / 1e6


def in_turns(o):
    """the published program and ours, in turns"""
    cpus = sorted(os.sched_getaffinity(0))
    sides = [('the published program', 1), ('ours, 1 thread', 1)] + ([('ours, %d threads' % len(cpus), len(cpus))]
                                                                     if len(cpus) > 1 else [])
    out = ['| graph | d, powers | ' + ' | '.join('%s: s, GB' % name for name, _ in sides)
           + ' | faster, 1 thread | less memory |', '|---' * (4 + len(sides)) + '|']
    work = o.build + '/peers'
    os.makedirs(work, exist_ok=True)
    cases = []
    if os.path.exists(o.data) and not o.no_blogcatalog:
        cases = [(o.data + '/edges.tsv', 'BlogCatalog', o.d, BLOGCATALOG, ALPHA)]
    for size in o.sizes:
        path = '%s/fastrp-%d.tgraph' % (work, size)
        if not os.path.exists(path):
            subprocess.run([o.build + '/graph', 'make', 'rmat', path, '--nodes', str(size), '--degree', '10', '--seed',
                            '1'], check=True, stdout=subprocess.DEVNULL)
        cases.append((path, 'R-MAT', 128, o.powers or [0.0, 1.0, 1.0], None))
    for path, name, d, weights, alpha in cases:
        a = both_ways(path) if path.endswith('.tgraph') else text_graph(path)
        matrix = '%s/fastrp-%d.npz' % (work, a.shape[0])
        if not os.path.exists(matrix): sp.save_npz(matrix, a.tocsc(), compressed=False)
        powers = ','.join(map(str, weights))
        spent = {}
        for turn in range(o.turns):
            for side, n in sides:
                if n > 1 or side.startswith('ours'):
                    command = [o.build + '/fastrp', path, '-d', str(d), '-o', work + '/y.npy', '--powers', powers,
                               '--standardize'] + (['--beta', str(alpha)] if alpha else [])
                else:
                    command = [sys.executable, '-W', 'ignore', os.path.abspath(__file__), '--published',
                               os.path.abspath(o.published), '--one', matrix, '-d', str(d), '--powers',
                               powers] + (['--alpha', str(alpha)] if alpha else [])
                spent.setdefault(side, []).append(timed(command, cpus[:n]))
                print('  %s, %s: %.2f s, %.2f GB' % ((name, side) + spent[side][-1]), flush=True)
        if not o.turns: continue
        cell = {side: (statistics.median(t for t, _ in v), max(m for _, m in v)) for side, v in spent.items()}
        theirs, mine = cell[sides[0][0]], cell[sides[1][0]]
        out.append('| %s, %d nodes, %.2f M edges (both directions) | %d, %d | '
                   % (name, a.shape[0], a.nnz / 1e6, d, len(weights))
                   + ' | '.join('%.2f, %.2f' % cell[side] for side, _ in sides)
                   + ' | %s times | %.1f times |' % (times(theirs[0], mine[0]), theirs[1] / mine[1]))
        if os.path.exists(work + '/y.npy'): os.remove(work + '/y.npy')
    import sklearn, scipy
    return out + ['',
                  'Medians of %d turns, columns standardized on both sides; the graph is read before the clock runs; '
                  'memory: the most of a whole process. scipy %s, scikit-learn %s.'
                  % (o.turns, scipy.__version__, sklearn.__version__)]


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--data', default='../shared/data/graphs/blogcatalog')
    a.add_argument('-d', type=int)
    a.add_argument('--seeds', type=int, default=3)
    a.add_argument('--shuffles', type=int, default=5)
    a.add_argument('--shares', default='0.1,0.5')
    a.add_argument('--C', type=float, default=0.1)
    a.add_argument('--speed', type=int)
    a.add_argument('--made', type=int)
    a.add_argument('--published', metavar='FOLDER')
    a.add_argument('--sizes', type=lambda text: [int(v) for v in text.split(',') if v], default=[100000],
                   help='nodes of the power-law graphs for --published')
    a.add_argument('--no-blogcatalog', action='store_true')
    a.add_argument('--turns', type=int, default=3, help='0 only writes the graphs')
    a.add_argument('--powers', type=numbers, help='their weights; --published on R-MAT: 0,1,1')
    a.add_argument('--alpha', type=float, help=argparse.SUPPRESS)
    a.add_argument('--one', help=argparse.SUPPRESS)
    a.add_argument('--deepwalk', action='store_true')
    a.add_argument('--library', help='library that bench/gnn/deepwalk.c is linked with; BUILD/libtinygnn.a')
    a.add_argument('--page')
    o = a.parse_args()
    o.shares = numbers(o.shares)
    o.d = o.d or (128 if o.deepwalk else 512)
    o.library = o.library or o.build + '/libtinygnn.a'
    if o.one: return one(o)
    if o.made: o.data = made(o.build + '/peers/made', o.made)
    if not o.speed and not o.published and not os.path.exists(o.data):
        return print('fastrp: no BlogCatalog data; --data FOLDER names them')
    lines = in_turns(o) if o.published else speed(o) if o.speed else classify(o)
    lines[-1] += ' `bench/peers/fastrp.py`, %s.' % where()
    print('\n'.join(lines))
    if o.page:
        put(o.page, 'bench/peers/fastrp.py' + (' --published' if o.published else ' --speed' if o.speed
                                               else ' --deepwalk' if o.deepwalk else ''), lines)


main()
