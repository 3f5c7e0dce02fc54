/* Registration, heartbeat and status: small messages, through protobuf-c. */
#include "query/wire.h"

#include <string.h>

#include "base/pb.h"
#include "openduck/v1/execution.pb-c.h"
#include "openduck/v1/status.pb-c.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "base/banned.h"

/* Above these a message of such a kind is not read: a field of one byte takes some forty in memory. */
enum { REGISTRATION_MAX = 256 << 10, STATUS_MAX = 4 << 20 };

static void *pb_alloc(void *data, size_t size)
{
    (void)data;
    return od_alloc(size);
}

static void pb_free(void *data, void *ptr)
{
    (void)data;
    od_free(ptr);
}

static ProtobufCAllocator allocator = {pb_alloc, pb_free, NULL};

static od_code pack(const ProtobufCMessage *message, od_msg **out, od_error *err)
{
    od_code rc;

    *out = NULL;
    rc = od_msg_create(protobuf_c_message_get_packed_size(message), 0, out, err);
    if (rc == OD_OK)
        protobuf_c_message_pack(message, od_msg_data(*out));
    return rc;
}

static bool string_valid(const char *string)
{
    return !string || od_utf8_valid(od_slice_str(string));
}

/* protobuf-c takes any bytes as a string; passed on, those that are not UTF-8 would break every reader. */
static bool strings_valid(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        const void *member = (const char *)message + field->offset;
        size_t count = 0;

        if (field->type != PROTOBUF_C_TYPE_STRING)
            continue;
        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            if (!string_valid(*(const char *const *)member))
                return false;
            continue;
        }
        memcpy(&count, (const char *)message + field->quantifier_offset, sizeof count);
        for (size_t j = 0; j < count; j++)
            if (!string_valid((*(const char *const *const *)member)[j]))
                return false;
    }
    return true;
}

static od_code unpack(const ProtobufCMessageDescriptor *type, od_slice bytes, size_t limit, void *out, od_error *err)
{
    ProtobufCMessage *message;

    *(void **)out = NULL;
    if (bytes.len > limit)
        return od_fail(err, OD_E_TOO_LARGE, "a message of type '%s' has %zu bytes, the limit is %zu", type->short_name,
                       bytes.len, limit);
    message = protobuf_c_message_unpack(type, &allocator, bytes.len, bytes.data ? bytes.data : (const uint8_t *)"");
    if (!message)
        return od_fail(err, OD_E_PROTOCOL, "a message of type '%s' is not valid protobuf", type->short_name);
    if (!strings_valid(message)) {
        protobuf_c_message_free_unpacked(message, &allocator);
        return od_fail(err, OD_E_PROTOCOL, "a message of type '%s' has a string that is not UTF-8", type->short_name);
    }
    *(void **)out = message;
    return OD_OK;
}

/* protobuf-c takes char * where it only reads. */
static char *text(const char *value)
{
    union {
        const char *in;
        char *out;
    } cast = {value ? value : ""};

    return cast.out;
}

static char **texts(const char *const *values)
{
    union {
        const char *const *in;
        char **out;
    } cast = {values};

    return cast.out;
}

/* ---- WorkerRegistration ---- */

od_code od_registration_encode(const od_registration *r, od_msg **out, od_error *err)
{
    Openduck__V1__WorkerRegistration pb = OPENDUCK__V1__WORKER_REGISTRATION__INIT;

    pb.worker_id = text(r->worker_id);
    pb.endpoint = text(r->endpoint);
    pb.databases = texts(r->databases);
    pb.n_databases = r->database_count;
    pb.compute_context = text(r->compute_context);
    pb.max_concurrency = r->max_concurrency;
    pb.tables = texts(r->tables);
    pb.n_tables = r->table_count;
    pb.access_token = text(r->access_token);
    return pack(&pb.base, out, err);
}

od_code od_registration_decode(od_slice message, od_registration *out, od_error *err)
{
    Openduck__V1__WorkerRegistration *pb;
    od_code rc;

    *out = (od_registration){0};
    rc = unpack(&openduck__v1__worker_registration__descriptor, message, REGISTRATION_MAX, &pb, err);
    if (rc != OD_OK)
        return rc;
    *out = (od_registration){
        .worker_id = pb->worker_id,
        .endpoint = pb->endpoint,
        .databases = (const char *const *)pb->databases,
        .database_count = pb->n_databases,
        .compute_context = pb->compute_context,
        .max_concurrency = pb->max_concurrency,
        .tables = (const char *const *)pb->tables,
        .table_count = pb->n_tables,
        .access_token = pb->access_token,
        .owned = pb,
    };
    return OD_OK;
}

