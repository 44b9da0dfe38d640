/* src/llm/token/vocab.h - vocabularies: text to tokens and back
 *
 *   tllm_vocab *v;
 *   tllm_tokens t;
 *   memset(&t, 0, sizeof t);
 *   if (tllm_vocab_open(ctx, g, &v)) ... the message names the file, the key and the value ...
 *   if (tllm_encode(ctx, v, text, n_bytes, TLLM_ENCODE_ENDS | TLLM_ENCODE_SPECIAL, &t)) ...
 *   ... t.id[0] ... t.id[t.n - 1] ...
 *   tllm_tokens_free(ctx, &t);
 *   tllm_vocab_close(ctx, v);
 *
 * Kinds, with their names in files: SentencePiece with scores and byte fallback ("llama"), byte-level BPE ("gpt2", and
 * "gemma4" over characters), WordPiece ("bert"), unigram ("t5"), the greedy longest match of RWKV ("rwkv"), the suffix
 * form of PLaMo 2 ("plamo2").
 *
 * Invalid UTF-8 is never an error. BPE, WordPiece, unigram and PLaMo read each invalid byte as U+FFFD (WordPiece then
 * drops it). SentencePiece and RWKV keep the bytes. Time is at most n log n in the length of the text, and linear on
 * ordinary text. Nothing recurses.
 * A vocabulary does not change after it is opened: any number of threads may use it, each with its own context.
 *
 * Small faults of files are tolerated. If several tokens have the same text, it encodes to the first of them. An empty
 * token matches nothing. An id past the end of the vocabulary counts as not given. A merge that names no token is
 * skipped. A byte token that is not <0xXX> is plain text. In vocabularies with a trie (WordPiece, unigram, RWKV,
 * special tokens) a token of more than 1024 bytes matches nothing. Lists of an invalid type or length, a truncated
 * character map, and unknown models or pre-tokenizers are errors. */
#ifndef TINYI_VOCAB_H
#define TINYI_VOCAB_H
#include "llm/file/gguf.h"
#include "llm/token/split.h"
TINYI_C_BEGIN

typedef struct tllm_vocab tllm_vocab;

typedef enum tllm_vocab_kind {
    TLLM_VOCAB_NONE,                        /* the file has no vocabulary: encode and decode refuse */
    TLLM_VOCAB_SPM, TLLM_VOCAB_BPE, TLLM_VOCAB_WORDPIECE, TLLM_VOCAB_UNIGRAM, TLLM_VOCAB_RWKV, TLLM_VOCAB_PLAMO2
} tllm_vocab_kind;

/* the types of tokens, numbered as in files */
enum {
    TLLM_TOKEN_UNDEFINED,
    TLLM_TOKEN_NORMAL,
    TLLM_TOKEN_UNKNOWN,
    TLLM_TOKEN_CONTROL,
    TLLM_TOKEN_USER,
    TLLM_TOKEN_UNUSED,
    TLLM_TOKEN_BYTE
};

typedef enum tllm_special {
    TLLM_BOS, TLLM_EOS, TLLM_EOT, TLLM_EOM, TLLM_UNK, TLLM_SEP, TLLM_PAD, TLLM_MASK, TLLM_NEWLINE,
    TLLM_FIM_PRE, TLLM_FIM_SUF, TLLM_FIM_MID, TLLM_FIM_PAD, TLLM_FIM_REP, TLLM_FIM_SEP, TLLM_SPECIAL_COUNT
} tllm_special;

/* A vocabulary from your own arrays. 0 or NULL: the default of the kind of vocabulary. */
typedef struct tllm_vocab_desc {
    /* the kind: "llama", "gpt2", "bert", "t5", "rwkv", "plamo2" or "gemma4"; the pre-tokenizer: a name of
     * tllm_pre_at */
    const char *model, *pre;
    size_t n_tokens;
    const tllm_text *text;                  /* (n_tokens) */
    const float *score;                     /* (n_tokens) */
    const int32_t *type;                    /* (n_tokens) TLLM_TOKEN_ */
    size_t n_merges;
    const tllm_text *merge;                 /* (n_merges) "left right" */
    const void *charsmap;                   /* unigram: the precompiled character map */
    size_t n_charsmap;
    const int32_t *special;                 /* (TLLM_SPECIAL_COUNT), -1: none, -2: the default */
    /* 1 yes, -1 no, 0 the default */
    int add_bos, add_eos, add_space_prefix, merge_spaces, lowercase, strip_accents;
} tllm_vocab_desc;

/* Open the vocabulary of a file, or make one from arrays. Everything is copied: g may be closed and the arrays of desc
 * may be freed afterwards. On failure *out is NULL. */
