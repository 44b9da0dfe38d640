/* src/llm/serve/distserve.h - how many devices for prompts, how many for tokens: simulated, scored, searched
 *
 * A device that reads prompts (prefill) and continues texts (decode) lets every running text wait while it reads.
 * Split, some devices only read and others only continue. The keys and values of a prompt then travel between them.
 * Which is better depends on the latency that was promised: the time to the first token (TTFT) and the time of each
 * further token (TPOT). Nothing here runs a model: times come from a profile of a device.
 *
 *   tllm_dist_config c = { 0 };
 *   c.prefill.instances = 1;  c.prefill.profile = &profile;             one device reads, one continues
 *   c.decode.instances = 1;   c.decode.profile = &profile;
 *   tllm_dist_load load = { 0 };
 *   load.prompt = 512; load.output = 64; load.n = 1000;                 requests by chance
 *   tllm_dist_limits limits = { 0.4, 0.04 };                            seconds
 *   tllm_dist_goodput(ctx, &c, &load, &limits, NULL, &rate);            requests a second and device
 *
 * All times are seconds, except those of a profile. */
#ifndef TINYI_DISTSERVE_H
#define TINYI_DISTSERVE_H
#include "core/ctx.h"
TINYI_C_BEGIN

/* ---- formulas: the mean time of a request in a queue with arrivals by chance and a constant service time. Infinite
 * where the queue grows without end; NaN for a service below 0, a rate below 0 or a speed-up of 0 or less. */
TINY_API double tllm_queue_single(double service, double rate);                    /* M/D/1 */
TINY_API double tllm_queue_pipeline(double service, double rate);                  /* two stages of half the time */
TINY_API double tllm_queue_tensor(double service, double rate, double speedup);    /* two devices share each layer */

/* ---- profiles */

/* Milliseconds of a device, or of tp devices that share each layer, fitted to a sweep:
 *   prompts of lengths l       prefill[0] + prefill[1] sum l + prefill[2] sum l^2
 *   a token of `batch` texts   decode[k][0] + decode[k][1] cached tokens + decode[k][2] batch, k = batch >= threshold
 * With pp stages each takes 1 / pp of the first, and pp * stage_ms more where pp > 1. Texts form pp groups, one in each
 * stage. */
typedef struct tllm_dist_profile {
    int tp;                                 /* 0: 1 */
    double prefill[3], decode[2][3];
    int threshold;                          /* 0: 95 */
    double stage_ms;                        /* 0: 1 */
} tllm_dist_profile;
TINY_API double tllm_dist_prefill_ms(const tllm_dist_profile *p, int pp, double tokens, double squares);   /* a stage */
TINY_API double tllm_dist_decode_ms(const tllm_dist_profile *p, int pp, double cached, double batch);      /* a token */
/* Bytes of the keys and values of a text. */
TINY_API double tllm_dist_kv(double layers, double kv_heads, double head, double bytes_each, double tokens);
/* Least squares: n measured prompts batches (sum l, sum l^2, ms) or tokens (cached, batch, ms), each 3 numbers. */
TINY_API tiny_status tllm_dist_fit(tiny_ctx *ctx, const double *rows, size_t n, double out[3]);

/* ---- a simulation */

typedef enum tllm_dist_role {
    TLLM_DIST_SPLIT,
    TLLM_DIST_TOGETHER,                     /* the instances of `prefill` do both, prompts first */
    TLLM_DIST_PREFILL,                      /* only prompts: a request ends with its first token */
    TLLM_DIST_DECODE,                       /* only tokens: requests arrive with their keys and values */
    TLLM_DIST_ROLES
} tllm_dist_role;
typedef struct tllm_dist_part {
    int instances, pp;                      /* pp 0: 1 */
    const tllm_dist_profile *profile;
    int pages;                              /* for keys and values, of each instance; 0: no limit */
} tllm_dist_part;

typedef struct tllm_dist_config {           /* all zero but the parts: the sensible default */
    int role;
    tllm_dist_part prefill, decode;
    int prompt_tokens;                      /* of a batch of prompts; a longer one goes alone. 0: 512, together 2048 */
    int rows;                               /* texts that an instance continues at once; 0: 256 */
    int page;                               /* tokens of a page; 0: 16 */
    /* An instance fetches while the pages of its waiting requests are below this share of its pages. 0: 0.05 */
    double accept;
    double kv_bytes, link;                  /* bytes of a token; bytes a second into an instance, 0: no time */
    int in_turn;                            /* nonzero: instances take turns; 0: the one with the fewest requests */
    int dies;                               /* 1 + a decode instance that fails at dies_at; 0: none */
    double dies_at;
} tllm_dist_config;
TINY_API int tllm_dist_devices(const tllm_dist_config *c);

