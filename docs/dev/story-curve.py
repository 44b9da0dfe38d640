#!/usr/bin/env python3
"""docs/img/story-model.svg from the courses of the trainings: python3 docs/dev/story-curve.py"""
import math
import os

here = os.path.dirname(os.path.abspath(__file__))
CURVES = (('story-gla.tsv', '#2a7a3a', 'story-gla (gated, 0.93 million weights)'),
          ('story-model.tsv', '#1f5fa8', 'story (attention, 2.37 million)'),
          ('story-model-small.tsv', '#b06a00', 'story-small (attention, 0.66 million)'))


def course(name):
    """(step, bits above the floor) of each line"""
    with open(os.path.join(here, name)) as f:
        rows = [line.split() for line in f if not line.startswith('#')]
    return [(int(r[0]), float(r[1]) - float(r[2])) for r in rows]


courses = [course(name) for name, _, _ in CURVES]
last = max(c[-1][0] for c in courses)


def x_of(step):
    return 62 + 678 * step / last


def y_of(bits):
    return 354 - 320 / 3.4 * math.log10(bits / 0.005)


out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 400" font-family="sans-serif" font-size="12">',
       '<rect width="760" height="400" fill="#fff"/>',
       '<text x="62" y="20" font-size="14">Bits per token above the exact floor while the story models are trained</text>']
for v in (0.005, 0.01, 0.02, 0.045, 0.1, 0.2, 0.5, 1, 2, 5, 10):
    out.append('<line x1="62" x2="740" y1="%.1f" y2="%.1f" stroke="%s"/><text x="56" y="%.1f" text-anchor="end">%g</text>'
               % (y_of(v), y_of(v), '#c66' if v in (0.02, 0.045) else '#ddd', y_of(v) + 4, v))
for s in range(0, last + 1, 500):
    out.append('<line x1="%.1f" x2="%.1f" y1="34" y2="354" stroke="#eee"/><text x="%.1f" y="370" text-anchor="middle">%d</text>'
               % (x_of(s), x_of(s), x_of(s), s))
out.append('<text x="401" y="392" text-anchor="middle">steps of 4096 fresh tokens</text>')
for i, ((_, colour, name), c) in enumerate(zip(CURVES, courses)):
    points, at = [], 0
    while at < len(c):                      # means over 50 steps
        part = [p for p in c[at:] if p[0] < c[at][0] + 50]
        points.append((x_of(sum(p[0] for p in part) / len(part)), y_of(max(sum(p[1] for p in part) / len(part), 0.005))))
        at += len(part)
    out.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (colour, ' '.join('%.1f,%.1f' % p for p in points)))
    out.append('<text x="736" y="%d" text-anchor="end" fill="%s">%s</text>' % (50 + 16 * i, colour, name))
out.append('<text x="68" y="%.1f" fill="#c66">asked 0.045</text><text x="68" y="%.1f" fill="#c66">hoped 0.02</text></svg>'
           % (y_of(.045) - 3, y_of(.02) - 3))
with open(os.path.join(here, 'story-model.svg'), 'w') as f:
    f.write('\n'.join(out) + '\n')
