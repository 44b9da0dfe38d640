#!/usr/bin/env python3
"""bench/peers/train.py - the trainer of the story model compared with PyTorch on the same processor

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python bench/peers/train.py [--build build] [--config examples/story.cfg] [--steps 6] [--rounds 3]
                                         [--threads 2]

The same model (sizes of the configuration, form grouped), the same number of sequences and tokens, float32, the same
optimiser (Muon for the matrices with 5 rounds of its iteration, fused AdamW for embedding and norms, gradient clipped),
the same number of threads. A round is one run of each in turn, in a process of its own: 2 warm-up steps, then --steps.
PyTorch runs eagerly, with its own fused attention; --compile adds a third run through torch.compile. The loss of the
first step is printed: neither model is trained yet. Prints tokens per second, the median of the rounds and the range.
--processor counts processor time instead of wall-clock time: for a machine with other load, with --threads 1 (threads
that wait for each other would be counted as working)."""
import argparse, json, os, resource, statistics, subprocess, sys, tempfile, time


def config(path):
    c = dict(embedding=256, layers=4, heads=8, kv_heads=2, hidden=512, context=256, sequences=16, matrix_rate=0.02,
             decay=0.01, rate=0.003, clip=1.0, spread=0.5, momentum=0.95)
    for line in open(path):
        line = line.split('#')[0].strip()
        if '=' in line:
            k, v = (x.strip() for x in line.split('='))
            if k in c: c[k] = type(c[k])(v)
    return c


def theirs(c, steps, threads, compiled, clock):
    import torch, torch.nn.functional as F
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    d, H, K, n, vocab = c['embedding'], c['heads'], c['kv_heads'], c['context'], 544
    dh, hidden = d // H, c['hidden']
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(0, dh, 2) / dh)
    cos, sin = angle.cos(), angle.sin()

    def turn(x):                            # (sequence, head, token, dh), adjacent pairs
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def matrix(rows, cols, less=1.0): return torch.nn.Parameter(torch.randn(rows, cols) * less / cols ** 0.5)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.g1, self.g2 = (torch.nn.Parameter(torch.ones(d)) for _ in range(2))
            self.q, self.k, self.v = matrix(d, d), matrix(K * dh, d), matrix(K * dh, d)
            less = (2.0 * c['layers']) ** -0.5
            self.o, self.gate, self.up = matrix(d, d, less), matrix(hidden, d), matrix(hidden, d)
            self.down = matrix(d, hidden, less)

        def forward(self, x):
            s = x.shape[0]
            h = F.rms_norm(x, (d,), self.g1, 1e-5)
            q, k, v = ((h @ w.T).view(s, n, -1, dh).transpose(1, 2) for w in (self.q, self.k, self.v))
            o = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
            x = x + o.transpose(1, 2).reshape(s, n, d) @ self.o.T
            h = F.rms_norm(x, (d,), self.g2, 1e-5)
            return x + (F.silu(h @ self.gate.T) * (h @ self.up.T)) @ self.down.T

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.e = torch.nn.Parameter(torch.randn(vocab, d) * c['spread'])
            self.layers = torch.nn.ModuleList(Layer() for _ in range(c['layers']))
            self.g = torch.nn.Parameter(torch.full((d,), min(1.0, 1 / (c['spread'] * d ** 0.5))))

        def forward(self, tokens):
            x = F.embedding(tokens[:, :-1], self.e)
            for layer in self.layers: x = layer(x)
            logits = F.rms_norm(x, (d,), self.g, 1e-5) @ self.e.T
            return F.cross_entropy(logits.view(-1, vocab), tokens[:, 1:].reshape(-1))

    model = Model()
    matrices = [p for l in model.layers for p in l.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() == 1] + [model.e]
    adam = torch.optim.AdamW(others, lr=c['rate'], betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    momentum = [torch.zeros_like(p) for p in matrices]

    @torch.no_grad()
    def muon():
        for p, m in zip(matrices, momentum):
            m.mul_(c['momentum']).add_(p.grad)
            x = p.grad + c['momentum'] * m
            x = x / (x.norm() + 1e-7)
            tall = p.shape[0] > p.shape[1]
            if tall: x = x.T
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + torch.addmm(a, a, a, beta=-4.7750, alpha=2.0315) @ x
            if tall: x = x.T
            p.mul_(1 - c['matrix_rate'] * c['decay']).add_(x, alpha=-c['matrix_rate']
                                                           * max(1, p.shape[0] / p.shape[1]) ** 0.5)

    run = torch.compile(model) if compiled else model
    first, start = None, 0.0
    for step in range(steps + 2):
        if step == 2: start = clock()
        # fresh ones, as the trainer has; drawing ours is in its time too
        tokens = torch.randint(vocab, (c['sequences'], n + 1))
        loss = run(tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), c['clip'], foreach=True)
        muon()
        adam.step()
        model.zero_grad(set_to_none=True)
        if first is None: first = loss.item() * 1.4426950408889634
    seconds = clock() - start
    print(json.dumps(dict(speed=steps * c['sequences'] * n / seconds, first=first, version='PyTorch '
                          + torch.__version__)))


