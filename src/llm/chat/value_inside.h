/* src/llm/chat/value_inside.h - what templates do with values (core/doc/value_inside.h) beyond reading them */
#ifndef TINYI_CHAT_VALUE_H
#define TINYI_CHAT_VALUE_H
#include "core/doc/value_inside.h"
TINYI_C_BEGIN

typedef struct tinyi_tloop {
    tinyi_tlist *list, *kept;
    size_t i, n_done;                       /* the item that runs, and how many were begun */
    int finished;                           /* a body ran to its end: what decides about else in Jinja */
    tinyi_tv changed;                       /* what loop.changed saw last */
} tinyi_tloop;

/* what {{ v }} prints */
TINYI_FN int tinyi_tv_put(tinyi_doc *m, const tinyi_tv *v);
TINYI_FN int tinyi_tv_put_repr(tinyi_doc *m, const tinyi_tv *v);
/* a string as it is; others as they print */
TINYI_FN tinyi_tv tinyi_tv_string(tinyi_doc *m, const tinyi_tv *v);
TINYI_FN int tinyi_tv_in(tinyi_doc *m, const tinyi_tv *item, const tinyi_tv *where);
/* items, characters, or keys; 0 fails for what has none */
TINYI_FN int tinyi_tv_items(tinyi_doc *m, const tinyi_tv *v, tinyi_tv *list);


TINYI_C_END
#endif
