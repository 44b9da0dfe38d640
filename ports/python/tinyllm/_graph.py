"""Graphs from numpy or scipy.sparse, layers and nets over them, FastRP."""
import ctypes
import json

import numpy as np

from . import _tensor
from ._c import c, enum_names
from ._context import Context, Error, Owned, argument
from ._model import path_bytes

_KINDS = {name.lower(): value for name, value in enum_names("tgnn_layer_kind").items() if name != "COUNT"}
_DUPLICATES = {name.lower(): value for name, value in enum_names("tiny_duplicates").items()}
_NORMS = {name.lower(): value for name, value in enum_names("tgnn_norm").items()}
_REDUCE = {name.lower(): value for name, value in enum_names("tiny_edge_reduce").items()}


def _choice(what, value, known):
    if value not in known:
        raise argument(f"{what}={value!r} is none of {', '.join(known)}")
    return known[value]


def _context(target, threads):
    return Context(target=target, threads=threads, wing="tinygnn")


def _floats(x, what, rank=None):
    """a tensor of float32, strides and all; numbers of another type are rounded to it"""
    x = np.asarray(x)
    if x.dtype.kind not in "fiub":
        raise Error(c.TINY_E_DTYPE, f"{what} is an array of {x.dtype}, not of numbers")
    if rank is not None and x.ndim != rank:
        raise Error(c.TINY_E_SHAPE, f"{what} has {x.ndim} axes, it must have {rank}")
    return _tensor.tensor_of(x.astype(np.float32, copy=False), what)


def _whole(x, what, dtype):
    """a dense array of whole numbers that all fit the type"""
    x = np.asarray(x)
    if x.size and x.dtype.kind not in "iub":
        raise Error(c.TINY_E_DTYPE, f"{what} is an array of {x.dtype}, not of whole numbers")
    if x.ndim != 1:
        raise Error(c.TINY_E_SHAPE, f"{what} has {x.ndim} axes, it must have 1")
    limits = np.iinfo(dtype)
    if x.size and (x.min() < limits.min or x.max() > limits.max):
        raise Error(c.TINY_E_OVERFLOW, f"{what} has numbers outside of {limits.min} .. {limits.max}")
    return np.ascontiguousarray(x, dtype)


def _held(at, n, dtype):
    """a copy of n numbers that C holds"""
    if not at or not n:
        return np.empty(0, dtype)
    return np.frombuffer((ctypes.c_char * (n * np.dtype(dtype).itemsize)).from_address(at), dtype).copy()


