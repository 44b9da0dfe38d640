/* src/core/tune.h - measures which target is fastest for each operation, while the program runs
 *
 *   tiny_tune_start(ctx, "tune.txt");      uses the choices of an earlier run, if the file has them
 *   ... run the model ...
 *   tiny_tune_stop(ctx);                   writes the choices; the context goes on with its own target
 *
 * Without it a context runs each operation on its own target. While tuning, each operation is timed 5 times on each
 * target of this processor, separately for types and for sizes that differ by a factor of four; scalar is left out.
 * Then the fastest is used, but only if it takes at most 0.95 of the time of the context's own target. Each target
 * keeps the error bounds of the operation. But which target runs during the measurements depends on the clock, so the
 * last bits of results may differ between two runs. The reference, accelerators, and operations whose operands are laid
 * out for one target are not tuned.
 *
 * In a program with this feature, the environment variable TINY_TUNE=FILE does the same for every context whose target
 * is TINY_TARGET_AUTO: it starts when the context is opened and stops when it is closed. TINY_TUNE=1 keeps the file
 * tinyllm-tune.txt in the folder $XDG_CACHE_HOME, %LOCALAPPDATA% or ~/.cache, or none if these are not set. */
#ifndef TINYI_TUNE_H
#define TINYI_TUNE_H
#include "core/op.h"
TINYI_C_BEGIN

/* path NULL: nothing is read or written. A file of another processor, version or set of targets is not used and will be
 * replaced. A file that is not one of these is refused: it is not overwritten. */
TINY_API tiny_status tiny_tune_start(tiny_ctx *ctx, const char *path);
/* Also forgets the choices. Fails if the file cannot be written. */
TINY_API tiny_status tiny_tune_stop(tiny_ctx *ctx);
/* One line for each choice so far, "operation type type size target". Like snprintf: returns the size of the whole
 * text with its final zero. */
TINY_API size_t tiny_tune_report(const tiny_ctx *ctx, char *text, size_t n_bytes);

/* ---- inside: what the bodies share ---- */

TINYI_FN tiny_status tinyi_tune_run(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);
/* 1: every operation of the list has been measured */
TINYI_FN int tinyi_tune_settled(tiny_ctx *ctx, const tiny_op *const *ops, size_t n);
/* the kernels that were chosen for a measured operation, else those of the context */
TINYI_FN const struct tiny_kernels *tinyi_tune_kernels(const tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);
TINYI_FN void tinyi_tune_begin(tiny_ctx *ctx);     /* for TINY_TUNE: a failure is logged only */
TINYI_FN void tinyi_tune_end(tiny_ctx *ctx);
/* core/op.c: runs a checked operation on the kernels of ctx->k */
TINYI_FN tiny_status tinyi_op_fast_now(tiny_ctx *ctx, const tiny_op *op, const tiny_op_row *row);

TINYI_C_END
#endif
