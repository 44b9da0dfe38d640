/* bench/peers/peers.h - rivals that are loaded when the environment names their libraries
 *
 *   B_OPENBLAS, B_MKL, B_ONEDNN, B_METIS   paths of shared libraries; bench/peers/run.sh finds and sets them
 *
 * None of them is needed to build or to run the bench. A library that is not named, or does not load, has no rows.
 * PyTorch's own matrix products on x86 call MKL.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H
#include <stdint.h>

typedef void (*b_sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                           const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*b_sgemv_fn)(int order, int t, int m, int n, float alpha, const float *a, int lda, const float *x,
                           int incx, float beta, float *y, int incy);
/* row-major, as oneDNN's C interface has it; status 0: done */
typedef int (*b_dnnl_sgemm_fn)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef int (*b_dnnl_s8_fn)(char ta, char tb, char offset, int64_t m, int64_t n, int64_t k, float alpha,
                            const int8_t *a, int64_t lda, int8_t ao, const int8_t *b, int64_t ldb, int8_t bo,
                            float beta, int32_t *c, int64_t ldc, const int32_t *co);

/* METIS_PartGraphKway of a library with numbers of 32 bits, as Debian's */
typedef int (*b_metis_fn)(int32_t *n, int32_t *n_weight, int32_t *offset, int32_t *col, int32_t *node_weight,
                          int32_t *node_size, int32_t *weight, int32_t *k, float *share, float *room, int32_t *options,
                          int32_t *cut, int32_t *part);

typedef struct b_peers {
    b_sgemm_fn openblas_sgemm, mkl_sgemm;
    b_sgemv_fn openblas_sgemv, mkl_sgemv;
    b_dnnl_sgemm_fn dnnl_sgemm;
    b_dnnl_s8_fn dnnl_s8;
    b_metis_fn metis_kway;
} b_peers;

const b_peers *b_peers_load(int threads);
#endif
