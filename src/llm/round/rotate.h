/* src/llm/round/rotate.h - rotates the residual stream, heads and networks of a model, which removes outlier
 * channels: the same function, easier to round
 *
 *   tllm_rotated_desc d = { 0 };                            without d.online any engine can run the result
 *   d.online = TLLM_ROTATE_FEED | TLLM_ROTATE_HEADS | TLLM_ROTATE_KEYS;      all of QuaRot: only this library runs it
 *   tllm_rotated *r;
 *   tllm_rotated_open(ctx, file, &d, &r);
 *   tllm_rotated_put(ctx, r, writer); tllm_writer_finish(ctx, writer);
 *   tllm_rotated_close(ctx, r);
 *
 * S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", 2024 (arXiv 2404.00456). The result is a
 * model in floats, to be rounded, packed, or given to GPTQ. Adapters and control vectors of the original model do not
 * fit the rotated one. */
#ifndef TINYI_ROTATE_H
#define TINYI_ROTATE_H
#include "llm/file/gguf_write.h"
#include "llm/model/rotated.h"
TINYI_C_BEGIN

typedef struct tllm_rotated_desc {          /* all zero: the value in brackets */
    uint64_t seed;                          /* of the signs [0] */
    /* another rotation of the stream: (n_embd, n_embd) orthogonal, x becomes q^T x [random signs, then Hadamard] */
    const float *q;
    /* nonzero: rotate to the principal axes of the embedding [0]. For experiments: this makes outlier channels, like
     * those of large models */
    int axes;
    unsigned online;                        /* rotations computed while the model runs: TLLM_ROTATE_... [none] */
    /* nonzero: values are not rotated [each value head is rotated if nothing is between it and the output] */
    int no_heads;
    int format;                             /* of the changed matrices [F32] */
} tllm_rotated_desc;

typedef struct tllm_rotated_about {
    /* width of the stream; size of its Hadamard matrix: all of it, or its largest factor that is a power of two */
    tiny_idx n_embd, block;
    /* block of the first network and of a value head; 0: not rotated */
    tiny_idx feed_block, head_block;
    size_t tensors;                         /* tensors that differ from the file */
    /* nonzero: the embedding also gave the logits; the result has a separate matrix for them */
    int untied;
    const char *heads;                      /* why value heads are not rotated; NULL: they are, or no_heads is set */
} tllm_rotated_about;

typedef struct tllm_rotated tllm_rotated;

/* file must stay open. Refused: files that tllm_folds_open refuses; norms other than RMS norms, and norms after
 * attention or network; layers other than attention with a network; learned positions; unknown tensors; a file with
 * online rotations; a q that is not orthogonal. */
TINY_API tiny_status tllm_rotated_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_rotated_desc *desc,
                                       tllm_rotated **out);
TINY_API void tllm_rotated_close(tiny_ctx *ctx, tllm_rotated *r);       /* r may be NULL; ctx: the one that opened it */
TINY_API tllm_rotated_about tllm_rotated_what(const tllm_rotated *r);
/* Writes to a writer that was just opened; calls progress and cancel of the context between tensors. */
TINY_API tiny_status tllm_rotated_put(tiny_ctx *ctx, tllm_rotated *r, tllm_writer *w);

TINYI_C_END
#endif
