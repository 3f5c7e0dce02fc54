/* A bucket of S3, or of what speaks like it: single requests up to a part's size, else an upload in parts. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "http/fetch.h"
#include "storage/blob/kinds.h"

#include "base/banned.h"

#define PART_BYTES (8U << 20)
#define PARTS_MAX 10000U
#define TIMEOUT_MS 15000
#define BYTES_PER_MS 64 /* what a request is given time for at least */
#define ANSWER_MAX (1U << 20)
#define TRIES 4
#define FIRST_PAUSE_MS 50 /* four times as long before each further try */
#define URL_MAX 1400
#define ID_MAX 1024
#define HASH_TEXT (2 * OD_SHA256_SIZE + 1)

typedef struct {
    od_fetcher *fetcher;
    char *base; /* http://HOST:PORT/BUCKET/PREFIX, with a slash at its end */
    char *credentials;
    char *sign;
    char *session; /* a header; NULL: none */
    int64_t timeout_ms;
    uint64_t part_bytes;
} bucket;

static void s3_close(void *place)
{
    bucket *b = place;

    od_fetcher_free(b->fetcher);
    od_free(b->base);
    od_free(b->credentials);
    od_free(b->sign);
    od_free(b->session);
    od_free(b);
}

/* ---- One request ---- */

static void hash_text(od_slice bytes, char out[HASH_TEXT])
{
    uint8_t digest[OD_SHA256_SIZE];

    od_sha256_of(bytes, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* The text of the first <TAG> of a body; empty: there is none. */
static void tag_text(const od_buf *body, const char *tag, char *out, size_t size)
{
    char open[40];
    const uint8_t *at;
    const uint8_t *end;
    size_t len;

    out[0] = '\0';
    snprintf(open, sizeof open, "<%s>", tag);
    at = body->len > 0 ? memmem(body->data, body->len, open, strlen(open)) : NULL;
    if (at == NULL)
        return;
    at += strlen(open);
    end = memchr(at, '<', (size_t)(body->data + body->len - at));
    len = end != NULL ? (size_t)(end - at) : 0;
    if (len >= size)
        return;
    memcpy(out, at, len);
    out[len] = '\0';
}

static od_code refused(const od_fetched *answer, od_error *err)
{
    char why[80];
    od_code code = OD_E_IO;

    tag_text(&answer->body, "Code", why, sizeof why);
    for (char *c = why; *c != '\0'; c++)
        if (*c < 0x20 || *c > 0x7E)
            *c = '?';
    if (answer->status == 404)
        code = OD_E_NOT_FOUND;
    else if (answer->status == 401 || answer->status == 403)
        code = OD_E_PERMISSION;
    else if (answer->status >= 500 || answer->status == 429 || answer->status == 408)
        code = OD_E_UNAVAILABLE;
    return od_fail(err, code, "the server answers %d%s%s", answer->status, why[0] != '\0' ? " " : "", why);
}

static od_code ask_once(const bucket *b, od_fetch *fetch, const char *hash, od_fetched *out, od_error *err)
{
    size_t n = 0;
    od_code rc;

    fetch->headers[n++] = hash;
    if (fetch->body.len > 0)
        fetch->headers[n++] = "Content-Type: application/octet-stream";
    if (b->session != NULL)
        fetch->headers[n++] = b->session;
    fetch->sign = b->sign;
    fetch->credentials = b->credentials;
    rc = od_fetch_run(b->fetcher, fetch, out, err);
    if (rc == OD_OK && (out->status < 200 || out->status > 299)) {
        rc = refused(out, err);
        od_fetched_release(out);
    }
    return rc;
}

static bool passing(od_code rc)
{
    return rc == OD_E_UNAVAILABLE || rc == OD_E_TIMEOUT || rc == OD_E_CONNECTION_LOST;
}

static od_code something_else(od_error *err)
{
    return od_fail(err, OD_E_CONNECTION_LOST, "the server gave something else than was asked for");
}

/* CHECK (may be NULL) says whether an answer is what was asked for; what is not is asked for again. */
static od_code ask(const bucket *b, const char *method, const char *url, const char *range, od_slice body,
                   size_t max_answer, bool (*check)(const od_fetched *answer, size_t want), size_t want,
                   od_fetched *out, od_error *err)
{
    char hash[HASH_TEXT + 32] = "x-amz-content-sha256: ";
    int pause = FIRST_PAUSE_MS;
    od_code rc = OD_OK;

    hash_text(body, hash + strlen(hash));
    for (int i = 0; i < TRIES; i++) {
        od_fetch fetch = {.method = method, .url = url, .range = range, .body = body, .max_answer = max_answer};

        if (i > 0) {
            poll(NULL, 0, pause);
            pause *= 4;
        }
        fetch.timeout_ms = b->timeout_ms + (int64_t)((body.len + want) / BYTES_PER_MS);
        rc = ask_once(b, &fetch, hash, out, err);
        if (rc == OD_E_TOO_LARGE)
            rc = something_else(err);
        if (rc == OD_OK && check != NULL && !check(out, want)) {
            od_fetched_release(out);
            rc = something_else(err);
        }
        if (!passing(rc))
            break;
    }
    return rc;
}

static bool url_of(const bucket *b, const char *name, const char *query, char out[URL_MAX], od_error *err)
{
    if (snprintf(out, URL_MAX, "%s%s%s", b->base, name, query) < URL_MAX)
        return true;
    (void)od_fail(err, OD_E_INVALID, "its address is too long");
    return false;
}

/* ---- Reading ---- */

static bool is_range(const od_fetched *answer, size_t want)
{
    return answer->status == 206 && answer->body.len == want;
}

static od_code s3_read(void *place, const char *name, uint64_t at, void *out, size_t len, od_error *err)
{
    const bucket *b = place;
    char url[URL_MAX];
    char range[64];
    od_fetched answer;
    od_code rc;

    if (!url_of(b, name, "", url, err))
        return OD_E_INVALID;
    snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)at, (unsigned long long)(at + len - 1));
    rc = ask(b, "GET", url, range, (od_slice){0}, len > ANSWER_MAX ? len : ANSWER_MAX, is_range, len, &answer, err);
    if (rc == OD_OK) {
        memcpy(out, answer.body.data, len);
        od_fetched_release(&answer);
    }
    return rc;
}

