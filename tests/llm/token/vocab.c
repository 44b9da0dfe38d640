/* tests/llm/token/vocab.c - every vocabulary of the large oracle of tokenizers, there and back, as a stream, in long
 * runs
 *
 * The expected ids were recorded from another engine. Small vocabularies and bad ones: tests/llm/token/vocab_hand.c. */
#define _FILE_OFFSET_BITS 64                /* readdir of 32-bit systems gives up on large inode numbers without it */
#include "t.h"
#include "llm/token/kit.h"
#if T_PAGES
#include <dirent.h>
#endif

static int n_vocab, n_vocab_good;

/* ---- the oracle -------------------------------------------------------------------------------------------------- */

/* one line of ids for each text, texts between lines __ggml_vocab_test__: 0 when one differs */
static int compare(tiny_ctx *ctx, const tllm_vocab *v, const char *inputs, const char *wanted, unsigned flags)
{
    static const char between[] = "\n__ggml_vocab_test__\n";
    size_t n, m, at = 0, line = 0, k = sizeof between - 1;
    char *in = slurp(inputs, &n), *want = slurp(wanted, &m), *p = want;
    tllm_tokens t;
    int good = 1;
    memset(&t, 0, sizeof t);
    if (!T_TRUE(in && want)) { printf("%s or %s is missing\n", inputs, wanted); return 0; }
    while (at < n) {
        size_t end = at, i;
        while (end < n && (end + k > n || memcmp(in + end, between, k))) end++;
        t.n = 0;
        if (!T_OK(tllm_encode(ctx, v, in + at, end - at, flags, &t))) good = 0;
        for (i = 0; ; i++) {
            char *stop;
            long id;
            while (*p == ' ') p++;
            if (*p == '\n' || !*p) break;
            id = strtol(p, &stop, 10);
            if (stop == p) { good = 0; break; }
            p = stop;
            if (i >= t.n || t.id[i] != id) {
                if (good)
                    t_fail(__FILE__, __LINE__, "%s, text %lu, token %lu is %ld, not %ld", wanted, (unsigned long)line,
                           (unsigned long)i, i < t.n ? (long)t.id[i] : -1L, id);
                good = 0;
            }
        }
        if (i != t.n) {
            if (good)
                t_fail(__FILE__, __LINE__, "%s, text %lu gives %lu tokens, not %lu", wanted, (unsigned long)line,
                       (unsigned long)t.n, (unsigned long)i);
            good = 0;
        }
        if (*p) p++;
        line++;
        at = end + k;
    }
    good &= T_TRUE(!*p && line > 0);        /* as many lines as texts */
    tllm_tokens_free(ctx, &t);
    return good;
}

/* NAME.gguf with its texts and ids; a vocabulary without its own inputs takes the given ones */
static void one_file(const char *path, const char *inp, const char *out, const char *extra_inp, const char *extra,
                     const char *special)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_vocab *v = open_vocab(ctx, path, &g);
    int good = v != NULL;
    n_vocab++;
    if (v) good &= compare(ctx, v, inp, out, 0);
    if (v && extra) good &= compare(ctx, v, extra_inp, extra, 0);
    if (v) good &= compare(ctx, v, extra_inp, special, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL);
    n_vocab_good += good;
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static int by_name(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }

/* names in a folder that end so, without the end; how many */
static int list(const char *folder, const char *end, char (*name)[64], int most)
{
    int n = 0;
#if T_PAGES
    DIR *d = opendir(here(folder));
    struct dirent *e;
    while (d && (e = readdir(d)) != NULL) {
        size_t k = strlen(e->d_name), m = strlen(end);
        if (k <= m || k - m > 63 || n == most || strcmp(e->d_name + k - m, end)) continue;
        memset(name[n], 0, sizeof name[n]);
        memcpy(name[n++], e->d_name, k - m);
    }
    if (d) (void)closedir(d);
#else
    (void)folder;
    (void)end;
    (void)most;
#endif
    qsort(name, (size_t)n, sizeof *name, by_name);
    return n;
}

