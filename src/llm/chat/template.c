/* src/llm/chat/template.c - the stack machine that runs the operations of compile.c
 *
 * Variables: names have numbers. global[] holds the variables set at the top level. Local variables are in one list;
 * top[] finds the innermost one of each name. A macro sees its own variables, those around its definition, and the
 * global ones. The variables of its caller are below its base and are skipped. */
#include "llm/chat/template.h"
#include "llm/chat/compile_inside.h"
#include "llm/chat/builtin_inside.h"
#include "llm/chat/forms_inside.h"
#include <string.h>
#include <time.h>

#ifndef TINYI_NO_TEMPLATES
typedef struct tinyi_tlocal { tinyi_tv v; int32_t name, below; } tinyi_tlocal;
typedef struct tinyi_tframe {               /* of a macro */
    int32_t back;                           /* where the operations go on */
    const tinyi_tmacro_def *def;
    size_t base, n_scopes, n_loops, n_captures, n_stack;
} tinyi_tframe;
typedef struct tinyi_tlooping { tinyi_tloop *loop; size_t n_locals, n_scopes, n_captures, n_stack; } tinyi_tlooping;
typedef struct tinyi_tmacro {
    const tinyi_tmacro_def *def;
    tinyi_tlocal *around;                   /* copies of the local variables where it was defined */
    size_t n_around;
} tinyi_tmacro;

typedef struct tinyi_trun {
    tinyi_doc m;
    const tllm_template *t;
    tinyi_tv *global, *stack;
    int32_t *top;                           /* of each name: 1 + place of its innermost local, 0 none */
    tinyi_tlocal *local;
    size_t *scope, *capture;                /* n_local at the start of each scope; n_out at that of each capture */
    tinyi_tlooping *loop;
    tinyi_tframe frame[TLLM_TEMPLATE_MAX_CALLS];
    size_t n_stack, stack_room, n_locals, local_room, n_scopes, scope_room, n_captures, capture_room, n_loops,
        loop_room;
    int n_frames;
} tinyi_trun;

/* ---- stacks ------------------------------------------------------------------------------------------------------ */

static void tinyi_render_push(tinyi_trun *r, tinyi_tv v)
{
    void *stack = r->stack;
    if (r->m.status || !tinyi_doc_grow(&r->m, &stack, r->n_stack, &r->stack_room, r->n_stack + 1, sizeof v)) return;
    r->stack = (tinyi_tv *)stack;
    r->stack[r->n_stack++] = v;
}
static tinyi_tv tinyi_render_pop(tinyi_trun *r)
{
    TINY_ASSERT(r->n_stack);
    return r->n_stack ? r->stack[--r->n_stack] : tinyi_tv_of(TINYI_DOC_UNDEFINED);
}
static size_t tinyi_render_base(const tinyi_trun *r) { return r->n_frames ? r->frame[r->n_frames - 1].base : 0; }

static void tinyi_render_drop_locals(tinyi_trun *r, size_t n)
{
    while (r->n_locals > n) {
        const tinyi_tlocal *l = &r->local[--r->n_locals];
        r->top[l->name] = l->below;
    }
}
static void tinyi_render_scope(tinyi_trun *r)
{
    void *scope = r->scope;
    if (!tinyi_doc_grow(&r->m, &scope, r->n_scopes, &r->scope_room, r->n_scopes + 1, sizeof *r->scope)) return;
    r->scope = (size_t *)scope;
    r->scope[r->n_scopes++] = r->n_locals;
}
static void tinyi_render_scope_end(tinyi_trun *r, size_t n_scopes)
{
    if (r->n_scopes <= n_scopes) return;
    tinyi_render_drop_locals(r, r->scope[n_scopes]);
    r->n_scopes = n_scopes;
}
static void tinyi_render_capture(tinyi_trun *r)
{
    void *capture = r->capture;
    if (!tinyi_doc_grow(&r->m, &capture, r->n_captures, &r->capture_room, r->n_captures + 1, sizeof *r->capture))
        return;
    r->capture = (size_t *)capture;
    r->capture[r->n_captures++] = r->m.n_out;
}
static void tinyi_render_capture_drop(tinyi_trun *r, size_t n)
{
    if (r->n_captures <= n) return;
    r->m.n_out = r->capture[n];
    r->n_captures = n;
}

/* ---- variables --------------------------------------------------------------------------------------------------- */

static tinyi_tv *tinyi_render_find(tinyi_trun *r, int32_t name)
{
    int32_t at = r->top[name];
    if (at && (size_t)at > tinyi_render_base(r)) return &r->local[at - 1].v;
    return r->global[name].type == TINYI_DOC_MISSING ? NULL : &r->global[name];
}

static void tinyi_render_local(tinyi_trun *r, int32_t name, tinyi_tv v)
{
    void *local = r->local;
    if (r->m.status || !tinyi_doc_grow(&r->m, &local, r->n_locals, &r->local_room, r->n_locals + 1, sizeof *r->local))
        return;
    r->local = (tinyi_tlocal *)local;
    r->local[r->n_locals].v = v;
    r->local[r->n_locals].name = name;
    r->local[r->n_locals].below = r->top[name];
    r->top[name] = (int32_t)++r->n_locals;
}

