/* examples/copy/json.c - an answer as JSON that always follows a schema
 *
 *     cc -O2 -fopenmp examples/copy/json.c -I. -o json && ./json MODEL.gguf "Describe a cat as JSON:" */
#define TINYLLM_IMPLEMENTATION
#include "tinyllm.h"
#include <stdio.h>
#include <string.h>

static const char schema[] = "{ \"type\": \"object\","
                             "  \"properties\": {"
                             "    \"name\": { \"type\": \"string\", \"minLength\": 1, \"maxLength\": 12 },"
                             "    \"mood\": { \"enum\": [\"calm\", \"curious\", \"cross\"] },"
                             "    \"hungry\": { \"type\": \"boolean\" },"
                             "    \"toys\": { \"type\": \"array\", \"maxItems\": 2,"
                             "              \"items\": { \"type\": \"string\", \"maxLength\": 8 } } },"
                             "  \"required\": [\"name\", \"mood\", \"hungry\", \"toys\"],"
                             "  \"additionalProperties\": false }";

static int print(void *user, const char *text, size_t n)
{
    (void)user;
    return fwrite(text, 1, n, stdout) != n || fflush(stdout);
}

int main(int argc, char **argv)
{
    tllm_generate_desc how = { 0 };
    tllm_generate_result result = { TLLM_END_TOKEN, 0, 0, 0, 0, 0 };
    tllm_session *session = NULL;
    tllm_grammar *grammar = NULL;
    tiny_ctx *ctx = NULL;
    char *rules = NULL;
    size_t n = 0;
    tiny_status st;
    if (argc != 3) return fputs("json MODEL.gguf PROMPT\n", stderr), 2;
    st = tiny_ctx_open(NULL, &ctx);
    if (!st) st = tllm_session_open(ctx, argv[1], NULL, &session);
    /* the schema becomes a grammar; tllm_grammar_open takes grammars that you write yourself too */
    if (!st) st = tllm_schema_grammar(ctx, schema, strlen(schema), &rules, &n);
    if (!st) st = tllm_grammar_open(ctx, rules, n, "root", &grammar);
    how.grammar = grammar;
    how.text = print;
    how.n_most = 400;
    if (!st) st = tllm_generate(session, argv[2], strlen(argv[2]), &how, &result);
    if (st) fprintf(stderr, "json: %s\n", ctx ? tiny_ctx_message(ctx) : tiny_status_text(st));
    else puts("");
    /* at the limit of tokens or of the context the text is cut, and is no JSON yet */
    if (!st && (result.end == TLLM_END_LENGTH || result.end == TLLM_END_CONTEXT)) {
        fputs("json: the text was cut before it was complete\n", stderr);
        st = TINY_E_WORKSPACE;
    }
    tllm_grammar_close(ctx, grammar);
    tiny_free(ctx, rules);
    tllm_session_close(session);
    tiny_ctx_close(ctx);
    return st != TINY_OK;
}
