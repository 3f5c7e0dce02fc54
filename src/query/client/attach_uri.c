#include "query/attach_uri.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"

#include "base/banned.h"

/* The length of the UTF-8 sequence at the head of TEXT, 0 if it is none. */
static size_t utf8_length(const uint8_t *text, size_t left)
{
    size_t need;
    uint32_t rune;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    if (text[0] < 0x80)
        return 1;
    if (text[0] >= 0xC2 && text[0] < 0xE0)
        need = 2;
    else if (text[0] >= 0xE0 && text[0] < 0xF0)
        need = 3;
    else if (text[0] >= 0xF0 && text[0] < 0xF5)
        need = 4;
    else
        return 0;
    if (left < need)
        return 0;
    rune = text[0] & (0xFFU >> (need + 1));
    for (size_t i = 1; i < need; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        rune = rune << 6 | (text[i] & 0x3FU);
    }
    if (rune < least[need] || rune > 0x10FFFF || (rune >= 0xD800 && rune <= 0xDFFF))
        return 0;
    return need;
}

static od_code check_text(const uint8_t *text, size_t len, const char *what, od_error *err)
{
    for (size_t i = 0; i < len;) {
        size_t step = utf8_length(text + i, len - i);

        if (step == 0)
            return od_fail(err, OD_E_INVALID, "%s is not valid UTF-8", what);
        if (text[i] < 0x20 || text[i] == 0x7F)
            return od_fail(err, OD_E_INVALID, "%s holds a control character", what);
        i += step;
    }
    return OD_OK;
}

/* Decodes TEXT into a NUL-terminated *out. WHAT names it in errors, which never repeat it. */
static od_code decode(od_slice text, const char *what, char **out, od_error *err)
{
    uint8_t *to;
    size_t len = 0;
    od_code rc;

    to = od_alloc(text.len + 1);
    if (to == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '%') {
            bool whole = text.len - i > 2;
            int high = whole ? od_hex_value(text.data[i + 1]) : -1;
            int low = whole ? od_hex_value(text.data[i + 2]) : -1;

            if (high < 0 || low < 0) {
                rc = od_fail(err, OD_E_INVALID, "%s has a bad percent escape; a plain '%%' is written '%%25'", what);
                goto out;
            }
            to[len++] = (uint8_t)(high << 4 | low);
            i += 2;
        } else {
            to[len++] = text.data[i];
        }
    }
    rc = check_text(to, len, what, err);
    if (rc != OD_OK)
        goto out;
    to[len] = 0;
    *out = (char *)to;
    return OD_OK;

out:
    /* It may be a token. */
    memset(to, 0, text.len + 1);
    od_free(to);
    return rc;
}

/* Decodes a value into *slot, which is NULL until its key has come once. */
static od_code take_text(od_slice value, const char *key, char **slot, od_error *err)
{
    char what[40];

    if (*slot != NULL)
        return od_fail(err, OD_E_INVALID, "parameter '%s' is given twice", key);
    (void)snprintf(what, sizeof(what), "the value of '%s'", key);
    return decode(value, what, slot, err);
}

static od_code take_token(od_slice value, od_attach_uri *uri, od_error *err)
{
    char *plain = NULL;
    size_t len;
    od_code rc;

    if (uri->has_token)
        return od_fail(err, OD_E_INVALID, "parameter 'token' is given twice");
    rc = decode(value, "the value of 'token'", &plain, err);
    if (rc != OD_OK)
        return rc;
    len = strlen(plain);
    uri->has_token = true;
    rc = od_secret_set(&uri->token, od_slice_of(plain, len), err);
    memset(plain, 0, len);
    od_free(plain);
    return rc;
}

static bool key_is(od_slice key, const char *name)
{
    return key.len == strlen(name) && strncasecmp((const char *)key.data, name, key.len) == 0;
}

/* Names a key that is not known. Its text is shown only if it looks like one: what stands before the "=" may be the
 * tail of a token that holds a plain "&". */
static od_code unknown_key(od_slice key, od_error *err)
{
    bool shown = key.len > 0 && key.len <= 32;

    for (size_t i = 0; i < key.len && shown; i++)
        shown = (key.data[i] >= 'a' && key.data[i] <= 'z') || (key.data[i] >= 'A' && key.data[i] <= 'Z') ||
                key.data[i] == '_';
    if (!shown)
        return od_fail(err, OD_E_INVALID,
                       "a parameter has no known name; endpoint, token, secret and snapshot are known "
                       "(inside a value, '&' is written '%%26')");
    return od_fail(err, OD_E_INVALID, "unknown parameter '%.*s'; endpoint, token, secret and snapshot are known",
                   (int)key.len, (const char *)key.data);
}

static od_code take_pair(od_slice pair, od_attach_uri *uri, od_error *err)
{
    const uint8_t *equals = pair.len > 0 ? memchr(pair.data, '=', pair.len) : NULL;
    od_slice key = pair;
    od_slice value;

    if (equals == NULL)
        return od_fail(err, OD_E_INVALID, "a parameter lacks '='; parameters are KEY=VALUE, joined by '&'");
    key.len = (size_t)(equals - pair.data);
    value = od_slice_of(equals + 1, pair.len - key.len - 1);
    if (key_is(key, "endpoint"))
        return take_text(value, "endpoint", &uri->endpoint, err);
    if (key_is(key, "secret"))
        return take_text(value, "secret", &uri->secret, err);
    if (key_is(key, "snapshot"))
        return take_text(value, "snapshot", &uri->snapshot, err);
    if (key_is(key, "token"))
        return take_token(value, uri, err);
    return unknown_key(key, err);
}

od_code od_attach_uri_parse(od_slice text, od_attach_uri *out, od_error *err)
{
    od_attach_uri uri = {0};
    const uint8_t *question = text.len > 0 ? memchr(text.data, '?', text.len) : NULL;
    size_t name_len = question != NULL ? (size_t)(question - text.data) : text.len;
    od_slice rest = {0};
    od_code rc;

    memset(out, 0, sizeof(*out));
    if (text.len > OD_ATTACH_URI_MAX)
        return od_fail(err, OD_E_TOO_LARGE, "an attach text of %zu bytes is too long", text.len);
    OD_TRY(decode(od_slice_of(text.data, name_len), "the database name", &uri.database, err));
    if (question != NULL)
        rest = od_slice_of(question + 1, text.len - name_len - 1);
    while (rest.len > 0) {
        const uint8_t *amp = memchr(rest.data, '&', rest.len);
        size_t len = amp != NULL ? (size_t)(amp - rest.data) : rest.len;

        OD_TRY(take_pair(od_slice_of(rest.data, len), &uri, err));
        if (amp != NULL && len + 1 == rest.len) {
            rc = od_fail(err, OD_E_INVALID, "a parameter is missing after the last '&'");
            goto out;
        }
        rest = amp != NULL ? od_slice_of(amp + 1, rest.len - len - 1) : (od_slice){0};
    }
    *out = uri;
    return OD_OK;

out:
    od_attach_uri_release(&uri);
    return rc;
}

void od_attach_uri_release(od_attach_uri *uri)
{
    od_free(uri->database);
    od_free(uri->endpoint);
    od_free(uri->secret);
    od_free(uri->snapshot);
    od_secret_release(&uri->token);
    memset(uri, 0, sizeof(*uri));
}
