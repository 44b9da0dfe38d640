/* bench/llm/grids.h - a story model with the matrices of its layers on plain grids, judged: bits a token above the floor of its language */
#ifndef BENCH_GRIDS_H
#define BENCH_GRIDS_H
#include "../bench.h"

enum { BG_FULL, BG_RTN, BG_GPTQ };
enum { BG_TOKENS = 16384, BG_WINDOW = 256 };    /* of other stories, which are read */
double bg_judged(tiny_ctx *ctx, const tllm_gguf *g, int how, const tllm_plain_desc *grid);
int bg_is_matrix(const tllm_gguf_tensor *t);    /* of the layers */
tllm_watch *bg_watch(tiny_ctx *ctx, const tllm_gguf *g);      /* statistics of all of these over that text */
int32_t *bg_stories(size_t n);                  /* the story text, as the model was trained on it */
void bg_normal(float *x, size_t n, uint64_t seed);

#endif
