/* src/llm/lab/nets/slim_fit.c - training of the networks of slim.h: all widths in each step, codes in the loop,
 * statistics of norms anew
 * Formula  see llm/lab/nets/slim.c. On the tape codes are clamp(z / step), rounded with the gradient passed straight
 *          through, times step. */
#include "llm/lab/nets/slim_inside.h"
#include "math/layer.h"
#include "math/sort.h"
#include "math/grad_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include <string.h>

static tiny_status tinyi_slim_set_check(const tllm_slim *s, const tllm_nn_set *set)
{
    tiny_status st = tinyi_nn_set_check(s->ctx, set, s->is.n_class);
    if (!st && (set->x.rank != 4 || set->x.dim[1] != s->is.in[0] || set->x.dim[2] != s->is.in[1] ||
                set->x.dim[3] != s->is.in[2]))
        st = tinyi_fail(s->ctx, TINY_E_SHAPE, "slim: x must be (n, %td, %td, %td)", s->is.in[0], s->is.in[1],
                        s->is.in[2]);
    return st;
}

typedef enum tinyi_slim_mode { TINYI_SLIM_TRAIN, TINYI_SLIM_EVAL, TINYI_SLIM_COUNT } tinyi_slim_mode;

typedef struct tinyi_slim_run {
    tllm_slim *s;
    const tllm_slim_fit_desc *d;
    const tllm_nn_set *set;
    tinyi_slim_mode encoder, tail;          /* of their norms */
    float momentum;                         /* COUNT: 1 / (batches so far + 1) */
    int rounded;                            /* codes in the loop */
    int64_t step, epoch_steps, first_rounded;
    int batches;                            /* for the statistics of norms */
    tiny_status st;
} tinyi_slim_run;

static tiny_tensor tinyi_slim_none(void)
{
    tiny_tensor t;
    memset(&t, 0, sizeof t);
    return t;
}

/* The first n_out and n_in of a kernel's two first axes. */
static tiny_tensor tinyi_slim_part(tiny_tensor w, tiny_idx n_out, tiny_idx n_in)
{
    w.dim[0] = n_out;
    if (w.rank > 1) w.dim[1] = n_in;
    return w;
}

static tiny_tensor tinyi_slim_normed(tiny_tape *tape, tinyi_slim_run *r, int norm, int version, const tiny_tensor *x)
{
    const tinyi_slim_mode mode = norm < 2 ? r->encoder : r->tail;
    tllm_slim *s = r->s;
    const tiny_tensor *gain = tinyi_slim_norm(s, norm, version, 0, 0), *bias = tinyi_slim_norm(s, norm, version, 0, 1),
                      *mean = tinyi_slim_norm(s, norm, version, 1, 0), *var = tinyi_slim_norm(s, norm, version, 1, 1);
    tiny_batch_norm_params p;
    tiny_tensor y;
    memset(&p, 0, sizeof p);
    p.train = mode != TINYI_SLIM_EVAL;
    if (mode == TINYI_SLIM_COUNT) p.momentum = r->momentum;
    y = tiny_tape_batch_norm(tape, x, gain, bias, mean, var, &p);
    return tiny_tape_call(tape, TINY_OP_RELU, &y, NULL, NULL, NULL, NULL);
}

static tiny_tensor tinyi_slim_layer(tiny_tape *tape, tinyi_slim_run *r, int norm, int version, const tiny_tensor *x,
                                    const tiny_tensor *w, int stride, int groups)
{
    tiny_conv2d_params p;
    tiny_tensor y;
    memset(&p, 0, sizeof p);
    p.stride[0] = p.stride[1] = stride;
    p.pad[0] = p.pad[1] = p.pad[2] = p.pad[3] = 1;
    p.groups = groups;
    y = tiny_tape_call(tape, TINY_OP_CONV2D, x, w, NULL, NULL, &p);
    return tinyi_slim_normed(tape, r, norm, version, &y);
}

