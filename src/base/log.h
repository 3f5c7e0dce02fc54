/* base/log.h: logfmt lines on stderr, or wherever the host's sink wants them.
 *
 * ts=... level=info comp=gateway msg="worker registered" worker=w-1. The sink is the only global of the house.
 * Never log a token, a DSN with a password, or row data. */
#ifndef OD_BASE_LOG_H
#define OD_BASE_LOG_H

#include <stddef.h>

#include "base/error.h"

typedef enum { OD_LOG_ERROR, OD_LOG_WARN, OD_LOG_INFO, OD_LOG_DEBUG } od_log_level;

/* Called for each line with its fields already formatted ("key=value key=\"v v\""), from any thread. */
typedef void (*od_log_sink)(void *arg, od_log_level level, const char *comp, const char *line);

/* "info", or "info,rpc=debug,gateway=warn". OD_E_INVALID names the part that is wrong; the levels then stay as they were.
 * Before the first call the level is info. */
OD_MUST_CHECK od_code od_log_configure(const char *spec, od_error *err);
/* NULL restores the default (stderr). When it returns, no thread is in the old sink any more. A sink may log; it must not
 * call od_log_set_sink or od_log_configure. */
void od_log_set_sink(od_log_sink sink, void *arg);
bool od_log_enabled(od_log_level level, const char *comp);
/* MSG is a constant text; FIELDS a printf format of logfmt fields, "" for none. Values with blanks or quotes must go
 * through %s of od_log_quote. A line is at most 4,095 bytes; what is longer is cut, and control characters become blanks.
 * errno stays as it was. */
void od_log(od_log_level level, const char *comp, const char *msg, const char *fields, ...) OD_PRINTF(4, 5);
/* Writes VALUE as a logfmt value into OUT (cut to SIZE, always terminated) and returns OUT. */
const char *od_log_quote(const char *value, char *out, size_t size);

#endif
