/* src/llm/file/llama2c.c
 *
 *   int32 dim, hidden, n_layer, n_head, n_head_kv, n_vocab, n_ctx     n_vocab negative: an output matrix at the end
 *   float32 embedding[n_vocab][dim]
 *     attention norm[n_layer][dim], q[n_layer][dim][dim], k, v[n_layer][kv_dim][dim], output[n_layer][dim][dim]
 *     ffn norm[n_layer][dim], gate (w1)[n_layer][hidden][dim], down (w2)[n_layer][dim][hidden],
 *     up (w3)[n_layer][hidden][dim]
 *     last norm[dim], two tables of n_ctx * head/2 rotations (not used), output matrix[n_vocab][dim]
 *
 *   tokenizer.bin:  int32 longest, then for each token: float32 score, int32 n, n bytes
 *
 * Rotation works on neighbouring pairs, as in GGUF files of llama, so no matrix is permuted. The layout has no magic
 * number; the file size must match the header exactly, which is as reliable.
 *
 * Left out: versions 1 and 2 of the layout (they begin with "ak42"); refused with an error message. */
#include "llm/file/llama2c.h"
#include "llm/file/store_inside.h"
#include "llm/file/open.h"
#include <string.h>
#include <stdio.h>

#define TINYI_L2C_HEAD 28
#define TINYI_L2C_MAGIC 0x616b3432u

enum {
    TINYI_L2C_EMBED,
    TINYI_L2C_ATTN_NORM,
    TINYI_L2C_Q,
    TINYI_L2C_K,
    TINYI_L2C_V,
    TINYI_L2C_O,
    TINYI_L2C_FFN_NORM,
    TINYI_L2C_GATE,
    TINYI_L2C_DOWN,
    TINYI_L2C_UP,
    TINYI_L2C_NORM,
    TINYI_L2C_ROPE,
    TINYI_L2C_OUTPUT,
    TINYI_L2C_BLOCKS
};

static const struct { const char *name; int per_layer;
} tinyi_l2c_row[TINYI_L2C_BLOCKS] = {
    { "token_embd.weight", 0 }, { "attn_norm.weight", 1 },   { "attn_q.weight", 1 },      { "attn_k.weight", 1 },
    { "attn_v.weight", 1 },     { "attn_output.weight", 1 }, { "ffn_norm.weight", 1 },    { "ffn_gate.weight", 1 },
    { "ffn_down.weight", 1 },   { "ffn_up.weight", 1 },      { "output_norm.weight", 0 }, { NULL, 0 },
    { "output.weight", 0 }
};

typedef struct tinyi_l2c {
    uint64_t dim, hidden, n_layer, n_head, n_head_kv, n_vocab, n_ctx;
    int separate;
    uint64_t rows[TINYI_L2C_BLOCKS], cols[TINYI_L2C_BLOCKS];   /* of one matrix; a vector has one row */
} tinyi_l2c;

static uint64_t tinyi_l2c_mul(uint64_t a, uint64_t b) { return b && a > UINT64_MAX / b ? UINT64_MAX : a * b; }
static uint64_t tinyi_l2c_add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* floats of a block over all layers; UINT64_MAX: more than that */
static uint64_t tinyi_l2c_floats(const tinyi_l2c *h, int block)
{
    uint64_t n = tinyi_l2c_mul(h->rows[block], h->cols[block]);
    return tinyi_l2c_row[block].per_layer ? tinyi_l2c_mul(n, h->n_layer) : n;
}

