/* src/llm/serve/vectors.c - /v1/embeddings, texts to vectors, and /v1/rerank, texts in the order of their fit */
#include "llm/serve/api_inside.h"
#include <math.h>
#include <string.h>

#define TINYI_API_INPUTS 2048               /* texts of one request */

/* float32, little endian, in base64 */
static void tinyi_api_base64(tllm_api *a, const float *x, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t n_bytes = 4 * n;
    size_t i, k;
    tinyi_api_put(a, "\"");
    for (i = 0; i < n_bytes; i += 3) {
        uint32_t v = 0;
        char four[4];
        for (k = 0; k < 3; k++) {
            uint32_t bits = 0;
            if (i + k < n_bytes) memcpy(&bits, x + (i + k) / 4, 4);
            v = v << 8 | (i + k < n_bytes ? bits >> 8 * ((i + k) % 4) & 255 : 0);
        }
        for (k = 0; k < 4; k++) four[k] = i + k > n_bytes ? '=' : digits[v >> (18 - 6 * k) & 63];
        (void)tinyi_doc_put(&a->w, four, 4);
    }
    tinyi_api_put(a, "\"");
}

/* the end of an answer: how many tokens the texts have, and warnings */
static void tinyi_api_count(tinyi_ask *a, size_t tokens)
{
    tllm_api *api = a->api;
    tinyi_api_put(api, "],\"usage\":{\"prompt_tokens\":");
    tinyi_api_int(api, (int64_t)tokens);
    tinyi_api_put(api, ",\"total_tokens\":");
    tinyi_api_int(api, (int64_t)tokens);
    tinyi_api_put(api, "}");
    tinyi_api_warnings(a);
    tinyi_api_put(api, "}\n");
}

void tinyi_api_embeddings(tinyi_ask *a)
{
    tllm_api *api = a->api;
    const tinyi_tv *input = tinyi_ask_get(a, "input"), *format = tinyi_ask_get(a, "encoding_format");
    const int base64 = format && tinyi_tv_is(format, "base64");
    tllm_about about;
    tllm_tokens t;
    float *x = NULL;
    size_t i, k, n, tokens = 0;
    if (!api->embedder) {
        (void)tinyi_ask_fail(a, 400, NULL, "unsupported", "this server has no embedding model: start it with one");
        return;
    }
    tllm_model_about(tllm_session_model(api->embedder), &about);
    n = input && input->type == TINYI_DOC_LIST ? input->u.list->n : 1;
    if (!input || (input->type != TINYI_DOC_STRING && input->type != TINYI_DOC_LIST) || !n || n > TINYI_API_INPUTS)
        (void)tinyi_ask_fail(a, 400, "input", "invalid_type", "input must be a text or a list of 1 to %d texts",
                             TINYI_API_INPUTS);
    if (format && !base64 && !tinyi_tv_is(format, "float"))
        (void)tinyi_ask_fail(a, 400, "encoding_format", "invalid_value", "encoding_format must be float or base64");
    (void)tinyi_ask_whole(a, "dimensions", about.n_out, about.n_out, about.n_out);
    if (a->status) return;
    memset(&t, 0, sizeof t);
    x = (float *)tinyi_alloc(api->ctx, (size_t)about.n_out, sizeof *x);
    if (!x) {
        (void)tinyi_ask_status(a, tiny_ctx_status(api->ctx), NULL);
        return;
    }
    tinyi_api_start(api);
    tinyi_api_put(api, "{\"object\":\"list\",\"model\":");
    tinyi_api_quote(api, api->name, strlen(api->name));
    tinyi_api_put(api, ",\"data\":[");
    for (i = 0; i < n && !a->status; i++) {
        const tinyi_tv *one = input->type == TINYI_DOC_LIST ? &input->u.list->item[i] : input;
        tiny_status st;
        if (one->type != TINYI_DOC_STRING) {
            (void)tinyi_ask_fail(a, 400, "input", "invalid_type", "item %zu of input is not a text", i);
            break;
        }
        t.n = 0;
        st = tllm_embed(api->embedder, one->u.s, one->n, -1, x);
        if (!st) st = tllm_encode(api->ctx, tllm_session_vocab(api->embedder), one->u.s, one->n, TLLM_ENCODE_ENDS, &t);
        if (st) {
            (void)tinyi_ask_status(a, st, "input");
            break;
        }
        tokens += t.n;
        if (i) tinyi_api_put(api, ",");
        tinyi_api_put(api, "{\"object\":\"embedding\",\"index\":");
        tinyi_api_int(api, (int64_t)i);
        tinyi_api_put(api, ",\"embedding\":");
        if (base64) tinyi_api_base64(api, x, (size_t)about.n_out);
        else
            for (k = 0; k < (size_t)about.n_out; k++) {
                tinyi_api_put(api, k ? "," : "[");
                tinyi_api_float(api, (double)x[k]);
            }
        tinyi_api_put(api, base64 ? "}" : "]}");
    }
    tinyi_api_count(a, tokens);
    if (!a->status) tinyi_api_send(api, a->reply, a->extra, 200);
    tllm_tokens_free(api->ctx, &t);
    tiny_free(api->ctx, x);
}

/* Text i of the documents: a text, or an object with one; NULL: neither, and the request is refused. */
static const tinyi_tv *tinyi_api_document(tinyi_ask *a, const tinyi_tv *list, size_t i)
{
    const tinyi_tv *v = &list->u.list->item[i];
    if (v->type == TINYI_DOC_MAP) v = tinyi_ask_member(a, v, "text");
    if (v && v->type == TINYI_DOC_STRING) return v;
    (void)tinyi_ask_fail(a, 400, "documents", "invalid_type", "document %zu has no text", i);
    return NULL;
}

