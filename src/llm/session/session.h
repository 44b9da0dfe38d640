/* src/llm/session/session.h - a model file and the text that the model reads and writes
 *
 *     tllm_session *s;
 *     tllm_generate_desc d;
 *     memset(&d, 0, sizeof d);
 *     d.text = print;                              receives the new text, whole characters at a time
 *     if (tllm_session_open(ctx, "model.gguf", NULL, &s)) puts(tiny_ctx_message(ctx));
 *     else if (tllm_generate(s, "Once upon a time", 16, &d, NULL)) puts(tiny_ctx_message(ctx));
 *     tllm_session_close(s);
 *
 * A session holds one sequence of tokens and the model's state for it (keys and values, or a recurrent state).
 * tllm_session_set replaces the sequence and computes only the part that differs: a chat that grows by an answer costs
 * that answer. tllm_session_open allocates the state.
 *
 * Text and logits need a decoder whose tllm_about says TLLM_LOGITS. Other models, and decoders whose file asks for
 * pooling, are refused with TINY_E_UNSUPPORTED; tllm_embed takes them. With a session of NULL every call returns
 * TINY_E_ARGUMENT, NULL or 0. One thread at a time may use a session, because its context serves one caller. */
#ifndef TINYI_SESSION_H
#define TINYI_SESSION_H
#include "llm/file/open.h"
#include "llm/model/model.h"
#include "llm/model/adapter.h"
#include "llm/token/vocab.h"
#include "llm/sample/sample.h"
#include "llm/sample/stop.h"
#include "llm/sample/grammar.h"
TINYI_C_BEGIN

typedef struct tllm_session tllm_session;

/* desc: as for tllm_state_open; may be NULL. path: any file that tllm_file_open takes. On failure *out is NULL. */
TINY_API tiny_status tllm_session_open(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc,
                                       tllm_session **out);
/* Opens a file in memory, such as a model linked into the program. The bytes are not copied and must outlive the
 * session. */
TINY_API tiny_status tllm_session_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes,
                                              const tllm_state_desc *desc, tllm_session **out);
/* *bytes: the memory that tllm_session_open with the same arguments allocates, without the mapped file: tables of the
 * file, vocabulary, keys and values, scratch. The call opens the file and closes it again. tllm_generate also
 * allocates its sampler. Under a grammar it allocates the sorted pieces of the vocabulary the first time that the
 * grammar refuses a drawn token; the session keeps them. */
TINY_API tiny_status tllm_session_memory(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc, size_t *bytes);
TINY_API void tllm_session_close(tllm_session *s);              /* s may be NULL */

TINY_API const tllm_gguf *tllm_session_file(const tllm_session *s);
TINY_API const tllm_model *tllm_session_model(const tllm_session *s);
TINY_API const tllm_vocab *tllm_session_vocab(const tllm_session *s);
TINY_API tiny_idx tllm_session_context(const tllm_session *s);  /* the most tokens that the session can hold */
TINY_API const int32_t *tllm_session_tokens(const tllm_session *s, size_t *n);     /* the tokens that it holds */

/* Appends tokens. *logits: n_vocab values for the token after the last one, valid until the next call. Pass NULL when
 * they are not wanted; decoders that give embeddings accept only NULL. */
TINY_API tiny_status tllm_session_feed(tllm_session *s, const int32_t *tokens, size_t n, const float **logits);
/* Makes the session hold exactly these tokens. *reused: the number of tokens that were not computed again. If logits
 * are wanted, the last token is always computed. */
TINY_API tiny_status tllm_session_set(tllm_session *s, const int32_t *tokens, size_t n, const float **logits,
                                      size_t *reused);
/* Keeps the first n tokens. Recurrent models refuse unless n is 0 or all. */
TINY_API tiny_status tllm_session_trim(tllm_session *s, size_t n);
/* Drops n tokens from index first on and moves the later ones down, without computing anything; tllm_seq_shift says
 * what that costs in accuracy. tllm_session_shift computes the kept tokens again. */