static bool has_length(const od_fetched *answer, size_t want)
{
    (void)want;
    return answer->length >= 0;
}

static od_code s3_size(void *place, const char *name, uint64_t *out, od_error *err)
{
    const bucket *b = place;
    char url[URL_MAX];
    od_fetched answer;
    od_code rc;

    if (!url_of(b, name, "", url, err))
        return OD_E_INVALID;
    rc = ask(b, "HEAD", url, NULL, (od_slice){0}, ANSWER_MAX, has_length, 0, &answer, err);
    if (rc == OD_OK) {
        *out = (uint64_t)answer.length;
        od_fetched_release(&answer);
    }
    return rc;
}

static od_code s3_remove(void *place, const char *name, od_error *err)
{
    const bucket *b = place;
    char url[URL_MAX];
    od_fetched answer;
    od_code rc;

    if (!url_of(b, name, "", url, err))
        return OD_E_INVALID;
    rc = ask(b, "DELETE", url, NULL, (od_slice){0}, ANSWER_MAX, NULL, 0, &answer, err);
    if (rc == OD_OK)
        od_fetched_release(&answer);
    return rc == OD_E_NOT_FOUND ? OD_OK : rc;
}

/* ---- Writing ---- */

typedef struct {
    const bucket *b;
    const char *name;
    od_blob_source source;
    void *arg;
    uint64_t size;
    uint8_t *bytes; /* of a part */
    char id[ID_MAX];
    od_buf parts; /* what the last request lists */
} upload;

static od_code put_piece(const upload *u, const char *query, uint64_t at, size_t len, od_fetched *answer, od_error *err)
{
    char url[URL_MAX];
    od_code rc = u->source(u->arg, at, u->bytes, len, err);

    if (rc != OD_OK)
        return rc;
    if (!url_of(u->b, u->name, query, url, err))
        return OD_E_INVALID;
    return ask(u->b, "PUT", url, NULL, od_slice_of(u->bytes, len), ANSWER_MAX, NULL, 0, answer, err);
}

/* It stands in an address and in XML: only what needs no quoting in either. */
static bool plain(const char *text)
{
    return text[0] != '\0' &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-~") == strlen(text);
}

