"""tests/llm/token/peer_sentencepiece.py - vocabularies trained here by SentencePiece, its tokens compared with ours

    pip install sentencepiece
    python tests/llm/token/peer_sentencepiece.py build/tokenize [texts] [part of a name]
    python tests/llm/token/peer_sentencepiece.py --golden tests/golden

(--golden trains on docs/: when the pages change, another vocabulary comes out.)

Texts in many languages come from the message catalogues of this machine (/usr/share/locale) and from docs/. On them
unigram models are trained with the library's own character maps (nmt_nfkc, nfkc, nmt_nfkc_cf), with and without byte
fallback, user-defined symbols, merged blanks and a leading blank; and BPE models without a map, as their GGUF files
have none. Each is written as a GGUF file with the keys that llama.cpp's converter writes. Both tokenize thousands of
texts: lines of the catalogues, random characters from many scripts, characters that a map changes, white space of
every kind, combining marks, and bytes that are not valid UTF-8. The library drops a U+2581 at the end of a text, other
engines keep it: no text ends with it here. Where the ids differ, but the sums of scores agree to the rounding of the
library's float sums, the choice is a tie and is counted separately. Nothing is kept. Not a part of `make test`.
"""
import glob, gettext, os, random, re, struct, sys, tempfile, unicodedata
import sentencepiece
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peer import gguf, ours, key_u32, key_bool, key_list, text_of

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..')
USER = ['<sep>', '[MASK]', '\u7c73\u56fd', 'ab', '\ufb01x', '<n\u00e9>']       # one that the map would change: it stays

# ---- texts -------------------------------------------------------------------------------------------------------

def lines(most, seed):
    """lines of the message catalogues, as many languages as there are, and of docs/"""
    r, out = random.Random(seed), []
    files = sorted(glob.glob('/usr/share/locale/*/LC_MESSAGES/*.mo'))
    r.shuffle(files)
    for name in files:
        if len(out) >= most: break
        try:
            with open(name, 'rb') as f: catalogue = gettext.GNUTranslations(f)._catalog
        except Exception: continue
        found = [t for t in catalogue.values() if isinstance(t, str) and 20 < len(t) < 2000]
        r.shuffle(found)
        out += [line for t in found[:60] for line in t.split('\n') if line.strip()]
    for name in sorted(glob.glob(os.path.join(ROOT, 'docs', '*.md'))) + [os.path.join(ROOT, 'README.md')]:
        out += [line.rstrip('\n') for line in open(name, encoding='utf-8') if line.strip()]
    r.shuffle(out)
    return [t for t in out if '\0' not in t][:most]

BLANKS = [' ', '  ', '\t', '\n', '\r\n', '\u00a0', '\u2003', '\u3000', '\u2028', '\u200b', '\u202f', '\ufeff', '\u1680',
          '\u0085', '\x0b', '\u2581', '\u180e']
RANGES = [(0x21, 0x7f), (0x80, 0xa0), (0xa0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x5d0, 0x700), (0x900, 0xe80),
          (0x1000, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2070),
          (0x2070, 0x2600), (0x3000, 0x3400), (0x4e00, 0x9fff), (0xac00, 0xd7a4), (0xf900, 0xfb50), (0xfb50, 0xfe00),
          (0xfe20, 0xfff0), (0x1d400, 0x1d800), (0x1f100, 0x1f700), (0x2f800, 0x2fa1e)]

