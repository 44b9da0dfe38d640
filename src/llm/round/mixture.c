/* src/llm/round/mixture.c - the table of mixtures, and the tensors that its columns apply to */
#include "llm/round/mixture.h"
#include <string.h>

#define FMT(name) TLLM_FORMAT_##name
#define AT(where) TLLM_MIX_##where
#define PLAIN { AT(NOWHERE), 0, 0 }
static const tllm_mixture tinyi_mixtures[] = {
    /* name, file_type, base, output, embedding (0: base); value, down, mix */
    { "F32", 0, FMT(F32), 0, 0, PLAIN, PLAIN, PLAIN },
    { "F16", 1, FMT(F16), 0, 0, PLAIN, PLAIN, PLAIN },
    { "BF16", 32, FMT(BF16), 0, 0, PLAIN, PLAIN, PLAIN },
    { "Q8_0", 7, FMT(Q8_0), 0, 0, PLAIN, PLAIN, PLAIN },
    { "Q4_0", 2, FMT(Q4_0), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q4_1", 3, FMT(Q4_1), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q5_0", 8, FMT(Q5_0), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q5_1", 9, FMT(Q5_1), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q2_K", 10, FMT(Q2_K), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(Q4_K), 0 }, { AT(EVERYWHERE), FMT(Q3_K), 0 },
      { AT(EVERYWHERE), FMT(Q3_K), 0 } },
    { "Q2_K_S", 21, FMT(Q2_K), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(Q4_K), 0 }, { AT(FIRST_EIGHTH), FMT(Q4_K), 0 },
      PLAIN },
    { "Q3_K_S", 11, FMT(Q3_K), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q3_K_M", 12, FMT(Q3_K), FMT(Q6_K), 0, { AT(FIRST_FOUR), FMT(Q5_K), FMT(Q4_K) }, { AT(SOME), FMT(Q4_K), 0 },
      { AT(EVERYWHERE), FMT(Q4_K), 0 } },
    { "Q3_K_L", 13, FMT(Q3_K), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(Q5_K), 0 }, { AT(EVERYWHERE), FMT(Q5_K), 0 },
      { AT(EVERYWHERE), FMT(Q5_K), 0 } },
    { "Q4_K_S", 14, FMT(Q4_K), FMT(Q6_K), 0, { AT(FIRST_FOUR), FMT(Q5_K), 0 }, { AT(FIRST_EIGHTH), FMT(Q5_K), 0 },
      PLAIN },
    { "Q4_K_M", 15, FMT(Q4_K), FMT(Q6_K), 0, { AT(SOME), FMT(Q6_K), 0 }, { AT(SOME), FMT(Q6_K), 0 }, PLAIN },
    { "Q5_K_S", 16, FMT(Q5_K), FMT(Q6_K), 0, PLAIN, PLAIN, PLAIN },
    { "Q5_K_M", 17, FMT(Q5_K), FMT(Q6_K), 0, { AT(SOME), FMT(Q6_K), 0 }, { AT(SOME), FMT(Q6_K), 0 }, PLAIN },
    { "Q6_K", 18, FMT(Q6_K), 0, 0, PLAIN, PLAIN, PLAIN },
    { "IQ1_S", 24, FMT(IQ1_S), FMT(Q5_K), FMT(Q2_K), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(Q2_K), 0 }, { AT(EVERYWHERE), FMT(IQ2_XXS), 0 } },
    { "IQ1_M", 31, FMT(IQ1_M), FMT(Q5_K), FMT(Q2_K), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(Q2_K), 0 }, { AT(EVERYWHERE), FMT(IQ2_XXS), 0 } },
    { "IQ2_XXS", 19, FMT(IQ2_XXS), FMT(Q5_K), FMT(Q2_K), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(Q2_K), 0 }, PLAIN },
    { "IQ2_XS", 20, FMT(IQ2_XS), FMT(Q5_K), FMT(Q2_K), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(Q2_K), 0 }, PLAIN },
    { "IQ2_S", 28, FMT(IQ2_XS), FMT(Q5_K), FMT(IQ3_S), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(IQ3_S), 0 }, { AT(EVERYWHERE), FMT(IQ3_S), 0 } },
    { "IQ2_M", 29, FMT(IQ2_S), FMT(Q5_K), FMT(IQ3_S), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(IQ3_S), 0 }, { AT(EVERYWHERE), FMT(IQ3_S), 0 } },
    { "IQ3_XXS", 23, FMT(IQ3_XXS), FMT(Q5_K), FMT(IQ3_S), { AT(EVERYWHERE), FMT(Q4_K), 0 },
      { AT(FIRST_EIGHTH), FMT(Q4_K), FMT(Q3_K) }, PLAIN },
    { "IQ3_XS", 22, FMT(IQ3_XXS), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(IQ3_S), 0 }, { AT(FIRST_EIGHTH), FMT(Q4_K), 0 },
      PLAIN },
    { "IQ3_S", 26, FMT(IQ3_S), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(Q4_K), 0 }, PLAIN, PLAIN },
    { "IQ3_M", 27, FMT(IQ3_S), FMT(Q6_K), 0, { AT(EVERYWHERE), FMT(Q4_K), 0 }, { AT(FIRST_EIGHTH), FMT(Q4_K), 0 },
      { AT(EVERYWHERE), FMT(Q4_K), 0 } },
    { "IQ4_NL", 25, FMT(IQ4_NL), FMT(Q6_K), 0, { AT(FIRST_FOUR), FMT(Q5_K), 0 }, { AT(FIRST_EIGHTH), FMT(Q5_K), 0 },
      PLAIN },
    { "IQ4_XS", 30, FMT(IQ4_XS), FMT(Q6_K), 0, { AT(FIRST_FOUR), FMT(Q5_K), 0 }, { AT(FIRST_EIGHTH), FMT(Q5_K), 0 },
      PLAIN },
    { "TQ1_0", 36, FMT(TQ1_0), FMT(Q6_K), FMT(Q4_K), PLAIN, PLAIN, PLAIN },
    { "TQ2_0", 37, FMT(TQ2_0), FMT(Q6_K), FMT(Q4_K), PLAIN, PLAIN, PLAIN }
};

