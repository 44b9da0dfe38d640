/* src/llm/token/vocab.c - reading a vocabulary
 *
 * Settings that a file does not give follow the engine that most files are made for: its defaults for special tokens,
 * and the texts by which it recognises tokens that end an answer. */
#include "llm/token/parts_inside.h"
#include "llm/model/arch_inside.h"
#include "core/time.h"
#include <string.h>

/* ---- where a vocabulary comes from: a file, or arrays ---------------------------------------------------------- */

typedef struct tinyi_vocab_source {
    tiny_ctx *ctx;
    const tllm_gguf *g;
    const tllm_vocab_desc *d;
    const char *name;                       /* for the sentences */
    const tllm_meta *text, *score, *type, *merge, *map;
    size_t n_merges;
} tinyi_vocab_source;

static int tinyi_source_text(const tinyi_vocab_source *s, size_t i, tllm_text *t)
{
    if (s->g) return tllm_meta_text(s->text, i, t);
    *t = s->d->text[i];
    return t->at || !t->n;
}
static int tinyi_source_merge(const tinyi_vocab_source *s, size_t i, tllm_text *t)
{
    if (s->g) return tllm_meta_text(s->merge, i, t);
    *t = s->d->merge[i];
    return t->at || !t->n;
}

static int tinyi_vocab_text_in(const tllm_vocab *v, int32_t id, const char *const *list)
{
    size_t n;
    const unsigned char *p = tinyi_token_text(v, id, &n);
    for (; *list; list++) if (strlen(*list) == n && !memcmp(*list, p, n)) return 1;
    return 0;
}

static int32_t tinyi_vocab_first(const tllm_vocab *v, const char *const *list)
{
    for (; *list; list++) {
        int32_t id = tllm_vocab_find(v, *list, strlen(*list));
        if (id >= 0) return id;
    }
    return -1;
}

/* ---- special tokens -------------------------------------------------------------------------------------------- */

/* keys of the file, in the order of tllm_special; old names after a bar */
static const char *const tinyi_vocab_special_key[TLLM_SPECIAL_COUNT][2] = {
    { "tokenizer.ggml.bos_token_id", NULL },
    { "tokenizer.ggml.eos_token_id", NULL },
    { "tokenizer.ggml.eot_token_id", NULL },
    { "tokenizer.ggml.eom_token_id", NULL },
    { "tokenizer.ggml.unknown_token_id", NULL },
    { "tokenizer.ggml.seperator_token_id", "tokenizer.ggml.separator_token_id" },
    { "tokenizer.ggml.padding_token_id", NULL },
    { "tokenizer.ggml.mask_token_id", NULL },
    { NULL, NULL },
    { "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id" },
    { "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id" },
    { "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id" },
    { "tokenizer.ggml.fim_pad_token_id", NULL },
    { "tokenizer.ggml.fim_rep_token_id", NULL },
    { "tokenizer.ggml.fim_sep_token_id", NULL }
};

/* texts by which a special token is known when the file does not name it */
static const char *const tinyi_vocab_eot[] = { "<|eot_id|>",
                                               "<|im_end|>",
                                               "<|end|>",
                                               "<end_of_turn>",
                                               "<|endoftext|>",
                                               "<|end_of_text|>",
                                               "<EOT>",
                                               "_<EOT>",
                                               "[EOT]",
                                               "<\xef\xbd\x9c"
                                               "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                               "<end_of_utterance>",
                                               NULL };
static const char *const tinyi_vocab_eom[] = { "<|eom_id|>", NULL };
static const char *const tinyi_vocab_fim_pre[] = { "<|fim_prefix|>",
                                                   "<fim-prefix>",
                                                   "<fim_prefix>",
                                                   "<\xef\xbd\x9c"
                                                   "fim\xe2\x96\x81"
                                                   "begin\xef\xbd\x9c>",
                                                   "<PRE>",
                                                   "\xe2\x96\x81<PRE>",
                                                   "<|code_prefix|>",
                                                   "<|prefix|>",
                                                   NULL };
static const char *const tinyi_vocab_fim_suf[] = { "<|fim_suffix|>",
                                                   "<fim-suffix>",
                                                   "<fim_suffix>",
                                                   "<\xef\xbd\x9c"
                                                   "fim\xe2\x96\x81hole\xef\xbd\x9c>",
                                                   "<SUF>",
                                                   "\xe2\x96\x81<SUF>",
                                                   "<|code_suffix|>",
                                                   "<|suffix|>",
                                                   NULL };
static const char *const tinyi_vocab_fim_mid[] = { "<|fim_middle|>",
                                                   "<fim-middle>",
                                                   "<fim_middle>",
                                                   "<\xef\xbd\x9c"
                                                   "fim\xe2\x96\x81"
                                                   "end\xef\xbd\x9c>",
                                                   "<MID>",
                                                   "\xe2\x96\x81<MID>",
                                                   "<|code_middle|>",
                                                   "<|middle|>",
                                                   NULL };
