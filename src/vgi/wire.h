/* vgi/wire.h: what a client and a worker of VGI have in common: the generations of the protocol, and how values are put into records.
 *
 * Pure. One thread for each row. */
#ifndef OD_VGI_WIRE_H
#define OD_VGI_WIRE_H

#include "arrow/row.h"

/* What differs between the protocol's generations. */
typedef struct {
    const char *version;      /* of vgi_rpc.protocol_version */
    const char *protocol;     /* of vgi_rpc.protocol; NULL: none is sent */
    bool paths;               /* schemas are named by lists */
    bool nulls;               /* absent bytes are null, not empty */
    bool symbols;             /* top-level enumerations are dictionaries */
    bool reads_after_failure; /* after a failed init the input stream is still read */
    bool expressions;         /* filters are trees of expressions */
    bool continues;           /* more of the same rows is asked for without them */
} od_vgi_dialect;

/* Newest first. */
enum { OD_VGI_DIALECTS = 2 };
extern const od_vgi_dialect od_vgi_dialects[OD_VGI_DIALECTS];

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
/* A batch of one row as a stream, ARRAY moved out of; *OUT NULL: there is none (ARRAY->release NULL), or it has no column. */
OD_MUST_CHECK od_code od_vgi_batch_write(const struct ArrowSchema *schema, struct ArrowArray *array, od_msg **out,
                                         od_error *err);
/* SCHEMA as a bare schema message. */
OD_MUST_CHECK od_code od_vgi_schema_write(const struct ArrowSchema *schema, od_msg **out, od_error *err);
od_slice od_vgi_msg_bytes(od_msg *msg); /* NULL: data NULL */

#endif
