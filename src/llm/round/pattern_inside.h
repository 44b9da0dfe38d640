/* src/llm/round/pattern_inside.h - inside: the patterns that choose tensors by their names
 *
 * . [a-z] [^a-z] ( | ) * + ? ^ $ and \ before any of them. */
#ifndef TINYI_PATTERN_H
#define TINYI_PATTERN_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

enum { TINYI_PATTERN_STEPS = 4096, TINYI_PATTERN_DEPTH = 200 };    /* of a program; of brackets within brackets */

/* EITHER: continue at a or b steps from here; GO: at a; SET: the characters from a to b of the text; CHARACTER: a */
typedef struct tinyi_pattern_step { int what, a, b; } tinyi_pattern_step;
typedef struct tinyi_pattern {
    tinyi_pattern_step at[TINYI_PATTERN_STEPS];
    int n;
    const char *text, *end, *wrong;         /* the text must stay */
} tinyi_pattern;
/* Scratch of a match: the steps that take a character, and for each step the last place where it was reached. */
typedef struct tinyi_pattern_places {
    int list[2][TINYI_PATTERN_STEPS], n[2];
    size_t seen[2][TINYI_PATTERN_STEPS + 1];
    int todo[TINYI_PATTERN_STEPS + 1];
} tinyi_pattern_places;

/* NULL, or what is wrong with the pattern between text and end */
TINYI_FN const char *tinyi_pattern_compile(tinyi_pattern *p, const char *text, const char *end);
/* 1: the pattern matches somewhere in the name */
TINYI_FN int tinyi_pattern_matches(const tinyi_pattern *p, tllm_text name, tinyi_pattern_places *work);

TINYI_C_END
#endif
