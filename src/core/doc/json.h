/* src/core/doc/json.h - reads JSON: the tokens of a fixed form, or any document item by item
 *
 * It takes no memory and does not recurse: texts stay views of the bytes, and a walk keeps one byte for each of at most
 * TINYI_JSON_NEST open lists and maps. UTF-8, escapes and surrogate pairs of a text are checked when it is read, so
 * that tinyi_json_plain cannot fail.
 *
 *   tinyi_json_walk w;
 *   tinyi_json_item it;
 *   st = tinyi_json_begin(&w, ctx, path, "the JSON", bytes, n, most);
 *   while (!st && !(st = tinyi_json_next(&w, &it)) && it.type != TINYI_JSON_END) ...
 */
#ifndef TINYI_JSON_H
#define TINYI_JSON_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* ---- inside: what the bodies share ---- */

#define TINYI_JSON_NEST 100                 /* lists and maps inside one another */
#define TINYI_JSON_NUMBER 400               /* characters of the longest number with a point or an exponent */

/* path: the file or the argument; what: "the header" */
typedef struct tinyi_json { tiny_ctx *ctx; const char *path, *what; const unsigned char *start, *at, *end; } tinyi_json;
/* between the quotes */
typedef struct tinyi_json_text { const unsigned char *at; size_t n; int escapes; } tinyi_json_text;

/* the sentence that says what stands at the cursor, and what should */
TINYI_FN tiny_status tinyi_json_fail(const tinyi_json *j, const char *wanted);
TINYI_FN void tinyi_json_space(tinyi_json *j);
/* Skips space; takes the character when it comes next. */
TINYI_FN int tinyi_json_is(tinyi_json *j, int c);
TINYI_FN tiny_status tinyi_json_string(tinyi_json *j, tinyi_json_text *t, const char *wanted);
/* a text that tinyi_json_string has taken, without its escapes: the bytes go to `to`, as far as the room goes, unless
 * that is NULL; returns how many they are, never more than t.n as long as the text is the one that was taken */
TINYI_FN size_t tinyi_json_plain(unsigned char *to, size_t room, tinyi_json_text t);
TINYI_FN int tinyi_json_text_is(tinyi_json_text t, const char *s);

/* LIST and MAP open, CLOSE ends the innermost of them, END: the document is whole */
typedef enum tinyi_json_type {
    TINYI_JSON_NULL,
    TINYI_JSON_BOOL,
    TINYI_JSON_INT,
    TINYI_JSON_FLOAT,
    TINYI_JSON_TEXT,
    TINYI_JSON_LIST,
    TINYI_JSON_MAP,
    TINYI_JSON_CLOSE,
    TINYI_JSON_END
} tinyi_json_type;

typedef struct tinyi_json_item {
    tinyi_json_type type;
    int depth;                              /* open lists and maps around it */
    tinyi_json_text key;                    /* at NULL unless the item stands in a map; a key may come twice */
    tinyi_json_text text;
    int64_t i;                              /* of INT and BOOL */
    double f;                               /* of FLOAT: what has a point or an exponent */
} tinyi_json_item;

typedef struct tinyi_json_walk {
    tinyi_json j;
    int depth, state;
    unsigned char is_map[TINYI_JSON_NEST];
} tinyi_json_walk;

/* n bytes, refused when they are more than most */
TINYI_FN tiny_status tinyi_json_begin(tinyi_json_walk *w, tiny_ctx *ctx, const char *path, const char *what,
                                      const void *bytes, size_t n, size_t most);
TINYI_FN tiny_status tinyi_json_next(tinyi_json_walk *w, tinyi_json_item *item);

/* The whole of s as a number of digits, sign, point and exponent, whatever the locale; 0 when it is none, or too
 * long. */
TINYI_FN int tinyi_json_f64(const char *s, size_t n, double *f);

TINYI_C_END
#endif
