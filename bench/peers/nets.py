#!/usr/bin/env python3
"""bench/peers/nets.py - training of the small networks of examples/train.c compared with PyTorch on the same processor

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python bench/peers/nets.py [--build build] [--net mlp|conv] [--epochs 5] [--rounds 5] [--threads 2]
                                        [--alone]

mlp: 32-128-128-10 on 6000 points; conv: two convolutions with batch norm and pools, two dense layers, on 4000 images of
16 x 16. Batches of 100, Adam 2e-3 with a cosine, float32. A round is one run of each in turn, in a process of its own;
only the training is timed, in PyTorch after a warm-up of 20 steps. PyTorch runs eagerly, with fused Adam. Prints
samples per second, the median of the rounds and the range."""
import argparse, json, os, re, statistics, subprocess, sys, time


def theirs(net, epochs, threads):
    import torch, torch.nn as nn, torch.nn.functional as F
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    if net == 'mlp':
        x = torch.randn(6000, 32)
        model = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        x = torch.randn(4000, 1, 16, 16)
        model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                              nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32),
                              nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 88), nn.ReLU(),
                              nn.Linear(88, 10))
    label = torch.randint(10, (len(x),))
    optim = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    steps = epochs * (len(x) // 100)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optim, steps + 20)

    def run(n):
        done = 0
        while done < n:
            order = torch.randperm(len(x))
            for at in range(0, len(x), 100):
                i = order[at:at + 100]
                loss = F.cross_entropy(model(x[i]), label[i])
                optim.zero_grad(set_to_none=True)
                loss.backward()
                optim.step()
                rate.step()
                done += 1
                if done == n: break
    run(20)
    start = time.perf_counter()
    run(steps)
    print(json.dumps(dict(speed=100 * steps / (time.perf_counter() - start), version=torch.__version__)))


def ours(build, net, epochs, threads):
    said = subprocess.run([os.path.join(build, 'train'), net, '--epochs', str(epochs), '--threads', str(threads)],
                          check=True, capture_output=True, text=True).stdout
    return float(re.search(r'(\d+) samples/s', said).group(1))


def main():
    a = argparse.ArgumentParser()
    a.add_argument('--build', default='build')
    a.add_argument('--net', default='mlp', choices=['mlp', 'conv'])
    a.add_argument('--epochs', type=int, default=5)
    a.add_argument('--rounds', type=int, default=5)
    a.add_argument('--threads', type=int, default=2)
    a.add_argument('--alone', action='store_true', help='ours only')
    a.add_argument('--theirs', action='store_true', help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.theirs: return theirs(o.net, o.epochs, o.threads)
    speed, version = dict(ours=[], PyTorch=[]), ''
    for _ in range(o.rounds):
        speed['ours'].append(ours(o.build, o.net, o.epochs, o.threads))
        if o.alone: continue
        done = subprocess.run([sys.executable, __file__, '--theirs', '--net', o.net, '--epochs', str(o.epochs),
                               '--threads', str(o.threads)], capture_output=True, text=True)
        if done.returncode: sys.exit(done.stderr)
        said = json.loads(done.stdout.splitlines()[-1])
        speed['PyTorch'].append(said['speed'])
        version = said['version']
    print('%s, batches of 100, Adam, float32, %d threads, %d rounds of %d epochs, PyTorch %s'
          % (o.net, o.threads, o.rounds, o.epochs, version))
    for who, s in speed.items():
        if s: print('  %-8s %8.0f samples/s   (%.0f to %.0f)' % (who, statistics.median(s), min(s), max(s)))
    if not o.alone:
        print('  ours is %.2f times as fast'
              % (statistics.median(speed['ours']) / statistics.median(speed['PyTorch'])))


main()
