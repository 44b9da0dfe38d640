/* src/llm/dist/rules.c - Redco's rules of tensor parallelism
 * Paper    B. Tan et al., "Redco: A Lightweight Tool to Automate Distributed Training of LLMs on Any GPU/TPUs", 2023
 *          (arXiv 2310.16355); the rules as the authors' program has them.
 * Method   1. All tensors with the same key (the last part of the path, or the last two of a matrix) share a rule. Only
 *             matrices and embeddings are cut.
 *          2. A dimension can be cut if n divides it in every tensor of the key.
 *          3. Names decide first: an embedding takes its first such dimension; in attention q, k, v take the last and o
 *             the first; up, gate, wi, "in" and head take the last, down, wo and "out" the first.
 *          4. All other keys, in sorted order, take the last dimension that can be cut, unless the key before took that
 *             one too and there is another. So two matrices in a chain need one sum over the ranks.
 * Ours     A matrix that holds q, k and v side by side is cut inside each of the three, by heads. The authors' rules
 *          would cut through it (part all 0 does that).
 * Left out the authors' compiler and training front end. */
#include "core/net.h"
#include "core/state_inside.h"
#include "llm/dist/rules.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tinyi_rule_key {
    tllm_text key, name;                    /* name: what the rules look at */
    int kernel, embedding, in_attention;
    size_t i;                               /* of the tensor */
} tinyi_rule_key;

struct tllm_rules {
    int n_ranks;
    size_t n, n_rules;
    tllm_rule_tensor *tensor;               /* (n) */
    int *dim;                               /* (n) */
    tllm_rule *rule;                        /* (n_rules) */
    char *text;                             /* all paths, each with its final 0 */
};

static int tinyi_rule_gap(char c) { return c == '.' || c == '/'; }

static int tinyi_rule_has(tllm_text t, const char *what)
{
    const size_t n = strlen(what);
    size_t i;
    for (i = 0; i + n <= t.n; i++) if (!memcmp(t.at + i, what, n)) return 1;
    return 0;
}
/* in any case of letters: SelfAttention */
static int tinyi_rule_attends(tllm_text t)
{
    static const char *const what[] = { "attention", "attn" };
    size_t i, j, k;
    for (k = 0; k < 2; k++)
        for (i = 0; i + strlen(what[k]) <= t.n; i++) {
            for (j = 0; what[k][j]; j++) {
                const char c = t.at[i + j];
                if ((c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) != what[k][j]) break;
            }
            if (!what[k][j]) return 1;
        }
    return 0;
}
static int tinyi_rule_begins(tllm_text t, const char *what)
{
    return t.n >= strlen(what) && !memcmp(t.at, what, strlen(what));
}
static int tinyi_rule_ends(tllm_text t, const char *what)
{
    const size_t n = strlen(what);
    return t.n >= n && !memcmp(t.at + t.n - n, what, n);
}
/* a word between underscores */
static int tinyi_rule_word(tllm_text t, const char *word)
{
    const size_t n = strlen(word);
    size_t i;
    for (i = 0; i + n <= t.n; i++)
        if (!memcmp(t.at + i, word, n) && (i == 0 || t.at[i - 1] == '_') && (i + n == t.n || t.at[i + n] == '_'))
            return 1;
    return 0;
}

/* 0: the path has an empty part */
static int tinyi_rule_split(const char *path, tinyi_rule_key *k)
{
    const size_t n = strlen(path);
    size_t i, from = 0, before = 0, last = 0;
    if (!n) return 0;
    for (i = 0; i <= n; i++) {
        tllm_text part;
        if (i < n && !tinyi_rule_gap(path[i])) continue;
        if (i == from) return 0;
        part.at = path + from;
        part.n = i - from;
        if (tinyi_rule_attends(part)) k->in_attention = 1;
        before = last;
        last = from;
        from = i + 1;
    }
    k->name.at = k->key.at = path + last;
    k->name.n = k->key.n = n - last;
    k->kernel = tllm_text_is(k->name, "kernel");
    k->embedding = tllm_text_is(k->name, "embedding");
    if (k->kernel && last > 0) {
        k->name.at = k->key.at = path + before;
        k->name.n = last - 1 - before;
        k->key.n = n - before;
    }
    return 1;
}

