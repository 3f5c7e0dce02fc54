/* query/client.h: a remote database.
 *
 * Blocking, for use in the caller's thread; no thread of its own, no global. */
#ifndef OD_QUERY_CLIENT_H
#define OD_QUERY_CLIENT_H

#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"
#include "query/rpc.h"
#include "query/wire.h"

typedef struct {
    od_endpoint endpoint;
    od_secret token;            /* empty: none is sent */
    char *database;             /* may be empty: the server's default */
    int64_t connect_timeout_ms; /* 0: 5,000 */
    int64_t execute_timeout_ms; /* longest wait for the next chunk; 0: 300,000; negative: no limit */
    int64_t cancel_timeout_ms;  /* 0: 10,000 */
    size_t max_message;         /* that is taken; 0: OD_RPC_MAX_MESSAGE */
    od_tls *tls;                /* for https:// (referenced); NULL: one that trusts the system's CAs */
} od_remote_options;

void od_remote_options_release(od_remote_options *options);

typedef struct od_remote od_remote; /* counted; any thread, several at once */
typedef struct od_result od_result; /* one execution's stream; one thread at a time, but for od_result_cancel */

/* Copies OPTIONS. No I/O. */
OD_MUST_CHECK od_code od_remote_create(const od_remote_options *options, od_remote **out, od_error *err);
od_remote *od_remote_ref(od_remote *remote);
void od_remote_unref(od_remote *remote);
const char *od_remote_authority(const od_remote *remote); /* "127.0.0.1:7878", for messages */
const char *od_remote_database(const od_remote *remote);

/* ---- transactions ----
 *
 * A transaction keeps the connection on which it was begun: when the client dies, the server sees that close and rolls back. Its
 * executions and ingests have connections of their own, so several may go on at once. */

typedef struct od_remote_txn od_remote_txn; /* one thread at a time, but for its executions */

/* In the remote's database. */
OD_MUST_CHECK od_code od_remote_txn_begin(od_remote *remote, od_interrupt interrupt, od_remote_txn **out,
                                          od_error *err);
/* The transaction ID, which somebody else has begun there with the same token: what is executed and ingested with *out runs in it.
 * Ending it is theirs: _commit and _rollback are OD_E_NO_TRANSACTION, and free leaves it open. No I/O. */
OD_MUST_CHECK od_code od_remote_txn_join(od_remote *remote, od_slice id, od_remote_txn **out, od_error *err);
const char *od_remote_txn_id(const od_remote_txn *txn);
/* Of the catalog as it sees it: when it began, or as its last end told. */
uint64_t od_remote_txn_catalog_version(const od_remote_txn *txn);
/* It is over whatever comes back, but for OD_E_CANCELLED and OD_E_TIMEOUT before an answer: then nobody knows, and free ends it.
 *   OD_E_TRANSACTION      a conflict; nothing of it remains
 *   OD_E_CONNECTION_LOST  of a commit: whether it took place is not known */
OD_MUST_CHECK od_code od_remote_txn_commit(od_remote_txn *txn, od_interrupt interrupt, od_error *err);
OD_MUST_CHECK od_code od_remote_txn_rollback(od_remote_txn *txn, od_interrupt interrupt, od_error *err);
/* What is not over is rolled back by the server, which sees its connection close. NULL allowed. */
void od_remote_txn_free(od_remote_txn *txn);

/* ---- rows that go up ---- */

typedef struct {
    od_slice staging_table;
    const od_wire_column *columns;
    size_t column_count;
    od_format format;
    od_interrupt interrupt;
    /* A single statement that reads the rows as they come, in order and once, under the name staging_table:
     * INSERT INTO t (a, b) SELECT x, y FROM "stage". Nothing is staged; all or nothing. Not one with RETURNING. Empty: the rows go into a
     * temporary table of that name, and a TXN is needed. With a TXN, no other request of it may be needed for the rows to come: they
     * wait for the statement's end. */
    od_slice statement;
    uint64_t expected_catalog_version; /* of the statement; 0: any; else OD_E_STALE_CATALOG when it differs */
} od_ingest_options;

typedef struct od_ingest od_ingest; /* one thread at a time */

/* Into a new temporary table of TXN's connection, or through the statement, which without a TXN (NULL) is a transaction of its own: one
 * round trip. Sends the columns; does not wait for an answer. */
OD_MUST_CHECK od_code od_ingest_open(od_remote *remote, const od_remote_txn *txn, const od_ingest_options *options,
                                     od_ingest **out, od_error *err);
/* Sends PAYLOAD, a whole IPC stream, waiting while the server is behind. The server's error, if it has told one already. */
OD_MUST_CHECK od_code od_ingest_send(od_ingest *ingest, od_msg *payload, od_error *err);
/* As od_ingest_send, but waits WAIT_MS at most: *again is true if PAYLOAD is taken, but not all of it written. Call again then, with NULL
 * for PAYLOAD, before the next one. */
OD_MUST_CHECK od_code od_ingest_send_within(od_ingest *ingest, od_msg *payload, int64_t wait_ms, bool *again,
                                            od_error *err);
/* Waits until all rows are in the table, or the statement has ended and, without a transaction, is committed. *rows: that were sent; of
 * a statement, that it affected. */
OD_MUST_CHECK od_code od_ingest_finish(od_ingest *ingest, uint64_t *rows, od_error *err);
/* As od_ingest_finish, but waits WAIT_MS at most: *again is true if it is to be called again. */
OD_MUST_CHECK od_code od_ingest_finish_within(od_ingest *ingest, int64_t wait_ms, uint64_t *rows, bool *again,
                                              od_error *err);
