#include "query/console/guard.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/banned.h"

void guard_cookie_name(const od_http_head *head, char out[GUARD_COOKIE_NAME])
{
    od_slice host = od_http_head_value(head, "host");
    size_t at = host.len;

    while (at > 0 && isdigit(host.data[at - 1]))
        at--;
    if (at == 0 || host.data[at - 1] != ':' || host.len - at > 5)
        at = host.len;
    snprintf(out, GUARD_COOKIE_NAME, "openduck_console_%.*s", (int)(host.len - at), (const char *)host.data + at);
}

od_slice guard_cookie(const od_http_head *head)
{
    od_slice rest = od_http_head_value(head, "cookie");
    char name[GUARD_COOKIE_NAME];
    size_t name_len;

    guard_cookie_name(head, name);
    name_len = strlen(name);
    while (rest.len > 0) {
        const uint8_t *end = memchr(rest.data, ';', rest.len);
        size_t len = end ? (size_t)(end - rest.data) : rest.len;

        if (len > name_len && memcmp(rest.data, name, name_len) == 0 && rest.data[name_len] == '=')
            return od_slice_of(rest.data + name_len + 1, len - name_len - 1);
        rest = od_slice_of(rest.data + len, rest.len - len);
        while (rest.len > 0 && (rest.data[0] == ';' || rest.data[0] == ' '))
            rest = od_slice_of(rest.data + 1, rest.len - 1);
    }
    return rest;
}

bool guard_authorization(const od_http_head *head, od_slice *out)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof scheme - 1;
    od_slice given = od_http_head_value(head, "authorization");

    *out = od_slice_of("", 0);
    if (given.len > len && strncasecmp((const char *)given.data, scheme, len) == 0)
        *out = od_slice_of(given.data + len, given.len - len);
    return given.len > 0;
}

bool guard_same_origin(const od_http_head *head)
{
    static const char *const schemes[] = {"http://", "https://"};
    od_slice origin = od_http_head_value(head, "origin"), host = od_http_head_value(head, "host");

    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t len = strlen(schemes[i]);

        if (host.len > 0 && origin.len == len + host.len && memcmp(origin.data, schemes[i], len) == 0 &&
            strncasecmp((const char *)origin.data + len, (const char *)host.data, host.len) == 0)
            return true;
    }
    return false;
}