/* The header; a sentence is left only when ctx is there. */
static tiny_status tinyi_l2c_head(tiny_ctx *ctx, const char *path, tinyi_cursor *c, tinyi_l2c *h)
{
    static const char *const names[7] = { "dim",        "hidden_dim", "n_layers", "n_heads",
                                          "n_kv_heads", "vocab_size", "seq_len" };
    uint64_t *const to[7] = { &h->dim, &h->hidden, &h->n_layer, &h->n_head, &h->n_head_kv, &h->n_vocab, &h->n_ctx };
    uint64_t kv;
    uint32_t v = 0;
    int i;
    memset(h, 0, sizeof *h);
    for (i = 0; i < 7; i++) {
        if (!tinyi_rd_u32(c, &v))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in %s of the .bin header", path, names[i]);
        if (!i && v == TINYI_L2C_MAGIC)
            return tinyi_fail(
                ctx, TINY_E_UNSUPPORTED,
                "%s: is a .bin of a later version (\"ak42\"); only the first layout, without a magic number, is read",
                path);
        if (i == 5 && v >> 31 && v != 0x80000000u) {
            h->separate = 1;
            v = 0u - v;
        }
        if (!v || v >> 31) return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %s is %lld in the .bin header", path, names[i],
                                            (long long)v - (v >> 31 ? 4294967296LL : 0));
        *to[i] = v;
    }
    if (h->dim % h->n_head || (h->dim / h->n_head) % 2)
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: dim %lu and n_heads %lu of the .bin header do not give heads of an even size", path,
                          (unsigned long)h->dim, (unsigned long)h->n_head);
    if (h->n_head % h->n_head_kv)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: n_heads %lu of the .bin header is not a multiple of n_kv_heads %lu",
                          path, (unsigned long)h->n_head, (unsigned long)h->n_head_kv);
    kv = h->dim / h->n_head * h->n_head_kv;
    for (i = 0; i < TINYI_L2C_BLOCKS; i++) h->cols[i] = h->dim;
    h->rows[TINYI_L2C_ATTN_NORM] = h->rows[TINYI_L2C_FFN_NORM] = h->rows[TINYI_L2C_NORM] = 1;
    h->rows[TINYI_L2C_Q] = h->rows[TINYI_L2C_O] = h->rows[TINYI_L2C_DOWN] = h->dim;
    h->rows[TINYI_L2C_K] = h->rows[TINYI_L2C_V] = kv;
    h->rows[TINYI_L2C_GATE] = h->rows[TINYI_L2C_UP] = h->hidden;
    h->cols[TINYI_L2C_DOWN] = h->hidden;
    h->rows[TINYI_L2C_EMBED] = h->n_vocab;
    h->rows[TINYI_L2C_OUTPUT] = h->separate ? h->n_vocab : 0;
    h->rows[TINYI_L2C_ROPE] = h->n_ctx;
    h->cols[TINYI_L2C_ROPE] = h->dim / h->n_head;
    return TINY_OK;
}

static uint64_t tinyi_l2c_size(const tinyi_l2c *h)
{
    uint64_t n = 0;
    int i;
    for (i = 0; i < TINYI_L2C_BLOCKS; i++) n = tinyi_l2c_add(n, tinyi_l2c_floats(h, i));
    return tinyi_l2c_add(tinyi_l2c_mul(n, 4), TINYI_L2C_HEAD);
}

TINY_API uint64_t tllm_llama2c_bytes(const void *bytes, size_t n_bytes)
{
    tinyi_cursor c = tinyi_cursor_make(bytes, n_bytes);
    tinyi_l2c h;
    return bytes && !tinyi_l2c_head(NULL, NULL, &c, &h) ? tinyi_l2c_size(&h) : 0;
}

/* The tokens' texts, scores or types; the file was checked by the first of these walks. */
enum { TINYI_L2C_TEXTS, TINYI_L2C_SCORES, TINYI_L2C_KINDS };
static tiny_status tinyi_l2c_tokens(tiny_ctx *ctx, const char *path, const tiny_file *f, uint64_t n_vocab, int what,
                                    tinyi_made *m)
{
    tinyi_cursor c = tinyi_cursor_make(f->bytes, f->n_bytes);
    uint32_t longest, score, n;
    uint64_t i;
    if (!tinyi_rd_u32(&c, &longest))
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in the length of the longest token", path);
    if (!tinyi_count_fits(&c, n_vocab, 8))
        return tinyi_fail(ctx, TINY_E_FORMAT,
                          "%s: the model has %llu tokens; the %zu bytes of this tokenizer hold at most %zu", path,
                          (unsigned long long)n_vocab, f->n_bytes, c.left / 8);
    for (i = 0; i < n_vocab; i++) {
        const unsigned char *p;
        size_t k, from = 0, all;
        if (!tinyi_rd_u32(&c, &score) || !tinyi_rd_u32(&c, &n))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: truncated in token %llu of %llu", path, (unsigned long long)i,
                              (unsigned long long)n_vocab);
        if (n > longest || !tinyi_rd_bytes(&c, n, &p))
            return tinyi_fail(ctx, TINY_E_FORMAT,
                              "%s: token %llu of %llu has %lu bytes; %zu are left, the limit is %lu", path,
                              (unsigned long long)i, (unsigned long long)n_vocab, (unsigned long)n, c.left,
                              (unsigned long)longest);
        all = n;
        if ((i == 1 || i == 2) && all > 1 && p[0] == '\n' && p[all - 1] == '\n') {     /* "\n<s>\n" */
            from = 1;
            all--;
        }
        if (what == TINYI_L2C_SCORES) tinyi_made_le(m, score, 4);
        else if (what == TINYI_L2C_KINDS) {
            int byte = all == 6 && !memcmp(p, "<0x", 3) && p[5] == '>';
            tinyi_made_le(m, i == 0 ? 2 : i < 3 ? 3 : byte ? 6 : 1, 4);         /* unknown, control, byte, normal */
        } else {
            size_t blanks = 0;
            for (k = from; k < all; k++) blanks += p[k] == ' ';
            tinyi_made_le(m, all - from + 2 * blanks, 8);
            for (k = from; k < all; k++) {
                if (p[k] == ' ') tinyi_made_bytes(m, "\xe2\x96\x81", 3);
                else tinyi_made_bytes(m, p + k, 1);
            }
        }
    }
    if (c.left)
        return tinyi_fail(ctx, TINY_E_FORMAT, "%s: %zu bytes are left after the %llu tokens of the model", path,
                          c.left, (unsigned long long)n_vocab);
    return TINY_OK;
}

