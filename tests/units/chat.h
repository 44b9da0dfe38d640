/* tests/units/chat.h - the part of unit.c for TINYLLM_ONLY_CHAT and TINYLLM_NO_TEMPLATES: a text is continued, chats
 * get their forms, and omitted features are refused */
static const char *unit_form(tiny_ctx *ctx, const char *source, size_t n_source, const tllm_chat_message *talk,
                             size_t n_talk, int prompt, char *room, size_t n_room)
{
    tllm_template_values v;
    tllm_template *t = NULL;
    char *text = NULL;
    size_t n = 0;
    memset(&v, 0, sizeof v);
    v.message = talk;
    v.n_messages = n_talk;
    v.add_generation_prompt = prompt;
    v.bos_token = "<s>";
    v.eos_token = "</s>";
    room[0] = 0;
    if (tllm_template_open(ctx, source, n_source, &t)) return "refused";
    if (!tllm_template_run(ctx, t, &v, &text, &n) && n < n_room) memcpy(room, text, n + 1);
    tiny_free(ctx, text);
    v.tools_json = "[]";
    if (tllm_template_run(ctx, t, &v, &text, &n) != TINY_E_UNSUPPORTED || text) room[0] = 0;
    tllm_template_close(ctx, t);
    return room;
}

/* The forms compared with the output of Python's jinja2 for the templates, tests/golden/chat-templates.txt: 1 where
 * each known talk is equal and each template of another form is refused. Zephyr and names before lines have no template
 * there; they are written by hand below. */
static int unit_golden(tiny_ctx *ctx)
{
    static const tllm_chat_message one[] = { { "user", "Hello", 0 } },
                                   turns[] = { { "user", "Grüße, 東京 🙂", 0 }, { "assistant", "\n\nHi\n", 0 } },
                                   four[] = { { "system", " Be brief.\n", 0 },
                                              { "user", "  What is 2+2? ", 0 },
                                              { "assistant", "<think>\nEasy.\n</think>\n\n4", 0 },
                                              { "user", "And 3+3?\n", 0 } };
    static const struct {
        const char *key;
        const tllm_chat_message *talk;
        size_t n;
        int prompt;
    } talks[] = { { "one", one, 1, 1 }, { "system", four, 4, 1 }, { "turns", turns, 2, 0 } };
    static const struct { const char *name, *from;
    } known[] = {
        /* from: equal from there on; "": not compared */
        { "chatml/system", NULL },
        { "qwen2.5/system", NULL },
        { "qwen3/one", NULL },
        { "llama2/one", NULL },
        { "llama2/system", NULL },
        { "llama2/turns", NULL },
        { "gemma/one", NULL },
        { "gemma/turns", NULL },
        { "gemma3/one", NULL },
        { "gemma3/system", NULL },
        { "gemma3/turns", NULL },
        { "phi3/one", NULL },
        { "phi3/system", NULL },
        { "phi3/turns", NULL },
        /* these write a system message of their own in front, or a date into a given one */
        { "chatml/one", "<|im_start|>user" },
        { "chatml/turns", "<|im_start|>user" },
        { "qwen2.5/one", "<|im_start|>user" },
        { "qwen2.5/turns", "<|im_start|>user" },
        { "llama3/one", "<|start_header_id|>user" },
        { "llama3/system", "<|start_header_id|>user" },
        { "llama3/turns", "<|start_header_id|>user" },
        { "gemma/system", "" }, /* refuses messages that Gemma 3 accepts */
        { "qwen3/system", "" },
        { "qwen3/turns", "" }, /* take thoughts out of answers, and write empty ones */
        { "smollm3/one", "" },
        { "smollm3/system", "" },
        { "smollm3/turns", "" } /* request no answer */
    };
    static char golden[1 << 17];
    FILE *f = fopen("tests/golden/chat-templates.txt", "rb");
    const size_t n = f ? fread(golden, 1, sizeof golden - 1, f) : 0;
    const char *at = golden, *source = golden;
    size_t n_source = 0, n_met = 0, k, i;
    if (f) (void)fclose(f);
    golden[n] = 0;
    while (at < golden + n) {
        char name[64], key[32], room[1024];
        const char *made, *want;
        long n_template = -1, n_output = -1;
        const int fields = sscanf(at, "case %63s %31s %ld %ld", name, key, &n_template, &n_output);
        if (fields != 4) (void)sscanf(at, "values %31s %ld", key, &n_template);
        at = strchr(at, '\n') + 1;
        if (fields == 4 && n_template >= 0) {
            source = at;
            n_source = (size_t)n_template;
        }
        at += n_template >= 0 ? n_template + 1 : 0;
        if (fields != 4) continue;
        want = at;
        at += n_output >= 0 ? n_output + 1 : 1;
        for (k = 0; k < sizeof talks / sizeof *talks && strcmp(talks[k].key, key) != 0; k++) {}
        if (k == sizeof talks / sizeof *talks) continue;
        for (i = 0; i < sizeof known / sizeof *known && strcmp(known[i].name, name) != 0; i++) {}
        made = unit_form(ctx, source, n_source, talks[k].talk, talks[k].n, talks[k].prompt, room, sizeof room);
        if (i == sizeof known / sizeof *known) {
            if (!strcmp(made, "refused")) continue;
        } else {
            n_met++;
            if (strcmp(made, "refused") != 0 && known[i].from && !*known[i].from) continue;
            if (known[i].from) {
                made = strstr(made, known[i].from);
                want = strstr(want, known[i].from);
            }
            if (made && want && want < at && (size_t)(at - 1 - want) == strlen(made) &&
                !memcmp(made, want, strlen(made)))
                continue;
        }
        printf("chat form of %s: %s\n", name, made ? made : "other");
        return 0;
    }
    return n_met == sizeof known / sizeof *known;
}

