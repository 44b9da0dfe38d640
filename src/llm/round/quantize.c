/* src/llm/round/quantize.c - a model file in fewer bits: the formats are chosen first, then each tensor is packed
 * Cost     one reading of the file, and pack of each format; memory for a piece of about a million numbers */
#include <string.h>
#include "core/state_inside.h"
#include "core/thread.h"
#include "llm/block/format.h"
#include "llm/file/gguf_write.h"
#include "llm/file/open.h"
#include "llm/round/importance_inside.h"
#include "llm/round/mixture.h"
#include "llm/round/pattern_inside.h"
#include "llm/round/quantize.h"

typedef struct tinyi_quantize {
    tiny_ctx *ctx;
    const tllm_quantize_desc *desc;
    tllm_quantize_about about;
    const tllm_mixture *mix;                /* NULL: one format, pure */
    const tllm_format *pure;
    tllm_gguf *file;
    const char *from;
    tllm_quantize_tensor *list;
    size_t n;
    tinyi_importance importance;
} tinyi_quantize;

static int tinyi_quantize_packs(const tllm_format *f) { return f && f->pack && !(f->flags & TLLM_FORMAT_ACTIVATIONS); }

static const tllm_format *tinyi_quantize_rule_format(const char *rule, const char **end)
{
    const char *eq = rule ? strrchr(rule, '=') : NULL;
    const tllm_format *f = eq && eq > rule ? tllm_format_by_name(eq + 1) : NULL;
    *end = eq;
    return tinyi_quantize_packs(f) ? f : NULL;
}

/* The type of the description; with p also whether each rule is a pattern. */
static tiny_status tinyi_quantize_read(tinyi_quantize *q, tinyi_pattern *p)
{
    const tllm_quantize_desc *d = q->desc;
    const char *type = d->type ? d->type : "Q4_K_M", *end, *wrong;
    const tllm_format *f = tllm_format_by_name(type);
    size_t i;
    if (!tinyi_quantize_packs(f)) f = NULL;
    q->mix = tllm_mixture_by_name(type);
    if (!q->mix && !f) return tinyi_fail(q->ctx, TINY_E_ARGUMENT, "quantize: there is no type %s", type);
    if (!q->mix || d->pure) {
        q->pure = f ? f : tllm_format_of(q->mix->base);
        if (!q->pure)
            return tinyi_fail(q->ctx, TINY_E_UNSUPPORTED,
                              "quantize: the format of %s is not compiled into this program",
                              type);
    }
    if (d->n_rules > TLLM_QUANTIZE_RULES || (d->n_rules && !d->rule))
        return tinyi_fail(q->ctx, TINY_E_ARGUMENT,
                          "quantize: %lu rules; at most %d are allowed, and rule must not be NULL",
                          (unsigned long)d->n_rules, TLLM_QUANTIZE_RULES);
    for (i = 0; i < d->n_rules; i++) {
        if (!tinyi_quantize_rule_format(d->rule[i], &end))
            return tinyi_fail(q->ctx, TINY_E_ARGUMENT, "quantize: %s is not REGEX=FORMAT with a known format",
                              d->rule[i] ? d->rule[i] : "NULL");
        wrong = tinyi_pattern_compile(p, d->rule[i], end);
        if (wrong)
            return tinyi_fail(q->ctx, TINY_E_ARGUMENT, "quantize: this rule is invalid, %s: %s", wrong, d->rule[i]);
    }
    return TINY_OK;
}

TINY_API tiny_status tllm_quantize_check(tiny_ctx *ctx, const tllm_quantize_desc *desc)
{
    tinyi_quantize q;
    tinyi_pattern *p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!desc) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quantize: desc is missing");
    memset(&q, 0, sizeof q);
    q.ctx = ctx;
    q.desc = desc;
    p = (tinyi_pattern *)tinyi_alloc(ctx, 1, sizeof *p);
    st = p ? tinyi_quantize_read(&q, p) : tiny_ctx_status(ctx);
    tiny_free(ctx, p);
    return st;
}

