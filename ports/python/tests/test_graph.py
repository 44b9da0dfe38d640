"""Graphs, layers and FastRP compared with numpy, scipy and PyTorch Geometric."""
import numpy as np
import pytest

import tinyllm
from tinyllm import Graph, Layer, Net, c


@pytest.fixture
def edges(rng):
    return np.unique(rng.integers(0, 30, (2, 150)), axis=1)


def dense(edges, n=30, weight=1.0):
    """a[d, s]: the weight of the edge s -> d"""
    a = np.zeros((n, n))
    np.add.at(a, (edges[1], edges[0]), weight)
    return a


def gcn(a):
    a = a.copy()
    np.fill_diagonal(a, 1)
    r = 1 / np.sqrt(a.sum(1))
    return r[:, None] * a * r[None, :]


def near(got, want, tolerance=1e-5):
    assert got.shape == want.shape and got.dtype == np.float32
    assert np.abs(got - want).max() <= tolerance * max(1, np.abs(want).max())


def test_edges(edges):
    for given in (edges, edges.T.copy(), edges.astype(np.int64), edges.T.tolist()):
        g = Graph(given, n=30)
        assert (g.n_nodes, g.n_edges) == (30, edges.shape[1])
    offset, source, weight, number = g.csr()
    assert weight is None and offset[-1] == len(source) == g.n_edges
    target = np.repeat(np.arange(30), np.diff(offset))
    assert np.array_equal(source, edges[0][number]) and np.array_equal(target, edges[1][number])
    near(g.degrees(), dense(edges).sum(1))
    near(g.degrees(by_source=True), dense(edges).sum(0))
    assert Graph(np.zeros((2, 0), int), n=4).n_nodes == 4


def test_scipy(edges, rng):
    sparse = pytest.importorskip("scipy.sparse")
    w = rng.uniform(0.5, 2, edges.shape[1]).astype(np.float32)
    for form in ("csr", "csc", "coo"):
        m = sparse.coo_matrix((w, (edges[0], edges[1])), shape=(30, 30)).asformat(form)
        g = Graph(m)
        assert np.array_equal(g.to_scipy().toarray(), m.toarray())
    x = rng.standard_normal((30, 5), np.float32)
    near(g.spmm(x), m.T.astype(np.float64) @ x)
    a = dense(edges, 30, w)
    near(g.normalize("row").spmm(x), a / np.maximum(a.sum(1, keepdims=True), 1e-30) @ x)
    near(g.normalize("symmetric", add_loops=True, ignore_weights=True).spmm(x), gcn(dense(edges)) @ x)


def test_gcn(edges, rng):
    x, w, b = rng.standard_normal((30, 6)), rng.standard_normal((4, 6)), rng.standard_normal(4)
    g = Graph(edges, n=30)
    near(Layer("gcn", {"lin.weight": w, "bias": b})(g, x), gcn(dense(edges)) @ (x @ w.T) + b)
    near(Layer("sgc", {"lin.weight": w}, steps=3)(g, x), np.linalg.matrix_power(gcn(dense(edges)), 3) @ x @ w.T)
    near(Layer("gcn", {"lin.weight": w})(g, np.asfortranarray(x.astype("f4"))), gcn(dense(edges)) @ (x @ w.T))


def test_sage_and_gin(edges, rng):
    x, l, r, b = rng.standard_normal((30, 6)), *rng.standard_normal((2, 4, 6)), rng.standard_normal(4)
    a = dense(edges)
    mean = a / np.maximum(a.sum(1, keepdims=True), 1)
    g = Graph(edges, n=30)
    near(Layer("sage", {"lin_l.weight": l, "lin_l.bias": b, "lin_r.weight": r}, aggr="mean")(g, x),
         mean @ x @ l.T + b + x @ r.T)
    w2 = rng.standard_normal((3, 4))
    got = Layer("gin", {"nn.0.weight": l, "nn.0.bias": b, "nn.2.weight": w2}, eps=0.5)(g, x)
    near(got, np.maximum((1.5 * x + a @ x) @ l.T + b, 0) @ w2.T)


