/* src/llm/plan/phases.h - prompts and answers on devices of their own: simulated, and the best placement searched
 *
 *   tllm_phases_load load = { 1000, 11, 0, 512, 0, 64, 0, 1 };          1000 requests, 11 a second, 512 and 64 tokens
 *   tllm_phases d;
 *   memset(&d, 0, sizeof d);
 *   d.time = profile; d.n_time = 1;                                     from tllm_phases_fit, or a file of build/phases
 *   d.prompts.n = d.prompts.tp = d.prompts.pp = 1; d.answers = d.prompts;
 *   tllm_phases_simulate(ctx, &d, request, n, NULL, &report);            report.first_90: ms to the first token
 *   tllm_phases_goodput(ctx, &d, &load, &limit, &rate);                  requests a second and device in the limits
 *
 * An instance is a model on tp * pp devices: each layer cut over tp of them, the layers over pp stages. Apart,
 * instances of `prompts` read prompts and give the first token; an instance of `answers` fetches keys and values when
 * it has room, and gives the other tokens. Together, the instances of `prompts` do both, and prompts go first whenever
 * one waits. Times are milliseconds. Everything is computed from the profile, nothing is run, and the same input gives
 * the same result. docs/papers/distserve.md has the method and what it does not see. */
#ifndef TINYI_PHASES_H
#define TINYI_PHASES_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_PHASES_TIMES 16                /* rows of a profile, at most, */
#define TLLM_PHASES_STAGES 64               /* stages of an instance, */
#define TLLM_PHASES_INSTANCES 1024          /* instances, */
#define TLLM_PHASES_TOKENS (1 << 24)        /* and tokens of a prompt or an answer */

typedef struct tllm_phases_time {           /* how long a batch takes with layers cut over tp devices */
    int tp;
    double prompt[3];                       /* a + b (sum of lengths) + c (sum of their squares) */
    double token[2][3];                     /* a + b (tokens in caches) + c requests; [1]: more than `few` requests */
    int few;                                /* 0: 95 */
    double stage;                           /* besides, for each of several stages */
} tllm_phases_time;

typedef struct tllm_phases_request { double at; int prompt, answer; } tllm_phases_request;  /* at: when it arrives */
typedef struct tllm_phases_times { double first, end; int swaps; } tllm_phases_times;   /* when its tokens came */

typedef struct tllm_phases_group { int n, tp, pp; } tllm_phases_group;  /* n instances */

typedef enum tllm_phases_mode {
    TLLM_PHASES_APART,
    TLLM_PHASES_TOGETHER,
    TLLM_PHASES_PROMPTS,                    /* instances of prompts alone: a request ends with its first token, */
    TLLM_PHASES_ANSWERS                     /* or of answers alone: it arrives with its first token */
} tllm_phases_mode;

typedef struct tllm_phases {                /* all zero but time, n_time and groups: no limits of memory and link */
    const tllm_phases_time *time;           /* (n_time): a row for each tp that is used */
    int n_time;
    tllm_phases_mode mode;
    tllm_phases_group prompts, answers;
    int batch;                              /* tokens of a batch of prompts; a longer prompt goes alone; 0: 512, or 2048
                                               together */
    int most;                               /* requests that a stage answers at a time; 0: any number */
    double prompt_cells, answer_cells;      /* tokens whose keys and values an instance can hold; 0: any number */
    int page;                               /* tokens that are given out together; 0: 16 */
    double waiting;                         /* share of the cells for requests that wait there; 0: 0.05 */
    double token_bytes;                     /* keys and values of a token, */
    double link;                            /* bytes a second to an instance of answers; 0: no time */
    int in_turn;                            /* nonzero: in turn, not to the instance with the fewest requests */
} tllm_phases;

typedef struct tllm_phases_report {
    double first, first_90;                 /* until the first token: mean, and of nine in ten at most */
    double each, each_90;                   /* between the tokens after it */
    double span;                            /* from the first arrival to the last end */
    double inside, stay;                    /* requests that are there at a time; how long one stays: means */
    double moved;                           /* bytes over links */
    double swaps;                           /* times that a request lost its cells to older ones */
} tllm_phases_report;

