"""tests/llm/token/peer.py - RWKV and unigram vocabularies of real size, compared with other tokenizers

    pip install rwkv pyrwkv-tokenizer mon-tokenizer tokenizers       (only their data and the two libraries are used)
    python tests/llm/token/peer.py build/tokenize [megabytes]

Two packages hold whole vocabularies: rwkv_vocab_v20230424.txt (65529 tokens), and the unigram vocabulary of
mon-tokenizer (64256 tokens with scores). They are written as GGUF files into a temporary folder. build/tokenize and
the package's own code, or the tokenizers library, then tokenize the same texts. None of the data is kept. Not a part
of `make test`.
"""
import importlib.util, json, os, random, struct, subprocess, sys, tempfile, unicodedata

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..')

def text_of(b): return struct.pack('<Q', len(b)) + b
def key_text(k, v): return text_of(k.encode()) + struct.pack('<I', 8) + text_of(v)
def key_u32(k, v): return text_of(k.encode()) + struct.pack('<II', 4, v)
def key_bool(k, v): return text_of(k.encode()) + struct.pack('<IB', 7, v)
def key_list(k, kind, n, body): return text_of(k.encode()) + struct.pack('<IIQ', 9, kind, n) + body

def gguf(path, model, tokens, types, scores, more):
    keys = [key_text('general.architecture', b'llama'), key_text('tokenizer.ggml.model', model),
            key_list('tokenizer.ggml.tokens', 8, len(tokens), b''.join(map(text_of, tokens))),
            key_list('tokenizer.ggml.token_type', 5, len(types), struct.pack('<%di' % len(types), *types))] + more
    if scores:
        keys.append(key_list('tokenizer.ggml.scores', 6, len(scores), struct.pack('<%df' % len(scores), *scores)))
    with open(path, 'wb') as f: f.write(b'GGUF' + struct.pack('<IQQ', 3, 0, len(keys)) + b''.join(keys))

def ours(program, path, texts):
    out = subprocess.run([program, path, '-0'], input=b'\0'.join(texts), capture_output=True,
                         check=True).stdout.decode()
    lines = out.split('\n')[:len(texts)]
    return [[int(x) for x in line.split()] for line in lines]

def texts(n_bytes, seed, plain):
    """pieces of recorded texts and of docs/, and random characters; plain: nothing that the vocabulary's normaliser
    changes"""
    r, out, total = random.Random(seed), [], 0
    shared = os.path.join(ROOT, '..', 'shared', 'oracle', 'tokenizer')
    source = ''
    for name in (os.path.join(shared, 'extra.inp'), os.path.join(shared, 'pre', 'text.inp'),
                 os.path.join(ROOT, 'README.md'), os.path.join(ROOT, 'docs', 'house.md'),
                 os.path.join(ROOT, 'docs', 'tokenizers.md')):
        if os.path.exists(name): source += open(name, encoding='utf-8', errors='replace').read()
    ranges = [(0x20, 0x7f), (0xa1, 0x250), (0x370, 0x530), (0x5d0, 0x700), (0x900, 0xe80), (0x1000, 0x10a0),
              (0x3040, 0x3100), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1f300, 0x1f700)]
    while total < n_bytes:
        if r.random() < 0.6:
            at = r.randrange(len(source))
            t = source[at:at + r.randrange(400)]
        else:
            lo, hi = r.choice(ranges)
            t = ''.join(chr(r.randrange(lo, hi)) if r.random() < 0.85 else ' ' for _ in range(r.randrange(60)))
        t = t.replace('\0', '')
        if plain:
            t = unicodedata.normalize('NFC', ''.join(c if not (unicodedata.category(c) in ('Zs', 'Cc', 'Cf')
                                                               or c == '\u2581') else ' ' for c in t)).strip()
            if any(s in t for s in ('<s>', '</s>', '<unk>', '<pad>')): continue
        if t:
            out.append(t)
            total += len(t.encode())
    return out

def folder(name):
    found = importlib.util.find_spec(name)
    return os.path.dirname(found.origin) if found else None