def test_gat(edges, rng):
    x, w = rng.standard_normal((30, 6)), rng.standard_normal((8, 6))
    src, dst = rng.standard_normal((2, 1, 2, 4))
    edges = edges[:, edges[0] != edges[1]]
    a = dense(edges) + np.eye(30)
    h = (x @ w.T).reshape(30, 2, 4)
    s = (h * src).sum(-1)[None, :, :] + (h * dst).sum(-1)[:, None, :]       # [d, s, head]
    s = np.where(s > 0, s, 0.2 * s)
    p = np.where(a[:, :, None] > 0, np.exp(s - s.max()), 0)
    want = np.einsum("dsh,shc->dhc", p / p.sum(1, keepdims=True), h).reshape(30, 8)
    got = Layer("gat", {"lin.weight": w, "att_src": src, "att_dst": dst}, heads=2)(Graph(edges, n=30), x)
    near(got, want)


def test_net(edges, rng, tmp_path):
    x = rng.standard_normal((30, 6)).astype(np.float32)
    g = Graph(edges, n=30)
    net = Net.usual("gcn", 6, 3, hidden=5, seed=4)
    assert (net.n_in, net.n_out) == (6, 3)
    w = net.weights
    assert sorted(w) == ["conv1.bias", "conv1.lin.weight", "conv2.bias", "conv2.lin.weight"]
    n = gcn(dense(edges))
    want = n @ (np.maximum(n @ (x @ w["conv1.lin.weight"].T) + w["conv1.bias"], 0) @ w["conv2.lin.weight"].T)
    near(net(g, x), want + w["conv2.bias"])
    net.write(tmp_path / "m.safetensors")
    with Net.read(tmp_path / "m.safetensors") as again:
        assert np.array_equal(again(g, x), net(g, x))
    made = Net.make({"format": "tgnn-net 1", "layers": [{"kind": "linear", "name": "l", "in": 6, "out": 2},
                                                        {"kind": "readout"}]}, seed=1)
    total = made(g, x)
    assert total.shape == (1, 2)
    near(made(g, x, graph_at=[0, 10, 30]).sum(0), total[0], 1e-4)


def test_fastrp(edges):
    g = Graph(edges, n=30, symmetrize=True, duplicates="first")
    fast = g.fastrp(32, seed=3)
    slow = Graph(edges, n=30, symmetrize=True, duplicates="first", target="reference").fastrp(32, seed=3)
    assert fast.shape == (30, 32) and np.abs(fast - slow).max() < 1e-5 and fast.std() > 0
    assert not np.array_equal(fast, g.fastrp(32, seed=4))
    a = dense(np.hstack([edges, edges[::-1]])) > 0
    p = a / np.maximum(a.sum(1, keepdims=True), 1)
    one, two = g.fastrp(32, weights=[1], l2=False, seed=3), g.fastrp(32, weights=[0, 1], l2=False, seed=3)
    assert np.abs(two - p @ one).max() < 1e-5               # U_2 = P U_1


def test_files(edges, tmp_path):
    g = Graph(edges, n=30)
    g.write(tmp_path / "g.tgraph")
    again = Graph.read(tmp_path / "g.tgraph")
    assert all(np.array_equal(a, b) for a, b in zip(g.csr()[:2], again.csr()[:2]))
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n")
    assert Graph.read(tmp_path / "edges.txt", symmetrize=True).n_edges == 4
    np.save(tmp_path / "e.npy", edges)
    assert Graph.read(tmp_path / "e.npy").n_edges == edges.shape[1]


