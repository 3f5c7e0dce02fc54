#include "query/gateway/reading.h"

#include "base/banned.h"

typedef struct {
    table_refs *tables;
    od_slice database;
    bool failed;
} collector;

static void collect(void *arg, const char *catalog, const char *schema, const char *name)
{
    collector *c = arg;

    if (table_refs_add(c->tables, catalog, schema, name, c->database, NULL) != OD_OK)
        c->failed = true;
}

void reading_take(reading *r, const od_engine_host *host, od_slice sql, od_slice database)
{
    collector c = {.tables = &r->tables, .database = database};

    if (r->asked)
        return;
    r->asked = true;
    if (!host || sql.len > READING_MAX)
        return;
    r->known = host->read_statement((const char *)sql.data, sql.len, collect, &c, &r->only_reads) && !c.failed;
    if (r->known)
        return;
    r->only_reads = false;
    table_refs_release(&r->tables);
}

void reading_release(reading *r)
{
    table_refs_release(&r->tables);
    *r = (reading){0};
}