TINY_API tiny_status tllm_session_drop(tllm_session *s, size_t first, size_t n);
/* Writes the tokens and the state to a file, and reads them back. tllm_state_save lists what is refused. */
TINY_API tiny_status tllm_session_save(tllm_session *s, const char *path);
TINY_API tiny_status tllm_session_load(tllm_session *s, const char *path);
/* The state of the session. Sequence 0 is the session's own text; sequences 1 .. n_seq - 1 are yours. */
TINY_API tllm_state *tllm_session_state(tllm_session *s);
/* Keeps the first n_keep tokens and the newer half of the others, which are computed again. */
TINY_API tiny_status tllm_session_shift(tllm_session *s, size_t n_keep, const float **logits);

/* tllm_state_attach and tllm_adapter_merge for the model of the session (tllm_session_model). Attaching does not
 * recompute the tokens already held: they keep the results of the old weights. tllm_session_set(s, NULL, 0, NULL, NULL)
 * drops them. Merging drops all tokens. */
TINY_API tiny_status tllm_session_attach(tllm_session *s, const tllm_adapter *a, float weight);
/* tllm_model_sparse for the model of the session */
TINY_API tiny_status tllm_session_sparse(tllm_session *s, int format, size_t *bytes);
/* tllm_model_repack for the model of the session */
TINY_API tiny_status tllm_session_repack(tllm_session *s, const tllm_repack_desc *desc, tllm_repacked *about);
TINY_API tiny_status tllm_session_merge(tllm_session *s, const tllm_adapter *a, float weight, tiny_dtype dtype);

typedef enum tllm_end {
    TLLM_END_TOKEN,                         /* the model produced an end token */
    TLLM_END_LENGTH,                        /* n_most tokens were generated */
    TLLM_END_STRING,                        /* a stop string was found */
    TLLM_END_CONTEXT,                       /* the session is full, and shift is 0 */
    TLLM_END_GRAMMAR,                       /* the grammar allows no further token */
    TLLM_END_CALLER                         /* text() or the cancel callback of the context asked to stop */
} tllm_end;

typedef struct tllm_generate_desc {         /* all zero: greedy, to the end of the text or of the context */
    const tllm_step *chain;                 /* NULL: greedy */
    size_t n_steps;
    uint64_t seed;
    size_t n_most;                          /* most tokens to generate; 0: no limit */
    const char *const *stop;
    size_t n_stop;
    unsigned encode;                        /* TLLM_ENCODE_ of the prompt; 0: TLLM_ENCODE_ENDS */
    /* nonzero: no token is added before the prompt, and no text in it is read as a special token */
    int plain;
    int past_end;                           /* nonzero: an end token does not stop the text */
    int shift;                              /* nonzero: a full session shifts (tllm_session_shift) instead of ending */
    size_t keep;                            /* tokens at the start that a shift keeps */
    int special;                            /* nonzero: control tokens are printed */
    /* the text follows this grammar and ends where the grammar allows no further token */
    const tllm_grammar *grammar;
    int (*text)(void *user, const char *bytes, size_t n);       /* receives the text; return nonzero to stop */
    void *user;
} tllm_generate_desc;

typedef struct tllm_generate_result {
    tllm_end end;
    size_t n_prompt, n_reused, n_made;      /* tokens */
    double prompt_seconds, made_seconds;
} tllm_generate_result;

/* Encodes the prompt, generates tokens and passes their text to desc->text. Afterwards the session holds the prompt and
 * the answer; in models with an encoder the encoder reads the prompt. result may be NULL. */
TINY_API tiny_status tllm_generate(tllm_session *s, const char *prompt, size_t n, const tllm_generate_desc *desc,
                                   tllm_generate_result *result);
TINY_API tiny_status tllm_generate_tokens(tllm_session *s, const int32_t *prompt, size_t n,
                                          const tllm_generate_desc *desc, tllm_generate_result *result);

/* Writes the embedding of a text to out: n_embd floats with norm 1. The model must give hidden states (an encoder).
 * pooling: a tllm_pooling, or -1 for the one that the file names (the mean if it names none). */
TINY_API tiny_status tllm_embed(tllm_session *s, const char *text, size_t n, int pooling, float *out);

TINYI_C_END
#endif
