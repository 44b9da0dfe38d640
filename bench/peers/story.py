#!/usr/bin/env python3
"""bench/peers/story.py - the story models on llama.cpp (xllamacpp of PyPI) and on our programs

    python3 -m venv venv && venv/bin/pip install numpy xllamacpp
    venv/bin/python bench/peers/story.py [--build build] [MODEL.gguf ...]

For each file:
- the same stories (and other bytes) give the same tokens on both;
- as floats (build/quantize MODEL OUT F32) the logits of 8 stories agree within 2e-4 (1 + rms), and so does the story
  that the most likely tokens write;
- as it is, in Q8_0: both engines round activations to 8 bits before a product, each in its own way, so their logits
  differ. Ours must not be farther than theirs from those of the float form (root of the mean square over all logits).
The other engine keeps float keys and values and has no flash attention. Exit status 1: something differs."""
import argparse, ctypes as C, os, subprocess, sys, tempfile
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tests/llm/model'))
import peer as other

END, CONTEXT, BOUND = 1, 256, 2e-4


def ours(command, text=None):
    done = subprocess.run(command, input=text, capture_output=True)
    if done.returncode: sys.exit('%s: %s' % (command[0], done.stderr.decode()))
    return done.stdout


def logits(build, path, tokens):
    raw = ours([build + '/logits', path, '--threads', '1', '--context', str(CONTEXT), '--tokens',
                ','.join(map(str, tokens))])
    return np.frombuffer(raw, '<f4').reshape(len(tokens), -1)


def tokens_of(engine, model, text):
    room = (C.c_int32 * 4096)()
    n = engine.L.llama_tokenize(engine.L.llama_model_get_vocab(model), text, len(text), room, 4096, False, False)
    return list(room[:n])


def same_tokens(build, engine, model, path, stories):
    texts = stories + [b' zebra.', b' the  the', '\u00e9\u4e2d'.encode(), b' ', bytes(range(1, 128)), b'\n now']
    lines = ours([build + '/tokenize', path, '-0'], b'\0'.join(texts)).decode().splitlines()
    mine = [[int(t) for t in line.split()] for line in lines]
    wrong = [t for t, m in zip(texts, mine) if m != tokens_of(engine, model, t)]
    print('  %d texts, %d tokens: %s' % (len(texts), sum(map(len, mine)), 'the same' if not wrong else 'DIFFER at %r'
                                         % wrong[0][:60]))
    return [[END] + m[:CONTEXT - 1] for m in mine[:len(stories)]], not wrong


def told(next_row):
    story = [END]
    while len(story) < 180:
        story.append(int(next_row(story).argmax()))
        if story[-1] == END: break
    return story


def same_floats(build, engine, path, stories):
    model, said = engine.load(path)
    if not model: return None, ' '.join(said.split())[-200:]
    exact, worst = [], 0.0
    for tokens in stories:
        a, b = logits(build, path, tokens), engine.run(model, tokens, CONTEXT)
        worst = max(worst, float(np.max(np.abs(a - b) / (1 + np.sqrt(np.mean(b * b, axis=1, keepdims=True))))))
        exact.append(b)
    mine, theirs = told(lambda s: logits(build, path, s)[-1]), told(lambda s: engine.run(model, s, CONTEXT)[-1])
    engine.L.llama_model_free(model)
    ok = worst <= BOUND and mine == theirs
    print('  as floats, %d tokens: max |difference| / (1 + rms) %.1e; the likeliest story of %d tokens %s%s'
          % (sum(map(len, stories)), worst, len(mine) - 1, 'is the same' if mine == theirs else 'is another', '' if ok
             else '   DIFFERS'))
    return exact, ok


def as_it_is(build, engine, model, path, stories, exact):
    far, same = [0.0, 0.0], [0, 0]
    for tokens, want in zip(stories, exact):
        for k, got in enumerate((logits(build, path, tokens), engine.run(model, tokens, CONTEXT))):
            far[k] += float(np.sum((got.astype(np.float64) - want) ** 2))
            same[k] += int(np.sum(got.argmax(1) == want.argmax(1)))
    n, all_logits = sum(map(len, stories)), sum(e.size for e in exact)
    far = [float(np.sqrt(f / all_logits)) for f in far]
    print('  as it is, compared with the float form: ours %.4f away (rms), theirs %.4f; the most likely token is the '
          'same in %.2f and %.2f %%%s'
          % (*far, 100 * same[0] / n, 100 * same[1] / n, '' if far[0] <= far[1] else '   WORSE'))
    return far[0] <= far[1]


def main():
    a = argparse.ArgumentParser()
    a.add_argument('files', nargs='*', default=['examples/models/story.gguf', 'examples/models/story-small.gguf'])
    a.add_argument('--build', default='build')
    o = a.parse_args()
    engine, ok = other.Peer(), True
    lines = ours([o.build + '/story-gen', '--seed', '7', '--stories', '8']).splitlines()
    stories = [b' ' + s.replace(b' <eos>', b'') for s in lines if s.strip()][:8]
    for path in o.files:
        print(path)
        model, said = engine.load(path)
        if not model:
            print('  the other engine does not load it: ' + ' '.join(said.split())[-200:])
            ok = False
            continue
        tokens, same = same_tokens(o.build, engine, model, path, stories)
        with tempfile.TemporaryDirectory() as folder:
            floats = os.path.join(folder, 'floats.gguf')
            ours([o.build + '/quantize', path, floats, 'F32'])
            exact, same_too = same_floats(o.build, engine, floats, tokens)
        if exact is None:
            print('  the other engine does not load its float form: ' + same_too)
            same_too = False
        else: same_too = same_too and as_it_is(o.build, engine, model, path, tokens, exact)
        ok = ok and same and same_too
        engine.L.llama_model_free(model)
    sys.exit(0 if ok else 1)


main()