class Graph(Owned):
    """A directed graph: an edge s -> d carries a message from s to d.

        Graph(edges)                  an array (2, m) or (m, 2) of whole numbers: sources and destinations
        Graph(matrix)                 a matrix of scipy.sparse: entry (i, j) is an edge i -> j of that weight
        Graph.read(path)              an edge list, Matrix Market, .npz, .npy, .tgraph

    weight        of each edge; n: as many nodes at least
    symmetrize    each edge in both directions; duplicates: "keep", "sum", "first" or "max" of several edges s -> d
    add_loops     a loop of weight 1 for every node that has none; drop_loops
    """
    _what = "graph"

    def __init__(self, edges, weight=None, n=0, symmetrize=False, duplicates="keep", add_loops=False, drop_loops=False,
                 target=None, threads=0):
        if hasattr(edges, "tocoo"):
            if weight is not None:
                raise argument("a sparse matrix brings its weights")
            coo = edges.tocoo()
            if coo.shape[0] != coo.shape[1]:
                raise Error(c.TINY_E_SHAPE, f"the matrix is {coo.shape[0]} x {coo.shape[1]}, a graph is square")
            n, src, dst, weight = max(n, coo.shape[0]), coo.row, coo.col, coo.data
        else:
            edges = np.asarray(edges)
            if edges.ndim != 2 or (edges.size and 2 not in edges.shape):
                raise Error(c.TINY_E_SHAPE, f"edges have the shape {edges.shape}, they must be (2, m) or (m, 2)")
            src, dst = edges if edges.shape[0] == 2 else edges.T if edges.size else (edges.reshape(-1),) * 2
        ctx = _context(target, threads)
        src = _whole(src, "edges", np.int32)
        dst = _whole(dst, "edges", np.int32)
        view = c.tgnn_edges(n=len(src), src=src.ctypes.data, dst=dst.ctypes.data)
        if weight is not None:
            w = np.ascontiguousarray(weight, np.float32)
            if w.shape != src.shape:
                raise Error(c.TINY_E_SHAPE, f"{len(src)} edges have {w.size} weights")
            view.weight = w.ctypes.data
        desc, handle = _desc(n, symmetrize, duplicates, add_loops, drop_loops), ctypes.c_void_p()
        ctx.call("tgnn_graph_make", view, desc, ctypes.byref(handle))
        self._adopt(ctx, handle.value, c.tgnn_graph_close)

    @classmethod
    def _of(cls, ctx, handle):
        made = cls.__new__(cls)
        made._adopt(ctx, handle.value, c.tgnn_graph_close)
        return made

    @classmethod
    def read(cls, path, n=0, symmetrize=False, duplicates="keep", add_loops=False, drop_loops=False, target=None,
             threads=0):
        ctx, handle = _context(target, threads), ctypes.c_void_p()
        desc = _desc(n, symmetrize, duplicates, add_loops, drop_loops)
        ctx.call("tgnn_graph_read", path_bytes(path), desc, ctypes.byref(handle), interruptible=True)
        return cls._of(ctx, handle)

    def write(self, path):
        """as a .tgraph file"""
        self.context.call("tgnn_graph_write", path_bytes(path), self.handle)

    @property
    def n_nodes(self):
        return c.tgnn_graph_nodes(self.handle)

    @property
    def n_edges(self):
        return c.tgnn_graph_edges(self.handle)

    def csr(self):
        """(offset, source, weight, number) by destination: the edges into node d are offset[d] .. offset[d + 1]; weight
        is None where every edge weighs 1; number says which of the given edges it is, -1 for a loop that was added."""
        m = c.tgnn_graph_in(self.handle).contents
        return (_held(m.offset, m.n_rows + 1, np.int64), _held(m.col, m.n, np.int32),
                _held(m.value, m.n, np.float32) if m.value else None, _held(m.source, m.n, np.int64))

    def to_scipy(self):
        """the adjacency matrix, entry (s, d) for an edge s -> d, as a scipy.sparse.csr_matrix"""
        from scipy import sparse
        offset, source, weight, _ = self.csr()
        weight = np.ones(len(source), np.float32) if weight is None else weight
        shape = (self.n_nodes, c.tgnn_graph_sources(self.handle))
        return sparse.csr_matrix((weight, source, offset), shape=shape).T.tocsr()

    def degrees(self, by_source=False, counted=False):
        """sums of the weights into each node, or out of it; counted: 1 for each edge"""
        out = np.empty(c.tgnn_graph_sources(self.handle) if by_source else self.n_nodes, np.float32)
        self.context.call("tgnn_graph_degrees", self.handle, by_source, counted, out.ctypes.data)
        return out

    def normalize(self, norm="symmetric", add_loops=False, drop_loops=False, ignore_weights=False):
        """a new graph with the weights that convolutions want: norm is "symmetric" (GCN), "row" or "none" """
        desc = c.tgnn_normalize_desc(norm=_choice("norm", norm, _NORMS), add_loops=add_loops, drop_loops=drop_loops,
                                     ignore_weights=ignore_weights)
        handle = ctypes.c_void_p()
        self.context.call("tgnn_graph_normalize", self.handle, desc, ctypes.byref(handle))
        return Graph._of(self.context, handle)

    def spmm(self, x, reduce="sum"):
        """y[d] = reduce over the edges s -> d of weight * x[s]: (nodes, f) from (nodes, f)"""
        x, kept = _floats(x, "x", 2)
        out = np.empty((self.n_nodes, x.dim[1]), np.float32)
        y, _ = _tensor.tensor_of(out, "y")
        self.context.call("spmm_csr", c.tgnn_graph_in(self.handle), x, _choice("reduce", reduce, _REDUCE), y)
        return out

    def fastrp(self, d=128, weights=None, s=0.0, beta=0.0, adjacency=False, l2=True, raw=False, standardize=False,
               seed=0):
        """FastRP: d numbers for each node. weights: of the powers, (0, 1, 1) without; give undirected graphs both
        directions (symmetrize)."""
        if d < 1:
            raise argument(f"d={d}: an embedding has at least one number")
        desc = c.tgnn_fastrp_desc(s=s, beta=beta, adjacency=adjacency, no_l2=not l2, raw=raw, standardize=standardize,
                                  seed=seed)
        if weights is not None:
            if not 0 < len(weights) <= len(desc.weight):
                raise argument(f"there are 1 to {len(desc.weight)} weights, not {len(weights)}")
            desc.n_weights = len(weights)
            desc.weight[:len(weights)] = weights
        out = np.empty((self.n_nodes, d), np.float32)
        y, _ = _tensor.tensor_of(out, "y")
        self.context.call("tgnn_fastrp", self.handle, desc, y, interruptible=True)
        return out