static const char *const tinyi_vocab_fim_pad[] = { "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", NULL };
static const char *const tinyi_vocab_fim_rep[] = { "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                                   "<REPO>",       "<reponame>",    NULL };
static const char *const tinyi_vocab_fim_sep[] = { "<|file_sep|>", NULL };
/* tokens that end an answer whatever else they are called */
static const char *const tinyi_vocab_ends[] = { "<|eot_id|>",
                                                "<|im_end|>",
                                                "<|end|>",
                                                "<|return|>",
                                                "<|call|>",
                                                "<|flush|>",
                                                "<|calls|>",
                                                "<end_of_turn>",
                                                "<|endoftext|>",
                                                "</s>",
                                                "<|eom_id|>",
                                                "<EOT>",
                                                "_<EOT>",
                                                "[EOT]",
                                                "[EOS]",
                                                "<|end_of_text|>",
                                                "<end_of_utterance>",
                                                "<eos>",
                                                "<turn|>",
                                                "<|tool_response>",
                                                "<\xef\xbd\x9c"
                                                "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                                                "[e~[",
                                                NULL };
static const char *const tinyi_vocab_shown[] = { "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", NULL };

static void tinyi_vocab_mark_end(tllm_vocab *v, int32_t id)
{
    if (id >= 0) v->is_end[id >> 3] = (unsigned char)(v->is_end[id >> 3] | 1u << (id & 7));
}
static void tinyi_vocab_unmark_end(tllm_vocab *v, int32_t id)
{
    v->is_end[id >> 3] = (unsigned char)(v->is_end[id >> 3] & ~(1u << (id & 7)));
}

static int32_t tinyi_vocab_end_named(const tllm_vocab *v, const char *text)
{
    int32_t id = tllm_vocab_find(v, text, strlen(text));
    return id >= 0 && tllm_vocab_is_end(v, id) ? id : -1;
}

static void tinyi_vocab_find_special(tllm_vocab *v)
{
    static const struct { tllm_special which; const char *const *texts;
    } known[] = { { TLLM_EOT, tinyi_vocab_eot },         { TLLM_EOM, tinyi_vocab_eom },
                  { TLLM_FIM_PRE, tinyi_vocab_fim_pre }, { TLLM_FIM_SUF, tinyi_vocab_fim_suf },
                  { TLLM_FIM_MID, tinyi_vocab_fim_mid }, { TLLM_FIM_PAD, tinyi_vocab_fim_pad },
                  { TLLM_FIM_REP, tinyi_vocab_fim_rep }, { TLLM_FIM_SEP, tinyi_vocab_fim_sep } };
    size_t i;
    int32_t id;
    for (i = 0; i < TINYI_COUNT(known); i++) {
        if (v->special[known[i].which] >= 0) continue;
        id = v->special[known[i].which] = tinyi_vocab_first(v, known[i].texts);
        if (id >= 0) v->what[id] |= TINYI_TOK_CONTROL;
    }
    tinyi_vocab_mark_end(v, v->special[TLLM_FIM_PAD]);
    tinyi_vocab_mark_end(v, v->special[TLLM_FIM_REP]);
    tinyi_vocab_mark_end(v, v->special[TLLM_FIM_SEP]);
    for (i = 0; tinyi_vocab_ends[i]; i++)
        if ((id = tllm_vocab_find(v, tinyi_vocab_ends[i], strlen(tinyi_vocab_ends[i]))) >= 0) {
            tinyi_vocab_mark_end(v, id);
            v->what[id] |= TINYI_TOK_CONTROL;
        }
    for (i = 0; tinyi_vocab_shown[i]; i++)
        if ((id = tllm_vocab_find(v, tinyi_vocab_shown[i], strlen(tinyi_vocab_shown[i]))) >= 0)
            v->what[id] = TINYI_TOK_USER;
    tinyi_vocab_mark_end(v, v->special[TLLM_EOS]);
    tinyi_vocab_mark_end(v, v->special[TLLM_EOT]);
    tinyi_vocab_mark_end(v, v->special[TLLM_EOM]);
    /* where a call ends the answer, <|end|> ends only a part of it, and next to a tool's response </s> is plain text */
    {
        int call = tinyi_vocab_end_named(v, "<|call|>") >= 0 || tinyi_vocab_end_named(v, "<|calls|>") >= 0;
        int last = tinyi_vocab_end_named(v, "<|return|>") >= 0 || tinyi_vocab_end_named(v, "<|flush|>") >= 0;
        if (call && last && (id = tinyi_vocab_end_named(v, "<|end|>")) >= 0) {
            tinyi_vocab_unmark_end(v, id);
            v->what[id] = TINYI_TOK_USER;
        }
        if (tinyi_vocab_end_named(v, "<|tool_response>") >= 0 && (id = tinyi_vocab_end_named(v, "</s>")) >= 0) {
            tinyi_vocab_unmark_end(v, id);
            v->what[id] = TINYI_TOK_NORMAL;
        }
    }
}

static int tinyi_vocab_holds(tllm_text t, const char *part)
{
    size_t k = strlen(part), i, j;
    for (i = 0; i + k <= t.n; i++) {
        for (j = 0; j < k; j++) {
            char c = t.at[i + j];
            if ((c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) != part[j]) break;
        }
        if (j == k) return 1;
    }
    return 0;
}

/* some models' special tokens swallow the white space next to them; files say so only by the name of the model */
static void tinyi_vocab_strips(tllm_vocab *v, tllm_text name, tllm_text arch)
{
    static const char *const bare[] = { "<unk>", "<s>", "<|endoftext|>", NULL };
    static const char *const end[] = { "</s>", NULL };
    static const char *const mask[] = { "<mask>", NULL };
    static const char *const modern[] = { "[MASK]", NULL };
    const tinyi_lm_arch *row = tinyi_lm_arch_find(arch.at, arch.n);
    const char *pre = v->pre ? v->pre->name : "";
    size_t i;
    int32_t id = -1;
    if (!strcmp(pre, "jina-v2-de") || !strcmp(pre, "jina-v2-es") || !strcmp(pre, "jina-v2-code") ||
        (row && row->top & TINYI_LM_T_MASK_STRIPS)) {
        id = tinyi_vocab_first(v, mask);
    } else if (tinyi_vocab_holds(name, "phi-3") || tinyi_vocab_holds(name, "phi3")) {
        for (i = 0; i < v->n; i++)
            if (((v->what[i] & (TINYI_TOK_CONTROL | TINYI_TOK_USER | TINYI_TOK_UNKNOWN)) ||
                 tinyi_vocab_text_in(v, (int32_t)i, end)) &&
                !tinyi_vocab_text_in(v, (int32_t)i, bare)) {
                v->what[i] |= TINYI_TOK_RSTRIP;
                v->has_strip = 1;
            }
    } else if (tinyi_vocab_holds(name, "modern-bert")) {
        id = tinyi_vocab_first(v, modern);
    }
    if (id >= 0) { v->what[id] |= TINYI_TOK_LSTRIP; v->has_strip = 1; }
}

/* ---- building -------------------------------------------------------------------------------------------------- */

static size_t tinyi_vocab_power(size_t least)
{
    size_t p = 16;
    while (p < least) p *= 2;
    return p;
}

static unsigned tinyi_vocab_bits(size_t n)
{
    unsigned b = 1;
    while (n >> b) b++;
    return b;
}

static int tinyi_vocab_hex(unsigned char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \n, \t, \r, \xHH, and a backslash before anything else; never longer than before */
static size_t tinyi_vocab_unescape(unsigned char *to, const unsigned char *p, size_t n)
{
    size_t i, m = 0;
    for (i = 0; i < n; i++) {
        unsigned char c = p[i];
        if (c == '\\' && i + 1 < n) {
            c = p[++i];
            if (c == 't') c = '\t';
            else if (c == 'n') c = '\n';
            else if (c == 'r') c = '\r';
            else if (c == 'x') {
                unsigned k, h = 0;
                for (k = 0; k < 2 && i + 1 < n; k++) {
                    int digit = tinyi_vocab_hex(p[++i]);
                    h = h << 4 | (unsigned)(digit < 0 ? 0 : digit);
                }
                c = (unsigned char)h;
            }
        } else if (c == '\\') {
            break;
        }
        to[m++] = c;
    }
    return m;
}

static tiny_status tinyi_vocab_texts(tllm_vocab *v, const tinyi_vocab_source *s)
{
    size_t i, total = 0, slots, low;
    tllm_text t;
    for (i = 0; i < v->n; i++) {
        if (!tinyi_source_text(s, i, &t))
            return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: token %lu has no text", s->name, (unsigned long)i);
        if (t.n > INT32_MAX || total + t.n > INT32_MAX)
            return tinyi_fail(s->ctx, TINY_E_FORMAT,
                              "%s: with token %lu of %lu bytes the texts of the vocabulary exceed %ld bytes",
                              s->name, (unsigned long)i, (unsigned long)t.n, (long)INT32_MAX);
        total += t.n;
    }
    v->at = (uint32_t *)tinyi_alloc(s->ctx, v->n + 1, sizeof *v->at);
    v->what = (unsigned char *)tinyi_alloc(s->ctx, v->n, 1);
    v->is_end = (unsigned char *)tinyi_alloc(s->ctx, v->n / 8 + 1, 1);
    v->blob = (unsigned char *)tinyi_alloc(s->ctx, total + 1, 1);
    slots = tinyi_vocab_power(v->n + v->n / 2);
    v->slot = (uint32_t *)tinyi_alloc(s->ctx, slots, sizeof *v->slot);
    if (!v->at || !v->what || !v->is_end || !v->blob || !v->slot) return tiny_ctx_status(s->ctx);
    memset(v->is_end, 0, v->n / 8 + 1);
    memset(v->slot, 0, slots * sizeof *v->slot);
    v->slot_mask = (uint32_t)(slots - 1);
    v->slot_bits = tinyi_vocab_bits(v->n);
    low = ((size_t)1 << v->slot_bits) - 1;
    for (total = i = 0; i < v->n; i++) {
        (void)tinyi_source_text(s, i, &t);
        v->at[i] = (uint32_t)total;
        if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_RWKV)
            t.n = tinyi_vocab_unescape(v->blob + total, (const unsigned char *)t.at, t.n);
        else if (t.n) memcpy(v->blob + total, t.at, t.n);
        total += t.n;
        v->at[i + 1] = (uint32_t)total;
        if (t.n > v->longest) v->longest = t.n;
        if (t.n) {                          /* of equal texts the first stays */
            uint64_t h = tinyi_token_hash(v->key, v->blob + v->at[i], t.n);
            uint32_t k = (uint32_t)h & v->slot_mask, tag = (uint32_t)(h >> 32) & ~(uint32_t)low;
            while (v->slot[k]) {
                uint32_t id = (v->slot[k] & (uint32_t)low) - 1;
                if ((v->slot[k] & ~(uint32_t)low) == tag && v->at[id + 1] - v->at[id] == t.n &&
                    !memcmp(v->blob + v->at[id], v->blob + v->at[i], t.n)) break;
                k = (k + 1) & v->slot_mask;
            }
            if (!v->slot[k]) v->slot[k] = tag | (uint32_t)(i + 1);
        }
    }
    return TINY_OK;
}

static tiny_status tinyi_vocab_scores_types(tllm_vocab *v, const tinyi_vocab_source *s)
{
    size_t i;
    if (s->score || (s->d && s->d->score)) {
        v->score = (float *)tinyi_alloc(s->ctx, v->n, sizeof *v->score);
        if (!v->score) return tiny_ctx_status(s->ctx);
    }
    for (i = 0; i < v->n; i++) {
        static const unsigned char bit[] = {
            0, TINYI_TOK_NORMAL, TINYI_TOK_UNKNOWN, TINYI_TOK_CONTROL, TINYI_TOK_USER, TINYI_TOK_UNUSED, TINYI_TOK_BYTE
        };
        int64_t type = TLLM_TOKEN_NORMAL;
        double score = 0;
        if (s->d) {
            if (s->d->score) score = (double)s->d->score[i];
            if (s->d->type) type = s->d->type[i];
        } else {
            int64_t whole;
            if (s->score && !tllm_meta_f64(s->score, i, &score) && tllm_meta_i64(s->score, i, &whole))
                score = (double)whole;
            if (s->type && !tllm_meta_i64(s->type, i, &type)) type = 0;
        }
        if (v->score) v->score[i] = (float)score;
        v->what[i] = type > 0 && type < (int64_t)sizeof bit ? bit[type] : (unsigned char)0;
    }
    return TINY_OK;
}

/* a merge as tokens: 0 when it names none */
static int tinyi_vocab_merge_of(const tllm_vocab *v, tllm_text t, tinyi_merge *m, unsigned char *room)
{
    const unsigned char *p = (const unsigned char *)t.at;
    size_t cut = 1;
    int32_t left, right, to;
    while (cut < t.n && p[cut] != ' ') cut++;
    if (cut + 1 >= t.n || t.n - 1 > v->longest) return 0;
    left = tinyi_token_find(v, p, cut);
    right = tinyi_token_find(v, p + cut + 1, t.n - cut - 1);
    if (left < 0 || right < 0) return 0;
    memcpy(room, p, cut);
    memcpy(room + cut, p + cut + 1, t.n - cut - 1);
    to = tinyi_token_find(v, room, t.n - 1);
    if (to < 0) return 0;
    m->left = (uint32_t)left;
    m->right = (uint32_t)right;
    m->to = (uint32_t)to;
    return 1;
}

static tiny_status tinyi_vocab_joints(tllm_vocab *v, tiny_ctx *ctx)
{
    size_t bits = TINYI_MIN(tinyi_vocab_power(8 * v->n + 4096), (size_t)1 << 21);
    v->joint = (uint32_t *)tinyi_alloc(ctx, bits / 32, sizeof *v->joint);
    if (!v->joint) return tiny_ctx_status(ctx);
    memset(v->joint, 0, bits / 8);
    v->joint_mask = (uint32_t)(bits - 1);
    return TINY_OK;
}

static tiny_status tinyi_vocab_merges(tllm_vocab *v, const tinyi_vocab_source *s)
{
    size_t i, good = 0, slots, low;
    unsigned char *room = (unsigned char *)tinyi_alloc(s->ctx, v->longest + 1, 1);
    tinyi_merge m;
    tllm_text t;
    tiny_status st = TINY_OK;
    if (!room) return tiny_ctx_status(s->ctx);
    if (s->n_merges > INT32_MAX)
        st = tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: %lu merges, the limit is %ld", s->name, (unsigned long)s->n_merges,
                        (long)INT32_MAX);
    for (i = 0; !st && i < s->n_merges; i++) if (tinyi_source_merge(s, i, &t) && t.n > 2) good++;
    if (!st && (v->pre_flags & TLLM_PRE_RAW)) st = tinyi_vocab_joints(v, s->ctx);
    if (!st) {
        slots = tinyi_vocab_power(good + good / 2);
        v->merge = (tinyi_merge *)tinyi_alloc(s->ctx, good, sizeof *v->merge);
        v->merge_slot = (uint32_t *)tinyi_alloc(s->ctx, slots, sizeof *v->merge_slot);
        if (!v->merge || !v->merge_slot) {
            st = tiny_ctx_status(s->ctx);
        } else {
            memset(v->merge_slot, 0, slots * sizeof *v->merge_slot);
            v->merge_mask = (uint32_t)(slots - 1);
            v->merge_bits = tinyi_vocab_bits(good);
            low = ((size_t)1 << v->merge_bits) - 1;
            for (i = 0; i < s->n_merges; i++) {
                int32_t to;
                uint32_t k;
                uint64_t h;
                if (!tinyi_source_merge(s, i, &t) || !tinyi_vocab_merge_of(v, t, &m, room)) continue;
                /* the first rank counts */
                if (tinyi_merge_find(v, (int32_t)m.left, (int32_t)m.right, &to) != UINT32_MAX) continue;
                h = tinyi_merge_hash(v->key, m.left, m.right);
                for (k = (uint32_t)h & v->merge_mask; v->merge_slot[k]; k = (k + 1) & v->merge_mask) {}
                v->merge[v->n_merges++] = m;
                v->merge_slot[k] = ((uint32_t)(h >> 32) & ~(uint32_t)low) | (uint32_t)v->n_merges;
                if (v->joint) {
                    size_t n_left, n_right, last, next = 0;
                    const unsigned char *left = tinyi_token_text(v, (int32_t)m.left, &n_left);
                    const unsigned char *right = tinyi_token_text(v, (int32_t)m.right, &n_right);
                    do {
                        last = next;
                        next += TINYI_MIN(tinyi_utf8_promise(left[next]), n_left - next);
                    } while (next < n_left);
                    tinyi_joint_set(v, left + last, n_left - last, right,
                                    TINYI_MIN(tinyi_utf8_promise(right[0]), n_right));
                }
            }
        }
    }
    tiny_free(s->ctx, room);
    return st;
}

static void tinyi_vocab_spm_joints(tllm_vocab *v)
{
    size_t i;
    for (i = 0; i < v->n; i++) {
        size_t n, at, last = 0, n_last;
        const unsigned char *p = tinyi_token_text(v, (int32_t)i, &n);
        if (!n) continue;
        n_last = TINYI_MIN(tinyi_utf8_promise(p[0]), n);
        for (at = n_last; at < n; ) {
            size_t k = TINYI_MIN(tinyi_utf8_promise(p[at]), n - at);
            tinyi_joint_set(v, p + last, n_last, p + at, k);
            last = at;
            n_last = k;
            at += k;
        }
    }
}

TINYI_FN int tinyi_vocab_byte(const unsigned char *p, size_t n)
{
    if (n != 6 || memcmp(p, "<0x", 3) || p[5] != '>' || tinyi_vocab_hex(p[3]) < 0 || tinyi_vocab_hex(p[4]) < 0)
        return -1;
    return tinyi_vocab_hex(p[3]) * 16 + tinyi_vocab_hex(p[4]);
}

static void tinyi_vocab_bytes(tllm_vocab *v)
{
    int b;
    v->byte_fallback = TINYI_VOCAB_KIND(v) == TLLM_VOCAB_UNIGRAM;
    for (b = 0; b < 256; b++) {
        static const char hex[] = "0123456789ABCDEF";
        unsigned char name[8];
        memcpy(name, "<0x00>", 6);
        name[3] = (unsigned char)hex[b >> 4];
        name[4] = (unsigned char)hex[b & 15];
        if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE && !(v->pre_flags & TLLM_PRE_RAW)) {
            size_t n = tinyi_utf8_put(tinyi_bpe_disguise((unsigned char)b), name);
            v->byte_id[b] = tinyi_token_find(v, name, n);
            continue;
        }
        v->byte_id[b] = tinyi_token_find(v, name, 6);
        if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_UNIGRAM &&
            (v->byte_id[b] < 0 || !(v->what[v->byte_id[b]] & TINYI_TOK_BYTE)))
            v->byte_fallback = 0;
        if (TINYI_VOCAB_KIND(v) != TLLM_VOCAB_SPM) continue;
        v->byte_fallback |= v->byte_id[b] >= 0;
        if (v->byte_id[b] >= 0) continue;
        name[0] = (unsigned char)b;
        v->byte_id[b] = tinyi_token_find(v, name, 1);
        if (v->byte_id[b] < 0) v->byte_id[b] = v->special[TLLM_UNK];
    }
}

