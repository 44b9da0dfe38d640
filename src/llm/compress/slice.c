/* src/llm/compress/slice.c - SliceGPT: deletes the directions of the stream that have the least energy
 *
 * Paper    S. Ashkboos et al., "SliceGPT: Compress Large Language Models by Deleting Rows and Columns", 2024 (arXiv
 *          2401.15024), 3.1 to 3.4
 * Formula  RMS(x Q) = RMS(x) Q for an orthogonal Q. A signal is the stream u (tokens, D) at one place: after the
 *          embedding, between the halves of a layer, after a layer. Its axes Q are the eigenvectors of u^T u, the
 *          largest eigenvalue first; its first d columns are Qd:
 *              E <- E Qd;  W_in <- W_in diag(g) Qd of the signal before;  W_out <- Qd^T W_out, b_out <- Qd^T b_out of
 *              the signal after;  shortcut = Qd^T of the signal before times Qd of the signal after
 *          Layer norms: every row that is added to the stream loses its mean, so the stream has none and the norm is an
 *          RMS norm; the bias of the norm goes into the biases after it, b <- b + W_in beta.
 *          An RMS norm still divides by D: over d numbers it has the gain sqrt(D / d) and eps D / d (sliced.h)
 * Order    of the paper: the axes of each signal are those of the model that is sliced up to there. In the original
 *          basis its stream is P u, P = Qd Qd^T, and a sliced half that reads x = u Qd computes what the original half
 *          computes of P u. So the original layers read the text once, layer by layer, and the stream is projected
 *          after each half. No sliced matrix is needed before it is written.
 * Error    products in float: 1e-6 of the results at full width
 * Cost     one pass over the text; for each signal D^2 products a token, 2 D d for the projection, and the eigenvectors
 *          of D x D; each matrix times Qd once
 * Left out recovery training; several texts; axes for parts of a stream */
#include <stdio.h>
#include <string.h>
#include "core/rng.h"
#include "core/state_inside.h"
#include "llm/compress/slice.h"
#include "llm/round/calib.h"
#include "llm/round/stream_inside.h"
#include "math/linalg.h"
#include "math/matmul.h"

#define TINYI_SLICE_MAGIC 0x63696c73u
#define TINYI_SLICE_DAMP 0.01
#define TINYI_SLICE_NAME 128

enum {
    TINYI_SLICE_COPY,
    TINYI_SLICE_ROWS,                       /* rows of D numbers: each becomes d numbers of a basis */
    TINYI_SLICE_COLUMNS,                    /* D rows: they become d */
    TINYI_SLICE_NORM,                       /* the gain of a norm over d numbers */
    TINYI_SLICE_BIAS,                       /* with the bias of the norm before the matrix */
    TINYI_SLICE_SHORTCUT
};

/* a tensor of the result */
typedef struct tinyi_slice_out {
    int kind, format, rank;
    tiny_idx stage;                         /* when it can be written: the number of the last signal that it needs */
    tiny_idx from, to;                      /* signals whose bases it needs: of what it reads, of what it writes */
    const tllm_gguf_tensor *t;              /* its numbers: a tensor, */
    const float *v;                         /* or floats, as many as the result has rows, times D */
    const tinyi_lm_w *w, *norm;             /* BIAS: its matrix; the norm whose gain or bias goes into it, or NULL */
    int centre, embed;                      /* ROWS: the mean goes; a row of the embedding, which may have a norm */
    uint64_t dim[4];
    char name[TINYI_SLICE_NAME];
} tinyi_slice_out;

/* one basis: q (D, d) of signal number `signal` */
typedef struct tinyi_slice_basis { tiny_idx signal, d; float *q; } tinyi_slice_basis;

struct tllm_sliced {
    uint32_t magic;
    tllm_sliced_desc d;
    const tllm_gguf *file;
    tllm_folds *folds;
    tllm_model *m;
    tiny_idx *width;                        /* (2 n_layer + 1) */
    unsigned char *seen;                    /* of each tensor of the file: 1: it is in the list, or it is not written */
    tinyi_slice_out *out;
    size_t n_out, room;
    tinyi_slice_basis basis[2];             /* of the signal before, and of that after */
    tllm_sliced_about about;
};

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* q (n, n): orthogonal, uniform */
static tiny_status tinyi_slice_random(tiny_ctx *ctx, uint64_t seed, uint64_t stream, tiny_idx n, const tiny_tensor *q)
{
    tiny_rng rng = tiny_rng_make(seed, stream);
    float *g = (float *)tinyi_alloc(ctx, (size_t)n, (size_t)n * sizeof *g);
    tiny_tensor tg;
    tiny_status st;
    if (!g) return tiny_ctx_status(ctx);
    tiny_rng_fill_normal(&rng, g, (size_t)(n * n));
    tg = tiny_tensor_2d(g, TINY_F32, n, n);
    st = tiny_qr(ctx, &tg, q, NULL);
    tiny_free(ctx, g);
    return st;
}

/* eigenvectors of the products s, of falling eigenvalues */
static tiny_status tinyi_slice_eigen(tiny_ctx *ctx, const tiny_tensor *s, tiny_idx n, const tiny_tensor *q)
{
    const tiny_tensor lower = tiny_tensor_swap(*s, 0, 1);   /* s has its upper triangle */
    double *a = (double *)s->data, mean = 0.0;
    double *value = (double *)tinyi_alloc(ctx, (size_t)n, sizeof *value);
    tiny_tensor tv, turned = *q;
    tiny_status st;
    tiny_idx i;
    if (!value) return tiny_ctx_status(ctx);
    for (i = 0; i < n; i++) mean += a[i * n + i] / (double)n;
    for (i = 0; i < n; i++) a[i * n + i] += TINYI_SLICE_DAMP * mean;
    tv = tiny_tensor_1d(value, TINY_F64, n);
    /* tiny_eigh gives the smallest eigenvalue first: columns from the last to the first */
    turned.data = (double *)q->data + (n - 1) * q->stride[1];
    turned.stride[1] = -q->stride[1];
    st = tiny_eigh(ctx, &lower, &tv, &turned);
    tiny_free(ctx, value);
    return st;
}

