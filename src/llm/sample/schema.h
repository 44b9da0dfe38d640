/* src/llm/sample/schema.h - a JSON schema as a grammar
 *
 *   tllm_schema_grammar(ctx, schema, n, &text, &n_text)  and then  tllm_grammar_open(ctx, text, n_text, "root", &g)
 *
 * Supported: type (one or a list), properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
 * minLength, maxLength, enum, const, anyOf, oneOf (as anyOf), $ref within the same schema, $defs and definitions,
 * true, {}. The generated object has its members in the order of properties. Further members may follow if
 * additionalProperties is true or a schema, or if there are no properties at all. Keywords that restrict nothing are
 * ignored: title, description, default, examples, format and the like.
 * Every other keyword (pattern, minimum, allOf, not, if ...) is an error that names the keyword and its place: no
 * restriction is silently dropped. A $ref that leads back to itself through $ref and anyOf alone is an error too,
 * because no value fits it. */
#ifndef TINYI_SCHEMA_H
#define TINYI_SCHEMA_H
#include "core/ctx.h"
TINYI_C_BEGIN

#define TLLM_SCHEMA_MAX_BYTES ((size_t)1 << 20)
#define TLLM_SCHEMA_MAX_REPEAT 10000        /* of minItems, maxItems, minLength, maxLength */

/* schema: n bytes of JSON. *text has *n_text bytes and a final 0; free it with tiny_free. n_text may be NULL. On
 * failure *text is NULL. */
TINY_API tiny_status tllm_schema_grammar(tiny_ctx *ctx, const char *schema, size_t n, char **text, size_t *n_text);

TINYI_C_END
#endif
