/* src/llm/serve/api_inside.h - what the files of the API share: the api, a request that is read (ask), one that is
 * being answered (job), and the forms of tool calls */
#ifndef TINYI_SERVE_INSIDE_H
#define TINYI_SERVE_INSIDE_H
#include "llm/serve/api.h"
#include "llm/chat/template.h"
#include "llm/serve/tools.h"
#include "core/doc/value_inside.h"
#include "core/rng.h"
#include "core/time.h"
TINYI_C_BEGIN

#define TINYI_API_WORDS 16                  /* keys, origins and hosts: so many of each */
#define TINYI_API_CHOICES 128               /* prompts * n of a request */
#define TINYI_TOOL_HELD ((size_t)64 << 20)  /* memory for reading calls */
#define TINYI_API_PING_NS UINT64_C(15000000000)

#define TINYI_REPLAYS 64                    /* talks that are kept as they were sampled, */
#define TINYI_REPLAY_BYTES ((size_t)8 << 20) /* and their bytes together */

typedef struct tinyi_api_words {
    char *text;
    const char *at[TINYI_API_WORDS];
    size_t n;
} tinyi_api_words;

/* a talk up to the end of an answer: its text, and the tokens that it had. One block, at token */
typedef struct tinyi_replay { int32_t *token; char *text; size_t n_tokens, n; } tinyi_replay;

struct tllm_api {
    tiny_ctx *ctx;
    tllm_engine *engine;
    const tllm_api_adapter *adapters;
    size_t n_adapters;
    tllm_session *embedder;
    tllm_server *server;
    tllm_template *chat;                    /* NULL: the model has no template */
    char *chat_source;
    const tllm_vocab *vocab;                /* of the engine, or of the embedder */
    const tllm_gguf *file;
    tllm_about about;
    char *name, *bos, *eos, *prefix;
    tinyi_api_words keys, origins, hosts;
    char *cors;                             /* for each origin the lines of a head; they end with 0 */
    const char *cors_at[TINYI_API_WORDS];
    int any_origin, is_unix, lenient;
    tllm_tool_form tool_form;               /* of the template */
    int tools_in_template;                  /* it writes the list of tools itself */
    size_t n_most;
    const char *const *page;
    size_t n_page, page_bytes;
    tinyi_doc w;                            /* where answers are written */
    tiny_rng random;
    int64_t began;
    uint64_t n_http, n_http_refused, n_gone;
    struct tinyi_job *jobs;
    int more;                               /* the engine has work */
    /* over all texts that ended: for prompts, and for tokens after the first; so many tokens; the longest text */
    double prompt_seconds, made_seconds;
    uint64_t made_after;
    size_t longest;
    int encode_again, n_replays;
    size_t replay_bytes;
    tinyi_replay replay[TINYI_REPLAYS];     /* the last used one first */
};

/* ---- a request that is read: ask.c ---- */

#define TINYI_ASK_IDLE 16
typedef struct tinyi_ask {
    tllm_api *api;
    tllm_reply *reply;
    const char *extra;                      /* lines for the head of the answer */
    unsigned where;                         /* the endpoint: a TINYI_AT_ bit */
    int style;                              /* a TINYI_STYLE_ */
    int native;                             /* a completion whose answer has the members of /completion, too */
    const char *path;
    tinyi_doc m;
    tinyi_tv root;
    int status;                             /* of the answer if the request is refused; 0: it is not */
    const char *code;
    char param[64], says[512];
    char more[80];                          /* further members of the error, ",\"a\":1" */
    tllm_bytes warnings;                    /* JSON texts, separated by commas */
    char idle[TINYI_ASK_IDLE][80];          /* members that tinyi_ask_idle has named */
    int n_idle;
    tinyi_tv read[TINYI_ASK_IDLE];          /* members that the template names */
    int n_read;
} tinyi_ask;

