/* query/wire.h: the messages of openduck.v1, to bytes and back.
 *
 * Small messages go through protobuf-c; the batch chunk, which carries the data, is written and read by hand so that its
 * payload is never copied. Every length from outside is checked; strings need not be NUL-terminated. */
#ifndef OD_QUERY_WIRE_H
#define OD_QUERY_WIRE_H

#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"
#include "query/rpc.h"

#define OD_PATH_EXECUTE "/openduck.v1.ExecutionService/ExecuteFragment"
#define OD_PATH_CANCEL "/openduck.v1.ExecutionService/CancelExecution"
#define OD_PATH_INGEST "/openduck.v1.ExecutionService/IngestData"
#define OD_PATH_BEGIN "/openduck.v1.ExecutionService/BeginTransaction"
#define OD_PATH_COMMIT "/openduck.v1.ExecutionService/CommitTransaction"
#define OD_PATH_ROLLBACK "/openduck.v1.ExecutionService/RollbackTransaction"
#define OD_PATH_REGISTER "/openduck.v1.ExecutionService/RegisterWorker"
#define OD_PATH_HEARTBEAT "/openduck.v1.ExecutionService/Heartbeat"
#define OD_PATH_STATUS "/openduck.v1.StatusService/GetStatus"

/* Ids above 127 bytes are refused by servers. */
#define OD_EXECUTION_ID_SIZE 128

typedef enum { OD_FORMAT_PLAIN = 0, OD_FORMAT_LOSSLESS = 1, OD_FORMAT_NATIVE = 2 } od_format;

/* ---- ExecuteFragment ---- */

typedef struct {
    od_slice plan;
    od_slice database;
    od_slice snapshot_id; /* data NULL: absent */
    od_slice access_token;
    od_slice execution_id;
    od_slice compute_context;
    od_slice transaction_id;
    od_format format;
    bool describe_only;
    uint64_t expected_catalog_version; /* 0: any */
    od_slice statement_id;
    od_slice parameters; /* an IPC stream of one row; empty: none */
    bool wants_layout;
    bool divides;
    od_slice follows; /* an execution's id; empty: none */
} od_execute_request;

OD_MUST_CHECK od_code od_execute_request_encode(const od_execute_request *request, od_msg **out, od_error *err);
/* Slices of *out borrow MESSAGE. Unknown fields are skipped. OD_E_PROTOCOL on bad bytes, OD_E_INVALID on an unknown format. */
OD_MUST_CHECK od_code od_execute_request_decode(od_slice message, od_execute_request *out, od_error *err);

/* For a server that forwards MESSAGE, decoded as REQUEST, which has no execution id: fills OUT with the same message with
 * EXECUTION_ID put in. OUT borrows *owner, which the caller unrefs. */
OD_MUST_CHECK od_code od_execute_request_identify(od_msg *message, const od_execute_request *request,
                                                  const char *execution_id, od_msg **owner, od_rpc_out *out,
                                                  od_error *err);

typedef enum { OD_CHUNK_NONE, OD_CHUNK_BATCH, OD_CHUNK_ERROR, OD_CHUNK_FINISHED } od_chunk_kind;

typedef struct {
    od_chunk_kind kind;
    od_slice payload; /* OD_CHUNK_BATCH: borrows the message */
    od_error error;   /* OD_CHUNK_ERROR: from the typed part if there is one, else kind IO with the legacy text */
    char execution_id[OD_EXECUTION_ID_SIZE]; /* OD_CHUNK_ERROR: as the server named it, else "" */
    uint64_t catalog_version;                /* 0: not told */
    od_slice layout;   /* a DatabaseLayout, of vgi/layout.h; data NULL: not told; borrows the message */
    uint64_t place;    /* 0: not told */
    uint64_t payloads; /* 0: not told */
} od_chunk;

OD_MUST_CHECK od_code od_chunk_decode(od_slice message, od_chunk *out, od_error *err);

/* The batch chunk's bytes before its payload are always so many (lengths are written as four-byte varints), so that a
 * receiver that asks for messages at skew OD_CHUNK_SKEW finds the payload aligned to 64 bytes. */