static od_code begin_parts(upload *u, od_error *err)
{
    char url[URL_MAX];
    od_fetched answer;
    od_code rc;

    if (!url_of(u->b, u->name, "?uploads=", url, err))
        return OD_E_INVALID;
    rc = ask(u->b, "POST", url, NULL, (od_slice){0}, ANSWER_MAX, NULL, 0, &answer, err);
    if (rc != OD_OK)
        return rc;
    tag_text(&answer.body, "UploadId", u->id, sizeof u->id);
    od_fetched_release(&answer);
    if (!plain(u->id)) {
        u->id[0] = '\0';
        return od_fail(err, OD_E_PROTOCOL, "the server gave no upload that can be named");
    }
    return OD_OK;
}

static od_code put_part(upload *u, unsigned number, uint64_t at, size_t len, od_error *err)
{
    char query[ID_MAX + 60];
    od_fetched answer;
    od_code rc;

    snprintf(query, sizeof query, "?partNumber=%u&uploadId=%s", number, u->id);
    rc = put_piece(u, query, at, len, &answer, err);
    if (rc != OD_OK)
        return rc;
    if (answer.etag[0] == '\0' || strpbrk(answer.etag, "<>&") != NULL)
        rc = od_fail(err, OD_E_PROTOCOL, "the server gave no tag for a part");
    else
        rc = od_buf_printf(&u->parts, err, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", number,
                           answer.etag);
    od_fetched_release(&answer);
    return rc;
}

/* An error of this request comes after a head that says 200. */
static bool is_complete(const od_fetched *answer, size_t want)
{
    (void)want;
    return answer->body.len > 0 &&
           memmem(answer->body.data, answer->body.len, "CompleteMultipartUploadResult", 29) != NULL;
}

static od_code end_parts(upload *u, od_error *err)
{
    char url[URL_MAX];
    char query[ID_MAX + 20];
    od_fetched answer;
    od_code rc = od_buf_printf(&u->parts, err, "</CompleteMultipartUpload>");

    snprintf(query, sizeof query, "?uploadId=%s", u->id);
    if (rc == OD_OK && !url_of(u->b, u->name, query, url, err))
        rc = OD_E_INVALID;
    if (rc == OD_OK)
        rc = ask(u->b, "POST", url, NULL, od_slice_of(u->parts.data, u->parts.len), ANSWER_MAX, is_complete, 0, &answer,
                 err);
    if (rc == OD_OK)
        od_fetched_release(&answer);
    return rc;
}

/* What the server keeps of it goes. */
static void give_up(const upload *u)
{
    char url[URL_MAX];
    char query[ID_MAX + 20];
    od_fetched answer;

    snprintf(query, sizeof query, "?uploadId=%s", u->id);
    if (url_of(u->b, u->name, query, url, NULL) &&
        ask(u->b, "DELETE", url, NULL, (od_slice){0}, ANSWER_MAX, NULL, 0, &answer, NULL) == OD_OK)
        od_fetched_release(&answer);
}

static od_code put_parts(upload *u, uint64_t part, od_error *err)
{
    unsigned number = 1;
    od_code rc = begin_parts(u, err);

    if (rc == OD_OK)
        rc = od_buf_printf(&u->parts, err, "<CompleteMultipartUpload>");
    for (uint64_t at = 0; rc == OD_OK && at < u->size; at += part)
        rc = put_part(u, number++, at, u->size - at < part ? (size_t)(u->size - at) : (size_t)part, err);
    if (rc == OD_OK)
        rc = end_parts(u, err);
    if (rc != OD_OK && u->id[0] != '\0')
        give_up(u);
    return rc;
}

