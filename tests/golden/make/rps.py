#!/usr/bin/env python3
"""tests/golden/make/rps.py - maps of shared parameters by the authors' program, FakeRoast: tests/golden/rps.h

    python3 -m venv venv && venv/bin/pip install numpy
    venv/bin/python tests/golden/make/rps.py FOLDER_OF_FAKEROAST > tests/golden/rps.h

FakeRoast is no package: FOLDER has its Mapper_v2.py, revision d27193a of November 2023. Its mappers use six
functions of PyTorch on integers; numpy stands in for them here, so that every map comes from the authors' own lines.
The three numbers of the hash are set after the mapper is made. The matrix is the second of two: (12, 20) after one of
60 weights."""
import sys, types
import numpy as np


class Ints(np.ndarray):
    def repeat(self, *times): return np.tile(np.asarray(self), times).view(Ints)
    def to(self, device): return self
    device = 'cpu'


class Generator:
    def manual_seed(self, seed): pass


torch = types.ModuleType('torch')
torch.arange = lambda n: np.arange(int(n), dtype=np.int64).view(Ints)
torch.square = np.square
torch.Generator = Generator
torch.randint = lambda low, high, size, generator: np.ones(size, dtype=np.int64).view(Ints)
sys.modules['torch'] = torch
sys.modules['mmh3'] = types.ModuleType('mmh3')       # another hash, which is not used
sys.path.insert(0, sys.argv[1])
import io, contextlib
from Mapper_v2 import MapperFactory

R = [1234567891, 987654321, 555555555]
print('/* tests/golden/rps.h - written by tests/golden/make/rps.py from the mappers of FakeRoast: do not edit */')
print('static const uint64_t rps_r[3] = { %s };' % ', '.join(map(str, R)))
for name, mapper, m in (('fold', 'pareto', 97), ('tile', 'roast', 211), ('hash', 'hashednet', 97)):
    with contextlib.redirect_stdout(io.StringIO()):
        q = MapperFactory.get(mapper=mapper, hasher='uhash', seed=1)
    q.hasher.random_numbers = np.array(R + [1], dtype=np.int64).view(Ints)
    at = q.get_idx(mode='mlp', w_shape=(12, 20), original_offset=60, target_size=m, block_k=8, block_n=4)
    at = np.asarray(at).reshape(-1)
    print('static const int rps_%s_m = %d;' % (name, m))
    print('static const int16_t rps_%s[] = {' % name)
    for i in range(0, at.size, 24): print('    ' + ', '.join(map(str, at[i:i + 24])) + ',')
    print('};')