/* For rows that are not whole blocks of 256: the closest format with blocks of 32. */
static const struct { int from, to;
} tinyi_mixture_smaller[] = { { FMT(Q2_K), FMT(IQ4_NL) },   { FMT(Q3_K), FMT(IQ4_NL) },    { FMT(Q4_K), FMT(Q5_0) },
                              { FMT(Q5_K), FMT(Q5_1) },     { FMT(Q6_K), FMT(Q8_0) },      { FMT(IQ1_S), FMT(IQ4_NL) },
                              { FMT(IQ1_M), FMT(IQ4_NL) },  { FMT(IQ2_XXS), FMT(IQ4_NL) }, { FMT(IQ2_XS), FMT(IQ4_NL) },
                              { FMT(IQ2_S), FMT(IQ4_NL) },  { FMT(IQ3_XXS), FMT(IQ4_NL) }, { FMT(IQ3_S), FMT(IQ4_NL) },
                              { FMT(IQ4_XS), FMT(IQ4_NL) }, { FMT(TQ1_0), FMT(Q4_0) },     { FMT(TQ2_0), FMT(Q4_0) },
                              { FMT(NVFP4), FMT(MXFP4) },   { FMT(Q1_0), FMT(Q4_0) },      { FMT(Q2_0), FMT(Q4_0) } };

TINY_API const tllm_mixture *tllm_mixture_at(size_t i)
{
    return i < TINYI_COUNT(tinyi_mixtures) ? &tinyi_mixtures[i] : NULL;
}

static int tinyi_mixture_same(const char *a, const char *b)
{
    for (; *a && *b; a++, b++)
        if ((*a >= 'a' && *a <= 'z' ? *a - 32 : *a) != (*b >= 'a' && *b <= 'z' ? *b - 32 : *b)) return 0;
    return *a == *b;
}

TINY_API const tllm_mixture *tllm_mixture_by_name(const char *name)
{
    static const struct {
        const char *name, *means;
    } also[] = { { "Q3_K", "Q3_K_M" }, { "Q4_K", "Q4_K_M" }, { "Q5_K", "Q5_K_M" } };
    size_t i;
    if (!name) return NULL;
    for (i = 0; i < TINYI_COUNT(also); i++)
        if (tinyi_mixture_same(also[i].name, name)) name = also[i].means;
    for (i = 0; i < TINYI_COUNT(tinyi_mixtures); i++)
        if (tinyi_mixture_same(tinyi_mixtures[i].name, name)) return &tinyi_mixtures[i];
    return NULL;
}