TINY_API tiny_status tllm_slice_axes(tiny_ctx *ctx, const tiny_tensor *x, int by, uint64_t seed, const tiny_tensor *q)
{
    tllm_calib *c = NULL;
    tiny_tensor s;
    tiny_idx n, i, k, j;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!x || !q || tiny_tensor_check(x) || tiny_tensor_check(q) || x->rank != 2 || x->dtype != TINY_F32 ||
        x->stride[1] != 1 || x->dim[0] < 1 || x->dim[1] < 1 || q->rank != 2 || q->dtype != TINY_F64 ||
        q->dim[0] != x->dim[1] || q->dim[1] != x->dim[1])
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "slice: axes are made of at least one row of n numbers (f32), into n x n numbers (f64)");
    if (by < 0 || by >= TLLM_SLICE_WAYS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: axes by way %d: the ways are 0 to %d", by, TLLM_SLICE_WAYS - 1);
    n = x->dim[1];
    st = tllm_calib_open(ctx, n, TLLM_CALIB_PRODUCTS, &c);
    if (!st) st = tllm_calib_add(ctx, c, (const float *)x->data, x->dim[0], x->stride[0]);
    s = tllm_calib_products(c);
    if (!st && by == TLLM_SLICE_RANDOM) st = tinyi_slice_random(ctx, seed, 1, n, q);
    else if (!st && by == TLLM_SLICE_PCA) st = tinyi_slice_eigen(ctx, &s, n, q);
    else if (!st) {                         /* channels as they are; COLUMNS: by energy, of equal ones the first */
        const double *d = (const double *)s.data;
        double *to = (double *)q->data;
        for (i = 0; i < n; i++)
            for (k = 0; k < n; k++) to[i * q->stride[0] + k * q->stride[1]] = 0.0;
        for (i = 0; i < n; i++) {
            for (k = j = 0; j < n; j++) {
                const double more = d[j * n + j] - d[i * n + i];
                k += by == TLLM_SLICE_COLUMNS ? more > 0.0 || (more == 0.0 && j < i) : j < i;
            }
            to[i * q->stride[0] + k * q->stride[1]] = 1.0;
        }
    }
    tllm_calib_close(ctx, c);
    return st;
}

/* ---- which tensors, and what becomes of them --------------------------------------------------------------------- */

static tinyi_slice_out *tinyi_slice_new(tllm_sliced *s, int kind, tiny_idx stage)
{
    tinyi_slice_out *o = &s->out[s->n_out++];
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->stage = stage;
    o->from = o->to = -1;
    o->format = TLLM_FORMAT_F32;
    return o;
}

/* a tensor of the result that takes the place of t, with its name and shape */
static tinyi_slice_out *tinyi_slice_of(tllm_sliced *s, int kind, tiny_idx stage, const tllm_gguf_tensor *t)
{
    const tinyi_fold_item *it = tinyi_fold_item_of(s->folds, t);
    tinyi_slice_out *o;
    int i;
    if (!it || s->seen[it - s->folds->item]) return NULL;
    s->seen[it - s->folds->item] = 1;
    o = tinyi_slice_new(s, kind, stage);
    o->t = t;
    o->rank = t->rank;
    for (i = 0; i < t->rank; i++) o->dim[i] = t->dim[i];
    memcpy(o->name, t->name.at, TINYI_MIN(t->name.n, sizeof o->name - 1));
    if (!it->vector) o->format = s->d.format;
    return o;
}
static void tinyi_slice_drop(tllm_sliced *s, const tllm_gguf_tensor *t)
{
    const tinyi_fold_item *it = t ? tinyi_fold_item_of(s->folds, t) : NULL;
    if (it) s->seen[it - s->folds->item] = 1;
}

static void tinyi_slice_norm(tllm_sliced *s, const tinyi_lm_w *norm, tiny_idx stage, tiny_idx signal)
{
    tinyi_slice_out *o = norm ? tinyi_slice_of(s, TINYI_SLICE_NORM, stage, norm->t) : NULL;
    if (!o) return;
    if (norm->bias) tinyi_slice_drop(s, tinyi_fold_bias(s->file, norm->t));
    o->from = signal;
    o->rank = 1;
    o->dim[0] = (uint64_t)s->width[signal];
    o->format = TLLM_FORMAT_F32;
}

/* the name of what stands beside a tensor: "blk.0.attn_q.bias" of "blk.0.attn_q.weight" */
static void tinyi_slice_side(char name[TINYI_SLICE_NAME], tllm_text weight, const char *side)
{
    size_t n = weight.n;
    if (n >= 7 && !memcmp(weight.at + n - 7, ".weight", 7)) n -= 7;
    (void)snprintf(name, TINYI_SLICE_NAME, "%.*s%s", (int)TINYI_MIN(n, (size_t)TINYI_SLICE_NAME - 10), weight.at, side);
}

/* the bias of the norm goes into the bias of the matrix, or becomes one */
static void tinyi_slice_beta(tllm_sliced *s, const tinyi_lm_w *w, const tinyi_lm_w *norm, tiny_idx stage)
{
    const tllm_gguf_tensor *bias = w->bias ? tinyi_fold_bias(s->file, w->t) : NULL;
    tinyi_slice_out *o;
    if (!norm->bias) return;
    o = bias ? tinyi_slice_of(s, TINYI_SLICE_BIAS, stage, bias) : tinyi_slice_new(s, TINYI_SLICE_BIAS, stage);
    if (!o) return;
    if (!bias) tinyi_slice_side(o->name, w->t->name, ".bias");
    o->rank = 1;
    o->dim[0] = (uint64_t)w->n_out;
    o->w = w;
    o->norm = norm;
    o->format = TLLM_FORMAT_F32;
}

static void tinyi_slice_reads(tllm_sliced *s, const tinyi_lm_w *w, const tinyi_lm_w *norm, tiny_idx stage,
                              tiny_idx signal)
{
    tinyi_slice_out *o = w ? tinyi_slice_of(s, TINYI_SLICE_ROWS, stage, w->t) : NULL;
    if (!o) return;
    o->v = w->v;
    o->norm = norm;
    o->from = signal;
    o->dim[0] = (uint64_t)s->width[signal];
    if (w->v) o->format = TLLM_FORMAT_F32;
    else tinyi_slice_beta(s, w, norm, stage);
}

static void tinyi_slice_writes(tllm_sliced *s, const tinyi_lm_w *w, tiny_idx signal)
{
    tinyi_slice_out *o = w ? tinyi_slice_of(s, TINYI_SLICE_COLUMNS, signal, w->t) : NULL;
    const tllm_gguf_tensor *bias = w && w->bias ? tinyi_fold_bias(s->file, w->t) : NULL;
    if (!o) return;
    o->w = w;
    o->to = signal;
    o->centre = s->m->norm != TINYI_LM_RMS;
    o->dim[1] = (uint64_t)s->width[signal];
    o = bias ? tinyi_slice_of(s, TINYI_SLICE_ROWS, signal, bias) : NULL;
    if (!o) return;
    o->v = w->bias;
    o->to = signal;
    o->centre = s->m->norm != TINYI_LM_RMS;
    o->dim[0] = (uint64_t)s->width[signal];
    o->format = TLLM_FORMAT_F32;
}