enum {
    TINYI_AT_CHAT = 1,
    TINYI_AT_TEXT = 2,
    TINYI_AT_EMBED = 4,
    TINYI_AT_TOKENS = 8,                    /* /tokenize */
    TINYI_AT_WORDS = 16,                    /* /detokenize */
    TINYI_AT_TEMPLATE = 32,
    TINYI_AT_RESPONSES = 64,                /* read as chat after a translation */
    TINYI_AT_MESSAGES = 128,
    TINYI_AT_COUNT = 256,                   /* /v1/messages/count_tokens */
    TINYI_AT_RANK = 512,                    /* /v1/rerank */
    TINYI_AT_INFILL = 1024,                 /* this and the next one: answered as /v1/completions */
    TINYI_AT_NATIVE = 2048                  /* /completion */
};

/* the form of an answer to a chat: as /v1/chat/completions, /v1/responses or /v1/messages have it */
typedef enum tinyi_style { TINYI_STYLE_CHAT, TINYI_STYLE_RESPONSES, TINYI_STYLE_MESSAGES } tinyi_style;

/* Refuses the request, unless it was refused already. param: the field, or NULL. Returns 0. */
TINYI_FN int tinyi_ask_fail(tinyi_ask *a, int status, const char *param, const char *code, const char *format, ...)
    TINYI_PRINTF(5, 6);
/* the same with the sentence of the context */
TINYI_FN int tinyi_ask_status(tinyi_ask *a, tiny_status st, const char *param);
TINYI_FN int tinyi_ask_doc(tinyi_ask *a);   /* 0: the document failed, and now the request is refused */
TINYI_FN void tinyi_ask_warn(tinyi_ask *a, const char *format, ...) TINYI_PRINTF(2, 3);
/* Reads the body and refuses fields that this endpoint does not know. */
TINYI_FN int tinyi_ask_read(tinyi_ask *a, const char *body, size_t n);
TINYI_FN void tinyi_ask_end(tinyi_ask *a);
/* A field of the request; NULL: it is not there, or null. */
TINYI_FN const tinyi_tv *tinyi_ask_get(tinyi_ask *a, const char *name);
/* Names a member of a part of the request, such as a tool, in a warning: it changes nothing here. Each name comes once,
 * and after sixteen of them "and other members". */
TINYI_FN void tinyi_ask_idle(tinyi_ask *a, const tinyi_tv *key, const char *part);
/* The same for all members of a map but those of `known`, where each stands between spaces. map: NULL or no map:
 * nothing is done. */
TINYI_FN void tinyi_ask_only(tinyi_ask *a, const tinyi_tv *map, const char *part, const char *known);
TINYI_FN const tinyi_tv *tinyi_ask_member(tinyi_ask *a, const tinyi_tv *map, const char *name);
TINYI_FN double tinyi_ask_number(tinyi_ask *a, const char *name, double least, double most, double otherwise);
TINYI_FN int64_t tinyi_ask_whole(tinyi_ask *a, const char *name, int64_t least, int64_t most, int64_t otherwise);
TINYI_FN int tinyi_ask_flag(tinyi_ask *a, const char *name, int otherwise);
/* Answers a request that was refused. */
TINYI_FN void tinyi_ask_refuse(tinyi_ask *a);
/* Submits what was asked for; the job answers. */
TINYI_FN void tinyi_ask_generate(tinyi_ask *a);

/* ---- prompts: prompt.c ---- */

typedef struct tinyi_ask_prompts {
    tllm_tokens *at;
    const tinyi_tv **text;                  /* NULL for tokens */
    size_t n;
} tinyi_ask_prompts;