static int tinyi_mixture_has(tllm_text t, const char *part)
{
    const size_t n = strlen(part);
    size_t i;
    for (i = 0; i + n <= t.n; i++)
        if (!memcmp(t.at + i, part, n)) return 1;
    return 0;
}

TINY_API int tllm_mixture_takes(const tllm_gguf_tensor *t)
{
    static const char *const left[] = {
        "_norm",     "ffn_gate_inp", "ssm_conv1d",  "shortconv.conv", "altup",    "laurel",     "per_layer_model_proj",
        "time_mix_", "attn_rel_b",   "token_types", "position_embd",  "pos_embd", "rope_freqs", "ssm_a",
        "ssm_d",     "conv1d",       "attn_sinks"
    };
    const tllm_format *f = t ? tllm_format_of(t->type) : NULL;
    size_t i;
    if (!f || t->rank < 2 || t->dim[1] < 2 || (f->id >= FMT(I8) && f->id <= FMT(I64))) return 0;
    if (t->name.n < 6 || memcmp(t->name.at + t->name.n - 6, "weight", 6)) return 0;
    for (i = 0; i < TINYI_COUNT(left); i++)
        if (tinyi_mixture_has(t->name, left[i])) return 0;
    return 1;
}

static int tinyi_mixture_layer(tllm_text name)      /* blk.N.: N; else -1 */
{
    size_t i;
    int n = 0;
    if (name.n < 5 || memcmp(name.at, "blk.", 4)) return -1;
    for (i = 4; i < name.n && name.at[i] >= '0' && name.at[i] <= '9' && n < 100000; i++)
        n = 10 * n + (name.at[i] - '0');
    return i > 4 ? n : -1;
}

static int tinyi_mixture_ruled(const tllm_mixture_rule *r, int layer, int n_layer, int base)
{
    /* last: 7/8 of the layers, rounded down */
    const int first = n_layer / 8, last = n_layer - n_layer / 8 - (n_layer % 8 != 0);
    int here = 0;
    switch (r->where) {
    case AT(EVERYWHERE): here = 1; break;
    case AT(FIRST_EIGHTH): here = layer < first; break;
    case AT(FIRST_FOUR): here = layer < 4; break;
    case AT(SOME): here = layer < first || layer >= last || (layer - first) % 3 == 2; break;
    default: break;
    }
    return here ? r->there : r->elsewhere ? r->elsewhere : base;
}

TINY_API const tllm_format *tllm_mixture_format(const tllm_mixture *m, const tllm_gguf_tensor *t, int n_layer, int tied)
{
    int layer, to;
    if (!m || !t) return NULL;
    to = m->base;
    layer = tinyi_mixture_layer(t->name);
    if (n_layer < 0) n_layer = 0;
    if (tllm_text_is(t->name, "output.weight") || (tied && tllm_text_is(t->name, "token_embd.weight")))
        to = m->output ? m->output : to;
    else if (tllm_text_is(t->name, "token_embd.weight")) to = m->embedding ? m->embedding : to;
    else if (layer < 0) to = m->base;
    else if (tinyi_mixture_has(t->name, "attn_v.") || tinyi_mixture_has(t->name, "attn_kv_b.") ||
             tinyi_mixture_has(t->name, "attn_v_b."))
        to = tinyi_mixture_ruled(&m->value, layer, n_layer, to);
    else if (tinyi_mixture_has(t->name, "ffn_down")) to = tinyi_mixture_ruled(&m->down, layer, n_layer, to);
    else if (tinyi_mixture_has(t->name, "attn_output.")) to = tinyi_mixture_ruled(&m->mix, layer, n_layer, to);
    return tllm_format_of(to);
}

TINY_API const tllm_format *tllm_format_for_rows(const tllm_format *f, uint64_t n)
{
    const tllm_format *to = f;
    size_t i;
    if (!f || f->values < 1 || !(n % (unsigned)f->values)) return f;
    for (i = 0; i < TINYI_COUNT(tinyi_mixture_smaller); i++)
        if (tinyi_mixture_smaller[i].from == f->id) to = tllm_format_of(tinyi_mixture_smaller[i].to);
    return !to || n % (unsigned)to->values ? tllm_format_of(FMT(F16)) : to;
}
#undef FMT
#undef AT
#undef PLAIN