def _desc(n, symmetrize, duplicates, add_loops, drop_loops):
    return c.tgnn_graph_desc(n_nodes=n, symmetrize=symmetrize, add_loops=add_loops, drop_loops=drop_loops,
                             duplicates=_choice("duplicates", duplicates, _DUPLICATES))


class Layer:
    """One graph convolution with the weights that PyTorch Geometric gives it.

        layer = Layer("gcn", {"lin.weight": w, "bias": b})              names as in the state_dict of the layer
        y = layer(graph, x)

    kind is gcn, sage, gat, gatv2, gin, gine, rgcn, transformer, sgc or appnp; options are members of tgnn_layer: heads,
    average, aggr ("mean" ...), normalize, no_loops, weighted, steps, alpha, slope, eps.
    """

    def __init__(self, kind, weights=None, **options):
        self._struct, self._keep = c.tgnn_layer(kind=_choice("kind", kind, _KINDS)), []
        self.kind, self._made = kind, None
        known = ("heads", "average", "aggr", "normalize", "no_loops", "weighted", "steps", "alpha", "slope", "eps")
        for name, value in options.items():
            if name not in known:
                raise argument(f"a layer has no option {name!r}: it has {', '.join(known)}")
            if name == "aggr" and isinstance(value, str):
                value = _choice("aggr", value, _REDUCE)
            setattr(self._struct, name, value)
        names = self.weight_names(kind)
        for name, value in (weights or {}).items():
            if name not in names:
                raise argument(f"{kind} has no weight {name!r}: it has {', '.join(names) or 'none'}")
            tensor, kept = _floats(value.detach() if hasattr(value, "detach") else value, name)
            if tensor.rank == 3 and tensor.dim[0] == 1 and name.startswith("att"):      # (1, heads, c), as PyG has it
                tensor, kept = _floats(kept[0], name)
            self._struct.w[names.index(name)] = tensor
            self._keep.append(kept)

    @staticmethod
    def weight_names(kind):
        number, names = _choice("kind", kind, _KINDS), []
        while len(names) < 9 and c.tgnn_layer_weight(number, len(names)):
            names.append(c.tgnn_layer_weight(number, len(names)).decode())
        return names

    def __call__(self, graph, x, edge=None, relation=None):
        """y (nodes, out) from x (nodes, in). edge: features of the edges as they were given (gine, transformer);
        relation: the number of each edge's relation (rgcn)."""
        ctx, handle, n = graph.context, ctypes.c_void_p(), 0
        xt, _kept_x = _floats(x, "x", 2)
        et, _kept_e = _floats(edge, "edge", 2) if edge is not None else (None, None)
        if relation is not None:
            relation = _whole(relation, "relation", np.int32)
            n = len(relation)
        width = max(1, c.tgnn_layer_width(self._struct, xt.dim[1]))        # 0: the call below says what does not fit
        ctx.call("tgnn_layer_graph", self._struct, graph.handle, relation.ctypes.data if n else None, n,
                 ctypes.byref(handle))
        with Graph._of(ctx, handle) as sums:
            out = np.empty((graph.n_nodes, width), np.float32)
            y, _ = _tensor.tensor_of(out, "y")
            ctx.call("tgnn_layer_run", self._struct, sums.handle, xt, et, y, None)
        return out


