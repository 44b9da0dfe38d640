/* tinyllm.h - language models in one C header, version @version: each algorithm as readable reference code and as fast
 * code
 *
 * The shortest program that works
 *
 *     #define TINYLLM_IMPLEMENTATION
 *     #include "tinyllm.h"
 *     #include <stdio.h>
 *     #include <string.h>
 *
 *     static int print(void *user, const char *text, size_t n) { (void)user; return fwrite(text, 1, n, stdout) != n; }
 *
 *     int main(void)
 *     {
 *         const char *prompt = "Once upon a time";
 *         tllm_generate_desc how = { 0 };
 *         tllm_session *session = NULL;
 *         tiny_ctx *ctx = NULL;
 *         tiny_status st = tiny_ctx_open(NULL, &ctx);
 *         how.text = print;
 *         how.n_most = 100;
 *         if (!st) st = tllm_session_open(ctx, "model.gguf", NULL, &session);
 *         if (!st) st = tllm_generate(session, prompt, strlen(prompt), &how, NULL);
 *         if (st) puts(ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
 *         tllm_session_close(session);
 *         tiny_ctx_close(ctx);
 *         return st != TINY_OK;
 *     }
 *
 * How to include it
 *     Define TINYLLM_IMPLEMENTATION before the include in exactly one .c or .cpp file of a program, and include the
 *     header without it in all others. C99 and later, C++11 and later. No library has to be linked. Compile with
 *     -fopenmp to use several threads. With SIMDe on the include path, processors without native kernels get vector
 *     code. A program, or one file, may include tinygnn.h too, before or after this header. Both must have the same
 *     version. They share their types. A function that both contain, such as tiny_run, is taken from the header
 *     included last.
 *     If you rename the file, define TINYLLM_FILE to its name in quotes: the header includes itself.
 *
 * Options (define each before the include, with the same value in all files of a program)
 *     TINY_STATIC        all functions are static: each file that defines TINYLLM_IMPLEMENTATION has its own copy
 *     TINYLLM_LINKED     TINYLLM_IMPLEMENTATION has no effect: link a compiled implementation instead
 *     TINYLLM_PARTS      splits the bodies over this many files of the program, 1 to 12, for parallel compilation. Each
 *                        file defines TINYLLM_IMPLEMENTATION, its TINYLLM_PART (from 1 on), and the same other options
 *     TINY_NO_OPENMP     no OpenMP even if the compiler supports it
 *     TINY_PTHREAD       uses POSIX threads even without OpenMP; link with -pthread
 *     TINY_NO_SIMD       the scalar target only
 *     TINY_NO_SIMDE      no w128 target through SIMDe (x86 has a native one)
 *     TINY_ARM_FLUSH     enables the w128 target on 32-bit ARM, whose vectors flush denormal numbers to zero
 *     TINY_NO_W128, TINY_NO_AVX2, TINY_NO_AVX512, TINY_NO_AMX
 *                        disables that target and the targets built on it; docs/guide/limits.md has program sizes
 *     TINY_ONLY_TARGET   only this target, one of scalar, w128, neon, avx2, avx512: -DTINY_ONLY_TARGET=avx2; implies
 *                        TINY_NO_CONFORM
 *     TINY_NO_VNNI       no VNNI kernels in the avx2 target, for processors with VNNI but without AVX-512
 *     TINY_NO_STDIO      no file access: models are opened from memory only
 *     TINY_NO_MALLOC     no default allocator: the context must be given one
 *     TINY_NO_HUGE_PAGES  the default allocator does not request pages of 2 MB for large blocks (Linux)
 *     TINY_NO_MESSAGES   no detailed error messages: the message of a context is the text of its status
 *     TINYLLM_FEW_FORMATS  only the block formats Q8_0, Q4_0, Q4_K and Q6_K, and single numbers (F32, F16, I8 ...)
 *     TINYLLM_AMX_BYTES  the target amx multiplies up to this many rows (36) as bytes, more of them as bfloat16
 *     TINYLLM_ONLY_ARCH  only models of this architecture: -DTINYLLM_ONLY_ARCH=llama. The name is one of
 *                        docs/guide/architectures.md, with _ for - and .
 *     TINYLLM_ONLY_TOKENIZER  only vocabularies of this kind: SPM, BPE, WORDPIECE, UNIGRAM, RWKV or PLAMO2
 *     TINYLLM_ONLY_CHAT  only text generation: sessions, sampling, GGUF files. Calls for grammars, adapters, encoders,
 *                        repacked weights, models split over ranks and other model files, and tiny_run of operations
 *                        by kind are refused. Cannot be combined with TINYLLM_TOOLS or TINYLLM_LAB
 *     TINY_ASSERT(x)     your assertion macro for the library's own invariants; without it they are not checked
 *
 * Features (docs/guide/options.md)
 *     Everything needed to run a model file is on by default. TINYLLM_TOOLS adds tools that make or change models.
 *     TINYLLM_LAB adds implementations of published systems (docs/papers). TINYLLM_ALL adds both. TINYLLM_WITH_X adds
 *     the feature X and those that it needs; TINYLLM_NO_X removes X and those that need it. All functions are always
 *     declared; a call to a removed function does not link. Only the file with TINYLLM_IMPLEMENTATION reads these
 *     switches. A file with the implementations of both headers defines the switches of both before the first include.
 *     RUN and CHAT below are on by default, and DOC is always on. TINYLLM_ONLY_CHAT removes RUN. A feature of both
 *     headers has TINY_WITH_X and TINY_NO_X.
@features
 *
 * Memory
 *     All memory comes from the allocator of the context: realloc and free, unless you give one. Kernels never
 *     allocate. A session allocates its memory when it is opened; tllm_session_memory reports the size in advance.
 *     Before tiny_ctx_close, close or free everything that you opened or read.
 *
 * Threads
 *     One context serves one caller at a time. Two contexts share nothing and may be used at the same time. The
 *     description of a context (tiny_ctx_desc) sets its number of threads, or provides your own thread pool. Without a
 *     pool, several threads need -fopenmp, or TINY_PTHREAD and -pthread. On POSIX systems a context then starts its own
 *     threads, which sleep between calls and end in tiny_ctx_close. Elsewhere it uses the threads of OpenMP.
 *
 * Errors
 *     Every call that can fail returns a tiny_status, 0 for success; tiny_ctx_message has the message. The library
 *     never prints, exits or aborts. A failed call leaves nothing to free.
 *
 * Formats and limits
 *     Model files: GGUF 2 and 3, also split; the .bin files of llama2.c. Of safetensors files only the tensors are
 *     read: they cannot be run as models. Architectures and tokenizers are listed in docs/guide/architectures.md and
 *     docs/guide/tokenizers.md, block formats in docs/guide/formats.md.
 *     Tensors have up to four dimensions, of f32, f16, bf16, f64 or integers, with any strides. Sizes are ptrdiff_t.
 *
 * What is not there
 *     Images and sound as model input. TLS. docs/guide/limits.md lists the rest.
 *
 * Changes
 *     0.2.0  feature switches; packages; see CHANGELOG.md
 *     0.1.0  the first version
 *
 * Licence
 *     MIT, at the end of this file.
 */