#define OD_CHUNK_HEAD 10
#define OD_CHUNK_SKEW (64 - OD_CHUNK_HEAD)

/* What a batch chunk tells beside its payload; what is 0 is left out. */
typedef struct {
    uint64_t catalog_version, place;
} od_chunk_told;

/* Fills OUT with a batch chunk around PAYLOAD[OFFSET, +LEN) (borrowed: the caller keeps its reference). LEN above OD_RPC_MAX_MESSAGE less the head and tail is OD_E_TOO_LARGE. */
OD_MUST_CHECK od_code od_chunk_batch(od_msg *payload, size_t offset, size_t len, const od_chunk_told *told,
                                     od_rpc_out *out, od_error *err);
/* A chunk with the legacy text and the typed error. *out is a whole message. */
OD_MUST_CHECK od_code od_chunk_error(const od_error *what, const char *execution_id, uint64_t catalog_version,
                                     od_msg **out, od_error *err);
/* A chunk with LAYOUT and nothing else. *out is a whole message. */
OD_MUST_CHECK od_code od_chunk_layout(od_slice layout, od_msg **out, od_error *err);
/* The last chunk of a stream (into OUT's head; no body). What is 0 is left out. */
void od_chunk_finished(uint64_t catalog_version, uint64_t payloads, od_rpc_out *out);
/* OUT becomes the whole of MESSAGE (borrowed). */
void od_rpc_out_whole(od_msg *message, od_rpc_out *out);

/* ---- transactions and ingest ---- */

typedef struct {
    od_slice database;
    od_slice access_token;
} od_begin_request;

