/* bench/bench.h - contests between rows, in one run
 *
 * A figure alone says little on a shared machine. So the rows of a contest take turns, round after round, and each gets
 * the median of its rounds; next to it is the limit of this machine, measured in the same run. */
#ifndef BENCH_H
#define BENCH_H
#include "tinyllm.h"

/* The limit of a row: the fraction column is its rate over this limit. */
typedef enum b_limit { B_NONE, B_READ, B_COPY, B_F32, B_I8 } b_limit;

typedef struct b_row {
    const char *what;               /* "matmul f32" */
    char shape[48];                 /* "512x512x512" */
    const char *target;             /* "avx512", or the rival's name */
    int threads;
    b_limit limit;
    double flops, bytes;            /* of one call */
    void (*run)(void *arg);
    void *arg;
    /* set by the contest */
    double median_ns, best_ns;
} b_row;

typedef struct b_limits { double read, copy, f32, i8; } b_limits;    /* bytes/s, operations/s; all threads */

extern int b_quick;                 /* --quick: under a minute in all */
extern int b_threads;
extern b_limits b_max[2];           /* [0] one thread, [1] b_threads */

void b_limits_measure(void);
/* reads them once: a row of the limit itself, in turns with the others */
void b_stream(tiny_ctx *ctx, const void *from, size_t bytes);

/* Runs and prints the rows; keeps them for the table. A row whose run is NULL is skipped. */
void b_contest(const char *title, b_row *rows, int n_rows);
/* One line under the contest, and in the table: a ratio that we or the paper promise. */
void b_verdict(const char *what, double measured, const char *relation, double wanted);
void b_note(const char *format, ...);
/* A row of the table "paper's headline | measured here | conditions" of docs/papers/PAGE.md. A whole run, or one with
 * --pages, replaces the row with that headline, with its day and machine; rows that were not measured stay as they are.
 * No cell is empty or contains a bar. */
void b_headline(const char *page, const char *headline, const char *on, const char *format, ...);
void b_shape(b_row *row, const char *format, ...);

/* A curve for docs/: y over x, logarithmic x; one file NAME.svg. */
typedef struct b_curve { const char *name; const double *x, *y; int n; } b_curve;
void b_svg(const char *name, const char *title, const char *x_label, const char *y_label, const b_curve *curves,
           int n_curves);

tiny_ctx *b_ctx(tiny_target target, int threads);   /* never NULL: the bench ends with the sentence */
void *b_alloc(size_t bytes);        /* 64-byte aligned, filled with small numbers as floats; never NULL */
void b_free(void *p);               /* a result of b_alloc, or NULL */
tiny_tensor b_head(const tiny_tensor *x, tiny_idx h);   /* (tokens, numbers) of head h of x (tokens, heads, numbers) */
void b_must(tiny_ctx *ctx, tiny_status status);
/* a model of 8 layers, width d, heads of 64, f16, 32 tokens, the same random weights in all layers: a file in memory */
tllm_writer *b_layers(tiny_ctx *ctx, int d, const void **at, size_t *n);
double b_now(void);                 /* seconds */

/* ---- the same rows on every target: build/bench --targets */
typedef struct b_section { const char *name; void (*run)(void); } b_section;
extern int b_keeps;                 /* 1: a section that runs again gets the same memory */
extern tiny_target b_aim;           /* the target that b_ctx opens for TINY_TARGET_AUTO */
void b_section_run(const b_section *section);                   /* and frees what b_alloc gave it; NULL: frees only */
void b_targets_row(const char *contest, const b_row *row);      /* remembers a measured row */
/* Runs the section on each target, several rounds, the widest target last in the list. Prints the rows whose default is
 * slower than on a narrower target by more than 5 %, and returns their number. Called again, it adds rounds. */
int b_targets(const b_section *section, const tiny_target *targets, int n, int rounds);

#endif
