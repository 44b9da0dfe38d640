/* src/llm/sample/grammar_read_inside.h - a parsed grammar: operations, ranges of characters, rules */
#ifndef TINYI_GRAMMAR_READ_H
#define TINYI_GRAMMAR_READ_H
#include "llm/sample/grammar.h"
TINYI_C_BEGIN

enum {
    TINYI_GO_CHAR,
    TINYI_GO_NOT,
    TINYI_GO_JUMP,
    TINYI_GO_SPLIT,
    TINYI_GO_CALL,
    TINYI_GO_TAIL,
    TINYI_GO_RETURN,
    TINYI_GO_ACCEPT
};

/* CHAR, NOT: ranges a .. a + b - 1; if c is not 0, wants[c + 1 .. c + wants[c]] lists the operations that read the
 * next character. JUMP: by a. SPLIT: to the next and by a. CALL, TAIL: rule a */
typedef struct tinyi_gop { int32_t op, a, b, c; } tinyi_gop;
typedef struct tinyi_grange { uint32_t lo, hi; } tinyi_grange;
/* start -1: not defined */
typedef struct tinyi_grule { const char *name; size_t n, pos; uint32_t hash; int32_t start, end; } tinyi_grule;

struct tllm_grammar {
    char *text;
    size_t n_text;
    tinyi_gop *op;
    tinyi_grange *range;
    tinyi_grule *rule;
    uint32_t *slot;
    int32_t *wants;                          /* see tinyi_gop; index 0 means no list */
    size_t n_wants, wants_room;
    size_t n_ops, op_room, n_ranges, range_room, n_rules, rule_room, n_slots;
    int32_t root;
};

/* Grows *p to room for want items and keeps the first n */
TINYI_FN int tinyi_grammar_grow(tiny_ctx *ctx, void **p, size_t n, size_t *room, size_t want, size_t each);

TINYI_C_END
#endif