def _net(address):
    return ctypes.cast(address, ctypes.POINTER(c.tgnn_net))


class Net(Owned):
    """A network of graph layers: Net.read("model.safetensors") with model.json next to it, Net.make(description) with
    weights drawn, Net.usual("gcn", n_in, n_out) as in the papers."""
    _what = "net"

    @classmethod
    def _of(cls, ctx, handle):
        made = cls.__new__(cls)
        made._adopt(ctx, handle.value, lambda context, net: c.tgnn_net_free(context, _net(net)))
        return made

    @property
    def handle(self):
        """a pointer to the tgnn_net: its struct is public"""
        return _net(super().handle)

    @classmethod
    def read(cls, path, target=None, threads=0):
        ctx, handle = _context(target, threads), ctypes.c_void_p()
        ctx.call("tgnn_net_read", path_bytes(path), ctypes.byref(handle))
        return cls._of(ctx, handle)

    @classmethod
    def make(cls, description, seed=0, target=None, threads=0):
        """description: {"format": "tgnn-net 1", "layers": [...]}, a dict or a text"""
        ctx, handle = _context(target, threads), ctypes.c_void_p()
        text = (description if isinstance(description, str) else json.dumps(description)).encode()
        ctx.call("tgnn_net_make", b"description", text, len(text), seed, ctypes.byref(handle))
        return cls._of(ctx, handle)

    @classmethod
    def usual(cls, kind, n_in, n_out, hidden=0, heads=0, depth=0, readout=False, seed=0, target=None, threads=0):
        ctx, handle = _context(target, threads), ctypes.c_void_p()
        desc = c.tgnn_net_desc(kind=_choice("kind", kind, _KINDS), n_in=n_in, n_out=n_out, hidden=hidden, heads=heads,
                               depth=depth, readout=readout)
        ctx.call("tgnn_net_usual", desc, seed, ctypes.byref(handle))
        return cls._of(ctx, handle)

    def write(self, path):
        """path.safetensors and its .json"""
        self.context.call("tgnn_net_write", path_bytes(path), self.handle)

    @property
    def n_in(self):
        return self.handle.contents.n_in

    @property
    def n_out(self):
        return self.handle.contents.n_out

    @property
    def weights(self):
        """copies of the weights by their names, "conv1.lin.weight" ..."""
        found, net = {}, self.handle.contents
        for i in range(net.n_stages):
            stage = net.stage[i]
            names = ["weight", "bias"] if stage.kind == c.TGNN_STAGE_LINEAR else \
                Layer.weight_names(next(k for k, v in _KINDS.items() if v == stage.layer.kind)) \
                if stage.kind == c.TGNN_STAGE_CONV else []
            for name, tensor in zip(names, stage.layer.w):
                if tensor.data:
                    found[f"{stage.name.decode()}.{name}"] = _tensor.view(tensor, False).copy()
        return found

    def __call__(self, graph, x, edge=None, relation=None, graph_at=None):
        """y (nodes, n_out); after a readout (graphs, n_out). graph_at says where the nodes of each graph begin."""
        xt, _kept_x = _floats(x, "x", 2)
        given = c.tgnn_net_input(graph=graph.handle, x=ctypes.pointer(xt))
        rows = graph.n_nodes
        if edge is not None:
            et, _kept_e = _floats(edge, "edge", 2)
            given.e = ctypes.pointer(et)
        if relation is not None:
            relation = _whole(relation, "relation", np.int32)
            given.relation, given.n_relation = relation.ctypes.data, len(relation)
        net = self.handle.contents
        if any(net.stage[i].kind == c.TGNN_STAGE_READOUT for i in range(net.n_stages)):
            rows = 1
            if graph_at is not None:
                graph_at = _whole(graph_at, "graph_at", np.int64)
                rows = len(graph_at) - 1
                given.graph_at, given.n_graphs = graph_at.ctypes.data, rows
        out = np.empty((max(rows, 0), net.n_out), np.float32)
        y, _ = _tensor.tensor_of(out, "y")
        self.context.call("tgnn_net_run", self.handle, given, y, None)
        return out