static void test_oracle(void)
{
    static char name[200][64];
    char path[6][160];
    int i, n;
    if (!have_oracle()) { T_SKIP(ORACLE " is not in this repository"); return; }
    n = list(ORACLE, ".gguf.out", name, 200);
    T_TRUE(n > 0);
    for (i = 0; i < n; i++) {
        (void)snprintf(path[0], sizeof path[0], ORACLE "/%.63s.gguf", name[i]);
        if (!t_find(path[0])) continue;     /* test_texts_without_vocabulary tells */
        (void)snprintf(path[1], sizeof path[1], ORACLE "/%.63s.gguf.inp", name[i]);
        (void)snprintf(path[2], sizeof path[2], ORACLE "/%.63s.gguf.out", name[i]);
        (void)snprintf(path[3], sizeof path[3], ORACLE "/%.63s.gguf.extra.out", name[i]);
        (void)snprintf(path[4], sizeof path[4], ORACLE "/%.63s.gguf.extra-special.out", name[i]);
        one_file(path[0], path[1], path[2], ORACLE "/extra.inp", path[3], path[4]);
    }
    n = list(ORACLE "/pre", ".gguf", name, 200);
    T_TRUE(n > 0);
    for (i = 0; i < n; i++) {
        (void)snprintf(path[0], sizeof path[0], ORACLE "/pre/%.63s.gguf", name[i]);
        (void)snprintf(path[1], sizeof path[1], ORACLE "/pre/%.63s.text.out", name[i]);
        (void)snprintf(path[2], sizeof path[2], ORACLE "/pre/%.63s.extra.out", name[i]);
        one_file(path[0], ORACLE "/pre/text.inp", path[1], ORACLE "/pre/extra.inp", NULL, path[2]);
    }
}

/* Texts and ids whose vocabulary is too large for the oracle: pre/ holds small ones of the same kinds, without recorded
 * ids. */
static void test_texts_without_vocabulary(void)
{
    static char name[200][64];
    char path[160], why[600] = "without a .gguf their ids are compared with nothing:";
    int i, n = have_oracle() ? list(ORACLE, ".gguf.out", name, 200) : 0, lacking = 0;
    for (i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, ORACLE "/%.63s.gguf", name[i]);
        if (t_find(path)) continue;
        lacking++;
        (void)snprintf(why + strlen(why), sizeof why - strlen(why), " %.63s", name[i]);
    }
    if (lacking) T_SKIP(why);
}

/* Small vocabularies that the SentencePiece library (0.2.3) trained, and the ids that it gives: lines of text, tab,
 * ids. The first has a character map of nine rules, the second falls back to bytes, the third has a map of a part of
 * NFKC, byte tokens and user-defined symbols, and texts that are not valid UTF-8
 * (tests/llm/token/peer_sentencepiece.py). */
static void golden(const char *name, tllm_vocab_kind kind, size_t n_lines)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_vocab *v;
    char path[100], *lines, *p;
    size_t n = 0, line = 0;
    tllm_tokens t;
    memset(&t, 0, sizeof t);
    (void)snprintf(path, sizeof path, "tests/golden/%s.gguf", name);
    v = open_vocab(ctx, path, &g);
    (void)snprintf(path, sizeof path, "tests/golden/%s.tsv", name);
    lines = slurp(path, &n);
    if (T_TRUE(v && lines) && T_EQ_INT(tllm_vocab_kind_of(v), kind))
        for (p = lines; *p; line++) {
            char *tab = strchr(p, '\t'), *end = strchr(p, '\n');
            size_t i = 0;
            int same = 1;
            if (!T_TRUE(tab && end && tab < end)) break;
            t.n = 0;
            T_OK(tllm_encode(ctx, v, p, (size_t)(tab - p), 0, &t));
            for (p = tab + 1; p < end; i++) {
                long id = strtol(p, &p, 10);
                if (i >= t.n || t.id[i] != id) same = 0;
                while (*p == ' ') p++;
            }
            if (!same || i != t.n)
                t_fail(__FILE__, __LINE__, "%s, line %lu: other tokens", path, (unsigned long)line + 1);
            p = end + 1;
        }
    T_EQ_INT(line, n_lines);
    tllm_tokens_free(ctx, &t);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_sentencepiece(void)
{
    golden("token-unigram", TLLM_VOCAB_UNIGRAM, 77);
    golden("token-spm", TLLM_VOCAB_SPM, 77);
    golden("token-unigram-bytes", TLLM_VOCAB_UNIGRAM, 120);
}

