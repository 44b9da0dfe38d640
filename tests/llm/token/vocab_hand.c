/* tests/llm/token/vocab_hand.c - small vocabularies worked by hand, and invalid ones
 *
 * Comments show the work by hand; the merges of long words are compared with a quadratic search that is written here.
 */
#include "t.h"
#include "llm/token/kit.h"

/* "1 2 3" */
static void encodes_n(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags, const char *want,
                      int line)
{
    char got[1000];
    tllm_tokens t;
    size_t i, at = 0;
    memset(&t, 0, sizeof t);
    got[0] = 0;
    if (T_OK(tllm_encode(ctx, v, text, n, flags, &t)))
        for (i = 0; i < t.n && at < sizeof got - 20; i++)
            at += (size_t)snprintf(got + at, sizeof got - at, i ? " %ld" : "%ld", (long)t.id[i]);
    if (strcmp(got, want)) t_fail(__FILE__, line, "\"%s\" gives %s, not %s", text, got, want);
    tllm_tokens_free(ctx, &t);
}
#define ENCODES(v, text, flags, want) encodes_n(ctx, v, text, strlen(text), flags, want, __LINE__)

static void decodes(tiny_ctx *ctx, const tllm_vocab *v, int32_t a, int32_t b, int32_t c, unsigned flags,
                    const char *want, int line)
{
    int32_t id[3];
    tllm_bytes t;
    id[0] = a;
    id[1] = b;
    id[2] = c;
    memset(&t, 0, sizeof t);
    if (T_OK(tllm_decode(ctx, v, id, 3, flags, &t)) && (t.n != strlen(want) || memcmp(t.at ? t.at : "", want, t.n)))
        t_fail(__FILE__, line, "%ld %ld %ld is \"%.*s\", not \"%s\"", (long)a, (long)b, (long)c, (int)t.n,
               t.at ? t.at : "", want);
    tllm_bytes_free(ctx, &t);
}
#define DECODES(v, a, b, c, flags, want) decodes(ctx, v, a, b, c, flags, want, __LINE__)

static void test_spm_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    start(&m, "llama", NULL);
    token(&m, "<unk>", 0, TLLM_TOKEN_UNKNOWN);          /* 0 */
    m.special[TLLM_UNK] = 0;
    m.special[TLLM_BOS] = token(&m, "<s>", 0, TLLM_TOKEN_CONTROL);
    m.special[TLLM_EOS] = token(&m, "</s>", 0, TLLM_TOKEN_CONTROL);
    token(&m, "<0x0A>", 0, TLLM_TOKEN_BYTE);            /* 3 */
    token(&m, "<0xC3>", 0, TLLM_TOKEN_BYTE);            /* 4 */
    token(&m, "\xe2\x96\x81", -9, TLLM_TOKEN_NORMAL);   /* 5 */
    token(&m, "a", -5, TLLM_TOKEN_NORMAL);              /* 6 */
    token(&m, "b", -5, TLLM_TOKEN_NORMAL);              /* 7 */
    token(&m, "ab", -2, TLLM_TOKEN_NORMAL);             /* 8 */
    token(&m, "ba", -1, TLLM_TOKEN_NORMAL);             /* 9 */
    token(&m, "\xe2\x96\x81" "a", -3, TLLM_TOKEN_NORMAL);   /* 10 */
    token(&m, "aba", -4, TLLM_TOKEN_NORMAL);            /* 11 */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        T_EQ_INT(tllm_vocab_kind_of(v), TLLM_VOCAB_SPM);
        T_EQ_INT(tllm_vocab_size(v), 12);
        ENCODES(v, "", 0, "");
        ENCODES(v, "", TLLM_ENCODE_ENDS, "1");
        /* _aba: ba (-1) first; of _a (-3) and a + ba (-4) the former */
        ENCODES(v, "aba", 0, "10 9");
        /* _ab: ab (-2) beats _a (-3) */
        ENCODES(v, "ab", 0, "5 8");
        ENCODES(v, "a", TLLM_ENCODE_ENDS, "1 10");
        ENCODES(v, "a\n", 0, "10 3");
        ENCODES(v, "\xc3\xa9", 0, "5 4 0");             /* no character, a byte token, an unknown byte */
        ENCODES(v, "a<s>a", 0, "10 0 0 0 6");           /* '<', 's', '>' have no tokens; the text of <s> is text */
        ENCODES(v, "a<s>a", TLLM_ENCODE_SPECIAL, "10 1 10");
        DECODES(v, 5, 11, 3, 0, "aba\n");
        DECODES(v, 1, 10, 2, 0, "a");
        DECODES(v, 1, 10, 2, TLLM_DECODE_SPECIAL, "<s>a</s>");
        DECODES(v, 4, 10, 10, 0, "\xc3 a a");
        T_TRUE(tllm_vocab_is_end(v, 2) && !tllm_vocab_is_end(v, 1) && !tllm_vocab_is_end(v, -1) &&
               !tllm_vocab_is_end(v, 12));
        T_EQ_INT(tllm_vocab_find(v, "aba", 3), 11);
        T_EQ_INT(tllm_vocab_find(v, "abab", 4), -1);
        T_CLOSE(tllm_vocab_score(v, 9), -1, 0);
        T_EQ_INT(tllm_vocab_type(v, 3), TLLM_TOKEN_BYTE);
        T_EQ_INT(tllm_vocab_special(v, TLLM_NEWLINE), 3);
    }
    tllm_vocab_close(ctx, v);
    /* no byte token at all: neighbours that are unknown are one, as where the library trained without byte fallback */
    v = NULL;
    m.text[3].at = "c";
    m.text[4].at = "d";
    m.text[3].n = m.text[4].n = 1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) ENCODES(v, "\xc3\xa9z\xe4\xbd\xa0" "ab\xc3 x", 0, "5 0 8 0 5 0");
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static void test_bpe_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    static tllm_text merge[8];
    static const char *const rule[] = { "l o", "lo w", "e r", "\xc4\xa0 low", "n o such", "low er", "x y", "low er" };
    tllm_vocab *v = NULL;
    size_t i;
    start(&m, "gpt2", "gpt-2");
    token(&m, "l", 0, 1);                               /* 0 */
    token(&m, "o", 0, 1);
    token(&m, "w", 0, 1);                               /* 2 */
    token(&m, "e", 0, 1);
    token(&m, "r", 0, 1);                               /* 4 */
    token(&m, "\xc4\xa0", 0, 1);                        /* 5: a blank */
    token(&m, "lo", 0, 1);
    token(&m, "low", 0, 1);                             /* 7 */
    token(&m, "er", 0, 1);
    token(&m, "\xc4\xa0low", 0, 1);                     /* 9 */
    token(&m, "lower", 0, 1);                           /* 10 */
    token(&m, "<|end|>", 0, TLLM_TOKEN_CONTROL);        /* 11 */
    token(&m, "<|end|>!", 0, TLLM_TOKEN_USER);          /* 12 */
    token(&m, "lo", 0, 1);                              /* 13: the second of equal tokens */
    token(&m, "", 0, 1);                                /* 14: an empty one */
    token(&m, "\xc4\x8a", 0, 1);                        /* 15: a line feed */
    for (i = 0; i < T_COUNT(rule); i++) { merge[i].at = rule[i]; merge[i].n = strlen(rule[i]); }
    m.d.merge = merge;
    m.d.n_merges = T_COUNT(merge);
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "lower", 0, "10");       /* l+o, lo+w, e+r, low+er */
        ENCODES(v, "low lower", 0, "7 9 8");/* _+low has a lower rank than low+er */
        ENCODES(v, "wol", 0, "2 1 0");
        ENCODES(v, "lo?w", 0, "6 2");       /* '?' has no token: skipped */
        ENCODES(v, "low<|end|>!lo", 0, "7 12 6");   /* the user's own is found without asking */
        ENCODES(v, "low<|end|>lo", 0, "7 3 6");     /* of the seven between only e has a token */
        ENCODES(v, "low<|end|>lo", TLLM_ENCODE_SPECIAL, "7 11 6");
        ENCODES(v, "low<|end|>!<|end|>", TLLM_ENCODE_SPECIAL, "7 12 11");
        ENCODES(v, "\n", 0, "15");
        T_EQ_INT(tllm_vocab_find(v, "lo", 2), 6);
        T_EQ_INT(tllm_vocab_special(v, TLLM_NEWLINE), 15);
        DECODES(v, 9, 13, 14, 0, " lowlo");
        DECODES(v, 9, 11, 12, 0, " low<|end|>!");
        DECODES(v, 9, 11, 12, TLLM_DECODE_SPECIAL, " low<|end|><|end|>!");
        T_EQ_TEXT(tllm_vocab_pre(v)->name, "gpt-2");
        T_TRUE(!strcmp(tllm_vocab_pre(v)->rule, "cwnoes"));
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