def strange(r, plain):
    """one text of characters that a normaliser has much to do with, in UTF-8"""
    kind, out = r.randrange(6), []
    if kind == 0:                                               # a line spelt otherwise: decomposed, wide, ligatures
        t = unicodedata.normalize(r.choice(['NFD', 'NFKD', 'NFC']), r.choice(plain))
        return ''.join(chr(ord(c) + 0xfee0) if '!' <= c <= '~' and r.random() < 0.3 else '\ufb01' if c == 'f'
                       and r.random() < 0.5 else c for c in t)
    if kind == 1:                                               # white space of every kind between words
        words = r.choice(plain).split()
        spaced = ''.join(w + ''.join(r.choice(BLANKS) for _ in range(r.randrange(4))) for w in words[:20])
        return spaced + r.choice(['', ' ', '\u3000', '  '])
    if kind == 2: spans = [r.choice(RANGES)]
    else: spans = RANGES                                        # scripts mixed
    for _ in range(r.randrange(1, 60)):
        x = r.random()
        if x < 0.1: out.append(r.choice(BLANKS))
        elif x < 0.2: out.append(r.choice(USER))
        elif x < 0.3:
            out.append(r.choice('ae\u304b\uff76k') + chr(r.choice([0x300, 0x301, 0x308, 0x323, 0x3099, 0xff9e, 0x20dd,
                                                                   0x338])))
        elif x < 0.4: out.append(r.choice(r.choice(plain).split() or ['x']))
        else: out.append(chr(r.randrange(*r.choice(spans))))
    return ''.join(out)

def broken(r, plain):
    """invalid UTF-8: a text with bytes changed, removed, inserted, and sequences that no encoder writes"""
    b = bytearray(strange(r, plain).encode('utf-8', 'replace'))
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(b) + 1)
        x = r.randrange(3)
        if x == 0 and at < len(b): b[at] = r.randrange(1, 256)
        elif x == 1 and at < len(b): del b[at]
        else:
            b[at:at] = r.choice([b'\xff', b'\xc0\x80', b'\xed\xa0\x80', b'\xe2\x96', b'\xf4\x90\x80\x80', b'\x80',
                                 b'\xf0\x9f', b'\xc3'])
    return bytes(b).replace(b'\0', b'')

# ---- a model's file ----------------------------------------------------------------------------------------------

def fields(b):
    """a message of protocol buffers: number, value"""
    i = 0
    def varint():
        nonlocal i
        v = shift = 0
        while True:
            v |= (b[i] & 127) << shift
            shift += 7
            i += 1
            if b[i - 1] < 128: return v
    while i < len(b):
        tag = varint()
        if tag & 7 == 0: v = varint()
        elif tag & 7 == 5: v, i = b[i:i + 4], i + 4
        elif tag & 7 == 1: v, i = b[i:i + 8], i + 8
        else:
            n = varint()
            v, i = b[i:i + n], i + n
        yield tag >> 3, v

def parsed(path):
    tokens, normal = [], {2: b'', 3: 1, 4: 1}
    with open(path, 'rb') as f: whole = f.read()
    for number, v in fields(whole):
        if number == 1:
            piece = dict(fields(v))
            tokens.append((piece[1], struct.unpack('<f', piece.get(2, b'\0' * 4))[0], piece.get(3, 1)))
        if number == 3: normal.update(dict(fields(v)))
    return tokens, normal

def write(path, sp, tokens, normal, unigram):
    more = [key_u32('tokenizer.ggml.unknown_token_id', sp.unk_id()),
            key_bool('tokenizer.ggml.add_space_prefix', normal[3])]
    if sp.bos_id() >= 0: more.append(key_u32('tokenizer.ggml.bos_token_id', sp.bos_id()))
    if sp.eos_id() >= 0: more.append(key_u32('tokenizer.ggml.eos_token_id', sp.eos_id()))
    if unigram:
        more.append(key_bool('tokenizer.ggml.remove_extra_whitespaces', normal[4]))
        if normal[2]: more.append(key_list('tokenizer.ggml.precompiled_charsmap', 0, len(normal[2]), normal[2]))
    gguf(path, b't5' if unigram else b'llama', [t for t, _, _ in tokens], [k for _, _, k in tokens],
         [s for _, s, _ in tokens], more)

# ---- the comparison -----------------------------------------------------------------------------------------------

