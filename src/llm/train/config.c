/* src/llm/train/config.c
 *
 * One table of keys is used to read a user's file, to check the limits of a description, and to compare it with a
 * checkpoint. */
#include "llm/train/config_inside.h"
#include "llm/train/decoder_inside.h"
#include "core/state_inside.h"
#include "math/gla.h"
#include <string.h>

#define TINYI_TK(name, kind, least, most) { #name, TINYI_TK_##kind, offsetof(tllm_train_desc, name), least, most }
static const tinyi_train_key tinyi_train_keys[] = {
    TINYI_TK(embedding, INT, 8, 4096),    TINYI_TK(layers, INT, 1, TINYI_DEC_LAYERS),
    TINYI_TK(heads, INT, 1, 256),         TINYI_TK(kv_heads, INT, 1, 256),
    TINYI_TK(hidden, INT, 8, 16384),      TINYI_TK(context, INT, 2, 4096),
    TINYI_TK(sequences, INT, 4, 1024),    TINYI_TK(steps, INT, 1, 1e8),
    TINYI_TK(warmup, INT, 1, 1e8),        TINYI_TK(constant, REAL, 1e-6, 1),
    TINYI_TK(optimizer, OPTIMIZER, 0, 1), TINYI_TK(matrix_rate, REAL, 1e-9, 10),
    TINYI_TK(decay, REAL, 1e-9, 10),      TINYI_TK(momentum, REAL, 1e-3, 0.9999),
    TINYI_TK(rate, REAL, 1e-9, 10),       TINYI_TK(beta1, REAL, 1e-3, 0.9999),
    TINYI_TK(beta2, REAL, 1e-3, 0.99999), TINYI_TK(eps, REAL, 1e-30, 1),
    TINYI_TK(clip, REAL, 1e-6, 1e6),      TINYI_TK(spread, REAL, 1e-4, 10),
    TINYI_TK(rope_base, REAL, 2, 1e9),    TINYI_TK(norm_eps, REAL, 1e-12, 0.1),
    TINYI_TK(seed, SEED, 0, 0),           TINYI_TK(exact, INT, 0, 1),
    TINYI_TK(stress, REAL, 1, 100),       TINYI_TK(form, FORM, 0, 2),
    TINYI_TK(latent, INT, 0, 4096),       TINYI_TK(rotary, INT, 0, 4096),
    TINYI_TK(rank, INT, 0, 4096)
};
#undef TINYI_TK

TINYI_FN const tinyi_train_key *tinyi_train_key_at(size_t i)
{
    return i < TINYI_COUNT(tinyi_train_keys) ? &tinyi_train_keys[i] : NULL;
}

/* The words of a key that is no number. */
static const char *tinyi_train_word(int kind, int i)
{
    static const char *const optimizer[] = { "muon", "adamw", NULL }, *const form[] = { "grouped", "latent", "gated",
                                                                                        NULL };
    return kind == TINYI_TK_OPTIMIZER ? optimizer[i] : kind == TINYI_TK_FORM ? form[i] : NULL;
}

TINYI_FN void tinyi_train_defaults(tllm_train_desc *d)
{
    const int adam = d->optimizer == TLLM_TRAIN_ADAMW;
    if (!d->embedding) d->embedding = 256;
    if (!d->layers) d->layers = 4;
    if (!d->heads) d->heads = 8;
    if (!d->kv_heads) d->kv_heads = d->form != TLLM_TRAIN_GROUPED ? d->heads : 2;
    if (!d->latent && d->form == TLLM_TRAIN_LATENT) d->latent = 64;
    if (!d->rotary && d->form == TLLM_TRAIN_LATENT) d->rotary = 16;
    if (!d->rank && d->form == TLLM_TRAIN_GATED) d->rank = 32;
    if (!d->hidden) d->hidden = 512;
    if (!d->context) d->context = 256;
    if (!d->sequences) d->sequences = 16;
    if (!d->steps) d->steps = 1000;
    if (!d->warmup) d->warmup = 40;
    if (d->constant == 0.0) d->constant = 0.6;
    if (d->matrix_rate == 0.0) d->matrix_rate = adam ? 0.003 : 0.02;
    if (d->decay == 0.0) d->decay = adam ? 0.1 : 0.01;
    if (d->momentum == 0.0) d->momentum = 0.95;
    if (d->rate == 0.0) d->rate = 0.003;
    if (d->beta1 == 0.0) d->beta1 = 0.9;
    if (d->beta2 == 0.0) d->beta2 = 0.95;
    if (d->eps == 0.0) d->eps = 1e-8;
    if (d->clip == 0.0) d->clip = 1.0;
    if (d->spread == 0.0) d->spread = 0.5;
    if (d->stress == 0.0) d->stress = 1.0;
    if (d->rope_base == 0.0) d->rope_base = 10000.0;
    if (d->norm_eps == 0.0) d->norm_eps = 1e-5;
    if (!d->seed) d->seed = 1;
}

