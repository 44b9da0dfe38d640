/* src/llm/chat/value_inside.h - the values of a chat template, and the memory, steps and text of one run
 *
 * A run owns an arena: values are never freed one by one, and everything goes when the run ends. Memory, steps and text are
 * counted against the limits of the run. The first failure stays in run->status with its sentence in the context; whoever
 * fails afterwards changes nothing, and the interpreter looks at it after each operation.                              */
#ifndef TINYI_CHAT_VALUE_H
#define TINYI_CHAT_VALUE_H
#include "core/state_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_TM_UNDEFINED, TINYI_TM_NONE, TINYI_TM_BOOL, TINYI_TM_INT, TINYI_TM_FLOAT, TINYI_TM_STRING, TINYI_TM_LIST, TINYI_TM_MAP,
    TINYI_TM_NAMESPACE, TINYI_TM_FUNCTION, TINYI_TM_METHOD, TINYI_TM_MACRO, TINYI_TM_LOOP, TINYI_TM_MISSING
};

#define TINYI_TM_NEST 100                   /* lists and maps inside one another, of what is printed or compared */
#define TINYI_TM_MAX_JSON ((size_t)1 << 30) /* bytes of a JSON text; what is made of it counts against the limits of the run */

typedef struct tinyi_tv {
    uint32_t type;
    uint32_t id;                            /* of a function or method; of a list 1 when it is a tuple */
    size_t n;                               /* bytes of a string; of an undefined value those of its name */
    union {
        int64_t i;
        double f;
        const char *s;
        struct tinyi_tlist *list;
        struct tinyi_tmap *map;             /* also of a namespace */
        struct tinyi_tv *self;              /* what a method was taken from */
        struct tinyi_tmacro *macro;
        struct tinyi_tloop *loop;
    } u;
} tinyi_tv;

typedef struct tinyi_tlist { tinyi_tv *item; size_t n, room; } tinyi_tlist;
typedef struct tinyi_tpair { tinyi_tv key, value; uint32_t hash; } tinyi_tpair;
typedef struct tinyi_tmap {                 /* in the order of insertion */
    tinyi_tpair *pair;
    size_t n, room;
    uint32_t *slot;                         /* open addressing: 1 + place of the pair; NULL in a small map */
    size_t n_slots;
} tinyi_tmap;
typedef struct tinyi_tloop {
    tinyi_tlist *list, *kept;
    size_t i, n_done;                       /* the item that runs, and how many were begun */
    int finished;                           /* a body ran to its end: what decides about else in Jinja */
    tinyi_tv changed;                       /* what loop.changed saw last */
} tinyi_tloop;

typedef struct tinyi_tm_chunk { struct tinyi_tm_chunk *next; size_t bytes, used; } tinyi_tm_chunk;

typedef struct tinyi_tm {
    tiny_ctx *ctx;
    tiny_status status;
    const char *source;                     /* the template, for line and column */
    size_t n_source, pos;                   /* pos: where in it the operation that runs was written */
    tinyi_tm_chunk *chunk;
    size_t held, max_held;
    uint64_t steps, max_steps;
    char *out;                              /* the text, and above it what is being put together */
    size_t n_out, out_room, max_out;
    int64_t now;
    tinyi_tlist no_list;                    /* empty, what is handed out when there is no memory */
    tinyi_tmap no_map;
} tinyi_tm;

TINYI_FN void tinyi_tm_end(tinyi_tm *m);
/* "template line 3, column 7: ..." */
TINYI_FN int tinyi_tm_fail(tinyi_tm *m, tiny_status status, const char *format, ...) TINYI_PRINTF(3, 4);
/* Counts n units of work; 0 when it was too much. */
TINYI_FN int tinyi_tm_work(tinyi_tm *m, size_t n);
TINYI_FN void *tinyi_tm_alloc(tinyi_tm *m, size_t n, size_t bytes_each);
/* *array with room for want items of bytes_each; the n first are kept */
TINYI_FN int tinyi_tm_grow(tinyi_tm *m, void **array, size_t n, size_t *room, size_t want, size_t bytes_each);

