#!/usr/bin/env python3
"""tests/golden/make/groups.py - groups of channels and their importance by Torch-Pruning: tests/golden/groups.h

    python3 -m venv venv && venv/bin/pip install torch numpy && venv/bin/pip install --no-deps torch-pruning
    venv/bin/python tests/golden/make/groups.py > tests/golden/groups.h

Two networks of 1 x 4 x 4 inputs: RESIDUAL and SIDED of tests/gnn/prune/meta.c, which makes the same weights. Torch-
Pruning finds the layers that lose a channel together and the sum of squares of each; the mean over these layers is
recorded as (signal, channel, mean): its importance with p = 2, the mean over a group, and no normaliser."""
import torch, torch.nn as nn, torch_pruning as tp, sys
torch.set_default_dtype(torch.float64)


class Net(nn.Module):
    def __init__(self, sided):
        super().__init__()
        self.sided = sided
        self.conv = nn.ModuleList([nn.Conv2d(1, 3, 3, padding=1, bias=False), nn.Conv2d(3, 3, 1, bias=False),
                                   nn.Conv2d(3, 3, 3, padding=1, bias=False),
                                   nn.Conv2d(3, 5, 3, padding=1, stride=2, bias=False),
                                   nn.Conv2d(5, 5, 3, padding=1, bias=False)])
        self.norm = nn.ModuleList([nn.BatchNorm2d(c.out_channels) for c in self.conv])
        if sided:
            self.side = nn.Conv2d(3, 5, 1, stride=2, bias=False)
            self.side_norm = nn.BatchNorm2d(5)
        self.head = nn.Linear(5, 4)

    def forward(self, x):
        s = [x]
        for i in range(5):
            h = self.norm[i](self.conv[i](s[i]))
            if i == 2: h = h + s[1]
            if i == 4: h = h + (self.side_norm(self.side(s[3])) if self.sided else s[4])
            s.append(torch.relu(h))
        return self.head(s[5].mean((2, 3)))


def fill(net):
    w = v = 0
    tensors = []                            # the order of our parameters: weight, gain, bias, side, its gain and bias
    for i in range(5):
        tensors += [net.conv[i].weight, net.norm[i].weight, net.norm[i].bias]
        if i == 4 and net.sided: tensors += [net.side.weight, net.side_norm.weight, net.side_norm.bias]
    tensors += [net.head.weight, net.head.bias]
    with torch.no_grad():
        for t in tensors:
            n = t.numel()
            if t.dim() > 1:
                t.copy_(torch.tensor([(((w + k) * 37 + 11) % 97 - 48) / 64 for k in range(n)]).reshape(t.shape)); w += n
            else:
                t.copy_(torch.tensor([(((v + k) * 23 + 5) % 31 - 15) / 64 for k in range(n)])); v += n


print("/* tests/golden/groups.h - made by tests/golden/make/groups.py with Torch-Pruning %s: signal, channel, mean "
      "of the\n * sums of squares over the layers of its group */" % getattr(tp, "__version__", "1.6"))
for name, sided in (("residual", False), ("sided", True)):
    net = Net(sided).eval()
    fill(net)
    graph = tp.DependencyGraph().build_dependency(net, torch.randn(1, 1, 4, 4))
    score = tp.importance.GroupMagnitudeImportance(p=2, group_reduction="mean", normalizer=None)
    rows = []
    for signal, conv in enumerate(net.conv, 1):
        group = graph.get_pruning_group(conv, tp.prune_conv_out_channels, idxs=list(range(conv.out_channels)))
        print([str(d.dep.target.name) + " " + d.dep.handler.__name__ for d in group], file=sys.stderr)
        rows += ["%d, %d, %.17g," % (signal, c, x) for c, x in enumerate(score(group).tolist())]
    print("static const double groups_%s[] = {\n    %s\n};" % (name, "\n    ".join(rows)))
