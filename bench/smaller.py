#!/usr/bin/env python3
"""bench/smaller.py - every way of this library to make a model smaller, on one model, in one table

    make smaller
    python3 bench/smaller.py BUILD [--stories N] [--rounds N] [--check | --draw]

The story model is quantized, rotated, sliced and pruned by the programs of examples/. build/judge reads held-out
stories with each result: the smallest possible loss of their language is known, so it prints by how many bits a token a
model exceeds it. build/bench-model decodes with each file in turn, and each speed is the median of the rounds. Writes
docs/dev/smaller.tsv, docs/img/smaller.svg and the rows between the marks of docs/guide/smaller-models.md. --check makes
and judges three of the models with few stories and writes nothing outside BUILD."""
import argparse, json, math, os, statistics, subprocess, sys

BASE = 'examples/models/story.gguf'
PAGE, TABLE, PICTURE = 'docs/guide/smaller-models.md', 'docs/dev/smaller.tsv', 'docs/img/smaller.svg'
BEGIN, END = '<!-- rows: make smaller -->', '<!-- end of rows -->'

# kind, name, program and arguments: {in} the base, {out} the result, {text} stories that no judge reads; {NAME} is the
# result of an earlier line. A line without arguments is a file that exists.
TEXT = ['--text', '{text}']
WAYS = [('base', 'as it is (Q8_0)', None)]
WAYS += [('rounding', t, ['quantize', '{in}', '{out}', t, '--pure'])
         for t in ('Q6_K', 'Q5_K', 'Q4_K', 'Q4_0', 'IQ4_XS', 'Q3_K', 'IQ3_S', 'Q2_K')]
WAYS += [('GPTQ', t + ' by GPTQ', ['quantize', '{in}', '{out}', t, '--pure', '--gptq'] + TEXT)
         for t in ('Q4_K', 'Q3_K', 'Q2_K')]
WAYS += [('AWQ', 'Q4_0 by AWQ', ['quantize', '{in}', '{out}', 'Q4_0', '--pure', '--awq'] + TEXT)]
WAYS += [('slices', 'width %s' % k, ['slice', '{in}', '{out}', '--keep', k] + TEXT) for k in ('0.9', '0.75', '0.6')]
WAYS += [('slices', 'width 0.9, Q4_0', ['quantize', '{width 0.9}', '{out}', 'Q4_0', '--pure'])]
WAYS += [('neurons, heads', n, ['prune', '{in}', '{out}', *how] + TEXT)
         for n, how in (('1/8 of the neurons', ('--neurons', '12.5')), ('1/4 of the neurons', ('--neurons', '25')),
                        ('2 of 8 heads', ('--heads', '25')))]
WAYS += [('zeros', 'half zero, SparseGPT', ['prune', '{in}', '{out}', '--by', 'sparsegpt', '--zeros', '50'] + TEXT)]
WAYS += [('smaller network', 'story-small, trained alone', 'examples/models/story-small.gguf')]

def run(build, program, *args):
    r = subprocess.run([os.path.join(build, program), *args], capture_output=True, text=True)
    if r.returncode: sys.exit('%s %s: %s' % (program, ' '.join(args), (r.stderr or r.stdout).strip()[-300:]))
    return r.stdout

def processor():
    for line in open('/proc/cpuinfo') if os.path.exists('/proc/cpuinfo') else ():
        if line.startswith('model name'): return line.split(':', 1)[1].strip()
    return 'unknown processor'

def make(build, ways):
    """ the files of the ways, by name """
    folder = os.path.join(build, 'smaller')
    os.makedirs(folder, exist_ok=True)
    text = os.path.join(folder, 'stories.txt')
    with open(text, 'w') as f: f.write(run(build, 'story-gen', '--stories', '3000', '--seed', '7'))
    files = {}
    for kind, name, how in ways:
        print('%s: %s' % (kind, name), file=sys.stderr, flush=True)
        if not isinstance(how, list): files[name] = how or BASE
        else:
            out = os.path.join(folder, ''.join(c if c.isalnum() or c in '.-' else '_' for c in name) + '.gguf')
            if os.path.exists(out): os.remove(out)
            words = {'{in}': BASE, '{out}': out, '{text}': text, **{'{%s}' % k: v for k, v in files.items()}}
            run(build, how[0], *[words.get(a, a) for a in how[1:]])
            files[name] = out
    return files

