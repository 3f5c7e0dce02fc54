#include "storage/meta/pq.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/deadline.h"

#include "base/banned.h"

#define CONNECT_MS 5000
#define ANSWER_MS 20000 /* more than the server waits for a lock */
#define TEXT_MAX 600    /* of what libpq says, in a message */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pq_library library;
static bool loaded;

#define FUNCTION(name)                    \
    {                                     \
#name, offsetof(pq_library, name) \
    }
static const struct {
    const char *name;
    size_t at;
} functions[] = {
    FUNCTION(PQclear),
    FUNCTION(PQcmdTuples),
    FUNCTION(PQconnectPoll),
    FUNCTION(PQconnectStartParams),
    FUNCTION(PQconninfoFree),
    FUNCTION(PQconninfoParse),
    FUNCTION(PQconsumeInput),
    FUNCTION(PQerrorMessage),
    FUNCTION(PQfinish),
    FUNCTION(PQflush),
    FUNCTION(PQgetResult),
    FUNCTION(PQgetisnull),
    FUNCTION(PQgetvalue),
    FUNCTION(PQisBusy),
    FUNCTION(PQntuples),
    FUNCTION(PQresultErrorField),
    FUNCTION(PQresultErrorMessage),
    FUNCTION(PQresultStatus),
    FUNCTION(PQsendQuery),
    FUNCTION(PQsendQueryParams),
    FUNCTION(PQserverVersion),
    FUNCTION(PQsetNoticeProcessor),
    FUNCTION(PQsetnonblocking),
    FUNCTION(PQsocket),
    FUNCTION(PQstatus),
};

static void load(void)
{
    void *handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    bool whole = handle != NULL;

    for (size_t i = 0; whole && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);

        whole = found != NULL;
        memcpy((char *)&library + functions[i].at, &found, sizeof found); /* POSIX lets it hold a function */
    }
    loaded = whole;
}

od_code pq_load(const pq_library **out, od_error *err)
{
    pthread_once(&once, load);
    if (!loaded)
        return od_fail(err, OD_E_NOT_IMPLEMENTED,
                       "metadata in PostgreSQL need libpq.so.5, which is not installed here");
    *out = &library;
    return OD_OK;
}

/* TEXT as one line without the password. */
static void clean(const pq_link *link, const char *text, char out[TEXT_MAX])
{
    size_t secret = link->secret != NULL ? strlen(link->secret) : 0;
    size_t at = 0;

    while (*text != '\0' && at + 4 < TEXT_MAX) {
        if (secret > 0 && strncmp(text, link->secret, secret) == 0) {
            memcpy(out + at, "***", 3);
            at += 3;
            text += secret;
        } else {
            out[at] = *text++;
            if (out[at] == '\n')
                out[at] = ' ';
            at++;
        }
    }
    while (at > 0 && out[at - 1] == ' ')
        at--;
    out[at] = '\0';
}

static void ignore(void *arg, const char *text)
{
    (void)arg;
    (void)text;
}

od_code pq_link_init(pq_link *link, const char *url, od_error *err)
{
    PQconninfoOption *options;
    od_code rc = pq_load(&link->pq, err);

    if (rc != OD_OK)
        return rc;
    /* What the parser says would show parts of the URL. */
    options = link->pq->PQconninfoParse(url, NULL);
    if (options == NULL)
        return od_fail(err, OD_E_INVALID,
                       "the PostgreSQL URL cannot be read: it is postgresql://USER@HOST:PORT/DATABASE, or pairs as "
                       "libpq takes them");
    for (const PQconninfoOption *o = options; o->keyword != NULL; o++)
        if (strcmp(o->keyword, "password") == 0 && o->val != NULL && o->val[0] != '\0')
            link->secret = od_strdup(o->val);
    link->pq->PQconninfoFree(options);
    link->url = od_strdup(url);
    return link->url != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "no memory for a connection");
}

void pq_link_drop(pq_link *link)
{
    if (link->conn != NULL)
        link->pq->PQfinish(link->conn);
    link->conn = NULL;
}

void pq_link_release(pq_link *link)
{
    pq_link_drop(link);
    od_free(link->url);
    od_free(link->secret);
    *link = (pq_link){0};
}

/* Whether the socket became ready before UNTIL. */
static bool wait_for(pq_link *link, short events, od_deadline until)
{
    for (;;) {
        struct pollfd fd = {.fd = link->pq->PQsocket(link->conn), .events = events};
        int n = fd.fd < 0 ? -1 : poll(&fd, 1, od_deadline_poll_ms(until));

        if (n < 0 && fd.fd >= 0 && errno == EINTR)
            continue;
        return n > 0;
    }
}

/* The connection is of no use: it goes. */
static od_code lost(pq_link *link, od_code code, const char *what, od_error *err)
{
    char text[TEXT_MAX];

    clean(link, link->pq->PQerrorMessage(link->conn), text);
    pq_link_drop(link);
    return od_fail(err, code, "%s%s%s", what, text[0] != '\0' ? ": " : "", text);
}

