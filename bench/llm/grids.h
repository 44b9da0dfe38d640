/* bench/llm/grids.h - story models with the matrices of their layers on plain grids, judged: bits a token above the
 * floor of their language */
#ifndef BENCH_GRIDS_H
#define BENCH_GRIDS_H
#include "../bench.h"

enum { BG_RTN, BG_GPTQ };
enum { BG_TOKENS = 16384, BG_WINDOW = 256 };    /* of other stories, which are read */
typedef struct bg_made { tllm_gguf *file; tllm_writer *memory; } bg_made;
bg_made bg_make(tiny_ctx *ctx, const tllm_gguf *g, int how, const tllm_plain_desc *grid);
void bg_drop(tiny_ctx *ctx, bg_made *m);
/* base: the other side of the comparison, or NULL */
tllm_judgement bg_judge(tiny_ctx *ctx, const tllm_gguf *g, const tllm_gguf *base);
double bg_above(tiny_ctx *ctx, const tllm_gguf *g);           /* bits a token above the floor */
/* Notes the loss of g against base, with its interval; 1: more than chance, -1: less, 0: no significant difference. */
int bg_worse(tiny_ctx *ctx, const char *what, const tllm_gguf *g, const tllm_gguf *base);
int bg_is_matrix(const tllm_gguf_tensor *t);    /* of the layers */
tllm_watch *bg_watch(tiny_ctx *ctx, const tllm_gguf *g);      /* statistics of all of these over that text */
int32_t *bg_stories(size_t n);                  /* the story text, as the model was trained on it */
void bg_normal(float *x, size_t n, uint64_t seed);

#endif
