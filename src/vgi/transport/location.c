#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "vgi/transport.h"

#include "base/banned.h"

static bool starts(const char *text, const char *scheme)
{
    return strncasecmp(text, scheme, strlen(scheme)) == 0;
}

static od_code keep(const char *from, size_t len, od_vgi_location *out, od_error *err)
{
    out->target = od_strndup(from, len);
    return out->target != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

static od_code parse_tcp(const char *text, od_vgi_location *out, od_error *err)
{
    const char *colon = strrchr(text, ':');
    char *end;
    long port = colon != NULL ? strtol(colon + 1, &end, 10) : 0;

    if (colon == NULL || colon == text || colon[1] == '\0' || *end != '\0' || port < 1 || port > UINT16_MAX)
        return od_fail(err, OD_E_INVALID, "the location 'tcp://%s' is not tcp://HOST:PORT", text);
    out->scheme = OD_VGI_TCP;
    out->port = (uint16_t)port;
    size_t len = (size_t)(colon - text);
    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    return keep(text, len, out, err);
}

static od_code parse_unix(const char *text, od_vgi_location *out, od_error *err)
{
    if (text[0] != '/')
        return od_fail(err, OD_E_INVALID, "the location 'unix://%s' is not unix:// and an absolute path", text);
    out->scheme = OD_VGI_UNIX;
    return keep(text, strlen(text), out, err);
}

static od_code parse_http(const char *text, od_vgi_location *out, od_error *err)
{
    size_t len = strlen(text);

    const char *host = strstr(text, "://") + 3;

    if (memchr(host, '@', strcspn(host, "/?#")) != NULL)
        return od_fail(err, OD_E_INVALID, "a worker's URL cannot have a user in it");
    if (host[strcspn(host, "?#")] != '\0')
        return od_fail(err, OD_E_INVALID, "a worker's URL cannot have a query or a fragment");
    while (len > 0 && text[len - 1] == '/')
        len--;
    out->scheme = OD_VGI_HTTP;
    return keep(text, len, out, err);
}

od_code od_vgi_location_parse(const char *text, od_vgi_location *out, od_error *err)
{
    static const char *const unread[] = {"launch:", "oci://", "docker://", "worker:"};

    *out = (od_vgi_location){0};
    while (*text == ' ')
        text++;
    if (*text == '\0')
        return od_fail(err, OD_E_INVALID, "the location of a worker is empty");
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (starts(text, unread[i]))
            return od_fail(err, OD_E_INVALID, "a worker's location cannot start with '%s'", unread[i]);
    if (starts(text, "http://") || starts(text, "https://"))
        return parse_http(text, out, err);
    if (starts(text, "unix://"))
        return parse_unix(text + 7, out, err);
    if (starts(text, "tcp://"))
        return parse_tcp(text + 6, out, err);
    out->scheme = OD_VGI_SUBPROCESS;
    return keep(text, strlen(text), out, err);
}

void od_vgi_location_release(od_vgi_location *location)
{
    od_free(location->target);
    *location = (od_vgi_location){0};
}