MODELS = [
    # name, options of the trainer
    ('unigram nmt_nfkc', dict(model_type='unigram', normalization_rule_name='nmt_nfkc')),
    ('unigram nmt_nfkc user symbols', dict(model_type='unigram', normalization_rule_name='nmt_nfkc',
                                           user_defined_symbols=USER)),
    ('unigram nmt_nfkc bytes', dict(model_type='unigram', normalization_rule_name='nmt_nfkc', byte_fallback=True)),
    ('unigram nmt_nfkc bytes user symbols', dict(model_type='unigram', normalization_rule_name='nmt_nfkc',
                                                 byte_fallback=True, user_defined_symbols=USER)),
    ('unigram nfkc keeps blanks', dict(model_type='unigram', normalization_rule_name='nfkc',
                                       remove_extra_whitespaces=False)),
    ('unigram nmt_nfkc_cf no blank in front', dict(model_type='unigram', normalization_rule_name='nmt_nfkc_cf',
                                                   add_dummy_prefix=False)),
    ('unigram nmt_nfkc no blank, keeps blanks', dict(model_type='unigram', normalization_rule_name='nmt_nfkc',
                                                     add_dummy_prefix=False, remove_extra_whitespaces=False,
                                                     split_digits=True)),
    ('unigram identity', dict(model_type='unigram', normalization_rule_name='identity')),
    ('bpe identity', dict(model_type='bpe', normalization_rule_name='identity', remove_extra_whitespaces=False)),
    ('bpe identity bytes', dict(model_type='bpe', normalization_rule_name='identity', remove_extra_whitespaces=False,
                                byte_fallback=True)),
    ('bpe identity bytes user symbols', dict(model_type='bpe', normalization_rule_name='identity',
                                             remove_extra_whitespaces=False, byte_fallback=True,
                                             user_defined_symbols=USER)),
    ('bpe identity bytes no blank', dict(model_type='bpe', normalization_rule_name='identity',
                                         remove_extra_whitespaces=False, byte_fallback=True, add_dummy_prefix=False,
                                         split_digits=True)),
]

def trained(how, where, train, path, size, **more):
    """writes the GGUF file; returns the tokens, and a function from bytes to ids. User-defined symbols split a text as
    in other engines: the parts on both sides are texts of their own"""
    prefix = os.path.join(where, 'm')
    sentencepiece.SentencePieceTrainer.train(input=train, model_prefix=prefix, vocab_size=size, minloglevel=2, **how,
                                             **more)
    sp = sentencepiece.SentencePieceProcessor(model_file=prefix + '.model')
    tokens, normal = parsed(prefix + '.model')
    write(path, sp, tokens, normal, how['model_type'] == 'unigram')
    symbols = {s.encode(): sp.piece_to_id(s) for s in how.get('user_defined_symbols', [])}
    cut = re.compile(b'(' + b'|'.join(map(re.escape, symbols)) + b')' if symbols else b'($x)')
    return tokens, lambda t: [i for part in cut.split(t) for i in ([symbols[part]] if part in symbols
                                                                   else sp.encode(part))]

def compare(name, how, program, where, train, given):
    unigram, good = how['model_type'] == 'unigram', True
    path = os.path.join(where, 'm.gguf')
    tokens, encode = trained(how, where, train, path, 4000, character_coverage=0.995)
    score = lambda ids: sum(tokens[i][1] for i in ids)
    show = lambda ids: ' '.join('%d:%s' % (i, tokens[i][0].decode('utf-8', 'replace')) for i in ids)
    for what, texts in given:
        if not unigram and what == 'no UTF-8': continue         # kept here as bytes, U+FFFD there
        theirs = [encode(t) for t in texts]
        mine = ours(program, path, texts)
        equal = ties = 0
        first = None
        for a, b, t in zip(mine, theirs, texts):
            if a == b: equal += 1
            elif unigram and b''.join(tokens[i][0] for i in a) == b''.join(tokens[i][0] for i in b) and \
                    abs(score(a) - score(b)) <= 2e-6 * (1 + abs(score(b))): ties += 1
            elif first is None or len(t) < len(first[2]): first = (a, b, t)
        print('%-42s %-10s %5d of %5d texts equal%s, %d tokens' % (name, what, equal, len(texts), ', %d ties' % ties
                                                                   if ties else '', sum(map(len, theirs))), flush=True)
        if first:
            a, b, t = first
            print('    %r\n    %s\n    not %s' % (t, show(a), show(b)))
            good = False
    return good

