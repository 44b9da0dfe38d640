/* src/llm/session/session.h - a model file and the text that it is reading or writing
 *
 *     tllm_session *s;
 *     tllm_generate_desc d;
 *     memset(&d, 0, sizeof d);
 *     d.text = print;                              called with the new text, whole characters at a time
 *     if (tllm_session_open(ctx, "model.gguf", NULL, &s)) puts(tiny_ctx_message(ctx));
 *     else if (tllm_generate(s, "Once upon a time", 16, &d, NULL)) puts(tiny_ctx_message(ctx));
 *     tllm_session_close(s);
 *
 * A session holds one sequence of tokens and what the model keeps of it. tllm_session_set makes it hold a given
 * sequence and computes only what differs: a chat that grows by an answer costs that answer. What the model keeps is
 * taken by tllm_session_open.
 *
 * Text and logits come from models whose tllm_about says TLLM_LOGITS and that are no encoders. The others are refused
 * with TINY_E_UNSUPPORTED, decoders whose file asks for pooling among them: those are for tllm_embed. Without a session
 * (NULL) every call answers TINY_E_ARGUMENT, NULL or 0. */
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

/* desc: as for tllm_state_open; may be NULL. path: any file that tllm_file_open takes. */
TINY_API tiny_status tllm_session_open(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc,
                                       tllm_session **out);
/* The bytes of a file that stay where they are: a model linked into the program. */
TINY_API tiny_status tllm_session_open_memory(tiny_ctx *ctx, const void *bytes, size_t n_bytes,
                                              const tllm_state_desc *desc, tllm_session **out);
/* What tllm_session_open of the same path and description takes beside the mapped file, to the end: the tables of the
 * file, its vocabulary, keys and values, scratch. It opens the file to tell, and closes it again. tllm_generate takes
 * its sampler besides, and under a grammar the sorted pieces of the vocabulary, which the session keeps from the first
 * token on that the model draws and the grammar refuses. */
TINY_API tiny_status tllm_session_memory(tiny_ctx *ctx, const char *path, const tllm_state_desc *desc, size_t *bytes);
TINY_API void tllm_session_close(tllm_session *s);              /* takes NULL */

TINY_API const tllm_gguf *tllm_session_file(const tllm_session *s);
TINY_API const tllm_model *tllm_session_model(const tllm_session *s);
TINY_API const tllm_vocab *tllm_session_vocab(const tllm_session *s);
TINY_API tiny_idx tllm_session_context(const tllm_session *s);  /* tokens that it can hold */
TINY_API const int32_t *tllm_session_tokens(const tllm_session *s, size_t *n);     /* that it holds */

/* Tokens after those that are held. *logits: n_vocab values after the last of them, until the next call;
 * NULL: not wanted, and the only choice for a decoder that gives embeddings. */
TINY_API tiny_status tllm_session_feed(tllm_session *s, const int32_t *tokens, size_t n, const float **logits);
/* It holds exactly these afterwards; *reused: how many were not computed again. The last one always is, for its
 * logits. */
TINY_API tiny_status tllm_session_set(tllm_session *s, const int32_t *tokens, size_t n, const float **logits,
                                      size_t *reused);
/* Keeps the first n tokens; recurrent models refuse, unless n is 0 or all. */
TINY_API tiny_status tllm_session_trim(tllm_session *s, size_t n);
/* Forgets n tokens from number first on without computing anything: what tllm_seq_shift says. tllm_session_shift
 * computes anew. */
TINY_API tiny_status tllm_session_drop(tllm_session *s, size_t first, size_t n);
/* The text and what the model keeps of it, to a file and back: tllm_state_save tells what is refused. */
TINY_API tiny_status tllm_session_save(tllm_session *s, const char *path);
TINY_API tiny_status tllm_session_load(tllm_session *s, const char *path);
/* The state below: the session's own text is sequence 0, the others (n_seq of the description) are yours. */
TINY_API tllm_state *tllm_session_state(tllm_session *s);
/* Keeps the first n_keep tokens and the newer half of the others, and computes those anew. */
TINY_API tiny_status tllm_session_shift(tllm_session *s, size_t n_keep, const float **logits);

/* tllm_state_attach and tllm_adapter_merge for the model of the session (tllm_session_model). What is held stays,
 * computed with the weights of its time, when weights change; tllm_session_set(s, NULL, 0, NULL, NULL) forgets it.
 * Merging forgets it. */
TINY_API tiny_status tllm_session_attach(tllm_session *s, const tllm_adapter *a, float weight);
/* tllm_model_sparse for the model of the session */
TINY_API tiny_status tllm_session_sparse(tllm_session *s, int format, size_t *bytes);
/* tllm_model_repack for the model of the session */
TINY_API tiny_status tllm_session_repack(tllm_session *s, const tllm_repack_desc *desc, tllm_repacked *about);
TINY_API tiny_status tllm_session_merge(tllm_session *s, const tllm_adapter *a, float weight, tiny_dtype dtype);

typedef enum tllm_end {
    TLLM_END_TOKEN,                         /* the model ended its text */
    TLLM_END_LENGTH,                        /* n_most tokens were made */
    TLLM_END_STRING,                        /* a stop string was found */
    TLLM_END_CONTEXT,                       /* the session is full, and shifting was not asked for */
    TLLM_END_GRAMMAR,                       /* nothing may follow */
    TLLM_END_CALLER                         /* text() asked to stop, or the cancel callback of the context */
} tllm_end;

typedef struct tllm_generate_desc {         /* all zero: greedy, to the end of the text or of the context */
    const tllm_step *chain;                 /* NULL: greedy */
    size_t n_steps;
    uint64_t seed;
    size_t n_most;                          /* tokens; 0: no limit */
    const char *const *stop;
    size_t n_stop;
    unsigned encode;                        /* TLLM_ENCODE_ of the prompt; 0: TLLM_ENCODE_ENDS */
    /* nonzero: nothing is added in front of the prompt, nothing in it is special */
    int plain;
    int past_end;                           /* nonzero: the model's end of text does not stop it */
    int shift;                              /* nonzero: a full session forgets instead of ending */
    size_t keep;                            /* tokens at the start that it does not forget */
    int special;                            /* nonzero: control tokens are written out */
    /* the text follows it; it ends where the grammar lets it end and nothing may follow */
    const tllm_grammar *grammar;
    int (*text)(void *user, const char *bytes, size_t n);       /* nonzero: stop */
    void *user;
} tllm_generate_desc;

typedef struct tllm_generate_result {
    tllm_end end;
    size_t n_prompt, n_reused, n_made;      /* tokens */
    double prompt_seconds, made_seconds;
} tllm_generate_result;

/* The session holds the prompt and the answer afterwards. For models with an encoder the prompt goes there. */
TINY_API tiny_status tllm_generate(tllm_session *s, const char *prompt, size_t n, const tllm_generate_desc *desc,
                                   tllm_generate_result *result);
TINY_API tiny_status tllm_generate_tokens(tllm_session *s, const int32_t *prompt, size_t n,
                                          const tllm_generate_desc *desc, tllm_generate_result *result);

/* The meaning of a text as n_embd floats of length 1, from a model that gives hidden states (an encoder). pooling: a
 * tllm_pooling, or -1: what the file asks for (the mean, where it asks for none). */
TINY_API tiny_status tllm_embed(tllm_session *s, const char *text, size_t n, int pooling, float *out);

TINYI_C_END
#endif