def measure(build, ways, files, stories, rounds):
    rows, speeds = [], {name: [] for name in files}
    for i in range(rounds):
        for name, path in files.items():
            print('\rdecoding: round %d of %d, %-32s' % (i + 1, rounds, name), end='', file=sys.stderr, flush=True)
            r = json.loads(run(build, 'bench-model', path, '-p', '128', '-n', '256', '-t', '1', '-r', '1',
                               '--no-mixed', '--json'))
            speeds[name].append((r[0]['decode_per_s'], r[0]['prompt_per_s']))
    print(file=sys.stderr)
    for kind, name, _ in ways:
        print('judging: %s' % name, file=sys.stderr, flush=True)
        against = [] if files[name] == BASE else ['--against', BASE]
        j = json.loads(run(build, 'judge', files[name], *against, '--stories', str(stories), '--tell', '0', '--json'))
        decode, prompt = (statistics.median(x) for x in zip(*speeds[name]))
        rows.append(dict(kind=kind, name=name, bytes=os.path.getsize(files[name]), excess=j['excess'], low=j['low'],
                         high=j['high'], kl=j.get('kl', 0.0), decode=decode, prompt=prompt))
    return rows

def table(rows):
    base = rows[0]
    out = ['| way | model | MB | share of the bytes | bits above the floor (95 of 100 samples) | divergence, bits a '
           'token | decode, tokens/s | prompt, tokens/s |', '|---|---|---|---|---|---|---|---|']
    for r in rows:
        out.append('| %s | %s | %.2f | %.2f | %.4f (%.4f to %.4f) | %.4f | %.0f | %.0f |' % (
            r['kind'], r['name'], r['bytes'] / 1e6, r['bytes'] / base['bytes'], r['excess'], r['low'], r['high'],
            r['kl'], r['decode'], r['prompt']))
    return '\n'.join(out)

COLOURS = {'base': '#444', 'rounding': '#0072b2', 'GPTQ': '#56b4e9', 'AWQ': '#009e73', 'slices': '#d55e00',
           'zeros': '#cc79a7', 'neurons, heads': '#882255',
           'smaller network': '#e69f00'}

def ticks(lo, hi):
    """ about five round numbers """
    step = 10.0 ** math.floor(math.log10((hi - lo) / 4))
    step *= min((1, 2, 5, 10), key=lambda k: abs((hi - lo) / (step * k) - 5))
    return [step * k for k in range(math.ceil(lo / step), math.floor(hi / step) + 1)]

# of the number beside a point: where it begins, and how it is anchored
BESIDE = [(6, 4, 'start'), (-6, 4, 'end'), (0, -7, 'middle'), (0, 15, 'middle'), (6, -5, 'start'), (-6, -5, 'end'),
          (6, 13, 'start'), (-6, 13, 'end'), (0, -17, 'middle'), (0, 25, 'middle'), (12, -14, 'start'),
          (-12, -14, 'end'), (12, 23, 'start'), (-12, 23, 'end'), (0, -27, 'middle'), (0, 35, 'middle')]

