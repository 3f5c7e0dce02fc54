/* What the console makes of a request: the head's cookie, credential and origin, and the form after it, from any bytes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "query/console/form.h"
#include "query/console/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(od_slice part, const uint8_t *data, size_t size)
{
    if (part.len > 0 && (part.data < data || part.data + part.len > data + size))
        __builtin_trap();
}

static void check_head(const od_http_head *head, const uint8_t *data)
{
    char name[GUARD_COOKIE_NAME];
    od_slice token;

    guard_cookie_name(head, name);
    if (strlen(name) >= sizeof name || strspn(name, "openduck_csl0123456789") != strlen(name))
        __builtin_trap();
    check_inside(guard_cookie(head), data, head->len);
    if (!guard_authorization(head, &token) && token.len > 0)
        __builtin_trap();
    check_inside(token, data, head->len);
    if (guard_same_origin(head) && od_http_head_value(head, "origin").len <= od_http_head_value(head, "host").len)
        __builtin_trap();
}

static void check_form(od_slice body)
{
    char value[20];

    memset(value, 'x', sizeof value);
    if (form_value(body, "token", value, sizeof value) && memchr(value, '\0', sizeof value) == NULL)
        __builtin_trap();
}

/* Whatever a text holds, its JSON is UTF-8, in quotes, and without control characters. */
static void check_json(od_slice text)
{
    od_buf out = {0};
    od_json json = {.out = &out};

    od_json_text(&json, text);
    if (json.rc == OD_OK) {
        if (out.len < 2 || out.data[0] != '"' || out.data[out.len - 1] != '"' ||
            !od_utf8_valid(od_slice_of(out.data, out.len)))
            __builtin_trap();
        for (size_t i = 0; i < out.len; i++) {
            if (out.data[i] < ' ' || out.data[i] == 0x7F)
                __builtin_trap();
        }
    }
    od_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    od_http_head head;

    if (od_http_parse(od_slice_of(data, size), 20000, &head) == 200) {
        check_head(&head, data);
        check_form(od_slice_of(data + head.len, size - head.len));
    }
    check_form(od_slice_of(data, size));
    check_json(od_slice_of(data, size));
    return 0;
}
