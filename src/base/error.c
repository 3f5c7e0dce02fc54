#include "base/error.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

typedef struct {
    const char *name;
    const char *sqlstate;
    const char *text;
    od_kind kind;
    int grpc;
    bool retriable;
} code_row;

static const code_row rows[OD_CODE_COUNT] = {
    [OD_OK] = {"OK", "00000", "success", OD_KIND_NONE, 0, false},
#define OD_ERROR_CODE(name, kind, sqlstate, grpc, retriable, text) \
    [OD_E_##name] = {#name, sqlstate, text, OD_KIND_##kind, grpc, retriable},
#include "base/error_codes.def"
#undef OD_ERROR_CODE
};

#define OD_ERROR_CODE(name, kind, sqlstate, grpc, retriable, text) \
    _Static_assert(sizeof(sqlstate) == 6, "SQLSTATE of " #name " must have five characters");
#include "base/error_codes.def"
#undef OD_ERROR_CODE

/* A code outside the table (a cast from somewhere) is treated as INTERNAL. */
static const code_row *row_of(od_code code)
{
    if ((unsigned)code >= OD_CODE_COUNT)
        return &rows[OD_E_INTERNAL];
    return &rows[code];
}

/* The largest length <= LIMIT at which TEXT can be cut without splitting a UTF-8 sequence. Bytes that are not UTF-8
 * are cut where they are. */
static size_t utf8_cut(const char *text, size_t limit)
{
    size_t at = limit;

    for (int back = 0; back < 3 && at > 0; back++) {
        if (((unsigned char)text[at] & 0xC0U) != 0x80U)
            return at;
        at--;
    }
    return ((unsigned char)text[at] & 0xC0U) == 0x80U ? limit : at;
}

/* Copies TEXT, cut to fit, into OUT and terminates it. Returns the length. */
static size_t copy_cut(char *out, size_t size, const char *text)
{
    size_t len = strlen(text);

    if (len >= size)
        len = utf8_cut(text, size - 1);
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

/* Formats into OUT; a text that does not fit is cut at a UTF-8 boundary. Returns the length. Four spare bytes show
 * whether the last character was whole. */
static size_t format_cut(char *out, size_t size, const char *fmt, va_list args)
{
    char text[OD_ERROR_MESSAGE_SIZE + 4];

    if (vsnprintf(text, sizeof text, fmt, args) < 0)
        text[0] = '\0';
    return copy_cut(out, size, text);
}

static void fill_from_row(od_error *err, od_code code)
{
    const code_row *row = row_of(code);

    err->code = code;
    err->kind = row->kind;
    err->retriable = row->retriable;
    memcpy(err->sqlstate, row->sqlstate, sizeof err->sqlstate);
}

od_code od_failv(od_error *err, od_code code, const char *fmt, va_list args)
{
    char text[OD_ERROR_MESSAGE_SIZE];
    size_t len;

    if (!err)
        return code;
    /* Formatted aside first: an argument may be err->message itself. */
    len = format_cut(text, sizeof text, fmt, args);
    memcpy(err->message, text, len + 1);
    fill_from_row(err, code);
    return code;
}

od_code od_fail(od_error *err, od_code code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    od_failv(err, code, fmt, args);
    va_end(args);
    return code;
}

od_code od_fail_errno(od_error *err, od_code code, int errnum, const char *fmt, ...)
{
    char number[32];
    const char *why = strerrordesc_np(errnum);
    va_list args;
    size_t len;

    if (errnum == ENOMEM)
        code = OD_E_NO_MEMORY;
    if (!err)
        return code;
    va_start(args, fmt);
    od_failv(err, code, fmt, args);
    va_end(args);
    if (!why) {
        snprintf(number, sizeof number, "error number %d", errnum);
        why = number;
    }
    len = strlen(err->message);
    if (len + 2 + strlen(why) < sizeof err->message)
        snprintf(err->message + len, sizeof err->message - len, ": %s", why);
    return code;
}

void od_error_prefix(od_error *err, const char *fmt, ...)
{
    char text[OD_ERROR_MESSAGE_SIZE];
    char old[OD_ERROR_MESSAGE_SIZE];
    size_t len;
    va_list args;

    if (!err)
        return;
    memcpy(old, err->message, sizeof old);
    old[sizeof old - 1] = '\0';
    va_start(args, fmt);
    /* Two bytes are kept for the ": ". */
    len = format_cut(text, sizeof text - 2, fmt, args);
    va_end(args);
    memcpy(text + len, ": ", 2);
    copy_cut(text + len + 2, sizeof text - len - 2, old);
    memcpy(err->message, text, strlen(text) + 1);
}

/* The code that stands for a kind when SQLSTATE says nothing better. */
static od_code code_of_kind(od_kind kind)
{
    switch (kind) {
    case OD_KIND_CATALOG:
        return OD_E_CATALOG;
    case OD_KIND_BINDER:
        return OD_E_BINDER;
    case OD_KIND_CONSTRAINT:
        return OD_E_CONSTRAINT;
    case OD_KIND_CONVERSION:
        return OD_E_CONVERSION;
    case OD_KIND_PARSER:
        return OD_E_PARSER;
    case OD_KIND_IO:
        return OD_E_IO;
    case OD_KIND_PERMISSION:
        return OD_E_PERMISSION;
    case OD_KIND_NONE:
    case OD_KIND_INTERNAL:
    default:
        return OD_E_INTERNAL;
    }
}

static bool sqlstate_valid(const char *state)
{
    if (!state || strlen(state) != 5)
        return false;
    for (int i = 0; i < 5; i++) {
        if (!((state[i] >= '0' && state[i] <= '9') || (state[i] >= 'A' && state[i] <= 'Z')))
            return false;
    }
    return true;
}

/* The row of KIND whose SQLSTATE is STATE; where two share one (58030), the kind's own code wins, else the first;
 * OD_OK for none. */
static od_code code_of_state(od_kind kind, const char *state)
{
    od_code own = code_of_kind(kind);

    if (strcmp(rows[own].sqlstate, state) == 0)
        return own;
    for (int i = 1; i < OD_CODE_COUNT; i++) {
        if (rows[i].kind == kind && strcmp(rows[i].sqlstate, state) == 0)
            return (od_code)i;
    }
    /* All of 25 and 40 is a transaction's end, whichever subclass. */
    if (kind == OD_KIND_IO && (strncmp(state, "25", 2) == 0 || strncmp(state, "40", 2) == 0))
        return OD_E_TRANSACTION;
    return OD_OK;
}

od_code od_error_from_wire(od_error *err, od_kind kind, const char *sqlstate, const char *message)
{
    bool known = (unsigned)kind > OD_KIND_NONE && (unsigned)kind <= OD_KIND_INTERNAL;
    bool has_state = sqlstate_valid(sqlstate);
    char state[6] = "";
    od_code code;

    if (has_state)
        memcpy(state, sqlstate, sizeof state);
    if (!known)
        kind = OD_KIND_INTERNAL;
    code = has_state ? code_of_state(kind, state) : OD_OK;
    if (code == OD_OK)
        code = code_of_kind(kind);
    od_fail(err, code, "%s", message && message[0] ? message : od_code_text(code));
    if (err && has_state)
        memcpy(err->sqlstate, state, sizeof state);
    return code;
}

const char *od_code_name(od_code code)
{
    return row_of(code)->name;
}

const char *od_code_text(od_code code)
{
    return row_of(code)->text;
}

const char *od_kind_name(od_kind kind)
{
    static const char *const names[] = {"NONE",   "CATALOG", "BINDER",     "CONSTRAINT", "CONVERSION",
                                        "PARSER", "IO",      "PERMISSION", "INTERNAL"};

    if ((unsigned)kind > OD_KIND_INTERNAL)
        return names[OD_KIND_INTERNAL];
    return names[kind];
}

od_kind od_code_kind(od_code code)
{
    return row_of(code)->kind;
}

const char *od_code_sqlstate(od_code code)
{
    return row_of(code)->sqlstate;
}

bool od_code_retriable(od_code code)
{
    return row_of(code)->retriable;
}

int od_code_grpc_status(od_code code)
{
    return row_of(code)->grpc;
}

/* Several codes share a status, so the way back is a choice of its own. 11 (OUT_OF_RANGE) is nobody's row. */
od_code od_code_from_grpc_status(int status)
{
    static const od_code codes[] = {
        [0] = OD_OK,
        [1] = OD_E_CANCELLED,
        [2] = OD_E_UNKNOWN,
        [3] = OD_E_INVALID,
        [4] = OD_E_TIMEOUT,
        [5] = OD_E_NOT_FOUND,
        [6] = OD_E_EXISTS,
        [7] = OD_E_PERMISSION,
        [8] = OD_E_BUSY,
        [9] = OD_E_PRECONDITION,
        [10] = OD_E_STALE_CATALOG,
        [11] = OD_E_INVALID,
        [12] = OD_E_NOT_IMPLEMENTED,
        [13] = OD_E_INTERNAL,
        [14] = OD_E_UNAVAILABLE,
        [15] = OD_E_CORRUPT,
        [16] = OD_E_UNAUTHENTICATED,
    };

    if (status < 0 || status >= (int)(sizeof codes / sizeof codes[0]))
        return OD_E_UNKNOWN;
    return codes[status];
}

od_code od_code_named(const char *name, size_t len)
{
    for (int code = 1; code < OD_CODE_COUNT; code++) {
        const char *known = od_code_name((od_code)code);

        if (strlen(known) == len && memcmp(known, name, len) == 0)
            return (od_code)code;
    }
    return OD_OK;
}

void od_bug(const char *file, int line, const char *text)
{
    fprintf(stderr, "bug at %s:%d: %s\n", file, line, text);
    fflush(stderr);
    abort();
}
