/* What DuckDB's parser says of a statement: asked only where something depends on it. */
#ifndef OD_QUERY_GATEWAY_READING_H
#define OD_QUERY_GATEWAY_READING_H

#include "query/engine.h"
#include "query/gateway/tables.h"

/* Longer statements are not read, so that one takes no loop's time from others. */
enum { READING_MAX = 1 << 20 };

typedef struct {
    bool asked;
    bool known;      /* it could be read */
    bool only_reads; /* it may run twice */
    table_refs tables;
} reading;

/* Asks HOST (NULL: nobody) once; what cannot be read names no table and may do anything. DATABASE is where its names are
 * looked for. */
void reading_take(reading *r, const od_engine_host *host, od_slice sql, od_slice database);
void reading_release(reading *r);

#endif
