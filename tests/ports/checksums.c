/* tests/ports/checksums.c - the same bits everywhere: one checksum for each operation's reference
 *
 *     checksums [SEED]                prints "operation seed checksum" lines, then "OK n"
 *     checksums --run [FOLDER]        the same, a line for each model of a folder with an index.tsv (the oracle's), and
 *                                     the conformance kit over every SIMD target this machine has
 *     checksums --models FOLDER       no kit
 *
 * For each row of the table the conformance kit makes eight cases (shapes, values, specials) and returns the result of
 * the reference: FNV-1a, 64 bits, over the elements in index order as little-endian bytes, every NaN as the same one.
 * Functions outside the table that promise the same bits (random numbers; weights rounded, packed and trained) have
 * lines of their own.
 */
#ifdef PORT_IMPLEMENTATION
#define TINYLLM_ALL
#define TINYLLM_IMPLEMENTATION
#endif
#include "tinyllm.h"
#include "hash.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CASES 8
#define CHECKSUM_SEED 7

int print_models(const char *folder);       /* models.c */
int print_procedures(uint64_t seed);        /* procedures.c */

/* one element as an unsigned number, NaN as the plain quiet one */
static void hash_element(tiny_dtype dtype, const unsigned char *p)
{
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;
    switch (tiny_dtype_bytes(dtype)) {
    case 1: hash_bits(p[0], 1); break;
    case 2:
        memcpy(&u16, p, 2);
        if (dtype == TINY_F16 && (u16 & 0x7fffu) > 0x7c00u) u16 = 0x7e00;
        if (dtype == TINY_BF16 && (u16 & 0x7fffu) > 0x7f80u) u16 = 0x7fc0;
        hash_bits(u16, 2);
        break;
    case 4:
        memcpy(&u32, p, 4);
        if (dtype == TINY_F32 && (u32 & 0x7fffffffu) > 0x7f800000u) u32 = 0x7fc00000u;
        hash_bits(u32, 4);
        break;
    default:
        memcpy(&u64, p, 8);
        if (dtype == TINY_F64 && (u64 & ~(UINT64_C(1) << 63)) > UINT64_C(0x7ff) << 52) u64 = UINT64_C(0x7ff8) << 48;
        hash_bits(u64, 8);
        break;
    }
}

static void hash_tensor(const tiny_tensor *t)
{
    tiny_idx at[TINY_MAX_RANK] = { 0, 0, 0, 0 }, left = tiny_tensor_count(t), where;
    int i;
    for (i = 0; i < t->rank; i++) hash_bits((uint64_t)t->dim[i], 8);
    for (; left > 0; left--) {
        for (where = 0, i = 0; i < t->rank; i++) where += at[i] * t->stride[i];
        hash_element(t->dtype, (const unsigned char *)t->data + where * (tiny_idx)tiny_dtype_bytes(t->dtype));
        for (i = t->rank - 1; i >= 0 && ++at[i] == t->dim[i]; i--) at[i] = 0;
    }
}

static void hash_answer(void *user, const tiny_op_row *row, const tiny_op *op)
{
    int i;
    (void)user;
    for (i = 0; i < row->n_out; i++) hash_tensor(op->out[i]);
}

static int print_operations(uint64_t seed)
{
    tiny_ctx_desc desc;
    tiny_conform_desc conform;
    tiny_ctx *ctx;
    const tiny_op_row *row;
    size_t i;
    int n = 0, n_failed;
    memset(&desc, 0, sizeof desc);
    memset(&conform, 0, sizeof conform);
    desc.n_threads = 1;
    desc.target = TINY_TARGET_REFERENCE;
    if (tiny_ctx_open(&desc, &ctx)) return -1;
    for (i = 0; (row = tiny_op_at(i)) != NULL; i++) {
        conform.op = row->name;
        conform.n_cases = CASES;
        conform.seed = seed;
        conform.answer = hash_answer;
        hash_start();
        if (tiny_conform(ctx, &conform, &n_failed) || n_failed) {
            printf("%s failed: %d cases: %s\n", row->name, n_failed, tiny_ctx_message(ctx));
            n = -1000;
            continue;
        }
        n += print_line(row->name, seed);
    }
    tiny_ctx_close(ctx);
    return n;
}

