/* src/llm/round/rotate.h - a model whose stream, heads and networks are rotated so that no channel stands out: the same
 * function, easier to round
 *
 *   tllm_rotated_desc d = { 0 };                            the file stays what it was: any engine runs it
 *   d.online = TLLM_ROTATE_FEED | TLLM_ROTATE_HEADS | TLLM_ROTATE_KEYS;      all of QuaRot: runs here only
 *   tllm_rotated *r;
 *   tllm_rotated_open(ctx, file, &d, &r);
 *   tllm_rotated_put(ctx, r, writer); tllm_writer_finish(ctx, writer);
 *   tllm_rotated_close(ctx, r);
 *
 * S. Ashkboos et al., "QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs", 2024 (arXiv 2404.00456). What is written
 * is a model in floats, to be rounded plainly, packed, or given to GPTQ. Adapters and control vectors of the model
 * before it are not of the one behind it. */
#ifndef TINYI_ROTATE_H
#define TINYI_ROTATE_H
#include "llm/file/gguf_write.h"
#include "llm/model/rotated.h"
TINYI_C_BEGIN

typedef struct tllm_rotated_desc {          /* all zero: the value in brackets */
    uint64_t seed;                          /* of the signs [0] */
    /* another rotation of the stream: (n_embd, n_embd) orthogonal, x becomes q^T x [random signs, then Hadamard] */
    const float *q;
    /* or the principal axes of the embedding: a few channels far larger than the others, as large models have them, to
     * try things on */
    int axes;
    unsigned online;                        /* what is rotated while the model runs: TLLM_ROTATE_... [nothing] */
    /* values stay as they are [each head of them is rotated, where nothing stands between them and the output] */
    int no_heads;
    int format;                             /* of the matrices that change [F32] */
} tllm_rotated_desc;

typedef struct tllm_rotated_about {
    /* of the stream; what a Hadamard matrix mixes of it: all, or the largest power of two in it */
    tiny_idx n_embd, block;
    /* the same of the first network and of a value head; 0: they are not rotated */
    tiny_idx feed_block, head_block;
    size_t tensors;                         /* that are others than in the file */
    /* the embedding gave the logits, too: there is a matrix of its own for them now */
    int untied;
    const char *heads;                      /* why value heads are not rotated; NULL: they are, or were not to be */
} tllm_rotated_about;

typedef struct tllm_rotated tllm_rotated;

/* file must stay open. Refused, with a sentence: what tllm_folds_open refuses; other norms than RMS norms, and norms
 * behind a half; halves that are no attention with a network; learned positions; tensors that are not known here; a
 * file that is turned while it runs already; a q that is not orthogonal. */
TINY_API tiny_status tllm_rotated_open(tiny_ctx *ctx, const tllm_gguf *file, const tllm_rotated_desc *desc,
                                       tllm_rotated **out);
TINY_API void tllm_rotated_close(tiny_ctx *ctx, tllm_rotated *r);       /* takes NULL; the context that opened it */
TINY_API tllm_rotated_about tllm_rotated_what(const tllm_rotated *r);
/* into a writer that was just opened; progress and cancel of the context are asked between tensors */
TINY_API tiny_status tllm_rotated_put(tiny_ctx *ctx, tllm_rotated *r, tllm_writer *w);

TINYI_C_END
#endif
