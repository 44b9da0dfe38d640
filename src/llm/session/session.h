/* src/llm/session/session.h - opens a model file and generates text with it
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
 * tllm_session_set replaces the sequence and computes only the tokens after the common beginning of the old and the new
 * one: a new turn of a chat costs only its own tokens. tllm_session_open allocates all memory of the state.
 *
 * Generating text and reading logits need a decoder with tllm_about.output TLLM_LOGITS. For other models, and for
 * decoders whose file asks for pooling, these calls return TINY_E_UNSUPPORTED; tllm_embed serves models that give
 * hidden states. If the session is NULL, every call returns TINY_E_ARGUMENT, NULL or 0. One thread at a time may use a
 * session, because its context serves one caller. The context must outlive the session. */
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
typedef struct tllm_draft tllm_draft;       /* llm/serve/speculate.h */

/* path: a model file of any kind that tllm_file_open supports. desc: as in tllm_state_open; may be NULL. Close the
 * session with tllm_session_close. On failure *out is NULL. */
TINY_API tiny_status tllm_session_open(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc,
                                       tllm_session **out);
/* Opens a file in memory, such as a model linked into the program. The bytes are not copied and must outlive the
 * session. */
TINY_API tiny_status tllm_session_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes,
                                              const tllm_state_desc *desc, tllm_session **out);
/* A session over an open model, such as one that stays on disk or is in a ring. The model and its file stay the
 * caller's and must outlive the session. */
TINY_API tiny_status tllm_session_over(tiny_ctx *ctx, tllm_model *model, const tllm_state_desc *desc,
                                       tllm_session **out);
/* *bytes: the memory that tllm_session_open allocates with the same arguments: tables of the file, vocabulary, keys and
 * values, scratch. The mapped file is not counted. The call opens the file and closes it again. tllm_generate needs
 * more: a sampler, and with a grammar a sorted list of the vocabulary. That list is made when the grammar first refuses
 * a drawn token, and the session keeps it. */
TINY_API tiny_status tllm_session_memory(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc, size_t *bytes);
TINY_API void tllm_session_close(tllm_session *s);              /* s may be NULL */

/* The file, the model and the vocabulary belong to the session and are valid until the close. */
TINY_API const tllm_gguf *tllm_session_file(const tllm_session *s);
TINY_API const tllm_model *tllm_session_model(const tllm_session *s);
TINY_API const tllm_vocab *tllm_session_vocab(const tllm_session *s);
TINY_API tiny_idx tllm_session_context(const tllm_session *s);  /* the most tokens that the session can hold */
/* The tokens that the session holds, *n of them; owned by the session and valid until the next call that changes
 * them. */
TINY_API const int32_t *tllm_session_tokens(const tllm_session *s, size_t *n);

/* Appends tokens. *logits: n_vocab values for the token after the last one, valid until the next call and owned by the
 * session. Pass NULL if you do not need them; decoders that give embeddings accept only NULL. Long inputs are computed
 * in pieces of n_batch tokens. After a failure the session holds the pieces that were finished, or no tokens if the
 * model is recurrent: see tllm_session_tokens. */
TINY_API tiny_status tllm_session_feed(tllm_session *s, const int32_t *tokens, size_t n, const float **logits);
/* Makes the session hold exactly these tokens. *reused (reused may be NULL): the number of tokens at the start that
 * were not computed again. With logits, the last token is always computed. After a failure: as tllm_session_feed. */
TINY_API tiny_status tllm_session_set(tllm_session *s, const int32_t *tokens, size_t n, const float **logits,
                                      size_t *reused);
/* Keeps the first n tokens. Recurrent models refuse unless n is 0 or all. */
TINY_API tiny_status tllm_session_trim(tllm_session *s, size_t n);
/* Drops n tokens from index first on and moves the later ones down. Nothing is computed, at a cost in accuracy that
 * tllm_seq_shift describes. tllm_session_shift computes the kept tokens again. */
TINY_API tiny_status tllm_session_drop(tllm_session *s, size_t first, size_t n);
/* Writes the tokens and the state to a file, and reads them back. Loading needs the same model, adapters and formats:
 * tllm_state_save. An invalid file leaves the session unchanged. */
