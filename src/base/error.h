/* base/error.h: what went wrong, as a code to branch on and a text to show.
 *
 * The caller owns the od_error; NULL is allowed everywhere. Success leaves it untouched. Nothing here
 * allocates, so it works when memory is out. Codes, kinds, SQLSTATE and gRPC status come from
 * error_codes.def, the only table of them. */
#ifndef OD_BASE_ERROR_H
#define OD_BASE_ERROR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define OD_MUST_CHECK __attribute__((warn_unused_result))
#define OD_PRINTF(fmt_arg, first) __attribute__((format(printf, fmt_arg, first)))

#define OD_ERROR_MESSAGE_SIZE 1000

/* The eight kinds of the wire (ExecuteFragmentError.kind); the numbers are the proto's. */
typedef enum {
    OD_KIND_NONE = 0,
    OD_KIND_CATALOG = 1,
    OD_KIND_BINDER = 2,
    OD_KIND_CONSTRAINT = 3,
    OD_KIND_CONVERSION = 4,
    OD_KIND_PARSER = 5,
    OD_KIND_IO = 6,
    OD_KIND_PERMISSION = 7,
    OD_KIND_INTERNAL = 8
} od_kind;

typedef enum {
    OD_OK = 0,
#define OD_ERROR_CODE(name, kind, sqlstate, grpc, retriable, text) OD_E_##name,
#include "base/error_codes.def"
#undef OD_ERROR_CODE
    OD_CODE_COUNT
} od_code;

typedef struct {
    od_code code;
    od_kind kind;
    bool retriable;   /* the same call may succeed later */
    char sqlstate[6]; /* five characters and a NUL */
    char message
        [OD_ERROR_MESSAGE_SIZE]; /* lower case, no full stop, names in 'quotes'; a database's own text as it is */
} od_error;

/* Fills ERR (may be NULL) from the table and the formatted text, and returns CODE. Too long a text is cut at
 * a UTF-8 boundary. */
od_code od_fail(od_error *err, od_code code, const char *fmt, ...) OD_PRINTF(3, 4);
od_code od_failv(od_error *err, od_code code, const char *fmt, va_list args);

/* As od_fail, with ": " and the text of ERRNUM (an errno value) appended; ENOMEM gives OD_E_NO_MEMORY, else CODE. */
od_code od_fail_errno(od_error *err, od_code code, int errnum, const char *fmt, ...) OD_PRINTF(4, 5);

/* Puts "PREFIX: " before the message. */
void od_error_prefix(od_error *err, const char *fmt, ...) OD_PRINTF(2, 3);

/* Makes ERR what a peer reported: KIND and SQLSTATE ("" or NULL: the kind's own) as they came over the wire,
 * CODE the row of the table that fits best. Returns that code. */
od_code od_error_from_wire(od_error *err, od_kind kind, const char *sqlstate, const char *message);

/* Names and conversions, all from the table; never NULL. */
const char *od_code_name(od_code code); /* "NOT_FOUND" */
const char *od_code_text(od_code code); /* one line of text */
const char *od_kind_name(od_kind kind); /* "CATALOG" */
od_kind od_code_kind(od_code code);
const char *od_code_sqlstate(od_code code);
bool od_code_retriable(od_code code);
int od_code_grpc_status(od_code code);
od_code od_code_from_grpc_status(int status);
od_code od_code_named(const char *name, size_t len); /* OD_OK: none is called so */

/* Assigns rc and jumps to the function's `out` label on failure. The only macro that jumps. */
#define OD_TRY(expr)     \
    do {                 \
        rc = (expr);     \
        if (rc != OD_OK) \
            goto out;    \
    } while (0)

/* A broken invariant of our own: aborts. Never reached from ext/, which throws instead. */
#define OD_BUG(text) od_bug(__FILE__, __LINE__, text)
__attribute__((noreturn)) void od_bug(const char *file, int line, const char *text);

#endif
