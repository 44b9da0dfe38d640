/* src/math/optim.simd.h - the steps of one run of parameters; each is written once, n a vector at most */
TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_optim_adam)(v_f32 w, v_f32 *m, v_f32 *v, v_f32 g, const tinyi_adam_step *s)
{
    g = v_fma(w, v_set(s->decay), v_mul(g, v_set(s->scale)));
    *m = v_fma(v_sub(g, *m), v_set(s->b1), *m);
    *v = v_fma(v_sub(v_mul(g, g), *v), v_set(s->b2), *v);
    g = v_div(v_mul(*m, v_set(s->rate)), v_fma(v_sqrt(*v), v_set(s->root), v_set(s->eps)));
    return v_sub(v_mul(w, v_set(s->keep)), g);
}

static void TINY_FN(tinyi_optim_adam_f32)(float *w, float *m, float *v, const float *g, size_t n,
                                          const tinyi_adam_step *s)
{
    size_t i = 0;
    v_f32 a, b, c;
    for (; i + V_LANES <= n; i += V_LANES) {
        b = v_load(m + i);
        c = v_load(v + i);
        a = TINY_FN(tinyi_optim_adam)(v_load(w + i), &b, &c, v_load(g + i), s);
        v_store(w + i, a);
        v_store(m + i, b);
        v_store(v + i, c);
    }
    if (i < n) {
        b = v_load_n(m + i, n - i);
        c = v_load_n(v + i, n - i);
        a = TINY_FN(tinyi_optim_adam)(v_load_n(w + i, n - i), &b, &c, v_load_n(g + i, n - i), s);
        v_store_n(w + i, a, n - i);
        v_store_n(m + i, b, n - i);
        v_store_n(v + i, c, n - i);
    }
}

TINYI_FORCE_INLINE v_f32 TINY_FN(tinyi_optim_sgd)(v_f32 w, v_f32 *m, v_f32 g, const tinyi_sgd_step *s)
{
    g = v_fma(w, v_set(s->decay), v_mul(g, v_set(s->scale)));
    *m = v_fma(*m, v_set(s->momentum), g);
    return v_fnma(s->nesterov ? v_fma(*m, v_set(s->momentum), g) : *m, v_set(s->rate), w);
}

static void TINY_FN(tinyi_optim_sgd_f32)(float *w, float *m, const float *g, size_t n, const tinyi_sgd_step *s)
{
    size_t i = 0;
    v_f32 a, b;
    for (; i + V_LANES <= n; i += V_LANES) {
        b = v_load(m + i);
        a = TINY_FN(tinyi_optim_sgd)(v_load(w + i), &b, v_load(g + i), s);
        v_store(w + i, a);
        v_store(m + i, b);
    }
    if (i < n) {
        b = v_load_n(m + i, n - i);
        a = TINY_FN(tinyi_optim_sgd)(v_load_n(w + i, n - i), &b, v_load_n(g + i, n - i), s);
        v_store_n(w + i, a, n - i);
        v_store_n(m + i, b, n - i);
    }
}

static void TINY_FN(tinyi_use_optim)(tinyi_kernels *k)
{
    TINYI_USE(k, optim_adam_f32);
    TINYI_USE(k, optim_sgd_f32);
}