/* (n, numbers of all members) of an image; prefix: those of width m */
static tiny_tensor tinyi_slim_sent(tiny_tape *tape, tinyi_slim_run *r, const tiny_tensor *x, int m)
{
    tllm_slim *s = r->s;
    const int k = s->is.members, groups = s->is.prefix ? 1 : k, v = s->is.prefix ? m - 1 : 0;
    const tiny_idx n = tinyi_slim_channels(s, 0, v), in = s->is.prefix ? n : s->is.width,
                   sent = s->is.send * (s->is.prefix ? m : k);
    tiny_tensor w = tinyi_slim_part(s->param[TINYI_SLIM_E1].value, n, s->is.in[0]), h, b, t;
    tiny_conv2d_params p;
    h = tinyi_slim_layer(tape, r, 0, v, x, &w, 2, 1);
    w = tinyi_slim_part(s->param[TINYI_SLIM_E2].value, n, in);
    h = tinyi_slim_layer(tape, r, 1, v, &h, &w, 2, groups);
    w = tinyi_slim_part(s->param[TINYI_SLIM_E3].value, sent, in);
    b = tinyi_slim_part(s->param[TINYI_SLIM_E3B].value, sent, 0);
    memset(&p, 0, sizeof p);
    p.groups = groups;
    h = tiny_tape_call(tape, TINY_OP_CONV2D, &h, &w, &b, NULL, &p);
    if (r->rounded || tiny_tape_dry(tape)) {
        t = tiny_tensor_4d(s->channel, TINY_F32, 1, sent, 1, 1);
        h = tiny_tape_mul(tape, &h, &t);
        h = tiny_tape_clamp(tape, &h, -(double)tinyi_slim_half(s->is.bits), (double)tinyi_slim_half(s->is.bits));
        h = tiny_tape_call(tape, TINY_OP_ROUND, &h, NULL, NULL, NULL, NULL);
        t = tiny_tensor_4d(s->channel + k * s->is.send, TINY_F32, 1, sent, 1, 1);
        h = tiny_tape_mul(tape, &h, &t);
    }
    return h;
}

/* logits of width m */
static tiny_tensor tinyi_slim_logits(tiny_tape *tape, tinyi_slim_run *r, const tiny_tensor *sent, int m)
{
    tllm_slim *s = r->s;
    const tiny_idx all = s->is.members * s->is.send, n = s->is.prefix ? m * s->is.send : all;
    tiny_tensor w = tinyi_slim_part(s->param[TINYI_SLIM_T1].value, s->is.tail, n), h, t;
    tiny_idx dim[2];
    t = tiny_tensor_4d(s->channel + (2 + (m - 1)) * all, TINY_F32, 1, n, 1, 1);
    h = tiny_tape_mul(tape, sent, &t);
    h = tinyi_slim_layer(tape, r, 2, m - 1, &h, &w, 1, 1);
    h = tinyi_slim_layer(tape, r, 3, m - 1, &h, &s->param[TINYI_SLIM_T2].value, 2, 1);
    if (tiny_tape_status(tape)) return tinyi_slim_none();
    dim[0] = h.dim[0];
    dim[1] = s->param[TINYI_SLIM_D].value.dim[1];
    h = tiny_tape_reshape(tape, &h, 2, dim);
    return tiny_tape_linear(tape, &h, &s->param[TINYI_SLIM_D].value, &s->param[TINYI_SLIM_DB].value, TINY_ACT_NONE);
}

