/* src/llm/chat/value_inside.h - operations of templates on values (core/doc/value_inside.h) */
#ifndef TINYI_CHAT_VALUE_H
#define TINYI_CHAT_VALUE_H
#include "core/doc/value_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_tloop {
    tinyi_tlist *list, *kept;
    size_t i, n_done;                       /* the current item, and the number of items begun */
    int finished;                           /* nonzero: a body ran to its end, so else does not run */
    tinyi_tv changed;                       /* the last value passed to loop.changed */
} tinyi_tloop;

/* prints v like {{ v }} */
TINYI_FN int tinyi_tv_put(tinyi_doc *m, const tinyi_tv *v);
TINYI_FN int tinyi_tv_put_repr(tinyi_doc *m, const tinyi_tv *v);
/* v if it is a string, else its printed form */
TINYI_FN tinyi_tv tinyi_tv_string(tinyi_doc *m, const tinyi_tv *v);
TINYI_FN int tinyi_tv_in(tinyi_doc *m, const tinyi_tv *item, const tinyi_tv *where);
/* items, characters or keys of v; fails and returns 0 if v has none */
TINYI_FN int tinyi_tv_items(tinyi_doc *m, const tinyi_tv *v, tinyi_tv *list);


TINYI_C_END
#endif
