/* src/core/ctx.c */
#include "core/state_inside.h"
#include "core/cpu_inside.h"
#include "core/target.h"
#include "core/tune.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef TINY_NO_MALLOC
static void *tinyi_ctx_realloc(void *user, void *old, size_t old_bytes, size_t n_bytes)
{
    (void)user;
    (void)old_bytes;
    if (n_bytes) return realloc(old, n_bytes);
    free(old);
    return NULL;
}
#endif

static void tinyi_ctx_say(const tiny_ctx_desc *desc, tiny_log_level level, const char *sentence)
{
    if (desc->log) desc->log(desc->user, level, sentence);
}

void tinyi_keep_says(char *to, size_t room, const char *sentence)
{
    (void)tiny_plain(to, room, sentence, strlen(sentence));
}

#ifdef TINY_NO_MESSAGES
tiny_status tinyi_fail_short(tiny_ctx *ctx, tiny_status status)
{
    if (!ctx) return status;
    (void)snprintf(ctx->message, sizeof ctx->message, "%s", tiny_status_text(status));
    ctx->status = status;
    tinyi_ctx_say(&ctx->desc, TINY_LOG_ERROR, ctx->message);
    return status;
}
#else
tiny_status tinyi_fail(tiny_ctx *ctx, tiny_status status, const char *format, ...)
{
    char raw[TINYI_MESSAGE_BYTES + 1];      /* full: too long for the message as well, which then ends with dots */
    va_list args;
    if (!ctx) return status;
    va_start(args, format);
    (void)vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    (void)tiny_plain(ctx->message, sizeof ctx->message, raw, strlen(raw));
    ctx->status = status;
    tinyi_ctx_say(&ctx->desc, TINY_LOG_ERROR, ctx->message);
    return status;
}

void tinyi_log(tiny_ctx *ctx, tiny_log_level level, const char *format, ...)
{
    char raw[TINYI_MESSAGE_BYTES + 1], text[TINYI_MESSAGE_BYTES];
    va_list args;
    if (!ctx || !ctx->desc.log) return;
    va_start(args, format);
    (void)vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    (void)tiny_plain(text, sizeof text, raw, strlen(raw));
    tinyi_ctx_say(&ctx->desc, level, text);
}
#endif

tiny_status tinyi_ctx_check(const tiny_ctx *ctx)
{
    if (!ctx || ctx->magic != TINYI_CTX_MAGIC) return TINY_E_ARGUMENT;
    return ctx->version == TINY_VERSION ? TINY_OK : TINY_E_VERSION;
}

TINY_API const char *tiny_target_name(tiny_target target)
{
#define TINYI_TARGET_TEXT(name, text) text,
    static const char *const names[] = { "auto", TINYI_TARGETS(TINYI_TARGET_TEXT) "" };
#undef TINYI_TARGET_TEXT
    return (unsigned)target < (unsigned)TINY_TARGET_COUNT ? names[target] : "?";
}

TINY_API tiny_target tiny_target_by_name(const char *name)
{
    int i;
    for (i = 0; name && i < (int)TINY_TARGET_COUNT; i++)
        if (!strcmp(name, tiny_target_name((tiny_target)i))) return (tiny_target)i;
    return TINY_TARGET_COUNT;
}

TINY_API int tiny_target_runs_here(tiny_target target)
{
    return target == TINY_TARGET_AUTO || target == TINY_TARGET_REFERENCE ||
           tinyi_target_available(target, tinyi_cpu_features());
}

/* what AUTO means here: the environment's wish, else the last target that runs */
static tiny_target tinyi_ctx_best(unsigned cpu)
{
    int i;
    for (i = (int)TINY_TARGET_COUNT - 1; i > (int)TINY_TARGET_SCALAR; i--)
        if (tinyi_target_available((tiny_target)i, cpu)) break;
    return (tiny_target)i;
}

/* status 0 and the resolved target, or the sentence in text */
static tiny_status tinyi_ctx_choose(const tiny_ctx_desc *desc, unsigned cpu, tiny_target *target, char *text,
                                    size_t n_text)
{
    const char *wish = NULL;
    char shown[48];
    *target = desc->target;
#ifdef TINY_ONLY_TARGET
    if (!tinyi_target_available(TINYI_ONLY_TARGET, cpu)) {
        (void)snprintf(text, n_text,
                       "this program is compiled for the target %s alone, and this processor does not have it",
                       tiny_target_name(TINYI_ONLY_TARGET));
        return TINY_E_TARGET;
    }
#endif
    if ((unsigned)*target >= (unsigned)TINY_TARGET_COUNT) {
        (void)snprintf(text, n_text, "target %d is unknown", (int)*target);
        return TINY_E_ARGUMENT;
    }
    if (*target == TINY_TARGET_AUTO) {
        wish = getenv("TINY_TARGET");
        if (wish && *wish) {
            *target = tiny_target_by_name(wish);
            if (*target == TINY_TARGET_COUNT) {
                (void)tiny_plain(shown, sizeof shown, wish, strlen(wish));
#define TINYI_TARGET_LIST(name, text) ", " text
                (void)snprintf(
                    text, n_text,
                    "TINY_TARGET=%s in the environment names no target (auto" TINYI_TARGETS(TINYI_TARGET_LIST) ")",
                    shown);
#undef TINYI_TARGET_LIST
                return TINY_E_ARGUMENT;
            }
        }
    }
    if (*target == TINY_TARGET_AUTO) *target = tinyi_ctx_best(cpu);
    if (*target != TINY_TARGET_REFERENCE && !tinyi_target_available(*target, cpu)) {
        (void)snprintf(text, n_text, "target %s: this processor or this build does not have it; the best here is %s",
                       tiny_target_name(*target), tiny_target_name(tinyi_ctx_best(cpu)));
        return TINY_E_TARGET;
    }
    return TINY_OK;
}