/* After _finish: the catalog's version as it is now; 0: not told. */
uint64_t od_ingest_catalog_version(const od_ingest *ingest);
/* Unless it was finished, the server drops the table, or undoes the statement, a moment later. NULL allowed. */
void od_ingest_free(od_ingest *ingest);

/* ---- executions ---- */

typedef struct {
    od_slice sql;
    od_format format;
    bool describe_only;
    uint64_t expected_catalog_version;
    const char *execution_id; /* NULL: one is made */
    const char *statement_id; /* NULL: none */
    od_interrupt interrupt;   /* asked while any call on the result blocks */
    const od_remote_txn *txn; /* runs in it; NULL: in a transaction of its own */
    /* Values of the statement's parameters, with their types: an IPC stream of one row, whose columns are called as the parameters
     * are: "1", "2", or identifiers. NATIVE (a column of an ENUM, or of a type with an alias such as JSON, has to carry its whole type
     * as metadata "openduck:sql_type") or plain Arrow. Empty: none. Wrong or missing names are DuckDB's own error (OD_E_INVALID). Copied. */
    od_slice parameters;
    bool wants_layout; /* od_result_layout is to tell it */
    bool divides;      /* its result may be followed (NATIVE only) */
    /* Of an execution of this remote whose result can be followed: a further stream of it, instead of SQL; only statement_id and interrupt
     * count besides. NULL: none. */
    const char *follows;
} od_remote_query;

/* Sends the request and returns without waiting for an answer. Errors name the endpoint. */
OD_MUST_CHECK od_code od_remote_execute(od_remote *remote, const od_remote_query *query, od_result **out,
                                        od_error *err);

/* Waits for the next payload (a whole Arrow IPC stream). *payload borrows *owner, which the caller unrefs; *owner is NULL
 * after a `finished`. An error of the server is returned with its kind and SQLSTATE; its message ends in
 * " (openduck HOST:PORT, execution ID)". A stream that ends without `finished` is OD_E_CONNECTION_LOST.
 * Chunks without a payload and payloads without a batch are passed on: the caller sees each payload. */
OD_MUST_CHECK od_code od_result_next(od_result *result, od_msg **owner, od_slice *payload, od_error *err);
/* As od_result_next, but waits WAIT_MS at most: if nothing came, *again is true and the wait may go on with another call.
 * execute_timeout_ms counts only the time spent in these calls. */
OD_MUST_CHECK od_code od_result_next_within(od_result *result, int64_t wait_ms, od_msg **owner, od_slice *payload,
                                            bool *again, od_error *err);
/* Where in the result the last payload stands, from 1; 0: the result has this one stream. Once the first payload has told a place, the result
 * can be followed: each payload then comes on one of the streams, by growing places on each. A follower may get none, or fail without having
 * had any: whether all have come only their number tells. */
uint64_t od_result_place(const od_result *result);
/* After the end of the execution's own stream: how many payloads its streams have; 0: not told. */
uint64_t od_result_payloads(const od_result *result);
/* Any thread: another stream has had something, so what was waited for this one's next chunk counts no more. */
void od_result_heard(od_result *result);
/* True if od_result_next would not block. */
bool od_result_ready(od_result *result);
const char *od_result_execution_id(const od_result *result);
uint64_t od_result_catalog_version(const od_result *result); /* 0 until the first chunk is read, or not told */
/* What the server has told of the database's layout, for od_layout_decode; borrowed. Empty until the first payload, or if there is none. */
od_slice od_result_layout(const od_result *result);
uint64_t od_result_bytes(const od_result *result); /* received so far, messages as on the wire */
void od_result_cancel(od_result *result);          /* any thread: a blocked next returns OD_E_CANCELLED */
/* An unfinished execution is cancelled at the server by resetting its stream. NULL allowed. */
void od_result_free(od_result *result);

/* Asks the server to cancel an execution by its id. *acknowledged: it knew it. */
OD_MUST_CHECK od_code od_remote_cancel(od_remote *remote, const char *execution_id, bool *acknowledged, od_error *err);

/* ---- calls of one request and one reply ---- */

/* TIMEOUT_MS travels as the call's deadline. The reply is the caller's. Errors name the endpoint. */
OD_MUST_CHECK od_code od_remote_call(od_remote *remote, const char *path, od_msg *request, int64_t timeout_ms,
                                     od_interrupt interrupt, od_msg **reply, od_error *err);
/* What the server says of itself; od_status_release it. */
OD_MUST_CHECK od_code od_remote_status(od_remote *remote, int64_t timeout_ms, od_interrupt interrupt, od_status *out,
                                       od_error *err);
/* For a worker, to its gateway; the access token is the remote's. */
OD_MUST_CHECK od_code od_remote_register(od_remote *remote, const od_registration *registration, int64_t timeout_ms,
                                         od_interrupt interrupt, bool *accepted, od_error *err);
OD_MUST_CHECK od_code od_remote_heartbeat(od_remote *remote, const char *worker_id, int64_t timeout_ms,
                                          od_interrupt interrupt, bool *acknowledged, od_error *err);
/* Whether the server has closed a connection that lay idle: it has stopped, or was started anew. Does not block; tells it once. */
bool od_remote_hung_up(od_remote *remote);
/* The last heartbeat: the worker stops, and gets nothing more. */
OD_MUST_CHECK od_code od_remote_leave(od_remote *remote, const char *worker_id, int64_t timeout_ms, od_error *err);

#endif
