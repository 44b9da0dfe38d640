/* src/llm/chat/forms.c - chat forms recognised by their marks, for programs without the language of templates
 * (TINYLLM_NO_TEMPLATES)
 *
 *   marks in the template        form
 *   <|im_start|>, no <|im_sep|>  ChatML: <|im_start|>role\ntext<|im_end|>\n
 *   <|start_header_id|>          Llama 3: <|start_header_id|>role<|end_header_id|>\n\ntext<|eot_id|>
 *   <start_of_turn>              Gemma: <start_of_turn>role\ntext<end_of_turn>\n; the system message precedes the
 *                                first question
 *   <|assistant|>, <|end|>\n     Phi 3: <|role|>\ntext<|end|>\n, and an eos if no answer is requested
 *   <|user|>, an eos after it    Zephyr: <|role|>\ntext</s>\n
 *   [INST], <<SYS>>              Llama 2: <s>[INST] <<SYS>>\nsystem\n<</SYS>>\n\ntext [/INST] answer </s>
 *   m.role }}: {{ m.content      names before lines
 *
 * A template with other marks is refused: a model answers badly in an invalid form, and the cause is hard to see.
 * Tools, messages as JSON and further values are refused too: only the language of templates can express them. */
#include "llm/chat/forms_inside.h"
#include "core/state_inside.h"
#include <string.h>

#ifdef TINYI_NO_TEMPLATES
enum {
    TINYI_FORM_CHATML,
    TINYI_FORM_LLAMA3,
    TINYI_FORM_GEMMA,
    TINYI_FORM_PHI3,
    TINYI_FORM_ZEPHYR,
    TINYI_FORM_LLAMA2,
    TINYI_FORM_NAMES
};

/* what a tllm_template is there; bos: the text begins with it */
typedef struct tinyi_chatform { int form, bos; } tinyi_chatform;

static int tinyi_chatform_has(const char *text, size_t n, const char *mark)
{
    const size_t m = strlen(mark);
    size_t i;
    for (i = 0; i + m <= n; i++)
        if (!memcmp(text + i, mark, m)) return 1;
    return 0;
}

TINYI_FN tiny_status tinyi_chatform_open(tiny_ctx *ctx, const char *text, size_t n, tllm_template **out)
{
    /* what the quotes of a template hold: \n are two characters */
    static const struct { const char *mark, *beside, *without; int form;
    } marks[] = {
        { "<|im_start|>", "", "<|im_sep|>", TINYI_FORM_CHATML },
        { "<|start_header_id|>", "", NULL, TINYI_FORM_LLAMA3 },
        { "<start_of_turn>", "", NULL, TINYI_FORM_GEMMA },
        { "<|assistant|>\\n", "<|end|>\\n", NULL, TINYI_FORM_PHI3 },
        { "'<|user|>\\n' + message['content'] + eos_token", "<|assistant|>", NULL, TINYI_FORM_ZEPHYR },
        { "[INST]", "<<SYS>>", NULL, TINYI_FORM_LLAMA2 },
        { "m.role }}: {{ m.content", "", NULL, TINYI_FORM_NAMES },
    };
    tinyi_chatform *f;
    size_t i;
    for (i = 0; i < TINYI_COUNT(marks); i++)
        if (tinyi_chatform_has(text, n, marks[i].mark) && tinyi_chatform_has(text, n, marks[i].beside) &&
            !(marks[i].without && tinyi_chatform_has(text, n, marks[i].without)))
            break;
    if (i == TINYI_COUNT(marks))
        return tinyi_fail(ctx, TINY_E_UNSUPPORTED,
                          "the chat template has none of the known forms, and the language of templates is not "
                          "compiled into this program");
    f = (tinyi_chatform *)tinyi_alloc(ctx, 1, sizeof *f);
    if (!f) return tiny_ctx_status(ctx);
    f->form = marks[i].form;
    f->bos = tinyi_chatform_has(text, n, "bos_token");
    *out = (tllm_template *)(void *)f;
    return TINY_OK;
}

/* text that is counted first and written then */
typedef struct tinyi_chatform_text { char *to; size_t n; } tinyi_chatform_text;
static void tinyi_chatform_add(tinyi_chatform_text *t, const char *s, size_t n)
{
    if (t->to && n) memcpy(t->to + t->n, s, n);
    t->n += n;
}
static void tinyi_chatform_put(tinyi_chatform_text *t, const char *s) { if (s) tinyi_chatform_add(t, s, strlen(s)); }

enum { TINYI_FORM_KEEP, TINYI_FORM_TRIM, TINYI_FORM_TRIM_END };      /* of space at both ends */
static void tinyi_chatform_content(tinyi_chatform_text *t, const tllm_chat_message *m, int trim)
{
    const char *s = m->content ? m->content : "";
    size_t n = m->content_bytes ? m->content_bytes : strlen(s);
    while (trim == TINYI_FORM_TRIM && n && s[0] && strchr(" \t\n\r\f\v", s[0])) { s++; n--; }
    while (trim && n && s[n - 1] && strchr(" \t\n\r\f\v", s[n - 1])) n--;
    tinyi_chatform_add(t, s, n);
}

static void tinyi_chatform_turn(tinyi_chatform_text *t, const char *open, const char *between,
                                const tllm_chat_message *m, int trim, const char *close)
{
    tinyi_chatform_put(t, open);
    tinyi_chatform_put(t, m->role);
    tinyi_chatform_put(t, between);
    tinyi_chatform_content(t, m, trim);
    tinyi_chatform_put(t, close);
}