tiny_status tinyi_ctx_open(const tiny_ctx_desc *desc, const tinyi_wing *const *wings, tiny_ctx **out)
{
    tiny_ctx_desc d;
    tiny_ctx *ctx;
    tiny_target target;
    unsigned cpu = tinyi_cpu_features();
    char text[256];
    tiny_status st;
    if (!out) return TINY_E_ARGUMENT;
    *out = NULL;
    memset(&d, 0, sizeof d);
    if (desc) d = *desc;
    if (d.n_threads < 0 || d.n_threads > TINY_MAX_THREADS) {
        (void)snprintf(text, sizeof text, "n_threads is %d; it must be 0 (one per processor) to %d", d.n_threads,
                       TINY_MAX_THREADS);
        tinyi_ctx_say(&d, TINY_LOG_ERROR, text);
        return TINY_E_ARGUMENT;
    }
    if (!d.allocator.realloc_fn) {
#ifdef TINY_NO_MALLOC
        tinyi_ctx_say(&d, TINY_LOG_ERROR, "this build has no default allocator: set allocator.realloc_fn");
        return TINY_E_ARGUMENT;
#else
        d.allocator.realloc_fn = tinyi_ctx_realloc;
#endif
    }
    st = tinyi_ctx_choose(&d, cpu, &target, text, sizeof text);
    if (!TINYI_HAS(OPS) && !st && (d.accel || target == TINY_TARGET_REFERENCE)) {
        (void)snprintf(text, sizeof text,
                       "the reference and accelerators are not in this program: compile it with TINY_WITH_OPS");
        st = TINY_E_UNSUPPORTED;
    }
    if (!st && d.accel && (d.accel->version < 1 || d.accel->version > TINY_ACCEL_VERSION)) {
        (void)snprintf(text, sizeof text,
                       "the accelerator has version %d of the interface; this library has 1 to %d", d.accel->version,
                       TINY_ACCEL_VERSION);
        st = TINY_E_VERSION;
    }
    if (!st && d.accel && (!d.accel->can_run || !d.accel->run)) {
        (void)snprintf(text, sizeof text, "the accelerator lacks can_run or run");
        st = TINY_E_ARGUMENT;
    }
    if (!st && d.accel && d.accel->version > 1 && !d.accel->fetch != !d.accel->discard) {
        (void)snprintf(text, sizeof text,
                       "the accelerator has only one of fetch and discard: it needs both or neither");
        st = TINY_E_ARGUMENT;
    }
    if (st) {
        tinyi_ctx_say(&d, TINY_LOG_ERROR, text);
        return st;
    }
    ctx = (tiny_ctx *)d.allocator.realloc_fn(d.allocator.user, NULL, 0, sizeof *ctx);
    if (!ctx) {
        tinyi_ctx_say(&d, TINY_LOG_ERROR, "the allocator gave no memory for a context");
        return TINY_E_MEMORY;
    }
    memset(ctx, 0, sizeof *ctx);
    ctx->magic = TINYI_CTX_MAGIC;
    ctx->version = TINY_VERSION;
    ctx->desc = d;
    ctx->wings = wings;
    ctx->own_malloc = !desc || !desc->allocator.realloc_fn;
    ctx->target = target;
    ctx->ran_on = TINY_TARGET_REFERENCE;
    ctx->cpu = cpu;
    ctx->n_cpus = tinyi_cpu_count();
    ctx->n_threads = d.n_threads ? d.n_threads : TINYI_MIN(ctx->n_cpus, TINY_MAX_THREADS);
    ctx->k = (struct tiny_kernels *)tinyi_alloc(ctx, 1, tinyi_kernels_bytes());
    if (!ctx->k) {
        d.allocator.realloc_fn(d.allocator.user, ctx, sizeof *ctx, 0);
        return TINY_E_MEMORY;
    }
    tinyi_kernels_fill(ctx->k, target == TINY_TARGET_REFERENCE ? TINY_TARGET_SCALAR : target, cpu);
#if TINYI_HAVE_PTHREAD
    (void)pthread_mutex_init(&ctx->lock, NULL);
    (void)pthread_cond_init(&ctx->wake, NULL);
#endif
#ifndef TINYI_NO_TUNE
    if (d.target == TINY_TARGET_AUTO) tinyi_tune_begin(ctx);
#endif
    *out = ctx;
    return TINY_OK;
}

