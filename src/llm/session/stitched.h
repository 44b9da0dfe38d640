/* src/llm/session/stitched.h - model files that hold two models and all stitches between them; a session that switches
 *
 *   tllm_session_open(ctx, "joined.gguf", NULL, &s);       runs the slower of the two models
 *   tllm_stitched_count(tllm_session_file(s));             networks in the file; 0: it is no such file
 *   tllm_session_stitch(s, 5);                             network 5 from here on; the text is read again
 *
 * llm/compress/join.h makes such files. Their architecture is "stitched-NAME". Keys and tensors of the slower model
 * have their usual names, those of the faster one the prefix "front." (tensors) and "stitched-NAME.stitch." (keys). The
 * tensors stitch.N.weight and stitch.N.bias are the linear layers. Network 0 is the faster model, 1 the slower one, the
 * others are stitches (llm/compress/stitch.h). Opened as a model, such a file is its slower model. Other engines do not
 * know the name and refuse it.
 *
 * A network is a view: names and keys of its own, and the tensors where they are. Keys and values of a text belong to
 * the layers that computed them, so a switch computes them again for all tokens of the session. */
#ifndef TINYI_SESSION_STITCHED_H
#define TINYI_SESSION_STITCHED_H
#include "llm/compress/stitch.h"
#include "llm/session/session.h"
TINYI_C_BEGIN

typedef struct tllm_stitched_about {
    tllm_stitch stitch;
    double params;                          /* numbers of all its tensors */
    uint64_t bytes;
    double bits;                            /* bits per token, as measured when the file was made; 0: not measured */
} tllm_stitched_about;

TINY_API size_t tllm_stitched_count(const tllm_gguf *file);
/* Network k as a model file, for tllm_model_open, tllm_file writers and so on. file must stay open. Close it with
 * tllm_gguf_close. On failure *out is NULL. */
TINY_API tiny_status tllm_stitched_view(tiny_ctx *ctx, const tllm_gguf *file, size_t k, tllm_gguf **out);
TINY_API tiny_status tllm_stitched_what(tiny_ctx *ctx, const tllm_gguf *file, size_t k, tllm_stitched_about *about);
/* *k: the network of the fewest measured bits per token among those of at most that many bytes. Files without measured
 * bits, and a budget below the smallest network, are errors. */
TINY_API tiny_status tllm_stitched_select(tiny_ctx *ctx, const tllm_gguf *file, double bytes, size_t *k);

/* From here on network k computes. The tokens of the session stay: they are computed again, and *logits (may be NULL)
 * is as in tllm_session_feed. Both states exist for a moment. Sequences above 0 are empty afterwards. A session with
 * adapters is refused. After a failure before the tokens are read the session is as before; after a later one it holds
 * the tokens that were read. */
TINY_API tiny_status tllm_session_stitch(tllm_session *s, size_t k, const float **logits);
TINY_API size_t tllm_session_stitched(const tllm_session *s);   /* the network that computes; 1 after opening */

TINYI_C_END
#endif
