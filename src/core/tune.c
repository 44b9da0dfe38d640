/* src/core/tune.c */
#include "core/state_inside.h"
#include "core/file.h"
#include "core/time.h"
#include "core/tune.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TINYI_TUNE_ROUNDS = 5,                  /* on each target; the first one only warms the caches */
    TINYI_TUNE_LEAST = 1000,                /* ns: shorter operations are not worth a choice */
    TINYI_TUNE_ROOM = 1024,                 /* places, a power of two; half of them are used at most */
    TINYI_TUNE_LINE = 160
};

/* What is measured together: an operation, the types of its first inputs, the power of four that the size of the first
 * input reaches, and that of all operands. format: of weights in blocks, else 0. */
typedef struct tinyi_tune_key { int kind, format; unsigned char type[2], first, all; } tinyi_tune_key;
typedef struct tinyi_tune_entry {
    tinyi_tune_key key;
    int calls;                              /* that were timed */
    tiny_target target;                     /* the choice; AUTO: not yet */
    uint64_t best[TINY_TARGET_COUNT];       /* ns */
} tinyi_tune_entry;

struct tinyi_tune {
    char *path;
    int n_targets, own;                     /* own: which of them is the context's */
    tiny_target target[TINY_TARGET_COUNT];
    struct tiny_kernels *k[TINY_TARGET_COUNT];
    size_t n;
    int changed;
    tinyi_tune_entry entry[TINYI_TUNE_ROOM];
};

static unsigned char tinyi_tune_size(double numbers)
{
    unsigned char i = 0;
    for (; numbers >= 4.0 && i < 40; numbers /= 4.0) i++;
    return i;
}

static int tinyi_tune_key_of(const tiny_op *op, const tiny_op_row *row, tinyi_tune_key *key)
{
    double all = 0;
    int i;
    if (!row->fast || row->kind <= 0 || (row->kind >= TINY_OP_BASE_LLM && !(row->flags & TINY_OP_TUNED))) return 0;
    memset(key, 0, sizeof *key);
    key->kind = row->kind;
    if (row->flags & TINY_OP_TUNED && op->params) memcpy(&key->format, op->params, sizeof key->format);
    for (i = 0; i < row->n_in; i++) {
        if (!op->in[i]) continue;
        if (i < 2) key->type[i] = (unsigned char)(op->in[i]->dtype + 1);
        all += (double)tiny_tensor_count(op->in[i]);
    }
    for (i = 0; i < row->n_out; i++) all += op->out[i] ? (double)tiny_tensor_count(op->out[i]) : 0.0;
    key->first = tinyi_tune_size(op->in[0] ? (double)tiny_tensor_count(op->in[0]) : 0.0);
    key->all = tinyi_tune_size(all);
    return 1;
}

/* the entry with that key, or the free place for it; NULL: there is none, and the table is full */
static tinyi_tune_entry *tinyi_tune_at(struct tinyi_tune *t, const tinyi_tune_key *key)
{
    uint32_t h = 2166136261u;
    const unsigned char *p = (const unsigned char *)key;
    size_t i;
    for (i = 0; i < sizeof *key; i++) h = (h ^ p[i]) * 16777619u;
    for (i = h & (TINYI_TUNE_ROOM - 1); t->entry[i].key.kind; i = (i + 1) & (TINYI_TUNE_ROOM - 1))
        if (!memcmp(&t->entry[i].key, key, sizeof *key)) return &t->entry[i];
    return t->n < TINYI_TUNE_ROOM / 2 ? &t->entry[i] : NULL;
}

static tinyi_tune_entry *tinyi_tune_find(const tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tinyi_tune_key key;
    tinyi_tune_entry *e = tinyi_tune_key_of(op, row, &key) ? tinyi_tune_at(ctx->tune, &key) : NULL;
    if (e && !e->key.kind) {
        e->key = key;
        ctx->tune->n++;
    }
    return e;
}

/* all targets have their rounds: the fastest, if it beats the context's own by 5 % */
static void tinyi_tune_choose(struct tinyi_tune *t, tinyi_tune_entry *e)
{
    const uint64_t own = e->best[t->own];
    int i, best = t->own;
    for (i = 0; i < t->n_targets; i++)
        if (e->best[i] < e->best[best]) best = i;
    if (own < TINYI_TUNE_LEAST || (double)e->best[best] > 0.95 * (double)own) best = t->own;
    e->target = t->target[best];
    t->changed = 1;
}

