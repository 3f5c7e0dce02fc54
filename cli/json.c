#include "cli/json.h"

#include "base/banned.h"

static const char *escape_of(uint8_t c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

void json_text(FILE *out, od_slice text)
{
    putc('"', out);
    for (size_t i = 0; i < text.len; i++) {
        const char *escape = escape_of(text.data[i]);

        if (escape)
            fputs(escape, out);
        else if (text.data[i] < 0x20 || text.data[i] == 0x7F)
            fprintf(out, "\\u%04x", text.data[i]);
        else
            putc(text.data[i], out);
    }
    putc('"', out);
}