/* words between blanks, and the blanks skipped; capitals become small letters only if the vocabulary requests it */
static void test_whitespace_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    static tllm_text merge[1];
    tllm_vocab *v = NULL;
    start(&m, "gpt2", "whitespace");
    token(&m, "a", 0, 1);                   /* 0 */
    token(&m, "b", 0, 1);
    token(&m, "A", 0, 1);                   /* 2 */
    token(&m, "ab", 0, 1);
    token(&m, "\xc3\xa9", 0, 1);            /* 4: e with an acute accent, whose capital is c3 89 */
    token(&m, " ", 0, 1);                   /* 5: never met */
    merge[0].at = "a b";
    merge[0].n = 3;
    m.d.merge = merge;
    m.d.n_merges = 1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "ab a b", 0, "3 0 1");
        ENCODES(v, "Ab AB", 0, "2 1 2");    /* A+b is no merge, B no token */
        ENCODES(v, "\xc3\x89\xc3\xa9", 0, "4");
    }
    tllm_vocab_close(ctx, v);
    v = NULL;
    m.d.lowercase = 1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "ab a b", 0, "3 0 1");
        ENCODES(v, "Ab AB", 0, "3 3");
        ENCODES(v, "\xc3\x89\xc3\xa9", 0, "4 4");
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static size_t put_utf8(char *to, uint32_t c)
{
    size_t n = 0;
    if (c < 0x80) to[n++] = (char)c;
    else {
        if (c < 0x800) to[n++] = (char)(0xc0 | c >> 6);
        else {
            if (c < 0x10000) to[n++] = (char)(0xe0 | c >> 12);
            else {
                to[n++] = (char)(0xf0 | c >> 18);
                to[n++] = (char)(0x80 | (c >> 12 & 63));
            }
            to[n++] = (char)(0x80 | (c >> 6 & 63));
        }
        to[n++] = (char)(0x80 | (c & 63));
    }
    to[n] = 0;
    return n;
}

/* Small letters of the capitals of many scripts, by the charts of Unicode: first, last, and the small letter of the
 * first. */
static void test_capitals(void)
{
    static const struct { uint32_t first, last, small;
    } row[] = { { 0x41, 0x5a, 0x61 },          { 0xc0, 0xd6, 0xe0 },          { 0xd8, 0xde, 0xf8 },
                { 0x178, 0x178, 0xff },        { 0x391, 0x3a1, 0x3b1 },       { 0x3a3, 0x3ab, 0x3c3 },
                { 0x400, 0x40f, 0x450 },       { 0x410, 0x42f, 0x430 },       { 0x4c0, 0x4c0, 0x4cf },
                { 0x531, 0x556, 0x561 },       { 0x10a0, 0x10c5, 0x2d00 },    { 0x13a0, 0x13ef, 0xab70 },
                { 0x13f0, 0x13f5, 0x13f8 },    { 0x1c90, 0x1cba, 0x10d0 },    { 0x1e9e, 0x1e9e, 0xdf },
                { 0x1f08, 0x1f0f, 0x1f00 },    { 0x2126, 0x2126, 0x3c9 },     { 0x212a, 0x212a, 0x6b },
                { 0x212b, 0x212b, 0xe5 },      { 0x2132, 0x2132, 0x214e },    { 0x2160, 0x216f, 0x2170 },
                { 0x2183, 0x2183, 0x2184 },    { 0x24b6, 0x24cf, 0x24d0 },    { 0x2c00, 0x2c2f, 0x2c30 },
                { 0xff21, 0xff3a, 0xff41 },    { 0x10400, 0x10427, 0x10428 }, { 0x104b0, 0x104d3, 0x104d8 },
                { 0x10c80, 0x10cb2, 0x10cc0 }, { 0x118a0, 0x118bf, 0x118c0 }, { 0x16e40, 0x16e5f, 0x16e60 },
                { 0x1e900, 0x1e921, 0x1e922 } };
    static char small[2 * T_COUNT(row)][8];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    char text[8], want[24];
    size_t i;
    start(&m, "gpt2", "whitespace");
    m.d.lowercase = 1;
    for (i = 0; i < 2 * T_COUNT(row); i++) {
        (void)put_utf8(small[i], row[i / 2].small + (i % 2 ? row[i / 2].last - row[i / 2].first : 0));
        token(&m, small[i], 0, 1);
    }
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v)))
        for (i = 0; i < 2 * T_COUNT(row); i++) {
            const size_t n = put_utf8(text, i % 2 ? row[i / 2].last : row[i / 2].first);
            (void)snprintf(want, sizeof want, "%ld", (long)tllm_vocab_find(v, small[i], strlen(small[i])));
            encodes_n(ctx, v, text, n, 0, want, __LINE__);
            encodes_n(ctx, v, small[i], strlen(small[i]), 0, want, __LINE__);
        }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