static void tinyi_render_store(tinyi_trun *r, int32_t name, tinyi_tv v)
{
    size_t scope_base = r->n_frames ? r->frame[r->n_frames - 1].n_scopes : 0;
    size_t start = r->n_scopes > scope_base ? r->scope[r->n_scopes - 1] : tinyi_render_base(r);
    if (!r->n_frames && !r->n_scopes) r->global[name] = v;
    else if (r->top[name] && (size_t)r->top[name] > start) r->local[r->top[name] - 1].v = v;
    else tinyi_render_local(r, name, v);
}

static void tinyi_render_load(tinyi_trun *r, int32_t name)
{
    const tinyi_tv *v = tinyi_render_find(r, name);
    const tinyi_tname *n = &r->t->name[name];
    tinyi_tv made;
    if (v && v->type != TINYI_DOC_MISSING) { tinyi_render_push(r, *v); return; }
    made = tinyi_tv_of(n->function ? TINYI_DOC_FUNCTION : TINYI_DOC_UNDEFINED);
    if (n->function) made.id = (uint32_t)(n->function - 1);
    else { made.u.s = n->s; made.n = n->n; }
    tinyi_render_push(r, made);
}

/* ---- macros and calls -------------------------------------------------------------------------------------------- */

static void tinyi_render_define(tinyi_trun *r, int32_t which)
{
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_MACRO);
    size_t i, base = tinyi_render_base(r);
    tinyi_tmacro *macro = (tinyi_tmacro *)tinyi_doc_alloc(&r->m, 1, sizeof *macro);
    if (!macro) return;
    macro->def = &r->t->macro[which];
    macro->n_around = r->n_locals - base;
    macro->around = NULL;
    if (macro->n_around) {
        macro->around = (tinyi_tlocal *)tinyi_doc_alloc(&r->m, macro->n_around, sizeof *macro->around);
        if (!macro->around || !tinyi_doc_work(&r->m, macro->n_around)) return;
        for (i = 0; i < macro->n_around; i++) macro->around[i] = r->local[base + i];
    }
    v.u.macro = macro;
    tinyi_render_push(r, v);
}

/* The frame of a macro; its arguments become local variables. 1: run it from its start. */
static int tinyi_render_enter(tinyi_trun *r, const tinyi_tmacro *macro, const tinyi_targs *a, size_t n_stack,
                              int32_t back)
{
    const tinyi_tmacro_def *def = macro->def;
    tinyi_tframe *f;
    tinyi_tv rest, named;
    char shown[80], name[80];
    size_t i;
    int k, p;
    tinyi_doc_show(r->t->name[def->name].s, r->t->name[def->name].n, name);
    if (r->n_frames == TLLM_TEMPLATE_MAX_CALLS)
        return tinyi_doc_fail(&r->m, TINY_E_WORKSPACE, "macro %s: macro calls are nested more than %d deep", name,
                              TLLM_TEMPLATE_MAX_CALLS);
    f = &r->frame[r->n_frames];
    f->back = back;
    f->def = def;
    f->base = r->n_locals;
    f->n_scopes = r->n_scopes;
    f->n_loops = r->n_loops;
    f->n_captures = r->n_captures;
    f->n_stack = n_stack;
    r->n_frames++;
    if (!tinyi_doc_work(&r->m, macro->n_around + 1)) return 0;
    for (i = 0; i < macro->n_around; i++) tinyi_render_local(r, macro->around[i].name, macro->around[i].v);
    tinyi_render_scope(r);
    if (a->n > def->n_params && !def->varargs)
        return tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "macro %s takes %d arguments, not %d", name, (int)def->n_params,
                              a->n);
    for (p = 0; p < def->n_params; p++)
        tinyi_render_local(r, r->t->param[def->first_param + p], p < a->n ? a->arg[p] : tinyi_tv_of(TINYI_DOC_MISSING));
    named = def->kwargs ? tinyi_tv_map(&r->m) : tinyi_tv_of(TINYI_DOC_NONE);
    for (k = 0; k < a->n_named && !r->m.status; k++) {
        const tinyi_tv *key = &a->named[2 * k];
        for (p = 0; p < def->n_params; p++) {
            const tinyi_tname *pn = &r->t->name[r->t->param[def->first_param + p]];
            if (pn->n == key->n && !memcmp(pn->s, key->u.s, key->n)) break;
        }
        tinyi_doc_show(key->u.s, key->n, shown);
        if (p < def->n_params) {
            if (p < a->n) return tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "macro %s gets %s twice", name, shown);
            r->local[r->n_locals - (size_t)(def->n_params - p)].v = a->named[2 * k + 1];
        } else if (tinyi_tv_is(key, "caller")) {
            continue;
        } else if (def->kwargs) {
            (void)tinyi_map_set(&r->m, named.u.map, *key, a->named[2 * k + 1]);
        } else {
            return tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "macro %s has no parameter %s", name, shown);
        }
    }
    for (k = 0; k < a->n_named && !r->m.status; k++)
        if (tinyi_tv_is(&a->named[2 * k], "caller")) tinyi_render_local(r, TINYI_NAME_CALLER, a->named[2 * k + 1]);
    if (def->kwargs) tinyi_render_local(r, TINYI_NAME_KWARGS, named);
    if (def->varargs) {
        rest = tinyi_tv_list(&r->m, 0);
        rest.id = 1;
        for (p = def->n_params; p < a->n && !r->m.status; p++) (void)tinyi_list_add(&r->m, rest.u.list, a->arg[p]);
        tinyi_render_local(r, TINYI_NAME_VARARGS, rest);
    }
    tinyi_render_capture(r);
    return !r->m.status;
}

