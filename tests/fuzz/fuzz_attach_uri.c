/* The text of an ATTACH, from any bytes: parsed or refused, and what is parsed is clean text. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "query/attach_uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *text)
{
    for (; text != NULL && *text != 0; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    od_attach_uri uri;
    od_error err = {0};

    if (od_attach_uri_parse(od_slice_of(data, size), &uri, &err) == OD_OK) {
        if (uri.database == NULL || strlen(uri.database) > size)
            __builtin_trap();
        check_clean(uri.database);
        check_clean(uri.endpoint);
        check_clean(uri.secret);
        check_clean(uri.token.value);
    } else if (uri.database != NULL || err.message[0] == 0) {
        __builtin_trap();
    }
    od_attach_uri_release(&uri);
    return 0;
}