/* Vocabularies of gemma4: a run of line ends that is a token is taken whole, without merging; any other word is merged,
 * token or not. */
static void test_bpe_lines(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    static tllm_text merge[2];
    static const char *const rule[] = { "b c", "a bc" };
    tllm_vocab *v = NULL;
    size_t i;
    start(&m, "gpt2", "gemma4");
    token(&m, "a", 0, 1);                               /* 0 */
    token(&m, "b", 0, 1);
    token(&m, "c", 0, 1);                               /* 2 */
    token(&m, "\n", 0, 1);
    token(&m, "bc", 0, 1);                              /* 4 */
    token(&m, "ab", 0, 1);                              /* 5: no merge makes it */
    token(&m, "\n\n", 0, 1);                            /* 6: nor this */
    token(&m, "a\n", 0, 1);                             /* 7: nor this */
    token(&m, "abc", 0, 1);                             /* 8 */
    for (i = 0; i < T_COUNT(rule); i++) { merge[i].at = rule[i]; merge[i].n = strlen(rule[i]); }
    m.d.merge = merge;
    m.d.n_merges = T_COUNT(merge);
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        T_TRUE(tllm_vocab_pre(v) && tllm_vocab_pre(v)->flags & TLLM_PRE_LINES);
        ENCODES(v, "ab", 0, "0 1");
        ENCODES(v, "abc", 0, "8");
        ENCODES(v, "\n\n", 0, "6");
        ENCODES(v, "\n\n\n", 0, "3 3 3");                /* no token: one by one */
        ENCODES(v, "a\n", 0, "0 3");
        ENCODES(v, "ab\n\nabc\nab", 0, "0 1 6 8 3 0 1");
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

/* A stream gives text by the standard: each byte that belongs to no character is U+FFFD, alone or in one token with
 * others. */
static void test_stream_characters(void)
{
    static const struct { const char *bytes; int n_bad;
    } row[] = { /* n_bad 0: a character, passed unchanged */
                { "\xc2\x80", 0 },
                { "\xe0\xa0\x80", 0 },
                { "\xed\x9f\xbf", 0 },
                { "\xee\x80\x80", 0 },
                { "\xf0\x90\x80\x80", 0 },
                { "\xf4\x8f\xbf\xbf", 0 },
                /* surrogates, a pair of them too */
                { "\xed\xa0\x80", 3 },
                { "\xed\xbf\xbf", 3 },
                { "\xed\xa0\xbd\xed\xb8\x80", 6 },
                /* overlong */
                { "\xc0\x80", 2 },
                { "\xc1\xbf", 2 },
                { "\xe0\x80\x80", 3 },
                { "\xe0\x9f\xbf", 3 },
                { "\xf0\x80\x80\x80", 4 },
                { "\xf0\x8f\xbf\xbf", 4 },
                { "\xf4\x90\x80\x80", 4 },
                { "\xf5\x80\x80\x80", 4 },
                { "\xff", 1 },
                { "\x80", 1 },
                { "\xfe\xbf", 2 }
    };
    static char text[256][8], whole[T_COUNT(row)][32];
    static made m;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_vocab *v = NULL;
    size_t i, k, n;
    int way;
    start(&m, "rwkv", NULL);
    for (i = 0; i < 256; i++) {                         /* token i is byte i, token 256 + i a row and an x */
        (void)snprintf(text[i], sizeof text[i], "\\x%02x", (unsigned)i);
        token(&m, text[i], 0, 1);
    }
    for (i = 0; i < T_COUNT(row); i++) {
        for (n = k = 0; row[i].bytes[k]; k++)
            n += (size_t)snprintf(whole[i] + n, sizeof whole[i] - n, "\\x%02x",
                                  (unsigned)(unsigned char)row[i].bytes[k]);
        (void)snprintf(whole[i] + n, sizeof whole[i] - n, "x");
        token(&m, whole[i], 0, 1);
    }
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v)))
        for (i = 0; i < T_COUNT(row); i++)
            for (way = 0; way < 3; way++) {             /* one token; byte by byte and an x; byte by byte and the end */
                const size_t n_bytes = strlen(row[i].bytes);
                tllm_stream s = tllm_stream_start(v, 0);
                char want[40] = "";
                tllm_bytes b;
                memset(&b, 0, sizeof b);
                if (!row[i].n_bad) (void)strcat(want, row[i].bytes);
                for (k = 0; k < (size_t)row[i].n_bad; k++) (void)strcat(want, "\xef\xbf\xbd");
                if (way < 2) (void)strcat(want, "x");
                if (!way) T_OK(tllm_stream_next(ctx, &s, (int32_t)(256 + i), &b));
                for (k = 0; way && k < n_bytes; k++) {
                    T_OK(tllm_stream_next(ctx, &s, (unsigned char)row[i].bytes[k], &b));
                    if (k == 1) T_EQ_INT(b.n, row[i].n_bad ? 6 : n_bytes == 2 ? 2 : 0);    /* two bytes tell */
                }
                if (way == 1) T_OK(tllm_stream_next(ctx, &s, 'x', &b));
                T_OK(tllm_stream_end(ctx, &s, &b));
                if (b.n != strlen(want) || memcmp(b.at, want, b.n))
                    t_fail(__FILE__, __LINE__, "row %lu, way %d: %lu bytes, not %lu", (unsigned long)i, way,
                           (unsigned long)b.n, (unsigned long)strlen(want));
                tllm_bytes_free(ctx, &b);
            }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static void test_wordpiece_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    start(&m, "bert", NULL);
    m.special[TLLM_UNK] = token(&m, "[UNK]", 0, TLLM_TOKEN_CONTROL);
    m.special[TLLM_BOS] = token(&m, "[CLS]", 0, TLLM_TOKEN_CONTROL);
    m.special[TLLM_SEP] = token(&m, "[SEP]", 0, TLLM_TOKEN_CONTROL);
    token(&m, "\xe2\x96\x81play", 0, 1);    /* 3 */
    token(&m, "ing", 0, 1);                 /* 4 */
    token(&m, "\xe2\x96\x81playing", 0, 1); /* 5 */
    token(&m, "ed", 0, 1);                  /* 6 */
    token(&m, "\xe2\x96\x81,", 0, 1);       /* 7 */
    token(&m, "\xe2\x96\x81" "e", 0, 1);    /* 8 */
    token(&m, "\xe2\x96\x81\xe4\xbd\xa0", 0, 1);    /* 9 */
    token(&m, "\xe2\x96\x81" "e\xcc\x81", 0, 1);     /* 10: a mark of its own follows */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "Played, PLAYING", 0, "3 6 7 5");
        ENCODES(v, "playest", 0, "0");      /* cannot be finished: the whole word is unknown */
        ENCODES(v, "\xc3\x89 e\xcc\x81 \xc3\xa9", TLLM_ENCODE_ENDS, "1 8 8 8 2");   /* accents fall off */
        ENCODES(v, "\xe4\xbd\xa0\xe4\xbd\xa0", 0, "9 9");       /* Han characters are words of their own */
        ENCODES(v, "play\x01ing\xff", 0, "5");      /* controls and bad bytes vanish */
        DECODES(v, 3, 6, 7, 0, "played ,");
    }
    tllm_vocab_close(ctx, v);
    v = NULL;
    m.d.lowercase = -1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "Play play", 0, "0 3");
        ENCODES(v, "\xc3\xa9", 0, "0");     /* and accents stay */
        ENCODES(v, "e\xcc\x81 e", 0, "10 8");
    }
    tllm_vocab_close(ctx, v);
    v = NULL;
    m.d.strip_accents = 1;                  /* the two are requested separately */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) ENCODES(v, "e\xcc\x81 E", 0, "8 0");
    tllm_vocab_close(ctx, v);
    v = NULL;
    m.d.lowercase = 1;
    m.d.strip_accents = -1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) ENCODES(v, "E\xcc\x81 E", 0, "10 8");
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static void test_unigram_by_hand(void)
{
    /* one rule in the map: 'X' becomes "ab". Units: 0 the root with base 'X' ^ 1 = 0x59 apart, see below */
    static unsigned char map[4 + 4 * 256 + 4];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    uint32_t unit;
    size_t i;
    start(&m, "t5", NULL);
    m.special[TLLM_PAD] = token(&m, "<pad>", 0, TLLM_TOKEN_CONTROL);
    m.special[TLLM_EOS] = token(&m, "</s>", 0, TLLM_TOKEN_CONTROL);
    m.special[TLLM_UNK] = token(&m, "<unk>", 0, TLLM_TOKEN_UNKNOWN);
    token(&m, "\xe2\x96\x81", -2, 1);       /* 3 */
    token(&m, "a", -4, 1);                  /* 4 */
    token(&m, "b", -4, 1);                  /* 5 */
    token(&m, "ab", -5, 1);                 /* 6 */
    token(&m, "\xe2\x96\x81" "a", -3, 1);   /* 7 */
    token(&m, "ba", -9, 1);                 /* 8 */
    token(&m, "<user>", 0, TLLM_TOKEN_USER);/* 9 */
    m.d.add_space_prefix = 1;
    m.d.merge_spaces = 1;
    /* node 0 has base 128, so its child for 'X' (88) is 128 ^ 88 = 216: label 88, leaf, base 1; its value is at 216 ^ 1
     * = 217 */
    memset(map, 0, sizeof map);
    map[0] = 0x00;
    map[1] = 0x04;                          /* 1024 bytes of units */
    for (i = 0; i < 256; i++) {
        unit = i == 0 ? 128u << 10 : i == 216 ? 1u << 10 | 1u << 8 | 88u : i == 217 ? 1u << 31 : 0x80000000u;
        map[4 + 4 * i] = (unsigned char)unit;
        map[5 + 4 * i] = (unsigned char)(unit >> 8);
        map[6 + 4 * i] = (unsigned char)(unit >> 16);
        map[7 + 4 * i] = (unsigned char)(unit >> 24);
    }
    memcpy(map + 4 + 1024, "ab", 3);
    m.d.charsmap = map;
    m.d.n_charsmap = 4 + 1024 + 3;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        /* _ab: _ + ab = -7, _a + b = -7, the first found stays: _ + a + b = -10; ends are reached in the order of their
         * starts, and _a + b is tried after _ + ab */
        ENCODES(v, "ab", 0, "3 6");
        ENCODES(v, "X", 0, "3 6");          /* by the map */
        ENCODES(v, "a", TLLM_ENCODE_ENDS, "7 1");
        ENCODES(v, "a   b", 0, "7 3 5");    /* blanks merge */
        ENCODES(v, "ba", 0, "3 5 4");       /* b + a = -8 beats ba = -9 */
        ENCODES(v, "zz\xff" "a", 0, "3 2 4");       /* neighbours that are unknown give one token */
        ENCODES(v, "a<user>", 0, "7 9");
        DECODES(v, 3, 6, 7, 0, "ab a");
    }
    tllm_vocab_close(ctx, v);
    /* no blank in front: a leading blank is stripped, those between words still count, also after a special token */
    v = NULL;
    m.d.add_space_prefix = -1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "  a  b ", 0, "4 3 5");
        ENCODES(v, "a<user> b<user>a", 0, "4 9 3 5 9 4");
    }
    tllm_vocab_close(ctx, v);
    /* blanks stay, with one in front of every text that is not empty, of blanks only too (SentencePiece 0.2.3 gives
     * these) */
    v = NULL;
    m.d.add_space_prefix = 1;
    m.d.merge_spaces = -1;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "", 0, "");
        ENCODES(v, " ", 0, "3 3");
        ENCODES(v, "   ", 0, "3 3 3 3");
        ENCODES(v, " a ", 0, "3 7 3");
    }
    tllm_vocab_close(ctx, v);
    m.d.merge_spaces = 1;
    /* the same map, cut and spoilt */
    m.d.n_charsmap = 3;
    T_STATUS(tllm_vocab_make(ctx, &m.d, &v), TINY_E_FORMAT, "precompiled_charsmap has 3 bytes");
    m.d.n_charsmap = 1028;
    T_STATUS(tllm_vocab_make(ctx, &m.d, &v), TINY_E_FORMAT, "its trie has 1024 bytes");
    m.d.n_charsmap = 1030;
    T_STATUS(tllm_vocab_make(ctx, &m.d, &v), TINY_E_FORMAT, "its last text does not end");
    m.d.n_charsmap = 4 + 1024 + 3;
    map[4 + 4 * 217] = 200;                 /* a text past the end */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        tllm_tokens t;
        memset(&t, 0, sizeof t);
        T_STATUS(tllm_encode(ctx, v, "aX", 2, 0, &t), TINY_E_FORMAT, "a replacement at 200, but there are 3 bytes");
        T_EQ_INT(t.n, 0);
        tllm_tokens_free(ctx, &t);
    }
    tllm_vocab_close(ctx, v);
    map[4 + 4 * 217] = 0;
    map[6] = 0xff;                          /* a root that points past the units: nothing is mapped */
    map[7] = 0x7f;
    v = NULL;
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) ENCODES(v, "aX", 0, "7 2");
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static void test_rwkv_by_hand(void)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    start(&m, "rwkv", NULL);
    token(&m, "<s>", 0, TLLM_TOKEN_CONTROL);/* 0 */
    token(&m, "a", 0, 1);
    token(&m, "abc", 0, 1);                 /* 2 */
    token(&m, "\\n\\n", 0, 1);              /* 3 */
    token(&m, "\\xe4\\xBD", 0, 1);          /* 4: two bytes of three */
    token(&m, "\\\\", 0, 1);                /* 5 */
    token(&m, "b", 0, 1);                   /* 6 */
    token(&m, "\\", 0, 1);                  /* 7: an escape that is cut */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "abcab", 0, "2 1 6");    /* ab begins abc, but only a is a token */
        ENCODES(v, "\n\n\\", TLLM_ENCODE_ENDS, "3 5");
        ENCODES(v, "\xe4\xbd\xa0", 0, "4");
        ENCODES(v, "zb", 0, "6");
        DECODES(v, 2, 3, 5, 0, "abc\n\n\\");
        T_EQ_INT(tllm_vocab_text(v, 4).n, 2);
        T_EQ_INT(tllm_vocab_text(v, 7).n, 0);
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

