/* examples/train-story.c - trains the story model and writes a model file
 *
 *     train-story --config examples/story.cfg --seed 1 --out story.gguf
 *
 * It keeps two files next to the model. story.gguf.ckpt is a checkpoint: --resume continues from it, and the result is
 * the same as that of an uninterrupted run. story.gguf.tsv has the loss of each step: step, bits per token, floor,
 * seconds. */
#define TINYLLM_TOOLS
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#define PROGRAM "train-story"
#include "options.h"

static const char usage[] =
    "train-story --out MODEL.gguf [options]\n"
    "  --out MODEL.gguf  the model; its checkpoint is MODEL.gguf.ckpt, its losses are in MODEL.gguf.tsv\n"
    "  --config FILE     sizes and rates, key = value; examples/story.cfg is one\n"
    "  --seed S          seed of weights and stories; default: what the configuration says, or 1\n"
    "  --format F        format of the matrices in the model file; default: Q8_0\n"
    "  --resume          continue from MODEL.gguf.ckpt if it exists\n"
    "  --seconds N       stop after this time, with a checkpoint\n"
    "  --stop N          stop after step N, with a checkpoint\n"
    "  --save N          seconds between checkpoints; default: 60\n"
    "  --threads N       default: one per processor, at most 4\n"
    "  --target T        scalar, w128, neon, avx2, avx512, amx or reference; default: the best one here\n"
    "  --quiet           no progress\n"
    "Ctrl-C writes a checkpoint before it stops.\n";

static double seconds(void) { return (double)tiny_now_ns() * 1e-9; }

/* The lines of the course up to a step stay; what a killed run wrote after its last checkpoint goes. Returns the
 * seconds spent. */
static double keep_course(const char *path, long long step)
{
    FILE *f = fopen(path, "r");
    char line[200], *kept = NULL, *more;
    size_t n = 0, room = 0;
    double spent = 0;
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) {
        const size_t len = strlen(line);
        double a, b, s;
        long long at;
        if (sscanf(line, "%lld %lf %lf %lf", &at, &a, &b, &s) == 4) {
            if (at > step) break;
            spent = s;
        }
        if (n + len > room) {
            more = (char *)realloc(kept, room = 2 * (n + len));
            if (!more) break;
            kept = more;
        }
        memcpy(kept + n, line, len);
        n += len;
    }
    (void)fclose(f);
    f = fopen(path, "w");
    if (f) {
        if (n) (void)fwrite(kept, 1, n, f);
        (void)fclose(f);
    }
    free(kept);
    return spent;
}

