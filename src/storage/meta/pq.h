/* libpq, loaded when it is first needed: what uses no PostgreSQL runs without it. */
#ifndef OD_STORAGE_META_PQ_H
#define OD_STORAGE_META_PQ_H

#include <libpq-fe.h>

#include "base/error.h"

/* Every function of libpq that is used here. */
typedef struct {
    __typeof__(PQclear) *PQclear;
    __typeof__(PQcmdTuples) *PQcmdTuples;
    __typeof__(PQconnectPoll) *PQconnectPoll;
    __typeof__(PQconnectStartParams) *PQconnectStartParams;
    __typeof__(PQconninfoFree) *PQconninfoFree;
    __typeof__(PQconninfoParse) *PQconninfoParse;
    __typeof__(PQconsumeInput) *PQconsumeInput;
    __typeof__(PQerrorMessage) *PQerrorMessage;
    __typeof__(PQfinish) *PQfinish;
    __typeof__(PQflush) *PQflush;
    __typeof__(PQgetResult) *PQgetResult;
    __typeof__(PQgetisnull) *PQgetisnull;
    __typeof__(PQgetvalue) *PQgetvalue;
    __typeof__(PQisBusy) *PQisBusy;
    __typeof__(PQntuples) *PQntuples;
    __typeof__(PQresultErrorField) *PQresultErrorField;
    __typeof__(PQresultErrorMessage) *PQresultErrorMessage;
    __typeof__(PQresultStatus) *PQresultStatus;
    __typeof__(PQsendQuery) *PQsendQuery;
    __typeof__(PQsendQueryParams) *PQsendQueryParams;
    __typeof__(PQserverVersion) *PQserverVersion;
    __typeof__(PQsetNoticeProcessor) *PQsetNoticeProcessor;
    __typeof__(PQsetnonblocking) *PQsetnonblocking;
    __typeof__(PQsocket) *PQsocket;
    __typeof__(PQstatus) *PQstatus;
} pq_library;

/* *out is static. OD_E_NOT_IMPLEMENTED: this machine has no libpq. Thread: any. */
OD_MUST_CHECK od_code pq_load(const pq_library **out, od_error *err);

/* A connection that no answer can block for ever. */
typedef struct {
    const pq_library *pq;
    PGconn *conn; /* NULL: none, or it was lost */
    char *url;    /* owned */
    char *secret; /* owned; the password in it, which no message shows. NULL: none */
} pq_link;

/* URL is copied. OD_E_INVALID: it is none. Connects when something is sent. */
OD_MUST_CHECK od_code pq_link_init(pq_link *link, const char *url, od_error *err);
void pq_link_release(pq_link *link);
/* Connects if there is no connection; *fresh: there was none. OD_E_UNAVAILABLE, OD_E_PERMISSION, OD_E_INVALID. */
OD_MUST_CHECK od_code pq_link_open(pq_link *link, bool *fresh, od_error *err);
/* Sends SQL, of several statements if COUNT is 0, and gives the last result, which PQclear frees.
 *   OD_E_UNAVAILABLE   no answer came: the connection is gone
 *   OD_E_TRANSACTION   class 40    OD_E_BUSY   a lock was not to be had in time */
OD_MUST_CHECK od_code pq_link_query(pq_link *link, const char *sql, size_t count, const char *const *values,
                                    PGresult **out, od_error *err);
void pq_link_drop(pq_link *link);

#endif