static const struct tiny_kernels *tinyi_tune_table(const struct tinyi_tune *t, tiny_target target)
{
    int i;
    for (i = 0; i < t->n_targets; i++)
        if (t->target[i] == target) return t->k[i];
    return t->k[t->own];
}

TINYI_FN const struct tiny_kernels *tinyi_tune_kernels(const tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    tinyi_tune_key key;
    const tinyi_tune_entry *e = tinyi_tune_key_of(op, row, &key) ? tinyi_tune_at(ctx->tune, &key) : NULL;
    return e && e->key.kind ? tinyi_tune_table(ctx->tune, e->target) : ctx->k;
}

TINYI_FN int tinyi_tune_settled(tiny_ctx *ctx, const tiny_op *const *ops, size_t n)
{
    size_t i;
    for (i = 0; i < n; i++) {
        const tinyi_tune_entry *e = tinyi_tune_find(ctx, ops[i], tinyi_op_row_in(ctx, ops[i]));
        if (e && e->target == TINY_TARGET_AUTO) return 0;
    }
    return 1;
}

TINYI_FN tiny_status tinyi_tune_run(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row)
{
    struct tinyi_tune *t = ctx->tune;
    struct tiny_kernels *const own = ctx->k;
    tinyi_tune_entry *e = tinyi_tune_find(ctx, op, row);
    const int timed = e && e->target == TINY_TARGET_AUTO, i = timed ? e->calls % t->n_targets : 0;
    uint64_t begun;
    tiny_status st;
    if (!e) return tinyi_op_fast_now(ctx, op, row);
    /* no thread of an earlier region reads it any more */
    ctx->k = timed ? t->k[i] : (struct tiny_kernels *)tinyi_tune_table(t, e->target);
    begun = timed ? tiny_now_ns() : 0;
    st = tinyi_op_fast_now(ctx, op, row);
    ctx->k = own;
    if (timed && !st) {
        const uint64_t took = tiny_now_ns() - begun;
        const int round = e->calls / t->n_targets;
        if (round == 1 || (round > 1 && took < e->best[i])) e->best[i] = took;
        if (++e->calls == TINYI_TUNE_ROUNDS * t->n_targets) tinyi_tune_choose(t, e);
    }
    return st;
}

/* ---- the file: a line that says what it was measured on, then one line a choice */

static int tinyi_tune_head(const tiny_ctx *ctx, char *line)
{
    const struct tinyi_tune *t = ctx->tune;
    int i, n = snprintf(line, TINYI_TUNE_LINE, "tinytune version %d.%d.%d cpu %x threads %d targets",
                        TINY_VERSION_MAJOR, TINY_VERSION_MINOR, TINY_VERSION_PATCH, ctx->cpu, ctx->n_threads);
    for (i = 0; i < t->n_targets; i++)
        n += snprintf(line + n, TINYI_TUNE_LINE - (size_t)n, " %s", tiny_target_name(t->target[i]));
    return n;
}

static int tinyi_tune_line(const tiny_ctx *ctx, const tinyi_tune_entry *e, char *line)
{
    const tiny_op_row *row = tinyi_op_row_of(ctx->wings, e->key.kind);
    return snprintf(line, TINYI_TUNE_LINE, "%.40s %s %s %d %d %d %s", row ? row->name : "-",
                    e->key.type[0] ? tiny_dtype_name((tiny_dtype)(e->key.type[0] - 1)) : "-",
                    e->key.type[1] ? tiny_dtype_name((tiny_dtype)(e->key.type[1] - 1)) : "-", e->key.format,
                    e->key.first, e->key.all, tiny_target_name(e->target));
}

TINY_API size_t tiny_tune_report(const tiny_ctx *ctx, char *text, size_t n_bytes)
{
    char line[TINYI_TUNE_LINE];
    size_t at = 0, i;
    if (n_bytes && text) text[0] = 0;
    if (tinyi_ctx_check(ctx) || !ctx->tune) return 1;
    if (!text) n_bytes = 0;
    for (i = 0; i <= TINYI_TUNE_ROOM; i++) {
        const tinyi_tune_entry *e = i ? &ctx->tune->entry[i - 1] : NULL;
        size_t n;
        if (e && e->target == TINY_TARGET_AUTO) continue;
        n = (size_t)(e ? tinyi_tune_line(ctx, e, line) : tinyi_tune_head(ctx, line));
        line[n++] = '\n';
        if (at < n_bytes) {
            const size_t fits = TINYI_MIN(n, n_bytes - at - 1);
            memcpy(text + at, line, fits);
            text[at + fits] = 0;
        }
        at += n;
    }
    return at + 1;
}