static tiny_status tinyi_l2c_keys(tiny_ctx *ctx, const tinyi_l2c *h, const char *tok_path, const tiny_file *tok,
                                  tinyi_made *m)
{
    tiny_status st = TINY_OK;
    tinyi_made_text(m, "general.architecture", "llama");
    tinyi_made_u32(m, "general.file_type", 0);
    tinyi_made_u32(m, "llama.context_length", h->n_ctx);
    tinyi_made_u32(m, "llama.embedding_length", h->dim);
    tinyi_made_u32(m, "llama.block_count", h->n_layer);
    tinyi_made_u32(m, "llama.feed_forward_length", h->hidden);
    tinyi_made_u32(m, "llama.attention.head_count", h->n_head);
    tinyi_made_u32(m, "llama.attention.head_count_kv", h->n_head_kv);
    tinyi_made_u32(m, "llama.rope.dimension_count", h->dim / h->n_head);
    tinyi_made_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    tinyi_made_u32(m, "llama.vocab_size", h->n_vocab);
    if (!tok) return TINY_OK;
    tinyi_made_text(m, "tokenizer.ggml.model", "llama");
    tinyi_made_array(m, "tokenizer.ggml.tokens", TLLM_STRING, (size_t)h->n_vocab);
    st = tinyi_l2c_tokens(ctx, tok_path, tok, h->n_vocab, TINYI_L2C_TEXTS, m);
    if (st) return st;
    tinyi_made_array(m, "tokenizer.ggml.scores", TLLM_F32, (size_t)h->n_vocab);
    (void)tinyi_l2c_tokens(ctx, tok_path, tok, h->n_vocab, TINYI_L2C_SCORES, m);
    tinyi_made_array(m, "tokenizer.ggml.token_type", TLLM_I32, (size_t)h->n_vocab);
    (void)tinyi_l2c_tokens(ctx, tok_path, tok, h->n_vocab, TINYI_L2C_KINDS, m);
    tinyi_made_u32(m, "tokenizer.ggml.bos_token_id", 1);
    tinyi_made_u32(m, "tokenizer.ggml.eos_token_id", 2);
    tinyi_made_u32(m, "tokenizer.ggml.unknown_token_id", 0);
    return TINY_OK;
}

static void tinyi_l2c_name(int block, uint64_t layer, char name[64])
{
    if (tinyi_l2c_row[block].per_layer)
        (void)snprintf(name, 64, "blk.%lu.%s", (unsigned long)layer, tinyi_l2c_row[block].name);
    else (void)snprintf(name, 64, "%s", tinyi_l2c_row[block].name);
}