static int32_t tinyi_render_return(tinyi_trun *r)
{
    const tinyi_tframe *f = &r->frame[--r->n_frames];
    tinyi_tv v = tinyi_doc_take(&r->m, r->capture[f->n_captures]);
    r->n_captures = f->n_captures;
    r->n_scopes = f->n_scopes;
    r->n_loops = f->n_loops;
    r->n_stack = f->n_stack;
    tinyi_render_drop_locals(r, f->base);
    tinyi_render_push(r, v);
    return f->back;
}

static void tinyi_render_args(const tinyi_trun *r, const tinyi_template_op *o, tinyi_targs *a)
{
    size_t n = (size_t)o->a + 2u * o->b;
    memset(a, 0, sizeof *a);
    a->n = o->a;
    a->n_named = o->b;
    a->arg = r->stack + (r->n_stack - n);
    a->named = a->arg + o->a;
}

/* next: the operation that comes then */
static void tinyi_render_call(tinyi_trun *r, const tinyi_template_op *o, int32_t *next)
{
    size_t n = (size_t)o->a + 2u * o->b;
    tinyi_targs a;
    tinyi_tv f, v, *self;
    char shown[80];
    TINY_ASSERT(r->n_stack > n);
    tinyi_render_args(r, o, &a);
    f = r->stack[r->n_stack - n - 1];
    switch (f.type) {
    case TINYI_DOC_MACRO:
        if (tinyi_render_enter(r, f.u.macro, &a, r->n_stack - n - 1, *next)) *next = f.u.macro->def->start;
        return;
    case TINYI_DOC_FUNCTION: v = tinyi_template_call_function(&r->m, (int)f.id, &a); break;
    case TINYI_DOC_METHOD:
        self = f.u.self;
        v = tinyi_template_call_method(&r->m, (int)f.id, self, &a);
        break;
    case TINYI_DOC_UNDEFINED: (void)tinyi_template_undefined(&r->m, &f); return;
    default:
        tinyi_doc_show(tinyi_tv_type_name(&f), strlen(tinyi_tv_type_name(&f)), shown);
        (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "%s is not a function and cannot be called", shown);
        return;
    }
    r->n_stack -= n + 1;
    tinyi_render_push(r, v);
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static int tinyi_render_whole(const tinyi_tv *v) { return v->type == TINYI_DOC_INT || v->type == TINYI_DOC_BOOL; }

static int tinyi_render_mul(int64_t a, int64_t b, int64_t *out)
{
    if (a && b) {
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)
            return 0;
    }
    *out = a * b;
    return 1;
}