/* The importances of a tensor, or whether there are any: numbers of a row for each of its matrices. */
static tiny_status tinyi_quantize_importance(const tinyi_quantize *q, const tllm_quantize_tensor *t, float *out,
                                             int *found)
{
    const tllm_gguf_tensor *g = t->tensor;
    return tinyi_importance_of(q->ctx, &q->importance, g->name, (size_t)g->dim[0],
                               g->bytes / tllm_format_bytes(tllm_format_of(t->from), g->dim[0]) / (size_t)g->dim[1],
                               out, found);
}
static int tinyi_quantize_wants(const tinyi_quantize *q, const tllm_quantize_tensor *t)
{
    return q->desc->importance && t->from != t->to && tllm_format_of(t->to)->flags & TLLM_FORMAT_IMPORTANCE;
}

/* ---- which tensor becomes what */

/* Tensors whose rows are no whole blocks, counted by the formats that were wanted and taken. */
typedef struct tinyi_quantize_note {
    const tllm_format *wanted, *to;
    const tllm_gguf_tensor *first;
    unsigned long count;
} tinyi_quantize_note;
typedef struct tinyi_quantize_notes { tinyi_quantize_note at[32]; size_t n; } tinyi_quantize_notes;

static void tinyi_quantize_noted(tinyi_quantize_notes *notes, const tllm_format *wanted, const tllm_format *to,
                                 const tllm_gguf_tensor *t)
{
    size_t s;
    for (s = 0; s < notes->n && (notes->at[s].wanted != wanted || notes->at[s].to != to); s++) {}
    if (s == TINYI_COUNT(notes->at)) return;
    if (s == notes->n) {
        notes->at[s].wanted = wanted;
        notes->at[s].to = to;
        notes->at[s].first = t;
        notes->at[s].count = 0;
        notes->n++;
    }
    notes->at[s].count++;
}

static int tinyi_quantize_layers(const tllm_gguf *g)
{
    char key[128];
    uint64_t n = 0;
    tllm_text arch;
    if (!tllm_meta_text(tllm_gguf_find(g, "general.architecture"), 0, &arch) || arch.n >= 100) return 0;
    memcpy(key, arch.at, arch.n);
    memcpy(key + arch.n, ".block_count", 13);
    return tllm_meta_u64(tllm_gguf_find(g, key), 0, &n) && n <= 100000 ? (int)n : 0;
}

/* fits[k]: matrices that rule k matches */
static tiny_status tinyi_quantize_choose(tinyi_quantize *q, tinyi_pattern *rules, tinyi_pattern_places *work)
{
    const int layers = tinyi_quantize_layers(q->file), tied = !tllm_gguf_tensor_find(q->file, "output.weight");
    size_t fits[TLLM_QUANTIZE_RULES] = { 0 }, i, k, asked = 0, there = 0;
    tinyi_quantize_notes notes;
    const char *end;
    int warned = 0, first, found;
    tiny_status st;
    notes.n = 0;
    for (i = 0; i < q->n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(q->file, i);
        const tllm_format *from = tllm_format_of(t->type), *to, *wanted;
        tllm_quantize_tensor *l = &q->list[i];
        if (!from)
            return tinyi_fail(q->ctx, TINY_E_UNSUPPORTED, "%s: tensor %.*s has type %s, which cannot be read", q->from,
                              (int)t->name.n, t->name.at, tllm_type_name(t->type));
        l->tensor = t;
        l->from = l->to = from->id;
        l->blocks = NULL;
        if (!tllm_mixture_takes(t)) {
            if (q->desc->wide && (from->id == TLLM_FORMAT_F16 || from->id == TLLM_FORMAT_BF16)) l->to = TLLM_FORMAT_F32;
            continue;
        }
        wanted = q->pure ? q->pure : tllm_mixture_format(q->mix, t, layers, tied);
        for (k = 0, first = 1; k < q->desc->n_rules; k++) {
            if (!tinyi_pattern_matches(&rules[k], t->name, work)) continue;
            if (first) wanted = tinyi_quantize_rule_format(q->desc->rule[k], &end);
            first = 0;
            fits[k]++;
        }
        to = tllm_format_for_rows(wanted, t->dim[0]);
        if (!tinyi_quantize_packs(to))
            return tinyi_fail(q->ctx, TINY_E_UNSUPPORTED,
                              "%s: the format that %.*s would get is not compiled into this program", q->from,
                              (int)t->name.n, t->name.at);
        if (to != wanted) tinyi_quantize_noted(&notes, wanted, to, t);
        if ((to->flags & TLLM_FORMAT_WANTS_IMPORTANCE) && !q->desc->importance && !warned++)
            tinyi_log(q->ctx, TINY_LOG_WARNING, "%.*s: %s without importances loses much accuracy", (int)t->name.n,
                      t->name.at, to->name);
        l->to = to->id;
        if (!tinyi_quantize_wants(q, l)) continue;
        asked++;
        st = tinyi_quantize_importance(q, l, NULL, &found);
        if (st) return st;
        there += found != 0;
    }
    for (i = 0; i < notes.n; i++)
        tinyi_log(q->ctx, TINY_LOG_WARNING,
                  "%s instead of %s for %lu tensors, whose rows are not whole blocks of %d: %.*s (rows of %lu)%s",
                  notes.at[i].to->name, notes.at[i].wanted->name, notes.at[i].count, notes.at[i].wanted->values,
                  (int)notes.at[i].first->name.n, notes.at[i].first->name.at, (unsigned long)notes.at[i].first->dim[0],
                  notes.at[i].count > 1 ? " ..." : "");
    for (k = 0; k < q->desc->n_rules; k++)
        if (!fits[k]) tinyi_log(q->ctx, TINY_LOG_WARNING, "%s matches no matrix", q->desc->rule[k]);
    if (asked && !there)
        return tinyi_fail(q->ctx, TINY_E_ARGUMENT,
                          "%s: it has no importance for any of the %lu matrices of %s that could use one",
                          q->desc->importance, (unsigned long)asked, q->from);
    return TINY_OK;
}

