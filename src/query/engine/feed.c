/* A statement over rows that are on their way: a view of their name, and the statement's execution. */
#include <string.h>

#include "arrow/ipc_read.h"
#include "base/alloc.h"
#include "base/ident.h"
#include "query/engine/feed_internal.h"
#include "query/engine/native_read.h"
#include "query/engine/txn_internal.h"
#include "base/banned.h"

struct od_feed {
    od_engine *engine;
    od_txn *txn;
    od_rights *rights;
    bool own_txn;
    char *database, *table, *statement;
    uint64_t expected_catalog_version;
    size_t column_count;
    char **names, **sql_types;
    duckdb_logical_type *types;
    od_native_reader *native;
    od_feed_queue queue;
    od_feed_shape shape;
    od_stream_source source;
    bool viewed;
    atomic_bool stopped;

    pthread_mutex_t lock; /* execution */
    od_execution *execution;
};

/* ---- opening ---- */

static od_code copy_text(od_slice text, const char *what, char **out, od_error *err)
{
    if (text.len == 0 || memchr(text.data, '\0', text.len) != NULL)
        return od_fail(err, OD_E_INVALID, "%s is empty or holds a NUL", what);
    *out = od_strndup((const char *)text.data, text.len);
    return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
}

static od_code copy_columns(od_feed *feed, const od_feed_request *request, od_error *err)
{
    size_t n = request->column_count;
    od_code rc = OD_OK;
    if (n == 0)
        return od_fail(err, OD_E_INVALID, "arriving rows without columns");
    feed->names = od_calloc(n, sizeof *feed->names);
    feed->sql_types = od_calloc(n, sizeof *feed->sql_types);
    feed->types = od_calloc(n, sizeof(duckdb_logical_type));
    if (feed->names == NULL || feed->sql_types == NULL || feed->types == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    feed->column_count = n;
    for (size_t i = 0; i < n && rc == OD_OK; i++) {
        rc = copy_text(request->columns[i].name, "a column's name", &feed->names[i], err);
        if (rc == OD_OK)
            rc = copy_text(request->columns[i].sql_type, "a column's type", &feed->sql_types[i], err);
    }
    return rc;
}

od_code od_feed_open(od_engine *engine, const od_feed_request *request, od_feed **out, od_error *err)
{
    od_code rc;
    *out = NULL;
    if (engine->host == NULL)
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "arriving rows cannot be read by a statement in this build");
    od_feed *feed = od_calloc(1, sizeof *feed);
    if (feed == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    feed->engine = engine;
    atomic_init(&feed->stopped, false);
    (void)pthread_mutex_init(&feed->lock, NULL);
    rc = od_feed_queue_init(&feed->queue, err);
    if (rc != OD_OK)
        goto out;
    feed->queue.idle_ns = request->idle_ns;
    feed->queue.room = request->room;
    feed->queue.room_arg = request->room_arg;
    feed->expected_catalog_version = request->expected_catalog_version;
    feed->shape.format = request->format;
    feed->txn = request->txn != NULL ? od_txn_ref(request->txn) : NULL;
    feed->rights = od_rights_ref(request->rights);
    feed->database =
        od_strndup(request->database.len > 0 ? (const char *)request->database.data : "", request->database.len);
    if (feed->database == NULL)
        rc = od_fail(err, OD_E_NO_MEMORY, "out of memory");
    if (rc == OD_OK)
        rc = copy_text(request->table, "the rows' name", &feed->table, err);
    if (rc == OD_OK)
        rc = copy_text(request->statement, "the statement", &feed->statement, err);
    if (rc == OD_OK)
        rc = copy_columns(feed, request, err);
    *out = feed;
    if (rc == OD_OK)
        return OD_OK;
out:
    *out = NULL;
    od_feed_free(feed);
    return rc;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; texts != NULL && i < count; i++)
        od_free(texts[i]);
    od_free(texts);
}

