/* tests/units/chat.h - what unit.c does under TINYLLM_ONLY_CHAT and TINYLLM_NO_TEMPLATES: a text is continued, talks get their forms, and what is
 * left out is refused */
static const char *unit_form(tiny_ctx *ctx, const char *source, char *room, size_t n_room)
{
    const tllm_chat_message talk[4] = { { "system", "Be brief.", 0 }, { "user", " Hi ", 0 }, { "assistant", "Yes?", 0 }, { "user", "Why?", 0 } };
    tllm_template_values v;
    tllm_template *t = NULL;
    char *text = NULL;
    size_t n = 0;
    memset(&v, 0, sizeof v);
    v.message = talk;
    v.n_messages = 4;
    v.add_generation_prompt = 1;
    v.bos_token = "<s>";
    v.eos_token = "</s>";
    room[0] = 0;
    if (tllm_template_open(ctx, source, strlen(source), &t)) return "refused";
    if (!tllm_template_run(ctx, t, &v, &text, &n) && n < n_room) memcpy(room, text, n + 1);
    tiny_free(ctx, text);
    v.tools_json = "[]";
    if (tllm_template_run(ctx, t, &v, &text, &n) != TINY_E_UNSUPPORTED || text) room[0] = 0;
    tllm_template_close(ctx, t);
    return room;
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
    /* written out by hand, from what the publishers of these models say of their forms */
    static const char *const forms[][2] = {
        { "<|im_start|>", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n" },
        { "{{ bos_token }}<|start_header_id|>", "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n" },
        { "{{ bos_token }}<start_of_turn>", "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n<start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n" },
        { "<|assistant|>\\n <|end|>\\n", "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\nYes?<|end|>\n<|user|>\nWhy?<|end|>\n<|assistant|>\n" },
        { "'<|user|>\\n' + message['content'] + eos_token <|assistant|>", "<|system|>\nBe brief.</s>\n<|user|>\n Hi </s>\n<|assistant|>\nYes?</s>\n<|user|>\nWhy?</s>\n<|assistant|>\n" },
        { "[INST] <<SYS>>", "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n Hi [/INST] Yes? </s><s>[INST] Why? [/INST]" },
        { "{{ m.role }}: {{ m.content }}", "system: Be brief.\nuser:  Hi \nassistant: Yes?\nuser: Why?\nassistant:" },
        { "<|im_start|>user<|im_sep|>", "refused" }, { "[INST]", "refused" }, { "<|assistant|>", "refused" }, { "{{ something else }}", "refused" }
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
        if (strcmp(unit_form(ctx, forms[i][0], room, sizeof room), forms[i][1]) != 0) {
            printf("form %s: %s\n", forms[i][0], room);
            bad = 3;
        }
    if (tiny_add(ctx, &tx, &tx, &tx) != TINY_E_UNSUPPORTED || tiny_softmax(ctx, &tx, NULL, &tx) == TINY_OK || tiny_record_start(ctx, &recording) != TINY_E_UNSUPPORTED) bad = 4;
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
