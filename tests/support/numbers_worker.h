/* A VGI worker for tests: the catalog "hot" with a table function numbers(count, label := TEXT), and tables of it. */
#ifndef OD_TESTS_NUMBERS_WORKER_H
#define OD_TESTS_NUMBERS_WORKER_H

#include <stdatomic.h>

#include "openduck/vgi_worker.h"

/* What its functions were told and are to do. Each connection has a thread. */
typedef struct {
    int fail_at; /* this batch fails; 0: none does */
    atomic_uint opened, closed;
    atomic_uint asked; /* for filters of the table `moving` */
} numbers_state;

/* Rows are (n BIGINT, s VARCHAR), one in a batch: n counts, s is the label, or the SQL of the filters that came. Schema main has the function, the
 * tables `numbers` (of 10) and `moving` (two branches, whose filters name how often they were asked for); the companion is `lake`. */
od_vgiw *numbers_worker(numbers_state *state);

/* Adds to its schema "other": counted(value), a scalar function; running(TABLE), endless(TABLE), which has no end, and whole(TABLE), which add; ones(count), of which
 * up to three streams may share the rows; the option `factor`, and the setting `more`. */
void sum_functions(od_vgiw *worker, numbers_state *state);

#endif
