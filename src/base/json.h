/* base/json.h: JSON, as much as is written by hand. */
#ifndef OD_BASE_JSON_H
#define OD_BASE_JSON_H

#include "base/buf.h"

enum { OD_JSON_ESCAPE_SIZE = 8 };
/* How C is written in a JSON string if it cannot be written as it is: into OUT, which is returned; else NULL. */
const char *od_json_escape(uint8_t c, char out[OD_JSON_ESCAPE_SIZE]);

/* Appends to OUT. The first failure sticks: what is written after it does nothing, and RC tells it at the end. */
typedef struct {
    od_buf *out;
    od_error *err;
    od_code rc;
} od_json;

void od_json_put(od_json *json, const char *fmt, ...) OD_PRINTF(2, 3);
/* TEXT as a JSON string, quotes included; what is not UTF-8 in it becomes U+FFFD. */
void od_json_text(od_json *json, od_slice text);
/* "KEY":"VALUE"; NULL counts as "". */
void od_json_field(od_json *json, const char *key, const char *value);

#endif