/* ---- there and back ---------------------------------------------------------------------------------------------- */

static const char *const passage =
    "The quick brown fox doesn't jump over 13 lazy dogs, it's 3.14159 too late; \xe2\x80\x9cwhy?\xe2\x80\x9d she "
    "asked.\n"
    "\xd0\xa1\xd1\x8a\xd0\xb5\xd1\x88\xd1\x8c \xd0\xb5\xd1\x89\xd1\x91 \xd1\x8d\xd1\x82\xd0\xb8\xd1\x85 "
    "\xd0\xb1\xd1\x83\xd0\xbb\xd0\xbe\xd0\xba, "
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c\xef\xbc\x81\n"
    "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7 \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4 "
    "\xe3\x81\x93\xe3\x82\x93\xe3\x81\xab\xe3\x81\xa1\xe3\x81\xaf "
    "\xe0\xb8\xaa\xe0\xb8\xa7\xe0\xb8\xb1\xe0\xb8\xaa\xe0\xb8\x94\xe0\xb8\xb5\n"
    "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 \xf0\x9f\xa6\x99 na\xc3\xafve "
    "co\xc3\xb6perate \xe1\xba\xbe\xcc\x81 for (i = 0; i < n; ++i) { a[i] *= 2; }\t\t  \r\n   \n";

static char *mixed(size_t n)
{
    size_t k = strlen(passage), i, m = 0;
    char *text = (char *)t_keep(n + 64);
    for (i = 0; m + k + 32 < n; i++) {
        memcpy(text + m, passage, k);
        m += k;
        m += (size_t)snprintf(text + m, 32, "%lu %s", (unsigned long)t_rand_u64(), i % 3 ? "x" : "\n\n");
    }
    while (m < n) text[m++] = 'z';
    return text;
}

static void round_trip(const char *path, size_t n, unsigned flags)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_vocab *v = open_vocab(ctx, path, &g);
    char *text = mixed(n);
    tllm_tokens t, one;
    tllm_bytes b;
    memset(&t, 0, sizeof t);
    memset(&one, 0, sizeof one);
    memset(&b, 0, sizeof b);
    if (v && T_OK(tllm_encode(ctx, v, text, n, flags, &t)) && T_OK(tllm_decode(ctx, v, t.id, t.n, 0, &b))) {
        T_EQ_INT(b.n, n);
        if (b.n == n) T_SAME(b.at, text, n);
        T_TRUE(t.n < n);
        /* short texts remember no words; up to the last few tokens the answer must be the same */
        if (T_OK(tllm_encode(ctx, v, text, 4000, flags, &one)) && T_TRUE(one.n > 500 && one.n < t.n))
            T_SAME(one.id, t.id, one.n - 100);
    }
    tllm_tokens_free(ctx, &t);
    tllm_tokens_free(ctx, &one);
    tllm_bytes_free(ctx, &b);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_round_trip(void)
{
    size_t n = T_ASAN ? 300000 : 10 * 1000 * 1000;
    round_trip("tests/golden/token-spm.gguf", n, 0);
    round_trip("tests/golden/token-spm.gguf", 100000, TLLM_ENCODE_ENDS);
    round_trip("examples/models/story.gguf", n, 0);
    if (!have_oracle()) { puts("without: " ORACLE); return; }
    round_trip(ORACLE "/ggml-vocab-llama-spm.gguf", n, 0);
    round_trip(ORACLE "/ggml-vocab-gpt-2.gguf", n, 0);
    round_trip(ORACLE "/ggml-vocab-llama-spm.gguf", 100000, TLLM_ENCODE_ENDS);
    round_trip(ORACLE "/ggml-vocab-gpt-neox.gguf", 100000, TLLM_ENCODE_ENDS);
    round_trip(ORACLE "/pre/deepseek-llm.gguf", 100000, 0);
    round_trip(ORACLE "/pre/youtu.gguf", 100000, 0);
}

