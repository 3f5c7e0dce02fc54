/* Tables that rows are written to, in transactions of clients: each is one of DuckDB's, on a connection of its own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/schema.h"
#include "base/uuid.h"
#include "support/fixture_catalogs.h"
#include "support/fixture_sql.h"

typedef struct transaction {
    struct transaction *next;
    char id[OD_VGIW_ID];
    void *connection;
    pthread_mutex_t lock; /* of the connection */
} transaction;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static transaction *transactions;

static transaction *find(const char *id, bool take)
{
    transaction **at, *found;

    pthread_mutex_lock(&lock);
    for (at = &transactions; *at != NULL && strcmp((*at)->id, id) != 0;)
        at = &(*at)->next;
    found = *at;
    if (found != NULL && take)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

static od_vgiw_code fail(od_vgiw_error *err, const char *why)
{
    err->code = OD_VGIW_FAILED;
    snprintf(err->message, sizeof err->message, "%s", why);
    return OD_VGIW_FAILED;
}

static od_vgiw_code begin(void *arg, char id[OD_VGIW_ID], od_vgiw_error *err)
{
    const od_uuid made = od_uuid_random();
    transaction *t = calloc(1, sizeof *t);

    (void)arg;
    if (t == NULL)
        return fail(err, "out of memory");
    for (size_t i = 0; i < sizeof made.bytes; i++)
        snprintf(t->id + 2 * i, 3, "%02x", made.bytes[i]);
    memcpy(id, t->id, sizeof t->id);
    pthread_mutex_init(&t->lock, NULL);
    t->connection = fixture_connect();
    if (fixture_query(t->connection, "BEGIN", err) != OD_VGIW_OK) {
        fixture_disconnect(t->connection);
        free(t);
        return OD_VGIW_FAILED;
    }
    pthread_mutex_lock(&lock);
    t->next = transactions;
    transactions = t;
    pthread_mutex_unlock(&lock);
    return OD_VGIW_OK;
}

static od_vgiw_code end(const char *id, const char *sql, od_vgiw_error *err)
{
    transaction *t = find(id, true);
    od_vgiw_code code;

    if (t == NULL)
        return fail(err, "there is no such transaction");
    code = fixture_query(t->connection, sql, err);
    fixture_disconnect(t->connection);
    pthread_mutex_destroy(&t->lock);
    free(t);
    return code;
}

static od_vgiw_code commit(void *arg, const char *id, od_vgiw_error *err)
{
    (void)arg;
    return end(id, "COMMIT", err);
}

static od_vgiw_code rollback(void *arg, const char *id, od_vgiw_error *err)
{
    (void)arg;
    return end(id, "ROLLBACK", err);
}

/* ---- rows ---- */

typedef struct {
    const char *name, *columns;
} item_table;

static const item_table tables[] = {
    {"items", "id:l name:u qty:l rowid:l,rowid"},
    {"items_insert_only", "id:l name:u rowid:l,rowid"},
};

typedef struct {
    const item_table *table;
    transaction *transaction;
    struct ArrowSchema input, schema;
    void *rows; /* of a scan: all that there were when it began */
} run;

static od_vgiw_code bind(void *arg, const od_vgiw_call *call, struct ArrowSchema *out, od_vgiw_error *err)
{
    const item_table *table = arg;

    (void)err;
    fixture_columns(call->input != NULL ? "count:l" : table->columns, out);
    return OD_VGIW_OK;
}

static void close_run(void *rows)
{
    run *r = rows;

    fixture_answer_close(r->rows);
    od_schema_release(&r->input);
    free(r);
}

static od_vgiw_code open_run(void *arg, const od_vgiw_scan *scan, void **out, od_vgiw_error *err)
{
    run *r = calloc(1, sizeof *r);
    char sql[100];

    if (r == NULL)
        return fail(err, "out of memory");
    r->table = arg;
    r->transaction = scan->call->transaction != NULL ? find(scan->call->transaction, false) : NULL;
    if (r->transaction == NULL) {
        free(r);
        return fail(err, "there is no such transaction");
    }
    if (scan->call->input != NULL && od_schema_copy(scan->call->input, &r->input, NULL) != OD_OK)
        abort();
    snprintf(sql, sizeof sql, "SELECT *, rowid FROM %s", r->table->name);
    pthread_mutex_lock(&r->transaction->lock);
    r->rows = scan->call->input == NULL ? fixture_answer_all(r->transaction->connection, sql, err) : NULL;
    pthread_mutex_unlock(&r->transaction->lock);
    *out = r;
    if (scan->call->input != NULL || r->rows != NULL)
        return OD_VGIW_OK;
    close_run(r);
    return OD_VGIW_FAILED;
}

static od_vgiw_code next(void *rows, struct ArrowArray *out, od_vgiw_error *err)
{
    run *r = rows;

    return fixture_answer_next(r->rows, out, err);
}

static od_vgiw_code put(void *rows, struct ArrowArray *in, struct ArrowArray *out, int *more, od_vgiw_error *err)
{
    run *r = rows;
    int64_t count = in->length;
    char sql[100];
    od_vgiw_code code;

    (void)more;
    snprintf(sql, sizeof sql, "INSERT INTO %s BY NAME FROM", r->table->name);
    pthread_mutex_lock(&r->transaction->lock);
    code = fixture_lend(r->transaction->connection, &r->input, in, sql, err);
    pthread_mutex_unlock(&r->transaction->lock);
    if (code == OD_VGIW_OK)
        fixture_integers(count, 0, 1, out);
    return code;
}

static void add_table(od_vgiw *worker, const item_table *table)
{
    char insert[64], sql[200];
    struct ArrowSchema columns, parameters;
    const od_vgiw_function scan = {.name = table->name,
                                   .arg = (void *)(uintptr_t)table,
                                   .bind = bind,
                                   .open = open_run,
                                   .next = next,
                                   .close = close_run};
    od_vgiw_function write = {.name = insert,
                              .kind = OD_VGIW_ROWS,
                              .parameters = &parameters,
                              .arg = (void *)(uintptr_t)table,
                              .bind = bind,
                              .open = open_run,
                              .put = put,
                              .close = close_run};
    const od_vgiw_branch branch = {.function = table->name};
    const od_vgiw_table made = {
        .name = table->name, .columns = &columns, .insert = insert, .branches = &branch, .branch_count = 1};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    snprintf(insert, sizeof insert, "%s_insert", table->name);
    snprintf(sql, sizeof sql, "CREATE TABLE %s (id BIGINT, name VARCHAR%s)", table->name,
             strstr(table->columns, "qty") != NULL ? ", qty BIGINT" : "");
    fixture_must(fixture_run(sql, &err) ? OD_VGIW_OK : OD_VGIW_FAILED, &err);
    fixture_columns(table->columns, &columns);
    fixture_columns("data:table", &parameters);
    fixture_must(od_vgiw_add_function(worker, &scan, &err), &err);
    fixture_must(od_vgiw_add_function(worker, &write, &err), &err);
    fixture_must(od_vgiw_add_table(worker, &made, &err), &err);
    od_schema_release(&columns);
    od_schema_release(&parameters);
}

void fixture_items(od_vgiw *worker)
{
    const od_vgiw_transactions made = {NULL, begin, commit, rollback};
    od_vgiw_error err = {.code = OD_VGIW_OK};

    fixture_must(od_vgiw_set_transactions(worker, &made, &err), &err);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        add_table(worker, &tables[i]);
}
