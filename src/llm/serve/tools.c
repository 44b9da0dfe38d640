/* src/llm/serve/tools.c */
#include "llm/serve/api_inside.h"
#include <string.h>

static const char tinyi_tool_open[] = "<tool_call>", tinyi_tool_close[] = "</tool_call>",
                  tinyi_tool_list[] = "[TOOL_CALLS]", tinyi_tool_python[] = "<|python_tag|>";

tllm_tool_form tllm_tool_form_of(const char *source)
{
    if (!source) return TLLM_TOOL_NONE;
    if (strstr(source, tinyi_tool_open)) return TLLM_TOOL_TAGS;
    if (strstr(source, tinyi_tool_list)) return TLLM_TOOL_LIST;
    if (strstr(source, tinyi_tool_python) || strstr(source, "\"parameters\"")) return TLLM_TOOL_OBJECT;
    return TLLM_TOOL_NONE;
}

/* The first place of the mark from `from` on; n: none. */
static size_t tinyi_tool_find(const char *text, size_t n, size_t from, const char *mark)
{
    const size_t m = strlen(mark);
    size_t i;
    for (i = from; i + m <= n; i++)
        if (!memcmp(text + i, mark, m)) return i;
    return n;
}

static size_t tinyi_tool_blanks(const char *text, size_t n, size_t at)
{
    while (at < n && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++;
    return at;
}

size_t tllm_tool_plain(tllm_tool_form form, const char *text, size_t n, size_t from, int *closed)
{
    const char *mark = form == TLLM_TOOL_TAGS ? tinyi_tool_open : tinyi_tool_list;
    size_t at, m, k;
    if (closed) *closed = 0;
    if (form == TLLM_TOOL_NONE || !n || !text) return n;
    from = TINYI_MIN(from, n);
    if (form == TLLM_TOOL_FORCED) return 0;
    if (form == TLLM_TOOL_OBJECT) {
        at = tinyi_tool_blanks(text, n, 0);
        if (at == n || text[at] == '{') return 0;
        m = TINYI_MIN(n - at, sizeof tinyi_tool_python - 1);
        return memcmp(text + at, tinyi_tool_python, m) ? n : 0;
    }
    m = strlen(mark);
    at = tinyi_tool_find(text, n, from, mark);
    if (at < n) {
        if (closed && form == TLLM_TOOL_TAGS) *closed = tinyi_tool_find(text, n, at, tinyi_tool_close) < n;
        return at;
    }
    for (k = TINYI_MIN(m - 1, n - from); k; k--) /* an end that may be the beginning of the mark */
        if (!memcmp(text + n - k, mark, k)) return n - k;
    return n;
}

/* Adds a call to the list if it is one. */
static int tinyi_tool_add(tinyi_doc *m, tinyi_tv *list, tinyi_tv call, const char *names, size_t n_names)
{
    const tinyi_tv *name, *arguments;
    tinyi_tv one, read;
    size_t at = 0;
    if (call.type != TINYI_DOC_MAP) return 0;
    name = tinyi_map_find_text(m, call.u.map, "name", 4);
    arguments = tinyi_map_find_text(m, call.u.map, "arguments", 9);
    if (!arguments) arguments = tinyi_map_find_text(m, call.u.map, "parameters", 10);
    if (!name || name->type != TINYI_DOC_STRING || !arguments) return 0;
    while (at < n_names && !tinyi_tv_is(name, names + at)) at += strlen(names + at) + 1;
    if (at >= n_names) return 0;
    read = *arguments;
    if (read.type == TINYI_DOC_STRING && !tinyi_tv_read_json(m, "arguments", arguments->u.s, arguments->n, &read))
        return 0;
    if (read.type != TINYI_DOC_MAP) return 0;
    one = tinyi_tv_map(m);
    if (m->status) return 0;
    (void)tinyi_map_set(m, one.u.map, tinyi_tv_view("name", 4), *name);
    (void)tinyi_map_set(m, one.u.map, tinyi_tv_view("arguments", 9), read);
    return tinyi_list_add(m, list->u.list, one);
}

/* Reads JSON and adds the calls of it: an object or a list of objects. */
static int tinyi_tool_read(tinyi_doc *m, tinyi_tv *list, const char *text, size_t n, const char *names, size_t n_names)
{
    tinyi_tv v;
    size_t i;
    if (!tinyi_tv_read_json(m, "call", text, n, &v)) return 0;
    if (v.type != TINYI_DOC_LIST) return tinyi_tool_add(m, list, v, names, n_names);
    for (i = 0; i < v.u.list->n; i++)
        if (!tinyi_tool_add(m, list, v.u.list->item[i], names, n_names)) return 0;
    return v.u.list->n > 0;
}

tinyi_tv tinyi_tool_calls(tinyi_doc *m, tllm_tool_form form, const char *text, size_t n, const char *names,
                          size_t n_names, size_t *content)
{
    tinyi_tv list = tinyi_tv_list(m, 4);
    size_t at, end;
    int ok = 1;
    *content = n;
    if (m->status) return tinyi_tv_of(TINYI_DOC_NONE);
    if (form == TLLM_TOOL_TAGS) {
        at = tinyi_tool_find(text, n, 0, tinyi_tool_open);
        *content = at;
        while (ok && at < n) {
            at += sizeof tinyi_tool_open - 1;
            end = tinyi_tool_find(text, n, at, tinyi_tool_close);
            ok = tinyi_tool_read(m, &list, text + at, end - at, names, n_names);
            at = tinyi_tool_blanks(text, n, TINYI_MIN(end + sizeof tinyi_tool_close - 1, n));
            if (ok && at < n) {             /* between and after calls only further calls */
                ok = n - at >= sizeof tinyi_tool_open - 1 &&
                     !memcmp(text + at, tinyi_tool_open, sizeof tinyi_tool_open - 1);
            }
        }
    } else {
        at = 0;
        if (form == TLLM_TOOL_LIST) {
            at = tinyi_tool_find(text, n, 0, tinyi_tool_list);
            *content = at;
            if (at < n) at += sizeof tinyi_tool_list - 1;
        } else if (form == TLLM_TOOL_OBJECT) {
            at = tinyi_tool_blanks(text, n, 0);
            if (n - at >= sizeof tinyi_tool_python - 1 &&
                !memcmp(text + at, tinyi_tool_python, sizeof tinyi_tool_python - 1))
                at += sizeof tinyi_tool_python - 1;
            *content = 0;
        } else *content = 0;
        ok = at < n && tinyi_tool_read(m, &list, text + at, n - at, names, n_names);
    }
    if (ok && !m->status && list.u.list->n) return list;
    *content = n;
    return tinyi_tv_of(TINYI_DOC_NONE);
}

tiny_status tllm_tool_calls(tiny_ctx *ctx, tllm_tool_form form, const char *text, size_t n, const char *names,
                            size_t n_names, char **json, size_t *content)
{
    const tinyi_doc_form line = tinyi_api_form();
    tinyi_doc m;
    tinyi_tv list;
    tiny_status st = tinyi_ctx_check(ctx);
    if (json) *json = NULL;
    if (content) *content = n;
    if (st) return st;
    if (!json || !content || (n && !text) || (n_names && (!names || names[n_names - 1])))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "tllm_tool_calls: the %s",
                          !json || !content ? "result pointer is NULL"
                          : n && !text      ? "text is NULL"
                                            : "names do not end with 0");
    if (form == TLLM_TOOL_NONE || !n) return TINY_OK;
    memset(&m, 0, sizeof m);
    m.ctx = ctx;
    m.what = "call";
    m.max_steps = UINT64_C(1) << 28;
    m.max_held = m.max_out = TINYI_TOOL_HELD;
    list = tinyi_tool_calls(&m, form, text, n, names, n_names, content);
    if (list.type == TINYI_DOC_LIST && tinyi_tv_put_json(&m, &list, &line) && tinyi_doc_put(&m, "", 1)) {
        *json = m.out;
        m.out = NULL;
    } else *content = n;
    st = m.status == TINY_E_MEMORY ? m.status : TINY_OK; /* text that is no JSON is no call */
    tinyi_doc_end(&m);
    return st;
}
