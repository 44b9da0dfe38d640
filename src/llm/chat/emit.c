/* src/llm/chat/emit.c - operations, constants and names of a template while it is compiled */
#include "llm/chat/parse_inside.h"
#include "llm/chat/builtin_inside.h"
#include <string.h>

TINYI_FN int tinyi_parse_fail_at(tinyi_tparse *p, size_t pos, const char *what)
{
    p->m->pos = pos;
    return tinyi_doc_fail(p->m, TINY_E_FORMAT, "%s", what);
}

TINYI_FN int tinyi_parse_unexpected(tinyi_tparse *p, const char *wanted)
{
    char shown[80];
    p->m->pos = p->tok.pos;
    if (p->tok.pos >= p->n)
        return tinyi_doc_fail(p->m, TINY_E_FORMAT, "expected %s, but the template ends", wanted);
    tinyi_doc_show(p->tok.s, p->tok.n, shown);
    return tinyi_doc_fail(p->m, TINY_E_FORMAT, "expected %s, not '%s'", wanted, shown);
}

/* ---- what the code is made of ------------------------------------------------------------------------------------ */

TINYI_FN int32_t tinyi_parse_emit(tinyi_tparse *p, int op, int32_t a)
{
    tllm_template *t = p->t;
    void *code = t->code;
    tinyi_template_op *o;
    if (p->m->status || !tinyi_doc_grow(p->m, &code, t->n_code, &t->code_room, t->n_code + 1, sizeof *t->code))
        return 0;
    t->code = (tinyi_template_op *)code;
    o = &t->code[t->n_code];
    memset(o, 0, sizeof *o);
    o->op = (uint8_t)op;
    o->a = a;
    o->pos = (uint32_t)p->tok.pos;
    return (int32_t)t->n_code++;
}

TINYI_FN int32_t tinyi_parse_here(const tinyi_tparse *p) { return (int32_t)p->t->n_code; }
TINYI_FN void tinyi_parse_patch(tinyi_tparse *p, int32_t at)
{
    if (!p->m->status && at >= 0) p->t->code[at].a = tinyi_parse_here(p);
}
/* a chain of jumps with one aim: each holds the one before it, -1 ends */
TINYI_FN void tinyi_parse_patch_all(tinyi_tparse *p, int32_t at)
{
    while (!p->m->status && at >= 0) {
        int32_t next = p->t->code[at].a;
        tinyi_parse_patch(p, at);
        at = next;
    }
}

TINYI_FN int32_t tinyi_parse_konst(tinyi_tparse *p, tinyi_tv v)
{
    tllm_template *t = p->t;
    void *konst = t->konst;
    if (p->m->status || !tinyi_doc_grow(p->m, &konst, t->n_konst, &t->konst_room, t->n_konst + 1, sizeof v)) return 0;
    t->konst = (tinyi_tv *)konst;
    t->konst[t->n_konst] = v;
    return (int32_t)t->n_konst++;
}
TINYI_FN void tinyi_parse_push(tinyi_tparse *p, tinyi_tv v)
{
    (void)tinyi_parse_emit(p, TINYI_CODE_CONST, tinyi_parse_konst(p, v));
}

TINYI_FN int32_t tinyi_parse_name(tinyi_tparse *p, const char *s, size_t n)
{
    tllm_template *t = p->t;
    uint32_t h = 2166136261u;
    size_t i, k;
    void *name = t->name;
    if (p->m->status) return 0;
    for (i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    if ((t->n_names + 1) * 2 > t->n_slots) {
        size_t n_slots = t->n_slots ? t->n_slots * 4 : 64;
        uint32_t *slot = (uint32_t *)tinyi_doc_alloc(p->m, n_slots, sizeof *slot);
        if (!slot) return 0;
        memset(slot, 0, n_slots * sizeof *slot);
        for (i = 0; i < t->n_names; i++) {
            for (k = t->name[i].hash & (n_slots - 1); slot[k]; k = (k + 1) & (n_slots - 1)) {}
            slot[k] = (uint32_t)i + 1;
        }
        t->name_slot = slot;
        t->n_slots = n_slots;
    }
    for (k = h & (t->n_slots - 1); t->name_slot[k]; k = (k + 1) & (t->n_slots - 1)) {
        const tinyi_tname *old = &t->name[t->name_slot[k] - 1];
        if (!tinyi_doc_work(p->m, 1)) return 0;
        if (old->hash == h && old->n == n && !memcmp(old->s, s, n)) return (int32_t)t->name_slot[k] - 1;
    }
    if (!tinyi_doc_grow(p->m, &name, t->n_names, &t->name_room, t->n_names + 1, sizeof *t->name)) return 0;
    t->name = (tinyi_tname *)name;
    t->name[t->n_names].s = s;
    t->name[t->n_names].n = n;
    t->name[t->n_names].hash = h;
    t->name[t->n_names].function = 1 + tinyi_template_function(s, n);
    t->name_slot[k] = (uint32_t)++t->n_names;
    return (int32_t)t->n_names - 1;
}