OD_MUST_CHECK od_code od_begin_request_encode(const od_begin_request *request, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_begin_request_decode(od_slice message, od_begin_request *out, od_error *err);

/* CommitTransactionRequest, RollbackTransactionRequest. */
typedef struct {
    od_slice transaction_id;
    od_slice access_token;
} od_end_request;

OD_MUST_CHECK od_code od_end_request_encode(const od_end_request *request, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_end_request_decode(od_slice message, od_end_request *out, od_error *err);

/* The replies of these calls and of IngestData; each has some of the fields. */
typedef enum { OD_REPLY_BEGIN, OD_REPLY_COMMIT, OD_REPLY_ROLLBACK, OD_REPLY_INGEST } od_reply_kind;

typedef struct {
    char transaction_id[OD_EXECUTION_ID_SIZE];
    uint64_t catalog_version;
    uint64_t rows;
    bool failed;
    od_error error;
    char execution_id[OD_EXECUTION_ID_SIZE]; /* of the error; "": none */
} od_write_reply;

OD_MUST_CHECK od_code od_write_reply_encode(od_reply_kind kind, const od_write_reply *reply, od_msg **out,
                                            od_error *err);
OD_MUST_CHECK od_code od_write_reply_decode(od_reply_kind kind, od_slice message, od_write_reply *out, od_error *err);

typedef struct {
    od_slice name;
    od_slice sql_type;
} od_wire_column;

#define OD_INGEST_MAX_COLUMNS 16384

typedef struct {
    od_slice database;
    od_slice staging_table;
    const od_wire_column *columns;
    size_t column_count;
    od_slice transaction_id;
    od_slice access_token;
    od_slice execution_id;
    od_format format;
    od_slice statement;
    uint64_t expected_catalog_version; /* 0: any */
    void *owned;                       /* decode: the columns */
} od_ingest_metadata;

/* A whole IngestChunk. */
OD_MUST_CHECK od_code od_ingest_metadata_encode(const od_ingest_metadata *metadata, od_msg **out, od_error *err);
/* Fills OUT with an IngestChunk around PAYLOAD (borrowed: the caller keeps its reference): the payload begins at OD_CHUNK_HEAD. */
OD_MUST_CHECK od_code od_ingest_batch(od_msg *payload, od_rpc_out *out, od_error *err);

typedef struct {
    bool is_metadata;
    od_ingest_metadata metadata; /* borrows the message, but for `owned` */
    od_slice payload;            /* else: borrows the message */
} od_ingest_chunk;

/* OD_E_PROTOCOL: neither metadata nor a batch, or bad bytes. */
OD_MUST_CHECK od_code od_ingest_chunk_decode(od_slice message, od_ingest_chunk *out, od_error *err);
void od_ingest_chunk_release(od_ingest_chunk *chunk);

/* ---- the small ones ---- */

typedef struct {
    od_slice execution_id;
    od_slice access_token;
} od_cancel_request;

OD_MUST_CHECK od_code od_cancel_request_encode(const od_cancel_request *request, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_cancel_request_decode(od_slice message, od_cancel_request *out, od_error *err);
OD_MUST_CHECK od_code od_cancel_reply_encode(bool acknowledged, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_cancel_reply_decode(od_slice message, bool *acknowledged, od_error *err);

/* RegisterWorkerReply and HeartbeatReply look like CancelReply: a bool in field 1. */
OD_MUST_CHECK od_code od_flag_reply_encode(bool flag, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_flag_reply_decode(od_slice message, bool *flag, od_error *err);

/* Texts are NUL-terminated; encode takes NULL for "". What decode fills is released by its release, which leaves a struct
 * alone that it did not fill. */
typedef struct {
    const char *worker_id;
    const char *endpoint;
    const char *const *databases;
    size_t database_count;
    const char *compute_context;
    uint32_t max_concurrency;
    const char *const *tables;
    size_t table_count;
    const char *access_token;
    void *owned;
} od_registration;

OD_MUST_CHECK od_code od_registration_encode(const od_registration *registration, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_registration_decode(od_slice message, od_registration *out, od_error *err);
void od_registration_release(od_registration *registration);

typedef struct {
    const char *worker_id;
    const char *access_token;
    bool leaving;
    void *owned;
} od_heartbeat;

OD_MUST_CHECK od_code od_heartbeat_encode(const od_heartbeat *heartbeat, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_heartbeat_decode(od_slice message, od_heartbeat *out, od_error *err);
void od_heartbeat_release(od_heartbeat *heartbeat);

/* ---- GetStatus ---- */

typedef struct {
    const char *worker_id;
    const char *endpoint;
    bool healthy;
    uint32_t in_flight;
    const char *const *databases;
    size_t database_count;
    uint32_t max_concurrency; /* 0: no limit is known */
    uint64_t known_seconds;   /* to the gateway, as what it is */
} od_status_worker;

typedef struct {
    const char *execution_id;
    const char *database;
    uint64_t elapsed_ms;
    uint64_t bytes_sent;
    const char *sql;    /* at most OD_STATUS_SQL bytes of it; NULL: not told */
    bool waiting;       /* for a slot, or for a worker with room */
    const char *worker; /* the endpoint of the one that runs it; NULL or empty: the server itself */
    const char *client; /* the address that it came from; NULL: not told */
    const char *user;   /* the name of its token, as od_rights_name tells it; NULL: not told */
} od_status_running;

enum { OD_STATUS_SQL = 2047 };
/* Copies as much of SQL as a status shows into OUT, whole characters only; "" if it is not UTF-8. */
void od_status_sql(od_slice sql, char out[OD_STATUS_SQL + 1]);

typedef struct {
    const char *version, *duckdb_version;
    const char *role; /* "serve", "gateway", "worker" */
    uint64_t uptime_seconds;
    uint32_t in_flight, max_in_flight;
    uint32_t queued, max_queued;
    uint32_t transactions; /* open ones */
    uint64_t executions_total, errors_total, cancelled_total;
    const char *const *databases;
    size_t database_count;
    const od_status_worker *workers;
    size_t worker_count;
    bool draining;
    const od_status_running *running;
    size_t running_count;
    void *owned;
} od_status;

OD_MUST_CHECK od_code od_status_request_encode(od_slice access_token, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_status_request_decode(od_slice message, od_slice *access_token, od_error *err); /* borrows */
OD_MUST_CHECK od_code od_status_encode(const od_status *status, od_msg **out, od_error *err);
OD_MUST_CHECK od_code od_status_decode(od_slice message, od_status *out, od_error *err);
void od_status_release(od_status *status);

#endif