void od_feed_free(od_feed *feed)
{
    if (feed == NULL)
        return;
    od_txn_unref(feed->txn);
    od_rights_unref(feed->rights);
    od_feed_queue_release(&feed->queue);
    od_native_reader_free(feed->native);
    for (size_t i = 0; i < feed->column_count; i++)
        if (feed->types[i] != NULL)
            duckdb_destroy_logical_type(&feed->types[i]);
    od_free(feed->types);
    free_texts(feed->names, feed->column_count);
    free_texts(feed->sql_types, feed->column_count);
    od_free(feed->database);
    od_free(feed->table);
    od_free(feed->statement);
    (void)pthread_mutex_destroy(&feed->lock);
    od_free(feed);
}

/* ---- the pusher's side ---- */

od_code od_feed_push(od_feed *feed, od_msg *owner, od_slice payload, bool *room, od_error *err)
{
    return od_feed_queue_push(&feed->queue, owner, payload, room, err);
}

void od_feed_end(od_feed *feed)
{
    od_feed_queue_end(&feed->queue);
}

void od_feed_fail(od_feed *feed, const od_error *why)
{
    od_feed_queue_fail(&feed->queue, why);
    (void)pthread_mutex_lock(&feed->lock);
    atomic_store(&feed->stopped, true);
    if (feed->execution != NULL)
        od_execution_interrupt(feed->execution);
    (void)pthread_mutex_unlock(&feed->lock);
}

static void publish(od_feed *feed, od_execution *execution)
{
    (void)pthread_mutex_lock(&feed->lock);
    feed->execution = execution;
    if (execution != NULL && atomic_load(&feed->stopped))
        od_execution_interrupt(execution);
    (void)pthread_mutex_unlock(&feed->lock);
}

/* ---- the view ---- */

static od_code view_sql(const od_feed *feed, const char *verb, const char *rest, od_buf *out, od_error *err)
{
    od_code rc = od_buf_printf(out, err, "%s VIEW temp.main.", verb);
    if (rc == OD_OK)
        rc = od_quote_ident(out, od_slice_str(feed->table), err);
    if (rc == OD_OK)
        rc = od_buf_append(out, rest, strlen(rest) + 1, err);
    return rc;
}

/* In the transaction's turn. */
static od_code make_view(od_feed *feed, od_error *err)
{
    duckdb_connection connection = feed->txn->lease->connection;
    od_slice *texts = od_calloc(feed->column_count, sizeof *texts);
    od_buf sql = {0};
    od_code rc = OD_OK;
    if (texts == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < feed->column_count; i++)
        texts[i] = od_slice_str(feed->sql_types[i]);
    OD_TRY(od_types_parse(connection, texts, feed->column_count, feed->types, err));
    if (feed->shape.format == OD_FORMAT_NATIVE)
        OD_TRY(od_native_reader_create((const char *const *)feed->names, feed->types, feed->column_count, &feed->native,
                                       err));
    feed->shape = (od_feed_shape){.queue = &feed->queue,
                                  .format = feed->shape.format,
                                  .column_count = feed->column_count,
                                  .types = feed->types,
                                  .native = feed->native,
                                  .connection = connection,
                                  .host = feed->engine->host};
    feed->source = (od_stream_source){.arg = &feed->shape,
                                      .column_count = feed->column_count,
                                      .names = (const char *const *)feed->names,
                                      .types = (void *const *)feed->types,
                                      .open = od_feed_reader_open,
                                      .close = od_feed_reader_close,
                                      .next = od_feed_reader_next,
                                      .wait = od_feed_reader_wait};
    OD_TRY(view_sql(feed, "CREATE TEMPORARY", " AS FROM openduck_stream()", &sql, err));
    feed->engine->host->set_stream(connection, &feed->source);
    rc = od_duck_run(connection, (const char *)sql.data, err);
    feed->viewed = rc == OD_OK;
    if (rc != OD_OK)
        feed->engine->host->set_stream(connection, NULL);
out:
    od_free(texts);
    od_buf_release(&sql);
    return rc;
}

static od_code enter_view(od_feed *feed, od_error *err)
{
    od_code rc = od_txn_enter(feed->txn, &feed->stopped, NULL, err);
    if (rc != OD_OK)
        return rc;
    rc = make_view(feed, err);
    od_txn_leave(feed->txn);
    return rc;
}