static tiny_tensor tinyi_slim_loss(tiny_tape *tape, void *user, const uint32_t *sample, tiny_idx n)
{
    tinyi_slim_run *r = (tinyi_slim_run *)user;
    tllm_slim *s = r->s;
    const int k = s->is.members;
    const tiny_tensor x = tiny_tape_rows(tape, &r->set->x, sample, n),
                      label = tiny_tape_rows(tape, &r->set->label, sample, n);
    tiny_rng rng = tiny_rng_make(r->d->seed, (uint64_t)r->step);
    tiny_tensor sent, y, full, loss, part, z;
    tiny_idx dim[2];
    int m[3], i, wide = r->d->alone ? 0 : k > 2 ? 3 : k - 1;
    m[0] = 1;
    for (i = 1; i < 3; i++) m[i] = k > 2 ? 2 + (int)tiny_rng_below(&rng, (uint32_t)(k - 2)) : 1;
    if (tiny_tape_dry(tape) && s->is.prefix && k > 2) m[1] = m[2] = k - 1;      /* the most memory */
    sent = tinyi_slim_sent(tape, r, &x, k);
    full = tinyi_slim_logits(tape, r, &sent, k);
    loss = tiny_tape_cross_entropy(tape, &full, &label, 0.0);
    full = tiny_tape_constant(tape, &full);
    z = sent;
    for (i = 0; i < wide; i++) {
        if (s->is.prefix) sent = tinyi_slim_sent(tape, r, &x, m[i]);
        if (!i) z = sent;
        y = tinyi_slim_logits(tape, r, &sent, m[i]);
        part = tiny_tape_kl_distill(tape, &y, &full, 1.0);
        if (r->d->half) {
            tiny_tensor hard = tiny_tape_cross_entropy(tape, &y, &label, 0.0);
            part = tiny_tape_add(tape, &part, &hard);
            part = tiny_tape_scale(tape, &part, 0.5, 0.0);
        }
        loss = tiny_tape_add(tape, &loss, &part);
    }
    if (tiny_tape_status(tape)) return tinyi_slim_none();
    z.dim[1] = s->is.send;                  /* the local classifier reads member 0 and does not change it */
    z = tiny_tape_constant(tape, &z);
    dim[0] = n;
    dim[1] = s->each;
    z = tiny_tape_reshape(tape, &z, 2, dim);
    y = tiny_tape_linear(tape, &z, &s->param[TINYI_SLIM_L].value, &s->param[TINYI_SLIM_LB].value, TINY_ACT_NONE);
    part = tiny_tape_cross_entropy(tape, &y, &label, 0.0);
    return tiny_tape_add(tape, &loss, &part);
}

/* Scales and counts from at most `most` samples. The counts of all members have the same sum, below 2^24. */
static tiny_status tinyi_slim_calibrate(tllm_slim *s, const tllm_nn_set *set, tiny_idx most)
{
    const tiny_idx each = s->is.in[0] * s->is.in[1] * s->is.in[2];
    const tiny_idx room = TINYI_MAX(1, TINYI_MIN(most, (tiny_idx)((1 << 22) / s->each)));
    const tiny_idx n = TINYI_MIN(room, set->x.dim[0]);
    const size_t all = (size_t)(n * s->each);
    const int k = s->is.members;
    float *z = (float *)tinyi_alloc(s->ctx, all, (size_t)k * sizeof *z), *sorted = NULL;
    tiny_idx i;
    size_t j;
    int q;
    tiny_status st = TINY_OK;
    if (z) sorted = (float *)tinyi_alloc(s->ctx, all, sizeof *sorted);
    if (!sorted) st = tiny_ctx_status(s->ctx);
    tinyi_slim_fold_encoder(s);
    for (i = 0; !st && i < n; i++) {
        st = tllm_slim_encode(s, (const float *)set->x.data + i * each, 0, k, s->z);
        for (q = 0; !st && q < k; q++)
            memcpy(z + (size_t)q * all + (size_t)(i * s->each), s->z + q * s->each, (size_t)s->each * sizeof *z);
    }
    for (q = 0; !st && q < k; q++) {
        const float *from = z + (size_t)q * all;
        float inverse;
        for (j = 0; j < all; j++) sorted[j] = from[j] < 0.0f ? -from[j] : from[j];
        st = tiny_sort_f32(s->ctx, sorted, NULL, all, 0);
        if (st) break;
        s->a[q] = sorted[(size_t)(0.999 * (double)(all - 1))];
        if (!(s->a[q] > 1e-20f && s->a[q] < 1e20f)) s->a[q] = 1.0f;        /* a member that sends nothing */
        inverse = 1.0f / tllm_slim_step(s, q, 0);
        memset(s->count + q * s->levels, 0, (size_t)s->levels * sizeof *s->count);
        for (j = 0; j < all; j++)
            s->count[q * s->levels + tinyi_slim_code(from[j], inverse, tinyi_slim_half(s->is.bits))] += 1.0f;
    }
    if (!st) tinyi_slim_tables(s);
    tiny_free(s->ctx, sorted);
    tiny_free(s->ctx, z);
    return st;
}