static int tinyi_rule_order(const void *a, const void *b)
{
    const tinyi_rule_key *x = (const tinyi_rule_key *)a, *y = (const tinyi_rule_key *)b;
    const size_t n = TINYI_MIN(x->name.n, y->name.n);
    const int c = memcmp(x->name.at, y->name.at, n);
    if (c) return c;
    if (x->name.n != y->name.n) return x->name.n < y->name.n ? -1 : 1;
    if (x->kernel != y->kernel) return x->kernel - y->kernel;
    return x->i < y->i ? -1 : x->i > y->i;
}
static int tinyi_rule_same(const tinyi_rule_key *x, const tinyi_rule_key *y)
{
    return x->kernel == y->kernel && x->name.n == y->name.n && !memcmp(x->name.at, y->name.at, x->name.n);
}

static int tinyi_rule_divides(const tllm_rule_tensor *t, int d, int n_ranks)
{
    const uint64_t n = (uint64_t)n_ranks;
    int i;
    if (t->dim[d] % n) return 0;
    for (i = 0; i < 3 && d == t->rank - 1; i++) if (t->part[i] % n) return 0;
    return 1;
}

/* The rule of keys k[0 .. n - 1], which are the same. *last: the dimension of the key before that no name decided. */
static void tinyi_rule_choose(const tllm_rules *r, const tinyi_rule_key *k, size_t n, int *last, tllm_rule *rule)
{
    const tllm_text name = k->name;
    int can[TLLM_MAX_RANK], n_can = 0, d, rank = r->tensor[k->i].rank, in_attention = 1;
    size_t i;
    rule->key = k->key;
    rule->dim = -1;
    rule->n_tensors = n;
    rule->why = "neither a matrix nor an embedding";
    if (!k->kernel && !k->embedding) return;
    rule->why = "one rank: nothing is cut";
    if (r->n_ranks == 1) return;
    rule->why = "tensors of different rank have this key";
    for (i = 0; i < n; i++) {
        if (r->tensor[k[i].i].rank != rank) return;
        in_attention &= k[i].in_attention;
    }
    for (d = rank - 1; d >= 0; d--) {       /* the last first */
        for (i = 0; i < n && tinyi_rule_divides(&r->tensor[k[i].i], d, r->n_ranks); i++) {}
        if (i == n) can[n_can++] = d;
    }
    rule->why = "no dimension can be divided by the number of ranks";
    if (!n_can) return;
    if (k->embedding) {
        rule->dim = can[n_can - 1];
        rule->why = "an embedding: its first dimension";
    } else if (in_attention && (memchr("qkv", name.at[0], 3) || memchr("qkv", name.at[name.n - 1], 3))) {
        rule->dim = can[0];
        rule->why = "q, k or v of attention: what comes out";
    } else if (in_attention && (name.at[0] == 'o' || name.at[name.n - 1] == 'o')) {
        rule->dim = can[n_can - 1];
        rule->why = "output of attention: what goes in";
    } else if (tinyi_rule_begins(name, "up") || tinyi_rule_begins(name, "gate") || tinyi_rule_begins(name, "wi") ||
               tinyi_rule_word(name, "in")) {
        rule->dim = can[0];
        rule->why = "into a network: what comes out";
    } else if (tinyi_rule_begins(name, "down") || tinyi_rule_begins(name, "wo") || tinyi_rule_word(name, "out")) {
        rule->dim = can[n_can - 1];
        rule->why = "out of a network: what goes in";
    } else if (tinyi_rule_begins(name, "head") || tinyi_rule_ends(name, "head")) {
        rule->dim = can[0];
        rule->why = "a head: what comes out";
    } else {
        rule->dim = can[0];
        rule->why = "no name is known: the last dimension";
        if (can[0] == *last && n_can > 1) {
            rule->dim = can[1];
            rule->why = "no name is known: another dimension than that of the key before";
        }
        *last = rule->dim;
    }
}

TINY_API void tllm_rules_close(tiny_ctx *ctx, tllm_rules *r)
{
    if (!r) return;
    tiny_free(ctx, r->tensor);
    tiny_free(ctx, r->dim);
    tiny_free(ctx, r->rule);
    tiny_free(ctx, r->text);
    tiny_free(ctx, r);
}