static void test_plamo_by_hand(void)
{
    static char bytes[256][8];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    int i;
    start(&m, "plamo2", NULL);
    for (i = 0; i < 256; i++) {
        (void)snprintf(bytes[i], sizeof bytes[i], "<0x%02X>", (unsigned)i);
        token(&m, bytes[i], 0, TLLM_TOKEN_BYTE);
    }
    token(&m, "ab", -1, 1);                 /* 256 */
    token(&m, "a", -3, 1);
    token(&m, "b", -3, 1);                  /* 258 */
    token(&m, "bc", -1, 1);                 /* 259 */
    token(&m, "abc", -6, 1);                /* 260 */
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        ENCODES(v, "ab", 0, "256");
        ENCODES(v, "abc", 0, "257 259");    /* a + bc = 4, abc = 6, ab + a byte = 1001 */
        ENCODES(v, "\xef\xbb\xbf" "ab\xc3\xa9", 0, "256 195 169");      /* the mark at the beginning is removed */
        DECODES(v, 256, 195, 169, 0, "ab\xc3\xa9");
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

/* ---- a quadratic second opinion ---------------------------------------------------------------------------------- */

/* the symbols of a word, joined one pair at a time, each time the best of all */
static size_t naive(const made *m, const tllm_text *merge, size_t n_merges, int by_score, char sym[][40], size_t n)
{
    for (;;) {
        size_t i, k, best = n;
        double cost = 1e300;
        char pair[100];
        for (i = 0; i + 1 < n; i++) {
            double c = 1e300;
            (void)snprintf(pair, sizeof pair, by_score ? "%.39s%.39s" : "%.39s %.39s", sym[i], sym[i + 1]);
            if (by_score) {
                for (k = 0; k < m->d.n_tokens; k++)
                    if (!strcmp(m->text[k].at, pair)) {
                        c = -(double)m->score[k];
                        break;
                    }
            } else {
                for (k = 0; k < n_merges; k++) if (!strcmp(merge[k].at, pair)) { c = (double)k; break; }
            }
            if (c < cost) { cost = c; best = i; }
        }
        if (best == n) return n;
        i = strlen(sym[best]);
        memcpy(sym[best] + i, sym[best + 1], 40 - i);
        for (i = best + 1; i + 1 < n; i++) memcpy(sym[i], sym[i + 1], 40);
        n--;
    }
}

static void test_merges_at_random(void)
{
    static made m;
    static tllm_text merge[120];
    static char text[120][40], rule[120][80], sym[200][40];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    int round, by_score;
    for (by_score = 0; by_score < 2; by_score++)
        for (round = 0; round < 60; round++) {
            size_t i, n = 4, n_merges = 0, len, k;
            tllm_vocab *v = NULL;
            start(&m, by_score ? "llama" : "gpt2", "gpt-2");
            m.d.add_space_prefix = -1;
            for (i = 0; i < 4; i++) {
                text[i][0] = (char)('a' + (int)i);
                text[i][1] = 0;
                token(&m, text[i], -100, 1);
            }
            while (n < 60) {                /* join two existing tokens */
                size_t a = t_rand_below((uint32_t)n), b = t_rand_below((uint32_t)n);
                char both[40];
                (void)snprintf(both, sizeof both, "%.19s%.19s", text[a], text[b]);
                memcpy(text[n], both, sizeof both);
                if (strlen(both) > 12) { if (t_rand_below(50) == 0) break; continue; }
                (void)snprintf(rule[n_merges], sizeof rule[n_merges], "%.39s %.39s", text[a], text[b]);
                for (i = 0; i < n && strcmp(text[i], text[n]); i++) {}
                for (k = 0; k < n_merges && strcmp(rule[k], rule[n_merges]); k++) {}
                if (k < n_merges) { if (t_rand_below(50) == 0) break; continue; }
                merge[n_merges].at = rule[n_merges];
                merge[n_merges].n = strlen(rule[n_merges]);
                n_merges++;
                if (i == n) token(&m, text[n++], -(float)t_rand_below(30), 1);
                if (n_merges == 119) break;
            }
            m.d.merge = merge;
            m.d.n_merges = n_merges;
            if (!T_OK(tllm_vocab_make(ctx, &m.d, &v))) break;
            for (len = 1; len < 200; len += 1 + len / 2) {
                char word[201];
                tllm_tokens t;
                memset(&t, 0, sizeof t);
                for (i = 0; i < len; i++) word[i] = (char)('a' + (int)t_rand_below((uint32_t)(round % 4) + 1));
                for (i = 0; i < len; i++) { sym[i][0] = word[i]; sym[i][1] = 0; }
                n = naive(&m, merge, n_merges, by_score, sym, len);
                if (T_OK(tllm_encode(ctx, v, word, len, 0, &t)) && T_TRUE(t.n == n))
                    for (i = 0; i < n; i++) {
                        tllm_text got = tllm_vocab_text(v, t.id[i]);
                        if (!T_TRUE(got.n == strlen(sym[i]) && !memcmp(got.at, sym[i], got.n))) break;
                    }
                tllm_tokens_free(ctx, &t);
            }
            tllm_vocab_close(ctx, v);
        }
    t_close(ctx);
}

/* ---- special tokens ---------------------------------------------------------------------------------------------- */

static void test_special_tokens(void)
{
    static char line[40][40];
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    static made m;
    tllm_vocab *v = NULL;
    int i;
    start(&m, "rwkv", NULL);
    token(&m, "a", 0, 1);                               /* 0 */
    token(&m, "<ab>", 0, TLLM_TOKEN_CONTROL);           /* 1 */
    token(&m, "<ab><ab>x", 0, TLLM_TOKEN_CONTROL);      /* 2 */
    token(&m, "b><", 0, TLLM_TOKEN_USER);               /* 3 */
    token(&m, "<|im_end|>", 0, 1);                      /* 4: an end by its text, whatever the file says */
    for (i = 1; i <= 31; i++) {
        memset(line[i], '=', (size_t)i);
        line[i][i] = 0;
        token(&m, line[i], 0, TLLM_TOKEN_USER);         /* 4 + i */
    }
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        /* the longest is found first at any place: <ab><ab>x at 4, and only then the rest */
        ENCODES(v, "<ab><ab><ab>x", TLLM_ENCODE_SPECIAL, "1 2");
        /* without control tokens b>< is found, and of the rest only a is a token */
        ENCODES(v, "<ab><ab>x", 0, "0 3 0");
        /* <ab> has four bytes and b>< three: <ab> wins, twice */
        ENCODES(v, "<ab><ab>a", TLLM_ENCODE_SPECIAL, "1 1 0");
        ENCODES(v, "a<|im_end|>", 0, "0 4");    /* it is in the trie like every token */
        ENCODES(v, "a<|im_end|>", TLLM_ENCODE_SPECIAL, "0 4");
        T_TRUE(tllm_vocab_is_end(v, 4) && tllm_vocab_special(v, TLLM_EOT) == 4);
        /* 70 = 31 + 31 + 8, from the left */
        ENCODES(v, "======================================================================", 0, "35 35 12");
        {
            /* and a million of them at once */
            const size_t n = 1000000;
            char *text = (char *)t_keep(n);
            tllm_tokens t;
            memset(&t, 0, sizeof t);
            memset(text, '=', n);
            T_OK(tllm_encode(ctx, v, text, n, 0, &t));
            T_EQ_INT(t.n, n / 31 + 1);
            if (t.n) T_EQ_INT(t.id[t.n - 1], 4 + (int)(n % 31));
            tllm_tokens_free(ctx, &t);
        }
    }
    tllm_vocab_close(ctx, v);
    t_close(ctx);
}

