"""tinyllm: operations, models and graphs of tinyllm.h and tinygnn.h on numpy arrays, and a kit that checks kernels.

    tinyllm.run("softmax", x)                          an operation of the table, on the fastest target or any other
    @tinyllm.backend                                   a function as an accelerator
    tinyllm.conformance(f)                             is it right?
    tinyllm.Model("model.gguf").generate("Once")       text, logits, embeddings, tokens
    tinyllm.Graph(edges), Layer, Net                   graph networks, FastRP
    tinyllm.c                                          every public function, struct and constant of the two headers
"""
from ._backend import Backend, Call, Report, Verdict, backend, case_of, conformance
from ._c import c
from ._context import Context, Error, targets
from ._graph import Graph, Layer, Net
from ._model import Generation, Model, Template
from ._ops import Operation, operations, run
from ._tensor import BFloat16

__version__ = ".".join(str(c.TINY_VERSION // k % 100) for k in (10000, 100, 1))
__all__ = ["Backend", "BFloat16", "Call", "Context", "Error", "Generation", "Graph", "Layer", "Model", "Net",
           "Operation", "Report", "Template", "Verdict", "backend", "c", "case_of", "conformance",
           "operations", "run", "targets"]
