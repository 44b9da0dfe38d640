/* src/llm/chat/forms_inside.h - chat templates without their language: forms that are recognised by their marks */
#ifndef TINYI_CHAT_FORMS_H
#define TINYI_CHAT_FORMS_H
#include "llm/chat/template.h"
TINYI_C_BEGIN

#ifdef TINYI_NO_TEMPLATES
TINYI_FN tiny_status tinyi_chatform_open(tiny_ctx *ctx, const char *text, size_t n,
                                         tllm_template **out); /* *out was NULL before */
TINYI_FN tiny_status tinyi_chatform_run(tiny_ctx *ctx, const tllm_template *known, const tllm_template_values *v,
                                        char **text, size_t *n);
#endif

TINYI_C_END
#endif