/* ---- bad files --------------------------------------------------------------------------------------------------- */

enum {
    BAD_NONE,
    BAD_MODEL,
    BAD_NO_MODEL,
    BAD_PRE,
    BAD_NO_TOKENS,
    BAD_TOKENS_TYPE,
    BAD_ZERO_TOKENS,
    BAD_SCORES_FEW,
    BAD_SCORES_TYPE,
    BAD_TYPES_FEW,
    BAD_TYPES_TYPE,
    BAD_NO_MERGES,
    BAD_MERGES_TYPE,
    BAD_IDS,
    BAD_NARROW_TYPES,
    BAD_TWINS,
    BAD_MAP_SHORT,
    BAD_MAP_1,
    BAD_MAP_2,
    BAD_MAP_TYPE,
    BAD_WHITESPACE
};

#define CORPUS "tests/fuzz/corpus"

/* The files are in CORPUS/gguf under their names; T_CORPUS=folder in the environment writes them again. */
static void bad_file(tiny_ctx *ctx, int how, const char *name, tiny_status want, const char *says)
{
    static const char *const words[] = { "<unk>",   "<s>", "</s>", "<0x-1>", "<0xZZ>", "<0x41>",
                                         "<0x414>", "<0x", "a",    "b",      "ab",     "\xe2\x96\x81" };
    static const char *const twins[] = { "a", "a", "a", "", "", "b", "b", "ab", "ab", "ab", "ab", "ab" };
    static const int32_t types[] = { 2, 3, 3, 6, 6, 6, 6, 6, 1, 1, 1, 77 };
    static const unsigned char narrow[] = { 2, 3, 3, 6, 6, 6, 6, 6, 1, 1, 1, 200 };
    static const float scores[] = { 0, 0, 0, 0, 0, 0, 0, 0, -1, -2, -3, -4 };
    enum { N = (int)T_COUNT(words) };
    tllm_text text[N], merge[3];
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    tllm_gguf *g = NULL;
    tllm_vocab *v = NULL;
    tllm_tokens t;
    const void *bytes;
    size_t n, i;
    int bpe = how == BAD_NO_MERGES || how == BAD_MERGES_TYPE || how == BAD_PRE || how == BAD_WHITESPACE;
    int map = how == BAD_MAP_SHORT || how == BAD_MAP_TYPE || how == BAD_MAP_1 || how == BAD_MAP_2;
    const char *corpus = getenv("T_CORPUS");
    char path[400];
    FILE *f;
    memset(&d, 0, sizeof d);
    memset(&t, 0, sizeof t);
    for (i = 0; i < N; i++) {
        text[i].at = how == BAD_TWINS ? twins[i] : words[i];
        text[i].n = strlen(text[i].at);
    }
    merge[0] = merge[1] = merge[2] = text[8];
    T_OK(tllm_writer_open(ctx, &d, &w));
    T_OK(tllm_writer_put_text(ctx, w, "general.architecture", "llama"));
    if (how != BAD_NO_MODEL)
        T_OK(tllm_writer_put_text(ctx, w, "tokenizer.ggml.model",
                                  how == BAD_MODEL ? "lama"
                                  : bpe            ? "gpt2"
                                  : map            ? "t5"
                                                   : "llama"));
    if (how == BAD_PRE) T_OK(tllm_writer_put_text(ctx, w, "tokenizer.ggml.pre", "lama-4711"));
    if (how == BAD_WHITESPACE) T_OK(tllm_writer_put_text(ctx, w, "tokenizer.ggml.pre", "whitespace"));
    if (how == BAD_TOKENS_TYPE) T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_I32, types, N));
    else if (how != BAD_NO_TOKENS)
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.tokens", TLLM_STRING, text, how == BAD_ZERO_TOKENS ? 0 : N));
    if (how == BAD_SCORES_TYPE) T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.scores", TLLM_U8, narrow, N));
    else
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.scores", TLLM_F32, scores,
                                   how == BAD_SCORES_FEW ? N - 1 : N));
    if (how == BAD_TYPES_TYPE) T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_F32, scores, N));
    else if (how == BAD_NARROW_TYPES)
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_U8, narrow, N));
    else
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.token_type", TLLM_I32, types, how == BAD_TYPES_FEW ? 3 : N));
    if (how == BAD_MERGES_TYPE) T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.merges", TLLM_I32, types, N));
    if (how == BAD_PRE || how == BAD_WHITESPACE)
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.merges", TLLM_STRING, merge, 3));
    if (map)
        T_OK(tllm_writer_put_array(ctx, w, "tokenizer.ggml.precompiled_charsmap",
                                   how == BAD_MAP_TYPE ? TLLM_F32 : TLLM_U8,
                                   how == BAD_MAP_TYPE ? (const void *)scores : (const void *)narrow,
                                   how == BAD_MAP_1   ? 1
                                   : how == BAD_MAP_2 ? 2
                                                      : 3));
    if (how == BAD_IDS) {
        T_OK(tllm_writer_put_u32(ctx, w, "tokenizer.ggml.bos_token_id", N));
        T_OK(tllm_writer_put_u32(ctx, w, "tokenizer.ggml.eos_token_id", 0xffffffffu));
        T_OK(tllm_writer_put_i32(ctx, w, "tokenizer.ggml.unknown_token_id", -7));
        T_OK(tllm_writer_put_text(ctx, w, "tokenizer.ggml.padding_token_id", "1"));
    }
    T_OK(tllm_writer_finish(ctx, w));
    bytes = tllm_writer_memory(w, &n);
    (void)snprintf(path, sizeof path, "%s/gguf/vocab-%s.gguf", corpus ? corpus : CORPUS, name);
    if (corpus && (f = fopen(path, "wb")) != NULL) {
        T_TRUE(fwrite(bytes, 1, n, f) == n);
        T_TRUE(!fclose(f));
    }
    if ((f = fopen(path, "rb")) != NULL) (void)fclose(f);   /* the tests may run elsewhere: then from memory */
    if (T_OK(f ? tllm_gguf_open(ctx, path, &g) : tllm_gguf_open_memory(ctx, bytes, n, &g))) {
        T_STATUS(tllm_vocab_open(ctx, g, &v), want, says);
        T_TRUE((v == NULL) == (want != TINY_OK));
        if (v) {
            size_t k;
            T_OK(tllm_encode(ctx, v, "ab\xff<0x41> b <s> A", 17, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &t));
            for (i = 0; i < t.n; i++) T_TRUE(t.id[i] >= 0 && t.id[i] < N);
            for (k = 0; k < 3; k++)
                for (i = 0; i < N + 2; i++) (void)tllm_piece(v, (int32_t)i - 1, (unsigned)k, NULL, 0);
            if (how == BAD_IDS) {
                T_EQ_INT(tllm_vocab_special(v, TLLM_BOS), 1);       /* as if the file did not state it */
                T_EQ_INT(tllm_vocab_special(v, TLLM_EOS), 2);
                T_EQ_INT(tllm_vocab_special(v, TLLM_UNK), 0);
                T_EQ_INT(tllm_vocab_special(v, TLLM_PAD), -1);
            }
            if (how == BAD_NONE) {
                char p[8];
                T_EQ_INT(tllm_piece(v, 5, 0, p, sizeof p), 1);      /* <0x41> is A */
                T_EQ_INT(p[0], 'A');
                T_EQ_INT(tllm_piece(v, 3, 0, p, sizeof p), 6);      /* <0x-1> is its text */
                T_EQ_INT(tllm_piece(v, 11, 0, p, sizeof p), 0);     /* an unknown type prints nothing */
                T_EQ_INT(tllm_vocab_type(v, 11), TLLM_TOKEN_UNDEFINED);
                T_EQ_INT(tllm_piece(v, 3, 0, p, 2), 6);             /* too little room: the needed size */
            }
            if (how == BAD_TWINS) {
                T_EQ_INT(tllm_vocab_find(v, "a", 1), 0);
                T_EQ_INT(tllm_vocab_find(v, "", 0), -1);
            }
        }
    }
    tllm_tokens_free(ctx, &t);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    tllm_writer_close(ctx, w);
}