TINYI_FN double tinyi_train_get(const tllm_train_desc *d, const tinyi_train_key *k)
{
    const unsigned char *p = (const unsigned char *)d + k->at;
    double x;
    int i;
    if (k->kind == TINYI_TK_REAL) {
        memcpy(&x, p, sizeof x);
        return x;
    }
    memcpy(&i, p, sizeof i);
    return (double)i;
}

TINYI_FN tiny_status tinyi_train_check(tiny_ctx *ctx, const tllm_train_desc *d)
{
    size_t i;
    for (i = 0; i < TINYI_COUNT(tinyi_train_keys); i++) {
        const tinyi_train_key *k = &tinyi_train_keys[i];
        double x;
        if (k->kind == TINYI_TK_SEED) continue;
        x = tinyi_train_get(d, k);
        if (!(x >= k->least && x <= k->most))
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: %s is %g, it must be from %g to %g", k->name, x,
                              k->least, k->most);
    }
    if (d->embedding % d->heads)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: an embedding of %d numbers cannot be shared by %d heads",
                          d->embedding, d->heads);
    if (d->form == TLLM_TRAIN_GATED) {
        if (d->kv_heads != d->heads)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "training: the gated form makes keys for each of the %d heads; kv_heads is %d", d->heads,
                              d->kv_heads);
        if (d->rank > d->embedding)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: rank %d must be at most the embedding, %d", d->rank,
                              d->embedding);
        if (d->embedding / d->heads > TINY_GLA_KEYS)
            return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: heads of %d numbers; the limit of the gated form is %d",
                              d->embedding / d->heads, TINY_GLA_KEYS);
    } else if (d->rank)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: rank is %d; only the gated form has one", d->rank);
    if (d->form == TLLM_TRAIN_LATENT) {
        if (d->kv_heads != d->heads)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "training: the latent form makes keys for each of the %d heads; kv_heads is %d", d->heads,
                              d->kv_heads);
        if (d->latent > d->embedding || d->rotary > d->embedding || d->rotary % 2)
            return tinyi_fail(ctx, TINY_E_ARGUMENT,
                              "training: latent %d and rotary %d must be at most the embedding, %d, and rotary even",
                              d->latent, d->rotary, d->embedding);
    } else if (d->latent || d->rotary)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: latent is %d and rotary %d; only the latent form has them",
                          d->latent, d->rotary);
    else if (d->form == TLLM_TRAIN_GROUPED && d->embedding / d->heads % 2)
        return tinyi_fail(ctx, TINY_E_ARGUMENT,
                          "training: heads of %d numbers (embedding %d, heads %d) cannot be rotated in pairs",
                          d->embedding / d->heads, d->embedding, d->heads);
    if (d->heads % d->kv_heads)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: %d heads are not a multiple of kv_heads, %d", d->heads,
                          d->kv_heads);
    if (d->sequences % TLLM_TRAIN_LANES)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: %d sequences cannot be split into %d equal lanes",
                          d->sequences, TLLM_TRAIN_LANES);
    if (d->warmup > d->steps)
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "training: a warmup of %d steps is longer than the run of %d",
                          d->warmup, d->steps);
    return TINY_OK;
}

static int tinyi_train_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* A number of at most 40 characters: digits, one point, an exponent; *ok 0 where it is none. */
static double tinyi_train_number(const char *s, size_t n, int *ok)
{
    double x = 0.0, unit = 1.0;
    size_t i = 0, digits = 0;
    int e = 0, sign = 1;
    *ok = 0;
    if (n > 40) return 0.0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++, digits++) x = x * 10.0 + (s[i] - '0');
    if (i < n && s[i] == '.')
        for (i++; i < n && s[i] >= '0' && s[i] <= '9'; i++, digits++) { x = x * 10.0 + (s[i] - '0'); unit *= 10.0; }
    if (!digits) return 0.0;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < n && (s[i] == '-' || s[i] == '+')) sign = s[i++] == '-' ? -1 : 1;
        if (i == n) return 0.0;
        for (; i < n && s[i] >= '0' && s[i] <= '9' && e < 100; i++) e = e * 10 + (s[i] - '0');
    }
    if (i < n) return 0.0;
    *ok = 1;
    for (; e > 0; e--) {
        if (sign < 0) unit *= 10.0;
        else x *= 10.0;
    }
    return x / unit;
}

