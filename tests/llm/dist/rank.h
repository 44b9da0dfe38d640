/* tests/llm/dist/rank.h - a model on one of the ranks that it is cut over, for functions of t_ranks
 *
 * Each call does nothing after a failure; t_rank_leave reports it and frees everything. */
#ifndef T_RANK_H
#define T_RANK_H
#include "t.h"

typedef struct t_rank {
    tiny_ctx *ctx;
    tiny_comm *comm;
    tllm_gguf *file;
    tllm_model *model;
    tllm_state *state;
    tiny_status st;
} t_rank;

/* a model of a file, whose path or bytes are given; cd NULL: on one rank */
T_FN t_rank t_rank_model(tiny_target target, const tiny_comm_desc *cd, const char *path, const void *bytes,
                         size_t n_bytes)
{
    t_rank r;
    memset(&r, 0, sizeof r);
    r.ctx = t_rank_ctx(target);
    if (cd) r.st = tiny_comm_open(r.ctx, cd, &r.comm);
    if (!r.st)
        r.st = path ? tllm_gguf_open(r.ctx, path, &r.file) : tllm_gguf_open_memory(r.ctx, bytes, n_bytes, &r.file);
    if (!r.st) r.st = tllm_model_open(r.ctx, r.file, &r.model);
    return r;
}

T_FN void t_rank_cut(t_rank *r, int rank, int world)
{
    if (!r->st) r->st = tllm_model_cut(r->ctx, r->model, rank, world);
}

T_FN void t_rank_state(t_rank *r, tiny_idx n_ctx, tiny_idx n_batch)
{
    tllm_state_desc d;
    memset(&d, 0, sizeof d);
    d.n_ctx = n_ctx;
    d.n_batch = n_batch;
    d.comm = r->comm;
    if (!r->st) r->st = tllm_state_open(r->ctx, r->model, &d, &r->state);
}

T_FN tiny_status t_rank_leave(t_rank *r, char *says, size_t room)
{
    (void)snprintf(says, room, "%s", tiny_ctx_message(r->ctx));
    tllm_state_close(r->ctx, r->state);
    tllm_model_close(r->ctx, r->model);
    tllm_gguf_close(r->ctx, r->file);
    tiny_comm_close(r->comm);
    tiny_ctx_close(r->ctx);
    return r->st;
}
#endif
