/* What the page sends: the body of a form. */
#ifndef OD_QUERY_CONSOLE_FORM_H
#define OD_QUERY_CONSOLE_FORM_H

#include "base/buf.h"

/* Decodes the value of NAME in BODY (application/x-www-form-urlencoded) into OUT. False: it is not there, not well-formed, holds a
 * NUL, or has no room. */
bool form_value(od_slice body, const char *name, char *out, size_t size);

#endif
