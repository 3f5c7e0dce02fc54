/* Rows of the metadata as lists. */
#include "storage/meta/db.h"

#include <string.h>

#include "base/alloc.h"

#include "base/banned.h"

/* All rows of STMT behind the COUNT that are there. */
static od_code append(od_meta *meta, db_stmt *stmt, const db_row_kind *kind, void **rows, size_t *count, od_error *err)
{
    size_t cap = *count;

    for (;;) {
        bool row;
        od_code rc = db_step(meta, stmt, &row, err);

        if (rc != OD_OK || !row)
            return rc;
        if (*count == cap) {
            void *grown = od_realloc(*rows, (cap * 2 + 8) * kind->size);

            if (grown == NULL)
                return od_fail(err, OD_E_NO_MEMORY, "no memory for the list of %s", kind->name);
            *rows = grown;
            cap = cap * 2 + 8;
        }
        rc = kind->read(meta, stmt, (char *)*rows + *count * kind->size, err);
        if (rc != OD_OK)
            return rc;
        ++*count;
    }
}

/* ---- Of databases ---- */

static od_code list(od_meta *meta, const char *sql, const char *database, const db_row_kind *kind, void **rows,
                    size_t *count, od_error *err)
{
    db_stmt *stmt = NULL;
    od_uuid tip;
    od_code rc = db_prepare(meta, &stmt, err, sql, "t", database != NULL ? database : "");

    if (rc == OD_OK)
        rc = append(meta, stmt, kind, rows, count, err);
    db_finish(meta, stmt);
    if (rc == OD_OK && *count == 0 && database != NULL)
        rc = db_tip(meta, database, &tip, err);
    return rc;
}

od_code db_list(od_meta *meta, const char *sql, const char *database, const db_row_kind *kind, void **rows,
                size_t *count, od_error *err)
{
    void *found = NULL;
    size_t n = 0;
    db_tries tries = {0};
    od_code rc;

    do {
        od_free(found);
        found = NULL;
        n = 0;
        rc = db_read(meta, err);
        if (rc == OD_OK)
            rc = db_end(meta, list(meta, sql, database, kind, &found, &n, err), err);
    } while (db_again(rc, &tries));
    if (rc == OD_OK) {
        *rows = found;
        *count = n;
    } else {
        od_free(found);
    }
    return rc;
}

/* ---- Of layers ---- */

od_code db_layer(od_meta *meta, const db_stmt *stmt, od_layer_row *out, od_error *err)
{
    int64_t state = db_integer(meta, stmt, 3);
    od_code rc = db_uuid(meta, stmt, 0, &out->id, err);

    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 1, &out->database, err);
    if (rc == OD_OK)
        rc = db_uuid(meta, stmt, 2, &out->parent, err);
    if (rc != OD_OK)
        return rc;
    if (state < OD_LAYER_NEW || state > OD_LAYER_DEAD)
        return od_fail(err, OD_E_CORRUPT, "the metadata hold a layer in state %lld", (long long)state);
    out->state = (od_layer_state)state;
    out->length = (uint64_t)db_integer(meta, stmt, 4);
    if (!meta->driver->hash(stmt, 5, out->hash))
        memset(out->hash, 0, sizeof out->hash);
    out->live = (uint64_t)db_integer(meta, stmt, 6);
    out->named = db_integer(meta, stmt, 7) != 0;
    out->far = db_integer(meta, stmt, 8) != 0;
    out->sent = db_integer(meta, stmt, 9) != 0;
    return OD_OK;
}

static od_code read_layer(od_meta *meta, const db_stmt *stmt, void *out, od_error *err)
{
    return db_layer(meta, stmt, out, err);
}

od_code db_layers(od_meta *meta, db_stmt *stmt, od_layer_rows *out, od_error *err)
{
    static const db_row_kind kind = {.name = "layers", .size = sizeof(od_layer_row), .read = read_layer};
    void *rows = out->rows;
    od_code rc = append(meta, stmt, &kind, &rows, &out->count, err);

    out->rows = rows;
    return rc;
}

void od_layer_rows_release(od_layer_rows *rows)
{
    od_free(rows->rows);
    *rows = (od_layer_rows){0};
}