#ifndef TINYI_TINYLLM_H
#define TINYI_TINYLLM_H
#include "math/all.h"
#include "llm/ops.h"
#include "llm/block/format.h"
#include "llm/block/matmul.h"
#include "llm/block/eight.h"
#include "llm/block/sparse.h"
#include "llm/lab/bipolar/bipolar.h"
#include "llm/lab/bitweight/bitweight.h"
#include "llm/lab/flashllm/csl.h"
#include "llm/lab/flashllm/flashllm.h"
#include "llm/lab/weave/weave_sgd.h"
#include "llm/round/calib.h"
#include "llm/round/plain.h"
#include "llm/round/gptq.h"
#include "llm/lab/vptq/kmeans.h"
#include "llm/lab/vptq/vptq.h"
#include "llm/round/smooth.h"
#include "llm/round/awq.h"
#include "llm/file/fd.h"
#include "llm/file/gguf.h"
#include "llm/file/gguf_write.h"
#include "llm/round/mixture.h"
#include "llm/round/quantize.h"
#include "llm/file/safetensors.h"
#include "llm/file/llama2c.h"
#include "llm/file/open.h"
#include "llm/token/unicode.h"
#include "llm/token/split.h"
#include "llm/token/vocab.h"
#include "llm/chat/template.h"
#include "llm/attention/pages.h"
#include "llm/attention/paged.h"
#include "llm/attention/latent.h"
#include "llm/attention/place.h"
#include "llm/attention/position.h"
#include "llm/lab/gla/gla.h"
#include "llm/plan/cascade.h"
#include "llm/plan/slots.h"
#include "llm/plan/halda.h"
#include "llm/compress/oneshot.h"
#include "llm/compress/prune.h"
#include "llm/compress/slice.h"
#include "llm/compress/thin.h"
#include "llm/compress/stitch.h"
#include "llm/compress/stitch_fit.h"
#include "llm/compress/join.h"
#include "llm/lab/fusemax/fusemax.h"
#include "llm/model/model.h"
#include "llm/model/adapter.h"
#include "llm/dist/audit.h"
#include "llm/dist/lead.h"
#include "llm/dist/sbp.h"
#include "llm/dist/actor.h"
#include "llm/serve/distserve.h"
#include "llm/dist/rules.h"
#include "llm/dist/shard.h"
#include "llm/dist/noloco.h"
#include "llm/dist/onebyte.h"
#include "llm/dist/levels.h"
#include "llm/dist/moe_fold.h"
#include "llm/dist/zero.h"
#include "llm/dist/loader.h"
#include "llm/dist/disk.h"
#include "llm/dist/ring.h"
#include "llm/serve/energon_rows.h"
#include "llm/serve/energon.h"
#include "llm/serve/energon_pool.h"
#include "llm/serve/energon_net.h"
#include "llm/dist/share.h"
#include "llm/dist/narrow.h"
#include "llm/dist/slices.h"
#include "llm/round/watch.h"
#include "llm/round/fold.h"
#include "llm/round/scaled.h"
#include "llm/round/rotate.h"
#include "llm/round/gptq_model.h"
#include "llm/sample/sample.h"
#include "llm/sample/stop.h"
#include "llm/sample/pieces.h"
#include "llm/sample/grammar.h"
#include "llm/sample/schema.h"
#include "llm/session/session.h"
#include "llm/session/beam.h"
#include "llm/session/stitched.h"
#include "llm/serve/speculate.h"
#include "llm/serve/speculate_tree.h"
#include "llm/serve/easyspec.h"
#include "llm/serve/window.h"
#include "llm/serve/engine.h"
#include "llm/serve/handover.h"
#include "llm/serve/http.h"
#include "llm/serve/server.h"
#include "llm/serve/tools.h"
#include "llm/serve/api.h"
#include "llm/lab/kvcodec/kvcodec.h"
#include "llm/lab/kvcodec/kvstream.h"
#include "llm/train/story.h"
#include "llm/train/trainer.h"
#include "llm/train/judge.h"
#include "llm/lab/vision/vit.h"
#include "llm/lab/vision/tome.h"
#include "llm/lab/vision/merge.h"
#include "llm/lab/vision/pyra.h"
#include "llm/lab/vision/sret.h"
#include "llm/dist/schedule.h"
#include "llm/dist/pipeline.h"
#include "llm/dist/grid.h"
#include "llm/dist/megatron.h"
#include "llm/dist/mega_net.h"
#include "llm/lab/nets/task.h"
#include "llm/lab/nets/mask.h"
#include "llm/lab/nets/nn.h"
#include "llm/lab/nets/fit.h"
#include "llm/lab/nets/score.h"
#include "llm/lab/nets/proxy.h"
#include "llm/lab/nets/rank.h"
#include "llm/lab/nets/space.h"
#include "llm/lab/nets/resnet.h"
#include "llm/lab/nets/search.h"
#include "llm/lab/nets/share.h"
#include "llm/lab/nets/robust.h"
#include "llm/lab/nets/snnet.h"
#include "llm/compress/join_train.h"
#include "llm/lab/nets/slim.h"
#include "llm/lab/nets/split.h"
#endif
