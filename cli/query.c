/* openduck query SQL: runs one statement and prints its result as it comes. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/result_stream.h"
#include "query/remote_snapshot.h"
#include "query/render.h"
#include "base/banned.h"

enum { QUIET_MS = 1000, STEP_MS = 200 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

/* What is told on a terminal while the query takes its time. */
typedef struct {
    bool on;
    bool shown;
    int64_t start_ns, last_ns;
    uint64_t rows;
    od_result *result;
} progress;

static void progress_hide(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

static void progress_show(progress *p)
{
    int64_t now = od_clock_ns();

    if (!p->on || now - p->start_ns < QUIET_MS * INT64_C(1000000) || now - p->last_ns < STEP_MS * INT64_C(1000000))
        return;
    p->last_ns = now;
    p->shown = true;
    fprintf(stderr, "\r\033[K%llu rows, %.1f MB, %.0f s", (unsigned long long)p->rows,
            p->result ? (double)od_result_bytes(p->result) / 1e6 : 0.0, (double)(now - p->start_ns) / 1e9);
}

static bool wait_over(void *arg)
{
    progress_show(arg);
    return interrupted;
}

/* ---- columns ---- */

/* Arrow formats of numbers, and the extension types of those that Arrow lacks. */
static bool is_number(const struct ArrowSchema *field)
{
    od_slice extension = od_schema_metadata(field, "ARROW:extension:name");
    const char *format = field->format;

    if (field->dictionary)
        return false;
    if (extension.len > 0) {
        od_slice kind = od_schema_metadata(field, "ARROW:extension:metadata");

        return kind.len > 0 && memmem(kind.data, kind.len, "hugeint", 7) != NULL;
    }
    return (format[0] && strchr("cCsSiIlLefg", format[0]) && !format[1]) || format[0] == 'd';
}

static od_code make_columns(const struct ArrowSchema *schema, print_column **out, od_error *err)
{
    print_column *columns = od_calloc((size_t)schema->n_children + 1, sizeof *columns);

    *out = columns;
    if (!columns)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %lld columns", (long long)schema->n_children);
    for (int64_t i = 0; i < schema->n_children; i++)
        columns[i] =
            (print_column){schema->children[i]->name ? schema->children[i]->name : "", is_number(schema->children[i])};
    return OD_OK;
}

/* ---- printing ---- */

static print_format format_of(const od_options *options)
{
    const char *format = od_options_bool(options, OD_OPT_JSON) ? "json" : od_options_str(options, OD_OPT_FORMAT);

    return strcmp(format, "csv") == 0 ? PRINT_CSV : strcmp(format, "json") == 0 ? PRINT_JSON : PRINT_TABLE;
}

/* A table tells NULL from an empty text; CSV does by quoting the latter. */
static const char *null_text(const od_options *options)
{
    if (format_of(options) == PRINT_CSV && !od_options_given(options, OD_OPT_NULL_TEXT))
        return "";
    return od_options_str(options, OD_OPT_NULL_TEXT);
}

static od_code print_chunk(od_render *render, printer *p, od_slice *values, size_t rows, size_t columns, od_error *err)
{
    od_code rc = OD_OK;

    for (size_t row = 0; rc == OD_OK && row < rows; row++) {
        for (size_t i = 0; i < columns; i++) {
            if (od_render_value(render, row, i, &values[i]) && !values[i].data)
                values[i] = od_slice_str("");
        }
        rc = printer_row(p, values, err);
    }
    if (rc == OD_OK && interrupted)
        rc = od_fail(err, OD_E_CANCELLED, "interrupted");
    return rc;
}

/* Prints what STREAM gives. If rows were under way when it failed, they are printed. */
static od_code print_rows(result_stream *stream, const od_options *options, progress *told, od_error *err)
{
    const struct ArrowSchema *schema = result_stream_schema(stream);
    print_format format = format_of(options);
    size_t rows, count = (size_t)schema->n_children;
    od_slice *values = od_calloc(count + 1, sizeof *values);
    print_column *columns = NULL;
    od_render *render = NULL;
    printer *p = NULL;
    od_code rc;

    if (!values)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for %zu columns", count);
    OD_TRY(make_columns(schema, &columns, err));
    OD_TRY(od_render_create(&stream->stream, format == PRINT_JSON ? OD_RENDER_JSON : OD_RENDER_TEXT, &render, err));
    for (;;) {
        OD_TRY(od_render_next(render, &rows, err));
        progress_hide(told);
        if (rows == 0 && stream->failed) {
            rc = stream->error.code;
            goto out;
        }
        /* The head comes with the first rows, so that an error in place of them is all that is printed. */
        if (!p)
            OD_TRY(printer_create(stdout, format, columns, count, null_text(options), &p, err));
        if (rows == 0)
            break;
        told->on = told->on && !isatty(STDOUT_FILENO);
        told->rows = stream->rows;
        OD_TRY(print_chunk(render, p, values, rows, count, err));
    }
    OD_TRY(printer_end(p, err));

out:
    /* What the stream said is what happened; DuckDB only repeats it. */
    if (rc != OD_OK && stream->failed) {
        *err = stream->error;
        rc = stream->error.code;
    }
    if (rc != OD_OK && p && !ferror(stdout))
        printer_cut(p);
    printer_free(p);
    od_render_free(render);
    od_free(columns);
    od_free(values);
    return rc;
}

static od_code run(const od_options *options, od_remote *remote, od_error *err)
{
    size_t count;
    progress told = {.on = isatty(STDERR_FILENO) != 0, .start_ns = od_clock_ns()};
    const od_remote_query query = {.sql = od_slice_str(od_options_args(options, &count)[0]),
                                   .format = OD_FORMAT_LOSSLESS,
                                   .interrupt = {wait_over, &told}};
    result_stream stream = {0};
    od_result *result = NULL;
    bool empty = true;
    od_code rc;

    OD_TRY(od_remote_execute(remote, &query, &result, err));
    told.result = result;
    OD_TRY(result_stream_open(&stream, result, &empty, err));
    if (!empty)
        OD_TRY(print_rows(&stream, options, &told, err));

out:
    fflush(stdout);
    progress_hide(&told);
    result_stream_close(&stream);
    od_result_free(result); /* cancels what still runs */
    return rc;
}

static od_code check_options(const od_options *options, od_error *err)
{
    if (od_options_bool(options, OD_OPT_JSON) && od_options_given(options, OD_OPT_FORMAT) &&
        strcmp(od_options_str(options, OD_OPT_FORMAT), "json") != 0)
        return od_options_reject(options, OD_OPT_FORMAT, "--json asks for json", err);
    return OD_OK;
}

int command_query(const od_options *options)
{
    /* The second Ctrl-C does not wait for anything. */
    const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    od_remote *remote = NULL;
    od_remote_options wanted;
    od_error err;
    od_code rc;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    OD_TRY(check_options(options, &err));
    wanted = (od_remote_options){.execute_timeout_ms = od_options_ms(options, OD_OPT_EXECUTE_TIMEOUT),
                                 .max_message = od_options_size(options, OD_OPT_MAX_MESSAGE)};
    OD_TRY(command_connect(options, od_options_str(options, OD_OPT_DATABASE), &wanted, &remote, &err));
    if (od_options_str(options, OD_OPT_READ_SNAPSHOT)[0])
        OD_TRY(od_remote_set_snapshot(remote, od_options_str(options, OD_OPT_READ_SNAPSHOT), &err));
    errno = 0;
    OD_TRY(run(options, remote, &err));

out:
    od_remote_unref(remote);
    if (rc == OD_OK)
        return EXIT_DONE;
    if (!remote)
        return command_fail("query", rc, &err);
    /* A reader that has seen enough is no news. */
    if (!(ferror(stdout) && errno == EPIPE))
        fprintf(stderr, "Error: %s\n", err.message);
    return EXIT_FAILED;
}