void od_registration_release(od_registration *r)
{
    if (r && r->owned)
        protobuf_c_message_free_unpacked(r->owned, &allocator);
    if (r)
        *r = (od_registration){0};
}

/* ---- HeartbeatRequest ---- */

od_code od_heartbeat_encode(const od_heartbeat *h, od_msg **out, od_error *err)
{
    Openduck__V1__HeartbeatRequest pb = OPENDUCK__V1__HEARTBEAT_REQUEST__INIT;

    pb.worker_id = text(h->worker_id);
    pb.access_token = text(h->access_token);
    pb.leaving = h->leaving;
    return pack(&pb.base, out, err);
}

od_code od_heartbeat_decode(od_slice message, od_heartbeat *out, od_error *err)
{
    Openduck__V1__HeartbeatRequest *pb;
    od_code rc;

    *out = (od_heartbeat){0};
    rc = unpack(&openduck__v1__heartbeat_request__descriptor, message, REGISTRATION_MAX, &pb, err);
    if (rc == OD_OK)
        *out = (od_heartbeat){
            .worker_id = pb->worker_id, .access_token = pb->access_token, .leaving = pb->leaving, .owned = pb};
    return rc;
}

void od_heartbeat_release(od_heartbeat *h)
{
    if (h && h->owned)
        protobuf_c_message_free_unpacked(h->owned, &allocator);
    if (h)
        *h = (od_heartbeat){0};
}

/* ---- StatusRequest, StatusReply ---- */

od_code od_status_request_encode(od_slice access_token, od_msg **out, od_error *err)
{
    od_cancel_request same = {.execution_id = access_token}; /* one string in field 1 */

    return od_cancel_request_encode(&same, out, err);
}

od_code od_status_request_decode(od_slice message, od_slice *access_token, od_error *err)
{
    od_cancel_request same;
    od_code rc = od_cancel_request_decode(message, &same, err);

    *access_token = same.execution_id;
    return rc;
}

void od_status_sql(od_slice sql, char out[OD_STATUS_SQL + 1])
{
    size_t len = sql.len < OD_STATUS_SQL ? sql.len : OD_STATUS_SQL;

    while (len > 0 && len < sql.len && (sql.data[len] & 0xC0U) == 0x80U)
        len--;
    if (!od_utf8_valid(od_slice_of(sql.data, len)))
        len = 0;
    if (len > 0)
        memcpy(out, sql.data, len);
    out[len] = '\0';
}

/* The arrays of pointers that protobuf-c wants, over rows of our own. */
typedef struct {
    Openduck__V1__WorkerStatus *workers;
    Openduck__V1__WorkerStatus **worker_at;
    Openduck__V1__RunningExecution *running;
    Openduck__V1__RunningExecution **running_at;
} status_rows;

static bool status_rows_make(const od_status *s, status_rows *rows)
{
    rows->workers = od_calloc(s->worker_count + 1, sizeof *rows->workers);
    rows->worker_at = od_calloc(s->worker_count + 1, sizeof *rows->worker_at);
    rows->running = od_calloc(s->running_count + 1, sizeof *rows->running);
    rows->running_at = od_calloc(s->running_count + 1, sizeof *rows->running_at);
    if (!rows->workers || !rows->worker_at || !rows->running || !rows->running_at)
        return false;
    for (size_t i = 0; i < s->worker_count; i++) {
        Openduck__V1__WorkerStatus *pb = rows->worker_at[i] = &rows->workers[i];

        openduck__v1__worker_status__init(pb);
        pb->worker_id = text(s->workers[i].worker_id);
        pb->endpoint = text(s->workers[i].endpoint);
        pb->healthy = s->workers[i].healthy;
        pb->in_flight = s->workers[i].in_flight;
        pb->databases = texts(s->workers[i].databases);
        pb->n_databases = s->workers[i].database_count;
        pb->max_concurrency = s->workers[i].max_concurrency;
        pb->known_seconds = s->workers[i].known_seconds;
    }
    for (size_t i = 0; i < s->running_count; i++) {
        Openduck__V1__RunningExecution *pb = rows->running_at[i] = &rows->running[i];

        openduck__v1__running_execution__init(pb);
        pb->execution_id = text(s->running[i].execution_id);
        pb->database = text(s->running[i].database);
        pb->elapsed_ms = s->running[i].elapsed_ms;
        pb->bytes_sent = s->running[i].bytes_sent;
        pb->sql = text(s->running[i].sql);
        pb->waiting = s->running[i].waiting;
        pb->worker = text(s->running[i].worker);
        pb->client = text(s->running[i].client);
        pb->user = text(s->running[i].user);
    }
    return true;
}