static tiny_status tinyi_rules_check(tiny_ctx *ctx, const tllm_rule_tensor *t, size_t n, int n_ranks, size_t *n_text)
{
    size_t i;
    int d;
    *n_text = 1;
    if (n_ranks < 1 || n_ranks > TINY_NET_RANKS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%d ranks, there must be 1 to %d", n_ranks, TINY_NET_RANKS);
    if (!t || !n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "rules need at least one tensor");
    for (i = 0; i < n; i++) {
        tinyi_rule_key k;
        uint64_t left;
        memset(&k, 0, sizeof k);
        if (!t[i].path || !tinyi_rule_split(t[i].path, &k))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "tensor %zu: the path \"%s\" has an empty part", i,
                              t[i].path ? t[i].path : "");
        if (t[i].rank < 1 || t[i].rank > TLLM_MAX_RANK)
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: rank %d, it must be 1 to %d", t[i].path, t[i].rank,
                              TLLM_MAX_RANK);
        for (d = 0; d < t[i].rank; d++)
            if (!t[i].dim[d]) return tinyi_fail(ctx, TINY_E_SHAPE, "%s: dimension %d is 0", t[i].path, d);
        left = t[i].dim[t[i].rank - 1];
        for (d = 0; d < 3 && t[i].part[d] <= left; d++) left -= t[i].part[d];
        if ((t[i].part[0] | t[i].part[1] | t[i].part[2]) && (d < 3 || left || !t[i].part[0]))
            return tinyi_fail(ctx, TINY_E_SHAPE, "%s: parts of %llu, %llu and %llu columns, the matrix has %llu",
                              t[i].path, (unsigned long long)t[i].part[0], (unsigned long long)t[i].part[1],
                              (unsigned long long)t[i].part[2], (unsigned long long)t[i].dim[t[i].rank - 1]);
        if (!tinyi_size_add(*n_text, strlen(t[i].path) + 1, n_text))
            return tinyi_fail(ctx, TINY_E_OVERFLOW, "the paths are more than this machine can address");
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_rules_make(tiny_ctx *ctx, const tllm_rule_tensor *tensor, size_t n, int n_ranks,
                                     tllm_rules **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    tllm_rules *r;
    tinyi_rule_key *key;
    size_t i, k, n_text;
    char *at;
    int last = -1;
    if (out) *out = NULL;
    if (st) return st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_rules_make needs an output pointer");
    st = tinyi_rules_check(ctx, tensor, n, n_ranks, &n_text);
    if (st) return st;
    r = (tllm_rules *)tinyi_alloc(ctx, 1, sizeof *r);
    if (!r) return tiny_ctx_status(ctx);
    memset(r, 0, sizeof *r);
    r->n_ranks = n_ranks;
    r->n = n;
    r->tensor = (tllm_rule_tensor *)tinyi_alloc(ctx, n, sizeof *r->tensor);
    r->dim = (int *)tinyi_alloc(ctx, n, sizeof *r->dim);
    r->rule = (tllm_rule *)tinyi_alloc(ctx, n, sizeof *r->rule);
    r->text = (char *)tinyi_alloc(ctx, n_text, 1);
    key = (tinyi_rule_key *)tinyi_alloc(ctx, n, sizeof *key);
    if (!r->tensor || !r->dim || !r->rule || !r->text || !key) {
        tiny_free(ctx, key);
        tllm_rules_close(ctx, r);
        return tiny_ctx_status(ctx);
    }
    memset(key, 0, n * sizeof *key);
    for (i = 0, at = r->text; i < n; i++) {
        const size_t bytes = strlen(tensor[i].path) + 1;
        r->tensor[i] = tensor[i];
        r->tensor[i].path = at;
        memcpy(at, tensor[i].path, bytes);
        at += bytes;
        (void)tinyi_rule_split(r->tensor[i].path, &key[i]);
        key[i].i = i;
    }
    qsort(key, n, sizeof *key, tinyi_rule_order);
    for (i = 0; i < n; i = k) {
        tllm_rule *rule = &r->rule[r->n_rules++];
        for (k = i; k < n && tinyi_rule_same(&key[i], &key[k]); k++) {}
        tinyi_rule_choose(r, key + i, k - i, &last, rule);
        for (; i < k; i++) r->dim[key[i].i] = rule->dim;
    }
    tiny_free(ctx, key);
    *out = r;
    return TINY_OK;
}

TINY_API int tllm_rules_ranks(const tllm_rules *r) { return r ? r->n_ranks : 1; }
TINY_API size_t tllm_rules_tensors(const tllm_rules *r) { return r ? r->n : 0; }
TINY_API const tllm_rule_tensor *tllm_rules_tensor(const tllm_rules *r, size_t i)
{
    return r && i < r->n ? &r->tensor[i] : NULL;
}
TINY_API int tllm_rules_dim(const tllm_rules *r, size_t i) { return r && i < r->n ? r->dim[i] : -1; }
TINY_API size_t tllm_rules_count(const tllm_rules *r) { return r ? r->n_rules : 0; }
TINY_API const tllm_rule *tllm_rules_at(const tllm_rules *r, size_t k)
{
    return r && k < r->n_rules ? &r->rule[k] : NULL;
}
TINY_API int tllm_rules_like(const tllm_rules *r, size_t i, int rank, const uint64_t *dim)
{
    int d;
    if (!r || i >= r->n || !dim || rank != r->tensor[i].rank) return -1;
    for (d = 0; d < rank; d++) if (dim[d] != r->tensor[i].dim[d]) return -1;
    return r->dim[i];
}

TINY_API tiny_status tllm_rules_set(tiny_ctx *ctx, tllm_rules *r, size_t i, int dim)
{
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!r || i >= r->n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "there is no tensor %zu", i);
    if (dim < -1 || dim >= r->tensor[i].rank)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s: dimension %d of %d", r->tensor[i].path, dim, r->tensor[i].rank);
    if (dim >= 0 && !tinyi_rule_divides(&r->tensor[i], dim, r->n_ranks))
        return tinyi_fail(ctx, TINY_E_SHAPE, "%s: dimension %d cannot be divided by %d ranks", r->tensor[i].path, dim,
                          r->n_ranks);
    r->dim[i] = dim;
    return TINY_OK;
}