static int unit_heard;
static int unit_hear(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    unit_heard += n > 0;
    return 0;
}

int UNIT(void)
{
    /* written by hand, from the publishers' descriptions of the forms */
    static const char *const forms[][2] = {
        { "<|im_start|>", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi "
                          "<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_"
                          "start|>assistant\n" },
        { "{{ bos_token }}<|start_header_id|>",
          "<s><|start_header_id|>system<|end_header_id|>\n\nBe "
          "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|><|start_header_id|>user<|end_header_id|>"
          "\n\nWhy?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n" },
        { "{{ bos_token }}<start_of_turn>", "<s><start_of_turn>user\nBe "
                                            "brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n<"
                                            "start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n" },
        { "<|assistant|>\\n <|end|>\\n",
          "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi "
          "<|end|>\n<|assistant|>\nYes?<|end|>\n<|user|>\nWhy?<|end|>\n<|assistant|>\n" },
        { "'<|user|>\\n' + message['content'] + eos_token <|assistant|>",
          "<|system|>\nBe brief.</s>\n<|user|>\n Hi "
          "</s>\n<|assistant|>\nYes?</s>\n<|user|>\nWhy?</s>\n<|assistant|>\n" },
        { "[INST] <<SYS>>", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yes? </s><s>[INST] Why? [/INST]" },
        { "{{ m.role }}: {{ m.content }}", "system: Be brief.\nuser:  Hi \nassistant: Yes?\nuser: Why?\nassistant:" },
        { "<|im_start|>user<|im_sep|>", "refused" },
        { "[INST]", "refused" },
        { "<|assistant|>", "refused" },
        { "{{ something else }}", "refused" }
    };
    const tllm_chat_message talk[4] = {
        { "system", "Be brief.", 0 }, { "user", " Hi ", 0 }, { "assistant", "Yes?", 0 }, { "user", "Why?", 0 }
    };
    char room[1024];
    float x[2] = { 1, 2 };
    tiny_tensor tx = tiny_tensor_1d(x, TINY_F32, 2);
    tiny_recording *recording = NULL;
    tiny_op op;
    tiny_tensor want[TINY_OP_MAX_OUT];
    tllm_generate_desc how;
    tllm_generate_result made;
    tllm_session *s = NULL;
    tiny_ctx_desc desc;
    tiny_ctx *ctx = NULL;
    size_t i;
    int bad = 0;
    memset(&desc, 0, sizeof desc);
    memset(&how, 0, sizeof how);
    desc.target = TINY_TARGET_REFERENCE;
    if (tiny_ctx_open(&desc, &ctx) != TINY_E_UNSUPPORTED || ctx) return 1;
    if (tiny_ctx_open(NULL, &ctx)) return 2;
    for (i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(unit_form(ctx, forms[i][0], strlen(forms[i][0]), talk, 4, 1, room, sizeof room), forms[i][1]) != 0) {
            printf("form %s: %s\n", forms[i][0], room);
            bad = 3;
        }
    if (!unit_golden(ctx)) bad = 11;
    if (tiny_add(ctx, &tx, &tx, &tx) != TINY_E_UNSUPPORTED || tiny_softmax(ctx, &tx, NULL, &tx) == TINY_OK ||
        tiny_record_start(ctx, &recording) != TINY_E_UNSUPPORTED)
        bad = 4;
    memset(&op, 0, sizeof op);
    op.kind = TINY_OP_MATMUL;
    op.in[0] = op.in[1] = &tx;
    if (tiny_op_shape(ctx, &op, want) != TINY_E_UNSUPPORTED) bad = 10;
    if (tiny_op_find("fft") || tiny_op_find("rope") || !tiny_op_find("rmsnorm") || !tiny_op_find("matmul")) bad = 5;
    if (tllm_session_open(ctx, "examples/models/story-small.gguf", NULL, &s)) bad = 6;
    how.n_most = 12;
    how.text = unit_hear;
    if (!bad && (tllm_generate(s, "Once upon a time", 16, &how, &made) || made.n_made < 1 || !unit_heard)) bad = 7;
    how.grammar = (const tllm_grammar *)(const void *)&how;
    if (!bad && tllm_generate(s, "Once", 4, &how, NULL) != TINY_E_UNSUPPORTED) bad = 8;
#ifdef TINY_NO_MESSAGES
    if (!bad && strcmp(tiny_ctx_message(ctx), tiny_status_text(TINY_E_UNSUPPORTED)) != 0) bad = 9;
#endif
    tllm_session_close(s);
    tiny_ctx_close(ctx);
    return bad;
}
