/* src/llm/session/session_inside.h - what a session is inside */
#ifndef TINYI_SESSION_INSIDE_H
#define TINYI_SESSION_INSIDE_H
#include "core/file.h"
#include "llm/session/session.h"
TINYI_C_BEGIN

struct tllm_session {
    tiny_ctx *ctx;
    tllm_gguf *file;
    tllm_model *model;
    tllm_vocab *vocab;
    tllm_state *state;                      /* the text of the session is its sequence 0 */
    tllm_about about;
    tiny_idx n_ctx, n_batch;
    int32_t *token, *spare;                 /* (n_ctx) held by the state; room for a shift */
    size_t n;
    float *logits;                          /* (n_vocab); NULL: the model gives none */
    tllm_pieces *pieces;                    /* what tokens write, for grammars; NULL: none has asked yet */
};

/* Refuses where there is no session, where its model is an encoder, and, for logits, where the model gives none. */
TINYI_FN tiny_status tinyi_session_text(const tllm_session *s, int logits);

TINYI_C_END
#endif