static void tinyi_slice_shortcut(tllm_sliced *s, tiny_idx layer, const char *name, tiny_idx from, tiny_idx to)
{
    tinyi_slice_out *o = tinyi_slice_new(s, TINYI_SLICE_SHORTCUT, to);
    (void)snprintf(o->name, sizeof o->name, "blk.%ld.%s.weight", (long)layer, name);
    o->from = from;
    o->to = to;
    o->rank = 2;
    o->dim[0] = (uint64_t)s->width[from];
    o->dim[1] = (uint64_t)s->width[to];
    o->format = s->d.format;
}

static void tinyi_slice_layer(tllm_sliced *s, const tinyi_lm_layer *a)
{
    const int parallel = s->m->block == TINYI_LM_PARALLEL;
    const tiny_idx in = 2 * a->i, out = in + 2, mid = parallel ? out : in + 1, feed = parallel ? in : mid;
    const tinyi_lm_w *norm1 = parallel && a->w[TINYI_T_ATTN_NORM_2] ? a->w[TINYI_T_ATTN_NORM_2] : a->norm1,
                     *norm2 = a->norm2 ? a->norm2 : a->norm1;
    int t;
    tinyi_slice_norm(s, a->norm1, mid, in);
    tinyi_slice_norm(s, norm1, mid, in);
    tinyi_slice_norm(s, norm2, out, feed);
    for (t = 0; t < TINYI_T_COUNT; t++)
        switch (tinyi_stream_role(t)) {
        case TINYI_STREAM_READS_MIX: tinyi_slice_reads(s, a->w[t], norm1, mid, in); break;
        case TINYI_STREAM_READS_FEED: tinyi_slice_reads(s, a->w[t], norm2, out, feed); break;
        case TINYI_STREAM_WRITES_MIX: tinyi_slice_writes(s, a->w[t], mid); break;
        case TINYI_STREAM_WRITES_FEED: tinyi_slice_writes(s, a->w[t], out); break;
        default: break;
        }
    tinyi_slice_shortcut(s, a->i, "attn_shortcut", in, mid);
    if (!parallel) tinyi_slice_shortcut(s, a->i, "ffn_shortcut", mid, out);
}

/* rows of the embedding, or of learned positions */
static void tinyi_slice_embed(tllm_sliced *s, const tinyi_lm_w *w, int embed)
{
    tinyi_slice_out *o = w ? tinyi_slice_of(s, TINYI_SLICE_ROWS, 0, w->t) : NULL;
    if (!o) return;
    o->to = 0;
    o->centre = s->m->norm != TINYI_LM_RMS;
    o->embed = embed;
    o->dim[0] = (uint64_t)s->width[0];
}

static void tinyi_slice_top(tllm_sliced *s)
{
    const tllm_model *m = s->m;
    const tinyi_lm_w *norm = m->top.w[TINYI_T_OUTPUT_NORM], *embd = m->top.w[TINYI_T_TOKEN_EMBD],
                     *before = m->top.w[TINYI_T_TOKEN_EMBD_NORM];
    const tiny_idx last = 2 * m->n_layer;
    tinyi_slice_out *o;
    tinyi_slice_embed(s, embd, 1);
    tinyi_slice_embed(s, m->top.w[TINYI_T_POSITION_EMBD], 0);
    if (before) {                           /* its rows are normed before they are written */
        tinyi_slice_drop(s, before->t);
        if (before->bias) tinyi_slice_drop(s, tinyi_fold_bias(s->file, before->t));
    }
    tinyi_slice_norm(s, norm, last + 1, last);
    if (m->output_w != embd) {
        tinyi_slice_reads(s, m->output_w, norm, last + 1, last);
        return;
    }
    s->about.untied = 1;                    /* the embedding has other gains */
    o = tinyi_slice_new(s, TINYI_SLICE_ROWS, last + 1);
    o->t = embd->t;
    o->norm = norm;
    o->from = last;
    o->rank = 2;
    o->dim[0] = (uint64_t)s->width[last];
    o->dim[1] = (uint64_t)m->n_vocab;
    o->format = s->d.format;
    (void)snprintf(o->name, sizeof o->name, "output.weight");
    if (!norm->bias) return;
    o = tinyi_slice_new(s, TINYI_SLICE_BIAS, last + 1);
    o->w = embd;
    o->norm = norm;
    o->rank = 1;
    o->dim[0] = (uint64_t)m->n_vocab;
    (void)snprintf(o->name, sizeof o->name, "output.bias");
}

/* ---- whether it may be done -------------------------------------------------------------------------------------- */

static tiny_status tinyi_slice_check(tiny_ctx *ctx, const tllm_sliced *s)
{
    const tllm_model *m = s->m;
    const char *why = NULL;
    tiny_idx i;
    tiny_status st = tinyi_stream_model(ctx, "slice", m);
    if (!st) st = tinyi_stream_tops(ctx, "slice", m, 1);
    if (!st && m->top.w[TINYI_T_TOKEN_EMBD_NORM] &&
        (!(TINYI_LM_ARCH(m)->top & TINYI_LM_T_EMBD_NORM) || m->top.w[TINYI_T_POSITION_EMBD] || m->embd_scale != 1.0f ||
         m->norm == TINYI_LM_RMS))
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "slice: %s: the norm of the embedding is not its last step", m->path);
    if (!st && m->n_once < m->n_layer)
        st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "slice: %s: its layers run several times, in one basis", m->path);
    for (i = 0; i < m->n_layer && !st; i++) {
        const tinyi_lm_layer *a = &m->layer[i];
        const int biased = a->norm1 && (a->norm1->bias || (a->norm2 && a->norm2->bias));
        int t;
        st = tinyi_stream_layer(ctx, "slice", m, s->folds, a);
        if (st) return st;
        if (a->kv_from != i) why = "it uses the keys of another layer";
        else if (!a->ffn) why = "it has no network";
        else if (a->w[TINYI_T_LAYER_SCALE]) why = "its result is scaled";
        else if (a->w[TINYI_T_ROUTER] && a->w[TINYI_T_ROUTER]->scale) why = "its router scales what it reads";
        else if (biased && a->moe) why = "experts follow a norm with a bias";
        for (t = 0; t < TINYI_T_COUNT && biased && !why; t++)
            if (a->w[t] && a->w[t]->scale) why = "a matrix with a scale of its own follows a norm with a bias";
        if (why) st = tinyi_fail(ctx, TINY_E_UNSUPPORTED, "slice: %s: layer %td: %s", m->path, i, why);
    }
    return st;
}

