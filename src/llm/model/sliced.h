/* src/llm/model/sliced.h - sliced models: files whose stream is narrower than the model was made
 *
 * llm/compress/slice.h makes such models. Their files have the architecture "sliced-NAME" with the keys of NAME. The
 * array slice.width has 2 layers + 1 widths: after the embedding, then between the halves of each layer and after it.
 * blk.N.attn_shortcut and blk.N.ffn_shortcut carry the stream past a half, from its width before to its width after;
 * layers whose halves are parallel have the first only. embedding_length stays the width of the original: it divides
 * the sums of the norms, and the sizes of heads follow from it. An engine without support does not know the name, so it
 * refuses the file instead of computing invalid results.
 *
 * Stitched models (llm/session/stitched.h) have the architecture "stitched-NAME" and two widths: layers of one model,
 * then blk.N.stitch.weight and .bias, which layer N applies to the stream before anything else, then layers of another
 * one. slice.width is the same list; its value before layer N is the width before the stitch. Each norm divides by its
 * own width. Without slice.width the file is an ordinary model. */
#ifndef TINYI_SLICED_H
#define TINYI_SLICED_H

#define TINYI_SLICED_PREFIX "sliced-"
#define TINYI_STITCHED_PREFIX "stitched-"

#endif
