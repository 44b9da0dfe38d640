/* src/llm/dist/noloco.simd.h - the outer step and the sums before it, compiled once per target */
static void TINY_FN(tinyi_noloco_move)(float *theta, float *phi, float *momentum, const float *change,
                                       const float *slow, size_t n, const tinyi_noloco_step *s)
{
    const v_f32 alpha = v_set(s->alpha), beta = v_set(s->beta * s->part), gamma = v_set(s->gamma),
                part = v_set(s->part);
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) {
        const v_f32 p = v_load(phi + i), apart = v_sub(v_mul(part, v_load(slow + i)), p);
        const v_f32 d = v_fma(gamma, apart, v_fma(beta, v_load(change + i), v_mul(alpha, v_load(momentum + i))));
        const v_f32 q = v_add(p, d);
        v_store(momentum + i, d);
        v_store(phi + i, q);
        v_store(theta + i, q);
    }
    for (; i < n; i++) {
        momentum[i] = s->alpha * momentum[i] + s->beta * s->part * change[i] + s->gamma * (s->part * slow[i] - phi[i]);
        theta[i] = phi[i] += momentum[i];
    }
}
static void TINY_FN(tinyi_noloco_add)(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_add(v_load(y + i), v_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}
static void TINY_FN(tinyi_noloco_sub)(float *y, const float *a, const float *b, size_t n)
{
    size_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES) v_store(y + i, v_sub(v_load(a + i), v_load(b + i)));
    for (; i < n; i++) y[i] = a[i] - b[i];
}

static const tinyi_noloco_kernels TINY_FN(tinyi_noloco_table) = { TINYI_PASS_TARGET, TINY_FN(tinyi_noloco_move),
                                                                  TINY_FN(tinyi_noloco_add),
                                                                  TINY_FN(tinyi_noloco_sub) };
TINYI_TABLE(tinyi_noloco_kernels, tinyi_noloco_kernels, TINY_FN(tinyi_noloco_table))