static double tinyi_render_floor(double x)
{
    double whole;
    if (!(x > -4.5e15 && x < 4.5e15)) return x;
    whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

static tinyi_tv tinyi_render_number(tinyi_trun *r, int op, const tinyi_tv *a, const tinyi_tv *b)
{
    int64_t x = a->u.i, y = b->u.i, z = 0;
    double f = 0.0, g = 0.0;
    int fits = 1, i;
    if (tinyi_render_whole(a) && tinyi_render_whole(b) && op != TINYI_CODE_DIV && !(op == TINYI_CODE_POW && y < 0)) {
        switch (op) {
        case TINYI_CODE_ADD: fits = y > 0 ? x <= INT64_MAX - y : x >= INT64_MIN - y; z = fits ? x + y : 0; break;
        case TINYI_CODE_SUB: fits = y > 0 ? x >= INT64_MIN + y : x <= INT64_MAX + y; z = fits ? x - y : 0; break;
        case TINYI_CODE_MUL: fits = tinyi_render_mul(x, y, &z); break;
        case TINYI_CODE_POW:
            z = 1;
            if (x == 0 || x == 1 || x == -1) z = !y ? 1 : x == -1 && y % 2 == 0 ? 1 : x;
            else for (; y > 0 && fits; y--) fits = tinyi_render_mul(z, x, &z);
            break;
        default:
            if (!y) { (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "division by 0"); return tinyi_tv_int(0); }
            fits = !(x == INT64_MIN && y == -1);
            if (!fits) break;
            z = x / y;
            if (x % y != 0 && (x % y < 0) != (y < 0)) z--;
            if (op == TINYI_CODE_MOD) z = x - z * y;
        }
        if (!fits) (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "a whole number of more than 64 bits");
        return tinyi_tv_int(z);
    }
    (void)tinyi_tv_number(a, &f);
    (void)tinyi_tv_number(b, &g);
    switch (op) {
    case TINYI_CODE_ADD: return tinyi_tv_float(f + g);
    case TINYI_CODE_SUB: return tinyi_tv_float(f - g);
    case TINYI_CODE_MUL: return tinyi_tv_float(f * g);
    case TINYI_CODE_POW: {
        double p = 1;
        if (g != tinyi_render_floor(g) || g > 1100 || g < -1100) {
            (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "an exponent that is not a whole number of at most 1100");
            break;
        }
        for (i = (int)(g < 0 ? -g : g); i > 0; i--) p *= f;
        if (g < 0 && p == 0) { (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "division by 0"); break; }
        return tinyi_tv_float(g < 0 ? 1 / p : p);
    }
    default:
        if (g == 0) { (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "division by 0"); break; }
        if (op == TINYI_CODE_DIV) return tinyi_tv_float(f / g);
        if (op == TINYI_CODE_FLOOR_DIV) return tinyi_tv_float(tinyi_render_floor(f / g));
        return tinyi_tv_float(f - tinyi_render_floor(f / g) * g);
    }
    return tinyi_tv_int(0);
}

static const char *tinyi_render_sign(int op)
{
    static const char *const sign[] = { "+", "-", "*", "/", "//", "%", "**" };
    return sign[op - TINYI_CODE_ADD];
}

static tinyi_tv tinyi_render_arithmetic(tinyi_trun *r, int op, const tinyi_tv *a, const tinyi_tv *b)
{
    double f;
    tinyi_tv list;
    size_t i;
    if (tinyi_tv_number(a, &f) && tinyi_tv_number(b, &f)) return tinyi_render_number(r, op, a, b);
    if (a->type == TINYI_DOC_UNDEFINED || b->type == TINYI_DOC_UNDEFINED) {
        (void)tinyi_template_undefined(&r->m, a->type == TINYI_DOC_UNDEFINED ? a : b);
        return *a;
    }
    if (op == TINYI_CODE_ADD && a->type == TINYI_DOC_STRING && b->type == TINYI_DOC_STRING)
        return tinyi_doc_concat(&r->m, a, b);
    if (op == TINYI_CODE_ADD && a->type == TINYI_DOC_LIST && b->type == TINYI_DOC_LIST && a->id == b->id) {
        list = tinyi_tv_list(&r->m, a->u.list->n + b->u.list->n);
        list.id = a->id;
        for (i = 0; i < a->u.list->n && !r->m.status; i++) (void)tinyi_list_add(&r->m, list.u.list, a->u.list->item[i]);
        for (i = 0; i < b->u.list->n && !r->m.status; i++) (void)tinyi_list_add(&r->m, list.u.list, b->u.list->item[i]);
        return list;
    }
    if (op == TINYI_CODE_MUL && (a->type == TINYI_DOC_STRING || a->type == TINYI_DOC_LIST) && tinyi_render_whole(b))
        return tinyi_template_repeat(&r->m, a, b->u.i);
    if (op == TINYI_CODE_MUL && (b->type == TINYI_DOC_STRING || b->type == TINYI_DOC_LIST) && tinyi_render_whole(a))
        return tinyi_template_repeat(&r->m, b, a->u.i);
    if (op == TINYI_CODE_MOD && a->type == TINYI_DOC_STRING) {
        if (b->type == TINYI_DOC_LIST && b->id) return tinyi_template_format(&r->m, a, b->u.list->item, b->u.list->n);
        return tinyi_template_format(&r->m, a, b, 1);
    }
    (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "%s cannot combine %s and %s", tinyi_render_sign(op),
                         tinyi_tv_type_name(a), tinyi_tv_type_name(b));
    return *a;
}

static int tinyi_render_compare(tinyi_trun *r, int op, const tinyi_tv *a, const tinyi_tv *b)
{
    int c;
    switch (op) {
    case TINYI_CODE_EQ: return tinyi_tv_equal(&r->m, a, b);
    case TINYI_CODE_NE: return !tinyi_tv_equal(&r->m, a, b);
    case TINYI_CODE_IN: return tinyi_tv_in(&r->m, a, b);
    case TINYI_CODE_NOT_IN: return !tinyi_tv_in(&r->m, a, b);
    default: break;
    }
    if (a->type == TINYI_DOC_UNDEFINED || b->type == TINYI_DOC_UNDEFINED)
        return tinyi_template_undefined(&r->m, a->type == TINYI_DOC_UNDEFINED ? a : b);
    c = tinyi_tv_compare(&r->m, a, b, NULL);
    if (r->m.status || c == 2) return 0;
    return op == TINYI_CODE_LT ? c < 0 : op == TINYI_CODE_LE ? c <= 0 : op == TINYI_CODE_GT ? c > 0 : c >= 0;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void tinyi_render_for(tinyi_trun *r)
{
    tinyi_tv v = tinyi_render_pop(r), list;
    tinyi_tlooping *l;
    void *loop = r->loop;
    if (!tinyi_tv_items(&r->m, &v, &list) ||
        !tinyi_doc_grow(&r->m, &loop, r->n_loops, &r->loop_room, r->n_loops + 1, sizeof *r->loop))
        return;
    r->loop = (tinyi_tlooping *)loop;
    l = &r->loop[r->n_loops];
    l->loop = (tinyi_tloop *)tinyi_doc_alloc(&r->m, 1, sizeof *l->loop);
    if (!l->loop) return;
    memset(l->loop, 0, sizeof *l->loop);
    l->loop->list = list.u.list;
    l->n_locals = r->n_locals;
    l->n_scopes = r->n_scopes;
    l->n_captures = r->n_captures;
    l->n_stack = r->n_stack;
    r->n_loops++;
}

/* what stood when the loop began: break and continue leave scopes and captures behind */
static tinyi_tlooping *tinyi_render_reset(tinyi_trun *r)
{
    tinyi_tlooping *l = &r->loop[r->n_loops - 1];
    tinyi_render_drop_locals(r, l->n_locals);
    r->n_scopes = l->n_scopes;
    tinyi_render_capture_drop(r, l->n_captures);
    r->n_stack = l->n_stack;
    return l;
}

static void tinyi_render_for_next(tinyi_trun *r, const tinyi_template_op *o, int32_t *next)
{
    tinyi_tlooping *l = tinyi_render_reset(r);
    tinyi_tv v = tinyi_tv_of(TINYI_DOC_LOOP);
    if (l->loop->n_done >= l->loop->list->n) { *next = o->a; return; }
    l->loop->i = l->loop->n_done++;
    v.u.loop = l->loop;
    tinyi_render_scope(r);
    tinyi_render_local(r, TINYI_NAME_LOOP, v);
    tinyi_render_push(r, l->loop->list->item[l->loop->i]);
}

static void tinyi_render_for_keep(tinyi_trun *r)
{
    tinyi_tv v = tinyi_render_pop(r);
    tinyi_tloop *l = r->loop[r->n_loops - 1].loop;
    if (!l->kept) l->kept = tinyi_tv_list(&r->m, 0).u.list;
    if (!r->m.status && tinyi_tv_true(&v)) (void)tinyi_list_add(&r->m, l->kept, l->list->item[l->i]);
}

static void tinyi_render_for_kept(tinyi_trun *r)
{
    tinyi_tlooping *l = tinyi_render_reset(r);
    tinyi_tv v = tinyi_tv_list(&r->m, 0);
    if (l->loop->kept && !r->m.status) v.u.list = l->loop->kept;
    r->n_loops--;
    tinyi_render_push(r, v);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static void tinyi_render_unpack(tinyi_trun *r, int32_t n)
{
    tinyi_tv v = tinyi_render_pop(r), list;
    int32_t i;
    if (!tinyi_tv_items(&r->m, &v, &list)) return;
    if (list.u.list->n != (size_t)n) {
        (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "%zu values for %d names", list.u.list->n, (int)n);
        return;
    }
    for (i = n; i-- > 0;) tinyi_render_push(r, list.u.list->item[i]);
}

static void tinyi_render_collect(tinyi_trun *r, const tinyi_template_op *o)
{
    size_t n = (size_t)o->a, i;
    tinyi_tv v;
    if (o->op == TINYI_CODE_MAP) {
        v = tinyi_tv_map(&r->m);
        n *= 2;
        for (i = r->n_stack - n; i < r->n_stack && !r->m.status; i += 2)
            (void)tinyi_map_set(&r->m, v.u.map, r->stack[i], r->stack[i + 1]);
    } else {
        v = tinyi_tv_list(&r->m, n);
        v.id = o->op == TINYI_CODE_TUPLE;
        for (i = r->n_stack - n; i < r->n_stack && !r->m.status; i++)
            (void)tinyi_list_add(&r->m, v.u.list, r->stack[i]);
    }
    r->n_stack -= n;
    tinyi_render_push(r, v);
}

static void tinyi_render_store_attr(tinyi_trun *r, int32_t name)
{
    tinyi_tv to = tinyi_render_pop(r), v = tinyi_render_pop(r);
    const tinyi_tname *n = &r->t->name[name];
    if (to.type != TINYI_DOC_NAMESPACE)
        (void)tinyi_doc_fail(&r->m, TINY_E_ARGUMENT, "a member of %s is set; only members of a namespace can be set",
                             tinyi_tv_type_name(&to));
    else (void)tinyi_map_set(&r->m, to.u.map, tinyi_tv_view(n->s, n->n), v);
}

static void tinyi_render_go(tinyi_trun *r)
{
    tinyi_doc *m = &r->m;
    int32_t next = 0;
    while (!m->status) {
        const tinyi_template_op *o = &r->t->code[next++];
        tinyi_tv a, b, c, d;
        tinyi_targs args;
        m->pos = o->pos;
        if (!tinyi_doc_work(m, 1)) return;
        switch (o->op) {
        case TINYI_CODE_NOP: break;
        case TINYI_CODE_TEXT: (void)tinyi_doc_put(m, r->t->konst[o->a].u.s, r->t->konst[o->a].n); break;
        case TINYI_CODE_OUT: a = tinyi_render_pop(r); (void)tinyi_tv_put(m, &a); break;
        case TINYI_CODE_POP: (void)tinyi_render_pop(r); break;
        case TINYI_CODE_CONST: tinyi_render_push(r, r->t->konst[o->a]); break;
        case TINYI_CODE_LOAD: tinyi_render_load(r, o->a); break;
        case TINYI_CODE_STORE: tinyi_render_store(r, o->a, tinyi_render_pop(r)); break;
        case TINYI_CODE_STORE_ATTR: tinyi_render_store_attr(r, o->a); break;
        case TINYI_CODE_UNPACK: tinyi_render_unpack(r, o->a); break;
        case TINYI_CODE_ATTR:
            a = tinyi_render_pop(r);
            tinyi_render_push(r, tinyi_template_attr(m, &a, r->t->name[o->a].s, r->t->name[o->a].n));
            break;
        case TINYI_CODE_INDEX:
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            tinyi_render_push(r, tinyi_template_index(m, &a, &b));
            break;
        case TINYI_CODE_SLICE:
            d = tinyi_render_pop(r);
            c = tinyi_render_pop(r);
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            tinyi_render_push(r, tinyi_template_slice(m, &a, &b, &c, &d));
            break;
        case TINYI_CODE_LIST: case TINYI_CODE_TUPLE: case TINYI_CODE_MAP: tinyi_render_collect(r, o); break;
        case TINYI_CODE_NEG: case TINYI_CODE_POS:
            a = tinyi_render_pop(r);
            b = tinyi_tv_int(o->op == TINYI_CODE_NEG ? -1 : 1);
            if (a.type == TINYI_DOC_FLOAT)
                tinyi_render_push(r, tinyi_tv_float(o->op == TINYI_CODE_NEG ? -a.u.f : a.u.f));
            else if (tinyi_render_whole(&a)) tinyi_render_push(r, tinyi_render_number(r, TINYI_CODE_MUL, &a, &b));
            else if (a.type == TINYI_DOC_UNDEFINED) (void)tinyi_template_undefined(m, &a);
            else (void)tinyi_doc_fail(m, TINY_E_ARGUMENT, "%s cannot have a sign", tinyi_tv_type_name(&a));
            break;
        case TINYI_CODE_NOT: a = tinyi_render_pop(r); tinyi_render_push(r, tinyi_tv_bool(!tinyi_tv_true(&a))); break;
        case TINYI_CODE_ADD:
        case TINYI_CODE_SUB:
        case TINYI_CODE_MUL:
        case TINYI_CODE_DIV:
        case TINYI_CODE_FLOOR_DIV:
        case TINYI_CODE_MOD:
        case TINYI_CODE_POW:
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            tinyi_render_push(r, tinyi_render_arithmetic(r, o->op, &a, &b));
            break;
        case TINYI_CODE_CONCAT:
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            c = tinyi_tv_string(m, &a);
            d = tinyi_tv_string(m, &b);
            tinyi_render_push(r, tinyi_doc_concat(m, &c, &d));
            break;
        case TINYI_CODE_EQ:
        case TINYI_CODE_NE:
        case TINYI_CODE_LT:
        case TINYI_CODE_LE:
        case TINYI_CODE_GT:
        case TINYI_CODE_GE:
        case TINYI_CODE_IN:
        case TINYI_CODE_NOT_IN:
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            tinyi_render_push(r, tinyi_tv_bool(tinyi_render_compare(r, o->op, &a, &b)));
            break;
        case TINYI_CODE_CHAIN:
            b = tinyi_render_pop(r);
            a = tinyi_render_pop(r);
            if (tinyi_render_compare(r, o->b, &a, &b)) {
                tinyi_render_push(r, b);
            } else {
                tinyi_render_push(r, tinyi_tv_bool(0));
                next = o->a;
            }
            break;
        case TINYI_CODE_JUMP: next = o->a; break;
        case TINYI_CODE_JUMP_IF: a = tinyi_render_pop(r); if (tinyi_tv_true(&a)) next = o->a; break;
        case TINYI_CODE_JUMP_UNLESS: a = tinyi_render_pop(r); if (!tinyi_tv_true(&a)) next = o->a; break;
        case TINYI_CODE_AND: case TINYI_CODE_OR:
            a = tinyi_render_pop(r);
            if (tinyi_tv_true(&a) == (o->op == TINYI_CODE_OR)) {
                tinyi_render_push(r, a);
                next = o->a;
            }
            break;
        case TINYI_CODE_CALL: tinyi_render_call(r, o, &next); break;
        case TINYI_CODE_FILTER: case TINYI_CODE_TEST:
            tinyi_render_args(r, o, &args);
            a = r->stack[r->n_stack - (size_t)o->a - 2u * o->b - 1];
            b = o->op == TINYI_CODE_FILTER ? tinyi_template_call_filter(m, o->c, &a, &args)
                                         : tinyi_tv_bool(tinyi_template_call_test(m, o->c, &a, &args));
            r->n_stack -= (size_t)o->a + 2u * o->b + 1;
            tinyi_render_push(r, b);
            break;
        case TINYI_CODE_FOR: tinyi_render_for(r); break;
        case TINYI_CODE_FOR_NEXT: tinyi_render_for_next(r, o, &next); break;
        case TINYI_CODE_FOR_KEEP: tinyi_render_for_keep(r); next = o->a; break;
        case TINYI_CODE_FOR_KEPT: tinyi_render_for_kept(r); break;
        case TINYI_CODE_FOR_BACK: r->loop[r->n_loops - 1].loop->finished = 1; next = o->a; break;
        case TINYI_CODE_FOR_END:
            if (tinyi_render_reset(r)->loop->finished) next = o->a;
            r->n_loops--;
            break;
        case TINYI_CODE_SCOPE: tinyi_render_scope(r); break;
        case TINYI_CODE_SCOPE_END: tinyi_render_scope_end(r, r->n_scopes - 1); break;
        case TINYI_CODE_CAPTURE: tinyi_render_scope(r); tinyi_render_capture(r); break;
        case TINYI_CODE_CAPTURE_END:
            tinyi_render_scope_end(r, r->n_scopes - 1);
            a = tinyi_doc_take(m, r->capture[r->n_captures - 1]);
            r->n_captures--;
            tinyi_render_push(r, a);
            break;
        case TINYI_CODE_MACRO: tinyi_render_define(r, o->a); next = r->t->macro[o->a].end; break;
        case TINYI_CODE_DEFAULT: {
            const tinyi_tmacro_def *def = r->frame[r->n_frames - 1].def;
            const tinyi_tv *v = tinyi_render_find(r, r->t->param[def->first_param + o->b]);
            if (!v || v->type != TINYI_DOC_MISSING) next = o->a;
            break;
        }
        case TINYI_CODE_RETURN: next = tinyi_render_return(r); break;
        default: return;
        }
    }
}

/* ---- the public face --------------------------------------------------------------------------------------------- */

static void tinyi_render_set(tinyi_trun *r, const char *name, size_t n, tinyi_tv v)
{
    size_t i;
    for (i = 0; i < r->t->n_names; i++)
        if (r->t->name[i].n == n && !memcmp(r->t->name[i].s, name, n)) {
            r->global[i] = v;
            return;
        }
}

static int tinyi_render_json(tinyi_trun *r, const char *what, const char *text, size_t n, int type, tinyi_tv *v)
{
    if (!tinyi_tv_read_json(&r->m, what, text, n ? n : strlen(text), v)) return 0;
    if ((int)v->type == type) return 1;
    r->m.status = tinyi_fail(r->m.ctx, TINY_E_FORMAT, "%s: the JSON is %s; it must be %s", what, tinyi_tv_type_name(v),
                             type == TINYI_DOC_LIST ? "a list" : "an object");
    return 0;
}

static void tinyi_render_values(tinyi_trun *r, const tllm_template_values *values)
{
    tinyi_tv v;
    size_t i;
    if (values->messages_json) {
        if (!tinyi_render_json(r, "messages", values->messages_json, values->messages_json_bytes, TINYI_DOC_LIST, &v))
            return;
    } else {
        v = tinyi_tv_list(&r->m, values->n_messages);
        for (i = 0; i < values->n_messages && !r->m.status; i++) {
            const tllm_chat_message *talk = &values->message[i];
            tinyi_tv one = tinyi_tv_map(&r->m);
            if (r->m.status) return;
            if (!talk->role) {
                r->m.status = tinyi_fail(r->m.ctx, TINY_E_ARGUMENT, "message %zu has no role", i);
                return;
            }
            (void)tinyi_map_set(&r->m, one.u.map, tinyi_tv_view("role", 4),
                                tinyi_tv_view(talk->role, strlen(talk->role)));
            (void)tinyi_map_set(
                &r->m, one.u.map, tinyi_tv_view("content", 7),
                talk->content
                    ? tinyi_tv_view(talk->content, talk->content_bytes ? talk->content_bytes : strlen(talk->content))
                    : tinyi_tv_of(TINYI_DOC_NONE));
            (void)tinyi_list_add(&r->m, v.u.list, one);
        }
    }
    tinyi_render_set(r, "messages", 8, v);
    v = tinyi_tv_of(TINYI_DOC_NONE);
    tinyi_render_set(r, "documents", 9, v);
    if (values->tools_json &&
        !tinyi_render_json(r, "tools", values->tools_json, values->tools_json_bytes, TINYI_DOC_LIST, &v))
        return;
    tinyi_render_set(r, "tools", 5, v);
    tinyi_render_set(r, "add_generation_prompt", 21, tinyi_tv_bool(values->add_generation_prompt));
    if (values->bos_token)
        tinyi_render_set(r, "bos_token", 9, tinyi_tv_view(values->bos_token, strlen(values->bos_token)));
    if (values->eos_token)
        tinyi_render_set(r, "eos_token", 9, tinyi_tv_view(values->eos_token, strlen(values->eos_token)));
    if (!values->more_json ||
        !tinyi_render_json(r, "more", values->more_json, values->more_json_bytes, TINYI_DOC_MAP, &v))
        return;
    /* by the names of the template, of which there are few */
    for (i = 0; i < r->t->n_names && !r->m.status; i++) {
        const tinyi_tv *found = tinyi_map_find_text(&r->m, v.u.map, r->t->name[i].s, r->t->name[i].n);
        if (found) r->global[i] = *found;
    }
}

#endif

TINY_API tiny_status tllm_template_open(tiny_ctx *ctx, const char *text, size_t n, tllm_template **out)
{
#ifndef TINYI_NO_TEMPLATES
    tllm_template *t;
    char *copy;
    size_t i, k = 0;
#endif
    tiny_status st;
    if (!out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "chat template: the result pointer is NULL");
    *out = NULL;
    st = tinyi_ctx_check(ctx);
    if (st) return st;
    if (!text && n) return tinyi_fail(ctx, TINY_E_ARGUMENT, "chat template: the text is NULL");
    if (n > TLLM_TEMPLATE_MAX_BYTES)
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED, "the chat template has %zu bytes; the limit is %zu", n,
                          TLLM_TEMPLATE_MAX_BYTES);
#ifdef TINYI_NO_TEMPLATES
    return tinyi_chatform_open(ctx, text, n, out);
#else
    t = (tllm_template *)tinyi_alloc(ctx, 1, sizeof *t);
    if (!t) return tiny_ctx_status(ctx);
    memset(t, 0, sizeof *t);
    t->mem.ctx = ctx;
    t->mem.max_steps = UINT64_C(1) << 32;
    t->mem.max_held = t->mem.max_out = (size_t)64 << 20;
    copy = (char *)tinyi_doc_alloc(&t->mem, n + 1, 1);
    for (i = 0; copy && i < n; i++) {       /* \r\n and \r are lines' ends too */
        copy[k++] = text[i] == '\r' ? '\n' : text[i];
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') i++;
    }
    if (k && copy[k - 1] == '\n') k--;      /* the newline that ends the text is not part of it */
    t->mem.what = "template";
    t->mem.source = copy;
    t->mem.n_source = k;
    if (!t->mem.status) (void)tinyi_template_compile(t);
    st = t->mem.status;
    if (st) tllm_template_close(ctx, t);
    else *out = t;
    return st;
#endif
}

TINY_API void tllm_template_close(tiny_ctx *ctx, tllm_template *t)
{
    if (!t) return;
#ifndef TINYI_NO_TEMPLATES
    tinyi_doc_end(&t->mem);
#endif
    tiny_free(ctx, t);
}

TINY_API tiny_status tllm_template_run(tiny_ctx *ctx, const tllm_template *t, const tllm_template_values *values,
                                       char **text, size_t *n)
{
#ifndef TINYI_NO_TEMPLATES
    tinyi_trun *r;
    size_t i;
#endif
    tiny_status st = tinyi_ctx_check(ctx);
    if (text) *text = NULL;
    if (n) *n = 0;
    if (st) return st;
    if (!t || !values || !text || (values->n_messages && !values->message && !values->messages_json))
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "chat template: the template, the values or the result pointer is NULL");
#ifdef TINYI_NO_TEMPLATES
    return tinyi_chatform_run(ctx, t, values, text, n);
#else
    r = (tinyi_trun *)tinyi_alloc(ctx, 1, sizeof *r);
    if (!r) return tiny_ctx_status(ctx);
    memset(r, 0, sizeof *r);
    r->t = t;
    r->m.ctx = ctx;
    r->m.what = t->mem.what;
    r->m.source = t->mem.source;
    r->m.n_source = t->mem.n_source;
    r->m.max_steps = values->max_steps ? values->max_steps : TLLM_TEMPLATE_STEPS;
    r->m.max_held = values->max_memory ? values->max_memory : TLLM_TEMPLATE_MEMORY;
    r->m.max_out = values->max_text ? values->max_text : TLLM_TEMPLATE_TEXT;
    r->m.now = values->now ? values->now : (int64_t)time(NULL);
    r->global = (tinyi_tv *)tinyi_doc_alloc(&r->m, t->n_names, sizeof *r->global);
    r->top = (int32_t *)tinyi_doc_alloc(&r->m, t->n_names, sizeof *r->top);
    for (i = 0; i < t->n_names && !r->m.status; i++) {
        r->global[i] = tinyi_tv_of(TINYI_DOC_MISSING);
        r->top[i] = 0;
    }
    if (!r->m.status) tinyi_render_values(r, values);
    if (!r->m.status) tinyi_render_go(r);
    if (!r->m.status) (void)tinyi_doc_put(&r->m, "", 1);
    st = r->m.status;
    if (!st) {
        *text = r->m.out;
        if (n) *n = r->m.n_out - 1;
        r->m.out = NULL;
    }
    tinyi_doc_end(&r->m);
    tiny_free(ctx, r);
    return st;
#endif
}
