#include "base/pb.h"

#include "base/utf8.h"
#include "base/banned.h"

pb_reader pb_reader_of(od_slice message)
{
    if (!message.data)
        return (pb_reader){(const uint8_t *)"", (const uint8_t *)""};
    return (pb_reader){message.data, message.data + message.len};
}

static bool get_varint(pb_reader *reader, uint64_t *out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;

        if (shift < 64)
            value |= (uint64_t)(byte & 0x7FU) << shift;
        if (!(byte & 0x80U)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool get_bytes(pb_reader *reader, uint64_t len, od_slice *out)
{
    if (len > (uint64_t)(reader->end - reader->at))
        return false;
    *out = od_slice_of(reader->at, (size_t)len);
    reader->at += len;
    return true;
}

static bool get_field(pb_reader *reader, pb_field *out)
{
    uint64_t tag, len;

    if (!get_varint(reader, &tag) || tag > UINT32_MAX || tag >> 3 == 0)
        return false;
    *out = (pb_field){.field = (uint32_t)(tag >> 3), .type = (int)(tag & 7U)};
    switch (out->type) {
    case PB_VARINT:
        return get_varint(reader, &out->number);
    case PB_BYTES:
        return get_varint(reader, &len) && get_bytes(reader, len, &out->bytes);
    case PB_FIXED64:
        return get_bytes(reader, 8, &out->bytes);
    case PB_FIXED32:
        return get_bytes(reader, 4, &out->bytes);
    default: /* groups are not part of proto3 */
        return false;
    }
}

bool pb_next(pb_reader *reader, pb_field *out, od_code *rc, od_error *err)
{
    *rc = OD_OK;
    if (reader->at == reader->end)
        return false;
    if (!get_field(reader, out)) {
        *rc = od_fail(err, OD_E_PROTOCOL, "a message is not valid protobuf");
        return false;
    }
    return true;
}

od_code pb_text(const pb_field *field, const char *name, od_slice *out, od_error *err)
{
    if (!od_utf8_valid(field->bytes))
        return od_fail(err, OD_E_PROTOCOL, "field '%s' is not UTF-8", name);
    *out = field->bytes;
    return OD_OK;
}

uint8_t *pb_put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80U);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

uint8_t *pb_put_padded(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 3; i++) {
        *at++ = (uint8_t)(value | 0x80U);
        value >>= 7;
    }
    *at++ = (uint8_t)(value & 0x7FU);
    return at;
}

uint8_t *pb_put_number(uint8_t *at, uint32_t field, uint64_t value)
{
    if (value == 0)
        return at;
    at = pb_put_varint(at, (uint64_t)field << 3 | PB_VARINT);
    return pb_put_varint(at, value);
}

uint8_t *pb_put_bytes_always(uint8_t *at, uint32_t field, od_slice bytes)
{
    at = pb_put_varint(at, (uint64_t)field << 3 | PB_BYTES);
    at = pb_put_varint(at, bytes.len);
    if (bytes.len > 0)
        memcpy(at, bytes.data, bytes.len);
    return at + bytes.len;
}

uint8_t *pb_put_bytes(uint8_t *at, uint32_t field, od_slice bytes)
{
    return bytes.len > 0 ? pb_put_bytes_always(at, field, bytes) : at;
}
