/* src/llm/sample/schema.h - a JSON schema as a grammar
 *
 *   tllm_schema_grammar(ctx, schema, n, &text, &n_text)  and then  tllm_grammar_open(ctx, text, n_text, "root", &g)
 *
 * Taken: type (one or a list), properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
 * minLength, maxLength, enum, const, anyOf, oneOf (as anyOf), $ref to a place in the same schema, $defs and
 * definitions, true, {}. Members come in the order of properties; others may follow where additionalProperties is true
 * or a schema, or where there are no properties at all. Title, description, default, examples, format and the like say
 * nothing about the form and are passed over.
 * Every other keyword (pattern, minimum, allOf, not, if ...) is refused by name and place: a schema is kept whole or
 * not at all.
 * So is a $ref that leads back to itself through nothing but $ref and anyOf: no value fits it. */
#ifndef TINYI_SCHEMA_H
#define TINYI_SCHEMA_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_SCHEMA_MAX_BYTES ((size_t)1 << 20)
#define TLLM_SCHEMA_MAX_REPEAT 10000        /* of minItems, maxItems, minLength, maxLength */

/* *text is given back by tiny_free; it has *n_text bytes and a 0 behind them. n_text may be NULL. On failure *text is
 * NULL. */
TINY_API tiny_status tllm_schema_grammar(tiny_ctx *ctx, const char *schema, size_t n, char **text, size_t *n_text);

TINYI_C_END
#endif
