#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "query/rpc.h"
#include "query/rpc/socket.h"
#include "base/banned.h"

enum { DEFAULT_PORT = 7878 };

/* What messages may quote of TEXT: printable ASCII without an '@', which could end a password. */
static bool quotable(od_slice text)
{
    if (text.len > 300)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < ' ' || text.data[i] > '~' || text.data[i] == '@')
            return false;
    return true;
}

static od_code refuse(od_slice text, const char *why, od_error *err)
{
    if (quotable(text))
        return od_fail(err, OD_E_INVALID, "invalid endpoint '%.*s': %s", (int)text.len, (const char *)text.data, why);
    return od_fail(err, OD_E_INVALID, "invalid endpoint: %s", why);
}

static bool starts_with(od_slice text, const char *prefix)
{
    size_t len = strlen(prefix);
    return text.len >= len && strncasecmp((const char *)text.data, prefix, len) == 0;
}

static od_slice skip(od_slice text, size_t count)
{
    return od_slice_of(text.data + count, text.len - count);
}

/* Where C first is in TEXT, or its length. */
static size_t find(od_slice text, char c)
{
    const uint8_t *at = text.len ? memchr(text.data, c, text.len) : NULL;
    return at ? (size_t)(at - text.data) : text.len;
}

static bool parse_port(od_slice digits, bool any_port, uint16_t *port)
{
    unsigned value = 0;

    if (digits.len == 0 || digits.len > 5)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return false;
        value = value * 10 + (unsigned)(digits.data[i] - '0');
    }
    if (value > 65535 || (value == 0 && !any_port))
        return false;
    *port = (uint16_t)value;
    return true;
}

static bool host_char(uint8_t c, bool bracketed)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-')
        return true;
    return bracketed ? c == ':' || c == '%' : c == '_';
}

static const char *parse_host(od_slice host, bool bracketed, od_endpoint *out)
{
    if (host.len == 0)
        return "the host is missing";
    if (host.len >= sizeof out->host)
        return "the host is too long";
    for (size_t i = 0; i < host.len; i++) {
        if (!bracketed && host.data[i] == ':')
            return "an IPv6 address needs brackets: [::1]:7878";
        if (!host_char(host.data[i], bracketed))
            return "the host has a character that is not allowed";
    }
    memcpy(out->host, host.data, host.len);
    out->host[host.len] = '\0';
    return NULL;
}

/* Splits HOST[:PORT]. NULL, or what is wrong. */
static const char *parse_authority(od_slice text, bool any_port, od_endpoint *out)
{
    bool bracketed = text.len > 0 && text.data[0] == '[';
    od_slice host, rest;
    const char *why;

    if (bracketed) {
        size_t close = find(text, ']');
        if (close == text.len)
            return "the closing bracket is missing";
        host = od_slice_of(text.data + 1, close - 1);
        rest = skip(text, close + 1);
    } else {
        size_t colon = find(text, ':');
        bool another = colon < text.len && find(skip(text, colon + 1), ':') < text.len - colon - 1;
        host = another ? text : od_slice_of(text.data, colon);
        rest = skip(text, host.len);
    }
    why = parse_host(host, bracketed, out);
    if (why)
        return why;
    out->port = DEFAULT_PORT;
    if (rest.len > 0 && (rest.data[0] != ':' || !parse_port(skip(rest, 1), any_port, &out->port)))
        return any_port ? "the port must be a number from 0 to 65535" : "the port must be a number from 1 to 65535";
    snprintf(out->authority, sizeof out->authority, bracketed ? "[%s]:%u" : "%s:%u", out->host, out->port);
    return NULL;
}

static od_code parse(od_slice text, bool any_port, od_endpoint *out, od_error *err)
{
    od_slice rest = text;
    od_endpoint made = {0};
    const char *why;
    size_t slash;

    made.tls = starts_with(text, "https://");
    if (made.tls || starts_with(text, "http://"))
        rest = skip(text, made.tls ? 8 : 7);
    slash = find(rest, '/');
    if (slash < rest.len) {
        if (slash + 1 < rest.len)
            return refuse(text,
                          slash > 0 && rest.data[slash - 1] == ':' ? "the scheme must be http:// or https://"
                                                                   : "it must not have a path",
                          err);
        rest.len = slash;
    }
    if (find(rest, '@') < rest.len)
        return refuse(text, "it must not contain user information", err);
    why = parse_authority(rest, any_port, &made);
    if (why)
        return refuse(text, why, err);
    *out = made;
    return OD_OK;
}

od_code od_endpoint_parse(od_slice text, od_endpoint *out, od_error *err)
{
    return parse(text, false, out, err);
}

od_code od_listen_parse(od_slice text, od_endpoint *out, od_error *err)
{
    od_endpoint made;
    od_code rc = parse(text, true, &made, err);

    if (rc == OD_OK && made.tls)
        return refuse(text, "an address to listen on has no https://; a certificate makes it speak TLS", err);
    if (rc == OD_OK)
        *out = made;
    return rc;
}