enum { TINYI_TRIE_ALL, TINYI_TRIE_UNIGRAM, TINYI_TRIE_PLAMO, TINYI_TRIE_SPECIAL };

static tiny_status tinyi_vocab_trie(tllm_vocab *v, tiny_ctx *ctx, int which, tinyi_trie *trie)
{
    static const unsigned char wanted[] = { 255, TINYI_TOK_NORMAL | TINYI_TOK_USER | TINYI_TOK_UNUSED, 255,
                                            TINYI_TOK_CONTROL | TINYI_TOK_USER | TINYI_TOK_UNKNOWN };
    size_t i, n = 0;
    uint32_t *ids;
    tiny_status st;
    for (i = 0; i < v->n; i++) n += v->at[i + 1] > v->at[i] && ((v->what[i] & wanted[which]) || wanted[which] == 255);
    if (!n && which == TINYI_TRIE_SPECIAL) return TINY_OK;
    ids = (uint32_t *)tinyi_alloc(ctx, n, sizeof *ids);
    if (!ids) return tiny_ctx_status(ctx);
    for (n = i = 0; i < v->n; i++) {
        size_t len = v->at[i + 1] - v->at[i];
        if (!len || len > TINYI_TRIE_LONGEST || !((v->what[i] & wanted[which]) || wanted[which] == 255)) continue;
        if (which == TINYI_TRIE_PLAMO && (v->what[i] & TINYI_TOK_BYTE)) continue;
        ids[n++] = (uint32_t)i;
        if (which == TINYI_TRIE_SPECIAL)
            v->special_first[v->blob[v->at[i]]] |= (unsigned char)(v->what[i] & TINYI_TOK_USER ? 3 : 1);
    }
    st = tinyi_trie_build(ctx, v, ids, n, trie);
    tiny_free(ctx, ids);
    return st;
}

