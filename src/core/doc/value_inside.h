/* src/core/doc/value_inside.h - a tree of values: what a JSON text is in memory, what a schema is read from, what a
 * template works with
 *
 * A document owns an arena: values are never freed one by one, and everything goes when it ends. Memory, steps and
 * text are counted against its limits. The first failure stays in doc->status with its sentence in the context;
 * whatever fails afterwards changes nothing, so that a caller may look at it once in a while.
 *
 * Maps keep the order of insertion, and find a key of any text by hashing. The kinds from NAMESPACE on are of chat
 * templates (llm/chat): here they can be compared, and have no form in JSON.  */
#ifndef TINYI_DOC_VALUE_H
#define TINYI_DOC_VALUE_H
#include "core/state_inside.h"
TINYI_C_BEGIN

enum {
    TINYI_DOC_UNDEFINED,
    TINYI_DOC_NONE,
    TINYI_DOC_BOOL,
    TINYI_DOC_INT,
    TINYI_DOC_FLOAT,
    TINYI_DOC_STRING,
    TINYI_DOC_LIST,
    TINYI_DOC_MAP,
    TINYI_DOC_NAMESPACE,
    TINYI_DOC_FUNCTION,
    TINYI_DOC_METHOD,
    TINYI_DOC_MACRO,
    TINYI_DOC_LOOP,
    TINYI_DOC_MISSING
};

#define TINYI_DOC_NEST 100                   /* lists and maps inside one another, of what is printed or compared */
#define TINYI_DOC_MOST \
    ((size_t)1 << 30) /* bytes of a JSON text; what is made of it counts against the limits of the run */

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
typedef struct tinyi_doc_chunk { struct tinyi_doc_chunk *next; size_t bytes, used; } tinyi_doc_chunk;

typedef struct tinyi_doc {
    tiny_ctx *ctx;
    tiny_status status;
    const char *what;                       /* "template": for sentences */
    const char *source;                     /* a text that is worked through, for line and column; or NULL */
    size_t n_source, pos;                   /* pos: where in it the operation that runs was written */
    tinyi_doc_chunk *chunk;
    size_t held, max_held;
    uint64_t steps, max_steps;
    char *out;                              /* the text, and above it what is being put together */
    size_t n_out, out_room, max_out;
    int64_t now;                            /* the time that a template may ask for */
    tinyi_tlist no_list;                    /* empty, what is handed out when there is no memory */
    tinyi_tmap no_map;
} tinyi_doc;

TINYI_FN void tinyi_doc_end(tinyi_doc *m);
/* "template line 3, column 7: ..." */
TINYI_FN int tinyi_doc_fail(tinyi_doc *m, tiny_status status, const char *format, ...) TINYI_PRINTF(3, 4);
/* Counts n units of work; 0 when it was too much. */
TINYI_FN int tinyi_doc_work(tinyi_doc *m, size_t n);
TINYI_FN void *tinyi_doc_alloc(tinyi_doc *m, size_t n, size_t bytes_each);
/* *array with room for want items of bytes_each; the n first are kept */
TINYI_FN int tinyi_doc_grow(tinyi_doc *m, void **array, size_t n, size_t *room, size_t want, size_t bytes_each);

/* text at the end of out; take makes a string of what stands from start on, and takes it away there */
TINYI_FN int tinyi_doc_put(tinyi_doc *m, const char *s, size_t n);
TINYI_FN tinyi_tv tinyi_doc_take(tinyi_doc *m, size_t start);
TINYI_FN tinyi_tv tinyi_doc_concat(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b);      /* strings */

TINYI_FN tinyi_tv tinyi_tv_of(int type);
TINYI_FN tinyi_tv tinyi_tv_int(int64_t i);
TINYI_FN tinyi_tv tinyi_tv_bool(int b);
TINYI_FN tinyi_tv tinyi_tv_float(double f);
TINYI_FN tinyi_tv tinyi_tv_view(const char *s, size_t n);                       /* no copy */
TINYI_FN tinyi_tv tinyi_tv_list(tinyi_doc *m, size_t room);
TINYI_FN tinyi_tv tinyi_tv_map(tinyi_doc *m);
TINYI_FN int tinyi_list_add(tinyi_doc *m, tinyi_tlist *list, tinyi_tv v);
TINYI_FN tinyi_tv *tinyi_map_find(tinyi_doc *m, const tinyi_tmap *map, const tinyi_tv *key);       /* NULL: not there */
TINYI_FN tinyi_tv *tinyi_map_find_text(tinyi_doc *m, const tinyi_tmap *map, const char *s, size_t n);
TINYI_FN int tinyi_map_set(tinyi_doc *m, tinyi_tmap *map, tinyi_tv key, tinyi_tv value);
TINYI_FN int tinyi_map_drop(tinyi_doc *m, tinyi_tmap *map, const tinyi_tv *key);

TINYI_FN const char *tinyi_tv_type_name(const tinyi_tv *v);
TINYI_FN int tinyi_tv_true(const tinyi_tv *v);
TINYI_FN int tinyi_tv_is(const tinyi_tv *v, const char *s);                     /* a string with these bytes */
TINYI_FN int tinyi_tv_number(const tinyi_tv *v, double *f);                     /* bool, int, float */
TINYI_FN int tinyi_tv_equal(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b);
/* -1, 0, 1; values that have no order fail. fold: what a character counts as, or NULL: texts byte by byte */
TINYI_FN int tinyi_tv_compare(tinyi_doc *m, const tinyi_tv *a, const tinyi_tv *b, uint32_t (*fold)(uint32_t));
/* As JSON. indent < 0: one line. Another language brings leaf, which puts what is no list and no map, and its
 * brackets. */
typedef struct tinyi_doc_form {
    int indent, sort, ascii;
    tinyi_tv item_mark, key_mark;
    int (*leaf)(tinyi_doc *m, const tinyi_tv *v);
} tinyi_doc_form;
TINYI_FN int tinyi_tv_put_json(tinyi_doc *m, const tinyi_tv *v, const tinyi_doc_form *form);
TINYI_FN int tinyi_doc_put_int(tinyi_doc *m, int64_t i);
/* the shortest digits that are read back as f; infinity and NaN as JSON's readers take them, or as Python's repr writes
 * them */
TINYI_FN int tinyi_doc_put_float(tinyi_doc *m, double f, int json);
/* hidden: characters that are written as \x, \u and \U though JSON would not; NULL: as JSON, ascii: those above 127
 * too */
TINYI_FN int tinyi_doc_put_quoted(tinyi_doc *m, const char *s, size_t n, int ascii, int (*hidden)(uint32_t c));
/* name: what the text is, for the sentence. Strings without escapes stay views of the text. */
TINYI_FN int tinyi_tv_read_json(tinyi_doc *m, const char *name, const char *text, size_t n, tinyi_tv *out);
TINYI_FN void tinyi_doc_show(const char *s, size_t n, char shown[80]);

TINYI_C_END
#endif