def panel(rows, key, x0, title, labels):
    """ bits above the floor, on a logarithmic axis, against rows[key] """
    w, h, top = 330, 300, 50
    xs, ys = [r[key] for r in rows], [r['excess'] for r in rows]
    lo, hi = min(xs) - 0.06 * (max(xs) - min(xs)), max(xs) + 0.06 * (max(xs) - min(xs))
    y0, y1 = math.log(min(ys) * 0.9), math.log(max(ys) * 1.1)
    X = lambda v: x0 + (v - lo) / (hi - lo) * w
    Y = lambda v: top + h - (math.log(v) - y0) / (y1 - y0) * h
    out = ['<text x="%d" y="30" font-size="14">%s</text>' % (x0, title),
           '<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999"/>' % (x0, top, w, h)]
    for v in (m * 10.0 ** e for e in range(-4, 2) for m in (1, 1.5, 2, 3, 4, 5, 6, 7, 8)):
        if not y0 < math.log(v) < y1: continue
        out.append('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>' % (x0, x0 + w, Y(v), Y(v)))
        if labels: out.append('<text x="%d" y="%.1f" text-anchor="end">%.3g</text>' % (x0 - 5, Y(v) + 4, v))
    for v in ticks(lo, hi):
        out.append('<text x="%.1f" y="%d" text-anchor="middle">%.5g</text>' % (X(v), top + h + 16, v))
    points = [(X(x), Y(y)) for x, y in zip(xs, ys)]
    boxes = [(x - 4, y - 4, x + 4, y + 4) for x, y in points]
    for k, (r, (x, y)) in enumerate(zip(rows, points)):
        name = str(k + 1)
        out.append('<circle cx="%.1f" cy="%.1f" r="4" fill="%s"><title>%s: %s</title></circle>' % (
            x, y, COLOURS[r['kind']], r['kind'], r['name']))
        for dx, dy, anchor in BESIDE:
            left = x + dx - {'start': 0, 'middle': 3 * len(name), 'end': 6 * len(name)}[anchor]
            box = (left, y + dy - 8, left + 6 * len(name), y + dy)
            if not any(a[0] < box[2] and box[0] < a[2] and a[1] < box[3] and box[1] < a[3] for a in boxes): break
        boxes.append(box)
        out.append('<text x="%.1f" y="%.1f" font-size="10" text-anchor="%s">%s</text>' % (x + dx, y + dy, anchor, name))
    return out

def picture(rows):
    for r in rows: r['mb'] = r['bytes'] / 1e6
    lines = -(-len(rows) // 4)
    high = 400 + 16 * lines
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 %d" font-family="sans-serif" font-size="11">'
           % high, '<rect width="800" height="%d" fill="white"/>' % high,
           '<text x="14" y="200" transform="rotate(-90 14 200)" text-anchor="middle">bits a token above the floor'
           '</text>']
    out += panel(rows, 'mb', 60, 'against the size of the file, MB', True)
    out += panel(rows, 'decode', 440, 'against the speed, tokens/s, one thread', False)
    for k, r in enumerate(rows):
        x, y = 60 + k // lines * 180, 396 + k % lines * 16
        out.append('<circle cx="%d" cy="%d" r="4" fill="%s"/><text x="%d" y="%d">%d  %s</text>' % (
            x, y - 4, COLOURS[r['kind']], x + 8, y, k + 1, r['name']))
    return '\n'.join(out + ['</svg>']) + '\n'

def write(path, text):
    with open(path + '.part', 'w') as f: f.write(text)
    os.replace(path + '.part', path)

def main():
    ap = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    ap.add_argument('build')
    ap.add_argument('--stories', type=int, default=1000, help='held-out stories that each model reads')
    ap.add_argument('--rounds', type=int, default=5, help='decoding runs of each model, in turn')
    ap.add_argument('--check', action='store_true', help='three models and few stories, printed only')
    ap.add_argument('--draw', action='store_true', help='only the picture, from docs/dev/smaller.tsv')
    a = ap.parse_args()
    ways = WAYS
    if a.draw:
        lines = [line.rstrip('\n').split('\t') for line in open(TABLE) if not line.startswith('#')]
        rows = [dict(zip(lines[0], line)) for line in lines[1:]]
        for r in rows: r.update({k: float(r[k]) for k in ('bytes', 'excess', 'decode')})
        write(PICTURE, picture(rows))
        return
    if a.check:
        ways = [w for w in WAYS if w[1] in ('as it is (Q8_0)', 'Q4_0', 'story-small, trained alone')]
        a.stories, a.rounds = 10, 1
    rows = measure(a.build, ways, make(a.build, ways), a.stories, a.rounds)
    print(table(rows))
    if a.check: return
    where = '%s, one thread, %d stories' % (processor(), a.stories)
    keys = ('kind', 'name', 'bytes', 'excess', 'low', 'high', 'kl', 'decode', 'prompt')
    write(TABLE, '# make smaller, %s\n' % where + '\t'.join(keys) + '\n' + ''.join(
        '\t'.join('%.6g' % r[k] if isinstance(r[k], float) else str(r[k]) for k in keys) + '\n' for r in rows))
    write(PICTURE, picture(rows))
    page = open(PAGE).read()
    at, to = page.index(BEGIN) + len(BEGIN), page.index(END)
    write(PAGE, page[:at] + '\n%s.\n\n%s\n' % (where, table(rows)) + page[to:])

main()
