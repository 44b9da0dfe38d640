#!/usr/bin/env python3
"""bench/peers/spmm.py - sums over edges compared with other libraries, in turns

    python3 -m venv venv && venv/bin/pip install numpy scipy torch dgl python-graphblas 'suitesparse-graphblas<10'
    venv/bin/python bench/peers/spmm.py [--build build] [--graphs rmat,uniform] [--f 16,64,256] [--nodes 1048576]
                                        [--seconds 30] [--page docs/papers/graphs.md]

y[r] = the sum of w x[col] over the edges of row r, float32, with and without w, on a power-law graph (R-MAT) and on a
graph with random edges. Everything runs in one process on the same arrays, one call of each library in turn. Each call
makes a new y, ours too ("y kept": ours into the same y again, as its layers do). The first turn is a warm-up and is
checked against ours; a library that takes more than 4 s has this turn only. A library that is not installed is skipped
and named: scipy (single-threaded), torch.sparse (CSR with 32-bit indices, MKL), torch_sparse (the kernel of PyG;
B_TORCH_SPARSE names _spmm_cpu.so if it is not in the environment), SuiteSparse GraphBLAS, DGL. --keep FILE collects the
rows of several runs, so that each graph can have a process of its own."""
import argparse, ctypes, glob, importlib.util, json, os, statistics, subprocess, sys, tempfile, time, warnings

OURS = r"""
#include "tinygnn.h"
static tiny_ctx *ctx;
int ours_open(int threads)
{
    tiny_ctx_desc d = { 0 };
    d.n_threads = threads;
    return tiny_ctx_open(&d, &ctx);
}
int ours_sum(int64_t *offset, int32_t *col, float *w, float *x, float *y, int64_t n, int64_t m, int64_t f)
{
    tiny_tensor to = tiny_tensor_1d(offset, TINY_I64, (tiny_idx)n + 1);
    tiny_tensor tc = tiny_tensor_1d(col, TINY_I32, (tiny_idx)m);
    tiny_tensor tw = tiny_tensor_1d(w, TINY_F32, (tiny_idx)m);
    tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, (tiny_idx)n, (tiny_idx)f);
    tiny_tensor ty = tiny_tensor_2d(y, TINY_F32, (tiny_idx)n, (tiny_idx)f);
    return tiny_spmm(ctx, &to, &tx, &tc, w ? &tw : NULL, NULL, NULL, &ty);
}
"""


def torch_sparse_version():
    import importlib.metadata
    try:
        return importlib.metadata.version('torch_sparse')
    except importlib.metadata.PackageNotFoundError:
        return '(version unknown)'


def ours(build, threads):
    path, source = os.path.abspath(build + '/peers/ours-spmm.so'), build + '/peers/ours-spmm.c'
    os.makedirs(build + '/peers', exist_ok=True)
    with open(source, 'w') as f: f.write(OURS)
    # the code of the archive is position-independent, as most systems compile it, and is bound within the library
    subprocess.run([os.environ.get('CC', 'cc'), '-O2', '-std=c99', '-fopenmp', '-shared', '-fPIC', '-DTINYGNN_LINKED',
                    '-I' + os.environ.get('INC', '.'), source, build + '/libtinygnn.a', '-o', path, '-Wl,-Bsymbolic',
                    '-pthread', '-lm'], check=True)
    lib = ctypes.CDLL(path)
    lib.ours_sum.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_int64] * 3
    if lib.ours_open(threads): sys.exit('spmm: no context')

    def run(offset, col, w, x, y):
        if lib.ours_sum(offset.ctypes.data, col.ctypes.data, None if w is None else w.ctypes.data, x.ctypes.data,
                        y.ctypes.data, x.shape[0], col.shape[0], x.shape[1]):
            sys.exit('spmm: ours failed')
        return y
    return run


def graph(build, kind, nodes):
    import numpy as np
    path = '%s/peers/%s-%d.tgraph' % (build, kind, nodes)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run([build + '/graph', 'make', 'rmat' if kind == 'rmat' else 'planted', path, '--nodes', str(nodes),
                        '--degree', '16', '--seed', '1'] + ([] if kind == 'rmat' else ['--classes', '1']), check=True,
                       stdout=subprocess.DEVNULL)
    raw = np.memmap(path, mode='r')
    raw = raw[192:]                        # the body of its box (docs/guide/checkpoints.md)
    n, _, m = (int(v) for v in raw[16:40].view('<i8'))
    at = 64 + (8 * (n + 1) + 63) // 64 * 64
    return n, m, raw[64:64 + 8 * (n + 1)].view('<i8').copy(), raw[at:at + 4 * m].view('<i4').copy()


