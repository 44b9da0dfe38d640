/* src/llm/token/parts_inside.h - the struct of a vocabulary, and the parts that all kinds share */
#ifndef TINYI_PARTS_H
#define TINYI_PARTS_H
#include "core/bytes.h"
#include "core/state_inside.h"
#include "llm/token/vocab.h"
TINYI_C_BEGIN

enum { /* attributes of a token, as bits: a control token may have several */
       TINYI_TOK_NORMAL = 1,
       TINYI_TOK_UNKNOWN = 2,
       TINYI_TOK_CONTROL = 4,
       TINYI_TOK_USER = 8,
       TINYI_TOK_UNUSED = 16,
       TINYI_TOK_BYTE = 32,
       TINYI_TOK_LSTRIP = 64,
       TINYI_TOK_RSTRIP = 128
};

/* Longer texts are not put into tries and match nothing. This keeps a walk from each position linear in the text. */
enum { TINYI_TRIE_LONGEST = 1024 };

/* a set of texts, compressed: an edge carries all bytes up to the next branch */
typedef struct tinyi_trie_node {
    uint32_t label, first;                  /* first byte of the label in the blob; number of the first child */
    uint16_t n_label, n_children;
    int32_t value;                          /* -1: no text ends here */
} tinyi_trie_node;
typedef struct tinyi_trie {
    /* node 0 is the root; the children of a node are contiguous, ordered by their first bytes */
    tinyi_trie_node *node;
    size_t n_nodes;
    int32_t root[256];                      /* child by first byte; -1: none */
} tinyi_trie;

/* a position in a trie: used bytes of the label of a node */
typedef struct tinyi_trie_at { int32_t node; uint32_t used; } tinyi_trie_at;

typedef struct tinyi_merge { uint32_t left, right, to; } tinyi_merge;

/* The kind of a vocabulary. With TINYLLM_ONLY_TOKENIZER it is a constant, and other kinds are refused. */
#ifdef TINYLLM_ONLY_TOKENIZER
#define TINYI_VOCAB_KNOWS_SPM 1
#define TINYI_VOCAB_KNOWS_BPE 1
#define TINYI_VOCAB_KNOWS_WORDPIECE 1
#define TINYI_VOCAB_KNOWS_UNIGRAM 1
#define TINYI_VOCAB_KNOWS_RWKV 1
#define TINYI_VOCAB_KNOWS_PLAMO2 1
#if !TINYI_CAT(TINYI_VOCAB_KNOWS_, TINYLLM_ONLY_TOKENIZER)
#error "tiny: TINYLLM_ONLY_TOKENIZER must be SPM, BPE, WORDPIECE, UNIGRAM, RWKV or PLAMO2"
#undef TINYLLM_ONLY_TOKENIZER               /* one sentence is enough */
#endif
#endif
#ifdef TINYLLM_ONLY_TOKENIZER
#define TINYI_VOCAB_ONLY TINYI_CAT(TLLM_VOCAB_, TINYLLM_ONLY_TOKENIZER)
#define TINYI_VOCAB_KIND(v) ((void)(v), TINYI_VOCAB_ONLY)
#else
#define TINYI_VOCAB_KIND(v) ((v)->kind)
#endif

struct tllm_vocab {
    tllm_vocab_kind kind;
    const tllm_pre *pre;
    unsigned pre_flags;
    size_t n;
    uint32_t *at;                           /* (n + 1) offsets of the texts in the blob */
    unsigned char *blob;
    unsigned char *what;                    /* (n) TINYI_TOK_ */
    unsigned char *is_end;                  /* ((n + 7) / 8) bits */
    float *score;                           /* (n), NULL: all 0 */
    /* (a power of 2) hash table from text to id: id + 1 in the low bits, the upper bits of the hash above */
    uint32_t *slot, slot_mask;
    unsigned slot_bits;                     /* bits of id + 1 */
    uint64_t key;                           /* of the hashes, different in each process */
    size_t longest;                         /* bytes of the longest text */
    tinyi_merge *merge;                     /* by rank */
    size_t n_merges;
    uint32_t *merge_slot, merge_mask;
    unsigned merge_bits;
    /* bits: may these two characters be adjacent inside a token? By hash, and exact for ASCII. */
    uint32_t *joint, joint_mask, joint_ascii[128][4];
    int32_t byte_id[256];                   /* the token of a byte; -1: none */
    int32_t special[TLLM_SPECIAL_COUNT];
    int add_bos, add_eos, add_space_prefix, merge_spaces, lowercase, strip_accents;
    int byte_fallback;                      /* SentencePiece: some byte has a token; unigram: all 256 have one */
    unsigned char *charsmap;
    size_t n_charsmap, n_charsmap_units;
    double unknown_score;
    tinyi_trie trie, special_trie;
    unsigned char special_first[256];
    int has_strip;
};

