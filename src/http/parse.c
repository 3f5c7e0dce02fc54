#include "http/parse.h"

#include <string.h>
#include <strings.h>

#include "base/banned.h"

enum { MORE = 0, FINE = 200, BAD = 400, TOO_LONG = 413, URI_TOO_LONG = 414, HEAD_TOO_LARGE = 431 };
enum { EXPECTATION_FAILED = 417, NOT_IMPLEMENTED = 501, VERSION_NOT_SUPPORTED = 505 };

static bool is_token(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool all_tokens(od_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_token(text.data[i]))
            return false;
    }
    return text.len > 0;
}

static bool same(od_slice text, const char *other)
{
    return text.len == strlen(other) && (text.len == 0 || strncasecmp((const char *)text.data, other, text.len) == 0);
}

static od_slice trim(od_slice text)
{
    while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Takes one line off *rest, without its CRLF. False: it is not whole, or *bad: a line feed or carriage return is bare. */
static bool take_line(od_slice *rest, od_slice *line, bool *bad)
{
    for (size_t i = 0; i < rest->len; i++) {
        if (rest->data[i] == '\n') {
            *bad = true;
            return false;
        }
        if (rest->data[i] != '\r')
            continue;
        if (i + 1 == rest->len)
            return false;
        *bad = rest->data[i + 1] != '\n';
        *line = od_slice_of(rest->data, i);
        *rest = od_slice_of(rest->data + i + 2, rest->len - i - 2);
        return !*bad;
    }
    return false;
}

/* Takes what comes before the next blank. */
static bool take_word(od_slice *line, od_slice *word)
{
    const uint8_t *blank = line->len ? memchr(line->data, ' ', line->len) : NULL;

    if (!blank)
        return false;
    *word = od_slice_of(line->data, (size_t)(blank - line->data));
    *line = od_slice_of(blank + 1, line->len - word->len - 1);
    return true;
}

static int parse_request_line(od_slice line, od_http_head *out)
{
    const uint8_t *mark;
    od_slice target;

    if (!take_word(&line, &out->method) || !all_tokens(out->method) || !take_word(&line, &target))
        return BAD;
    if (target.len == 0 || target.data[0] != '/')
        return BAD;
    for (size_t i = 0; i < target.len; i++) {
        if (target.data[i] <= ' ' || target.data[i] > '~' || target.data[i] == '#')
            return BAD;
    }
    mark = memchr(target.data, '?', target.len);
    out->path = mark ? od_slice_of(target.data, (size_t)(mark - target.data)) : target;
    out->query =
        mark ? od_slice_of(mark + 1, target.len - out->path.len - 1) : od_slice_of(target.data + target.len, 0);
    if (line.len != 8 || memcmp(line.data, "HTTP/", 5) != 0)
        return BAD;
    if (line.data[5] != '1' || line.data[6] != '.' || (line.data[7] != '0' && line.data[7] != '1'))
        return VERSION_NOT_SUPPORTED;
    out->keep_alive = line.data[7] == '1';
    return FINE;
}

static int parse_header(od_slice line, od_http_head *out)
{
    const uint8_t *colon = memchr(line.data, ':', line.len);
    od_http_header *h;

    if (!colon)
        return BAD;
    if (out->header_count == OD_HTTP_HEADERS_MAX)
        return HEAD_TOO_LARGE;
    h = &out->headers[out->header_count];
    h->name = od_slice_of(line.data, (size_t)(colon - line.data));
    h->value = trim(od_slice_of(colon + 1, line.len - h->name.len - 1));
    if (!all_tokens(h->name))
        return BAD;
    for (size_t i = 0; i < h->value.len; i++) {
        if ((h->value.data[i] < ' ' && h->value.data[i] != '\t') || h->value.data[i] == 0x7F)
            return BAD;
    }
    out->header_count++;
    return FINE;
}

static size_t count_of(const od_http_head *head, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < head->header_count; i++)
        n += same(head->headers[i].name, name);
    return n;
}

static int parse_length(const od_http_head *head, size_t max_body, size_t *out)
{
    od_slice text = od_http_head_value(head, "content-length");
    size_t value = 0;

    *out = 0;
    if (count_of(head, "content-length") == 0)
        return FINE;
    if (count_of(head, "content-length") > 1 || text.len == 0 || text.len > 19)
        return BAD;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return BAD;
        value = value * 10 + (size_t)(text.data[i] - '0');
    }
    *out = value;
    return value > max_body ? TOO_LONG : FINE;
}

/* What the headers say together. */
static int check(od_http_head *head, size_t max_body)
{
    if (count_of(head, "host") > 1 || (head->keep_alive && count_of(head, "host") == 0))
        return BAD;
    if (count_of(head, "transfer-encoding") > 0)
        return count_of(head, "content-length") > 0 ? BAD : NOT_IMPLEMENTED;
    if (count_of(head, "expect") > 0)
        return EXPECTATION_FAILED;
    if (od_http_head_has(head, "connection", "close"))
        head->keep_alive = false;
    return parse_length(head, max_body, &head->content_length);
}

int od_http_parse(od_slice bytes, size_t max_body, od_http_head *out)
{
    od_slice rest = od_slice_of(bytes.data, bytes.len < OD_HTTP_HEAD_MAX ? bytes.len : OD_HTTP_HEAD_MAX), line;
    bool bad = false, first = true;
    int status;

    *out = (od_http_head){0};
    while (take_line(&rest, &line, &bad)) {
        if (first)
            status = parse_request_line(line, out);
        else if (line.len > 0)
            status = parse_header(line, out);
        else
            break;
        if (status != FINE)
            return status;
        first = false;
    }
    if (bad)
        return BAD;
    /* The loop ends with a whole empty line, or where the bytes do. */
    if (first || rest.data - bytes.data < 4 || memcmp(rest.data - 4, "\r\n\r\n", 4) != 0) {
        if (bytes.len >= OD_HTTP_HEAD_MAX)
            return first ? URI_TOO_LONG : HEAD_TOO_LARGE;
        return MORE;
    }
    out->len = (size_t)(rest.data - bytes.data);
    return check(out, max_body);
}

od_slice od_http_head_value(const od_http_head *head, const char *name)
{
    for (size_t i = 0; i < head->header_count; i++) {
        if (same(head->headers[i].name, name))
            return head->headers[i].value;
    }
    return od_slice_of("", 0);
}

bool od_http_head_has(const od_http_head *head, const char *name, const char *token)
{
    for (size_t i = 0; i < head->header_count; i++) {
        od_slice rest = head->headers[i].value;

        if (!same(head->headers[i].name, name))
            continue;
        while (rest.len > 0) {
            const uint8_t *comma = memchr(rest.data, ',', rest.len);
            size_t len = comma ? (size_t)(comma - rest.data) : rest.len;

            if (same(trim(od_slice_of(rest.data, len)), token))
                return true;
            rest = comma ? od_slice_of(comma + 1, rest.len - len - 1) : od_slice_of(rest.data, 0);
        }
    }
    return false;
}
