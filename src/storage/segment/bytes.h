/* Numbers of a segment: little-endian, wherever they stand. */
#ifndef OD_STORAGE_SEGMENT_BYTES_H
#define OD_STORAGE_SEGMENT_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void put_u32(uint8_t *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void put_u64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static inline uint32_t get_u32(const uint8_t *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t get_u64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

/* At byte 56 of a record's header. */
#define OD_RECORD_MAGIC_AT 56
#define OD_RECORD_MAGIC 0x3163526FU /* "oRc1" */

#endif