typedef struct tllm_dist_request { double arrival; int prompt, output; } tllm_dist_request;
typedef struct tllm_dist_time {
    double first, done;                     /* when the first token and the last one are there */
    int prefill, decode;                    /* the last instances; -1: none */
    int prefills;                           /* how often the prompt was read; more than 1 after a failure */
} tllm_dist_time;
typedef struct tllm_dist_sum {
    double end;
    double area;                            /* requests in the system, integrated over time */
    double moved;                           /* bytes of keys and values between instances */
    int swaps;                              /* texts that lost their pages to older ones for a while; takes no time */
} tllm_dist_sum;

/* Requests in the order of arrival. time: (n). sum may be NULL. */
TINY_API tiny_status tllm_dist_simulate(tiny_ctx *ctx, const tllm_dist_config *c, const tllm_dist_request *request,
                                        size_t n, tllm_dist_time *time, tllm_dist_sum *sum);

/* ---- goodput */

typedef struct tllm_dist_load {             /* all zero: a fixed length of 512 and 64, arrivals by chance */
    int n;                                  /* requests; 0: 500 */
    uint64_t seed;
    double cv;                              /* of the time between arrivals (gamma); 0: 1, by chance */
    int prompt, output;                     /* medians; 0: 512, 64 */
    double prompt_spread, output_spread;    /* sigma of a log-normal; 0: all of that length */
    int prompt_most, output_most;           /* longer ones are cut; 0: 4096, 1024 */
} tllm_dist_load;
typedef struct tllm_dist_limits { double ttft, tpot; } tllm_dist_limits;     /* for nine requests of ten */
typedef struct tllm_dist_score { double ttft, tpot; } tllm_dist_score;       /* that nine of ten stay below */
typedef struct tllm_dist_bisection { double most, width; } tllm_dist_bisection;     /* rate a device; 0: 64, 0.25 */

/* The same lengths and gaps at every rate. request: (n of the load) */
TINY_API tiny_status tllm_dist_requests(tiny_ctx *ctx, const tllm_dist_load *load, double rate,
                                        tllm_dist_request *request);
TINY_API tiny_status tllm_dist_score_of(tiny_ctx *ctx, const tllm_dist_request *request, const tllm_dist_time *time,
                                        size_t n, tllm_dist_score *score);
/* The highest rate, a device, at which both limits hold, by bisection. b may be NULL. PREFILL has no second limit,
 * DECODE no first. */
TINY_API tiny_status tllm_dist_goodput(tiny_ctx *ctx, const tllm_dist_config *c, const tllm_dist_load *load,
                                       const tllm_dist_limits *limits, const tllm_dist_bisection *b, double *rate);

/* ---- placement */

typedef struct tllm_dist_cluster {
    int nodes, devices;                     /* of a node */
    double memory;                          /* bytes of a device */
    /* nonzero: keys and values may only travel inside a node, so stage i of both parts stands in the same node */
    int slow;
} tllm_dist_cluster;
typedef struct tllm_dist_model { int layers, heads; double bytes; } tllm_dist_model;
typedef struct tllm_dist_plan {
    tllm_dist_config best;                  /* one group: split, or together where that serves more */
    double goodput;                         /* of it, a device */
    double split, together;                 /* the best of each kind; 0: none keeps the limits */
    int prefills, decodes;                  /* instances for the whole rate; together: prefills */
    int tried;                              /* goodputs that were searched */
} tllm_dist_plan;

/* c: what all configurations share (role, parts and their profiles are ignored). profile: (n_profile), one for each tp.
 * tp must divide the heads, pp the layers, and bytes / (tp pp) must be below the memory. */
TINY_API tiny_status tllm_dist_place(tiny_ctx *ctx, const tllm_dist_cluster *cluster, const tllm_dist_model *model,
                                     const tllm_dist_profile *profile, int n_profile, const tllm_dist_config *c,
                                     const tllm_dist_load *load, const tllm_dist_limits *limits, double rate,
                                     tllm_dist_plan *plan);

TINYI_C_END
#endif
