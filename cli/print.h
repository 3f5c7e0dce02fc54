/* Rows as a table, as CSV, as JSON lines. */
#ifndef OD_CLI_PRINT_H
#define OD_CLI_PRINT_H

#include <stdio.h>

#include "base/buf.h"

typedef enum { PRINT_TABLE, PRINT_CSV, PRINT_JSON } print_format;

typedef struct printer printer;

typedef struct {
    const char *name;
    bool number; /* shown to the right; its JSON may be no JSON (Infinity) */
} print_column;

/* COLUMNS are borrowed. NULL_TEXT: what NULL looks like in a table or CSV. */
OD_MUST_CHECK od_code printer_create(FILE *out, print_format format, const print_column *columns, size_t count,
                                     const char *null_text, printer **result, od_error *err);
/* The values of one row, one a column; data NULL is NULL. OD_E_IO: OUT takes no more. */
OD_MUST_CHECK od_code printer_row(printer *p, const od_slice *values, od_error *err);
/* What is left to print. */
OD_MUST_CHECK od_code printer_end(printer *p, od_error *err);
/* For rows that end in an error: prints those that were held back, and does not close the table. */
void printer_cut(printer *p);
void printer_free(printer *p); /* NULL allowed */

#endif