static int tinyi_slim_stepped(void *user, const tiny_train_state *t)
{
    tinyi_slim_run *r = (tinyi_slim_run *)user;
    tllm_slim_fit_state state;
    r->step = t->step;
    if (t->step >= r->first_rounded && (t->step == r->first_rounded || t->step % r->epoch_steps == 0)) {
        r->st = tinyi_slim_calibrate(r->s, r->set, 200);
        r->rounded = 1;
    }
    memset(&state, 0, sizeof state);
    state.step = t->step;
    state.steps = t->steps;
    state.loss = t->loss;
    return r->st || (r->d->callback && r->d->callback(r->d->user, &state));
}

/* A pass over some batches of the set that only updates norms: of the encoder, or of the tail. */
static tiny_status tinyi_slim_recount(tinyi_slim_run *r, tiny_idx batch)
{
    tllm_slim *s = r->s;
    tiny_tape_desc d;
    tiny_tape *tape = NULL;
    uint32_t *sample = (uint32_t *)tinyi_alloc(s->ctx, (size_t)batch, sizeof *sample);
    size_t bytes = 0;
    tiny_idx i, at;
    int pass, b, m;
    tiny_status st = sample ? TINY_OK : tiny_ctx_status(s->ctx);
    for (pass = 0; !st && pass < 2; pass++) {
        memset(&d, 0, sizeof d);
        d.bytes = bytes;
        d.dry = !pass;
        d.no_grad = 1;
        st = tiny_tape_open(s->ctx, &d, &tape);
        for (b = 0, at = 0; !st && b < (pass ? r->batches : 1); b++) {
            const tiny_tape_mark mark = tiny_tape_now(tape);
            tiny_tensor x, sent = tinyi_slim_none();
            for (i = 0; i < batch; i++, at = (at + 1) % r->set->x.dim[0]) sample[i] = (uint32_t)at;
            r->momentum = 1.0f / (float)(b + 1);
            x = tiny_tape_rows(tape, &r->set->x, sample, batch);
            for (m = s->is.members; m >= 1; m--) {
                if (m == s->is.members || s->is.prefix) sent = tinyi_slim_sent(tape, r, &x, m);
                if (r->tail == TINYI_SLIM_COUNT) (void)tinyi_slim_logits(tape, r, &sent, m);
            }
            st = tiny_tape_status(tape);
            tiny_tape_release(tape, mark);
        }
        bytes = tiny_tape_high(tape);
        tiny_tape_close(tape);
    }
    tiny_free(s->ctx, sample);
    return st;
}

