/* src/core/status.c */
#include "core/status.h"

TINY_API const char *tiny_status_text(tiny_status status)
{
#define TINYI_STATUS_TEXT(name, text) text,
    static const char *const texts[] = { TINYI_STATUSES(TINYI_STATUS_TEXT) "" };
#undef TINYI_STATUS_TEXT
    return (unsigned)status < (unsigned)TINY_STATUS_COUNT ? texts[status] : "this status is unknown";
}
