/* Tables and views of the engine's database, as table functions of a VGI worker. */
#ifndef OD_CLI_VGI_SOURCE_H
#define OD_CLI_VGI_SOURCE_H

#include "arrow/c_data.h"
#include "openduck/vgi_worker.h"
#include "query/engine.h"

typedef struct {
    od_engine *engine;
    char *schema, *name, *comment;
    int64_t rows; /* about; -1: not known */
    struct ArrowSchema columns;
} vgi_source;

/* All of the database's, without DuckDB's own. */
typedef struct {
    vgi_source **items;
    size_t count;
} vgi_sources;

OD_MUST_CHECK od_code vgi_sources_open(od_engine *engine, vgi_sources *out, od_error *err);
void vgi_sources_close(vgi_sources *sources);
const vgi_source *vgi_sources_find(const vgi_sources *sources, const char *schema, const char *name);

/* A function called as SOURCE is, in its schema, which is there. SOURCE outlives WORKER. */
od_vgiw_code vgi_source_publish(const vgi_source *source, od_vgiw *worker, od_vgiw_error *err);

/* Runs SQL in DATABASE (NULL: the first), which gives one row of one text; copied to OUT, cut to SIZE. */
OD_MUST_CHECK od_code vgi_source_ask(od_engine *engine, const char *database, const char *sql, char *out, size_t size,
                                     od_error *err);

#endif
