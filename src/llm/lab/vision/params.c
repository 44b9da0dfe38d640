/* src/llm/lab/vision/params.c - the parameters of a network in one block of memory */
#include "llm/lab/vision/params_inside.h"
#include "math/table_inside.h"
#include "math/rows_inside.h"
#include "math/init.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

TINYI_FN void tinyi_params_begin(tinyi_params *p, tiny_ctx *ctx, tiny_dtype dtype, tiny_rng rng)
{
    memset(p, 0, sizeof *p);
    p->ctx = ctx;
    p->dtype = dtype;
    p->rng = rng;
    p->fits = 1;
}

static tiny_status tinyi_params_fill(tinyi_params *p, const tiny_tensor *t, tinyi_first first)
{
    tiny_idx i;
    switch (first) {
    case TINYI_FIRST_XAVIER: return tiny_init_xavier(p->ctx, &p->rng, t);
    case TINYI_FIRST_SMALL: return tiny_init_normal(p->ctx, &p->rng, t, 0.02);
    case TINYI_FIRST_UNIFORM:
        for (i = 0; i < tiny_tensor_count(t); i++)
            tinyi_real_set(t->data, t->dtype, i, 2.0 * tiny_rng_uniform64(&p->rng) - 1.0);
        return TINY_OK;
    default: return tiny_init_constant(p->ctx, t, first == TINYI_FIRST_ONE ? 1.0 : 0.0);
    }
}

TINYI_FN void tinyi_params_add(tinyi_params *p, tiny_tensor *t, tinyi_first first, int group, int rank,
                               const tiny_idx *dim, const char *name, ...)
{
    size_t count = 1;
    int i;
    for (i = 0; i < rank; i++) p->fits = p->fits && tinyi_size_mul(count, (size_t)dim[i], &count);
    if (p->numbers) {
        const size_t es = tiny_dtype_bytes(p->dtype);
        tiny_param *q = &p->param[p->n];
        va_list args;
        va_start(args, name);
        (void)vsnprintf(p->name[p->n], sizeof p->name[0], name, args);
        va_end(args);
        q->name = p->name[p->n];
        q->value = q->grad = *t = tiny_tensor_nd((unsigned char *)p->numbers + p->at * es, p->dtype, rank, dim);
        q->grad.data = (unsigned char *)p->numbers + (p->half + p->at) * es;
        q->group = group;
        if (!p->st) p->st = tinyi_params_fill(p, t, first);
    }
    p->fits = p->fits && tinyi_size_add(p->at, count, &p->at);
    p->n++;
}

TINYI_FN tiny_status tinyi_params_place(tinyi_params *p, const char *who)
{
    const size_t es = tiny_dtype_bytes(p->dtype);
    if (!p->fits || p->at > SIZE_MAX / 16)
        return tinyi_fail(p->ctx, TINY_E_OVERFLOW, "%s: the weights are more than can be addressed", who);
    p->param = (tiny_param *)tinyi_alloc(p->ctx, p->n, sizeof *p->param);
    if (p->param) p->name = (char (*)[56])tinyi_alloc(p->ctx, p->n, sizeof *p->name);
    if (p->name) p->numbers = tinyi_alloc(p->ctx, 2 * p->at, es);
    if (!p->numbers) return tiny_ctx_status(p->ctx);
    memset(p->numbers, 0, 2 * p->at * es);
    p->half = p->at;
    p->n = p->at = 0;
    return TINY_OK;
}

TINYI_FN void tinyi_params_free(tinyi_params *p)
{
    tiny_free(p->ctx, p->numbers);
    tiny_free(p->ctx, p->name);
    tiny_free(p->ctx, p->param);
    p->numbers = NULL;
    p->name = NULL;
    p->param = NULL;
}