static tiny_status tinyi_vocab_map(tllm_vocab *v, const tinyi_vocab_source *s)
{
    const unsigned char *p = s->d ? (const unsigned char *)s->d->charsmap : s->map ? s->map->at : NULL;
    size_t n = s->d ? s->d->n_charsmap : s->map ? s->map->count : 0;
    uint64_t blob;
    if (!n || !p) return TINY_OK;
    if (n < 4)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: precompiled_charsmap has %lu bytes, but its header needs 4",
                          s->name, (unsigned long)n);
    blob = tinyi_le32(p);
    if (blob + 4 >= n || blob % 4)
        return tinyi_fail(
            s->ctx, TINY_E_FORMAT,
            "%s: precompiled_charsmap: its trie has %lu bytes, but header, trie and texts together have %lu",
            s->name, (unsigned long)blob, (unsigned long)n);
    if (p[n - 1])
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: precompiled_charsmap is truncated: its last text does not end",
                          s->name);
    v->charsmap = (unsigned char *)tinyi_alloc(s->ctx, n, 1);
    if (!v->charsmap) return tiny_ctx_status(s->ctx);
    memcpy(v->charsmap, p, n);
    v->n_charsmap = n;
    v->n_charsmap_units = (size_t)(blob / 4);
    return TINY_OK;
}