def run_ours(build, path, steps, threads):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, 'm.gguf')
        subprocess.run([build + '/train-story', '--config', path, '--seed', '1', '--out', out, '--stop', str(steps),
                        '--save', '100000', '--threads', str(threads), '--quiet'],
                       check=True, capture_output=True)
        rows = [line.split() for line in open(out + '.tsv') if not line.startswith('#')]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return rows, used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime


def ours(build, path, steps, threads, processor):
    rows, used = run_ours(build, path, steps + 2, threads)
    if processor: return used - run_ours(build, path, 2, threads)[1], float(rows[0][1])
    return float(rows[-1][3]) - float(rows[1][3]), float(rows[0][1])


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--config', default='examples/story.cfg')
    a.add_argument('--steps', type=int, default=6)
    a.add_argument('--rounds', type=int, default=3)
    a.add_argument('--threads', type=int, default=2)
    a.add_argument('--compile', action='store_true')
    a.add_argument('--alone', action='store_true', help='ours only')
    a.add_argument('--processor', action='store_true')
    a.add_argument('--theirs', choices=['eager', 'compile'], help=argparse.SUPPRESS)
    o = a.parse_args()
    c = config(o.config)
    if o.theirs:
        return theirs(c, o.steps, o.threads, o.theirs == 'compile', time.process_time if o.processor
                      else time.perf_counter)
    tokens, speed, first, version = o.steps * c['sequences'] * c['context'], {}, {}, ''
    for _ in range(o.rounds):
        seconds, bits = ours(o.build, o.config, o.steps, o.threads, o.processor)
        speed.setdefault('ours', []).append(tokens / max(seconds, 1e-3))     # the resolution of the times in the file
        print('  ours %.0f tokens/s' % speed['ours'][-1], file=sys.stderr, flush=True)
        first['ours'] = bits
        for way in [] if o.alone else ['eager', 'compile'][:1 + o.compile]:
            done = subprocess.run([sys.executable, __file__, '--theirs', way, '--config', o.config, '--steps',
                                   str(o.steps), '--threads', str(o.threads)] + ['--processor'] * o.processor,
                                  capture_output=True, text=True)
            if done.returncode: sys.exit(done.stderr)
            said = json.loads(done.stdout.splitlines()[-1])
            speed.setdefault(way, []).append(said['speed'])
            print('  %s %.0f tokens/s' % (way, said['speed']), file=sys.stderr, flush=True)
            first[way], version = said['first'], said['version']
    print('%s: %d tokens a step, float32, %d threads, %d rounds of %d steps, %s, %s'
          % (o.config, c['sequences'] * c['context'], o.threads, o.rounds, o.steps, version, 'processor time'
             if o.processor else 'by the clock'))
    for who, s in speed.items():
        print('  %-8s %7.0f tokens/s   (%.0f to %.0f)   first loss %.2f bits   %s'
              % (who, statistics.median(s), min(s), max(s), first[who],
              '' if who == 'ours' else 'ours is %.2f times as fast' % (statistics.median(speed['ours'])
                                                                       / statistics.median(s))))


main()