static tiny_status tinyi_quantize_plan(tinyi_quantize *q)
{
    const size_t n_rules = q->desc->n_rules;
    tinyi_pattern *rules = (tinyi_pattern *)tinyi_alloc(q->ctx, n_rules ? n_rules : 1, sizeof *rules);
    tinyi_pattern_places *work = rules ? (tinyi_pattern_places *)tinyi_alloc(q->ctx, 1, sizeof *work) : NULL;
    const char *end;
    size_t k;
    tiny_status st = work ? TINY_OK : tiny_ctx_status(q->ctx);
    for (k = 0; !st && k < n_rules; k++) {
        (void)tinyi_quantize_rule_format(q->desc->rule[k], &end);
        (void)tinyi_pattern_compile(&rules[k], q->desc->rule[k], end);
    }
    if (!st) st = tinyi_quantize_choose(q, rules, work);
    tiny_free(q->ctx, work);
    tiny_free(q->ctx, rules);
    return st;
}

/* ---- one tensor */

typedef struct tinyi_quantize_piece {
    const tllm_format *from, *to;
    const unsigned char *in;
    const float *importance;                /* (matrices, n); NULL: none */
    float *x;                               /* (rows, n) */
    unsigned char *out;
    size_t n, in_row, out_row, row, row_each;   /* row: the first one; row_each: rows of a matrix */
    tiny_idx rows;
} tinyi_quantize_piece;

static void tinyi_quantize_rows(tiny_team *team, void *arg)
{
    const tinyi_quantize_piece *p = (const tinyi_quantize_piece *)arg;
    tiny_idx r0, r1, r;
    while (tiny_take(team, p->rows, 1, &r0, &r1))
        for (r = r0; r < r1; r++) {
            const size_t i = (size_t)r, row = p->row + i;
            p->from->unpack(p->in + row * p->in_row, p->x + i * p->n, p->n);
            p->to->pack(p->x + i * p->n, p->out + i * p->out_row, p->n,
                        p->importance ? p->importance + p->n * (row / p->row_each) : NULL);
        }
}