static od_code s3_put(void *place, const char *name, uint64_t size, od_blob_source source, void *arg, od_error *err)
{
    const bucket *b = place;
    upload u = {.b = b, .name = name, .source = source, .arg = arg, .size = size};
    uint64_t part = b->part_bytes;
    od_fetched answer;
    od_code rc;

    while (size / part >= PARTS_MAX)
        part *= 2;
    u.bytes = od_alloc(size < part ? (size_t)size : (size_t)part);
    if (u.bytes == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a part");
    if (size > part) {
        rc = put_parts(&u, part, err);
    } else {
        rc = put_piece(&u, "", 0, (size_t)size, &answer, err);
        if (rc == OD_OK)
            od_fetched_release(&answer);
    }
    od_free(u.bytes);
    od_buf_release(&u.parts);
    return rc;
}

const blob_kind blob_s3 = {
    .put = s3_put,
    .read = s3_read,
    .size = s3_size,
    .remove = s3_remove,
    .close = s3_close,
};

/* ---- Where it is ---- */

static char *text(const char *fmt, ...) OD_PRINTF(1, 2);
static char *text(const char *fmt, ...)
{
    char line[URL_MAX];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    return len >= 0 && len < URL_MAX ? od_strdup(line) : NULL;
}

/* http://HOST/BUCKET/PREFIX/, or http://BUCKET.HOST/PREFIX/. */
static char *address(const od_blob_place *place, const char *region)
{
    const char *path = place->url + 5;
    int bucket_len = (int)strcspn(path, "/");
    const char *prefix = path[bucket_len] == '/' ? path + bucket_len + 1 : "";
    int prefix_len = (int)strlen(prefix);
    char host[300];
    const char *scheme_end;
    int scheme;

    while (prefix_len > 0 && prefix[prefix_len - 1] == '/')
        prefix_len--;
    if (place->endpoint != NULL)
        snprintf(host, sizeof host, "%s", place->endpoint);
    else
        snprintf(host, sizeof host, "https://s3.%s.amazonaws.com", region);
    for (size_t len = strlen(host); len > 0 && host[len - 1] == '/'; len--)
        host[len - 1] = '\0';
    scheme_end = strstr(host, "://");
    if (scheme_end == NULL)
        return NULL;
    scheme = (int)(scheme_end + 3 - host);
    if (place->virtual_host || place->endpoint == NULL)
        return text("%.*s%.*s.%s/%.*s%s", scheme, host, bucket_len, path, host + scheme, prefix_len, prefix,
                    prefix_len > 0 ? "/" : "");
    return text("%s/%.*s/%.*s%s", host, bucket_len, path, prefix_len, prefix, prefix_len > 0 ? "/" : "");
}

static od_code check(const od_blob_place *place, od_error *err)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
    const char *path = place->url + 5;

    if (path[0] == '\0' || path[0] == '/' || strspn(path, allowed) != strlen(path))
        return od_fail(err, OD_E_INVALID,
                       "'%s' is no place in S3: it is s3://BUCKET/PREFIX, of letters, digits, ., _, -", place->url);
    if (place->endpoint != NULL && strncmp(place->endpoint, "http://", 7) != 0 &&
        strncmp(place->endpoint, "https://", 8) != 0)
        return od_fail(err, OD_E_INVALID, "an endpoint of S3 begins with http:// or https://");
    if (place->endpoint != NULL && strchr(place->endpoint, '@') != NULL)
        return od_fail(err, OD_E_INVALID, "an endpoint of S3 has no user in it");
    if (place->key == NULL || place->secret == NULL)
        return od_fail(err, OD_E_INVALID, "'%s' needs an access key and its secret", place->url);
    return OD_OK;
}

od_code blob_s3_open(const od_blob_place *place, void **out, od_error *err)
{
    const char *region = place->region != NULL ? place->region : "us-east-1";
    bucket *b;
    od_code rc = check(place, err);

    if (rc != OD_OK)
        return rc;
    b = od_calloc(1, sizeof *b);
    if (b == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for an object store");
    b->base = address(place, region);
    b->credentials = text("%s:%s", place->key, place->secret);
    b->sign = text("aws:amz:%s:s3", region);
    if (place->session != NULL)
        b->session = text("x-amz-security-token: %s", place->session);
    b->timeout_ms = place->timeout_ms > 0 ? place->timeout_ms : TIMEOUT_MS;
    b->part_bytes = place->part_bytes > 0 ? place->part_bytes : PART_BYTES;
    if (b->base == NULL || b->credentials == NULL || b->sign == NULL || (place->session != NULL && b->session == NULL))
        rc = od_fail(err, OD_E_INVALID, "the settings of '%s' are too long", place->url);
    if (rc == OD_OK)
        rc = od_fetcher_create(&b->fetcher, err);
    if (rc != OD_OK) {
        s3_close(b);
        return rc;
    }
    *out = b;
    return OD_OK;
}
