# Neighbour sampling of DGL compared with ours: the graph that `build/bench --only graph` samples, the same seeds per
# batch and fanouts.
#
#     build/graph make rmat rmat.tgraph --nodes 1048576 --degree 16 --seed 1
#     python3 bench/peers/sample.py rmat.tgraph [THREADS]
#
# needs numpy, torch and dgl. The figure counts drawn edges, blocks with new numbers included, as ours does.
import statistics, sys, time
try:
    import numpy, torch, dgl
except ImportError as e:
    sys.exit("sample: %s, so there is no row of DGL" % e)

threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
torch.set_num_threads(threads)
raw = numpy.memmap(sys.argv[1], mode="r")
raw = raw[192:]                        # the body of its box (docs/guide/checkpoints.md)
n, _, m = (int(x) for x in raw[16:40].view("<i8"))
at = 64 + (8 * (n + 1) + 63) // 64 * 64
offset = torch.from_numpy(raw[64:64 + 8 * (n + 1)].view("<i8").copy())
source = torch.from_numpy(raw[at:at + 4 * m].view("<i4").astype("i8"))
g = dgl.graph(("csc", (offset, source, [])), num_nodes=n)
sampler = dgl.dataloading.NeighborSampler([5, 10, 15])       # the last one is next to the seeds
rates = []
for step in range(40):
    seeds = torch.randperm(n)[:1024]
    start = time.perf_counter()
    _, _, blocks = sampler.sample_blocks(g, seeds)
    spent = time.perf_counter() - start
    if step >= 10:
        rates.append(sum(b.num_edges() for b in blocks) / spent / 1e6)
print(f"DGL {dgl.__version__}, {threads} threads: {statistics.median(rates):.1f} M edges a second "
      f"(median of {len(rates)})")