/* the prompt of the messages, to be freed by tiny_free */
TINYI_FN int tinyi_ask_prompt(tinyi_ask *a, char **text, size_t *n);
TINYI_FN int tinyi_ask_encode(tinyi_ask *a, const char *text, size_t n, int chat, tllm_tokens *t);
TINYI_FN int tinyi_ask_tokens(tinyi_ask *a, const tinyi_tv *list, const char *param, tllm_tokens *t);
TINYI_FN int tinyi_ask_add(tinyi_ask *a, tllm_tokens *t, int32_t id);
TINYI_FN int tinyi_ask_add_text(tinyi_ask *a, tllm_tokens *t, const tinyi_tv *v, const char *param); /* v may be NULL */
/* the field "prompt", and the fields of /infill */
TINYI_FN void tinyi_ask_prompt_list(tinyi_ask *a, tinyi_ask_prompts *p);
TINYI_FN void tinyi_ask_infill(tinyi_ask *a, tllm_tokens *t);
/* The tools that the model may use; NULL: none. *forced: it must use one; *only: that one. */
TINYI_FN const tinyi_tv *tinyi_ask_tools(tinyi_ask *a, int *forced, const tinyi_tv **only);
/* In the memory of the document: a value as JSON, and a text with a final 0. */
TINYI_FN tinyi_tv tinyi_ask_json(tinyi_ask *a, const tinyi_tv *v);
TINYI_FN const char *tinyi_ask_text(tinyi_ask *a, const tinyi_tv *v, const char *param);

/* ---- vectors.c ---- */

TINYI_FN void tinyi_api_embeddings(tinyi_ask *a);
TINYI_FN void tinyi_api_rerank(tinyi_ask *a);

/* ---- a request that is answered: job.c ---- */

typedef struct tinyi_choice {
    struct tinyi_job *job;
    uint64_t id;                            /* of the engine; 0: not submitted, or ended */
    size_t index, n_prompt, n_cached, n_made, n_proposed, n_kept;
    tllm_end end;
    int ended, role_sent, stopped;          /* stopped: by us, after a complete call */
    tllm_bytes text;                        /* all that was said; for a stream with tools too */
    size_t shown;                           /* bytes of it that were sent */
    size_t n_calls;
    tllm_bytes stop;                        /* the stop text that was found */
    tllm_bytes logprobs[4];                 /* chat: [0]; completions: tokens, logprobs, alternatives, offsets */
    size_t n_chars;
    tllm_tokens made;                       /* if the job has a talk */
    tllm_bytes tokens;                      /* of a native answer: "1,2,", those that were not sent */
    double start_seconds, first_seconds, seconds;
} tinyi_choice;

typedef struct tinyi_job {
    tllm_api *api;
    tllm_reply *reply;                      /* NULL: the client is gone */
    struct tinyi_job *next;
    const char *extra;
    unsigned where;
    int style, n_items;                     /* n_items: parts of the answer that a stream has begun */
    int64_t n_events;
    int stream, begun, include_usage, echo, logprobs, n_top, parallel;
    int probs;                              /* logprobs are given as n_probs of /completion has them */
    int submitted;                          /* all of it */
    int native, gives_tokens;               /* as in tinyi_ask; an answer that is no stream lists its tokens */
    int ruled;                              /* by a grammar or a schema */
    int failed;                             /* status of the answer */
    char says[400];
    tllm_tool_form tools;
    tllm_bytes tool_names;                  /* each ends with 0 */
    char id[48];
    int64_t created;
    uint64_t seed, sent_at;
    size_t n_per_prompt, n_choices, n_left;
    char *talk;                             /* the text of the prompt of a chat, n_talk bytes; NULL: it is not kept */
    size_t n_talk;
    tllm_tokens asked;                      /* and its tokens */
    tllm_bytes warnings;
    tinyi_choice *choice;
} tinyi_job;