/* token by token: only whole characters come, and together they are the text */
static void stream(const char *path)
{
    tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
    tllm_gguf *g = NULL;
    tllm_vocab *v = open_vocab(ctx, path, &g);
    size_t n = strlen(passage), i;
    int held = 0;
    tllm_tokens t;
    tllm_bytes b;
    memset(&t, 0, sizeof t);
    memset(&b, 0, sizeof b);
    if (v && T_OK(tllm_encode(ctx, v, passage, n, TLLM_ENCODE_ENDS, &t))) {
        tllm_stream s = tllm_stream_start(v, 0);
        for (i = 0; i < t.n; i++) {
            T_OK(tllm_stream_next(ctx, &s, t.id[i], &b));
            held += s.n_held > 0;
            T_TRUE(b.n <= n && (!b.n || !memcmp(b.at, passage, b.n)));
            /* ends before the first byte of a character */
            T_TRUE(b.n == n || ((unsigned char)passage[b.n] & 0xc0) != 0x80);
        }
        T_OK(tllm_stream_end(ctx, &s, &b));
        T_EQ_INT(b.n, n);
        T_TRUE(held > 0);                   /* the text has characters in pieces, or this showed nothing */
        /* cut anywhere: the bytes held back become one U+FFFD */
        for (i = 0; i < t.n; i++) {
            size_t k, before;
            s = tllm_stream_start(v, 0);
            b.n = 0;
            for (k = 0; k <= i; k++) T_OK(tllm_stream_next(ctx, &s, t.id[k], &b));
            before = b.n;
            held = s.n_held > 0;
            T_OK(tllm_stream_end(ctx, &s, &b));
            T_EQ_INT(b.n, before + (held ? 3u : 0u));
            if (held) T_TRUE(!memcmp(b.at + before, "\xef\xbf\xbd", 3));
        }
    }
    tllm_tokens_free(ctx, &t);
    tllm_bytes_free(ctx, &b);
    tllm_vocab_close(ctx, v);
    tllm_gguf_close(ctx, g);
    t_close(ctx);
}

static void test_stream(void)
{
    stream("tests/golden/token-spm.gguf");
    stream("examples/models/story.gguf");
    if (!have_oracle()) { puts("without: " ORACLE); return; }
    stream(ORACLE "/ggml-vocab-llama-spm.gguf");
    stream(ORACLE "/ggml-vocab-gpt-2.gguf");
    stream(ORACLE "/pre/llama3.gguf");
}