/* Requests in the order of their arrival. times (n) may be NULL. TINY_E_WORKSPACE: a request fits into no instance. */
TINY_API tiny_status tllm_phases_simulate(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_request *request,
                                          size_t n, tllm_phases_times *times, tllm_phases_report *report);

/* Arrivals with gamma-distributed pauses and log-normal lengths. */
typedef struct tllm_phases_load {
    int n;                                  /* requests, 10 or more */
    double rate;                            /* a second */
    double varies;                          /* deviation of the pauses by their mean; 0: 1, a Poisson process */
    double prompt, prompt_sigma;            /* median of the tokens, and deviation of their logarithm; 0: all equal */
    double answer, answer_sigma;
    uint64_t seed;
} tllm_phases_load;
TINY_API tiny_status tllm_phases_draw(tiny_ctx *ctx, const tllm_phases_load *load, tllm_phases_request *request);

typedef struct tllm_phases_limit {
    double first, each;                     /* what nine in ten requests must keep, in milliseconds */
    double most, step;                      /* the search: rates up to `most` a device (0: 64), in steps of 0.25 (0) */
} tllm_phases_limit;
/* The highest rate a device, in requests a second, at which the limits hold; 0: at none. The rate of load is not
 * used. */
TINY_API tiny_status tllm_phases_goodput(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_load *load,
                                         const tllm_phases_limit *limit, double *rate);

typedef struct tllm_phases_cluster {
    int nodes, devices;                     /* devices: of a node */
    double memory, weights;                 /* bytes of a device, and of the model */
    int heads, layers;                      /* tp divides heads, pp divides layers */
    int slow;                               /* nonzero: keys and values stay within a node */
} tllm_phases_cluster;
typedef struct tllm_phases_placement {
    tllm_phases_group prompts, answers;     /* n: instances that the wanted rate needs */
    tllm_phases_group together;
    double prompts_rate, answers_rate;      /* goodput of one device of each kind; slow: of the pair, twice */
    double apart, one;                      /* goodput a device: with the two kinds apart, and together */
    int devices;                            /* that the better of the two needs for the wanted rate */
    int apart_wins;
    int tried, too_large;                   /* placements simulated, and those whose weights do not fit */
} tllm_phases_placement;
/* d gives profile, page, batch and link; its groups and cells are not used. rate: requests a second to be served. */
TINY_API tiny_status tllm_phases_search(tiny_ctx *ctx, const tllm_phases *d, const tllm_phases_cluster *cluster,
                                        const tllm_phases_load *load, const tllm_phases_limit *limit, double rate,
                                        tllm_phases_placement *placement);

/* Least squares: a + b x + c y for n measured times; both x and y must vary. */
TINY_API tiny_status tllm_phases_fit(tiny_ctx *ctx, const double *x, const double *y, const double *time, size_t n,
                                     double abc[3]);
/* The mean time to the first token by queueing theory: one prompt takes `service` ms, `rate` arrive a second. */
typedef enum tllm_phases_queue { TLLM_QUEUE_ONE, TLLM_QUEUE_STAGES, TLLM_QUEUE_CUT } tllm_phases_queue;
/* ONE device; two STAGES; layers CUT over two devices, which makes a prompt `faster` times as fast. INFINITY: more
 * arrive than are served. */
TINY_API double tllm_phases_wait(tllm_phases_queue kind, double service, double rate, double faster);
/* milliseconds of one batch in one stage; NAN where the profile has no row for tp */
TINY_API double tllm_phases_prompt_time(const tllm_phases *d, int tp, int pp, double sum, double squares);
TINY_API double tllm_phases_token_time(const tllm_phases *d, int tp, int pp, double cells, int requests);

/* ---- inside: what the bodies share ---- */

TINYI_FN const tllm_phases_time *tinyi_phases_time(const tllm_phases *d, int tp);       /* NULL: no such row */
TINYI_FN tiny_status tinyi_phases_profile(tiny_ctx *ctx, const tllm_phases *d);
TINYI_FN tiny_status tinyi_phases_check(tiny_ctx *ctx, const tllm_phases *d);

TINYI_C_END
#endif