static void test_bad_files(void)
{
    static const struct { int how; const char *name; tiny_status want; const char *says; } row[] = {
        { BAD_NONE, "byte-token-0x-1", TINY_OK, NULL }, { BAD_IDS, "special-ids-outside", TINY_OK, NULL },
        { BAD_NARROW_TYPES, "types-u8", TINY_OK, NULL }, { BAD_TWINS, "tokens-twice", TINY_OK, NULL },
        { BAD_MODEL, "model-unknown", TINY_E_UNSUPPORTED, "tokenizer.ggml.model is \"lama\"" },
        { BAD_NO_MODEL, "model-missing", TINY_E_FORMAT, "tokenizer.ggml.model is missing" },
        { BAD_PRE, "pre-unknown", TINY_E_UNSUPPORTED, "tokenizer.ggml.pre is \"lama-4711\"" },
        { BAD_NO_TOKENS, "tokens-missing", TINY_E_FORMAT, "tokenizer.ggml.tokens is missing" },
        { BAD_TOKENS_TYPE, "tokens-i32", TINY_E_FORMAT, "tokenizer.ggml.tokens is not a list of texts" },
        { BAD_ZERO_TOKENS, "tokens-none", TINY_E_FORMAT, "tokenizer.ggml.tokens has 0 tokens" },
        { BAD_SCORES_FEW, "scores-few", TINY_E_FORMAT, "tokenizer.ggml.scores has 11 scores for 12 tokens" },
        { BAD_SCORES_TYPE, "scores-u8", TINY_E_FORMAT, "tokenizer.ggml.scores is not a list of f32" },
        { BAD_TYPES_FEW, "types-few", TINY_E_FORMAT, "tokenizer.ggml.token_type has 3 types for 12 tokens" },
        { BAD_TYPES_TYPE, "types-f32", TINY_E_FORMAT, "tokenizer.ggml.token_type is not a list of integers" },
        { BAD_NO_MERGES, "merges-missing", TINY_E_FORMAT, "tokenizer.ggml.merges is missing" },
        { BAD_MERGES_TYPE, "merges-i32", TINY_E_FORMAT, "tokenizer.ggml.merges is not a list of texts" },
        { BAD_MAP_1, "charsmap-1-byte", TINY_E_FORMAT, "precompiled_charsmap has 1 bytes" },
        { BAD_MAP_2, "charsmap-2-bytes", TINY_E_FORMAT, "precompiled_charsmap has 2 bytes" },
        { BAD_MAP_SHORT, "charsmap-3-bytes", TINY_E_FORMAT, "precompiled_charsmap has 3 bytes" },
        { BAD_WHITESPACE, "pre-whitespace", TINY_OK, NULL },            /* then a text with blanks is encoded */
        { BAD_MAP_TYPE, "charsmap-f32", TINY_E_FORMAT, "precompiled_charsmap is not a list of bytes" }
    };
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    size_t i;
    for (i = 0; i < T_COUNT(row); i++) bad_file(ctx, row[i].how, row[i].name, row[i].want, row[i].says);
    t_close(ctx);
}

