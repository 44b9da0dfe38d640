/* bench/peers/peers.c */
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined __unix__ || defined __APPLE__
#include <dlfcn.h>

/* an object pointer becomes a function pointer only through its bytes */
static void find(void *library, const char *name, void *function)
{
    void *p = dlsym(library, name);
    memcpy(function, &p, sizeof p);
}

static void *open_named(const char *variable)
{
    const char *path = getenv(variable);
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (path && *path && !library) fprintf(stderr, "bench: %s: %s\n", variable, dlerror());
    return library;
}

const b_peers *b_peers_load(int threads)
{
    static b_peers p;
    static int loaded;
    void *l;
    void (*set)(int) = NULL;
    if (loaded) return &p;
    loaded = 1;
    if ((l = open_named("B_OPENBLAS")) != NULL) {
        find(l, "cblas_sgemm", &p.openblas_sgemm);
        find(l, "cblas_sgemv", &p.openblas_sgemv);
        find(l, "openblas_set_num_threads", &set);
        if (set) set(threads);
    }
    if ((l = open_named("B_MKL")) != NULL) {
        find(l, "cblas_sgemm", &p.mkl_sgemm);
        find(l, "cblas_sgemv", &p.mkl_sgemv);
        find(l, "MKL_Set_Num_Threads", &set);
        if (set) set(threads);
    }
    if ((l = open_named("B_ONEDNN")) != NULL) {     /* threads: OMP_NUM_THREADS, all by default */
        find(l, "dnnl_sgemm", &p.dnnl_sgemm);
        find(l, "dnnl_gemm_s8s8s32", &p.dnnl_s8);
    }
    if ((l = open_named("B_METIS")) != NULL) find(l, "METIS_PartGraphKway", &p.metis_kway);
    return &p;
}
#else
const b_peers *b_peers_load(int threads)
{
    static b_peers none;
    (void)threads;
    return &none;
}
#endif
