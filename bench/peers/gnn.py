#!/usr/bin/env python3
"""bench/peers/gnn.py - Cora by build/gnn compared with PyTorch Geometric, in turns

    python3 -m venv venv && venv/bin/pip install numpy torch torch_geometric
    venv/bin/python bench/peers/gnn.py [--build build] [--data FOLDER] [--layers gcn,gat] [--rounds 3] [--threads 2]
                                       [--page docs/papers/graphs.md]

Public split, rows of x divided by their sums, Adam with coupled decay of 5e-4, a seed for each round.
gcn: 1433 - 16 - 7, dropout 0.5, rate 0.01, decay of the first layer, 200 epochs; the last epoch counts and no earlier
one is judged. gat: 8 heads of 8, one of 7, ELU, dropout 0.6 of features and attention, rate 0.005, decay of all, at
most --most epochs, patience 100. After each epoch the validation loss is computed without dropout, and the weights of
its minimum are restored. Both sides follow the same rule and do the same work.

PyTorch Geometric runs with edge_index and GCNConv(cached=True). The second peer (gcn) is its form with the adjacency as
torch.sparse CSR. The third is PyTorch by hand, where x is CSR as well and dropout draws for stored values only, as in
ours. They stay in one process, which waits on a pipe while ours runs. Seconds are wall-clock time of the training
itself, without reading the data and (theirs) without the first step of a network that is discarded. Processor seconds
are of the same span: theirs by the process clock, ours as the whole program minus a run of a single epoch. --whole adds
a cold start of each program: imports, reading, training, one seed.
--alone: ours only; without the data, on the planted graph of build/gnn."""
import argparse, json, os, re, resource, statistics, subprocess, sys, tempfile, time


def read(folder):
    import numpy as np, torch
    y = torch.from_numpy(np.loadtxt(folder + '/labels.txt', dtype=np.int64))
    e = np.loadtxt(folder + '/edges.tsv', dtype=np.int64)
    with open(folder + '/features.coo') as f:
        rows, cols, _ = (int(v) for v in f.readline().split())
        coo = np.loadtxt(f)
    x = np.zeros((rows, cols), np.float32)
    x[coo[:, 0].astype(int), coo[:, 1].astype(int)] = coo[:, 2]
    x /= np.maximum(x.sum(1, keepdims=True), 1e-30)
    split = [line.strip() for line in open(folder + '/splits.txt')]
    assert len(split) == len(y) == rows
    part = {k: torch.tensor([s.startswith(k) for s in split]) for k in ('tr', 'va', 'te')}
    return torch.from_numpy(x), y, torch.from_numpy(np.concatenate([e.T, e.T[::-1]], 1).copy()), part


