/* src/core/status.h - the status that a call returns */
#ifndef TINYI_STATUS_H
#define TINYI_STATUS_H
#include "core/config.h"
TINYI_C_BEGIN

#define TINYI_STATUSES(S)                                                                   \
    S(OK, "done")                                                                           \
    S(E_ARGUMENT, "an argument is missing or out of its range")                             \
    S(E_SHAPE, "the shapes of the tensors do not fit together")                             \
    S(E_DTYPE, "the operation does not take this data type")                                \
    S(E_ALIAS, "an output overlaps memory that the operation still reads")                  \
    S(E_OVERFLOW, "a size is larger than this machine can address")                         \
    S(E_MEMORY, "the allocator gave no memory")                                             \
    S(E_WORKSPACE, "the workspace is too small")                                            \
    S(E_TARGET, "this machine does not have the processor features that were asked for")    \
    S(E_UNSUPPORTED, "this is not supported")                                               \
    S(E_CANCELLED, "the cancel callback asked to stop")                                     \
    S(E_IO, "the system could not read or write")                                           \
    S(E_FORMAT, "the bytes are not what their format promises")                             \
    S(E_NUMERIC, "the numbers do not allow an answer")                                      \
    S(E_ACCEL, "the accelerator failed")                                                    \
    S(E_VERSION, "the object was made by another version of this library")                  \
    S(E_TIMEOUT, "another rank did not answer in time")                                     \
    S(E_PEER, "another rank is gone")                                                       \
    S(E_PROTOCOL, "another rank sent an unexpected message")

#define TINYI_STATUS_ENUM(name, text) TINY_##name,
typedef enum tiny_status { TINYI_STATUSES(TINYI_STATUS_ENUM) TINY_STATUS_COUNT } tiny_status;
#undef TINYI_STATUS_ENUM

/* One general sentence for a status, never NULL. tiny_ctx_message has the specific one. */
TINY_API const char *tiny_status_text(tiny_status status);

/* Makes n bytes of untrusted text safe for a terminal or a log: one line of UTF-8. Control characters (ASCII, U+0080 to
 * U+009F, line separators, direction marks, zero-width spaces) and bytes that are not UTF-8 are written as \xNN.
 * Returns the size of the whole text with its final 0. Writes at most room bytes, always terminated; a truncated text
 * ends with "...". Every message of a context has passed through this function. A program that prints names or values
 * from a file should call it too. */
TINY_API size_t tiny_plain(char *to, size_t room, const void *text, size_t n);

TINYI_C_END
#endif
