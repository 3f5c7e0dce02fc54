/* query/render.h: Arrow arrays to text, value by value as DuckDB itself writes them.
 *
 * For programs that show results. A DuckDB in memory, of its own, reads the stream as it comes; nothing is held but what is
 * being shown. One thread. */
#ifndef OD_QUERY_RENDER_H
#define OD_QUERY_RENDER_H

#include "arrow/c_data.h"
#include "base/buf.h"

typedef enum {
    OD_RENDER_TEXT, /* CAST(value AS VARCHAR) */
    OD_RENDER_JSON  /* to_json(value) */
} od_render_style;

typedef struct od_render od_render;

/* STREAM is borrowed (and copied: its functions go by private_data); it must outlive the render, and its schema must have at least one column. Its get_next is called by the
 * thread that calls od_render_next. Column names may repeat. */
OD_MUST_CHECK od_code od_render_create(struct ArrowArrayStream *stream, od_render_style style, od_render **out,
                                       od_error *err);
void od_render_free(od_render *render); /* NULL allowed */

/* The next rows; *rows is 0 after the last. An error of the stream is OD_E_IO: the stream's owner knows it better. */
OD_MUST_CHECK od_code od_render_next(od_render *render, size_t *rows, od_error *err);
/* A value of those rows; false: NULL. *text lives until the next od_render_next. */
bool od_render_value(const od_render *render, size_t row, size_t column, od_slice *text);

#endif