/* ---- names of files ---------------------------------------------------------------------------------------------- */

static void tinyi_rule_put(char *to, size_t room, size_t *n, const char *text, size_t length)
{
    size_t i;
    for (i = 0; i < length; i++, (*n)++) if (*n + 1 < room) to[*n] = text[i];
    if (room) to[TINYI_MIN(*n, room - 1)] = 0;
}

TINY_API size_t tllm_rules_path(tllm_text name, int rank, char *to, size_t room)
{
    static const char *const from[] = { "attn_output", "attn_q", "attn_k", "attn_v", "attn_", "ffn_" },
                             *const path[] = { "attn.o", "attn.q", "attn.k", "attn.v", "attn.", "ffn." };
    tllm_text rest = name, part = name;
    size_t n = 0, i, dots = 0;
    if (!to) room = 0;
    if (room) *to = 0;
    if (!name.at || !name.n) return 0;
    if (tllm_text_is(name, "token_embd.weight")) { tinyi_rule_put(to, room, &n, "embedding", 9); return n; }
    if (tllm_text_is(name, "output.weight")) { tinyi_rule_put(to, room, &n, "head.kernel", 11); return n; }
    if (tinyi_rule_begins(name, "blk.")) {
        for (i = 0; i < name.n && dots < 2; i++) dots += name.at[i] == '.';
        rest.at += i;
        rest.n -= i;
        tinyi_rule_put(to, room, &n, name.at, i);
        for (i = 0; i < sizeof from / sizeof from[0]; i++) {
            const size_t k = strlen(from[i]);
            /* whole words: attn_q, but not attn_qkv */
            if (!tinyi_rule_begins(rest, from[i]) || (from[i][k - 1] != '_' && rest.n > k && rest.at[k] != '.'))
                continue;
            tinyi_rule_put(to, room, &n, path[i], strlen(path[i]));
            rest.at += k;
            rest.n -= k;
            break;
        }
    }
    if (!tinyi_rule_ends(rest, ".weight") || rank < 2) {
        tinyi_rule_put(to, room, &n, rest.at, rest.n);
        return n;
    }
    rest.n -= 7;
    tinyi_rule_put(to, room, &n, rest.at, rest.n);
    part = rest;
    for (i = 0; i < rest.n; i++)
        if (rest.at[i] == '.') {
            part.at = rest.at + i + 1;
            part.n = rest.n - i - 1;
        }
    if (tinyi_rule_has(part, "emb") || tllm_text_is(part, "wte") || tllm_text_is(part, "wpe") ||
        tllm_text_is(part, "shared"))
        tinyi_rule_put(to, room, &n, ".embedding", 10);
    else tinyi_rule_put(to, room, &n, ".kernel", 7);
    return n;
}