/* a run of ten million equal characters costs the same as ten million others */
static void test_runs(void)
{
    static const char *const what[] = { "a", " ", "\n", "7", "\xf0\x9f\xa6\x99", "\xff", "'", "\xc3\xa9", "A\xcc\x81" };
    static const char *const path[] = { "tests/golden/token-spm.gguf",
                                        "tests/golden/token-unigram.gguf",
                                        "tests/golden/token-unigram-bytes.gguf",
                                        "examples/models/story.gguf",
                                        ORACLE "/ggml-vocab-llama-spm.gguf",
                                        ORACLE "/ggml-vocab-bert-bge.gguf",
                                        ORACLE "/ggml-vocab-gpt-neox.gguf",
                                        ORACLE "/pre/jais-2.gguf",
                                        ORACLE "/pre/tiny_aya.gguf",
                                        ORACLE "/pre/deepseek-llm.gguf" };
    const size_t n = T_ASAN ? 50000 : 1000000;
    size_t i, p, k;
    for (p = 0; p < T_COUNT(path); p++) {
        if (!strncmp(path[p], ORACLE, sizeof ORACLE - 1) && !t_one_of(path[p])) continue;
        tiny_ctx *ctx = t_ctx(TINY_TARGET_AUTO, 1);
        tllm_gguf *g = NULL;
        tllm_vocab *v = open_vocab(ctx, path[p], &g);
        char *text = (char *)t_keep(n + 8);
        tllm_tokens t;
        memset(&t, 0, sizeof t);
        for (i = 0; v && i < T_COUNT(what); i++) {
            double seconds = t_seconds();
            for (k = 0; k < n; k += strlen(what[i])) memcpy(text + k, what[i], strlen(what[i]));
            t.n = 0;
            T_OK(tllm_encode(ctx, v, text, n, TLLM_ENCODE_SPECIAL, &t));
            seconds = t_seconds() - seconds;
            if (seconds > 20)
                t_fail(__FILE__, __LINE__, "%s: %lu bytes of '%s' take %.1f s", path[p], (unsigned long)n, what[i],
                       seconds);
        }
        tllm_tokens_free(ctx, &t);
        tllm_vocab_close(ctx, v);
        tllm_gguf_close(ctx, g);
        t_close(ctx);
    }
}

/* The rule of Unicode for invalid UTF-8: each byte that cannot begin or continue a character becomes U+FFFD. `to` has
 * room for 3 n. */
static size_t repaired(char *to, const char *from, size_t n)
{
    const unsigned char *p = (const unsigned char *)from;
    size_t i = 0, m = 0, k, len;
    while (i < n) {
        len = p[i] < 0x80 ? 1 : p[i] < 0xc2 ? 0 : p[i] < 0xe0 ? 2 : p[i] < 0xf0 ? 3 : p[i] < 0xf5 ? 4 : 0;
        for (k = 1; k < len && i + k < n && (p[i + k] & 0xc0) == 0x80; k++) {}
        if (len && k == len) { memcpy(to + m, p + i, len); m += len; i += len; }
        else { memcpy(to + m, "\xef\xbf\xbd", 3); m += 3; i++; }
    }
    return m;
}

/* n bytes of the texts of the oracle in all its languages, characters of all planes, and bytes that are no characters.
 * No U+2581:
 * SentencePiece writes blanks with it, and gives blanks back. No U+FEFF: PLaMo drops one at the beginning of a text. No
 * overlong forms: vocabularies that read characters give the short one. */