/* a cache of short words: texts repeat their words */
enum { TINYI_KEPT_BYTES = 16, TINYI_KEPT_IDS = 6, TINYI_KEPT_WORDS = 4096 };
typedef struct tinyi_kept { uint64_t word[2]; int32_t id[TINYI_KEPT_IDS]; unsigned char n, n_ids; } tinyi_kept;

/* scratch of one call */
typedef struct tinyi_encoder {
    tiny_ctx *ctx;
    const tllm_vocab *v;
    tllm_tokens *out;
    uint32_t *pos, *prev, *next;            /* (room) of symbols */
    int32_t *id, *to;                       /* of symbols; the merge of a symbol and its right neighbour */
    uint32_t *rank;                         /* of that merge, lowest first; UINT32_MAX: never */
    size_t room;
    uint64_t *heap;
    size_t heap_n;                          /* entries; after a word is merged, the number of its symbols */
    tinyi_kept *kept;                       /* (TINYI_KEPT_WORDS), NULL for short texts */
    unsigned char *text;                    /* the normalised text that is merged */
    size_t text_room;
} tinyi_encoder;

TINYI_FN uint64_t tinyi_token_hash(uint64_t key, const unsigned char *p, size_t n);
TINYI_FN int32_t tinyi_token_find(const tllm_vocab *v, const unsigned char *p, size_t n);
TINYI_INLINE const unsigned char *tinyi_token_text(const tllm_vocab *v, int32_t id, size_t *n)
{
    *n = v->at[id + 1] - v->at[id];
    return v->blob + v->at[id];
}

TINYI_INLINE int tinyi_vocab_has(const tllm_vocab *v, int32_t id) { return v && v->at && id >= 0 && (size_t)id < v->n; }
/* the byte of <0xXX>; -1: another text */
TINYI_FN int tinyi_vocab_byte(const unsigned char *p, size_t n);

/* a flag of tllm_encode: the text goes on after other tokens, so that no blank is put before it */
#define TINYI_ENCODE_AFTER 4u
/* Grows *p, which holds used of *room items, to at least want. */
TINYI_FN tiny_status tinyi_token_grow(tiny_ctx *ctx, void **p, size_t used, size_t *room, size_t want,
                                      size_t bytes_each);
TINYI_FN tiny_status tinyi_token_reserve(tiny_ctx *ctx, tllm_tokens *t, size_t more);
TINYI_FN tiny_status tinyi_bytes_reserve(tiny_ctx *ctx, tllm_bytes *b, size_t more);
/* at least n bytes in e->text */
TINYI_FN tiny_status tinyi_encoder_text(tinyi_encoder *e, size_t n);
/* room for count symbols */
TINYI_FN void tinyi_encoder_free_symbols(tinyi_encoder *e);
TINYI_FN tiny_status tinyi_encoder_symbols(tinyi_encoder *e, size_t count);
TINYI_INLINE void tinyi_encoder_put(tinyi_encoder *e, int32_t id) { if (id >= 0) e->out->id[e->out->n++] = id; }

/* Looks the word up in the cache. If found, appends its tokens and returns 1. Otherwise *slot is the cache entry for
 * tinyi_kept_set, which stores the tokens appended from then on; NULL: the word cannot be cached. */
