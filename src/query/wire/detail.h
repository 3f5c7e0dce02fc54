/* The typed error as a field of a message, for the files of this room. */
#ifndef OD_QUERY_WIRE_DETAIL_H
#define OD_QUERY_WIRE_DETAIL_H

#include "query/wire.h"

enum { WIRE_DETAIL_MAX = OD_ERROR_MESSAGE_SIZE + OD_EXECUTION_ID_SIZE + 256 };

/* The bytes of an ExecuteFragmentError at AT, which has room for WIRE_DETAIL_MAX; returns how many. */
size_t wire_put_detail(uint8_t *at, const od_error *what, const char *execution_id);
/* Reads one. ID has OD_EXECUTION_ID_SIZE bytes. */
OD_MUST_CHECK od_code wire_take_detail(od_slice bytes, od_error *out, char *id, od_error *err);

#endif