static tiny_idx tinyi_slice_gcd(tiny_idx a, tiny_idx b)
{
    while (b) {
        const tiny_idx r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static tiny_status tinyi_slice_widths(tiny_ctx *ctx, tllm_sliced *s)
{
    const tllm_model *m = s->m;
    const tiny_idx n = m->n_embd, L = m->n_layer, block = tllm_format_of(s->d.format)->values;
    const tiny_idx round = s->d.round / tinyi_slice_gcd(s->d.round, block) * block;
    tiny_idx i, d = (tiny_idx)(s->d.keep * (double)n + 1e-9 * (double)n);
    if (d < n) d -= d % round;
    if (s->d.width && s->d.n_width != L)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: %s: %td widths for %td layers", m->path, s->d.n_width, L);
    for (i = 0; i <= 2 * L; i++) s->width[i] = s->d.width ? s->d.width[i < 2 * L ? i / 2 : L - 1] : d;
    if (!s->d.head) s->width[2 * L] = n;
    if (m->block == TINYI_LM_PARALLEL)      /* both halves end there */
        for (i = 0; i < L; i++) s->width[2 * i + 1] = s->width[2 * i + 2];
    for (i = 0; i <= 2 * L; i++) {
        if (s->width[i] < 8)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "slice: %s: a stream of %td numbers (multiples of %td, and it has %td): at least 8 are "
                              "needed",
                              m->path, s->width[i], round, n);
        if (s->width[i] > n)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "slice: %s: a stream of %td numbers is wider than the %td that it has", m->path,
                              s->width[i], n);
    }
    return TINY_OK;
}

/* numbers and bytes of all tensors, which must be whole blocks */
static tiny_status tinyi_slice_sizes(tiny_ctx *ctx, tllm_sliced *s)
{
    size_t i;
    int k;
    for (i = 0; i < tllm_gguf_n_tensors(s->file); i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(s->file, i);
        double n = 1.0;
        for (k = 0; k < t->rank; k++) n *= (double)t->dim[k];
        s->about.params_before += n;
        s->about.bytes_before += t->bytes;
    }
    for (i = 0; i < s->n_out; i++) {
        const tinyi_slice_out *o = &s->out[i];
        const tllm_format *f = tllm_format_of(o->format);
        uint64_t rows = 1;
        for (k = 1; k < o->rank; k++) rows *= o->dim[k];
        s->about.params += (double)o->dim[0] * (double)rows;
        if (o->kind == TINYI_SLICE_COPY) {
            s->about.bytes += o->t->bytes;
            continue;
        }
        if (!tllm_format_bytes(f, o->dim[0]))
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "slice: %s has rows of %llu numbers, which are not whole blocks of %s", o->name,
                              (unsigned long long)o->dim[0], f->name);
        s->about.bytes += (uint64_t)tllm_format_bytes(f, o->dim[0]) * rows;
    }
    return TINY_OK;
}

static tiny_status tinyi_slice_make(tiny_ctx *ctx, tllm_sliced *s)
{
    const tllm_model *m = s->m;
    const size_t n = tllm_gguf_n_tensors(s->file);
    size_t i, k;
    tiny_status st = tinyi_slice_check(ctx, s);
    if (st) return st;
    s->width = (tiny_idx *)tinyi_alloc(ctx, 2 * (size_t)m->n_layer + 1, sizeof *s->width);
    s->seen = s->width ? (unsigned char *)tinyi_alloc(ctx, n + 1, 1) : NULL;
    s->room = n + (size_t)m->n_layer * 16 + 4;          /* biases and shortcuts are new */
    s->out = s->seen ? (tinyi_slice_out *)tinyi_alloc(ctx, s->room, sizeof *s->out) : NULL;
    if (!s->out) return tiny_ctx_status(ctx);
    memset(s->seen, 0, n + 1);
    st = tinyi_slice_widths(ctx, s);
    if (st) return st;
    tinyi_slice_top(s);
    for (i = 0; i < (size_t)m->n_layer; i++) tinyi_slice_layer(s, &m->layer[i]);
    for (i = 0; i < n; i++) {
        const tllm_gguf_tensor *t = tllm_gguf_tensor_at(s->file, i);
        tinyi_slice_out *o = tinyi_slice_of(s, TINYI_SLICE_COPY, 0, t);
        if (o) o->format = t->type;
    }
    for (i = 1; i < s->n_out; i++) {        /* by stages; otherwise in this order */
        const tinyi_slice_out o = s->out[i];
        for (k = i; k > 0 && s->out[k - 1].stage > o.stage; k--) s->out[k] = s->out[k - 1];
        s->out[k] = o;
    }
    s->about.n_embd = m->n_embd;
    s->about.n_layer = m->n_layer;
    s->about.n_signals = m->block == TINYI_LM_PARALLEL ? m->n_layer + 1 : 2 * m->n_layer + 1;
    s->about.least = s->about.most = s->width[0];
    for (i = 0; i <= 2 * (size_t)m->n_layer; i++) {
        s->about.least = TINYI_MIN(s->about.least, s->width[i]);
        s->about.most = TINYI_MAX(s->about.most, s->width[i]);
    }
    return tinyi_slice_sizes(ctx, s);
}

TINY_API tiny_status tllm_sliced_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_sliced_desc *desc,
                                      tllm_sliced **out)
{
    const tllm_format *format;
    tllm_sliced *s;
    int k;
    tiny_status st = tinyi_ctx_check(ctx);
    if (out) *out = NULL;
    if (st) return st;
    if (!file || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: a file and a result pointer are needed");
    format = tllm_format_of(desc ? desc->format : TLLM_FORMAT_F32);
    if (!format || !format->pack || format->flags & TLLM_FORMAT_ACTIVATIONS)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: matrices cannot be written in format %d",
                          desc ? desc->format : 0);
    if (desc && !(desc->keep >= 0.0 && desc->keep <= 1.0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: a share of %g of the stream: it must be above 0 and at most 1",
                          desc->keep);
    if (desc && (desc->by < 0 || desc->by >= TLLM_SLICE_WAYS))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: axes by way %d: the ways are 0 to %d", desc->by,
                          TLLM_SLICE_WAYS - 1);
    if (desc && (desc->round < 0 || desc->round > TINYI_LM_MOST || desc->window < 0))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "slice: widths that are multiples of %td, windows of %td tokens: neither can be below 1",
                          desc->round, desc->window);
    s = (tllm_sliced *)tinyi_alloc(ctx, 1, sizeof *s);
    if (!s) return tiny_ctx_status(ctx);
    memset(s, 0, sizeof *s);
    s->magic = TINYI_SLICE_MAGIC;
    s->file = file;
    if (desc) s->d = *desc;
    if (s->d.keep == 0.0) s->d.keep = 0.75;
    if (!s->d.round) s->d.round = 8;
    st = tllm_model_open(ctx, file, &s->m);
    if (!st) st = tllm_folds_open(ctx, file, &s->folds);
    if (!st) st = tinyi_slice_make(ctx, s);
    s->d.width = NULL;
    for (k = 0; k < 2 && !st; k++) {
        s->basis[k].signal = -1;
        s->basis[k].q = (float *)tinyi_alloc(ctx, (size_t)s->m->n_embd, (size_t)s->m->n_embd * sizeof(float));
        if (!s->basis[k].q) st = tiny_ctx_status(ctx);
    }
    if (st) tllm_sliced_close(ctx, s);
    else *out = s;
    return st;
}