int main(int argc, char **argv)
{
    const char *config = NULL, *out = NULL, *format = "Q8_0";
    char checkpoint[1024], course[1024];
    uint64_t seed = 0;
    int resume = 0, quiet = 0, stopped = 0, seconds_most = 0, save_each = 60, stop_at = 0;
    tiny_ctx_desc desc;
    tllm_train_desc d;
    tllm_train_report r;
    tiny_ctx *ctx = NULL;
    tllm_trainer *t = NULL;
    tiny_status st;
    double began, saved, spent = 0, shown = 0, mean = 0, weight = 0;
    FILE *tsv = NULL;
    const option options[] = { A_TEXT("--config", &config),
                               A_TEXT("--out", &out),
                               A_TEXT("--format", &format),
                               A_COUNT("--seed", &seed),
                               A_WHOLE("--seconds", &seconds_most, 1, 1e6),
                               A_WHOLE("--save", &save_each, 1, 1e6),
                               A_WHOLE("--stop", &stop_at, 1, 1e6),
                               A_WHOLE("--threads", &desc.n_threads, 1, TINY_MAX_THREADS),
                               A_TARGET("--target", &desc.target),
                               A_FLAG("--resume", &resume),
                               A_FLAG("--quiet", &quiet) };
    memset(&desc, 0, sizeof desc);
    memset(&d, 0, sizeof d);
    memset(&r, 0, sizeof r);
    READ_OPTIONS(argc, argv, usage, options);
    if (!out) return fputs(usage, stderr), 2;
    if (!tllm_format_by_name(format) || !tllm_format_by_name(format)->pack ||
        tllm_format_by_name(format)->flags & TLLM_FORMAT_ACTIVATIONS)
        return wrong("--format", format);
    if (strlen(out) > 1000) return wrong("the name is too long", out);
    (void)snprintf(checkpoint, sizeof checkpoint, "%s.ckpt", out);
    (void)snprintf(course, sizeof course, "%s.tsv", out);
    if (must_not_write(out, 1, config) || must_not_write(checkpoint, 1, config) || must_not_write(course, 1, config))
        return 2;
    desc.log = hear;
    desc.user = &ctx;
    if (tiny_ctx_open(&desc, &ctx)) return 1;
    if (config) {
        size_t n_text = 0;
        char *text = read_text(config, MOST_SETTINGS, 0, &n_text);
        if (!text) {
            st = TINY_E_IO;
            goto close;
        }
        st = tllm_train_config(ctx, config, text, n_text, &d);
        free(text);
        if (st) goto fail;
    }
    if (seed) d.seed = seed;
    st = tllm_trainer_open(ctx, &d, &t);
    if (st) goto fail;
    d = *tllm_trainer_desc(t);
    if (resume) {
        FILE *there;
        errno = 0;
        there = fopen(checkpoint, "rb");
        if (there) {
            (void)fclose(there);
            st = tllm_trainer_load(t, checkpoint);
            if (st) goto fail;
            spent = keep_course(course, (long long)tllm_trainer_at(t));
        } else if (errno != ENOENT) {       /* it is there, and a run from the start would write over it */
            fprintf(stderr, "train-story: %s cannot be read (%s); nothing was changed\n", checkpoint, strerror(errno));
            st = TINY_E_IO;
            goto close;
        } else resume = 0;
    }
    tsv = fopen(course, resume ? "a" : "w");
    if (!tsv) fprintf(stderr, "train-story: %s cannot be written; the course of the loss is not kept\n", course);
    else if (!resume) fputs("# step\tbits\tfloor\tseconds\n", tsv);
    fprintf(stderr, "%zu weights, %d steps of %d tokens, %s, %d threads, seed %llu%s\n", tllm_trainer_params(t),
            d.steps, d.sequences * d.context, tiny_target_name(tiny_ctx_target(ctx)), tiny_ctx_threads(ctx),
            (unsigned long long)d.seed, resume ? ", resumed" : "");
    stop_on_signals_whole();
    began = saved = seconds();
    while (tllm_trainer_at(t) < d.steps) {
        double now, used;
        const int64_t first = tllm_trainer_at(t);
        st = tllm_trainer_step(t, &r);
        if (st) goto fail;                  /* the checkpoint is the last good one */
        now = seconds();
        used = now - began;
        if (tsv) fprintf(tsv, "%lld\t%.5f\t%.5f\t%.2f\n", (long long)r.step, r.bits, r.floor, spent + used);
        mean = 0.95 * mean + 0.05 * (r.bits - r.floor);
        weight = 0.95 * weight + 0.05;
        if (!quiet && is_shown() && (now - shown > 1 || r.step == d.steps)) {
            static int64_t from;
            static double since;
            if (!from) { from = first; since = began; }
            fprintf(stderr,
                    "\rstep %lld of %d   %.4f bits a token, %.4f above the floor   %.0f tokens/s   %.0f s left   ",
                    (long long)r.step, d.steps, r.bits, mean / weight,
                    (double)(r.step - from) * (double)r.tokens / (now - since),
                    (double)(d.steps - r.step) * (now - since) / (double)(r.step - from));
            (void)fflush(stderr);
            shown = now;
        }
        stopped = stopped_by || r.step == stop_at || (seconds_most && used >= (double)seconds_most);
        if (stopped || now - saved >= (double)save_each || r.step == d.steps) {
            st = tllm_trainer_save(t, checkpoint);
            if (st) {
                fprintf(stderr, "\ntrain-story: %s\n%s", tiny_ctx_message(ctx),
                        stopped ? "" : "the run continues without it\n");
                if (stopped) goto fail;
            }
            if (tsv) (void)fflush(tsv);
            saved = seconds();
        }
        if (stopped) break;
    }
    if (!quiet && is_shown()) fputs("\n", stderr);
    if (tllm_trainer_at(t) < d.steps) {
        printf("stopped after step %lld of %d, %.4f bits above the floor; --resume continues\n",
               (long long)tllm_trainer_at(t), d.steps, weight > 0 ? mean / weight : 0.0);
    } else {
        double bits, floor;
        st = tllm_trainer_model(t, out, format);
        if (!st) st = tllm_trainer_heldout(t, 999, 8, &bits, &floor);
        if (st) goto fail;
        printf("%s: %lld steps in %.0f s; %.4f bits a token on held-out text, floor %.4f, %.4f above it\n", out,
               (long long)tllm_trainer_at(t), spent + seconds() - began, bits, floor, bits - floor);
    }
    st = TINY_OK;
fail:
    if (st) fprintf(stderr, "%strain-story: %s\n", shown > 0 ? "\n" : "", tiny_ctx_message(ctx));
close:
    if (tsv) (void)fclose(tsv);
    tllm_trainer_close(t);
    tiny_ctx_close(ctx);
    return exit_status(st != TINY_OK);
}