static void test_bad_calls(void)
{
    static made m;
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_vocab *v = NULL;
    tllm_tokens t;
    tllm_bytes b;
    tllm_stream s;
    int32_t id = 5;
    memset(&t, 0, sizeof t);
    memset(&b, 0, sizeof b);
    T_STATUS(tllm_vocab_open(ctx, NULL, &v), TINY_E_ARGUMENT, "the file is missing");
    T_STATUS(tllm_vocab_make(ctx, NULL, &v), TINY_E_ARGUMENT, "the description is missing");
    start(&m, "llama", NULL);
    T_STATUS(tllm_vocab_make(ctx, &m.d, &v), TINY_E_ARGUMENT, "0 tokens");
    start(&m, "no_vocab", NULL);
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        T_STATUS(tllm_encode(ctx, v, "a", 1, 0, &t), TINY_E_UNSUPPORTED, "no vocabulary");
        T_EQ_INT(tllm_vocab_size(v), 0);
        T_EQ_INT(tllm_vocab_find(v, "a", 1), -1);
    }
    tllm_vocab_close(ctx, v);
    v = NULL;
    start(&m, "llama", NULL);
    token(&m, "a", 0, 1);
    if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) {
        T_STATUS(tllm_encode(ctx, v, NULL, 1, 0, &t), TINY_E_ARGUMENT, "the text is missing");
        T_OK(tllm_encode(ctx, v, NULL, 0, 0, &t));
        T_STATUS(tllm_encode(ctx, v, "a", (size_t)INT32_MAX + 1, 0, &t), TINY_E_OVERFLOW, "one call is 2147483647");
        T_STATUS(tllm_decode(ctx, v, &id, 1, 0, &b), TINY_E_ARGUMENT, "token 5 at index 0, but the vocabulary has 1");
        s = tllm_stream_start(v, 0);
        T_STATUS(tllm_stream_next(ctx, &s, -1, &b), TINY_E_ARGUMENT, "token -1");
        T_STATUS(tllm_stream_next(ctx, NULL, 0, &b), TINY_E_ARGUMENT, "the stream is missing");
    }
    tllm_vocab_close(ctx, v);
    tllm_vocab_close(ctx, NULL);
    tllm_tokens_free(ctx, NULL);
    t_close(ctx);
}