/* Scores of the documents, by the head of a reranker, or by the cosine of embeddings, which have norm 1. */
static int tinyi_api_scores(tinyi_ask *a, const tinyi_tv *query, const tinyi_tv *list, const tllm_about *about,
                            float *score, size_t *tokens)
{
    tllm_api *api = a->api;
    const tllm_vocab *vocab = tllm_session_vocab(api->embedder);
    const int ranks = about->output == TLLM_RANK;
    const size_t d = (size_t)about->n_out;
    float *x = (float *)tinyi_alloc(api->ctx, d, 2 * sizeof *x);
    tllm_tokens t;
    tiny_status st = x ? TINY_OK : tiny_ctx_status(api->ctx);
    size_t i, k, before, dropped = 0;
    memset(&t, 0, sizeof t);
    if (!st && !ranks) st = tllm_embed(api->embedder, query->u.s, query->n, -1, x);
    for (i = 0; !st && !a->status && i < list->u.list->n; i++) {
        const tinyi_tv *one = tinyi_api_document(a, list, i);
        if (!one) break;
        if (ranks) st = tllm_rank(api->embedder, query->u.s, query->n, one->u.s, one->n, x);
        else st = tllm_embed(api->embedder, one->u.s, one->n, -1, x + d);
        if (ranks) score[i] = x[0];
        else for (score[i] = 0.0f, k = 0; !st && k < d; k++) score[i] += x[k] * x[d + k];
        before = t.n;
        if (!st) st = tllm_encode(api->ctx, vocab, one->u.s, one->n, TLLM_ENCODE_ENDS, &t);
        /* in a pair the CLS of the document goes, or becomes a second SEP */
        if (ranks && t.n > before && tllm_vocab_kind_of(vocab) == TLLM_VOCAB_WORDPIECE) dropped++;
        if (!st && (ranks || i + 1 == list->u.list->n)) /* a head reads the query with each document */
            st = tllm_encode(api->ctx, vocab, query->u.s, query->n, TLLM_ENCODE_ENDS, &t);
    }
    if (st) (void)tinyi_ask_status(a, st, "documents");
    *tokens = t.n - dropped;
    tllm_tokens_free(api->ctx, &t);
    tiny_free(api->ctx, x);
    return !a->status;
}

void tinyi_api_rerank(tinyi_ask *a)
{
    tllm_api *api = a->api;
    const tinyi_tv *query = tinyi_ask_get(a, "query"), *list = tinyi_ask_get(a, "documents"), *text;
    const int gives = tinyi_ask_flag(a, "return_documents", 0);
    tllm_about about;
    float *score;
    size_t i, k, n, best, tokens = 0;
    int64_t top;
    if (!api->embedder) {
        (void)tinyi_ask_fail(a, 400, NULL, "unsupported",
                             "this server has no model that compares texts: start it with an embedding model");
        return;
    }
    tllm_model_about(tllm_session_model(api->embedder), &about);
    n = list && list->type == TINYI_DOC_LIST ? list->u.list->n : 0;
    if (!query || query->type != TINYI_DOC_STRING)
        (void)tinyi_ask_fail(a, 400, "query", "invalid_type", "query must be a text");
    if (!n || n > TINYI_API_INPUTS)
        (void)tinyi_ask_fail(a, 400, "documents", "invalid_type", "documents must be a list of 1 to %d texts",
                             TINYI_API_INPUTS);
    top = tinyi_ask_whole(a, "top_n", 1, INT32_MAX, INT32_MAX);
    if (a->status) return;
    score = (float *)tinyi_alloc(api->ctx, n, sizeof *score);
    if (!score) {
        (void)tinyi_ask_status(a, tiny_ctx_status(api->ctx), NULL);
        return;
    }
    if (tinyi_api_scores(a, query, list, &about, score, &tokens)) {
        tinyi_api_start(api);
        tinyi_api_put(api, "{\"object\":\"list\",\"model\":");
        tinyi_api_quote(api, api->name, strlen(api->name));
        tinyi_api_put(api, about.output == TLLM_RANK ? ",\"method\":\"rank\"" : ",\"method\":\"cosine of embeddings\"");
        tinyi_api_put(api, ",\"results\":[");
        for (k = 0; k < n && (int64_t)k < top; k++) {       /* the best of the rest; of equals the first */
            for (best = n, i = 0; i < n; i++)
                if (score[i] == score[i] && (best == n || score[i] > score[best])) best = i;
            if (best == n) break;
            if (k) tinyi_api_put(api, ",");
            tinyi_api_put(api, "{\"index\":");
            tinyi_api_int(api, (int64_t)best);
            tinyi_api_put(api, ",\"relevance_score\":");
            tinyi_api_float(api, (double)score[best]);
            text = gives ? tinyi_api_document(a, list, best) : NULL;
            if (text) {
                tinyi_api_put(api, ",\"document\":{\"text\":");
                tinyi_api_quote(api, text->u.s, text->n);
                tinyi_api_put(api, "}");
            }
            tinyi_api_put(api, "}");
            score[best] = (float)NAN;       /* taken */
        }
        tinyi_api_count(a, tokens);
        tinyi_api_send(api, a->reply, a->extra, 200);
    }
    tiny_free(api->ctx, score);
}
