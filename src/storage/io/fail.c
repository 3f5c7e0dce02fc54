#include <stdio.h>

#include "storage/io.h"

#include "base/banned.h"

od_code od_io_fail(const od_io *io, od_error *err, int why, const char *fmt, ...)
{
    char what[600];
    char known[OD_ERROR_MESSAGE_SIZE] = "";
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (io->explain != NULL)
        io->explain(io->ctx, why, known, sizeof known);
    if (known[0] != '\0')
        return od_fail(err, OD_E_IO, "%s: %s", what, known);
    return od_fail_errno(err, OD_E_IO, why, "%s", what);
}