static void test_allocations(void)
{
    static const char *const model[] = { "llama", "gpt2", "bert", "t5", "rwkv" };
    static made m;
    static tllm_text merge[1];
    size_t i;
    merge[0].at = "a b";
    merge[0].n = 3;
    for (i = 0; i < T_COUNT(model); i++) {
        start(&m, model[i], "gpt-2");
        token(&m, "a", 0, 1);
        token(&m, "b", 0, 1);
        token(&m, "ab", 0, 1);
        token(&m, "<x>", 0, TLLM_TOKEN_CONTROL);
        token(&m, "x>a", 0, TLLM_TOKEN_USER);
        m.d.merge = merge;
        m.d.n_merges = 1;
        T_EACH_ALLOCATION({
            tiny_ctx_desc d = t_desc(TINY_TARGET_AUTO, 1);
            tiny_ctx *ctx = NULL;
            tllm_vocab *v = NULL;
            tllm_tokens t;
            tllm_bytes b;
            memset(&t, 0, sizeof t);
            memset(&b, 0, sizeof b);
            if (!tiny_ctx_open(&d, &ctx)) {
                tiny_status st = tllm_vocab_make(ctx, &m.d, &v);
                T_TRUE(!st || st == TINY_E_MEMORY);
                if (!st) st = tllm_encode(ctx, v, "ab <x>a\xff ba ab abba", 18, TLLM_ENCODE_SPECIAL, &t);
                T_TRUE(!st || (st == TINY_E_MEMORY && !t.n));
                if (!st) st = tllm_decode(ctx, v, t.id, t.n, 0, &b);
                T_TRUE(!st || (st == TINY_E_MEMORY && !b.n));
                tllm_tokens_free(ctx, &t);
                tllm_bytes_free(ctx, &b);
                tllm_vocab_close(ctx, v);
            }
            tiny_ctx_close(ctx);
        })
    }
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

/* the names with notes 1, 2 and 3 in docs/guide/tokenizers.md */
static const char *const pre_whole[] = { "llama3",
                                         "llama-v3",
                                         "llama-bpe",
                                         "falcon3",
                                         "falcon-h1",
                                         "pixtral",
                                         "midm-2.0",
                                         "lfm2",
                                         "jina-v5-nano",
                                         "minicpm5",
                                         "youtu",
                                         "tekken",
                                         "granite-embed-multi-97m",
                                         NULL };
static const char *const pre_bos[] = { "llama3",   "llama-v3", "llama-bpe",    "falcon3", "falcon-h1", "pixtral",
                                       "midm-2.0", "lfm2",     "jina-v5-nano", "tekken",  "chameleon", NULL };
static const char *const pre_raw[] = { "gemma4", "granite-embed-multi-311m", "sarvam-moe", "whitespace", NULL };
static int pre_in(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name)) list++;
    return *list != NULL;
}

static void test_tables(void)
{
    size_t i, k;
    T_EQ_TEXT(tllm_unicode_version(), "15.1.0");
    for (i = 0; tllm_pre_at(i); i++) {
        const tllm_pre *p = tllm_pre_at(i);
        T_TRUE(tllm_pre_find(p->name, strlen(p->name)) == p);   /* no name twice */
        T_TRUE(p->rule[0] != 0);
        if (!T_TRUE(!(p->flags & TLLM_PRE_WHOLE) == !pre_in(pre_whole, p->name) &&
                    !(p->flags & TLLM_PRE_BOS) == !pre_in(pre_bos, p->name) &&
                    !(p->flags & TLLM_PRE_RAW) == !pre_in(pre_raw, p->name)))
            printf("  %s\n", p->name);
        for (k = 0; p->rule[k]; k++) T_TRUE(p->rule[k] != ' ' || (p->rule[k + 1] && p->rule[k + 1] != ' '));
    }
    T_TRUE(i > 80);
    T_TRUE(!tllm_pre_find("gpt", 3));
}

int main(void)
{
    T_RUN(test_tables);
    T_RUN(test_spm_by_hand);
    T_RUN(test_bpe_by_hand);
    T_RUN(test_bpe_lines);
    T_RUN(test_stream_characters);
    T_RUN(test_whitespace_by_hand);
    T_RUN(test_capitals);
    T_RUN(test_wordpiece_by_hand);
    T_RUN(test_unigram_by_hand);
    T_RUN(test_rwkv_by_hand);
    T_RUN(test_plamo_by_hand);
    T_RUN(test_merges_at_random);
    T_RUN(test_special_tokens);
    T_RUN(test_bad_files);
    T_RUN(test_bad_calls);
    T_RUN(test_allocations);
    return t_done();
}