/* the next word of a line, ended by a zero; NULL at its end */
static char *tinyi_tune_word(char **at)
{
    char *word = *at + strspn(*at, " ");
    if (!*word) return NULL;
    *at = word + strcspn(word, " ");
    if (**at) *(*at)++ = 0;
    return word;
}

static int tinyi_tune_number(const char *word, int most, int *out)
{
    char *end;
    const long v = word && *word >= '0' && *word <= '9' ? strtol(word, &end, 10) : -1;
    if (v < 0 || v > most || *end) return 0;
    *out = (int)v;
    return 1;
}

static int tinyi_tune_type(const char *word, unsigned char *out)
{
    int i;
    *out = 0;
    if (word && !strcmp(word, "-")) return 1;
    for (i = 0; word && i < TINY_DTYPE_COUNT; i++)
        if (!strcmp(word, tiny_dtype_name((tiny_dtype)i))) {
            *out = (unsigned char)(i + 1);
            return 1;
        }
    return 0;
}

/* one choice; an operation that this program does not have is skipped */
static int tinyi_tune_read(tiny_ctx *ctx, char *line)
{
    struct tinyi_tune *t = ctx->tune;
    tinyi_tune_key key;
    tinyi_tune_entry *e;
    const char *name = tinyi_tune_word(&line);
    const tiny_op_row *row = NULL;
    const char *word;
    size_t at = 0;
    tiny_target target;
    int first, all, i;
    memset(&key, 0, sizeof key);
    if (!name || !tinyi_tune_type(tinyi_tune_word(&line), &key.type[0]) ||
        !tinyi_tune_type(tinyi_tune_word(&line), &key.type[1]) ||
        !tinyi_tune_number(tinyi_tune_word(&line), 1 << 20, &key.format) ||
        !tinyi_tune_number(tinyi_tune_word(&line), 255, &first) ||
        !tinyi_tune_number(tinyi_tune_word(&line), 255, &all))
        return 0;
    word = tinyi_tune_word(&line);
    target = word ? tiny_target_by_name(word) : TINY_TARGET_COUNT;
    for (i = 0; i < t->n_targets && t->target[i] != target; i++) { }
    if (i == t->n_targets || tinyi_tune_word(&line)) return 0;
    while ((row = tinyi_op_row_at(ctx->wings, at)) != NULL && strcmp(row->name, name) != 0) at++;
    if (!row) return 1;
    key.kind = row->kind;
    key.first = (unsigned char)first;
    key.all = (unsigned char)all;
    e = tinyi_tune_at(t, &key);
    if (!e) return 1;
    if (!e->key.kind) t->n++;
    e->key = key;
    e->target = target;
    return 1;
}

static tiny_status tinyi_tune_load(tiny_ctx *ctx)
{
    struct tinyi_tune *t = ctx->tune;
    char head[TINYI_TUNE_LINE], line[TINYI_TUNE_LINE];
    size_t at = 0, number = 0;
    tiny_file f;
    tiny_status st;
#ifndef TINY_NO_STDIO
    FILE *there = fopen(t->path, "rb");
    if (!there) return TINY_OK;             /* none yet */
    (void)fclose(there);
#endif
    st = tiny_file_copy(ctx, t->path, &f);
    if (st) return st;
    (void)tinyi_tune_head(ctx, head);
    while (!st && (at < f.n_bytes || !number)) {
        const unsigned char *p = (const unsigned char *)f.bytes + at, *end;
        const size_t left = f.n_bytes - at;
        size_t n;
        end = left ? (const unsigned char *)memchr(p, '\n', left) : NULL;
        n = end ? (size_t)(end - p) : left;
        at += n + 1;
        number++;
        if (n >= sizeof line || !end || (n && memchr(p, 0, n)))
            st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu is not one of a file of tiny_tune_stop", t->path, number);
        else {
            memcpy(line, p, n);
            line[n] = 0;
            if (number == 1 && strncmp(line, "tinytune ", 9) != 0)
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: not a file of tiny_tune_stop", t->path);
            else if (number == 1 && strcmp(line, head) != 0) break;     /* of another machine: measured again */
            else if (number > 1 && !tinyi_tune_read(ctx, line))
                st = tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu is not a choice of a target", t->path, number);
        }
    }
    tiny_file_close(ctx, &f);
    return st;
}

