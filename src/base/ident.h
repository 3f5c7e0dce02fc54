/* base/ident.h: SQL identifiers and string literals in DuckDB's rules. */
#ifndef OD_BASE_IDENT_H
#define OD_BASE_IDENT_H

#include "base/buf.h"

/* Appends NAME as "name" with inner quotes doubled. A name with a NUL byte is OD_E_INVALID. */
OD_MUST_CHECK od_code od_quote_ident(od_buf *out, od_slice name, od_error *err);
/* Appends TEXT as 'text' with inner quotes doubled. A NUL byte is OD_E_INVALID. */
OD_MUST_CHECK od_code od_quote_literal(od_buf *out, od_slice text, od_error *err);

#endif
