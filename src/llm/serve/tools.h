/* src/llm/serve/tools.h - calls of tools in the text of a model, in the form that its chat template uses
 *
 *   form                  marks in the template     text of the model
 *   TLLM_TOOL_TAGS        <tool_call>               <tool_call>{"name": .., "arguments": ..}</tool_call>, any number
 *   TLLM_TOOL_LIST        [TOOL_CALLS]              [TOOL_CALLS][{"name": .., "arguments": ..}, ..]
 *   TLLM_TOOL_OBJECT      <|python_tag|> or         {"name": .., "parameters": ..}, and nothing else
 *                         "parameters"
 *   TLLM_TOOL_FORCED                                {"name": .., "arguments": ..} or a list of these, and nothing else
 *
 * A call counts only if its name is one of the tools that exist and its arguments are a JSON object. Anything else
 * stays text: the reader sees what the model wrote. */
#ifndef TINYI_SERVE_TOOLS_H
#define TINYI_SERVE_TOOLS_H
#include "core/ctx.h"
TINYI_C_BEGIN

typedef enum tllm_tool_form {
    TLLM_TOOL_NONE,
    TLLM_TOOL_TAGS,
    TLLM_TOOL_LIST,
    TLLM_TOOL_OBJECT,
    TLLM_TOOL_FORCED
} tllm_tool_form;

TINY_API tllm_tool_form tllm_tool_form_of(const char *chat_template);
/* How many bytes of a text that is still growing are certainly no part of a call: they may be shown. from: what an
 * earlier call returned, 0 at first. *closed (may be NULL): 1 if a call is complete. */
TINY_API size_t tllm_tool_plain(tllm_tool_form form, const char *text, size_t n, size_t from, int *closed);
/* The calls of a whole text. names: those of the tools, each with a final 0, n_names bytes in all. *json: a list of
 * {"name": .., "arguments": {..}}, to be freed by tiny_free, or NULL if the text has no valid call. *content: the bytes
 * before the first call. json and content must not be NULL. */
TINY_API tiny_status tllm_tool_calls(tiny_ctx *ctx, tllm_tool_form form, const char *text, size_t n, const char *names,
                                     size_t n_names, char **json, size_t *content);

TINYI_C_END
#endif
