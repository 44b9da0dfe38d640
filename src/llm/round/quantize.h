/* src/llm/round/quantize.h - a model file in fewer bits, by one call
 *
 *     tllm_quantize_desc d;
 *     memset(&d, 0, sizeof d);
 *     d.type = "Q4_K_M";
 *     st = tllm_quantize_file(ctx, "model.gguf", "small.gguf", &d, NULL);
 *
 * Matrices are packed by all threads of the context. Norms, biases and other small tensors are copied, and so are all
 * keys. The new file is written as small.gguf.part and renamed when it is complete. Warnings go to the log of the
 * context: a type that loses much accuracy without importances, rows that are not a whole number of blocks, rules that
 * match nothing. */
#ifndef TINYI_QUANTIZE_H
#define TINYI_QUANTIZE_H
#include "llm/file/gguf.h"
TINYI_C_BEGIN

/* The plan for one tensor. A prepare callback may set `blocks`, and may replace `tensor` and `from` by another tensor
 * of the same name and shape. These pointers must stay valid until tllm_quantize_file returns. */
typedef struct tllm_quantize_tensor {
    const tllm_gguf_tensor *tensor;
    int from, to;                           /* formats (TLLM_FORMAT_); equal ones: the bytes are copied */
    const void *blocks;                     /* its numbers in the format `to`; NULL: they are packed here */
} tllm_quantize_tensor;

typedef struct tllm_quantize_desc {         /* all zero: Q4_K_M */
    const char *type;                       /* a mixture ("Q4_K_M") or a format ("Q8_0"), in any case; NULL: Q4_K_M */
    int pure;                               /* nonzero: the format of the type for every matrix, no mixture */
    /* a file of importances of columns (imatrix: .gguf or the older form); NULL: none */
    const char *importance;
    /* "REGEX=FORMAT": matrices whose name contains a match get this format; the first rule that matches counts. A REGEX
     * has . [a-z] [^a-z] ( | ) * + ? ^ $ and \ before any of them. At most TLLM_QUANTIZE_RULES */
    const char *const *rule;
    size_t n_rules;
    int wide;                               /* nonzero: small tensors that are F16 or BF16 become F32 */
    /* Called once, when all formats are chosen and before any tensor is packed: GPTQ and similar methods set `blocks`
     * here. A status other than TINY_OK ends the call with that status. NULL: none */
    tiny_status (*prepare)(void *user, const tllm_gguf *file, tllm_quantize_tensor *list, size_t n);
    void *user;
} tllm_quantize_desc;

#define TLLM_QUANTIZE_RULES 64

typedef struct tllm_quantize_about {
    uint64_t bytes_before, bytes_after;     /* of all tensors */
    size_t n_tensors, n_packed;             /* all; those that changed their format */
    size_t n_importance;                    /* those packed with importances */
} tllm_quantize_about;

/* Returns TINY_E_ARGUMENT and a message if the type or a rule is invalid. tllm_quantize_file begins with this check. */
TINY_API tiny_status tllm_quantize_check(tiny_ctx *ctx, const tllm_quantize_desc *desc);
/* from: a GGUF file (all its parts) or a .bin of llama2.c. desc and about may be NULL. After a failure the file `to`
 * is unchanged. progress ("quantize") and cancel of the context are called between pieces. */
TINY_API tiny_status tllm_quantize_file(tiny_ctx *ctx, const char *from, const char *to, const tllm_quantize_desc *desc,
                                        tllm_quantize_about *about);

TINYI_C_END
#endif
