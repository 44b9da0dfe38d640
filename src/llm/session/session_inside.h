/* src/llm/session/session_inside.h - the struct of a session */
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
    tllm_state *state;                      /* sequence 0 is the text of the session */
    tllm_about about;
    tiny_idx n_ctx, n_batch;
    int32_t *token, *spare;                 /* (n_ctx) tokens held by the state; scratch for a shift */
    size_t n;
    float *logits;                          /* (n_vocab); NULL: the model gives none */
    tllm_pieces *pieces;                    /* the bytes of all tokens, for grammars; NULL: not needed so far */
};

/* Fails if s is NULL, if its model is an encoder, or if logits is set and the model gives none. */
TINYI_FN tiny_status tinyi_session_text(const tllm_session *s, int logits);

TINYI_C_END
#endif
