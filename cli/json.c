#include "cli/json.h"

#include "base/json.h"
#include "base/banned.h"

void json_text(FILE *out, od_slice text)
{
    putc('"', out);
    for (size_t i = 0; i < text.len; i++) {
        char room[OD_JSON_ESCAPE_SIZE];
        const char *escape = od_json_escape(text.data[i], room);

        if (escape)
            fputs(escape, out);
        else
            putc(text.data[i], out);
    }
    putc('"', out);
}
