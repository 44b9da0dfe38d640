/* src/llm/train/story.h - generates stories in a small language whose entropy is known exactly
 *
 *   tllm_story s = tllm_story_start(seed);
 *   int32_t t = tllm_story_draw(&s, &bits, &tag);      the next token, -log2 of its probability, its kind
 *
 * A probabilistic grammar tells stories of two friends: what they have, give, lose and find, and what they ask each
 * other. Each random choice decides the next token, and no two options of a choice begin with the same token. So the
 * probability of each token in its context is known exactly. So is the least loss that any model can reach on such
 * text: 0.7020 bits per token. tllm_story_next gives the whole distribution. 28 of 100 tokens are choices. The others
 * are forced by the text before them, and their tags name the cause: a remembered number, a name, the plural of a noun,
 * a sum.
 *
 * The state is a plain struct that can be copied. No call fails or allocates. Tokens are those of the vocabulary below:
 * 0 unknown, 1 end of a story and start of the text, 2 padding, 3 unused, 4 to 259 the bytes, 260 to 543 the words in
 * the order of their bytes, each with a blank before it. */
#ifndef TINYI_STORY_H
#define TINYI_STORY_H
#include "llm/token/vocab.h"
#include "llm/file/gguf_write.h"
TINYI_C_BEGIN

#define TLLM_STORY_VOCAB 544
#define TLLM_STORY_BYTE 4                   /* the first of the bytes */
#define TLLM_STORY_WORD 260                 /* the first of the words */
#define TLLM_STORY_END 1                    /* ends each story and precedes the first */
#define TLLM_STORY_ITEMS 48                 /* most options of a choice */
#define TLLM_STORY_LONGEST 256              /* most tokens of a story */

/* The kind of a token: the knowledge that predicts it. */
typedef enum tllm_story_tag {
    TLLM_STORY_CHOICE,                      /* a random choice */
    TLLM_STORY_PLAIN,                       /* forced by the words just before it */
    /* a name: of the story, of the sentence, of the other friend */
    TLLM_STORY_HERO, TLLM_STORY_FRIEND, TLLM_STORY_ACTOR, TLLM_STORY_OTHER,
    TLLM_STORY_PRONOUN,                     /* he or she, his or her, by the name */
    TLLM_STORY_CONSEQUENCE,                 /* the action of a hungry or tired friend */
    TLLM_STORY_COUNT,                       /* the number of things that a friend has */
    TLLM_STORY_NOUN,                        /* the thing, singular or plural */
    TLLM_STORY_IS,                          /* is or are, it is or they are */
    TLLM_STORY_PLACE, TLLM_STORY_YES, TLLM_STORY_COMPARE, TLLM_STORY_COLOUR,
    TLLM_STORY_SUM,                         /* a sum in a lesson at school */
    TLLM_STORY_TAGS
} tllm_story_tag;
TINY_API const char *tllm_story_tag_name(int tag);

typedef struct tllm_story {
    uint64_t seed;                          /* state of the random numbers */
    int16_t word[40];                       /* forced tokens */
    uint8_t tag[40];
    uint8_t at, n;                          /* index of the next forced token; their number */
    uint8_t choice;                         /* the choice after them */
    uint8_t segment;                        /* sentences after the opening */
    uint8_t name[2], type[2], colour, prep, place;  /* of hero and friend; their things */
    uint8_t a, b, t, k, verb, plural;       /* the sentence: actor, the other, type of thing, number */
    uint8_t count[2][2];                    /* person, type */
    int8_t need[2];                         /* -1: none */
    int8_t event, affected, actor;          /* the event of the last sentence; -1: none */
} tllm_story;

typedef struct tllm_story_items {           /* the possible next tokens: token[i] with probability weight[i] / total */
    int n, tag;
    uint32_t total;
    int32_t token[TLLM_STORY_ITEMS];
    uint32_t weight[TLLM_STORY_ITEMS];
} tllm_story_items;

/* Starts a sequence of stories from one stream of random numbers (splitmix64). */
TINY_API tllm_story tllm_story_start(uint64_t seed);
/* Writes the possible next tokens and their probabilities. */
TINY_API void tllm_story_next(const tllm_story *s, tllm_story_items *items);
/* Advances by this token; returns 0 and changes nothing if it cannot follow. bits and tag may be NULL. */
TINY_API int tllm_story_take(tllm_story *s, int32_t token, double *bits, int *tag);
/* Draws the next token and advances by it. */
TINY_API int32_t tllm_story_draw(tllm_story *s, double *bits, int *tag);
/* Returns the number of tokens, from the start of a story, that follow the grammar: n, or the index of the first
 * invalid token. bits (n) and tags (n) of each token may be NULL. */
TINY_API size_t tllm_story_score(const int32_t *tokens, size_t n, double *bits, uint8_t *tags);
TINY_API double tllm_story_entropy(const tllm_story_items *items);      /* bits */

/* ---- as text ---- */

TINY_API const char *tllm_story_word(int32_t token);        /* without its blank; NULL: not a word */
TINY_API int32_t tllm_story_find(const char *word, size_t n);           /* -1: not a word of the stories */

/* Writes the keys tokenizer.ggml.* of a model file: greedy longest match over bytes (the kind "rwkv"). A text must
 * start with a blank, as each word does. */
TINY_API tiny_status tllm_story_vocab_put(tiny_ctx *ctx, tllm_writer *w);

TINYI_C_END
#endif
