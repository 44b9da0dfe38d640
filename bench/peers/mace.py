#!/usr/bin/env python3
"""bench/peers/mace.py - energy and forces of a MACE potential by mace-torch and by build/potential, on one machine

    python3 -m venv venv && venv/bin/pip install mace-torch safetensors
    venv/bin/python bench/peers/mace.py [--build build] [--threads 1,2] [--atoms 64,1000] [--rounds 3]

A model with random weights (128x0e + 128x1o, harmonics to degree 3, correlation 3, two layers, radial layers of 64, two
elements, r_max 4.5 Angstrom) is written by ports/mace/export.py; both programs read it. Structures: a jittered grid in
a periodic cube, 14 Angstrom^3 an atom, about 25 neighbours each. Both build energy and forces; mace-torch gets its list
of neighbours ready made, ours is searched again each time. They run in turns; each round of ours is the median of
three. Prints the medians of the rounds, the ratio, that of the processor time (which does not depend on what else the
machine does), and how far the forces are apart."""
import argparse, os, re, statistics, subprocess, sys, tempfile, time, warnings
os.environ.setdefault('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
warnings.filterwarnings('ignore')
sys.path = [p for p in sys.path if os.path.abspath(p or '.') != os.path.dirname(os.path.abspath(__file__))]
import ase, numpy as np, torch
from ase.io import read, write
from e3nn import o3
from mace import data, modules, tools
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'ports', 'mace'))
import export


def build_model():
    cls = modules.interaction_classes
    return modules.ScaleShiftMACE(
        r_max=4.5, num_bessel=8, num_polynomial_cutoff=5, max_ell=3,
        interaction_cls=cls['RealAgnosticResidualInteractionBlock'],
        interaction_cls_first=cls['RealAgnosticInteractionBlock'], num_interactions=2, num_elements=2,
        hidden_irreps=o3.Irreps('128x0e+128x1o'), MLP_irreps=o3.Irreps('16x0e'),
        atomic_energies=np.array([-1.5, -2.25]), avg_num_neighbors=25.0, atomic_numbers=[1, 8], correlation=3,
        gate=torch.nn.functional.silu, atomic_inter_scale=1.0, atomic_inter_shift=0.0)


def structure(n):
    rng = np.random.default_rng(1)
    side, edge = int(np.ceil(n ** (1 / 3) - 1e-9)), (14.0 * n) ** (1 / 3)
    grid = np.array([(a, b, c) for a in range(side) for b in range(side) for c in range(side)][:n])
    return ase.Atoms(numbers=np.where(rng.random(n) < 2 / 3, 1, 8), cell=[edge] * 3, pbc=True,
                     positions=(grid + 0.3 * rng.random((n, 3))) / side * edge)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default='build')
    p.add_argument('--threads', default='1,2')
    p.add_argument('--atoms', default='64,1000')
    p.add_argument('--rounds', type=int, default=3)
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    model = build_model()
    table = tools.AtomicNumberTable([1, 8])
    with tempfile.TemporaryDirectory() as folder:
        path, xyz, out = (os.path.join(folder, n) for n in ('m.safetensors', 's.xyz', 'out.xyz'))
        export.write(path, *export.export(model))
        print(f'{"atoms":>6} {"type":>5} {"threads":>7} {"mace-torch ms":>14} {"ours ms":>9} '
              f'{"ratio":>6} {"of processor time":>18} {"forces apart":>13}')
        for n in map(int, a.atoms.split(',')):
            atoms = structure(n)
            write(xyz, atoms)
            for name, dtype in (('f32', torch.float32), ('f64', torch.float64)):
                torch.set_default_dtype(dtype)
                model = model.to(dtype)
                one = data.AtomicData.from_config(data.config_from_atoms(atoms), z_table=table, cutoff=4.5)
                batch = next(iter(tools.torch_geometric.dataloader.DataLoader([one], batch_size=1))).to_dict()
                for threads in map(int, a.threads.split(',')):
                    torch.set_num_threads(threads)
                    theirs, ours, busy, ours_busy = [], [], [], []
                    f = model(batch)['forces']
                    for _ in range(a.rounds):
                        began, spent = time.perf_counter(), time.process_time()
                        f = model(batch)['forces']
                        theirs.append(1e3 * (time.perf_counter() - began))
                        busy.append(1e3 * (time.process_time() - spent))
                        command = [os.path.join(a.build, 'potential'), path, xyz, '--repeat', '3', '--out', out,
                                   '--threads', str(threads)] + ['--f64'] * (name == 'f64')
                        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                        ours.append(float(re.search(r'([\d.]+) ms an', said).group(1)))
                        ours_busy.append(float(re.search(r'([\d.]+) ms of', said).group(1)))
                    apart = np.abs(read(out).get_forces() - f.detach().numpy()).max()
                    x, y = statistics.median(theirs), statistics.median(ours)
                    r = statistics.median(busy) / statistics.median(ours_busy)
                    print(f'{n:6} {name:>5} {threads:7} {x:14.1f} {y:9.1f} {x / y:6.1f} {r:18.1f} {apart:13.2g}',
                          flush=True)


main()
