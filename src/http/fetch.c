#include "http/fetch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "base/alloc.h"

#include "base/banned.h"

#define CONNECT_MS 5000
#define IDLE_MAX 8 /* handles that are kept, each with its connections */

/* Every function of libcurl that is used here. */
typedef struct {
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_reset) *reset;
    CURLcode (*setopt)(CURL *curl, CURLoption option, ...);
    __typeof__(curl_easy_perform) *perform;
    CURLcode (*getinfo)(CURL *curl, CURLINFO info, ...);
    __typeof__(curl_easy_cleanup) *cleanup;
    __typeof__(curl_easy_strerror) *text;
    __typeof__(curl_slist_append) *append;
    __typeof__(curl_slist_free_all) *free_all;
} curl_library;

#define FUNCTION(member, name)               \
    {                                        \
        name, offsetof(curl_library, member) \
    }
static const struct {
    const char *name;
    size_t at;
} functions[] = {
    FUNCTION(global_init, "curl_global_init"), FUNCTION(init, "curl_easy_init"),
    FUNCTION(reset, "curl_easy_reset"),        FUNCTION(setopt, "curl_easy_setopt"),
    FUNCTION(perform, "curl_easy_perform"),    FUNCTION(getinfo, "curl_easy_getinfo"),
    FUNCTION(cleanup, "curl_easy_cleanup"),    FUNCTION(text, "curl_easy_strerror"),
    FUNCTION(append, "curl_slist_append"),     FUNCTION(free_all, "curl_slist_free_all"),
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static curl_library lib;
static bool loaded;

static void load(void)
{
    void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    bool whole = handle != NULL;

    for (size_t i = 0; whole && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);

        whole = found != NULL;
        memcpy((char *)&lib + functions[i].at, &found, sizeof found); /* POSIX lets it hold a function */
    }
    loaded = whole && lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct od_fetcher {
    pthread_mutex_t lock; /* the rest */
    CURL *idle[IDLE_MAX];
    size_t count;
};

od_code od_fetcher_create(od_fetcher **out, od_error *err)
{
    od_fetcher *fetcher;

    pthread_once(&once, load);
    if (!loaded)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "requests to others need libcurl.so.4, which is not installed here");
    fetcher = od_calloc(1, sizeof *fetcher);
    if (fetcher == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for requests");
    pthread_mutex_init(&fetcher->lock, NULL);
    *out = fetcher;
    return OD_OK;
}

void od_fetcher_free(od_fetcher *fetcher)
{
    if (fetcher == NULL)
        return;
    for (size_t i = 0; i < fetcher->count; i++)
        lib.cleanup(fetcher->idle[i]);
    pthread_mutex_destroy(&fetcher->lock);
    od_free(fetcher);
}

static CURL *take(od_fetcher *fetcher)
{
    CURL *curl = NULL;

    pthread_mutex_lock(&fetcher->lock);
    if (fetcher->count > 0)
        curl = fetcher->idle[--fetcher->count];
    pthread_mutex_unlock(&fetcher->lock);
    return curl != NULL ? curl : lib.init();
}

static void give_back(od_fetcher *fetcher, CURL *curl)
{
    bool kept = false;

    lib.reset(curl);
    pthread_mutex_lock(&fetcher->lock);
    if (fetcher->count < IDLE_MAX) {
        fetcher->idle[fetcher->count++] = curl;
        kept = true;
    }
    pthread_mutex_unlock(&fetcher->lock);
    if (!kept)
        lib.cleanup(curl);
}

typedef struct {
    od_fetched *out;
    size_t max;
    bool too_large;
} sink;

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    sink *to = arg;
    size_t len = size * count;

    if (len > to->max - to->out->body.len) {
        to->too_large = true;
        return 0;
    }
    return od_buf_append(&to->out->body, data, len, NULL) == OD_OK ? len : 0;
}