/* All threads pack rows of a piece, which is then written. */
static tiny_status tinyi_quantize_pack(tinyi_quantize *q, tllm_writer *w, const tllm_quantize_tensor *t,
                                       const float *importance)
{
    const tllm_gguf_tensor *g = t->tensor;
    tinyi_quantize_piece p;
    size_t n_rows, most;
    tiny_status st = TINY_OK;
    p.from = tllm_format_of(t->from);
    p.to = tllm_format_of(t->to);
    p.in = g->data;
    p.importance = importance;
    p.n = (size_t)g->dim[0];
    p.in_row = tllm_format_bytes(p.from, g->dim[0]);
    p.out_row = tllm_format_bytes(p.to, g->dim[0]);
    p.row_each = (size_t)g->dim[1];
    n_rows = p.in_row ? g->bytes / p.in_row : 0;
    most = ((size_t)1 << 20) / p.n + 1;
    if (most > n_rows) most = n_rows;
    p.x = (float *)tinyi_alloc(q->ctx, most, p.n * sizeof *p.x);
    p.out = p.x ? (unsigned char *)tinyi_alloc(q->ctx, most, p.out_row) : NULL;
    if (!p.out) st = tiny_ctx_status(q->ctx);
    for (p.row = 0; !st && p.row < n_rows; p.row += most) {
        p.rows = (tiny_idx)(p.row + most <= n_rows ? most : n_rows - p.row);
        /* a small piece is done before other threads are awake */
        st = tiny_parallel_loose(q->ctx, (size_t)p.rows * p.n < 65536 ? 1 : 0, 0, 0, tinyi_quantize_rows, &p);
        if (!st) st = tllm_writer_data(q->ctx, w, p.out, (size_t)p.rows * p.out_row);
    }
    tiny_free(q->ctx, p.out);
    tiny_free(q->ctx, p.x);
    return st;
}

static uint64_t tinyi_quantize_bytes(const tllm_quantize_tensor *t)        /* of the new tensor */
{
    const uint64_t n = t->tensor->dim[0];
    if (t->from == t->to) return t->tensor->bytes;
    return t->tensor->bytes / tllm_format_bytes(tllm_format_of(t->from), n) *
           tllm_format_bytes(tllm_format_of(t->to), n);
}

static tiny_status tinyi_quantize_tensor(tinyi_quantize *q, tllm_writer *w, const tllm_quantize_tensor *t)
{
    const tllm_gguf_tensor *g = t->tensor;
    float *importance = NULL;
    int found = 0;
    tiny_status st = TINY_OK;
    if (q->ctx->desc.cancel && q->ctx->desc.cancel(q->ctx->desc.user))
        return tinyi_fail(q->ctx, TINY_E_CANCELLED, "quantize: the cancel callback asked to stop");
    if (t->blocks) return tllm_writer_data(q->ctx, w, t->blocks, (size_t)tinyi_quantize_bytes(t));
    if (t->from == t->to) return tllm_writer_data(q->ctx, w, g->data, g->bytes);
    if (tinyi_quantize_wants(q, t)) {
        const size_t rows = g->bytes / tllm_format_bytes(tllm_format_of(t->from), g->dim[0]);
        importance = (float *)tinyi_alloc(q->ctx, rows / (size_t)g->dim[1], (size_t)g->dim[0] * sizeof *importance);
        if (!importance) return tiny_ctx_status(q->ctx);
        st = tinyi_quantize_importance(q, t, importance, &found);
        q->about.n_importance += found != 0;
    }
    if (!st) st = tinyi_quantize_pack(q, w, t, found ? importance : NULL);
    tiny_free(q->ctx, importance);
    return st;
}

/* ---- the file */

/* What a prepare callback has put into the list: still the tensor that the new file has announced? */
static int tinyi_quantize_fits(const tllm_quantize_tensor *t, const tllm_gguf_tensor *was)
{
    const tllm_gguf_tensor *is = t->tensor;
    return is && is->rank == was->rank && !memcmp(is->dim, was->dim, sizeof is->dim) && is->type == t->from &&
           tllm_format_of(t->from) && is->name.n == was->name.n && !memcmp(is->name.at, was->name.at, is->name.n);
}