/* what each model says where its file does not */
typedef struct tinyi_vocab_model {
    const char *name;
    tllm_vocab_kind kind;
    int bos, eos, unk, sep, pad, mask;
    int add_bos, add_eos, add_space_prefix;
} tinyi_vocab_model;
static const tinyi_vocab_model tinyi_vocab_models[] = {
    { "llama", TLLM_VOCAB_SPM, 1, 2, 0, -1, -1, -1, 1, 0, 1 },
    { "gpt2", TLLM_VOCAB_BPE, 11, 11, -1, -1, -1, -1, 0, 0, 0 },
    { "gemma4", TLLM_VOCAB_BPE, -1, -1, -1, -1, -1, -1, 0, 0, 0 },
    { "whitespace", TLLM_VOCAB_BPE, 11, 11, -1, -1, -1, -1, 0, 0, 0 },
    { "bert", TLLM_VOCAB_WORDPIECE, 101, -1, 100, 102, 0, 103, 1, 0, 0 },
    { "t5", TLLM_VOCAB_UNIGRAM, -1, 1, 2, -1, 0, -1, 0, 1, 0 },
    { "rwkv", TLLM_VOCAB_RWKV, -1, -1, -1, -1, -1, -1, 0, 0, 0 },
    { "plamo2", TLLM_VOCAB_PLAMO2, 1, 2, 0, -1, 3, -1, 0, 0, 0 },
    { "no_vocab", TLLM_VOCAB_NONE, -1, -1, -1, -1, -1, -1, 0, 0, 0 },
    { "none", TLLM_VOCAB_NONE, -1, -1, -1, -1, -1, -1, 0, 0, 0 }
};

static tiny_status tinyi_vocab_start(tllm_vocab *v, const tinyi_vocab_source *s, tllm_text model, tllm_text pre)
{
    const tinyi_vocab_model *m = NULL;
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_vocab_models); i++)
        if (tllm_text_is(model, tinyi_vocab_models[i].name)) m = &tinyi_vocab_models[i];
    if (!m)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: tokenizer.ggml.model is \"%.*s\"; known are llama, gpt2, gemma4, whitespace, bert, t5, "
                          "rwkv, plamo2 and no_vocab",
                          s->name, (int)TINYI_MIN(model.n, (size_t)100), model.at);
    v->kind = m->kind;
#ifdef TINYLLM_ONLY_TOKENIZER
    if (v->kind != TINYI_VOCAB_ONLY)
        return tinyi_fail(s->ctx, TINY_E_UNSUPPORTED,
                          "%s: tokenizer.ggml.model is \"%s\"; vocabularies of its kind are not compiled into this "
                          "program",
                          s->name, m->name);
