/* bench/llm/token.c - the speed of text to tokens and back
 *
 * The English prose is README.md and docs/, about a tenth of a megabyte. The vocabularies are the large oracle files of
 * tokenizers, and a small one for each kind without such a file. One thread: a call is serial, and two calls on two
 * contexts share nothing. The goal is 5 MB/s. */
#include "../bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bt_arg {
    tiny_ctx *ctx;
    tllm_gguf *g;                           /* NULL: made of made */
    tllm_vocab_desc made;
    tllm_vocab *v;
    const char *text;
    size_t n;
    tllm_tokens t;
    tllm_bytes b;
} bt_arg;

static void bt_encode(void *arg)
{
    bt_arg *a = (bt_arg *)arg;
    a->t.n = 0;
    b_must(a->ctx, tllm_encode(a->ctx, a->v, a->text, a->n, 0, &a->t));
}
static void bt_decode(void *arg)
{
    bt_arg *a = (bt_arg *)arg;
    a->b.n = 0;
    b_must(a->ctx, tllm_decode(a->ctx, a->v, a->t.id, a->t.n, 0, &a->b));
}
static void bt_open(void *arg)
{
    bt_arg *a = (bt_arg *)arg;
    tllm_vocab *v;
    b_must(a->ctx, a->g ? tllm_vocab_open(a->ctx, a->g, &v) : tllm_vocab_make(a->ctx, &a->made, &v));
    tllm_vocab_close(a->ctx, v);
}

static size_t bt_read(char *text, size_t room, const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, room, f) : 0;
    if (f) (void)fclose(f);
    return n;
}

/* for kinds without a file: all bytes, and each word of the text with its blank before it */
static void bt_make(bt_arg *a, const char *model)
{
    enum { MOST = 20000 };
    static char byte[2][256][8];
    static float score[MOST];
    static int32_t type[MOST];
    const int plamo = !strcmp(model, "plamo2");
    tllm_text *text = (tllm_text *)b_alloc(MOST * sizeof *text);
    tllm_vocab *v = NULL;
    size_t i, k;
    memset(&a->made, 0, sizeof a->made);
    for (i = 0; i < 256; i++) {
        (void)snprintf(byte[plamo][i], sizeof byte[0][0], plamo ? "<0x%02X>" : "\\x%02x", (unsigned)i);
        text[i].at = byte[plamo][i];
        text[i].n = strlen(byte[plamo][i]);
        score[i] = -1;
        type[i] = plamo ? TLLM_TOKEN_BYTE : TLLM_TOKEN_NORMAL;
    }
    a->made.model = model;
    a->made.text = text;
    a->made.score = score;
    a->made.type = type;
    a->made.n_tokens = 256;
    /* a repeated word is skipped by the vocabulary */
    for (i = 0; i < a->n && a->made.n_tokens < MOST; i = k) {
        for (k = i + 1; k < a->n && a->text[k] > ' '; k++) {}
        if (memchr(a->text + i, '\\', k - i)) continue;           /* RWKV reads escapes */
        text[a->made.n_tokens].at = a->text + i;
        text[a->made.n_tokens].n = k - i;
        score[a->made.n_tokens] = -1;
        type[a->made.n_tokens++] = TLLM_TOKEN_NORMAL;
    }
    b_must(a->ctx, tllm_vocab_make(a->ctx, &a->made, &v));
    a->v = v;
}

void bench_token(void)
{
    static const char *const prose[] = {
        "README.md", "docs/dev/house.md", "docs/guide/accelerators.md", "docs/guide/getting-started.md",
        "docs/guide/limits.md", "docs/dev/portability.md", "docs/guide/files.md", "docs/guide/sampling.md",
        "docs/guide/tokenizers.md"
    };
    static const struct { const char *file, *what;
    } vocab[] = {
        { "ggml-vocab-llama-spm", "SentencePiece, llama" },
        { "ggml-vocab-gpt-2", "BPE, gpt-2" },
        { "ggml-vocab-gpt-neox", "BPE, four split steps" },
        { "ggml-vocab-bert-bge", "WordPiece, bert" },
        { "pre/llama3", "BPE, 3000 merges" },
        { "tests/golden/token-unigram", "unigram, small" },
        { NULL, "rwkv" },
        { NULL, "plamo2" } /* bt_make */
    };
    enum { VOCABS = (int)(sizeof vocab / sizeof *vocab), ROOM = 400000 };
    static char text[ROOM];
    bt_arg a[VOCABS];
    b_row rows[3 * VOCABS];
    char path[120], what[100];
    size_t n = 0, i;
    int k, m = 0;
    for (i = 0; i < sizeof prose / sizeof *prose; i++) n += bt_read(text + n, ROOM - n, prose[i]);
    memset(a, 0, sizeof a);
    memset(rows, 0, sizeof rows);
    for (k = 0; k < VOCABS; k++) {
        a[k].ctx = b_ctx(TINY_TARGET_AUTO, 1);
        a[k].text = text;
        a[k].n = n;
        if (!n) continue;
        if (vocab[k].file) {
            (void)snprintf(path, sizeof path, "%s%s.gguf",
                           !strncmp(vocab[k].file, "tests/", 6) ? "" : "../shared/oracle/tokenizer/", vocab[k].file);
            if (tllm_gguf_open(a[k].ctx, path, &a[k].g)) continue;
            b_must(a[k].ctx, tllm_vocab_open(a[k].ctx, a[k].g, &a[k].v));
        } else bt_make(&a[k], vocab[k].what);
        bt_encode(&a[k]);
        for (i = 0; i < 3; i++) {
            b_row *r = &rows[m++];
            r->what = vocab[k].what;
            r->target = i == 0 ? "encode" : i == 1 ? "decode" : "open";
            r->threads = 1;
            r->bytes = i == 2 ? 0 : (double)n;
            r->run = i == 0 ? bt_encode : i == 1 ? bt_decode : bt_open;
            r->arg = &a[k];
            if (i == 2) b_shape(r, "%lu tokens", (unsigned long)tllm_vocab_size(a[k].v));
            else b_shape(r, "%lu KB, %lu tok", (unsigned long)(n / 1000), (unsigned long)a[k].t.n);
        }
    }
    if (m) {
        b_contest("Tokenizers, English prose", rows, m);
        for (k = 0; k < m; k += 3) {
            (void)snprintf(what, sizeof what, "%s: MB/s of one thread", rows[k].what);
            b_verdict(what, rows[k].bytes / rows[k].median_ns * 1e3, ">", 5);
            b_note("(its best round: %.1f encoding, %.1f decoding)", rows[k].bytes / rows[k].best_ns * 1e3,
                   rows[k + 1].bytes / rows[k + 1].best_ns * 1e3);
        }
    } else {
        b_note("Tokenizers: the vocabularies are not here, nothing was measured");
    }
    for (k = 0; k < VOCABS; k++) {
        tllm_tokens_free(a[k].ctx, &a[k].t);
        tllm_bytes_free(a[k].ctx, &a[k].b);
        tllm_vocab_close(a[k].ctx, a[k].v);
        tllm_gguf_close(a[k].ctx, a[k].g);
        tiny_ctx_close(a[k].ctx);
    }
}
