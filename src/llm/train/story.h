/* src/llm/train/story.h - stories of a small language whose entropy is known exactly
 *
 *   tllm_story s = tllm_story_start(seed);
 *   int32_t t = tllm_story_draw(&s, &bits, &tag);      the next token, -log2 of its probability, what it asks of a
 *                                                      reader
 *
 * A probabilistic grammar tells of two friends, what they have, give, lose and find, and what they ask each other. Each
 * choice decides the very next token, and no two choices of a place begin alike: the probability of a token after all
 * before it is exact, and so is the least loss that any model can reach on such text (0.7020 bits a token;
 * tllm_story_next has the whole distribution, and its entropy). 28 tokens of 100 carry a choice; the others follow from
 * what was said before, and their tags say from what: a number kept in mind, a name, the plural of a noun, a sum.
 *
 * The state is a plain struct: a copy of it is another reader at the same place. Nothing fails, nothing allocates.
 * Tokens are those of the vocabulary below: 0 unknown, 1 end of a story and start of the text, 2 padding, 3 not used, 4
 * to 259 the bytes, 260 to 543 the words in the order of their bytes, each with a blank before it. */
#ifndef TINYI_STORY_H
#define TINYI_STORY_H
#include "llm/token/vocab.h"
#include "llm/file/gguf_write.h"
TINYI_C_BEGIN

#define TLLM_STORY_VOCAB 544
#define TLLM_STORY_BYTE 4                   /* the first of the bytes */
#define TLLM_STORY_WORD 260                 /* the first of the words */
#define TLLM_STORY_END 1                    /* ends each story; stands before the first */
#define TLLM_STORY_ITEMS 48                 /* most tokens that can follow somewhere */
#define TLLM_STORY_LONGEST 256              /* no story has more tokens */

/* What a token asks of its reader. */
typedef enum tllm_story_tag {
    TLLM_STORY_CHOICE,                      /* drawn: it could have been another */
    TLLM_STORY_PLAIN,                       /* forced by the words just before it */
    /* a name: of the story, of the sentence, of the other one */
    TLLM_STORY_HERO, TLLM_STORY_FRIEND, TLLM_STORY_ACTOR, TLLM_STORY_OTHER,
    TLLM_STORY_PRONOUN,                     /* he or she, his or her, by the name */
    TLLM_STORY_CONSEQUENCE,                 /* what the hungry do, and the tired */
    TLLM_STORY_COUNT,                       /* how many somebody has */
    TLLM_STORY_NOUN,                        /* what, and one or many of it */
    TLLM_STORY_IS,                          /* is or are, it is or they are */
    TLLM_STORY_PLACE, TLLM_STORY_YES, TLLM_STORY_COMPARE, TLLM_STORY_COLOUR,
    TLLM_STORY_SUM,                         /* of a lesson at school */
    TLLM_STORY_TAGS
} tllm_story_tag;
TINY_API const char *tllm_story_tag_name(int tag);

typedef struct tllm_story {
    uint64_t seed;                          /* of the numbers that are drawn next */
    int16_t word[40];                       /* tokens that are forced */
    uint8_t tag[40];
    uint8_t at, n;                          /* of them: the next, how many */
    uint8_t choice;                         /* what is chosen after them */
    uint8_t segment;                        /* sentences told after the opening */
    uint8_t name[2], type[2], colour, prep, place;  /* of hero and friend; what they have */
    uint8_t a, b, t, k, verb, plural;       /* the sentence: who, the other, of what, how many */
    uint8_t count[2][2];                    /* person, type */
    int8_t need[2];                         /* -1: none */
    int8_t event, affected, actor;          /* what the last sentence did; -1: nothing */
} tllm_story;

typedef struct tllm_story_items {           /* what may follow: token[i] with probability weight[i] / total */
    int n, tag;
    uint32_t total;
    int32_t token[TLLM_STORY_ITEMS];
    uint32_t weight[TLLM_STORY_ITEMS];
} tllm_story_items;

/* Stories one after another, all from one stream of numbers (splitmix64). */
TINY_API tllm_story tllm_story_start(uint64_t seed);
TINY_API void tllm_story_next(const tllm_story *s, tllm_story_items *items);
/* Goes on with this token; 0, and nothing changed, when it cannot follow. bits and tag may be NULL. */
TINY_API int tllm_story_take(tllm_story *s, int32_t token, double *bits, int *tag);
/* Draws the next token and goes on with it. */
TINY_API int32_t tllm_story_draw(tllm_story *s, double *bits, int *tag);
/* How many of the tokens, which start with a story, follow the grammar: n, or the place of the first that cannot stand
 * there. bits (n) and tags (n): of each token; may be NULL. */
TINY_API size_t tllm_story_score(const int32_t *tokens, size_t n, double *bits, uint8_t *tags);
TINY_API double tllm_story_entropy(const tllm_story_items *items);      /* bits */

/* ---- as text ---- */

TINY_API const char *tllm_story_word(int32_t token);        /* without its blank; NULL: no word */
TINY_API int32_t tllm_story_find(const char *word, size_t n);           /* -1: no word of a story */

/* The keys tokenizer.ggml.* of a model file: greedy longest match over bytes (the kind "rwkv"). Text that is to be read
 * starts with a blank, as each word does. */
TINY_API tiny_status tllm_story_vocab_put(tiny_ctx *ctx, tllm_writer *w);

TINYI_C_END
#endif