def test_pyg_layers(edges, rng):
    torch = pytest.importorskip("torch")
    pyg = pytest.importorskip("torch_geometric.nn")
    x, index, g = torch.randn(30, 6), torch.tensor(edges), Graph(edges, n=30)
    for kind, conv, options in (("gcn", pyg.GCNConv(6, 4), {}), ("sage", pyg.SAGEConv(6, 4), {"aggr": "mean"}),
                                ("gat", pyg.GATConv(6, 4, heads=2), {"heads": 2})):
        want = conv(x, index).detach().numpy()
        near(Layer(kind, conv.state_dict(), **options)(g, x.numpy()), want)


@pytest.mark.parametrize("call, sentence", [
    (lambda g: Graph([[0, 1, 2]]), "shape"),
    (lambda g: Graph([0, 1]), "shape"),
    (lambda g: Graph([[0.5, 1], [1, 2]]), "whole numbers"),
    (lambda g: Graph([[0, -1], [1, 2]]), ""),
    (lambda g: Graph([[0, 2 ** 40], [1, 2]]), "outside"),
    (lambda g: Graph([[0, 1, 2], [1, 2, 0]], weight=[1.0]), "weights"),
    (lambda g: Graph([[0, 1], [1, 2]], duplicates="some"), "duplicates"),
    (lambda g: Graph([[0, 1], [1, 2]], n=-5), ""),
    (lambda g: Graph.read("/none/such"), "/none/such"),
    (lambda g: Graph.read(__file__), "test_graph"),
    (lambda g: g.normalize("both"), "norm"),
    (lambda g: g.spmm(np.zeros((2, 2))), ""),
    (lambda g: g.spmm(np.zeros(3)), "axes"),
    (lambda g: g.fastrp(0), "d=0"),
    (lambda g: g.fastrp(4, weights=[1] * 99), "weights"),
    (lambda g: Layer("gnn"), "kind"),
    (lambda g: Layer("gcn", {"weight": np.zeros((2, 2))}), "no weight 'weight'"),
    (lambda g: Layer("gcn", speed=3), "no option"),
    (lambda g: Layer("gcn", {"lin.weight": np.zeros((2, 5))})(g, np.zeros((3, 4))), "lin.weight is 2x5"),
    (lambda g: Layer("gcn")(g, np.zeros((3, 4))), "weights"),
    (lambda g: Layer("gatv2", {"att": np.zeros((2, 2))})(g, np.zeros((3, 4))), ""),
    (lambda g: Layer("gcn", {"lin.weight": np.zeros((2, 4))})(g, np.zeros((9, 4))), ""),
    (lambda g: Layer("gcn", {"lin.weight": np.array(["a"])}), "not of numbers"),
    (lambda g: Net.read("/none/such"), "such"),
    (lambda g: Net.make("{"), ""),
    (lambda g: Net.make({"format": "tgnn-net 1", "layers": [{"kind": "spline"}]}), "spline"),
    (lambda g: Net.usual("gcn", 0, 3), ""),
    (lambda g: Net.usual("gcn", 4, 3)(g, np.zeros((3, 5))), ""),
])
def test_refused(call, sentence):
    with Graph([[0, 1], [1, 2]]) as g:
        with pytest.raises(tinyllm.Error, match=sentence or ".") as e:
            call(g)
        assert e.value.code and e.value.name != "?"
        assert g.n_nodes == 3


def test_closed(edges):
    g, net = Graph(edges), Net.usual("gcn", 4, 3)
    g.close()
    net.close()
    for call in (lambda: g.n_nodes, g.csr, g.degrees, lambda: g.spmm(np.zeros((2, 2))), g.fastrp, lambda: net.n_in,
                 lambda: net.weights, lambda: net(g, np.zeros((1, 4)))):
        with pytest.raises(tinyllm.Error, match="closed"):
            call()
    g = Graph(edges, n=30)
    other = g.normalize()
    g.context.close()
    for call in (lambda: g.n_nodes, lambda: other.n_nodes):
        with pytest.raises(tinyllm.Error, match="closed"):
            call()