#endif
    for (i = 0; i < TLLM_SPECIAL_COUNT; i++) v->special[i] = -1;
    v->special[TLLM_BOS] = m->bos;
    v->special[TLLM_EOS] = m->eos;
    v->special[TLLM_UNK] = m->unk;
    v->special[TLLM_SEP] = m->sep;
    v->special[TLLM_PAD] = m->pad;
    v->special[TLLM_MASK] = m->mask;
    v->add_bos = m->add_bos;
    v->add_eos = m->add_eos;
    v->add_space_prefix = m->add_space_prefix;
    v->lowercase = 1;
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE) {
        if (tllm_text_is(model, "gemma4")) v->pre = tllm_pre_find("gemma4", 6);
        else if (!pre.n) v->pre = tllm_pre_find("default", 7);
        else v->pre = tllm_pre_find(pre.at, pre.n);
        if (!v->pre)
            return tinyi_fail(
                s->ctx, TINY_E_UNSUPPORTED,
                "%s: tokenizer.ggml.pre is \"%.*s\", an unknown rule; docs/guide/tokenizers.md lists the known ones",
                s->name, (int)TINYI_MIN(pre.n, (size_t)100), pre.at);
        v->pre_flags = v->pre->flags;
        if (v->pre_flags & TLLM_PRE_BOS) v->add_bos = 1;
        if (v->pre_flags & TLLM_PRE_NO_BOS_ID) v->special[TLLM_BOS] = -1;
        if (v->pre_flags & TLLM_PRE_DROP_SPACE) v->lowercase = 0;
    }
    return TINY_OK;
}

static void tinyi_vocab_choice(int *to, int choice) { if (choice) *to = choice > 0; }

/* after texts, types and special ids are there */
static tiny_status tinyi_vocab_finish(tllm_vocab *v, const tinyi_vocab_source *s, tllm_text name, tllm_text arch)
{
    tiny_status st = TINY_OK;
    size_t i;
    if (v->pre_flags & TLLM_PRE_ALWAYS_BOS) v->add_bos = 1;
    if (v->add_bos && v->special[TLLM_BOS] < 0) {
        tinyi_log(s->ctx, TINY_LOG_WARNING, "%s: BOS is to be added, but no token is BOS: it is not added", s->name);
        v->add_bos = 0;
    }
    if (v->add_eos && v->special[TLLM_EOS] < 0) {
        tinyi_log(s->ctx, TINY_LOG_WARNING, "%s: EOS is to be added, but no token is EOS: it is not added", s->name);
        v->add_eos = 0;
    }
    tinyi_vocab_find_special(v);
    tinyi_vocab_strips(v, name, arch);
    tinyi_vocab_bytes(v);
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_SPM) {
        st = tinyi_vocab_joints(v, s->ctx);
        if (!st) tinyi_vocab_spm_joints(v);
    }
    if (!st && TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE) st = tinyi_vocab_merges(v, s);
    if (!st && (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_WORDPIECE || TINYI_VOCAB_KIND(v) == TLLM_VOCAB_RWKV))
        st = tinyi_vocab_trie(v, s->ctx, TINYI_TRIE_ALL, &v->trie);
    if (!st && TINYI_VOCAB_KIND(v) == TLLM_VOCAB_PLAMO2) st = tinyi_vocab_trie(v, s->ctx, TINYI_TRIE_PLAMO, &v->trie);
    if (!st && TINYI_VOCAB_KIND(v) == TLLM_VOCAB_UNIGRAM) {
        double least = 3.4028234663852886e38;
        st = tinyi_vocab_map(v, s);
        if (!st) st = tinyi_vocab_trie(v, s->ctx, TINYI_TRIE_UNIGRAM, &v->trie);
        for (i = 0; i < v->n; i++)
            if (v->what[i] & TINYI_TOK_NORMAL) {
                double score = v->score ? (double)v->score[i] : 0;
                if (score < least) least = score;
            }
        v->unknown_score = (double)((float)least - 10.0f);
    }
    if (!st) st = tinyi_vocab_trie(v, s->ctx, TINYI_TRIE_SPECIAL, &v->special_trie);
    if (!st) {
        v->special[TLLM_NEWLINE] = v->special[TLLM_PAD];
        if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_SPM || TINYI_VOCAB_KIND(v) == TLLM_VOCAB_PLAMO2 ||
            TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE) {
            if (v->byte_id[10] >= 0) v->special[TLLM_NEWLINE] = v->byte_id[10];
            if ((v->pre_flags & TLLM_PRE_RAW) && tllm_vocab_find(v, "\n", 1) >= 0)
                v->special[TLLM_NEWLINE] = tllm_vocab_find(v, "\n", 1);
        } else if (tllm_vocab_find(v, "\n", 1) >= 0) {
            v->special[TLLM_NEWLINE] = tllm_vocab_find(v, "\n", 1);
        }
    }
    return st;
}

static tiny_status tinyi_vocab_new(tiny_ctx *ctx, tllm_vocab **out)
{
    tllm_vocab *v = (tllm_vocab *)tinyi_alloc(ctx, 1, sizeof *v);
    if (!v) return tiny_ctx_status(ctx);
    memset(v, 0, sizeof *v);
    v->key = (tiny_now_ns() ^ (uint64_t)(uintptr_t)v) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    v->key ^= v->key >> 31;
    *out = v;
    return TINY_OK;
}

TINY_API void tllm_vocab_close(tiny_ctx *ctx, tllm_vocab *v)
{
    if (!v) return;
    tiny_free(ctx, v->at);
    tiny_free(ctx, v->blob);
    tiny_free(ctx, v->what);
    tiny_free(ctx, v->is_end);
    tiny_free(ctx, v->score);
    tiny_free(ctx, v->slot);
    tiny_free(ctx, v->merge);
    tiny_free(ctx, v->merge_slot);
    tiny_free(ctx, v->joint);
    tiny_free(ctx, v->charsmap);
    tinyi_trie_free(ctx, &v->trie);
    tinyi_trie_free(ctx, &v->special_trie);
    tiny_free(ctx, v);
}