TINYI_FN int tinyi_kept_get(tinyi_encoder *e, const unsigned char *s, size_t n, tinyi_kept **slot, tiny_status *st);
TINYI_FN void tinyi_kept_set(const tinyi_encoder *e, const unsigned char *s, size_t n, tinyi_kept *slot, size_t from);

/* Builds a trie of the texts of n tokens; the call sorts ids. Of equal texts the first in ids is used. */
TINYI_FN tiny_status tinyi_trie_build(tiny_ctx *ctx, const tllm_vocab *v, uint32_t *ids, size_t n, tinyi_trie *trie);
TINYI_FN void tinyi_trie_free(tiny_ctx *ctx, tinyi_trie *trie);
TINYI_INLINE tinyi_trie_at tinyi_trie_start(void) { tinyi_trie_at at; at.node = 0; at.used = 0; return at; }
/* one byte further; 0: no text continues with it */
TINYI_FN int tinyi_trie_step(const tinyi_trie *trie, const unsigned char *blob, tinyi_trie_at *at, unsigned char byte);
TINYI_INLINE int32_t tinyi_trie_value(const tinyi_trie *trie, const tinyi_trie_at *at)
{
    const tinyi_trie_node *node = &trie->node[at->node];
    return at->used == node->n_label ? node->value : -1;
}

/* a heap with four children per node, the smallest on top */
TINYI_FN void tinyi_heap_down(uint64_t *heap, size_t n, size_t i);
TINYI_FN void tinyi_heap_up(uint64_t *heap, size_t i);

TINYI_FN uint64_t tinyi_merge_hash(uint64_t key, uint32_t left, uint32_t right);
/* the rank of the merge of two symbols; UINT32_MAX: they never merge. *to: the merged token */
TINYI_FN uint32_t tinyi_merge_find(const tllm_vocab *v, int32_t left, int32_t right, int32_t *to);
TINYI_FN int tinyi_joint_wide(const tllm_vocab *v, const unsigned char *left, size_t n_left, const unsigned char *right,
                              size_t n_right);
TINYI_INLINE int tinyi_joint_may(const tllm_vocab *v, const unsigned char *left, size_t n_left,
                                 const unsigned char *right, size_t n_right)
{
    if (left[0] < 0x80 && right[0] < 0x80) return (int)(v->joint_ascii[left[0]][right[0] >> 5] >> (right[0] & 31) & 1);
    return tinyi_joint_wide(v, left, n_left, right, n_right);
}
TINYI_FN void tinyi_joint_set(tllm_vocab *v, const unsigned char *left, size_t n_left, const unsigned char *right,
                              size_t n_right);
/* merges the symbols of one word; e->pos has n + 1 entries, e->id n; by_text: neighbours merge if their joined text is
 * a token */
TINYI_FN tiny_status tinyi_merge_word(tinyi_encoder *e, const unsigned char *s, size_t n, int by_text);

/* the byte that a GPT-2 character stands for, or -1; and back */
TINYI_FN int tinyi_bpe_byte(uint32_t c);
TINYI_FN uint32_t tinyi_bpe_disguise(unsigned char byte);

TINYI_FN tiny_status tinyi_encode_spm(tinyi_encoder *e, const unsigned char *s, size_t n, int prefix);
TINYI_FN tiny_status tinyi_encode_bpe(tinyi_encoder *e, const unsigned char *s, size_t n);
TINYI_FN tiny_status tinyi_encode_wordpiece(tinyi_encoder *e, const unsigned char *s, size_t n);
TINYI_FN tiny_status tinyi_encode_unigram(tinyi_encoder *e, const unsigned char *s, size_t n, int begins);
TINYI_FN tiny_status tinyi_encode_rwkv(tinyi_encoder *e, const unsigned char *s, size_t n);
TINYI_FN tiny_status tinyi_encode_plamo2(tinyi_encoder *e, const unsigned char *s, size_t n);

/* ascending, stable, bottom up; spare has room for n */
TINYI_FN void tinyi_token_sort(uint64_t *x, uint64_t *spare, size_t n);

TINYI_C_END
#endif