static od_code connect_now(pq_link *link, od_error *err)
{
    /* Only a server that can be written has the newest leases. */
    static const char *const names[] = {"connect_timeout",      "fallback_application_name", "dbname",
                                        "target_session_attrs", "client_encoding",           NULL};
    const char *values[] = {"5", "openduck", link->url, "read-write", "UTF8", NULL};
    od_deadline until = od_deadline_in_ms(CONNECT_MS);
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    link->conn = link->pq->PQconnectStartParams(names, values, 1);
    if (link->conn == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "no memory for a connection");
    while (link->pq->PQstatus(link->conn) != CONNECTION_BAD && state != PGRES_POLLING_OK &&
           state != PGRES_POLLING_FAILED) {
        if (!wait_for(link, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until))
            return lost(link, OD_E_UNAVAILABLE, "the PostgreSQL server of the metadata does not answer", err);
        state = link->pq->PQconnectPoll(link->conn);
    }
    if (state != PGRES_POLLING_OK)
        return lost(link, OD_E_UNAVAILABLE, "cannot connect to the PostgreSQL server of the metadata", err);
    link->pq->PQsetNoticeProcessor(link->conn, ignore, NULL);
    if (link->pq->PQserverVersion(link->conn) < 150000)
        return lost(link, OD_E_NOT_IMPLEMENTED, "the PostgreSQL server of the metadata is older than version 15", err);
    if (link->pq->PQsetnonblocking(link->conn, 1) != 0)
        return lost(link, OD_E_UNAVAILABLE, "cannot use the connection to the metadata", err);
    return OD_OK;
}

od_code pq_link_open(pq_link *link, bool *fresh, od_error *err)
{
    *fresh = link->conn == NULL;
    return *fresh ? connect_now(link, err) : OD_OK;
}

static od_code fail_result(pq_link *link, const PGresult *result, od_error *err)
{
    const char *state = link->pq->PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char text[TEXT_MAX];

    if (state == NULL)
        state = "";
    clean(link, link->pq->PQresultErrorMessage(result), text);
    if (strcmp(state, "55P03") == 0)
        return od_fail(err, OD_E_BUSY, "the metadata are locked by somebody else");
    if (strncmp(state, "40", 2) == 0)
        return od_fail(err, OD_E_TRANSACTION, "the metadata could not be changed: %s", text);
    if (strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0 || strcmp(state, "25P03") == 0)
        return od_fail(err, OD_E_UNAVAILABLE, "the PostgreSQL server of the metadata is going away: %s", text);
    return od_fail(err, OD_E_IO, "the metadata cannot be read or written: %s", text);
}

static bool flush(pq_link *link, od_deadline until)
{
    for (;;) {
        int left = link->pq->PQflush(link->conn);

        if (left <= 0)
            return left == 0;
        if (!wait_for(link, POLLIN | POLLOUT, until) || link->pq->PQconsumeInput(link->conn) == 0)
            return false;
    }
}

/* The next result, or NULL behind the last. False: none came. */
static bool next_result(pq_link *link, od_deadline until, PGresult **out)
{
    while (link->pq->PQisBusy(link->conn))
        if (!wait_for(link, POLLIN, until) || link->pq->PQconsumeInput(link->conn) == 0)
            return false;
    *out = link->pq->PQgetResult(link->conn);
    return true;
}

od_code pq_link_query(pq_link *link, const char *sql, size_t count, const char *const *values, PGresult **out,
                      od_error *err)
{
    od_deadline until = od_deadline_in_ms(ANSWER_MS);
    PGresult *last = NULL;
    PGresult *result = NULL;
    od_code rc = OD_OK;
    int sent = values == NULL ? link->pq->PQsendQuery(link->conn, sql)
                              : link->pq->PQsendQueryParams(link->conn, sql, (int)count, NULL, values, NULL, NULL, 0);

    if (sent == 0 || !flush(link, until))
        return lost(link, OD_E_UNAVAILABLE, "the connection to the metadata is lost", err);
    for (;;) {
        ExecStatusType status;

        if (!next_result(link, until, &result)) {
            link->pq->PQclear(last);
            return lost(link, OD_E_UNAVAILABLE, "the connection to the metadata is lost", err);
        }
        if (result == NULL)
            break;
        status = link->pq->PQresultStatus(result);
        if (rc == OD_OK && status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            rc = fail_result(link, result, err);
        link->pq->PQclear(last);
        last = result;
    }
    if (rc == OD_OK && last == NULL)
        rc = od_fail(err, OD_E_IO, "the PostgreSQL server of the metadata gave no answer");
    if (link->pq->PQstatus(link->conn) == CONNECTION_BAD) {
        pq_link_drop(link);
        if (rc == OD_OK)
            rc = od_fail(err, OD_E_UNAVAILABLE, "the connection to the metadata is lost");
    }
    if (rc == OD_OK)
        *out = last;
    else
        link->pq->PQclear(last);
    return rc;
}
