/* base/pb.h: protobuf's wire format, as much of it as the messages need that are read or written without generated code.
 * https://protobuf.dev/programming-guides/encoding/ */
#ifndef OD_BASE_PB_H
#define OD_BASE_PB_H

#include "base/buf.h"

enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

/* The most bytes that a tag with a varint or a length takes. */
enum { PB_FIELD_MAX = 20 };

/* One field as read: NUMBER of the varint kinds, BYTES (borrowed) of PB_BYTES. */
typedef struct {
    uint32_t field;
    int type;
    uint64_t number;
    od_slice bytes;
} pb_field;

typedef struct {
    const uint8_t *at, *end;
} pb_reader;

pb_reader pb_reader_of(od_slice message);
/* Reads one field. False at the end of the message, or with *rc set (OD_E_PROTOCOL) when the bytes are no protobuf. */
bool pb_next(pb_reader *reader, pb_field *out, od_code *rc, od_error *err);

/* FIELD as text: OD_E_PROTOCOL if it is not UTF-8. */
OD_MUST_CHECK od_code pb_text(const pb_field *field, const char *name, od_slice *out, od_error *err);

/* Writers put bytes at AT, which must have room, and return where they end. Proto3's defaults (0, empty) are left out. */
uint8_t *pb_put_varint(uint8_t *at, uint64_t value);
uint8_t *pb_put_padded(uint8_t *at, uint32_t value); /* value < 2^28, always four bytes */
uint8_t *pb_put_number(uint8_t *at, uint32_t field, uint64_t value);
uint8_t *pb_put_bytes(uint8_t *at, uint32_t field, od_slice bytes);
uint8_t *pb_put_bytes_always(uint8_t *at, uint32_t field, od_slice bytes); /* also when empty */

#endif
