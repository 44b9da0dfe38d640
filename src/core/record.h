/* src/core/record.h - the recorder: lists the operations that ran, with their shapes
 *
 *   tiny_recording *rec;
 *   tiny_record_start(ctx, &rec);   ... run the model ...   tiny_record_stop(ctx);
 *   for (i = 0; (op = tiny_recording_at(rec, i)) != NULL; i++) ...
 *   tiny_recording_free(ctx, rec);
 *
 * Each recorded tiny_op has copies of its params and of the shapes, strides and data addresses of its tensors. The data
 * are not copied. */
#ifndef TINYI_RECORD_H
#define TINYI_RECORD_H
#include "core/op.h"
TINYI_C_BEGIN

TINY_API tiny_status tiny_record_start(tiny_ctx *ctx, tiny_recording **out);
TINY_API tiny_status tiny_record_stop(tiny_ctx *ctx);      /* fails if an operation could not be recorded */
TINY_API size_t tiny_recording_count(const tiny_recording *recording);
TINY_API const tiny_op *tiny_recording_at(const tiny_recording *recording, size_t i);   /* NULL past the end */
TINY_API void tiny_recording_free(tiny_ctx *ctx, tiny_recording *recording);

TINYI_C_END
#endif
