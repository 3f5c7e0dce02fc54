/* vgi/client/decode.h: records of the protocol, read into structs. Pure: no I/O. */
#ifndef OD_VGI_CLIENT_DECODE_H
#define OD_VGI_CLIENT_DECODE_H

#include "vgi/client/records_internal.h"

/* Each reads the bytes of a method's result; OUT->answer owns it, and is NULL on failure. */
OD_MUST_CHECK od_code od_vgi_decode_catalogs(od_slice bytes, od_vgi_catalogs *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_attached(od_slice bytes, od_vgi_attached *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_schemas(od_slice bytes, od_vgi_schemas *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_tables(od_slice bytes, od_vgi_tables *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_views(od_slice bytes, od_vgi_views *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_macros(od_slice bytes, od_vgi_macros *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_functions(od_slice bytes, od_vgi_functions *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_branches(od_slice bytes, od_vgi_branches *out, od_error *err);
/* Of a worker without branches: a list of one. */
OD_MUST_CHECK od_code od_vgi_decode_one_branch(od_slice bytes, od_vgi_branches *out, od_error *err);

OD_MUST_CHECK od_code od_vgi_decode_write_function(od_slice bytes, od_vgi_write_function *out, od_error *err);
/* No bytes: none. */
OD_MUST_CHECK od_code od_vgi_decode_statistics(od_slice bytes, od_vgi_statistics *out, od_error *err);
OD_MUST_CHECK od_code od_vgi_decode_secret(od_slice bytes, od_vgi_secret *out, od_error *err);

/* As od_vgi_decode_statistics, into the memory of ANSWER. */
OD_MUST_CHECK od_code od_vgi_read_statistics(od_vgi_answer *answer, od_slice bytes, od_vgi_statistics *out,
                                             od_error *err);
/* Reads a ScanFunctionResult. */
OD_MUST_CHECK od_code od_vgi_read_scan_function(od_vgi_answer *answer, const od_record *record,
                                                od_vgi_scan_function *out, od_error *err);

#endif