def peers(n, offset, col, w, threads, missing):
    """name -> (f(x) with weights, f(x) without or None, how its answer becomes an array); each makes its own form of
    the graph once"""
    import numpy as np
    say, m, they = [], len(col), {}
    try:
        import scipy, scipy.sparse
        a = scipy.sparse.csr_matrix((w, col, offset.astype(np.int32)), shape=(n, n))
        they['scipy'] = lambda x: (lambda: a @ x, None, lambda y: y)
        say.append('scipy %s (one thread)' % scipy.__version__)
    except ImportError: missing.append('scipy')
    try:
        import torch
        torch.set_num_threads(threads)
        o32, c32, tw = torch.from_numpy(offset.astype(np.int32)), torch.from_numpy(col), torch.from_numpy(w)
        ta = torch.sparse_csr_tensor(o32, c32, tw, (n, n))

        def torch_sparse_csr(x):
            tx = torch.from_numpy(x)
            return lambda: ta @ tx, None, lambda y: y.numpy()
        they['torch.sparse'] = torch_sparse_csr
        say.append('torch %s' % torch.__version__)
        spec = importlib.util.find_spec('torch_sparse')
        kernel = os.environ.get('B_TORCH_SPARSE') or next(iter(glob.glob(os.path.dirname(spec.origin) + '/_spmm_cpu.so')
                                                               if spec else []), None)
        if kernel:
            torch.ops.load_library(kernel)
            o64, c64 = torch.from_numpy(offset), torch.from_numpy(col.astype(np.int64))

            def torch_sparse_kernel(x):
                tx, f = torch.from_numpy(x), torch.ops.torch_sparse.spmm_sum
                return (lambda: f(None, o64, c64, tw, None, None, tx),
                        lambda: f(None, o64, c64, None, None, None, tx), lambda y: y.numpy())
            they['torch_sparse'] = torch_sparse_kernel
            say.append(f'torch_sparse {torch_sparse_version()}')
        else: missing.append('torch_sparse')
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')
                import dgl
            dg = dgl.graph(('csc', (torch.from_numpy(offset), torch.from_numpy(col.astype(np.int64)), [])),
                           num_nodes=n).int()

            def dgl_sum(x):
                tx = torch.from_numpy(x)
                return (lambda: dgl.ops.u_mul_e_sum(dg, tx, tw.view(-1, 1)), lambda: dgl.ops.copy_u_sum(dg, tx),
                        lambda y: y.numpy())
            they['DGL'] = dgl_sum
            say.append('DGL %s' % dgl.__version__)
        except (ImportError, OSError): missing.append('DGL')
    except ImportError: missing.extend(['torch.sparse', 'torch_sparse', 'DGL'])
    try:
        import graphblas as gb
        gb.ss.config['nthreads'] = threads
        ga = gb.Matrix.ss.import_csr(nrows=n, ncols=n, indptr=offset.astype(np.uint64),
                                     col_indices=col.astype(np.uint64), values=w.copy())

        def graphblas(x):
            gx = gb.Matrix.ss.import_fullr(values=x, nrows=n, ncols=x.shape[1], take_ownership=False)
            return (lambda: ga.mxm(gx, gb.semiring.plus_times['FP32']).new(),
                    lambda: ga.mxm(gx, gb.semiring.plus_second['FP32']).new(), lambda y: y.to_dense(0.0))
        they['GraphBLAS'] = graphblas
        say.append('SuiteSparse GraphBLAS %s' % '.'.join(str(v) for v in gb.ss.about['library_version']))
    except ImportError: missing.append('GraphBLAS')
    return they, say


def timed(f):
    time.sleep(0.02)                        # the threads of the call before go to sleep
    t = time.perf_counter()
    y = f()
    return time.perf_counter() - t, y