/* Takes the model's file over, also on failure. tok_file may be NULL. */
static tiny_status tinyi_l2c_build(tiny_ctx *ctx, const char *path, tiny_file *file, const char *tok_path,
                                   const tiny_file *tok_file, tllm_gguf **out)
{
    tinyi_cursor c = tinyi_cursor_make(file->bytes, file->n_bytes);
    tinyi_made made = { NULL, 0, 0, 0 }, names = { NULL, 0, 0, 0 }, all;
    char name[64];
    tllm_gguf *g = NULL;
    tinyi_l2c h;
    uint64_t want, layer;
    size_t at, file_bytes = 0, i = 0;
    int block, fill;
    tiny_status st = tinyi_store_open(ctx, 1, &g);
    if (st) {
        tiny_file_close(ctx, file);
        return st;
    }
    memset(&h, 0, sizeof h);
    g->kind = TLLM_FILE_LLAMA2C;
    g->part[0].file = *file;
    st = tinyi_store_path(ctx, &g->part[0], path);
    if (!st) st = tinyi_l2c_head(ctx, path, &c, &h);
    want = st ? 0 : tinyi_l2c_size(&h);
    if (!st && want != file->n_bytes)
        st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: the .bin header implies %llu bytes, but the file has %zu", path,
                        (unsigned long long)want, file->n_bytes);
    if (!st && !tinyi_size_add(file->n_bytes, tok_file ? tok_file->n_bytes : 0, &file_bytes)) file_bytes = SIZE_MAX;
    for (fill = 0; fill < 2 && !st; fill++) {           /* counted, then written */
        if (fill) {
            all = made;
            all.n += names.n;
            g->n_meta = made.n_keys;
            g->n_tensors = i;
            st = tinyi_store_make(ctx, g, &all, file_bytes);
            /* of the arrays only the texts have marks */
            if (!st)
                st = tinyi_store_tables(
                    ctx, g, tok_file ? ((size_t)h.n_vocab + TINYI_TEXT_STEP - 1) / TINYI_TEXT_STEP : 0, file_bytes);
            if (st) break;
            names.at = g->made + made.n;
            names.room = names.n;
            made.at = g->made;
            made.room = made.n;
            made.n = made.n_keys = names.n = 0;
        }
        st = tinyi_l2c_keys(ctx, &h, tok_path, tok_file, &made);
        at = TINYI_L2C_HEAD;
        i = 0;
        for (block = 0; block < TINYI_L2C_BLOCKS && !st; block++) {
            uint64_t n = tinyi_l2c_row[block].per_layer               ? h.n_layer
                         : tinyi_l2c_row[block].name && h.rows[block] ? 1
                                                                      : 0;
            for (layer = 0; layer < n; layer++, i++) {
                tinyi_l2c_name(block, layer, name);
                if (fill) {
                    tllm_gguf_tensor *t = &g->tensor[i];
                    int a;
                    memset(t, 0, sizeof *t);
                    t->name.at = (const char *)names.at + names.n;
                    t->name.n = strlen(name);
                    for (a = 0; a < TLLM_MAX_RANK; a++) t->dim[a] = 1;
                    t->rank = h.rows[block] == 1 && block != TINYI_L2C_EMBED ? 1 : 2;
                    t->dim[0] = h.cols[block];
                    t->dim[1] = h.rows[block];
                    t->bytes = (size_t)(h.rows[block] * h.cols[block] * 4);
                    t->data = g->part[0].file.bytes + at + layer * t->bytes;
                }
                tinyi_made_bytes(&names, name, strlen(name));
            }
            at += (size_t)tinyi_l2c_floats(&h, block) * 4;      /* the sum is the size of the file */
        }
    }
    if (!st && made.n != made.room) st = tinyi_store_changed(ctx, tok_path);
    if (!st) st = tinyi_store_made(ctx, g);
    if (!st) st = tinyi_store_finish(ctx, g);
    *file = tiny_file_memory(NULL, 0);
    if (st) tllm_gguf_close(ctx, g);
    else *out = g;
    return st;
}

static tiny_status tinyi_l2c_enter(tiny_ctx *ctx, const void *what, tllm_gguf **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!what || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, ".bin file: the path, the bytes or the result pointer is NULL");
    return TINY_OK;
}

TINY_API tiny_status tllm_llama2c_open(tiny_ctx *ctx, const char *path, const char *tokenizer, tllm_gguf **out)
{
    tiny_file file, tok = tiny_file_memory(NULL, 0);
    tiny_status st = tinyi_l2c_enter(ctx, path, out);
    if (!st && tokenizer) st = tiny_file_open(ctx, tokenizer, &tok);
    if (!st) st = tiny_file_open(ctx, path, &file);
    if (!st) st = tinyi_l2c_build(ctx, path, &file, tokenizer, tokenizer ? &tok : NULL, out);
    if (!tinyi_ctx_check(ctx)) tiny_file_close(ctx, &tok);
    return st;
}

TINY_API tiny_status tllm_llama2c_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes, const void *tokenizer,
                                              size_t n_tokenizer, tllm_gguf **out)
{
    tiny_file file = tiny_file_memory(bytes, n_bytes), tok = tiny_file_memory(tokenizer, n_tokenizer);
    tiny_status st = tinyi_l2c_enter(ctx, bytes, out);
    return st ? st : tinyi_l2c_build(ctx, "memory", &file, "tokenizer in memory", tokenizer ? &tok : NULL, out);
}