static int print_random(uint64_t seed)
{
    tiny_rng r = tiny_rng_make(seed, 1);
    uint32_t p[1000], key[2], in[4], out[4];
    float x[1001];
    double d;
    tiny_tensor t = tiny_tensor_1d(x, TINY_F32, 1001);
    int i, n = 0;

    hash_start();
    for (i = 0; i < 4; i++) in[i] = (uint32_t)i * 77u;
    key[0] = (uint32_t)seed;
    key[1] = 9;
    tiny_philox(in, key, out);
    for (i = 0; i < 4; i++) hash_bits(out[i], 4);
    for (i = 0; i < 1000; i++) hash_bits(tiny_rng_u64(&r), 8);
    for (i = 0; i < 1000; i++) hash_bits(tiny_rng_below(&r, (uint32_t)i * 4000000u), 4);
    n += print_line("rng_integers", seed);

    hash_start();
    tiny_rng_fill_uniform(&r, x, 1001, -2.0f, 3.0f);
    hash_tensor(&t);
    for (i = 0; i < 1000; i++) {
        d = tiny_rng_uniform64(&r);
        hash_element(TINY_F64, (const unsigned char *)&d);
    }
    n += print_line("rng_uniform", seed);

    hash_start();
    tiny_rng_fill_normal(&r, x, 1001);
    hash_tensor(&t);
    n += print_line("rng_normal", seed);

    hash_start();
    tiny_rng_permutation(&r, p, 1000);
    for (i = 0; i < 1000; i++) hash_bits(p[i], 4);
    n += print_line("rng_permutation", seed);
    return n;
}

static void say_failure(void *user, const tiny_conform_row *r)
{
    (void)user;
    if (r->n_failed)
        fprintf(stderr, "%s: %d of %d failed; %s\n", r->row->name, r->n_failed, r->n_cases, r->first_failure);
}

/* Every SIMD target against the reference: 0 when all agree within their bounds. */
static int run_targets(void)
{
    int target, bad = 0, n_failed;
    for (target = TINY_TARGET_SCALAR; target < TINY_TARGET_COUNT; target++) {
        tiny_ctx_desc desc;
        tiny_conform_desc conform;
        tiny_ctx *ctx;
        tiny_status st;
        if (!tiny_target_runs_here((tiny_target)target)) continue;
        memset(&desc, 0, sizeof desc);
        memset(&conform, 0, sizeof conform);
        desc.target = (tiny_target)target;
        desc.n_threads = 2;
        conform.n_cases = CASES;
        conform.row = say_failure;
        if (tiny_ctx_open(&desc, &ctx)) return 1;
        st = tiny_conform(ctx, &conform, &n_failed);
        printf("target %s %s\n", tiny_target_name((tiny_target)target), st || n_failed ? "FAILED" : "passed");
        if (st || n_failed) bad = 1;
        tiny_ctx_close(ctx);
    }
    return bad;
}

int main(int argc, char **argv)
{
    const int run = argc > 1 && !strcmp(argv[1], "--run"), models = argc > 1 && !strcmp(argv[1], "--models");
    const uint64_t seed = argc > 1 && !run && !models ? strtoul(argv[1], NULL, 10) : CHECKSUM_SEED;
    int n, k;
    n = print_operations(seed);
    if (n < 0) return 1;
    n += print_random(seed);
    if ((k = print_procedures(seed)) < 0) return 1;
    n += k;
    if (argc > 2 && (k = print_models(argv[2])) < 0) return 1;
    else if (argc > 2) n += k;
    printf("OK %d\n", n);
    return run ? run_targets() : 0;
}