/* text at the end of out; take makes a string of what stands from start on, and takes it away there */
TINYI_FN int tinyi_tm_put(tinyi_tm *m, const char *s, size_t n);
TINYI_FN tinyi_tv tinyi_tm_take(tinyi_tm *m, size_t start);
TINYI_FN tinyi_tv tinyi_tm_concat(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b);      /* strings */

TINYI_FN tinyi_tv tinyi_tv_of(int type);
TINYI_FN tinyi_tv tinyi_tv_int(int64_t i);
TINYI_FN tinyi_tv tinyi_tv_bool(int b);
TINYI_FN tinyi_tv tinyi_tv_float(double f);
TINYI_FN tinyi_tv tinyi_tv_view(const char *s, size_t n);                       /* no copy */
TINYI_FN tinyi_tv tinyi_tv_list(tinyi_tm *m, size_t room);
TINYI_FN tinyi_tv tinyi_tv_map(tinyi_tm *m);
TINYI_FN int tinyi_list_add(tinyi_tm *m, tinyi_tlist *list, tinyi_tv v);
TINYI_FN tinyi_tv *tinyi_map_find(tinyi_tm *m, const tinyi_tmap *map, const tinyi_tv *key);       /* NULL: not there */
TINYI_FN tinyi_tv *tinyi_map_find_text(tinyi_tm *m, const tinyi_tmap *map, const char *s, size_t n);
TINYI_FN int tinyi_map_set(tinyi_tm *m, tinyi_tmap *map, tinyi_tv key, tinyi_tv value);
TINYI_FN int tinyi_map_drop(tinyi_tm *m, tinyi_tmap *map, const tinyi_tv *key);

TINYI_FN const char *tinyi_tv_type_name(const tinyi_tv *v);
TINYI_FN int tinyi_tv_true(const tinyi_tv *v);
TINYI_FN int tinyi_tv_is(const tinyi_tv *v, const char *s);                     /* a string with these bytes */
TINYI_FN int tinyi_tv_number(const tinyi_tv *v, double *f);                     /* bool, int, float */
TINYI_FN int tinyi_tv_equal(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b);
/* -1, 0, 1; values that have no order fail */
TINYI_FN int tinyi_tv_compare(tinyi_tm *m, const tinyi_tv *a, const tinyi_tv *b, int fold);
TINYI_FN int tinyi_tv_in(tinyi_tm *m, const tinyi_tv *item, const tinyi_tv *where);
/* what {{ v }} prints */
TINYI_FN int tinyi_tv_put(tinyi_tm *m, const tinyi_tv *v);
TINYI_FN int tinyi_tv_put_repr(tinyi_tm *m, const tinyi_tv *v);
TINYI_FN tinyi_tv tinyi_tv_string(tinyi_tm *m, const tinyi_tv *v);              /* a string as it is; others as they print */
/* indent < 0: one line */
typedef struct tinyi_tm_json_form { int indent, sort, ascii; tinyi_tv item_mark, key_mark; } tinyi_tm_json_form;
TINYI_FN int tinyi_tv_put_json(tinyi_tm *m, const tinyi_tv *v, const tinyi_tm_json_form *form);
/* name: what the text is, for the sentence. Strings without escapes stay views of the text. */
TINYI_FN int tinyi_tv_read_json(tinyi_tm *m, const char *name, const char *text, size_t n, tinyi_tv *out);
/* items, characters, or keys; 0 fails for what has none */
TINYI_FN int tinyi_tv_items(tinyi_tm *m, const tinyi_tv *v, tinyi_tv *list);

TINYI_FN void tinyi_tm_show(const char *s, size_t n, char shown[80]);

TINYI_C_END
#endif
