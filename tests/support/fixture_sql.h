/* Functions of a VGI worker that are SQL, run by a DuckDB of its own.
 *
 * $NAME in the text is an argument ($arg_0, $increment), an option of ATTACH, a setting ($greeting), a key of a secret ($secret_port), the
 * moment that is asked for ($at_value) or the filters that are told ($pushed); NULL where there is none. Rows that go in are the table `input`. */
#ifndef FIXTURE_SQL_H
#define FIXTURE_SQL_H

#include "arrow/c_data.h"
#include "openduck/vgi_worker.h"

typedef struct {
    const char *schema, *name;
    od_vgiw_function_kind kind;
    /* "NAME:TYPE" with blanks between; TYPE is Arrow's letter, or "any" or "table", and may be followed by ",named", ",const", ",varargs"
     * or ",optional". */
    const char *parameters;
    const char *sql;
    int projection, filters, exact, nulls, is_volatile;
    int ends;            /* ROWS: SQL over all that went in, `kept`, at the end; before, SQL gives nothing */
    int64_t count;       /* about how many rows; 0: as many as the first argument says */
    const char *setting; /* "a b": those that it needs */
    const char *secret;  /* a type */
    int64_t distinct;    /* of the first column, a number from 0 on, if not 0 */
} sql_function;

/* Columns as "NAME:TYPE", likewise; TYPE is also "(NAME:TYPE;...)" for a struct, and ",rowid" or ",default=SQL" may follow, and ",notnull". */
void fixture_columns(const char *text, struct ArrowSchema *out);
/* FUNCTION outlives WORKER. What cannot be added ends the process. */
void fixture_add(od_vgiw *worker, const sql_function *function);
/* Runs SQL for its effect; false: it failed, which ERR says. */
int fixture_run(const char *sql, od_vgiw_error *err);

/* A connection, a duckdb_connection, to be ended by the second. */
void *fixture_connect(void);
void fixture_disconnect(void *connection);
od_vgiw_code fixture_query(void *connection, const char *sql, od_vgiw_error *err);
/* Runs SQL, with the name behind it of a table, to be read as a whole, of ARRAY, a batch of SCHEMA: "INSERT INTO t FROM". */
od_vgiw_code fixture_lend(void *connection, const struct ArrowSchema *schema, const struct ArrowArray *array,
                          const char *sql, od_vgiw_error *err);
/* All that SQL gives, apart from the connection: NULL: it failed. Batch by batch, then closed (NULL allowed). */
void *fixture_answer_all(void *connection, const char *sql, od_vgiw_error *err);
od_vgiw_code fixture_answer_next(void *rows, struct ArrowArray *out, od_vgiw_error *err);
void fixture_answer_close(void *rows);
/* What SQL, a query of one row, gives; the caller's. */
void fixture_row(const char *sql, struct ArrowSchema *schema, struct ArrowArray *row);
/* A batch of 64-bit integers: COUNT of them from FIRST on, STEP apart. */
void fixture_integers(int64_t first, int64_t step, int64_t count, struct ArrowArray *out);
/* The DuckDB of all functions: opened once, before any is called, and closed. */
void fixture_open(void);
void fixture_close(void);
void fixture_must(od_vgiw_code code, const od_vgiw_error *err);

#endif