static void status_rows_release(status_rows *rows)
{
    od_free(rows->workers);
    od_free((void *)rows->worker_at);
    od_free(rows->running);
    od_free((void *)rows->running_at);
}

od_code od_status_encode(const od_status *s, od_msg **out, od_error *err)
{
    Openduck__V1__StatusReply pb = OPENDUCK__V1__STATUS_REPLY__INIT;
    status_rows rows = {0};
    od_code rc;

    *out = NULL;
    if (!status_rows_make(s, &rows)) {
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory for a status");
        goto out;
    }
    pb.version = text(s->version);
    pb.duckdb_version = text(s->duckdb_version);
    pb.role = text(s->role);
    pb.uptime_seconds = s->uptime_seconds;
    pb.in_flight = s->in_flight;
    pb.max_in_flight = s->max_in_flight;
    pb.queued = s->queued;
    pb.transactions = s->transactions;
    pb.max_queued = s->max_queued;
    pb.executions_total = s->executions_total;
    pb.errors_total = s->errors_total;
    pb.cancelled_total = s->cancelled_total;
    pb.databases = texts(s->databases);
    pb.n_databases = s->database_count;
    pb.workers = rows.worker_at;
    pb.n_workers = s->worker_count;
    pb.draining = s->draining;
    pb.running = rows.running_at;
    pb.n_running = s->running_count;
    rc = pack(&pb.base, out, err);

out:
    status_rows_release(&rows);
    return rc;
}

/* Copies the rows of PB into arrays of OUT; their texts stay PB's. */
static bool status_take_rows(const Openduck__V1__StatusReply *pb, od_status *out)
{
    od_status_worker *workers = od_calloc(pb->n_workers + 1, sizeof *workers);
    od_status_running *running = od_calloc(pb->n_running + 1, sizeof *running);

    out->workers = workers;
    out->running = running;
    if (!workers || !running)
        return false;
    for (size_t i = 0; i < pb->n_workers; i++) {
        const Openduck__V1__WorkerStatus *w = pb->workers[i];

        workers[i] = (od_status_worker){.worker_id = w->worker_id,
                                        .endpoint = w->endpoint,
                                        .healthy = w->healthy,
                                        .in_flight = w->in_flight,
                                        .databases = (const char *const *)w->databases,
                                        .database_count = w->n_databases,
                                        .max_concurrency = w->max_concurrency,
                                        .known_seconds = w->known_seconds};
    }
    for (size_t i = 0; i < pb->n_running; i++) {
        const Openduck__V1__RunningExecution *r = pb->running[i];

        running[i] = (od_status_running){.execution_id = r->execution_id,
                                         .database = r->database,
                                         .elapsed_ms = r->elapsed_ms,
                                         .bytes_sent = r->bytes_sent,
                                         .sql = r->sql,
                                         .waiting = r->waiting,
                                         .worker = r->worker,
                                         .client = r->client,
                                         .user = r->user};
    }
    out->worker_count = pb->n_workers;
    out->running_count = pb->n_running;
    return true;
}

od_code od_status_decode(od_slice message, od_status *out, od_error *err)
{
    Openduck__V1__StatusReply *pb;
    od_code rc;

    *out = (od_status){0};
    rc = unpack(&openduck__v1__status_reply__descriptor, message, STATUS_MAX, &pb, err);
    if (rc != OD_OK)
        return rc;
    *out = (od_status){
        .version = pb->version,
        .duckdb_version = pb->duckdb_version,
        .role = pb->role,
        .uptime_seconds = pb->uptime_seconds,
        .in_flight = pb->in_flight,
        .max_in_flight = pb->max_in_flight,
        .queued = pb->queued,
        .transactions = pb->transactions,
        .max_queued = pb->max_queued,
        .executions_total = pb->executions_total,
        .errors_total = pb->errors_total,
        .cancelled_total = pb->cancelled_total,
        .databases = (const char *const *)pb->databases,
        .database_count = pb->n_databases,
        .draining = pb->draining,
        .owned = pb,
    };
    if (!status_take_rows(pb, out)) {
        od_status_release(out);
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a status");
    }
    return OD_OK;
}

void od_status_release(od_status *s)
{
    if (!s || !s->owned)
        return;
    od_free((void *)(uintptr_t)s->workers);
    od_free((void *)(uintptr_t)s->running);
    protobuf_c_message_free_unpacked(s->owned, &allocator);
    *s = (od_status){0};
}