static tiny_status tinyi_vocab_read_meta(tllm_vocab *v, tinyi_vocab_source *s)
{
    static const struct { const char *key; int which;
    } flags[] = { { "tokenizer.ggml.add_bos_token", 0 },        { "tokenizer.ggml.add_eos_token", 1 },
                  { "tokenizer.ggml.add_space_prefix", 2 },     { "tokenizer.ggml.remove_extra_whitespaces", 3 },
                  { "tokenizer.ggml.normalizer.lowercase", 4 }, { "tokenizer.ggml.normalizer.strip_accents", 5 } };
    tllm_text model = { NULL, 0 }, pre = { NULL, 0 }, name = { NULL, 0 }, arch = { NULL, 0 };
    tiny_status st;
    size_t i, k;
    int *flag[6], yes;
    s->name = tllm_gguf_path(s->g, 0);
    if (!s->name) s->name = "vocabulary";
    if (!tllm_meta_text(tllm_gguf_find(s->g, "tokenizer.ggml.model"), 0, &model))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.model is missing or not a text", s->name);
    (void)tllm_meta_text(tllm_gguf_find(s->g, "tokenizer.ggml.pre"), 0, &pre);
    (void)tllm_meta_text(tllm_gguf_find(s->g, "general.name"), 0, &name);
    (void)tllm_meta_text(tllm_gguf_find(s->g, "general.architecture"), 0, &arch);
    if ((st = tinyi_vocab_start(v, s, model, pre)) != TINY_OK) return st;
    s->text = tllm_gguf_find(s->g, "tokenizer.ggml.tokens");
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_NONE) return TINY_OK;
    if (!s->text) return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.tokens is missing", s->name);
    if (s->text->type != TLLM_ARRAY || s->text->item_type != TLLM_STRING)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.tokens is not a list of texts", s->name);
    v->n = s->text->count;
    if (!v->n || v->n > INT32_MAX)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.tokens has %lu tokens, but 1 to %ld are allowed",
                          s->name, (unsigned long)v->n, (long)INT32_MAX);
    s->score = tllm_gguf_find(s->g, "tokenizer.ggml.scores");
    s->type = tllm_gguf_find(s->g, "tokenizer.ggml.token_type");
    s->merge = tllm_gguf_find(s->g, "tokenizer.ggml.merges");
    s->map = tllm_gguf_find(s->g, "tokenizer.ggml.precompiled_charsmap");
    if (s->score &&
        (s->score->type != TLLM_ARRAY ||
         (s->score->item_type != TLLM_F32 && s->score->item_type != TLLM_F64 && s->score->item_type != TLLM_I32)))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.scores is not a list of f32 or i32 numbers",
                          s->name);
    if (s->score && s->score->count < v->n)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.scores has %lu scores for %lu tokens", s->name,
                          (unsigned long)s->score->count, (unsigned long)v->n);
    if (s->type &&
        (s->type->type != TLLM_ARRAY || s->type->item_type == TLLM_STRING || s->type->item_type == TLLM_F32 ||
         s->type->item_type == TLLM_F64 || s->type->item_type == TLLM_ARRAY || s->type->item_type == TLLM_BOOL))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.token_type is not a list of integers", s->name);
    if (s->type && s->type->count < v->n)
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.token_type has %lu types for %lu tokens", s->name,
                          (unsigned long)s->type->count, (unsigned long)v->n);
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_BPE) {
        if (!s->merge && strcmp(v->pre->name, "kimi-k2"))
            return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.merges is missing", s->name);
        if (s->merge && (s->merge->type != TLLM_ARRAY || s->merge->item_type != TLLM_STRING))
            return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.merges is not a list of texts", s->name);
        s->n_merges = s->merge ? s->merge->count : 0;
    }
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_UNIGRAM && s->map &&
        (s->map->type != TLLM_ARRAY || (s->map->item_type != TLLM_U8 && s->map->item_type != TLLM_I8)))
        return tinyi_fail(s->ctx, TINY_E_FORMAT, "%s: tokenizer.ggml.precompiled_charsmap is not a list of bytes",
                          s->name);
    if ((st = tinyi_vocab_texts(v, s)) != TINY_OK || (st = tinyi_vocab_scores_types(v, s)) != TINY_OK) return st;
    for (i = 0; i < TLLM_SPECIAL_COUNT; i++) {
        if (v->special[i] >= 0 && (size_t)v->special[i] >= v->n) v->special[i] = -1;
        for (k = 0; k < 2; k++) {
            const char *key = tinyi_vocab_special_key[i][k];
            int64_t id;
            if (!key || !tllm_meta_i64(tllm_gguf_find(s->g, key), 0, &id)) continue;
            if (id >= 0 && (uint64_t)id < v->n) v->special[i] = (int32_t)id;
            else
                tinyi_log(s->ctx, TINY_LOG_WARNING, "%s: %s is %ld, but the vocabulary has %lu tokens: ignored",
                          s->name, key, (long)id, (unsigned long)v->n);
        }
    }
    flag[0] = &v->add_bos;
    flag[1] = &v->add_eos;
    flag[2] = &v->add_space_prefix;
    flag[3] = &v->merge_spaces;
    flag[4] = &v->lowercase;
    flag[5] = &v->strip_accents;
    for (i = 0; i < TINYI_COUNT(flags); i++) {
        if (flags[i].which == 5) v->strip_accents = v->lowercase;
        if (tllm_meta_bool(tllm_gguf_find(s->g, flags[i].key), 0, &yes)) *flag[flags[i].which] = yes;
    }
    return tinyi_vocab_finish(v, s, name, arch);
}

TINY_API tiny_status tllm_vocab_open(tiny_ctx *ctx, const tllm_gguf *g, tllm_vocab **out)
{
    tinyi_vocab_source s;
    tllm_vocab *v = NULL;
    tiny_status st;
    if (out) *out = NULL;
    if ((st = tinyi_ctx_check(ctx)) != TINY_OK) return st;
    if (!g || !out) return tinyi_fail(ctx, TINY_E_ARGUMENT, "vocab_open: %s is missing", g ? "out" : "the file");
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    s.g = g;
    st = tinyi_vocab_new(ctx, &v);
    if (!st) st = tinyi_vocab_read_meta(v, &s);
    if (st) { tllm_vocab_close(ctx, v); return st; }
    *out = v;
    return TINY_OK;
}

