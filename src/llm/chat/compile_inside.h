/* src/llm/chat/compile_inside.h - a chat template compiled to operations of a stack machine
 *
 * Names become numbers, texts and literals become constants, blocks and conditions become jumps. Open blocks, brackets
 * and operators are kept in two lists of bounded length; nothing recurses. */
#ifndef TINYI_CHAT_COMPILE_H
#define TINYI_CHAT_COMPILE_H
#include "llm/chat/template.h"
#include "llm/chat/value_inside.h"
TINYI_C_BEGIN

enum { /* "v ->": the operation pops v; "-> v": it pushes v */
       TINYI_CODE_NOP,
       TINYI_CODE_TEXT, /* a: constant */
       TINYI_CODE_OUT,
       TINYI_CODE_POP, /* v -> */
       TINYI_CODE_CONST,
       TINYI_CODE_LOAD, /* a: constant, name; -> v */
       TINYI_CODE_STORE,
       TINYI_CODE_STORE_ATTR, /* a: name; v -> and v namespace -> */
       TINYI_CODE_UNPACK,   /* a: how many; list -> last .. first */
       TINYI_CODE_ATTR,
       TINYI_CODE_INDEX,
       TINYI_CODE_SLICE,
       TINYI_CODE_LIST,
       TINYI_CODE_TUPLE,
       TINYI_CODE_MAP, /* a: how many */
       TINYI_CODE_NEG,
       TINYI_CODE_POS,
       TINYI_CODE_NOT,
       TINYI_CODE_ADD,
       TINYI_CODE_SUB,
       TINYI_CODE_MUL,
       TINYI_CODE_DIV,
       TINYI_CODE_FLOOR_DIV,
       TINYI_CODE_MOD,
       TINYI_CODE_POW,
       TINYI_CODE_CONCAT,
       TINYI_CODE_EQ,
       TINYI_CODE_NE,
       TINYI_CODE_LT,
       TINYI_CODE_LE,
       TINYI_CODE_GT,
       TINYI_CODE_GE,
       TINYI_CODE_IN,
       TINYI_CODE_NOT_IN,
       TINYI_CODE_CHAIN, /* b: a comparison; x y -> y, or false and jump to a */
       TINYI_CODE_JUMP,
       TINYI_CODE_JUMP_IF,
       TINYI_CODE_JUMP_UNLESS, /* a: where to; v -> */
       TINYI_CODE_AND,
       TINYI_CODE_OR, /* a: where to with v left; else v -> */
       TINYI_CODE_CALL, /* a: arguments, b: of them with a name; f args (name arg)s -> v */
       TINYI_CODE_FILTER,
       TINYI_CODE_TEST,   /* c: which, a, b as above; v args (name arg)s -> v */
       TINYI_CODE_FOR,    /* v -> */
       TINYI_CODE_FOR_NEXT, /* a: exit; -> item */
       TINYI_CODE_FOR_KEEP, /* v ->, and back to a */
       TINYI_CODE_FOR_KEPT, /* -> list */
       TINYI_CODE_FOR_BACK, /* the end of the body: to a */
       TINYI_CODE_FOR_END, /* a: after the else */
       TINYI_CODE_SCOPE,
       TINYI_CODE_SCOPE_END,
       TINYI_CODE_CAPTURE,
       TINYI_CODE_CAPTURE_END, /* -> string */
       TINYI_CODE_MACRO,     /* a: which; -> macro, then goes on after its body */
       TINYI_CODE_DEFAULT,   /* b: parameter; to a when it was given */
       TINYI_CODE_RETURN,
       TINYI_CODE_END
};

typedef struct tinyi_template_op { uint8_t op, c; uint16_t b; int32_t a; uint32_t pos; } tinyi_template_op;
/* function: 1 + its id */
typedef struct tinyi_tname { const char *s; size_t n; uint32_t hash; int function; } tinyi_tname;
typedef struct tinyi_tmacro_def {
    int32_t name, start, end, first_param, n_params;
    int varargs, kwargs;                    /* nonzero: the body uses them */
} tinyi_tmacro_def;

enum { TINYI_NAME_LOOP, TINYI_NAME_CALLER, TINYI_NAME_VARARGS, TINYI_NAME_KWARGS }; /* names with fixed numbers */

struct tllm_template {
    tinyi_doc mem;
    tinyi_template_op *code;
    tinyi_tv *konst;
    tinyi_tname *name;
    uint32_t *name_slot;
    tinyi_tmacro_def *macro;
    int32_t *param;                         /* names of the parameters of all macros */
    size_t n_code, code_room, n_konst, konst_room, n_names, name_room, n_slots, n_macros, macro_room, n_params,
        param_room;
};

/* Compiles t->mem.source, whose lines end with \n. */
TINYI_FN tiny_status tinyi_template_compile(tllm_template *t);

TINYI_C_END
#endif