def golden(folder, where):
    """tests/golden/token-unigram-bytes: a small vocabulary whose map is the part of NFKC that these characters need,
    and the ids of 120 texts"""
    r = random.Random(9)
    at = lambda *names: [line.rstrip('\n') for name in names
                         for line in open(os.path.join(ROOT, name), encoding='utf-8') if line.strip()]
    plain = at('docs/guide/tokenizers.md', 'docs/guide/files.md', 'docs/dev/house.md')
    plain += ['na\u00efve caf\u00e9 d\u00e9j\u00e0 vu \u00fcber Stra\u00dfe',
              '\u30ab\u30bf\u30ab\u30ca \u304b\u304d\u304f \u30d7\u30ed\u30b0\u30e9\u30e0'] * 20
    chars = [c for lo, hi in ((0xa0, 0x180), (0x2000, 0x2010), (0x2460, 0x2480), (0x3300, 0x3320), (0xfb00, 0xfb07),
                              (0xff01, 0xffa0)) for c in map(chr, range(lo, hi))]
    rules = {c: unicodedata.normalize('NFKC', c) for c in chars if unicodedata.normalize('NFKC', c) != c}
    for base in 'aeiouAEIOUnc\u304b\u304d\u304f\u30ab':
        for mark in '\u0300\u0301\u0302\u0303\u0308\u0327\u3099':
            whole = unicodedata.normalize('NFKC', base + mark)
            if len(whole) == 1: rules[base + mark] = whole
    rules['\u200b'] = ''
    rules['\t'] = ' '
    train, map_at = os.path.join(where, 'train.txt'), os.path.join(where, 'map.tsv')
    with open(train, 'w', encoding='utf-8') as f: f.write('\n'.join(plain) + '\n')
    with open(map_at, 'w', encoding='utf-8') as f:
        for a, b in rules.items():
            f.write('%s\t%s\n' % (' '.join('%X' % ord(c) for c in a), ' '.join('%X' % ord(c) for c in b)))
    how = dict(model_type='unigram', normalization_rule_tsv=map_at, byte_fallback=True,
               user_defined_symbols=['<sep>', 'a\u0301b', '\ufb01x'])
    _, encode = trained(how, where, train, os.path.join(folder, 'token-unigram-bytes.gguf'), 700,
                        character_coverage=0.99)
    texts = []
    while len(texts) < 120:
        b = (strange(r, plain).encode('utf-8', 'replace') if len(texts) % 3 else broken(r, plain))[:90]
        b = re.sub(b'[\\0\n\t]', b' ', b.replace(b'[MASK]', b'<sep>').replace(b'ab', 'a\u0301b'.encode()))
        b = re.sub(b'(\xe2\x96\x81|[ \r\x0b])+$', b'', b)
        if b: texts.append(b)
    with open(os.path.join(folder, 'token-unigram-bytes.tsv'), 'wb') as f:
        for t in texts: f.write(t + b'\t' + ' '.join(map(str, encode(t))).encode() + b'\n')

def main():
    if len(sys.argv) < 2: sys.exit(__doc__)
    if sys.argv[1] == '--golden':
        with tempfile.TemporaryDirectory() as where: return golden(sys.argv[2], where)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 3000
    only = sys.argv[3] if len(sys.argv) > 3 else ''
    r = random.Random(5)
    def made(f):
        return [t for t in (re.sub(b'(\xe2\x96\x81|[ \t\n\r\x0b])+$', b'', f(r, plain)) for _ in range(n)) if t]
    plain = lines(20000, 1)
    other = lines(20000, 2)
    given = [('plain', [t.encode() for t in other[:n]]),
             ('strange', made(lambda r, p: strange(r, p).replace('\0', '').encode('utf-8', 'replace'))),
             ('no UTF-8', made(broken))]
    good = True
    with tempfile.TemporaryDirectory() as where:
        train = os.path.join(where, 'train.txt')
        with open(train, 'w', encoding='utf-8') as f: f.write('\n'.join(plain) + '\n')
        for name, how in MODELS:
            if only in name: good &= compare(name, how, program=sys.argv[1], where=where, train=train, given=given)
    sys.exit(0 if good else 1)

if __name__ == '__main__': main()