/* The value of the header NAME ("etag:"), if that is what LINE is and it fits. */
static void keep_header(od_slice line, const char *name, char *out, size_t size)
{
    const char *text = (const char *)line.data;
    size_t at = strlen(name), end = line.len;

    if (end <= at || strncasecmp(text, name, at) != 0)
        return;
    while (at < end && text[at] == ' ')
        at++;
    while (end > at && (text[end - 1] == '\r' || text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    if (end - at < size) {
        memcpy(out, text + at, end - at);
        out[end - at] = '\0';
    }
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    od_fetched *out = arg;
    od_slice line = od_slice_of(data, size * count);

    keep_header(line, "etag:", out->etag, sizeof out->etag);
    keep_header(line, "content-type:", out->type, sizeof out->type);
    return line.len;
}

static int on_progress(void *arg, curl_off_t down, curl_off_t downed, curl_off_t up, curl_off_t upped)
{
    const od_fetch *fetch = arg;

    (void)down;
    (void)downed;
    (void)up;
    (void)upped;
    return fetch->stop(fetch->stop_arg) ? 1 : 0;
}

static bool set_up(CURL *curl, const od_fetch *fetch, struct curl_slist *headers, sink *to, char *why)
{
    bool sends = strcmp(fetch->method, "PUT") == 0 || strcmp(fetch->method, "POST") == 0;
    bool ok = lib.setopt(curl, CURLOPT_URL, fetch->url) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
              lib.setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_ERRORBUFFER, why) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_TIMEOUT_MS, (long)fetch->timeout_ms) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_WRITEDATA, to) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_HEADERDATA, to->out) == CURLE_OK &&
              lib.setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK;

    if (ok && sends)
        ok =
            lib.setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)fetch->body.len) == CURLE_OK &&
            lib.setopt(curl, CURLOPT_POSTFIELDS, fetch->body.len > 0 ? (const char *)fetch->body.data : "") == CURLE_OK;
    if (ok && strcmp(fetch->method, "HEAD") == 0)
        ok = lib.setopt(curl, CURLOPT_NOBODY, 1L) == CURLE_OK;
    else if (ok)
        ok = lib.setopt(curl, CURLOPT_CUSTOMREQUEST, fetch->method) == CURLE_OK;
    if (ok && fetch->decode)
        ok = lib.setopt(curl, CURLOPT_ACCEPT_ENCODING, "") == CURLE_OK; /* all that it can */
    if (ok && fetch->stop != NULL)
        ok = lib.setopt(curl, CURLOPT_NOPROGRESS, 0L) == CURLE_OK &&
             lib.setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
             lib.setopt(curl, CURLOPT_XFERINFODATA, fetch) == CURLE_OK;
    if (ok && fetch->range != NULL)
        ok = lib.setopt(curl, CURLOPT_RANGE, fetch->range) == CURLE_OK;
    if (ok && fetch->sign != NULL)
        ok = lib.setopt(curl, CURLOPT_AWS_SIGV4, fetch->sign) == CURLE_OK &&
             lib.setopt(curl, CURLOPT_USERPWD, fetch->credentials) == CURLE_OK;
    return ok;
}

static od_code fail(CURLcode code, const sink *to, const char *why, od_error *err)
{
    const char *text = why[0] != '\0' ? why : lib.text(code);

    if (to->too_large)
        return od_fail(err, OD_E_TOO_LARGE, "the answer is larger than %zu bytes", to->max);
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a request");
    case CURLE_ABORTED_BY_CALLBACK:
        return od_fail(err, OD_E_CANCELLED, "the request was given up");
    case CURLE_OPERATION_TIMEDOUT:
        return od_fail(err, OD_E_TIMEOUT, "%s", text);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
        return od_fail(err, OD_E_UNAVAILABLE, "%s", text);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return od_fail(err, OD_E_INVALID, "%s", text);
    default:
        return od_fail(err, OD_E_CONNECTION_LOST, "%s", text);
    }
}

od_code od_fetch_run(od_fetcher *fetcher, const od_fetch *fetch, od_fetched *out, od_error *err)
{
    sink to = {.out = out, .max = fetch->max_answer};
    char why[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    CURL *curl = take(fetcher);
    curl_off_t length = -1;
    CURLcode code = CURLE_OUT_OF_MEMORY;
    bool ok = curl != NULL;
    long status = 0;
    od_code rc = OD_OK;

    *out = (od_fetched){.length = -1};
    for (size_t i = 0; ok && i < OD_FETCH_HEADERS && fetch->headers[i] != NULL; i++) {
        struct curl_slist *longer = lib.append(headers, fetch->headers[i]);

        ok = longer != NULL;
        headers = ok ? longer : headers;
    }
    if (ok && set_up(curl, fetch, headers, &to, why))
        code = lib.perform(curl);
    if (code == CURLE_OK) {
        (void)lib.getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        (void)lib.getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        out->status = (int)status;
        out->length = length;
    } else {
        rc = fail(code, &to, why, err);
        od_fetched_release(out);
    }
    if (curl != NULL)
        give_back(fetcher, curl);
    lib.free_all(headers);
    return rc;
}

void od_fetched_release(od_fetched *fetched)
{
    od_buf_release(&fetched->body);
}