def report(what, mine, theirs, given, sums=False):
    """sums: the same tokens in another order have the same sum of scores, and rounding chooses: counted separately"""
    equal = sum(a == b for a, b in zip(mine, theirs))
    ties = sum(a != b and sorted(a) == sorted(b) for a, b in zip(mine, theirs)) if sums else 0
    print('%s: %d of %d texts equal%s, %d bytes, %d tokens' % (what, equal, len(theirs),
                                                               ', %d more are the same tokens in another order' % ties
                                                               if ties else '', sum(map(len, given)),
                                                               sum(map(len, theirs))))
    for a, b, t in zip(mine, theirs, given):
        if a != b and not (sums and sorted(a) == sorted(b)):
            i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            print('  differs at token %d: %s, not %s: %r' % (i, a[i:i + 6], b[i:i + 6], t[:80]))
            break
    return equal + ties == len(theirs)

def rwkv(program, n_bytes, where):
    at = folder('rwkv')
    if not at: return print('rwkv is not installed') or True
    spec = importlib.util.spec_from_file_location('rwkv_tokenizer', os.path.join(at, 'rwkv_tokenizer.py'))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    peer = module.TRIE_TOKENIZER(os.path.join(at, 'rwkv_vocab_v20230424.txt'))
    n = max(peer.idx2token) + 1
    # as files write them; the others match no text
    tokens = [repr(peer.idx2token[i])[2:-1].encode() if i in peer.idx2token else b'\\xc0 none' for i in range(n)]
    path = os.path.join(where, 'rwkv.gguf')
    gguf(path, b'rwkv', tokens, [1 if i in peer.idx2token else 3 for i in range(n)], None,
         [key_u32('tokenizer.ggml.eos_token_id', 0)])
    given = [t.encode() for t in texts(n_bytes, 1, False)]
    r = random.Random(2)
    # bytes that are no text
    given += [bytes(r.randrange(1, 256) for _ in range(r.randrange(1, 200))) for _ in range(1000)]
    mine = ours(program, path, given)
    good = report('RWKV, %d tokens, compared with rwkv' % n, mine, [peer.encodeBytes(t) for t in given], given)
    if importlib.util.find_spec('pyrwkv_tokenizer'):
        import pyrwkv_tokenizer
        other = pyrwkv_tokenizer.RWKVTokenizer()
        given = given[:-1000]
        good &= report('RWKV, %d tokens, compared with pyrwkv-tokenizer' % n, mine[:-1000],
                       [other.encode(t.decode()) for t in given], given)
    return good

def unigram(program, n_bytes, where):
    at = folder('mon_tokenizer')
    if not at or not importlib.util.find_spec('tokenizers'):
        return print('mon-tokenizer or tokenizers is not installed') or True
    import tokenizers
    source = os.path.join(at, 'data', 'mon_tokenizer.json')
    model = json.load(open(source, encoding='utf-8'))['model']
    peer = tokenizers.Tokenizer.from_file(source)
    names = [t for t, _ in model['vocab']]
    def kind(t):
        if t == '<unk>': return 2
        return 3 if t in ('<s>', '</s>', '<pad>') else 6 if len(t) == 6 and t.startswith('<0x') else 1
    path = os.path.join(where, 'unigram.gguf')
    gguf(path, b't5', [t.encode() for t in names], [kind(t) for t in names], [s for _, s in model['vocab']],
         [key_u32('tokenizer.ggml.unknown_token_id', model['unk_id']), key_bool('tokenizer.ggml.add_space_prefix', 1),
          key_bool('tokenizer.ggml.remove_extra_whitespaces', 0)])
    given = texts(n_bytes, 3, True)
    # a character that is no token is one unknown here, and its bytes there: texts with one are skipped and counted
    single = {t for t in names if len(t) == 1}
    kept = [t for t in given if all(c == ' ' or c in single for c in t)]
    print('unigram: %d of %d texts are spelt by the vocabulary' % (len(kept), len(given)))
    theirs = [peer.encode(t, add_special_tokens=False).ids for t in kept]
    kept = [t.encode() for t in kept]
    return report('unigram, %d tokens, compared with tokenizers' % len(names), ours(program, path, kept), theirs,
                  kept, True)

if __name__ == '__main__':
    if len(sys.argv) < 2: sys.exit(__doc__)
    size = int(float(sys.argv[2] if len(sys.argv) > 2 else 1) * 1e6)
    with tempfile.TemporaryDirectory() as where:
        results = [rwkv(sys.argv[1], size, where), unigram(sys.argv[1], size, where)]
    sys.exit(0 if all(results) else 1)
