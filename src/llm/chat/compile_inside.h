/* src/llm/chat/compile_inside.h - a chat template as a list of operations for a machine with a stack
 *
 * Names become numbers, texts and literals constants, blocks and conditions jumps. What stands open (blocks, brackets,
 * operators) stands in two lists of bounded length: nothing recurses. */
#ifndef TINYI_CHAT_COMPILE_H
#define TINYI_CHAT_COMPILE_H
#include "llm/chat/template.h"
#include "llm/chat/value_inside.h"
TINYI_C_BEGIN

enum { /* s: what the operation takes from the stack and leaves on it */
       TINYI_TO_NOP,
       TINYI_TO_TEXT, /* a: constant */
       TINYI_TO_OUT,
       TINYI_TO_POP, /* v -> */
       TINYI_TO_CONST,
       TINYI_TO_LOAD, /* a: constant, name; -> v */
       TINYI_TO_STORE,
       TINYI_TO_STORE_ATTR, /* a: name; v -> and v namespace -> */
       TINYI_TO_UNPACK,     /* a: how many; list -> last .. first */
       TINYI_TO_ATTR,
       TINYI_TO_INDEX,
       TINYI_TO_SLICE,
       TINYI_TO_LIST,
       TINYI_TO_TUPLE,
       TINYI_TO_MAP, /* a: how many */
       TINYI_TO_NEG,
       TINYI_TO_POS,
       TINYI_TO_NOT,
       TINYI_TO_ADD,
       TINYI_TO_SUB,
       TINYI_TO_MUL,
       TINYI_TO_DIV,
       TINYI_TO_FLOOR_DIV,
       TINYI_TO_MOD,
       TINYI_TO_POW,
       TINYI_TO_CONCAT,
       TINYI_TO_EQ,
       TINYI_TO_NE,
       TINYI_TO_LT,
       TINYI_TO_LE,
       TINYI_TO_GT,
       TINYI_TO_GE,
       TINYI_TO_IN,
       TINYI_TO_NOT_IN,
       TINYI_TO_CHAIN, /* b: a comparison; x y -> y, or false and jump to a */
       TINYI_TO_JUMP,
       TINYI_TO_JUMP_IF,
       TINYI_TO_JUMP_UNLESS, /* a: where to; v -> */
       TINYI_TO_AND,
       TINYI_TO_OR,   /* a: where to with v left; else v -> */
       TINYI_TO_CALL, /* a: arguments, b: of them with a name; f args (name arg)s -> v */
       TINYI_TO_FILTER,
       TINYI_TO_TEST,     /* c: which, a, b as above; v args (name arg)s -> v */
       TINYI_TO_FOR,      /* v -> */
       TINYI_TO_FOR_NEXT, /* a: exit; -> item */
       TINYI_TO_FOR_KEEP, /* v ->, and back to a */
       TINYI_TO_FOR_KEPT, /* -> list */
       TINYI_TO_FOR_BACK, /* the end of the body: to a */
       TINYI_TO_FOR_END,  /* a: behind the else */
       TINYI_TO_SCOPE,
       TINYI_TO_SCOPE_END,
       TINYI_TO_CAPTURE,
       TINYI_TO_CAPTURE_END, /* -> string */
       TINYI_TO_MACRO,       /* a: which; -> macro, and on behind its body */
       TINYI_TO_DEFAULT,     /* b: parameter; to a when it was given */
       TINYI_TO_RETURN,
       TINYI_TO_END
};

typedef struct tinyi_top { uint8_t op, c; uint16_t b; int32_t a; uint32_t pos; } tinyi_top;
/* function: 1 + its id */
typedef struct tinyi_tname { const char *s; size_t n; uint32_t hash; int function; } tinyi_tname;
typedef struct tinyi_tmacro_def {
    int32_t name, start, end, first_param, n_params;
    int varargs, kwargs;                    /* the body speaks of them */
} tinyi_tmacro_def;

enum { TINYI_TN_LOOP, TINYI_TN_CALLER, TINYI_TN_VARARGS, TINYI_TN_KWARGS };     /* names with fixed numbers */

struct tllm_template {
    tinyi_doc mem;
    tinyi_top *code;
    tinyi_tv *konst;
    tinyi_tname *name;
    uint32_t *name_slot;
    tinyi_tmacro_def *macro;
    int32_t *param;                         /* names of the parameters of all macros */
    size_t n_code, code_room, n_konst, konst_room, n_names, name_room, n_slots, n_macros, macro_room, n_params,
        param_room;
};

/* t->mem.source is the text, lines ended by \n. */
TINYI_FN tiny_status tinyi_tm_compile(tllm_template *t);

TINYI_C_END
#endif