TINY_API tiny_status tllm_train_config(tiny_ctx *ctx, const char *name, const char *text, size_t n,
                                       tllm_train_desc *desc)
{
    tllm_train_desc d;
    unsigned seen = 0;
    size_t at = 0, line = 0;
    if (!ctx || !desc || (!text && n))
        return tinyi_fail(ctx, TINY_E_ARGUMENT, "configuration: the text or the result pointer is NULL");
    if (!name) name = "configuration";
    d = *desc;
    while (at < n) {
        const char *s = text + at, *v;
        size_t len = 0, k_len, v_len, k;
        const tinyi_train_key *key = NULL;
        unsigned char *to;
        double x;
        int ok = 1, i;
        line++;
        while (at + len < n && s[len] != '\n') len++;
        at += len + 1;
        for (k = 0; k < len; k++)
            if (s[k] == '#') len = k;
        while (len && tinyi_train_blank(s[0])) { s++; len--; }
        while (len && tinyi_train_blank(s[len - 1])) len--;
        if (!len) continue;
        for (k_len = 0; k_len < len && s[k_len] != '='; k_len++) {}
        if (k_len == len)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu: \"%.*s\" is not key = value", name, line,
                              (int)TINYI_MIN(len, (size_t)60), s);
        v = s + k_len + 1;
        v_len = len - k_len - 1;
        while (k_len && tinyi_train_blank(s[k_len - 1])) k_len--;
        while (v_len && tinyi_train_blank(v[0])) { v++; v_len--; }
        for (k = 0; k < TINYI_COUNT(tinyi_train_keys); k++)
            if (strlen(tinyi_train_keys[k].name) == k_len && !memcmp(tinyi_train_keys[k].name, s, k_len))
                key = &tinyi_train_keys[k];
        if (!key)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu: unknown key \"%.*s\"", name, line,
                              (int)TINYI_MIN(k_len, (size_t)60), s);
        k = (size_t)(key - tinyi_train_keys);
        if (seen >> k & 1)
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu: %s occurs twice", name, line, key->name);
        seen |= 1u << k;
        to = (unsigned char *)&d + key->at;
        if (tinyi_train_word(key->kind, 0)) {
            const char *word;
            for (i = 0; (word = tinyi_train_word(key->kind, i)) && (strlen(word) != v_len || memcmp(v, word, v_len));)
                i++;
            if (!word)
                return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu: %s is \"%.*s\"; use %s%s%s or %s", name,
                                  line, key->name, (int)TINYI_MIN(v_len, (size_t)60), v,
                                  i > 2 ? tinyi_train_word(key->kind, 0) : "", i > 2 ? ", " : "",
                                  tinyi_train_word(key->kind, i - 2), tinyi_train_word(key->kind, i - 1));
            memcpy(to, &i, sizeof i);
            continue;
        }
        x = tinyi_train_number(v, v_len, &ok);
        if (key->kind == TINYI_TK_SEED) {
            ok = ok && x >= 1.0 && x < 9007199254740992.0 && x == (double)(uint64_t)x;
            if (!ok)
                return tinyi_fail(ctx, TINY_E_FORMAT,
                                  "%s: line %zu: seed is \"%.*s\", it must be a whole number from 1 to 2^53", name,
                                  line, (int)TINYI_MIN(v_len, (size_t)60), v);
            d.seed = (uint64_t)x;
            continue;
        }
        if (!ok || !(x >= key->least && x <= key->most) || (key->kind == TINYI_TK_INT && x != (double)(int)x))
            return tinyi_fail(ctx, TINY_E_FORMAT, "%s: line %zu: %s is \"%.*s\", it must be a %s from %g to %g", name,
                              line, key->name, (int)TINYI_MIN(v_len, (size_t)60), v,
                              key->kind == TINYI_TK_INT ? "whole number" : "number", key->least, key->most);
        if (key->kind == TINYI_TK_INT) {
            i = (int)x;
            memcpy(to, &i, sizeof i);
        } else memcpy(to, &x, sizeof x);
    }
    *desc = d;
    return TINY_OK;
}
