/* src/llm/chat/builtin_inside.h - filters, tests, methods, functions and member access of chat templates */
#ifndef TINYI_CHAT_BUILTIN_H
#define TINYI_CHAT_BUILTIN_H
#include "llm/chat/value_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_targs {
    const tinyi_tv *arg, *named;            /* named: name, value, name, value ... */
    int n, n_named;
    uint32_t used[4];                       /* a bit for each named argument that was read */
} tinyi_targs;

/* the number of a name, or -1 */
TINYI_FN int tinyi_template_function(const char *s, size_t n);
TINYI_FN int tinyi_template_filter(const char *s, size_t n);
TINYI_FN int tinyi_template_test(const char *s, size_t n);

TINYI_FN tinyi_tv tinyi_template_call_function(tinyi_doc *m, int id, tinyi_targs *args);
TINYI_FN tinyi_tv tinyi_template_call_filter(tinyi_doc *m, int id, const tinyi_tv *v, tinyi_targs *args);
TINYI_FN int tinyi_template_call_test(tinyi_doc *m, int id, const tinyi_tv *v, tinyi_targs *args);
TINYI_FN tinyi_tv tinyi_template_call_method(tinyi_doc *m, int id, tinyi_tv *self, tinyi_targs *args);

/* x.name and x[key]. A missing member is undefined; a member of an undefined value fails. */
TINYI_FN tinyi_tv tinyi_template_attr(tinyi_doc *m, const tinyi_tv *v, const char *s, size_t n);
TINYI_FN tinyi_tv tinyi_template_index(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *key);
TINYI_FN tinyi_tv tinyi_template_slice(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *from, const tinyi_tv *to,
                                       const tinyi_tv *step);
TINYI_FN tinyi_tv tinyi_template_format(tinyi_doc *m, const tinyi_tv *v, const tinyi_tv *arg, size_t n); /* "%s" */
TINYI_FN tinyi_tv tinyi_template_repeat(tinyi_doc *m, const tinyi_tv *v, int64_t times);
TINYI_FN int tinyi_template_undefined(tinyi_doc *m, const tinyi_tv *v);          /* fails and names v */

TINYI_C_END
#endif