static void tinyi_tune_drop(tiny_ctx *ctx)
{
    struct tinyi_tune *t = ctx->tune;
    int i;
    ctx->tune = NULL;
    if (!t) return;
    for (i = 0; i < t->n_targets; i++)
        if (t->k[i] != ctx->k) tiny_free(ctx, t->k[i]);
    tiny_free(ctx, t->path);
    tiny_free(ctx, t);
}

TINY_API tiny_status tiny_tune_start(tiny_ctx *ctx, const char *path)
{
    tiny_status st = tinyi_ctx_check(ctx);
    struct tinyi_tune *t;
    int target;
    if (st) return st;
    if (ctx->tune) return tinyi_fail(ctx, TINY_E_ARGUMENT, "this context is tuning already");
    if (ctx->target == TINY_TARGET_REFERENCE)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "the reference has one form of each operation: nothing to tune");
    t = (struct tinyi_tune *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    ctx->tune = t;
    for (target = TINY_TARGET_SCALAR + 1; target < TINY_TARGET_COUNT; target++)
        if (target != (int)ctx->target && tinyi_target_available((tiny_target)target, ctx->cpu)) {
            t->k[t->n_targets] = (struct tiny_kernels *)tinyi_alloc(ctx, 1, tinyi_kernels_bytes());
            if (!t->k[t->n_targets]) {
                tinyi_tune_drop(ctx);
                return tiny_ctx_status(ctx);
            }
            tinyi_kernels_fill(t->k[t->n_targets], (tiny_target)target, ctx->cpu);
            t->target[t->n_targets++] = (tiny_target)target;
        }
    t->own = t->n_targets++;
    t->target[t->own] = ctx->target;
    t->k[t->own] = ctx->k;
    if (path) {
        t->path = (char *)tinyi_alloc(ctx, 1, strlen(path) + 1);
        if (t->path) memcpy(t->path, path, strlen(path) + 1);
        st = t->path ? tinyi_tune_load(ctx) : tiny_ctx_status(ctx);
        if (st) tinyi_tune_drop(ctx);
    }
    return st;
}

TINY_API tiny_status tiny_tune_stop(tiny_ctx *ctx)
{
    tiny_status st = tinyi_ctx_check(ctx);
    char *text;
    size_t n;
    if (st) return st;
    if (!ctx->tune) return tinyi_fail(ctx, TINY_E_ARGUMENT, "this context is not tuning");
    if (ctx->tune->path && ctx->tune->changed) {
        n = tiny_tune_report(ctx, NULL, 0);
        text = (char *)tinyi_alloc(ctx, 1, n);
        st = text ? TINY_OK : tiny_ctx_status(ctx);
        if (text) (void)tiny_tune_report(ctx, text, n);
        if (!st) st = tiny_file_write(ctx, ctx->tune->path, text, n - 1);
        tiny_free(ctx, text);
    }
    tinyi_tune_drop(ctx);
    return st;
}

/* where a system keeps what its user can make again, the first that is set; NULL: nowhere */
static const char *tinyi_tune_default(char *path, size_t n)
{
    static const char *const place[3][2] = { { "XDG_CACHE_HOME", "" }, { "LOCALAPPDATA", "" }, { "HOME", "/.cache" } };
    int i;
    for (i = 0; i < 3; i++) {
        const char *at = getenv(place[i][0]);
        if (at && *at)
            return (size_t)snprintf(path, n, "%s%s/tinyllm-tune.txt", at, place[i][1]) < n ? path : NULL;
    }
    return NULL;
}

TINYI_FN void tinyi_tune_begin(tiny_ctx *ctx)
{
    const char *path = getenv("TINY_TUNE");
    char own[1024];
    if (!path || !*path || !strcmp(path, "0") || ctx->target == TINY_TARGET_REFERENCE) return;
    if (tiny_tune_start(ctx, strcmp(path, "1") ? path : tinyi_tune_default(own, sizeof own)))
        tinyi_log(ctx, TINY_LOG_WARNING, "TINY_TUNE: %s", tiny_ctx_message(ctx));
}

TINYI_FN void tinyi_tune_end(tiny_ctx *ctx)
{
    if (ctx->tune && tiny_tune_stop(ctx)) tinyi_log(ctx, TINY_LOG_WARNING, "TINY_TUNE: %s", tiny_ctx_message(ctx));
}