TINY_API void tllm_sliced_close(tiny_ctx *ctx, tllm_sliced *s)
{
    if (!s || s->magic != TINYI_SLICE_MAGIC || tinyi_ctx_check(ctx)) return;
    s->magic = 0;
    tiny_free(ctx, s->basis[1].q);
    tiny_free(ctx, s->basis[0].q);
    tiny_free(ctx, s->out);
    tiny_free(ctx, s->seen);
    tiny_free(ctx, s->width);
    tllm_folds_close(ctx, s->folds);
    tllm_model_close(ctx, s->m);
    tiny_free(ctx, s);
}

TINY_API tllm_sliced_about tllm_sliced_what(const tllm_sliced *s)
{
    tllm_sliced_about none;
    memset(&none, 0, sizeof none);
    return s && s->magic == TINYI_SLICE_MAGIC ? s->about : none;
}

TINY_API tiny_idx tllm_sliced_width(const tllm_sliced *s, tiny_idx i)
{
    return s && s->magic == TINYI_SLICE_MAGIC && i >= 0 && i <= 2 * s->m->n_layer ? s->width[i] : 0;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

enum { TINYI_SLICE_EMBED, TINYI_SLICE_MIX, TINYI_SLICE_FEED, TINYI_SLICE_BOTH };
typedef struct tinyi_slice_text {
    tiny_ctx *ctx;
    tllm_sliced *s;
    tllm_state *state;
    const int32_t *token;
    tiny_idx n, window;
    float *x, *y;                           /* the stream of all tokens (n, D); what a half adds (window, D) */
    double done, part;                      /* shares of the work */
} tinyi_slice_text;

/* y (n, D) = what a part of the original model adds to the stream x of n tokens, which begin a sequence. Norms are RMS
 * norms: layer norms see rows without a mean, and those of a projected stream may have a little of one. */
static tiny_status tinyi_slice_part(const tinyi_slice_text *q, const tinyi_lm_layer *l, int part, const int32_t *token,
                                    tiny_idx n, const float *x, float *y)
{
    tllm_state *s = q->state;
    const tllm_model *m = s->m;
    const tiny_idx D = m->n_embd;
    const tinyi_lm_w *two;
    tinyi_lm_w norm[3];
    tinyi_lm_fwd f;
    float *h, *u;
    tiny_idx i;
    tiny_status st = tinyi_stream_begin(q->ctx, "slice", s, token, n, &f);
    if (st) return st;
    if (part == TINYI_SLICE_EMBED) {
        tinyi_lm_embed(&f, y);
        return f.st;
    }
    tinyi_lm_rope_tables(&f);
    h = tinyi_lm_take(&f, n, D);
    u = part == TINYI_SLICE_BOTH ? tinyi_lm_take(&f, n, D) : NULL;
    if (f.st) return f.st;
    memset(norm, 0, sizeof norm);
    norm[0] = *l->norm1;
    if (l->norm2) norm[1] = *l->norm2;
    two = l->w[TINYI_T_ATTN_NORM_2];
    if (two) norm[2] = *two;
    for (i = 0; i < 3; i++) norm[i].widen = 1.0f;
    if (part == TINYI_SLICE_FEED) {
        tinyi_lm_norm(&f, &norm[1], h, x, n, D);
        tinyi_lm_feed(&f, l, y, h);
        tinyi_lm_settle(&f, l, 1, y);
        return f.st;
    }
    tinyi_lm_norm(&f, part == TINYI_SLICE_BOTH && two ? &norm[2] : &norm[0], h, x, n, D);
    tinyi_lm_mix(&f, l, y, h);
    if (part == TINYI_SLICE_MIX) tinyi_lm_settle(&f, l, 0, y);
    else {
        if (l->norm2 || two) tinyi_lm_norm(&f, l->norm2 ? &norm[1] : &norm[0], h, x, n, D);
        tinyi_lm_feed(&f, l, u, h);
        tinyi_lm_add(&f, y, y, u, n * D);
    }
    return f.st;
}

static void tinyi_slice_told(const tinyi_slice_text *q, double share)
{
    if (q->ctx->desc.progress) q->ctx->desc.progress(q->ctx->desc.user, "slice", q->done + q->part * share);
}
static tiny_status tinyi_slice_stopped(const tinyi_slice_text *q)
{
    tiny_ctx *ctx = q->ctx;
    return ctx->desc.cancel && ctx->desc.cancel(ctx->desc.user)
               ? tinyi_fail(ctx, TINY_E_CANCELLED, "slice: the cancel callback asked to stop")
               : TINY_OK;
}

TINY_REF_BEGIN
/* x += y, or x = y; then the mean of each row goes */
static void tinyi_slice_step(float *x, const float *y, int add, int centre, tiny_idx n, tiny_idx D)
{
    tiny_idx i, k;
    for (i = 0; i < n; i++) {
        double mean = 0.0;
        for (k = 0; k < D; k++) {
            x[i * D + k] = add ? x[i * D + k] + y[i * D + k] : y[i * D + k];
            mean += (double)x[i * D + k];
        }
        mean /= (double)D;
        for (k = 0; centre && k < D; k++) x[i * D + k] = (float)((double)x[i * D + k] - mean);
    }
}
static double tinyi_slice_energy(const float *x, tiny_idx n)
{
    double sum = 0.0;
    tiny_idx i;
    for (i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}
TINY_REF_END

/* a signal: what the part adds to the stream of all tokens */
static tiny_status tinyi_slice_signal(tinyi_slice_text *q, const tinyi_lm_layer *l, int part)
{
    const tiny_idx D = q->s->m->n_embd;
    const int centre = q->s->m->norm != TINYI_LM_RMS;
    tiny_idx at, n;
    tiny_status st = TINY_OK;
    for (at = 0; at < q->n && !st; at += n) {
        n = TINYI_MIN(q->n - at, q->window);
        st = tinyi_slice_stopped(q);
        if (!st) st = tinyi_slice_part(q, l, part, q->token + at, n, q->x + at * D, q->y);
        if (!st) tinyi_slice_step(q->x + at * D, q->y, part != TINYI_SLICE_EMBED, centre, n, D);
        tinyi_slice_told(q, 0.6 * (double)(at + n) / (double)q->n);
    }
    return st;
}

/* b->q = the kept axes, as they are or rotated among each other */
static tiny_status tinyi_slice_basis_of(tiny_ctx *ctx, const tllm_sliced *s, const tiny_tensor *x, tiny_idx signal,
                                        tinyi_slice_basis *b)
{
    const uint64_t seed = s->d.seed ^ (uint64_t)(signal + 1) << 32;
    const tiny_idx D = x->dim[1], d = b->d;
    double *axes = (double *)tinyi_alloc(ctx, (size_t)D, (size_t)D * sizeof *axes);
    float *kept = axes && !s->d.ordered ? (float *)tinyi_alloc(ctx, (size_t)(D + d), (size_t)d * sizeof *kept) : NULL;
    const tiny_tensor all = tiny_tensor_2d(axes, TINY_F64, D, D), some = tiny_tensor_2d(axes, TINY_F64, d, d),
                      first = tiny_tensor_2d(kept, TINY_F32, D, d), q = tiny_tensor_2d(b->q, TINY_F32, D, d);
    float *to = kept ? kept : b->q;
    tiny_tensor turn;
    tiny_idx i, k;
    tiny_status st = axes && (kept || s->d.ordered) ? TINY_OK : tiny_ctx_status(ctx);
    if (!st) st = tllm_slice_axes(ctx, x, s->d.by, seed, &all);
    for (i = 0; i < D && !st; i++)
        for (k = 0; k < d; k++) to[i * d + k] = (float)axes[i * D + k];
    if (kept && !st) st = tinyi_slice_random(ctx, seed, 2, d, &some);
    if (kept && !st) {
        turn = tiny_tensor_2d(kept + D * d, TINY_F32, d, d);
        for (i = 0; i < d * d; i++) kept[D * d + i] = (float)axes[i];
        st = tiny_matmul(ctx, &first, &turn, NULL, TINY_ACT_NONE, &q);
    }
    tiny_free(ctx, kept);
    tiny_free(ctx, axes);
    return st;
}

/* The basis of a signal from the stream, in the place of the older one; the stream then has what the basis keeps. */
static tiny_status tinyi_slice_turn(tinyi_slice_text *q, tiny_idx signal)
{
    tllm_sliced *s = q->s;
    tiny_ctx *ctx = q->ctx;
    const tiny_idx D = s->m->n_embd, d = s->width[signal];
    const tiny_tensor x = tiny_tensor_2d(q->x, TINY_F32, q->n, D);
    const double before = tinyi_slice_energy(q->x, q->n * D);
    const tinyi_slice_basis older = s->basis[0];
    tinyi_slice_basis *b = &s->basis[1];
    double after = 0.0;
    tiny_idx at, n;
    tiny_status st;
    s->basis[0] = *b;
    *b = older;
    b->signal = signal;
    b->d = d;
    st = tinyi_slice_basis_of(ctx, s, &x, signal, b);
    for (at = 0; at < q->n && d < D && !st; at += n) {
        const tiny_tensor axes = tiny_tensor_2d(b->q, TINY_F32, D, d), turned = tiny_tensor_swap(axes, 0, 1);
        tiny_tensor wide, narrow;
        n = TINYI_MIN(q->n - at, q->window);
        wide = tiny_tensor_2d(q->x + at * D, TINY_F32, n, D);
        narrow = tiny_tensor_2d(q->y, TINY_F32, n, d);
        st = tiny_matmul(ctx, &wide, &axes, NULL, TINY_ACT_NONE, &narrow);
        if (!st) after += tinyi_slice_energy(q->y, n * d);
        if (!st) st = tiny_matmul(ctx, &narrow, &turned, NULL, TINY_ACT_NONE, &wide);
    }
    if (!st && d < D && before > after) s->about.lost += (before - after) / before / (double)s->about.n_signals;
    tinyi_slice_told(q, 0.8);
    return st;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static const tinyi_slice_basis *tinyi_slice_basis_at(const tllm_sliced *s, tiny_idx signal)
{
    return &s->basis[s->basis[1].signal == signal];
}

/* numbers of some rows to the file */
static tiny_status tinyi_slice_pack(tiny_ctx *ctx, const tinyi_slice_out *o, const float *x, tiny_idx n, void *to,
                                    tllm_writer *w)
{
    const tllm_format *f = tllm_format_of(o->format);
    f->pack(x, to, (size_t)n, NULL);
    return tllm_writer_data(ctx, w, to, tllm_format_bytes(f, (uint64_t)n));
}

/* a row of an embedding that is normed before it is the stream */
static void tinyi_slice_normed(const tllm_model *m, float *x, tiny_idx D)
{
    const tinyi_lm_w *norm = m->top.w[TINYI_T_TOKEN_EMBD_NORM];
    double mean = 0.0, square = 0.0, r;
    tiny_idx i;
    for (i = 0; i < D; i++) mean += (double)x[i] / (double)D;
    for (i = 0; i < D; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)D;
    r = 1.0 / tinyi_sqrt64(square + (double)m->eps);
    for (i = 0; i < D; i++)
        x[i] = (float)(((double)x[i] - mean) * r * (double)norm->v[i] + (norm->bias ? (double)norm->bias[i] : 0.0));
}

/* rows from row on of a tensor of rows of D numbers, or of floats */
static void tinyi_slice_rows(const tllm_sliced *s, const tinyi_slice_out *o, tiny_idx row, tiny_idx rows, float *x)
{
    const tllm_model *m = s->m;
    const tiny_idx D = m->n_embd;
    const tllm_format *f = o->v ? NULL : tllm_format_of(o->t->type);
    tiny_idx i, k;
    if (o->v) memcpy(x, o->v + row * D, (size_t)(rows * D) * sizeof *x);
    else f->unpack(o->t->data + (size_t)row * tllm_format_bytes(f, (uint64_t)D), x, (size_t)(rows * D));
    for (i = 0; i < rows; i++, x += D) {
        if (o->embed && m->top.w[TINYI_T_TOKEN_EMBD_NORM]) tinyi_slice_normed(m, x, D);
        if (o->centre) tinyi_slice_step(x, x, 0, 1, 1, D);
        for (k = 0; o->norm && k < D; k++) x[k] *= o->norm->v[k];
    }
}

static tiny_status tinyi_slice_put_rows(tiny_ctx *ctx, const tllm_sliced *s, const tinyi_slice_out *o, tllm_writer *w)
{
    const tinyi_slice_basis *b = tinyi_slice_basis_at(s, o->from >= 0 ? o->from : o->to);
    const tiny_tensor q = tiny_tensor_2d(b->q, TINY_F32, s->m->n_embd, b->d);
    const tiny_idx D = s->m->n_embd, part = (tiny_idx)(1 << 20) / D + 1;
    const size_t packed = tllm_format_bytes(tllm_format_of(o->format), (uint64_t)b->d);
    float *x = (float *)tinyi_alloc(ctx, (size_t)part, (size_t)D * sizeof *x),
          *y = x ? (float *)tinyi_alloc(ctx, (size_t)part, (size_t)b->d * sizeof *y) : NULL;
    void *bytes = y ? tinyi_alloc(ctx, (size_t)part, packed) : NULL;
    tiny_idx rows = 1, row, now;
    int k;
    tiny_status st = bytes ? TINY_OK : tiny_ctx_status(ctx);
    for (k = 1; k < o->rank; k++) rows *= (tiny_idx)o->dim[k];
    for (row = 0; row < rows && !st; row += now) {
        tiny_tensor tx, ty;
        now = TINYI_MIN(part, rows - row);
        tinyi_slice_rows(s, o, row, now, x);
        tx = tiny_tensor_2d(x, TINY_F32, now, D);
        ty = tiny_tensor_2d(y, TINY_F32, now, b->d);
        st = tiny_matmul(ctx, &tx, &q, NULL, TINY_ACT_NONE, &ty);
        if (!st) st = tinyi_slice_pack(ctx, o, y, now * b->d, bytes, w);
    }
    tiny_free(ctx, bytes);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    return st;
}

/* of a matrix (D, n): the mean of each column goes, if the stream has none */
static void tinyi_slice_centre(float *x, tiny_idx D, tiny_idx n)
{
    tiny_idx i, k;
    for (k = 0; k < n; k++) {
        double mean = 0.0;
        for (i = 0; i < D; i++) mean += (double)x[i * n + k];
        mean /= (double)D;
        for (i = 0; i < D; i++) x[i * n + k] = (float)((double)x[i * n + k] - mean);
    }
}

static tiny_status tinyi_slice_put_columns(tiny_ctx *ctx, const tllm_sliced *s, const tinyi_slice_out *o,
                                           tllm_writer *w)
{
    const tinyi_slice_basis *b = tinyi_slice_basis_at(s, o->to);
    const tiny_idx D = s->m->n_embd, n = o->w->n_in;
    const tiny_tensor q = tiny_tensor_2d(b->q, TINY_F32, D, b->d), turned = tiny_tensor_swap(q, 0, 1);
    float *x = (float *)tinyi_alloc(ctx, (size_t)D, (size_t)n * sizeof *x),
          *y = x ? (float *)tinyi_alloc(ctx, (size_t)b->d, (size_t)n * sizeof *y) : NULL;
    void *bytes = y ? tinyi_alloc(ctx, (size_t)b->d, tllm_format_bytes(tllm_format_of(o->format), (uint64_t)n)) : NULL;
    const tiny_tensor tx = tiny_tensor_2d(x, TINY_F32, D, n), ty = tiny_tensor_2d(y, TINY_F32, b->d, n);
    tiny_idx e;
    tiny_status st = bytes ? TINY_OK : tiny_ctx_status(ctx);
    for (e = 0; e < o->w->n_mat && !st; e++) {
        tllm_format_of(o->t->type)->unpack(o->t->data + (size_t)e * (size_t)D * o->w->row_bytes, x, (size_t)(D * n));
        if (o->centre) tinyi_slice_centre(x, D, n);
        st = tiny_matmul(ctx, &turned, &tx, NULL, TINY_ACT_NONE, &ty);
        if (!st) st = tinyi_slice_pack(ctx, o, y, b->d * n, bytes, w);
    }
    tiny_free(ctx, bytes);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    return st;
}

/* b + W beta, in double */
static tiny_status tinyi_slice_put_bias(tiny_ctx *ctx, const tllm_sliced *s, const tinyi_slice_out *o, tllm_writer *w)
{
    const tiny_idx D = s->m->n_embd, n = o->w->n_out;
    const tllm_format *f = o->w->format;
    float *x = (float *)tinyi_alloc(ctx, (size_t)D, sizeof *x), *y = x ? (float *)tinyi_alloc(ctx, (size_t)n, 4) : NULL;
    void *bytes = y ? tinyi_alloc(ctx, (size_t)n, 4) : NULL;
    tiny_idx i, k;
    tiny_status st = bytes ? TINY_OK : tiny_ctx_status(ctx);
    for (i = 0; i < n && !st; i++) {
        double sum = o->w->bias ? (double)o->w->bias[i] : 0.0;
        f->unpack(o->w->t->data + (size_t)i * o->w->row_bytes, x, (size_t)D);
        for (k = 0; k < D; k++) sum += (double)x[k] * (double)o->norm->bias[k];
        y[i] = (float)sum;
    }
    if (!st) st = tinyi_slice_pack(ctx, o, y, n, bytes, w);
    tiny_free(ctx, bytes);
    tiny_free(ctx, y);
    tiny_free(ctx, x);
    return st;
}

/* (d after, d before) = transposed bases, one times the other; or a constant gain */
static tiny_status tinyi_slice_put_new(tiny_ctx *ctx, const tllm_sliced *s, const tinyi_slice_out *o, tllm_writer *w)
{
    const tinyi_slice_basis *a = tinyi_slice_basis_at(s, o->from), *b = tinyi_slice_basis_at(s, o->to);
    const tiny_idx D = s->m->n_embd, n = (tiny_idx)o->dim[0], rows = o->rank > 1 ? (tiny_idx)o->dim[1] : 1;
    const float gain = (float)tinyi_sqrt64((double)D / (double)n);
    float *y = (float *)tinyi_alloc(ctx, (size_t)rows, (size_t)n * sizeof *y);
    void *bytes = y ? tinyi_alloc(ctx, (size_t)rows, tllm_format_bytes(tllm_format_of(o->format), (uint64_t)n)) : NULL;
    tiny_idx i;
    tiny_status st = bytes ? TINY_OK : tiny_ctx_status(ctx);
    if (!st && o->kind == TINYI_SLICE_SHORTCUT) {
        const tiny_tensor qa = tiny_tensor_2d(a->q, TINY_F32, D, n), qb = tiny_tensor_2d(b->q, TINY_F32, D, rows),
                          turned = tiny_tensor_swap(qb, 0, 1), ty = tiny_tensor_2d(y, TINY_F32, rows, n);
        st = tiny_matmul(ctx, &turned, &qa, NULL, TINY_ACT_NONE, &ty);
    } else
        for (i = 0; i < n && !st; i++) y[i] = gain;
    if (!st) st = tinyi_slice_pack(ctx, o, y, rows * n, bytes, w);
    tiny_free(ctx, bytes);
    tiny_free(ctx, y);
    return st;
}

/* the tensors that the bases of a stage complete */
static tiny_status tinyi_slice_stage(tinyi_slice_text *q, tiny_idx stage, size_t *at, tllm_writer *w)
{
    const tllm_sliced *s = q->s;
    tiny_ctx *ctx = q->ctx;
    tiny_status st = TINY_OK;
    for (; *at < s->n_out && s->out[*at].stage <= stage && !st; ++*at) {
        const tinyi_slice_out *o = &s->out[*at];
        st = tinyi_slice_stopped(q);
        if (st) break;
        switch (o->kind) {
        case TINYI_SLICE_ROWS: st = tinyi_slice_put_rows(ctx, s, o, w); break;
        case TINYI_SLICE_COLUMNS: st = tinyi_slice_put_columns(ctx, s, o, w); break;
        case TINYI_SLICE_BIAS: st = tinyi_slice_put_bias(ctx, s, o, w); break;
        case TINYI_SLICE_NORM:
        case TINYI_SLICE_SHORTCUT: st = tinyi_slice_put_new(ctx, s, o, w); break;
        default: st = tllm_writer_data(ctx, w, o->t->data, o->t->bytes); break;
        }
    }
    tinyi_slice_told(q, 1.0);
    q->done += q->part;
    return st;
}

static tiny_status tinyi_slice_keys(tiny_ctx *ctx, const tllm_sliced *s, tllm_writer *w)
{
    static const char *const way[TLLM_SLICE_WAYS] = { "pca", "columns", "random", "first" };
    const size_t n = 2 * (size_t)s->m->n_layer + 1;
    const char *arch = TINYI_LM_ARCH(s->m)->name;
    uint32_t *width = (uint32_t *)tinyi_alloc(ctx, n, sizeof *width);
    char key[160];
    size_t i;
    tiny_status st = width ? tinyi_stream_keys(ctx, s->file, TINYI_SLICED_PREFIX, w) : tiny_ctx_status(ctx);
    for (i = 0; width && i < n; i++) width[i] = (uint32_t)s->width[i];
    (void)snprintf(key, sizeof key, "%s%s.slice.width", TINYI_SLICED_PREFIX, arch);
    if (!st) st = tllm_writer_put_array(ctx, w, key, TLLM_U32, width, n);
    (void)snprintf(key, sizeof key, "%s%s.slice.by", TINYI_SLICED_PREFIX, arch);
    if (!st) st = tllm_writer_put_text(ctx, w, key, way[s->d.by]);
    tiny_free(ctx, width);
    return st;
}

static tiny_status tinyi_slice_run(tinyi_slice_text *q, tllm_writer *w)
{
    tllm_sliced *s = q->s;
    const tllm_model *m = s->m;
    const int parallel = m->block == TINYI_LM_PARALLEL;
    const tiny_idx last = 2 * m->n_layer;
    tiny_idx i;
    size_t at = 0;
    tiny_status st = tinyi_slice_keys(q->ctx, s, w);
    for (at = 0; at < s->n_out && !st; at++) {
        const tinyi_slice_out *o = &s->out[at];
        tllm_text name;
        name.at = o->name;
        name.n = strlen(o->name);
        st = tllm_writer_put_tensor(q->ctx, w, name, o->format, o->rank, o->dim, NULL);
    }
    at = 0;
    q->part = 1.0 / (double)(s->about.n_signals + 1);
    if (!st) st = tinyi_slice_signal(q, NULL, TINYI_SLICE_EMBED);
    if (!st) st = tinyi_slice_turn(q, 0);
    if (!st) st = tinyi_slice_stage(q, 0, &at, w);
    for (i = parallel ? 2 : 1; i <= last && !st; i += parallel ? 2 : 1) {
        const tinyi_lm_layer *l = &m->layer[(i - 1) / 2];
        st = tinyi_slice_signal(q, l, parallel ? TINYI_SLICE_BOTH : i % 2 ? TINYI_SLICE_MIX : TINYI_SLICE_FEED);
        if (!st) st = tinyi_slice_turn(q, i);
        if (!st) st = tinyi_slice_stage(q, i, &at, w);
    }
    return st ? st : tinyi_slice_stage(q, last + 1, &at, w);
}

TINY_API tiny_status tllm_sliced_put(tiny_ctx *ctx, tllm_sliced *s, const int32_t *token, tiny_idx n, tllm_writer *w)
{
    tinyi_slice_text q;
    tllm_state_desc room;
    tiny_idx i;
    tiny_status st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!s || s->magic != TINYI_SLICE_MAGIC || !w || !token || n < 1)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: an open model, a writer and at least one token are needed");
    for (i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= s->m->n_vocab)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "slice: token %td of the text is %d, but the model has %td", i,
                              (int)token[i], s->m->n_vocab);
    memset(&q, 0, sizeof q);
    memset(&room, 0, sizeof room);
    q.ctx = ctx;
    q.s = s;
    q.token = token;
    q.n = n;
    q.window = s->d.window ? s->d.window : 512;
    q.window = TINYI_MIN(q.window, TINYI_MIN(s->m->n_context, n));
    s->about.lost = 0.0;
    s->about.tokens = n;
    s->basis[0].signal = s->basis[1].signal = -1;
    room.n_ctx = room.n_batch = q.window;
    q.x = (float *)tinyi_alloc(ctx, (size_t)n, (size_t)s->m->n_embd * sizeof(float));
    q.y = q.x ? (float *)tinyi_alloc(ctx, (size_t)q.window, (size_t)s->m->n_embd * sizeof(float)) : NULL;
    st = q.y ? tllm_state_open(ctx, s->m, &room, &q.state) : tiny_ctx_status(ctx);
    if (!st) st = tinyi_slice_run(&q, w);
    tllm_state_close(ctx, q.state);
    tiny_free(ctx, q.y);
    tiny_free(ctx, q.x);
    return st;
}
