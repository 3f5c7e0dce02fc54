/* base/uuid.h: random UUIDs (version 4, RFC 9562) from the kernel's generator. */
#ifndef OD_BASE_UUID_H
#define OD_BASE_UUID_H

#include <stdbool.h>
#include <stdint.h>

#define OD_UUID_TEXT_SIZE 37 /* 36 characters and a NUL */

typedef struct {
    uint8_t bytes[16];
} od_uuid;

od_uuid od_uuid_random(void);
/* "8-4-4-4-12" in lower case; OUT holds OD_UUID_TEXT_SIZE bytes. */
void od_uuid_format(od_uuid id, char *out);
bool od_uuid_parse(const char *text, od_uuid *out);

#endif