TINY_API tiny_status tllm_vocab_open(tiny_ctx *ctx, const tllm_gguf *g, tllm_vocab **out);
TINY_API tiny_status tllm_vocab_make(tiny_ctx *ctx, const tllm_vocab_desc *desc, tllm_vocab **out);
TINY_API void tllm_vocab_close(tiny_ctx *ctx, tllm_vocab *v);          /* v may be NULL */

TINY_API tllm_vocab_kind tllm_vocab_kind_of(const tllm_vocab *v);
TINY_API const tllm_pre *tllm_vocab_pre(const tllm_vocab *v);          /* NULL: the kind has none */
TINY_API size_t tllm_vocab_size(const tllm_vocab *v);
/* Any id may be passed: one outside the vocabulary has an empty text, score 0 and type UNDEFINED, and is no end token.
 * Texts are valid until the close. */
TINY_API tllm_text tllm_vocab_text(const tllm_vocab *v, int32_t id);   /* as in the file (RWKV: without escapes) */
TINY_API float tllm_vocab_score(const tllm_vocab *v, int32_t id);
TINY_API int tllm_vocab_type(const tllm_vocab *v, int32_t id);
/* 1 for tokens that end an answer: EOS, EOT and similar ones */
TINY_API int tllm_vocab_is_end(const tllm_vocab *v, int32_t id);
TINY_API int32_t tllm_vocab_special(const tllm_vocab *v, tllm_special which);  /* -1: none */
/* 1: the file asks for BOS or EOS. RWKV and PLaMo 2 never get them, not even with TLLM_ENCODE_ENDS */
TINY_API int tllm_vocab_adds_bos(const tllm_vocab *v);
TINY_API int tllm_vocab_adds_eos(const tllm_vocab *v);
TINY_API int32_t tllm_vocab_find(const tllm_vocab *v, const char *text, size_t n);     /* -1: no such token */

/* ---- text to tokens ------------------------------------------------------------------------------------------ */

typedef struct tllm_tokens { int32_t *id; size_t n, room; } tllm_tokens;       /* starts as all zero */

enum {
    TLLM_ENCODE_ENDS = 1,                   /* adds BOS and EOS (CLS and SEP) if the vocabulary asks for them */
    TLLM_ENCODE_SPECIAL = 2                 /* the text of a control token, such as "<s>", becomes that token */
};

/* Appends the tokens of the text to *out. The text is n bytes, at most 2^31 - 1, of any value, zeros too. On failure
 * *out is unchanged. Free the tokens with tllm_tokens_free. */
TINY_API tiny_status tllm_encode(tiny_ctx *ctx, const tllm_vocab *v, const char *text, size_t n, unsigned flags,
                                 tllm_tokens *out);
TINY_API void tllm_tokens_free(tiny_ctx *ctx, tllm_tokens *t);

/* ---- tokens to text ------------------------------------------------------------------------------------------ */

enum {
    TLLM_DECODE_SPECIAL = 1                 /* control tokens are written, not skipped */
};

/* Writes the bytes of one token, including a leading blank, to out, but at most room bytes and no final 0. Returns the
 * full length, which may be more than room. */
TINY_API size_t tllm_piece(const tllm_vocab *v, int32_t id, unsigned flags, char *out, size_t room);
TINY_API size_t tllm_piece_most(const tllm_vocab *v);                  /* the length of the longest piece */

typedef struct tllm_bytes { char *at; size_t n, room; } tllm_bytes;            /* starts as all zero */

/* Appends the text of the tokens to *out. Tokens may end in the middle of a character: the text is then invalid UTF-8.
 * On failure *out is unchanged. Free the text with tllm_bytes_free. */
TINY_API tiny_status tllm_decode(tiny_ctx *ctx, const tllm_vocab *v, const int32_t *id, size_t n, unsigned flags,
                                 tllm_bytes *out);
TINY_API void tllm_bytes_free(tiny_ctx *ctx, tllm_bytes *b);

/* Decodes token by token, for text that is shown as it is generated. An unfinished character is held back until its
 * other bytes arrive. Bytes that cannot become a character are written as U+FFFD. v must outlive the stream. */
typedef struct tllm_stream {
    const tllm_vocab *v;
    unsigned flags;
    int bare;                               /* the next piece loses its first blank */
    unsigned char held[4];
    size_t n_held;
} tllm_stream;

TINY_API tllm_stream tllm_stream_start(const tllm_vocab *v, unsigned flags);
/* Appends whole characters to *out. */
TINY_API tiny_status tllm_stream_next(tiny_ctx *ctx, tllm_stream *s, int32_t id, tllm_bytes *out);
/* Appends U+FFFD for the bytes still held back. */
TINY_API tiny_status tllm_stream_end(tiny_ctx *ctx, tllm_stream *s, tllm_bytes *out);

TINYI_C_END
#endif