static tiny_status tinyi_vocab_read_desc(tllm_vocab *v, const tinyi_vocab_source *s)
{
    const tllm_vocab_desc *d = s->d;
    tllm_text model, pre, none = { NULL, 0 };
    tiny_status st;
    size_t i;
    model.at = d->model ? d->model : "";
    model.n = strlen(model.at);
    pre.at = d->pre ? d->pre : "";
    pre.n = strlen(pre.at);
    if ((st = tinyi_vocab_start(v, s, model, pre)) != TINY_OK) return st;
    if (TINYI_VOCAB_KIND(v) == TLLM_VOCAB_NONE) { v->n = 0; return TINY_OK; }
    if (!d->text || !d->n_tokens || d->n_tokens > INT32_MAX || (d->n_merges && !d->merge))
        return tinyi_fail(s->ctx, TINY_E_ARGUMENT, "vocab_make: %lu tokens and %lu merges; %s",
                          (unsigned long)d->n_tokens, (unsigned long)d->n_merges,
                          !d->text || (d->n_merges && !d->merge) ? "a list of them is NULL"
                                                                 : "the limits of tokens are 1 and 2^31 - 1");
    v->n = d->n_tokens;
    if ((st = tinyi_vocab_texts(v, s)) != TINY_OK || (st = tinyi_vocab_scores_types(v, s)) != TINY_OK) return st;
    for (i = 0; i < TLLM_SPECIAL_COUNT; i++) {
        if (d->special && d->special[i] != -2) v->special[i] = d->special[i];
        if (v->special[i] < 0 || (size_t)v->special[i] >= v->n) v->special[i] = -1;
    }
    tinyi_vocab_choice(&v->add_bos, d->add_bos);
    tinyi_vocab_choice(&v->add_eos, d->add_eos);
    tinyi_vocab_choice(&v->add_space_prefix, d->add_space_prefix);
    tinyi_vocab_choice(&v->merge_spaces, d->merge_spaces);
    tinyi_vocab_choice(&v->lowercase, d->lowercase);
    v->strip_accents = v->lowercase;
    tinyi_vocab_choice(&v->strip_accents, d->strip_accents);
    return tinyi_vocab_finish(v, s, none, none);
}

TINY_API tiny_status tllm_vocab_make(tiny_ctx *ctx, const tllm_vocab_desc *desc, tllm_vocab **out)
{
    tinyi_vocab_source s;
    tllm_vocab *v = NULL;
    tiny_status st;
    if (out) *out = NULL;
    if ((st = tinyi_ctx_check(ctx)) != TINY_OK) return st;
    if (!desc || !out)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "vocab_make: %s is missing", desc ? "out" : "the description");
    memset(&s, 0, sizeof s);
    s.ctx = ctx;
    s.d = desc;
    s.name = "vocabulary";
    s.n_merges = desc->n_merges;
    st = tinyi_vocab_new(ctx, &v);
    if (!st) st = tinyi_vocab_read_desc(v, &s);
    if (st) { tllm_vocab_close(ctx, v); return st; }
    *out = v;
    return TINY_OK;
}

/* ---- questions ------------------------------------------------------------------------------------------------- */

TINY_API tllm_vocab_kind tllm_vocab_kind_of(const tllm_vocab *v) { return v ? TINYI_VOCAB_KIND(v) : TLLM_VOCAB_NONE; }
TINY_API const tllm_pre *tllm_vocab_pre(const tllm_vocab *v) { return v ? v->pre : NULL; }
TINY_API size_t tllm_vocab_size(const tllm_vocab *v) { return v ? v->n : 0; }

TINY_API tllm_text tllm_vocab_text(const tllm_vocab *v, int32_t id)
{
    tllm_text t = { "", 0 };
    if (tinyi_vocab_has(v, id)) t.at = (const char *)tinyi_token_text(v, id, &t.n);
    return t;
}

TINY_API float tllm_vocab_score(const tllm_vocab *v, int32_t id)
{
    return tinyi_vocab_has(v, id) && v->score ? v->score[id] : 0.0f;
}

TINY_API int tllm_vocab_type(const tllm_vocab *v, int32_t id)
{
    unsigned w = tinyi_vocab_has(v, id) ? v->what[id] : 0u;
    return w & TINYI_TOK_CONTROL   ? TLLM_TOKEN_CONTROL
           : w & TINYI_TOK_UNKNOWN ? TLLM_TOKEN_UNKNOWN
           : w & TINYI_TOK_USER    ? TLLM_TOKEN_USER
           : w & TINYI_TOK_UNUSED  ? TLLM_TOKEN_UNUSED
           : w & TINYI_TOK_BYTE    ? TLLM_TOKEN_BYTE
           : w & TINYI_TOK_NORMAL  ? TLLM_TOKEN_NORMAL
                                   : TLLM_TOKEN_UNDEFINED;
}

TINY_API int tllm_vocab_is_end(const tllm_vocab *v, int32_t id)
{
    return tinyi_vocab_has(v, id) && (v->is_end[id >> 3] >> (id & 7) & 1);
}
TINY_API int32_t tllm_vocab_special(const tllm_vocab *v, tllm_special which)
{
    return v && (unsigned)which < TLLM_SPECIAL_COUNT ? v->special[which] : -1;
}
TINY_API int tllm_vocab_adds_bos(const tllm_vocab *v) { return v ? v->add_bos : 0; }
TINY_API int tllm_vocab_adds_eos(const tllm_vocab *v) { return v ? v->add_eos : 0; }
TINY_API int32_t tllm_vocab_find(const tllm_vocab *v, const char *text, size_t n)
{
    return v && v->slot && text ? tinyi_token_find(v, (const unsigned char *)text, n) : -1;
}