/* Whatever came of the statement: the name and the rows are gone from the connection. */
static void leave_view(od_feed *feed)
{
    od_buf sql = {0};
    if (!feed->viewed || !od_txn_enter_last(feed->txn))
        return;
    duckdb_connection connection = feed->txn->lease->connection;
    feed->engine->host->set_stream(connection, NULL);
    /* In an aborted transaction the view is gone with it. */
    if (view_sql(feed, "DROP", "", &sql, NULL) == OD_OK)
        od_duck_try(connection, (const char *)sql.data);
    od_buf_release(&sql);
    od_txn_leave(feed->txn);
}

/* ---- the statement ---- */

/* The count that a statement's one row has. */
static od_code read_count(od_msg *payload, uint64_t *rows, od_error *err)
{
    od_ipc_reader *reader = NULL;
    const od_batch *batch = NULL;
    od_code rc;
    OD_TRY(od_ipc_reader_create(&reader, err));
    OD_TRY(od_ipc_reader_start(reader, od_slice_of(od_msg_data(payload), od_msg_len(payload)), NULL, err));
    OD_TRY(od_ipc_reader_next(reader, &batch, err));
    if (batch != NULL && batch->rows == 1 && strcmp(od_ipc_reader_schema(reader)->children[0]->format, "l") == 0)
        memcpy(rows, batch->columns[0].data, sizeof *rows);
out:
    od_ipc_reader_free(reader);
    return rc;
}

static od_code execute(od_feed *feed, uint64_t *rows, od_error *err)
{
    od_execution_request request = {.sql = od_slice_str(feed->statement),
                                    .database = od_slice_str(feed->database),
                                    .format = OD_FORMAT_NATIVE,
                                    .expected_catalog_version = feed->expected_catalog_version,
                                    .txn = feed->txn,
                                    .counts = true};
    od_execution *execution = NULL;
    od_code rc = od_execution_start(feed->engine, &request, &execution, err);
    if (rc != OD_OK)
        return rc;
    publish(feed, execution);
    while (rc == OD_OK) {
        od_msg *payload;
        rc = od_execution_next(execution, &payload, err);
        if (rc != OD_OK || payload == NULL)
            break;
        rc = read_count(payload, rows, err);
        od_msg_unref(payload);
    }
    publish(feed, NULL);
    od_execution_end(execution);
    return rc;
}

/* In feed->txn. */
static od_code run_in_txn(od_feed *feed, uint64_t *rows, od_error *err)
{
    od_error why;
    od_code rc = enter_view(feed, err);
    if (rc == OD_OK)
        rc = execute(feed, rows, err);
    leave_view(feed);
    od_feed_queue_close(&feed->queue);
    if (rc == OD_OK)
        return od_feed_queue_wait_end(&feed->queue, err);
    /* Of rows that failed DuckDB knows no more than that. */
    if (od_feed_queue_failure(&feed->queue, &why) != OD_OK) {
        rc = why.code;
        if (err != NULL)
            *err = why;
    }
    return rc;
}

od_code od_feed_run(od_feed *feed, uint64_t *rows, uint64_t *catalog_version, od_error *err)
{
    od_code rc = OD_OK;
    *rows = 0;
    if (feed->txn == NULL) {
        rc = od_txn_begin(feed->engine, od_slice_str(feed->database), feed->rights, &feed->txn, err);
        feed->own_txn = rc == OD_OK;
    }
    if (rc == OD_OK)
        rc = run_in_txn(feed, rows, err);
    if (feed->own_txn && rc == OD_OK)
        rc = od_txn_commit(feed->txn, err);
    else if (feed->own_txn && od_txn_rollback(feed->txn, "its statement failed", NULL) != OD_OK)
        rc = rc == OD_OK ? OD_E_INTERNAL : rc; /* it is over already */
    *catalog_version = feed->txn != NULL ? od_txn_catalog_version(feed->txn)
                                         : od_engine_catalog_version(feed->engine, od_slice_str(feed->database));
    return rc;
}