static tiny_status tinyi_quantize_head(tinyi_quantize *q, tllm_writer *w)
{
    tiny_status st = TINY_OK;
    size_t i;
    for (i = 0; !st && i < tllm_gguf_n_meta(q->file); i++)
        st = tllm_writer_put_meta(q->ctx, w, tllm_gguf_meta_at(q->file, i));
    if (!st && q->mix) st = tllm_writer_put_u32(q->ctx, w, "general.file_type", (uint32_t)q->mix->file_type);
    if (!st) st = tllm_writer_put_u32(q->ctx, w, "general.quantization_version", 2);
    if (!st && q->desc->importance)
        st = tllm_writer_put_text(q->ctx, w, "quantize.imatrix.file", q->desc->importance);
    for (i = 0; !st && i < q->n; i++) {
        const tllm_gguf_tensor *t = q->list[i].tensor;
        st = tllm_writer_put_tensor(q->ctx, w, t->name, q->list[i].to, t->rank, t->dim, NULL);
    }
    return st ? st : tllm_writer_data(q->ctx, w, NULL, 0);     /* begins the file: it can be written */
}

static tiny_status tinyi_quantize_write(tinyi_quantize *q, tllm_writer *w)
{
    tiny_status st = tinyi_quantize_head(q, w);
    size_t i;
    for (i = 0; i < q->n; i++) q->about.bytes_before += q->list[i].tensor->bytes;
    if (!st && q->desc->prepare) st = q->desc->prepare(q->desc->user, q->file, q->list, q->n);
    for (i = 0; !st && i < q->n; i++) {
        const tllm_gguf_tensor *was = tllm_gguf_tensor_at(q->file, i);
        if (!tinyi_quantize_fits(&q->list[i], was))
            return tinyi_fail(q->ctx, TINY_E_ARGUMENT,
                              "quantize: the prepare callback changed tensor %.*s to another one", (int)was->name.n,
                              was->name.at);
        st = tinyi_quantize_tensor(q, w, &q->list[i]);
        q->about.bytes_after += tinyi_quantize_bytes(&q->list[i]);
        q->about.n_packed += q->list[i].from != q->list[i].to;
        if (!st && q->ctx->desc.progress)
            q->ctx->desc.progress(q->ctx->desc.user, "quantize", (double)(i + 1) / (double)q->n);
    }
    return st ? st : tllm_writer_finish(q->ctx, w);
}

TINY_API tiny_status tllm_quantize_file(tiny_ctx *ctx, const char *from, const char *to, const tllm_quantize_desc *desc,
                                        tllm_quantize_about *about)
{
    tllm_quantize_desc none;
    tllm_writer_desc d;
    tllm_writer *w = NULL;
    tinyi_quantize q;
    tinyi_pattern *p;
    tiny_status st = tinyi_ctx_check(ctx);
    if (about) memset(about, 0, sizeof *about);
    if (st) return st;
    if (!from || !to) return tinyi_fail(ctx, TINY_E_ARGUMENT, "quantize: two paths are needed");
    memset(&none, 0, sizeof none);
    memset(&d, 0, sizeof d);
    memset(&q, 0, sizeof q);
    q.ctx = ctx;
    q.desc = desc ? desc : &none;
    q.from = from;
    p = (tinyi_pattern *)tinyi_alloc(ctx, 1, sizeof *p);
    st = p ? tinyi_quantize_read(&q, p) : tiny_ctx_status(ctx);
    tiny_free(ctx, p);
    if (!st) st = tllm_file_open(ctx, from, &q.file);
    if (!st && tllm_file_kind(q.file) == TLLM_FILE_SAFETENSORS)
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                        "%s: a safetensors file has no keys that describe its model; a GGUF file or a .bin of llama2.c "
                        "is needed",
                        from);
    if (!st && q.desc->importance) st = tinyi_importance_open(ctx, q.desc->importance, &q.importance);
    if (!st) {
        q.about.n_tensors = q.n = tllm_gguf_n_tensors(q.file);
        q.list = (tllm_quantize_tensor *)tinyi_alloc(ctx, q.n ? q.n : 1, sizeof *q.list);
        st = q.list ? tinyi_quantize_plan(&q) : tiny_ctx_status(ctx);
    }
    d.path = to;
    if (!st) st = tllm_writer_open(ctx, &d, &w);
    if (!st) st = tinyi_quantize_write(&q, w);
    tllm_writer_close(ctx, w);
    tiny_free(ctx, q.list);
    tinyi_importance_close(ctx, &q.importance);
    tllm_gguf_close(ctx, q.file);
    if (!st && about) *about = q.about;
    return st;
}
