#include <string.h>

#include "query/engine/engine_internal.h"
#include "base/banned.h"

/* The words before " Error: " in DuckDB's messages (its Exception::ExceptionTypeToString). */
static const struct {
    const char *prefix;
    od_code code;
    const char *sqlstate; /* NULL: the code's own */
} kinds[] = {
    {"Catalog", OD_E_CATALOG, NULL},
    {"Dependency", OD_E_CATALOG, "2BP01"},
    {"Binder", OD_E_BINDER, NULL},
    {"Parser", OD_E_PARSER, NULL},
    {"Syntax", OD_E_PARSER, NULL},
    {"Conversion", OD_E_CONVERSION, NULL},
    {"Out of Range", OD_E_CONVERSION, "22003"},
    {"Mismatch Type", OD_E_CONVERSION, "22018"},
    {"Divide by Zero", OD_E_CONVERSION, "22012"},
    {"Decimal", OD_E_CONVERSION, NULL},
    {"Sequence", OD_E_CONVERSION, "2200H"},
    {"Constraint", OD_E_CONSTRAINT, NULL},
    {"Invalid Input", OD_E_INVALID, NULL},
    {"Invalid Configuration", OD_E_INVALID, NULL},
    {"Invalid type", OD_E_INVALID, "42804"},
    {"Settings", OD_E_INVALID, NULL},
    {"Parameter Not Resolved", OD_E_INVALID, NULL},
    {"Parameter Not Allowed", OD_E_INVALID, NULL},
    {"Missing Extension", OD_E_INVALID, NULL},
    {"Extension Autoloading", OD_E_INVALID, NULL},
    {"Not implemented", OD_E_NOT_IMPLEMENTED, NULL},
    {"IO", OD_E_IO, NULL},
    {"HTTP", OD_E_IO, "08000"},
    {"Connection", OD_E_IO, "08000"},
    {"Network", OD_E_IO, "08000"},
    {"TransactionContext", OD_E_TRANSACTION, NULL},
    {"INTERRUPT", OD_E_CANCELLED, NULL},
    {"Permission", OD_E_PERMISSION, NULL},
    {"Out of Memory", OD_E_NO_MEMORY, NULL},
    {"FATAL", OD_E_FATAL, NULL},
};

/* A result that failed while it was read is told as an attempt to read a failed result, and then why it failed. */
static const char *unwrapped(const char *text)
{
    static const char wrapper[] = "Invalid Input Error: Attempting to ", why[] = "\nError: ";
    const char *found = strncmp(text, wrapper, sizeof wrapper - 1) == 0 ? strstr(text, why) : NULL;
    const char *state = found != NULL ? strstr(text, "unsuccessful or closed") : NULL;
    return state != NULL && state < found ? found + sizeof why - 1 : text;
}

/* A database whose checkpoint failed takes nothing more either, though DuckDB calls that an IO error. These texts begin with
 * words that no statement can choose. */
static bool is_lost(od_code code, const char *message)
{
    return code == OD_E_IO && strstr(message, "has been invalidated") != NULL &&
           (strncmp(message, "Checkpoint failed for database \"", 32) == 0 || strncmp(message, "Database \"", 10) == 0);
}

od_code od_duck_fail(od_error *err, const char *text)
{
    static const char mark[] = " Error: ";
    if (text == NULL || text[0] == '\0')
        return od_fail(err, OD_E_INTERNAL, "the database failed without a reason");
    text = unwrapped(text);
    const char *found = strstr(text, mark);
    size_t prefix = found != NULL ? (size_t)(found - text) : 0;
    if (found != NULL && prefix <= 24 && memchr(text, '\n', prefix) == NULL) {
        const char *message = found + sizeof mark - 1;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (strlen(kinds[i].prefix) != prefix || memcmp(kinds[i].prefix, text, prefix) != 0)
                continue;
            bool lost = is_lost(kinds[i].code, message);
            od_code code = od_fail(err, lost ? OD_E_FATAL : kinds[i].code, "%s", message);
            if (err != NULL && strncmp(message, "Current transaction is aborted", 30) == 0)
                memcpy(err->sqlstate, "25P02", sizeof err->sqlstate);
            if (err != NULL && !lost && kinds[i].sqlstate != NULL)
                memcpy(err->sqlstate, kinds[i].sqlstate, sizeof err->sqlstate);
            return code;
        }
        return od_fail(err, OD_E_INTERNAL, "%s", message);
    }
    if (strncmp(text, "Error: ", 7) == 0)
        text += 7;
    return od_fail(err, OD_E_INTERNAL, "%s", text);
}
