/* src/llm/file/json.h - the words of JSON: space, marks and texts; what stands in which order is the matter of each reader
 *
 * Texts are checked when they are taken (UTF-8, escapes, pairs of surrogates), so that tinyi_json_plain cannot fail. */
#ifndef TINYI_JSON_H
#define TINYI_JSON_H
#include "llm/file/store.h"
TINYI_C_BEGIN

/* path: the file or the argument; what: "the header" */
typedef struct tinyi_json { tiny_ctx *ctx; const char *path, *what; const unsigned char *start, *at, *end; } tinyi_json;
typedef struct tinyi_json_text { const unsigned char *at; size_t n; int escapes; } tinyi_json_text;      /* between the quotes */

/* the sentence that says what stands at the cursor, and what should */
TINYI_FN tiny_status tinyi_json_fail(const tinyi_json *j, const char *wanted);
TINYI_FN void tinyi_json_space(tinyi_json *j);
/* Skips space; takes the character when it comes next. */
TINYI_FN int tinyi_json_is(tinyi_json *j, int c);
TINYI_FN tiny_status tinyi_json_string(tinyi_json *j, tinyi_json_text *t, const char *wanted);
/* a text that tinyi_json_string has taken, without its escapes */
TINYI_FN void tinyi_json_plain(tinyi_made *m, tinyi_json_text t);
TINYI_FN size_t tinyi_json_plain_bytes(tinyi_json_text t);
TINYI_FN int tinyi_json_text_is(tinyi_json_text t, const char *s);

TINYI_C_END
#endif