TINYI_FN tinyi_job *tinyi_job_open(tinyi_ask *a, size_t n_choices);
TINYI_FN int tinyi_job_token(void *user, const tllm_engine_token *t);
TINYI_FN void tinyi_job_end(void *user, const tllm_engine_result *r);
/* No more choices will be submitted: answers if all of them have ended already. */
TINYI_FN void tinyi_job_ready(tinyi_job *j);
TINYI_FN void tinyi_job_gone(tinyi_job *j);
TINYI_FN void tinyi_job_ping(tllm_api *a, uint64_t now);
/* the first token of a prompt that is echoed with logprobs: it has none */
TINYI_FN void tinyi_job_first(tinyi_choice *c, int32_t token);

/* the calls of tools in the text of a choice */
typedef struct tinyi_calls {
    tinyi_doc m;
    tinyi_tv list;
    size_t n, content;
} tinyi_calls;                              /* content: bytes before */
TINYI_FN void tinyi_choice_read_calls(tinyi_choice *c, tinyi_calls *calls); /* end: tinyi_doc_end(&calls->m) */
TINYI_FN void tinyi_calls_at(tinyi_calls *calls, size_t i, tinyi_tv *name, tinyi_tv *arguments);
TINYI_FN void tinyi_call_id(tllm_api *w, const char *kind, char id[40]);
TINYI_FN void tinyi_job_event(tinyi_job *j); /* sends what stands in w */
TINYI_FN void tinyi_job_tail(tinyi_job *j); /* seed and warnings */

/* ---- replay.c ---- */

/* The longest beginning of a prompt that is kept; NULL: none. Valid until the next call. */
TINYI_FN const tinyi_replay *tinyi_replay_find(tllm_api *a, const char *text, size_t n);
/* Keeps the talk of a choice that has ended, with its answer. */
TINYI_FN void tinyi_replay_add(tinyi_choice *c);
TINYI_FN void tinyi_replay_close(tllm_api *a);

/* ---- style.c: /v1/responses and /v1/messages ---- */

/* Turns the body into one of /v1/chat/completions. */
TINYI_FN int tinyi_style_read(tinyi_ask *a);
TINYI_FN void tinyi_style_answer(tinyi_choice *c);
TINYI_FN void tinyi_style_text(tinyi_choice *c, const char *text, size_t n); /* of a stream */
TINYI_FN void tinyi_style_finish(tinyi_choice *c, tinyi_calls *calls);

/* ---- answers ---- */

TINYI_FN tinyi_doc_form tinyi_api_form(void);                                          /* JSON in one line */
TINYI_FN int tinyi_api_append(tllm_api *a, tllm_bytes *b, const char *text, size_t n); /* 0: no memory */
TINYI_FN void tinyi_api_start(tllm_api *a); /* an empty text in a->w */
TINYI_FN void tinyi_api_put(tllm_api *a, const char *text);
TINYI_FN void tinyi_api_quote(tllm_api *a, const char *text, size_t n); /* as JSON; bytes that are no UTF-8: U+FFFD */
TINYI_FN void tinyi_api_int(tllm_api *a, int64_t i);
TINYI_FN void tinyi_api_float(tllm_api *a, double f);                                    /* finite in any case */
TINYI_FN void tinyi_api_warnings(tinyi_ask *a); /* the member "warnings", if there are any */
TINYI_FN void tinyi_api_send(tllm_api *a, tllm_reply *r, const char *extra, int status); /* a->w */
TINYI_FN void tinyi_api_error(tllm_api *a, tllm_reply *r, const char *extra, int status, const char *param,
                              const char *code, const char *says);
/* more: further members, ",\"a\":1", or NULL */
TINYI_FN void tinyi_api_error_text(tllm_api *a, int status, const char *param, const char *code, const char *says,
                                   const char *more);

/* ---- tools.c ---- */

/* tllm_tool_calls with the result as a value of an empty document: a list of maps with name and arguments, or NONE */
TINYI_FN tinyi_tv tinyi_tool_calls(tinyi_doc *m, tllm_tool_form form, const char *text, size_t n, const char *names,
                                   size_t n_names, size_t *content);

TINYI_C_END
#endif