static char *everything(size_t n)
{
    static const char *const all[2][4] = { { "tests/golden/chat-templates.txt", "tests/golden/token-unigram.tsv",
                                             "tests/golden/token-unigram-bytes.tsv", "tests/golden/token-spm.tsv" },
                                           { ORACLE "/extra.inp", ORACLE "/pre/text.inp", ORACLE "/pre/extra.inp",
                                             ORACLE "/ggml-vocab-llama-bpe.gguf.inp" } };
    const char *const *files = all[have_oracle()];
    char *text = (char *)t_keep(n + 8), *part[4];
    size_t size[4], m = 0, k, i;
    for (k = 0; k < 4; k++) if (!T_TRUE((part[k] = slurp(files[k], &size[k])) != NULL)) return text;
    while (m < n) {
        const uint32_t turn = t_rand_below(8);
        char c[4];
        if (turn < 3) {
            size_t from, len;
            k = t_rand_below(4);
            from = t_rand_below((uint32_t)size[k]);
            len = t_rand_below(400);
            /* cut anywhere, in characters too */
            for (i = from; i < from + len && i < size[k] && m < n; i++) text[m++] = part[k][i];
        } else if (turn == 3) {
            for (i = 0; i < strlen(passage) && m < n; i++) text[m++] = passage[i];
        } else if (turn < 7) {
            size_t left = t_rand_below(60);
            while (left-- && m + 4 <= n) {
                const uint32_t plane = t_rand_below(4), u = plane == 0   ? t_rand_below(0x80)
                                                            : plane == 1 ? 0x80 + t_rand_below(0x3000)
                                                            : plane == 2 ? t_rand_below(0x10000)
                                                                         : t_rand_below(0x110000);
                if ((u >= 0xd800 && u < 0xe000) || u == 0x2581 || u == 0xfeff) continue;
                if (u < 0x80) text[m++] = (char)u;
                else if (u < 0x800) { text[m++] = (char)(0xc0 | u >> 6); text[m++] = (char)(0x80 | (u & 63));
                } else if (u < 0x10000) {
                    text[m++] = (char)(0xe0 | u >> 12);
                    text[m++] = (char)(0x80 | (u >> 6 & 63));
                    text[m++] = (char)(0x80 | (u & 63));
                } else {
                    text[m++] = (char)(0xf0 | u >> 18);
                    text[m++] = (char)(0x80 | (u >> 12 & 63));
                    text[m++] = (char)(0x80 | (u >> 6 & 63));
                    text[m++] = (char)(0x80 | (u & 63));
                }
            }
        } else {
            size_t left = t_rand_below(6);
            while (left-- && m < n) text[m++] = (char)(0x80 + t_rand_below(0x80));
        }
        for (i = m < 500 ? 0 : m - 500; i + 3 <= m; i++) {
            memcpy(c, text + i, 3);
            if (!memcmp(c, "\xe2\x96\x81", 3) || !memcmp(c, "\xef\xbb\xbf", 3)) text[i] = 'u';
        }
        /* lead bytes of overlong forms, surrogates and code points past the last plane */
        for (i = m < 500 ? 0 : m - 500; i < m; i++) {
            const unsigned char lead = (unsigned char)text[i], next = i + 1 < m ? (unsigned char)text[i + 1] : 0;
            if ((lead & 0xfe) == 0xc0 || (lead == 0xe0 && next < 0xa0) || (lead == 0xed && next >= 0xa0) ||
                (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next >= 0x90))
                text[i] = '.';
        }
    }
    return text;
}

/* There and back by one call, and token by token. bytes: the kind keeps bytes that are no characters; the others, and
 * the stream in any case, give U+FFFD for each of them. */
static void there_and_back(tiny_ctx *ctx, const tllm_vocab *v, const char *what, const char *text, size_t n,
                           unsigned flags, int bytes)
{
    char *good = (char *)t_keep(3 * n + 1);
    const size_t n_good = repaired(good, text, n);
    size_t i, n_held = 0;
    tllm_tokens t;
    tllm_bytes b;
    const uint64_t start = tiny_now_ns();
    memset(&t, 0, sizeof t);
    memset(&b, 0, sizeof b);
    if (T_OK(tllm_encode(ctx, v, text, n, flags, &t)) && T_OK(tllm_decode(ctx, v, t.id, t.n, 0, &b))) {
        tllm_stream s = tllm_stream_start(v, 0);
        const char *want = bytes ? text : good;
        if (T_EQ_INT(b.n, bytes ? n : n_good)) T_SAME(b.at, want, b.n);
        else {
            for (i = 0; i < b.n && i < n && b.at[i] == want[i]; i++) {}
            printf("  %s differs first at %lu: \"%.20s\", not \"%.20s\"\n", what, (unsigned long)i,
                   b.at + (i < 10 ? 0 : i - 10), want + (i < 10 ? 0 : i - 10));
        }
        b.n = 0;
        for (i = 0; i < t.n; i++) {
            if (tllm_stream_next(ctx, &s, t.id[i], &b)) break;
            n_held += s.n_held > 0;
        }
        T_EQ_INT(i, t.n);
        T_OK(tllm_stream_end(ctx, &s, &b));
        T_TRUE(n_held > n / 1000);
        if (T_EQ_INT(b.n, n_good)) T_SAME(b.at, good, n_good);
        else {
            for (i = 0; i < b.n && i < n_good && b.at[i] == good[i]; i++) {}
            printf("  %s as a stream differs first at %lu\n", what, (unsigned long)i);
        }
    }
    printf("  %-22s %8lu bytes, %8lu tokens, there and back twice in %.2f s\n", what, (unsigned long)n,
           (unsigned long)t.n, (double)(tiny_now_ns() - start) * 1e-9);
    tllm_tokens_free(ctx, &t);
    tllm_bytes_free(ctx, &b);
}