def net(kind, x, y, form):
    import torch, torch.nn.functional as F
    from torch_geometric.nn import GATConv, GCNConv
    classes = int(y.max()) + 1

    class GCN(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = GCNConv(x.shape[1], 16, cached=True), GCNConv(16, classes, cached=True)

        def forward(self, x, e):
            x = F.relu(self.conv1(F.dropout(x, 0.5, self.training), e))
            return self.conv2(F.dropout(x, 0.5, self.training), e)

    class GAT(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = GATConv(x.shape[1], 8, heads=8,
                                             dropout=0.6), GATConv(64, classes, heads=1, concat=False, dropout=0.6)

        def forward(self, x, e):
            x = F.elu(self.conv1(F.dropout(x, 0.6, self.training), e))
            return self.conv2(F.dropout(x, 0.6, self.training), e)

    class Hand(torch.nn.Module):
        """GCN with a of the norms and x both torch.sparse CSR"""
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = torch.nn.Linear(x.shape[1], 16), torch.nn.Linear(16, classes)
            for m in (self.conv1, self.conv2): torch.nn.init.xavier_uniform_(m.weight), torch.nn.init.zeros_(m.bias)

        def forward(self, x, a):
            values = F.dropout(x.values(), 0.5, self.training)
            x = torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)
            x = F.relu(a @ (x @ self.conv1.weight.T) + self.conv1.bias)
            return a @ (F.dropout(x, 0.5, self.training) @ self.conv2.weight.T) + self.conv2.bias

    return GAT() if kind == 'gat' else Hand() if form == 'hand' else GCN()


def train(kind, data, seed, epochs, form):
    """one seed -> seconds, processor seconds, epochs, test accuracy"""
    import copy, torch, torch.nn.functional as F
    x, y, e, part = data
    if form == 'csr':
        import torch_geometric.transforms, torch_geometric.data
        d = torch_geometric.data.Data(x=x, edge_index=e, num_nodes=len(y))
        d = torch_geometric.transforms.ToSparseTensor(layout=torch.sparse_csr)(d)
        e = d.adj_t
    if form == 'hand':
        from torch_geometric.nn.conv.gcn_conv import gcn_norm
        i, w = gcn_norm(e, None, len(y))
        e, x = torch.sparse_coo_tensor(i, w, (len(y), len(y))).coalesce().to_sparse_csr(), x.to_sparse_csr()
    torch.manual_seed(seed)
    start, cpu = time.perf_counter(), time.process_time()
    model = net(kind, x, y, form)
    first = list(model.conv1.parameters())
    rate, decay = (0.01, 5e-4) if kind == 'gcn' else (0.005, 5e-4)
    adam = torch.optim.Adam([dict(params=first, weight_decay=decay),
                             dict(params=list(model.conv2.parameters()), weight_decay=decay if kind == 'gat' else 0)],
                            lr=rate)
    best, kept, waited = float('inf'), None, 0
    for epoch in range(1, epochs + 1):
        model.train()
        adam.zero_grad(set_to_none=True)
        F.cross_entropy(model(x, e)[part['tr']], y[part['tr']]).backward()
        adam.step()
        if kind == 'gat':
            model.eval()
            with torch.no_grad(): loss = F.cross_entropy(model(x, e)[part['va']], y[part['va']]).item()
            waited += 1
            if loss < best: best, kept, waited = loss, copy.deepcopy(model.state_dict()), 0
            if waited == 100: break
    if kept: model.load_state_dict(kept)
    model.eval()
    with torch.no_grad(): right = (model(x, e).argmax(1) == y)[part['te']].float().mean().item()
    return dict(seconds=time.perf_counter() - start, processor=time.process_time() - cpu, epochs=epoch,
                test=100 * right)


def serve(o):
    import warnings
    warnings.simplefilter('ignore')
    import torch, torch_geometric
    torch.set_num_threads(o.threads)
    data, warm = read(o.data), set()
    print(json.dumps(dict(say='PyTorch Geometric %s, PyTorch %s' % (torch_geometric.__version__, torch.__version__))),
          flush=True)
    for line in sys.stdin:
        kind, seed, epochs, form = line.split()
        if (kind, form) not in warm: train(kind, data, 0, 1, form)
        warm.add((kind, form))
        print(json.dumps(train(kind, data, int(seed), int(epochs), form)), flush=True)


def ours(o, kind, seed, epochs):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([o.build + '/gnn', 'train'] + [o.data] * os.path.exists(o.data)
                          + ['--layers', kind, '--seed', str(seed), '--epochs', str(epochs), '--threads',
                             str(o.threads), '--quiet'], capture_output=True, text=True)
    whole = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = re.search(r'seed \d+: (\d+) epochs, .*test ([\d.]+) %, ([\d.]+) s', done.stdout)
    if done.returncode or not said: sys.exit('gnn: ours failed: ' + done.stderr)
    return dict(seconds=float(said[3]), processor=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                epochs=int(said[1]), test=float(said[2]), whole=whole)


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--data', default='../shared/data/graphs/cora')
    a.add_argument('--layers', default='gcn,gat')
    a.add_argument('--forms', default='edge_index,csr,hand', help='of theirs')
    a.add_argument('--rounds', type=int, default=3)
    a.add_argument('--most', type=int, default=1000)
    a.add_argument('--threads', type=int, default=2)
    a.add_argument('--whole', action='store_true')
    a.add_argument('--alone', action='store_true', help='ours only')
    a.add_argument('--keep', help='a file that rows are added to; the table is made of all of them')
    a.add_argument('--page', help='the page of docs/ that gets the table')
    a.add_argument('--serve', action='store_true', help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.serve: return serve(o)
    keep = o.keep or tempfile.NamedTemporaryFile(delete=False).name
    if o.layers:
        if not os.path.exists(o.data) and not o.alone: return print('gnn: no Cora data; --data FOLDER names them')
        command = [sys.executable, __file__, '--serve', '--data', o.data, '--threads', str(o.threads)]
        pipe, say = None, 'no peer'
        if not o.alone:
            pipe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env=dict(os.environ, OMP_NUM_THREADS=str(o.threads)))
            say = json.loads(pipe.stdout.readline())['say']

        def theirs(kind, seed, epochs, form, to=pipe):
            to.stdin.write('%s %d %d %s\n' % (kind, seed, epochs, form))
            to.stdin.flush()
            return json.loads(to.stdout.readline())
        for kind in o.layers.split(','):
            epochs = min(200, o.most) if kind == 'gcn' else o.most
            one = min(ours(o, kind, 0, 1)['processor'] for _ in range(3))
            rows = {}
            for seed in range(o.rounds):
                for name in ['ours'] + [v for v in o.forms.split(',') if not o.alone
                                        and (kind == 'gcn' or v == 'edge_index')]:
                    time.sleep(0.05)
                    r = ours(o, kind, seed, epochs) if name == 'ours' else theirs(kind, seed, epochs, name)
                    if name == 'ours': r['processor'] -= one
                    rows.setdefault(name, []).append(r)
                    print('  %s %-10s seed %d: %d epochs, %.2f s, %.2f s of processors, test %.1f %%'
                          % (kind, name, seed, r['epochs'], r['seconds'], r['processor'], r['test']), flush=True)
            whole = None
            if o.whole and kind == 'gcn' and not o.alone:
                t = time.perf_counter()
                fresh = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                fresh.stdout.readline()
                theirs(kind, 0, epochs, 'edge_index', fresh)
                whole = [statistics.median(r['whole'] for r in rows['ours']), time.perf_counter() - t]
                fresh.stdin.close()
                fresh.wait()
            with open(keep, 'a') as f:
                f.write(json.dumps(dict(kind=kind, rows=rows, say=say, threads=o.threads, whole=whole, most=epochs))
                        + '\n')
        if pipe:
            pipe.stdin.close()
            pipe.wait()
    kept = {}
    for line in open(keep):
        r = json.loads(line)
        k = kept.setdefault(r['kind'], r)
        if k is not r:
            for name, v in r['rows'].items(): k['rows'].setdefault(name, []).extend(v)
            k['whole'] = k['whole'] or r['whole']
    if not o.keep: os.remove(keep)
    from page import put, times, where
    lines = ['| Cora, public split | by | seconds | of processors | epochs | ms an epoch | test, mean | '
             'times as long as ours |', '|---|---|---|---|---|---|---|---|']
    names = {'ours': 'ours', 'edge_index': 'PyTorch Geometric, edge_index',
             'csr': 'PyTorch Geometric, torch.sparse CSR', 'hand': 'PyTorch by hand, all CSR'}
    for kind, r in kept.items():
        mid = lambda v, k: statistics.median(q[k] for q in v)
        each = {k: statistics.median(q['seconds'] / q['epochs'] for q in v) for k, v in r['rows'].items()}
        for k, v in r['rows'].items():
            lines.append('| %s | %s | %.2f | %.2f | %.0f | %.2f | %.1f %% | %s |'
                         % (kind.upper(), names[k], mid(v, 'seconds'), mid(v, 'processor'), mid(v, 'epochs'),
                            1e3 * each[k], statistics.mean(q['test'] for q in v),
                            '1' if k == 'ours' else '%s (an epoch: %s)'
                            % (times(mid(v, 'seconds'), mid(r['rows']['ours'], 'seconds'), '%.2f'),
                               times(each[k], each['ours'], '%.2f'))))
        if r['whole']:
            lines.append('| %s, the whole program | ours; PyTorch Geometric | %.2f; %.2f | not counted | %d | '
                         'not counted | as above | %s |'
                         % (kind.upper(), *r['whole'][:2], r['most'], times(r['whole'][1], r['whole'][0])))
    any_ = next(iter(kept.values()))
    rounds = sorted({len(v) for r in kept.values() for v in r['rows'].values()})
    lines += ['',
              'Medians of %s rounds in turns, a seed each, %d threads; GAT of %d epochs at most; %s; '
              '`bench/peers/gnn.py`, %s.'
              % (' to '.join(str(v) for v in {rounds[0]: 0, rounds[-1]: 0}), any_['threads'],
                 max([r['most'] for k, r in kept.items() if k == 'gat'], default=o.most), any_['say'], where())]
    print('\n'.join(lines))
    if o.page: put(o.page, 'bench/peers/gnn.py', lines)


main()
