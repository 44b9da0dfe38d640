# tests/math/muon.py - the numbers of test_muon in tests/math/optim.c, in numpy doubles: two steps on a wide matrix and
# two on a tall one
import numpy as np


def newton_schulz(u):
    x = u / (np.sqrt((u * u).sum()) + 1e-7)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


for rows, cols in ((2, 3), (3, 2)):
    w = np.array([0.5, -1, 0.25, 2, 0.125, -0.75]).reshape(rows, cols)
    m = np.zeros((rows, cols))
    for g in ([1, 2, -1, 0.5, 3, -2], [-1, 0.5, 0.25, 2, -0.5, 1]):
        g = np.array(g, float).reshape(rows, cols)
        m = 0.95 * m + g
        x = newton_schulz(g + 0.95 * m)
        w = w - 0.02 * 0.01 * w - 0.02 * max(1, rows / cols) ** 0.5 * x
        print(rows, cols, ", ".join("%.12f" % v for v in w.ravel()))