int tinyi_rule_number(const tllm_gguf *g, const char *name, uint64_t *n)
{
    char key[160];
    tllm_text arch;
    if (!tllm_meta_text(tllm_gguf_find(g, "general.architecture"), 0, &arch) || arch.n > 64) return 0;
    (void)snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.at, name);
    return tllm_meta_u64(tllm_gguf_find(g, key), 0, n);
}
int tinyi_rule_heads(const tllm_gguf *g, uint64_t *heads, uint64_t *kv)
{
    if (!tinyi_rule_number(g, "attention.head_count", heads)) return 0;
    if (!tinyi_rule_number(g, "attention.head_count_kv", kv)) *kv = *heads;
    return *kv && *kv <= *heads && *heads <= 65536;
}

/* columns of q, k and v in a matrix that holds all three; 0: the file does not say */
static int tinyi_rule_parts(const tllm_gguf *g, const tllm_gguf_tensor *t, uint64_t part[3])
{
    uint64_t heads, kv, width;
    if (!tinyi_rule_heads(g, &heads, &kv) || t->dim[1] % (heads + 2 * kv)) return 0;
    width = t->dim[1] / (heads + 2 * kv);
    part[0] = heads * width;
    part[1] = part[2] = kv * width;
    return 1;
}

int tinyi_rule_halves(const tllm_gguf *g, const tllm_gguf_tensor *up)
{
    char name[80];
    const tllm_gguf_tensor *down;
    if (up->name.n > 60 || up->dim[1] % 2) return 0;
    (void)snprintf(name, sizeof name, "%.*sdown.weight", (int)(up->name.n - 9), up->name.at);
    down = tllm_gguf_tensor_find(g, name);
    return down && down->rank == 2 && down->dim[0] == up->dim[1] / 2;
}

TINY_API tiny_status tllm_rules_file(tiny_ctx *ctx, const tllm_gguf *file, int n_ranks, tllm_rules **out)
{
    tiny_status st = tinyi_ctx_check(ctx);
    const size_t n = file ? tllm_gguf_n_tensors(file) : 0;
    tllm_rule_tensor *t;
    char *text, *at;
    size_t i, room = 1;
    int d;
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_rules_file needs a file and an output pointer");
    if (!n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "%s has no tensors", tllm_gguf_path(file, 0));
    for (i = 0; i < n; i++) room += tllm_gguf_tensor_at(file, i)->name.n + 16;          /* it was mapped: no overflow */
    t = (tllm_rule_tensor *)tinyi_alloc(ctx, n, sizeof *t);
    text = (char *)tinyi_alloc(ctx, room, 1);
    if (!t || !text) st = tiny_ctx_status(ctx);
    for (i = 0, at = text; i < n && !st; i++) {
        const tllm_gguf_tensor *f = tllm_gguf_tensor_at(file, i);
        const size_t bytes = tllm_rules_path(f->name, f->rank, at, f->name.n + 16) + 1;
        memset(&t[i], 0, sizeof t[i]);
        t[i].path = at;
        t[i].rank = TINYI_MAX(f->rank, 1);
        for (d = 0; d < t[i].rank; d++) t[i].dim[d] = f->rank ? f->dim[d] : 1;
        if (bytes > 9 && !strcmp(at + bytes - 10, "embedding") && f->rank == 2) {       /* a row for each token */
            t[i].dim[0] = f->dim[1];
            t[i].dim[1] = f->dim[0];
        }
        if (tinyi_rule_ends(f->name, "attn_qkv.weight") && f->rank == 2) (void)tinyi_rule_parts(file, f, t[i].part);
        if (tinyi_rule_ends(f->name, "ffn_up.weight") && f->rank == 2 && tinyi_rule_halves(file, f))
            t[i].part[0] = t[i].part[1] = f->dim[1] / 2;
        at += bytes;
    }
    if (!st) st = tllm_rules_make(ctx, t, n, n_ranks, out);
    tiny_free(ctx, t);
    tiny_free(ctx, text);
    return st;
}