/* every kind that promises it; T_LONG=1 in the environment: 10 MB for each */
static void test_everything(void)
{
    static const struct { const char *path, *what; int bytes;
    } row[] = { { "tests/golden/token-spm.gguf", "SentencePiece, small", 1 },
                { "examples/models/story.gguf", "RWKV, stories", 1 },
                { ORACLE "/ggml-vocab-llama-spm.gguf", "SentencePiece, llama", 1 },
                { ORACLE "/ggml-vocab-phi-3.gguf", "SentencePiece, phi-3", 1 },
                { ORACLE "/ggml-vocab-gpt-2.gguf", "BPE, gpt-2", 0 },
                { ORACLE "/ggml-vocab-gpt-neox.gguf", "BPE, gpt-neox", 0 },
                { ORACLE "/pre/llama3.gguf", "BPE, llama3", 0 },
                { ORACLE "/pre/qwen2.gguf", "BPE, qwen2", 0 },
                { ORACLE "/pre/tiny_aya.gguf", "BPE, tiny_aya", 0 },
                { ORACLE "/pre/deepseek-llm.gguf", "BPE, deepseek-llm", 0 } };
    static char piece[256][12];
    static made m;
    const size_t n = getenv("T_LONG") ? 10 * 1000 * 1000 : T_SLOW ? 100000 : 1000000;
    tiny_ctx *ctx;
    char *text;
    size_t i;
    int k;
    ctx = t_ctx(TINY_TARGET_AUTO, 1);
    text = everything(n);
    for (i = 0; i < T_COUNT(row); i++) {
        tllm_gguf *g = NULL;
        tllm_vocab *v = !strncmp(row[i].path, ORACLE, sizeof ORACLE - 1) && !t_one_of(row[i].path)
                            ? NULL
                            : open_vocab(ctx, row[i].path, &g);
        if (v) there_and_back(ctx, v, row[i].what, text, n, 0, row[i].bytes);
        tllm_vocab_close(ctx, v);
        tllm_gguf_close(ctx, g);
    }
    for (k = 0; k < 2; k++) {               /* RWKV and PLaMo 2: all bytes, and a few words */
        static const char *const words[] = {
            "the",        " the", "ing", "\xd0\xb0", "\xe4\xbd\xa0\xe5\xa5\xbd", "  ", "\n\n", "\xf0\x9f\xa6\x99",
            "quick brown"
        };
        tllm_vocab *v = NULL;
        start(&m, k ? "plamo2" : "rwkv", NULL);
        if (!k) token(&m, "<end>", 0, TLLM_TOKEN_CONTROL);
        for (i = 0; i < 256; i++) {
            (void)snprintf(piece[i], sizeof piece[i], k ? "<0x%02X>" : "\\x%02x", (unsigned)i);
            token(&m, piece[i], 0, k ? TLLM_TOKEN_BYTE : TLLM_TOKEN_NORMAL);
        }
        for (i = 0; i < T_COUNT(words); i++) token(&m, words[i], -1, TLLM_TOKEN_NORMAL);
        if (T_OK(tllm_vocab_make(ctx, &m.d, &v))) there_and_back(ctx, v, k ? "PLaMo 2" : "RWKV", text, n, 0, !k);
        tllm_vocab_close(ctx, v);
    }
    t_close(ctx);
}

int main(void)
{
    T_RUN(test_sentencepiece);
    T_RUN(test_oracle);
    if (have_oracle()) T_RUN(test_texts_without_vocabulary);
    T_RUN(test_round_trip);
    T_RUN(test_everything);
    T_RUN(test_stream);
    T_RUN(test_runs);
    if (n_vocab) printf("vocabularies: %d of %d\n", n_vocab_good, n_vocab);
    return t_done();
}