static void tinyi_chatform_write(tinyi_chatform_text *t, const tinyi_chatform *f, const tllm_template_values *v)
{
    const tllm_chat_message *system = v->n_messages && !strcmp(v->message[0].role, "system") ? &v->message[0] : NULL;
    size_t i;
    if (f->bos && f->form != TINYI_FORM_LLAMA2) tinyi_chatform_put(t, v->bos_token);
    for (i = 0; i < v->n_messages; i++) {
        const tllm_chat_message *m = &v->message[i];
        const int answer = !strcmp(m->role, "assistant"), first = system && i == 1;
        switch (f->form) {
        case TINYI_FORM_CHATML: tinyi_chatform_turn(t, "<|im_start|>", "\n", m, TINYI_FORM_KEEP, "<|im_end|>\n"); break;
        case TINYI_FORM_LLAMA3:
            tinyi_chatform_turn(t, "<|start_header_id|>", "<|end_header_id|>\n\n", m, TINYI_FORM_TRIM, "<|eot_id|>");
            break;
        case TINYI_FORM_GEMMA:
            if (m == system) break;
            tinyi_chatform_put(t, "<start_of_turn>");
            tinyi_chatform_put(t, answer ? "model" : m->role);
            tinyi_chatform_put(t, "\n");
            if (first) {
                tinyi_chatform_content(t, system, TINYI_FORM_KEEP);
                tinyi_chatform_put(t, "\n\n");
            }
            tinyi_chatform_content(t, m, TINYI_FORM_TRIM);
            tinyi_chatform_put(t, "<end_of_turn>\n");
            break;
        case TINYI_FORM_PHI3: tinyi_chatform_turn(t, "<|", "|>\n", m, TINYI_FORM_KEEP, "<|end|>\n"); break;
        case TINYI_FORM_ZEPHYR:
            tinyi_chatform_turn(t, "<|", "|>\n", m, TINYI_FORM_KEEP, v->eos_token);
            tinyi_chatform_put(t, "\n");
            break;
        case TINYI_FORM_LLAMA2:
            if (m == system) break;
            if (answer) {
                tinyi_chatform_put(t, " ");
                tinyi_chatform_content(t, m, TINYI_FORM_TRIM);
                tinyi_chatform_put(t, " ");
                tinyi_chatform_put(t, v->eos_token);
                break;
            }
            tinyi_chatform_put(t, v->bos_token);
            tinyi_chatform_put(t, "[INST] ");
            if (first) {
                tinyi_chatform_put(t, "<<SYS>>\n");
                tinyi_chatform_content(t, system, TINYI_FORM_KEEP);
                tinyi_chatform_put(t, "\n<</SYS>>\n\n");
            }
            /* the publisher trims both as one */
            tinyi_chatform_content(t, m, first ? TINYI_FORM_TRIM_END : TINYI_FORM_TRIM);
            tinyi_chatform_put(t, " [/INST]");
            break;
        default: tinyi_chatform_turn(t, NULL, ": ", m, TINYI_FORM_KEEP, "\n");
        }
    }
    if (!v->add_generation_prompt) {
        if (f->form == TINYI_FORM_PHI3) tinyi_chatform_put(t, v->eos_token);
        return;
    }
    switch (f->form) {
    case TINYI_FORM_CHATML: tinyi_chatform_put(t, "<|im_start|>assistant\n"); break;
    case TINYI_FORM_LLAMA3: tinyi_chatform_put(t, "<|start_header_id|>assistant<|end_header_id|>\n\n"); break;
    case TINYI_FORM_GEMMA: tinyi_chatform_put(t, "<start_of_turn>model\n"); break;
    case TINYI_FORM_PHI3: case TINYI_FORM_ZEPHYR: tinyi_chatform_put(t, "<|assistant|>\n"); break;
    case TINYI_FORM_NAMES: tinyi_chatform_put(t, "assistant:"); break;
    default: break;                         /* the answer follows [/INST] */
    }
}

TINYI_FN tiny_status tinyi_chatform_run(tiny_ctx *ctx, const tllm_template *known, const tllm_template_values *v,
                                        char **text, size_t *n)
{
    const size_t most = v->max_text ? v->max_text : TLLM_TEMPLATE_TEXT;
    const tinyi_chatform *f = (const tinyi_chatform *)(const void *)known;
    tinyi_chatform_text t = { NULL, 0 };
    size_t i;
    if (v->messages_json || v->tools_json || v->more_json)
        return tinyi_fail(
            ctx, TINY_E_UNSUPPORTED,
            "tools, messages and values as JSON need the language of templates, which is not compiled into this "
            "program");
    for (i = 0; i < v->n_messages; i++)
        if (!v->message[i].role) return tinyi_fail(ctx, TINY_E_ARGUMENT, "message %zu has no role", i);
    if ((f->form == TINYI_FORM_GEMMA || f->form == TINYI_FORM_LLAMA2) && v->n_messages &&
        !strcmp(v->message[0].role, "system") && (v->n_messages < 2 || !strcmp(v->message[1].role, "assistant")))
        return tinyi_fail(
            ctx, TINY_E_ARGUMENT,
            "this chat form puts a system message before a question, but no question follows");
    tinyi_chatform_write(&t, f, v);
    if (t.n > most)
        return tinyi_fail(ctx, TINY_E_WORKSPACE, "the chat text has %zu bytes, the limit is %zu", t.n, most);
    t.to = (char *)tiny_alloc(ctx, t.n + 1);
    if (!t.to) return tiny_ctx_status(ctx);
    t.n = 0;
    tinyi_chatform_write(&t, f, v);
    t.to[t.n] = 0;
    *text = t.to;
    if (n) *n = t.n;
    return TINY_OK;
}
#endif
