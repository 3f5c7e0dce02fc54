/* scripts/analyzer.h: what an analyzer cannot see from one file: a failure is never OD_OK.
 * scripts/lint.sh includes it, for clang and gcc, before every file but base/error.c, which defines these functions. */
#include "base/error.h"

#define od_fail(err, code, ...) ((void)(od_fail)(err, code, __VA_ARGS__), (code))
#define od_fail_errno(err, code, errnum, ...) ((void)(od_fail_errno)(err, code, errnum, __VA_ARGS__), (code))
