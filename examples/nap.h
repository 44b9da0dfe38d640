/* examples/nap.h - a piece of a pipeline that sleeps; for programs that include tinyllm.h before */
#ifndef EXAMPLES_NAP_H
#define EXAMPLES_NAP_H
#include <string.h>
#include <time.h>

static void doze(double ms)
{
    const uint64_t until = tiny_now_ns() + (uint64_t)(1e6 * ms);
    while (tiny_now_ns() < until) {
#if defined CLOCK_MONOTONIC && !defined _WIN32         /* POSIX */
        const uint64_t left = until - tiny_now_ns();
        struct timespec t;
        t.tv_sec = (time_t)(left / 1000000000u);
        t.tv_nsec = (long)(left % 1000000000u);
        if (left < UINT64_C(1000000000000)) (void)nanosleep(&t, NULL);
#endif
    }
}

/* an operation that copies its input after a nap; its gradient naps twice as long */
static tiny_status nap_shape(tiny_ctx *ctx, const tiny_op *op, tiny_tensor *want)
{
    (void)ctx;
    want[0] = *op->in[0];
    return TINY_OK;
}
static void nap_ref(const tiny_op *op)
{
    doze(*(const double *)op->params);
    memcpy(op->out[0]->data, op->in[0]->data, (size_t)tiny_tensor_count(op->in[0]) * sizeof(float));
}
static void nap_fast(tiny_team *team, const tiny_op *op)
{
    if (team->i == 0) nap_ref(op);
}
static void nap_cost(const tiny_op *op, tiny_cost *cost)
{
    cost->flops = 0.0;
    cost->bytes = 8.0 * (double)tiny_tensor_count(op->in[0]);
}
static tiny_status nap_grad(tiny_grad *g, const tiny_op *op)
{
    if (!tiny_grad_dry(g)) doze(2.0 * *(const double *)op->params);
    return tiny_grad_add(g, 0, tiny_grad_of(g, 0));
}

typedef struct sleeper { tiny_op_row row; float w[4], dw[4]; int pieces; double ms; } sleeper;
static void sleeper_make(sleeper *s)
{
    memset(s, 0, sizeof *s);
    s->row.name = "nap";
    s->row.n_in = s->row.n_in_needed = s->row.n_out = 1;
    s->row.params_size = sizeof(double);
    s->row.shape = nap_shape;
    s->row.ref = nap_ref;
    s->row.fast = nap_fast;
    s->row.cost = nap_cost;
    s->row.grad = nap_grad;
}
static tiny_tensor sleep_piece(tiny_tape *tape, void *user, const tllm_pipe_at *at, const tiny_tensor *x)
{
    sleeper *s = (sleeper *)user;
    const tiny_tensor weights = tiny_tensor_2d(s->w, TINY_F32, 1, 4);
    tiny_tensor out[TINY_OP_MAX_OUT];
    tiny_op op;
    memset(&op, 0, sizeof op);
    memset(out, 0, sizeof out);
    op.row = &s->row;
    op.in[0] = x ? x : &weights;
    op.params = &s->ms;
    (void)tiny_tape_op(tape, &op, out);
    return at->piece == s->pieces - 1 ? tiny_tape_mean(tape, &out[0]) : out[0];
}

#endif