def measure(o, kind):
    import numpy as np
    n, m, offset, col = graph(o.build, kind, o.nodes)
    w = np.random.default_rng(1).random(m, dtype=np.float32)
    missing = []
    they, say = peers(n, offset, col, w, o.threads, missing)
    they = {k: v for k, v in they.items() if k not in o.without.split(',')}
    mine = ours(o.build, o.threads)
    for f in o.f:
        x = np.random.default_rng(2).random((n, f), dtype=np.float32)
        x -= 0.5
        kept = np.zeros((n, f), np.float32)
        for weighted in (True, False):
            ww = w if weighted else None
            run, shape, t = {'ours': lambda: mine(offset, col, ww, x, np.empty((n, f), np.float32)),
                             'ours, y kept': lambda: mine(offset, col, ww, x, kept)}, {}, {}
            for name, make in they.items():
                a, b, shape[name] = make(x)
                if weighted or b: run[name] = a if weighted else b
            for name, call in list(run.items()):
                t[name], y = timed(call)
                if name in shape and not np.allclose(shape[name](y)[::97], kept[::97], rtol=1e-3, atol=1e-3):
                    print('spmm: %s gives another result' % name, flush=True)
                t[name] = [t[name]] if t[name] > 4 else []
                if t[name]: del run[name]
                del y
            start = time.perf_counter()
            for turn in range(21):
                if turn >= 3 and time.perf_counter() - start > o.seconds / 2: break
                for name, call in run.items(): t[name].append(timed(call)[0])
            del run
            yield dict(graph=kind, n=n, m=m, f=f, weights=weighted, say=say, missing=missing, threads=o.threads,
                       times={k: statistics.median(v) for k, v in t.items()}, turns={k: len(v) for k, v in t.items()})
            print('%s, F = %d, %s: %s' % (kind, f, 'weights' if weighted else 'no weights',
                                          ', '.join('%s %.3f s (%d)' % (k, statistics.median(v), len(v))
                                                    for k, v in t.items())), flush=True)


def table(rows):
    from page import where
    names = ['GraphBLAS', 'scipy', 'torch.sparse', 'torch_sparse', 'DGL']
    missing = sorted({v for r in rows for v in r['missing']})
    say = max((r['say'] for r in rows), key=len)
    out = ['| graph, F | ours | ours, y kept | ' + ' | '.join(names) + ' | the fastest of them / ours |',
           '|---|---|---|' + '---|' * len(names) + '---|']
    for r in sorted(rows, key=lambda r: (r['graph'], not r['weights'], r['f'])):
        t = r['times']
        cell = ['%.3f s' % t[k] if k in t else 'not here' if k in missing else 'not run' if r['weights']
                or k not in ('scipy', 'torch.sparse') else 'as with weights of 1' for k in names]
        least = min([(t[k], k) for k in names if k in t] or [(float('nan'), 'no one is here')])
        out.append('| %s, F = %d, %s | %.3f s, %.0f GB/s of rows | %.3f s | %s | %.2f, %s |'
                   % ({'rmat': 'power law', 'uniform': 'edges anywhere'}[r['graph']], r['f'],
                      'weights' if r['weights'] else 'no weights', t['ours'], 4e-9 * r['m'] * r['f'] / t['ours'],
                      t['ours, y kept'], ' | '.join(cell), least[0] / t['ours'], least[1]))
    turns = [v for r in rows for v in r['turns'].values() if v > 1]
    out += ['',
            '%d nodes, %.1f M edges, %d threads, medians of %d to %d turns (above 4 s: of one); %s; '
            '`bench/peers/spmm.py`, %s.' % (rows[0]['n'], rows[0]['m'] / 1e6, rows[0]['threads'], min(turns, default=1),
                                            max(turns, default=1), ', '.join(say), where())]
    return out


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--graphs', default='rmat,uniform')
    a.add_argument('--f', default='16,64,256')
    a.add_argument('--nodes', type=int, default=1 << 20)
    a.add_argument('--threads', type=int, default=2)
    a.add_argument('--seconds', type=float, default=30, help='for a graph and width')
    a.add_argument('--without', default='', help='names of the table that have no turn')
    a.add_argument('--keep', help='a file that rows are added to; the table is made of all of them')
    a.add_argument('--page', help='the page of docs/ that gets the table')
    a.add_argument('--one', help=argparse.SUPPRESS)
    o = a.parse_args()
    o.f = [int(v) for v in o.f.split(',') if v]
    keep = o.keep or tempfile.NamedTemporaryFile(delete=False).name
    if o.one:
        for row in measure(o, o.one):
            with open(keep, 'a') as f: f.write(json.dumps(row) + '\n')
        return
    # torch in pages of 2 MB, as numpy is
    env = dict(os.environ, OMP_NUM_THREADS=str(o.threads), THP_MEM_ALLOC_ENABLE='1')
    for kind in o.graphs.split(',') if o.graphs else []:
        subprocess.run([sys.executable, __file__, '--one', kind, '--build', o.build, '--f', ','.join(map(str, o.f)),
                        '--nodes', str(o.nodes), '--threads', str(o.threads), '--seconds', str(o.seconds), '--without',
                        o.without, '--keep', keep], check=True, env=env)
    rows = [json.loads(line) for line in open(keep)]
    if not o.keep: os.remove(keep)
    if not rows: sys.exit('spmm: no rows')
    lines = table(rows)
    print('\n'.join(lines))
    if o.page:
        from page import put
        put(o.page, 'bench/peers/spmm.py', lines)


main()
