/* vgi/client/request.h: what goes into requests. */
#ifndef OD_VGI_CLIENT_REQUEST_H
#define OD_VGI_CLIENT_REQUEST_H

#include "vgi/client/client_internal.h"

/* "Absent" as DIALECT writes it: a null, or no bytes. */
od_slice od_vgi_absent(const od_vgi_dialect *dialect);
/* Adds bytes that may be absent (data NULL). */
void od_vgi_put_bytes(const od_vgi_dialect *dialect, od_row *row, const char *name, od_slice bytes);
/* Names a schema: by a path or by a name. */
void od_vgi_put_schema(const od_vgi_dialect *dialect, od_row *row, const char *path_field, const char *name_field,
                       const char *schema, od_row_null null);
void od_vgi_put_text(od_row *row, const char *name, const char *text); /* nullable; NULL: a null */
/* Finishes RECORD as a stream and makes it the one parameter `request` of ROW. */
OD_MUST_CHECK od_code od_vgi_put_request(od_row *row, od_row *record, od_error *err);
/* VALUES as a stream of a batch, moved out of; *OUT NULL: there are none. */
OD_MUST_CHECK od_code od_vgi_values_write(od_vgi_values *values, od_msg **out, od_error *err);
/* SCHEMA as a bare schema message. */
OD_MUST_CHECK od_code od_vgi_schema_write(const struct ArrowSchema *schema, od_msg **out, od_error *err);
od_slice od_vgi_msg_bytes(od_msg *msg); /* NULL: data NULL */

#endif
