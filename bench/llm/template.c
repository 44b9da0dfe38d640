/* bench/llm/template.c - the time to write a conversation in the form of the model's template
 *
 * Our own templates, of the two usual forms: a short loop over the messages (ChatML), and one with a macro, a
 * namespace, conditions and tool calls as JSON. For comparison, plain C code that writes the same text. */
#include "../bench.h"
#include <stdio.h>
#include <string.h>

enum { BC_TURNS = 16 };
typedef struct bc_arg { tiny_ctx *ctx; const char *source; tllm_template *t; tllm_template_values v; size_t n; } bc_arg;

static void bc_render(void *arg)
{
    bc_arg *a = (bc_arg *)arg;
    char *text;
    b_must(a->ctx, tllm_template_run(a->ctx, a->t, &a->v, &text, &a->n));
    tiny_free(a->ctx, text);
}
static void bc_open(void *arg)
{
    bc_arg *a = (bc_arg *)arg;
    tllm_template *t;
    b_must(a->ctx, tllm_template_open(a->ctx, a->source, strlen(a->source), &t));
    tllm_template_close(a->ctx, t);
}
static volatile size_t bc_sink;
static void bc_plain(void *arg)
{
    const bc_arg *a = (const bc_arg *)arg;
    char text[8000];
    size_t i, n = 0;
    for (i = 0; i < a->v.n_messages && n + 500 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "<|im_start|>%s\n%s<|im_end|>\n", a->v.message[i].role,
                              a->v.message[i].content);
    n += (size_t)snprintf(text + n, sizeof text - n, "<|im_start|>assistant\n");
    bc_sink = n;
}

void bench_template(void)
{
    static const char chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                                 "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
                                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    static const char tools[] =
        "{%- macro turn(m, last) -%}{{- '<|' ~ m.role ~ '|>\\n' ~ (m.content | trim) ~ ('' if last else '\\n') -}}{%- "
        "endmacro -%}\n"
        "{%- set ns = namespace(user=0, system='') -%}\n"
        "{%- if messages and messages[0].role == 'system' -%}{%- set ns.system = messages[0].content -%}{%- endif -%}\n"
        "{%- if tools is defined and tools -%}<|tools|>\n{%- for tool in tools -%}{{- tool | tojson -}}{{- '\\n' "
        "-}}{%- endfor -%}{%- endif -%}\n"
        "{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.user = ns.user + 1 -%}{%- endif -%}\n"
        "{%- if m.tool_calls is defined and m.tool_calls -%}{%- for c in m.tool_calls -%}{{- c.function.name ~ "
        "(c.function.arguments | tojson) -}}{%- endfor -%}\n"
        "{%- elif m.role in ['user', 'assistant', 'system'] -%}{{- turn(m, loop.last) -}}{%- else -%}{{- "
        "raise_exception('a role that is not known') -}}{%- endif -%}{%- endfor -%}\n"
        "{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' ~ ns.user -}}{%- endif -%}";
    static const char tool_list[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"The weather of a "
        "place\",\"parameters\":{\"type\":\"object\",\"properties\":"
        "{\"place\":{\"type\":\"string\"},\"days\":{\"type\":\"integer\"}},\"required\":[\"place\"]}}}]";
    tllm_chat_message talk[BC_TURNS + 1];
    bc_arg a[2];
    b_row rows[5];
    int k, i;
    memset(talk, 0, sizeof talk);
    memset(a, 0, sizeof a);
    memset(rows, 0, sizeof rows);
    for (i = 0; i <= BC_TURNS; i++) {
        talk[i].role = i == 0 ? "system" : i % 2 ? "user" : "assistant";
        talk[i].content = i % 2 ? "Which of the two boats is faster on a day without wind, and why is that so?"
                                : "The one with the longer hull, since its wave is longer and so is its speed.";
    }
    for (k = 0; k < 2; k++) {
        a[k].ctx = b_ctx(TINY_TARGET_AUTO, 1);
        a[k].source = k ? tools : chatml;
        a[k].v.message = talk;
        a[k].v.n_messages = BC_TURNS + 1;
        a[k].v.add_generation_prompt = 1;
        a[k].v.tools_json = k ? tool_list : NULL;
        b_must(a[k].ctx, tllm_template_open(a[k].ctx, a[k].source, strlen(a[k].source), &a[k].t));
        bc_render(&a[k]);
    }
    for (i = 0; i < 5; i++) {
        k = i > 2;
        rows[i].what = i == 0 ? "snprintf" : k ? "macro and tools" : "ChatML";
        rows[i].target = i == 0 ? "plain C" : i % 2 ? "render" : "open";
        rows[i].threads = 1;
        rows[i].bytes = i == 0 || i % 2 ? (double)a[k].n : (double)strlen(a[k].source);
        rows[i].run = i == 0 ? bc_plain : i % 2 ? bc_render : bc_open;
        rows[i].arg = &a[k];
        b_shape(&rows[i], "%d messages", (int)BC_TURNS + 1);
    }
    b_contest("Chat templates", rows, 5);
    b_note("renders a second: %.0f of ChatML, %.0f with macro and tools", 1e9 / rows[1].median_ns,
           1e9 / rows[3].median_ns);
    for (k = 0; k < 2; k++) {
        tllm_template_close(a[k].ctx, a[k].t);
        tiny_ctx_close(a[k].ctx);
    }
}