TINY_API tiny_status tllm_session_save(tllm_session *s, const char *path);
TINY_API tiny_status tllm_session_load(tllm_session *s, const char *path);
/* The state of the session. Sequence 0 is the session's own text; sequences 1 .. n_seq - 1 are yours. */
TINY_API tllm_state *tllm_session_state(tllm_session *s);
/* Makes room in a full session: keeps the first n_keep tokens and the newer half of the others, and computes that half
 * again at its new positions. logits: as in tllm_session_feed. */
TINY_API tiny_status tllm_session_shift(tllm_session *s, size_t n_keep, const float **logits);

/* tllm_state_attach for the state of the session. a: loaded for tllm_session_model. Tokens already held keep the
 * results of the old weights; tllm_session_set(s, NULL, 0, NULL, NULL) drops them. */
TINY_API tiny_status tllm_session_attach(tllm_session *s, const tllm_adapter *a, float weight);
/* tllm_model_sparse for the model of the session */
TINY_API tiny_status tllm_session_sparse(tllm_session *s, int format, size_t *bytes);
/* tllm_model_repack for the model of the session */
TINY_API tiny_status tllm_session_repack(tllm_session *s, const tllm_repack_desc *desc, tllm_repacked *about);
/* tllm_adapter_merge for the model of the session. Drops all tokens of all sequences. */
TINY_API tiny_status tllm_session_merge(tllm_session *s, const tllm_adapter *a, float weight, tiny_dtype dtype);

/* why tllm_generate stopped */
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
    unsigned encode;                        /* TLLM_ENCODE_ flags for the prompt; 0: TLLM_ENCODE_ENDS */
    /* nonzero: encode is ignored; no token is added to the prompt, and no text in it is read as a special token */
    int plain;
    int past_end;                           /* nonzero: an end token does not stop the text; ignored with a grammar */
    int shift;                              /* nonzero: a full session shifts (tllm_session_shift) instead of ending */
    size_t keep;                            /* tokens at the start that a shift keeps */
    int special;                            /* nonzero: control tokens are part of the text */
    /* the text follows this grammar and ends where the grammar allows no further token */
    const tllm_grammar *grammar;
    tllm_draft *draft;                      /* proposes tokens, so that the text comes faster; NULL: none */
    /* receives n bytes of text, without a final 0; return nonzero to stop; NULL: none */
    int (*text)(void *user, const char *bytes, size_t n);
    void *user;
} tllm_generate_desc;

typedef struct tllm_generate_result {
    tllm_end end;
    size_t n_prompt, n_reused, n_made;      /* tokens */
    double prompt_seconds, made_seconds;
} tllm_generate_result;

/* Encodes the prompt (n bytes), generates tokens and passes their text to desc->text. Afterwards the session holds the
 * prompt and the answer. In models with encoder and decoder the encoder reads the prompt, and the session holds the
 * answer alone. A stop by the caller is a success with end TLLM_END_CALLER. desc and result may be NULL. */
TINY_API tiny_status tllm_generate(tllm_session *s, const char *prompt, size_t n, const tllm_generate_desc *desc,
                                   tllm_generate_result *result);
/* The same for a prompt of n tokens. */
TINY_API tiny_status tllm_generate_tokens(tllm_session *s, const int32_t *prompt, size_t n,
                                          const tllm_generate_desc *desc, tllm_generate_result *result);

/* Writes the embedding of a text to out: tllm_about.n_out floats with norm 1. The output of the model must be
 * TLLM_HIDDEN. pooling: TLLM_POOL_MEAN, _CLS or _LAST; -1: the one that the file names, or the mean if it names none.
 * The session holds no tokens afterwards. */
TINY_API tiny_status tllm_embed(tllm_session *s, const char *text, size_t n, int pooling, float *out);
/* Writes how well a text answers a query: tllm_about.n_out floats, one for each label of the model, whose output must
 * be TLLM_RANK. The model reads CLS query SEP text SEP, with a second SEP in between unless its vocabulary is
 * WordPiece. The session holds no tokens afterwards. */
TINY_API tiny_status tllm_rank(tllm_session *s, const char *query, size_t n_query, const char *text, size_t n,
                               float *out);

TINYI_C_END
#endif