TINY_API void tiny_ctx_close(tiny_ctx *ctx)
{
    tiny_allocator a;
    if (tinyi_ctx_check(ctx)) return;
#ifndef TINYI_NO_TUNE
    tinyi_tune_end(ctx);
#endif
#if TINYI_HAVE_HELPERS
    tinyi_helpers_close(ctx);
#endif
    if (TINYI_HAS(OPS) && ctx->n_away) tinyi_accel_drop(ctx, NULL, SIZE_MAX);
    tiny_free(ctx, ctx->away);
    tiny_free(ctx, ctx->k);
    tiny_arena_close(ctx, &ctx->work);
#if TINYI_HAVE_PTHREAD
    (void)pthread_cond_destroy(&ctx->wake);
    (void)pthread_mutex_destroy(&ctx->lock);
#endif
    a = ctx->desc.allocator;
    ctx->magic = 0;
    a.realloc_fn(a.user, ctx, sizeof *ctx, 0);
}

TINY_API tiny_status tiny_ctx_status(const tiny_ctx *ctx)
{
    return tinyi_ctx_check(ctx) ? TINY_E_ARGUMENT : ctx->status;
}
TINY_API const char *tiny_ctx_message(const tiny_ctx *ctx)
{
    return tinyi_ctx_check(ctx) ? "there is no context" : ctx->message;
}
TINY_API int tiny_ctx_threads(const tiny_ctx *ctx) { return tinyi_ctx_check(ctx) ? 0 : ctx->n_threads; }
TINY_API tiny_target tiny_ctx_target(const tiny_ctx *ctx)
{
    return tinyi_ctx_check(ctx) ? TINY_TARGET_COUNT : ctx->target;
}
TINY_API tiny_target tiny_ctx_ran_on(const tiny_ctx *ctx)
{
    return tinyi_ctx_check(ctx) ? TINY_TARGET_COUNT : ctx->ran_on;
}
TINY_API size_t tiny_ctx_bytes(const tiny_ctx *ctx) { return tinyi_ctx_check(ctx) ? 0 : ctx->bytes_held; }

/* snprintf that goes on counting past the end */
static void tinyi_ctx_put(char *text, size_t n_bytes, size_t *at, const char *format, ...) TINYI_PRINTF(4, 5);
static void tinyi_ctx_put(char *text, size_t n_bytes, size_t *at, const char *format, ...)
{
    va_list args;
    int n;
    va_start(args, format);
    n = vsnprintf(*at < n_bytes ? text + *at : NULL, *at < n_bytes ? n_bytes - *at : 0, format, args);
    va_end(args);
    if (n > 0) *at += (size_t)n;
}

TINY_API size_t tiny_ctx_report(const tiny_ctx *ctx, char *text, size_t n_bytes)
{
    const tiny_op_row *row;
    size_t i, at = 0;
    if (n_bytes && text) text[0] = 0;
    if (tinyi_ctx_check(ctx)) return 1;
    if (!text) n_bytes = 0;
    tinyi_ctx_put(text, n_bytes, &at, "target %s, %d thread%s of %d processor%s%s%s\n", tiny_target_name(ctx->target),
                  ctx->n_threads, ctx->n_threads == 1 ? "" : "s", ctx->n_cpus, ctx->n_cpus == 1 ? "" : "s",
                  ctx->desc.accel ? ", accelerator " : "", ctx->desc.accel ? ctx->desc.accel->name : "");
    tinyi_ctx_put(text, n_bytes, &at, "%-18s %-26s %s\n", "operation", "kernel", "target");
    for (i = 0; (row = tinyi_op_row_at(ctx->wings, i)) != NULL; i++) {
        const short *s = row->kernels;
        if (ctx->target == TINY_TARGET_REFERENCE || !row->fast || !s || *s < 0) {
            tinyi_ctx_put(text, n_bytes, &at, "%-18s %-26s %s\n", row->name, "-",
                          row->fast && ctx->target != TINY_TARGET_REFERENCE ? "plain C" : "reference");
            continue;
        }
        for (; *s >= 0; s++) {
            tiny_target from = tinyi_kernel_from(ctx->k, *s);
            tinyi_ctx_put(text, n_bytes, &at, "%-18s %-26s %s%s\n", s == row->kernels ? row->name : "",
                          tinyi_kernel_name(*s), tiny_target_name(from), from == ctx->target ? "" : " (lent)");
        }
    }
    return at + 1;
}
