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
    int borrowed;                           /* file and model are the caller's */
    tllm_vocab *vocab;
    tllm_state *state;                      /* sequence 0 is the text of the session */
    tllm_about about;
    tllm_state_desc desc;                   /* of the state, with its defaults */
    /* of a stitched file: the network that computes, and its view of the file; NULL: the file itself */
    tllm_gguf *view;
    size_t network;
    tiny_idx n_ctx, n_batch;
    int32_t *token, *spare;                 /* (n_ctx) tokens held by the state; scratch for a shift */
    size_t n;
    float *logits;                          /* (n_vocab); NULL: the model gives none */
    tllm_pieces *pieces;                    /* the bytes of all tokens, for grammars; NULL: not needed so far */
};

/* What tllm_generate calls of a draft; the first member of what llm/serve/speculate.c and speculate_tree.c allocate. */
struct tllm_draft {
    /* A new text with this chain. guided: it follows a grammar. */
    tiny_status (*begin)(tllm_draft *draft, const tllm_session *s, const tllm_step *chain, size_t n_steps,
                         uint64_t seed, int guided);
    tiny_status (*sample)(tllm_draft *draft, tllm_sampler *sampler, const float *logits, int32_t *token);
    /* As tllm_session_feed with one token. At most `most` tokens of the text will follow it. */
    tiny_status (*feed)(tllm_draft *draft, int32_t token, size_t most, const float **logits);
    /* Takes back the tokens that are in the state of the session and not in its text. */
    tiny_status (*settle)(tllm_draft *draft);
    void (*close)(tllm_draft *draft);
    const struct tllm_draft_counts *count;
};
/* what a text that is being generated has open */
typedef struct tinyi_generate {
    tllm_sampler *sampler;
    tllm_stop *stop;
    tllm_bytes bytes;                       /* whole characters that came out of the stream */
    char *out;                              /* and what the stop strings let through */
    size_t out_room;
    int found;                              /* the stop string that was found, counted from 1 */
    tllm_grammar_state *state;              /* of the grammar, when there is one */
    char *piece;
    float *masked;                          /* (n_vocab) logits of what the grammar allows */
    unsigned char *may;                     /* (n_vocab) */
} tinyi_generate;

/* Draws a token that the grammar allows, and advances the grammar. *token = -1: it allows no further token. Of s: ctx,
 * vocab, about, pieces. */
TINYI_FN tiny_status tinyi_generate_guided(tllm_session *s, tinyi_generate *g, const float *logits, int32_t *token);
/* Passes what is in g->bytes on to d->text, without what a stop string may still take. *ended: the text ends here, for
 * the reason *end. last: nothing follows. Of s: ctx. */
TINYI_FN tiny_status tinyi_generate_say(tllm_session *s, tinyi_generate *g, const tllm_generate_desc *d, int last,
                                        tllm_end *end, int *ended);

/* Fails if s is NULL, if its model is an encoder, or if logits is set and the model gives none. */
TINYI_FN tiny_status tinyi_session_text(const tllm_session *s, int logits);

TINYI_C_END
#endif
