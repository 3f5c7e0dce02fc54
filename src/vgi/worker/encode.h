/* vgi/worker/encode.h: what a worker has, as records of the protocol. Pure. */
#ifndef OD_VGI_WORKER_ENCODE_H
#define OD_VGI_WORKER_ENCODE_H

#include "vgi/wire.h"
#include "vgi/worker/worker_internal.h"

/* A record is filled column by column in a row; what the tables of fields.c have beyond that is then added, and says nothing. */
typedef enum {
    VGIW_CATALOG_INFO,
    VGIW_ATTACH_RESULT,
    VGIW_COMPANION_INFO,
    VGIW_SCHEMA_INFO,
    VGIW_TABLE_INFO,
    VGIW_FUNCTION_INFO,
    VGIW_BRANCH_INFO,
    VGIW_BRANCHES_RESULT,
    VGIW_SCAN_FUNCTION_RESULT,
    VGIW_BIND_RESPONSE,
    VGIW_INIT_RESPONSE,
    VGIW_CARDINALITY,
    VGIW_VIEW_INFO,
    VGIW_MACRO_INFO,
    VGIW_SETTING_INFO,
    VGIW_OPTION_INFO,
    VGIW_SECRET_TYPE_INFO,
    VGIW_RECORDS
} vgiw_record;

/* Adds what ROW, a record of KIND, lacks. */
void vgiw_complete(const od_vgi_dialect *dialect, vgiw_record kind, od_row *row);

/* A list of records that is made. Zero-initialise, release. */
typedef struct {
    od_buf items; /* od_msg * */
} vgiw_records;

void vgiw_records_release(vgiw_records *records);
/* Completes ROW and takes it as a record of its own; the row is empty afterwards. */
OD_MUST_CHECK od_code vgiw_records_add(vgiw_records *records, const od_vgi_dialect *dialect, vgiw_record kind,
                                       od_row *row, od_error *err);
/* Makes them the column NAME of ROW. */
OD_MUST_CHECK od_code vgiw_records_put(const vgiw_records *records, od_row *row, const char *name, od_error *err);

/* Each fills ROW, which is empty, with a record. */
/* OPTIONS: those of this ATTACH, as a stream; empty: none. */
OD_MUST_CHECK od_code vgiw_put_attached(const od_vgi_dialect *dialect, const od_vgiw *worker, od_slice options,
                                        od_row *row, od_error *err);
OD_MUST_CHECK od_code vgiw_put_catalog(const od_vgi_dialect *dialect, const od_vgiw *worker, od_row *row,
                                       od_error *err);
void vgiw_put_view(const od_vgi_dialect *dialect, const vgiw_definition *view, od_row *row);
OD_MUST_CHECK od_code vgiw_put_macro(const od_vgi_dialect *dialect, const vgiw_definition *macro, od_row *row,
                                     od_error *err);
void vgiw_put_schema(const od_vgi_dialect *dialect, const od_vgiw *worker, const vgiw_schema *schema, od_row *row);
/* Called NAME, which is not its own where it is an older version. */
OD_MUST_CHECK od_code vgiw_put_table(const od_vgi_dialect *dialect, const vgiw_table *table, const char *name,
                                     od_row *row, od_error *err);
OD_MUST_CHECK od_code vgiw_put_function(const od_vgi_dialect *dialect, const vgiw_function *function, od_row *row,
                                        od_error *err);
/* The branches of TABLE, with their filters as they are now. */
OD_MUST_CHECK od_code vgiw_put_branches(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row,
                                        od_error *err);
/* For clients that know no branches: the one function that TABLE is read by. OD_E_NOT_IMPLEMENTED: it takes more than that. */
OD_MUST_CHECK od_code vgiw_put_scan_function(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row,
                                             od_error *err);
/* The function that rows go to which are written to TABLE. */
OD_MUST_CHECK od_code vgiw_put_insert_function(const od_vgi_dialect *dialect, const vgiw_table *table, od_row *row,
                                               od_error *err);

/* Texts as slices, to be freed; NULL: no memory. */
od_slice *vgiw_slices(char *const *texts, size_t count);
/* Statistics of COLUMNS, one of each in their order, as a stream; what says nothing is left out. */
OD_MUST_CHECK od_code vgiw_write_statistics(const struct ArrowSchema *columns, const od_vgiw_statistics *statistics,
                                            od_msg **out, od_error *err);

#endif