TINY_API tiny_status tllm_slim_fit(tllm_slim *s, const tllm_nn_set *set, const tllm_slim_fit_desc *desc)
{
    tllm_slim_fit_desc plain;
    tiny_train_desc t;
    tinyi_slim_run r;
    tiny_status st;
    if (!s) return TINY_E_ARGUMENT;
    st = tinyi_slim_set_check(s, set);
    if (st) return st;
    memset(&plain, 0, sizeof plain);
    memset(&t, 0, sizeof t);
    memset(&r, 0, sizeof r);
    r.s = s;
    r.d = desc ? desc : &plain;
    r.set = set;
    if (!(r.d->lr >= 0.0 && r.d->lr < 1e6))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "slim: a rate of %g is not in 0 to 1e6", r.d->lr);
    t.params = s->param;
    t.n_params = s->n_trained;
    t.model = tinyi_slim_loss;
    t.callback = tinyi_slim_stepped;
    t.user = &r;
    t.n_samples = (uint32_t)set->x.dim[0];
    t.batch = r.d->batch ? r.d->batch : TINYI_MIN(100, set->x.dim[0]);
    t.epochs = r.d->epochs ? r.d->epochs : 12;
    t.seed = r.d->seed;
    t.optim.group[0].kind = TINY_OPTIM_ADAM;
    t.optim.group[0].lr = r.d->lr != 0.0 ? r.d->lr : 4e-3;
    t.schedule.kind = TINY_SCHEDULE_COSINE;
    r.epoch_steps = TINYI_MAX(1, (int64_t)(set->x.dim[0] / TINYI_MAX(1, t.batch)));
    r.first_rounded = TINYI_MAX(1, t.epochs * r.epoch_steps / 3);
    st = tiny_train(s->ctx, &t, NULL);
    if (!st) st = r.st;
    r.batches = (int)TINYI_MIN(100, t.epochs * r.epoch_steps);
    r.encoder = TINYI_SLIM_COUNT;
    r.rounded = 0;
    if (!st) st = tinyi_slim_recount(&r, t.batch);
    if (!st) st = tinyi_slim_calibrate(s, set, 1000);
    r.encoder = TINYI_SLIM_EVAL;
    r.tail = TINYI_SLIM_COUNT;
    r.rounded = 1;
    if (!st) st = tinyi_slim_recount(&r, t.batch);
    tinyi_slim_finish(s);
    return st;
}

TINY_API tiny_status tllm_slim_right(tllm_slim *s, const tllm_nn_set *set, int m, const tllm_slim_pack_desc *desc,
                                     tiny_idx *n_right, double *bytes)
{
    unsigned char *frame = NULL;
    float *logits = NULL, *z = NULL;
    double sum = 0.0;
    tiny_idx i, c, best, right = 0, each;
    size_t room, n = 0;
    int have = 0;
    tiny_status st;
    if (n_right) *n_right = 0;
    if (bytes) *bytes = 0.0;
    if (!s) return TINY_E_ARGUMENT;
    if (!n_right) return tinyi_slim_bad(s, "a result pointer is needed");
    st = tinyi_slim_set_check(s, set);
    if (!st && m) st = tinyi_slim_range(s, 0, m);
    if (st) return st;
    each = s->is.in[0] * s->is.in[1] * s->is.in[2];
    room = tllm_slim_frame_most(s, s->is.members);
    frame = (unsigned char *)tinyi_alloc(s->ctx, room, 1);
    logits = (float *)tinyi_alloc(s->ctx, (size_t)s->is.n_class, sizeof *logits);
    z = (float *)tinyi_alloc(s->ctx, (size_t)(s->is.members * s->each), sizeof *z);
    if (!frame || !logits || !z) st = tiny_ctx_status(s->ctx);
    for (i = 0; !st && i < set->x.dim[0]; i++) {
        st = tllm_slim_encode(s, (const float *)set->x.data + i * each, 0, m ? m : 1, z);
        if (!st && !m) st = tllm_slim_local(s, z, logits);
        if (!st && m) st = tllm_slim_pack(s, z, 0, m, desc, frame, room, &n);
        if (!st && m) st = tllm_slim_unpack(s, frame, n, &have, z);
        if (!st && m) st = tllm_slim_tail(s, z, m, logits);
        for (best = 0, c = 1; !st && c < s->is.n_class; c++) if (logits[c] > logits[best]) best = c;
        right += !st && best == ((const int32_t *)set->label.data)[i];
        sum += (double)n;
    }
    tiny_free(s->ctx, frame);
    tiny_free(s->ctx, logits);
    tiny_free(s->ctx, z);
    if (st) return st;
    *n_right = right;
    if (bytes) *bytes = sum / (double)set->x.dim[0];
    return TINY_OK;
}
