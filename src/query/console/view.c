#include "query/console/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/banned.h"

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void put_names(od_json *json, const char *key, const char *const *names, size_t count)
{
    od_json_put(json, "\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        od_json_put(json, i ? "," : "");
        od_json_text(json, od_slice_str(names[i]));
    }
    od_json_put(json, "]");
}

static void put_fields(od_json *json, const char *const (*fields)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        od_json_field(json, fields[i][0], fields[i][1]);
        od_json_put(json, ",");
    }
}

static void put_worker(od_json *json, const od_status_worker *w)
{
    const char *const texts[][2] = {{"id", w->worker_id}, {"endpoint", w->endpoint}};

    od_json_put(json, "{");
    put_fields(json, texts, sizeof texts / sizeof *texts);
    od_json_put(json, "\"healthy\":%s,\"in_flight\":%" PRIu32 ",\"max_concurrency\":%" PRIu32, truth(w->healthy),
                w->in_flight, w->max_concurrency);
    od_json_put(json, ",\"known_seconds\":%" PRIu64 ",", w->known_seconds);
    put_names(json, "databases", w->databases, w->database_count);
    od_json_put(json, "}");
}

/* The beginning of SQL, whole characters only. */
static od_slice shorten(const char *sql)
{
    od_slice text = od_slice_str(sql);

    if (text.len <= VIEW_SQL)
        return text;
    for (text.len = VIEW_SQL; text.len > 0 && (text.data[text.len] & 0xC0U) == 0x80U;)
        text.len--;
    return text;
}

static void put_running(od_json *json, const od_status_running *r)
{
    const char *const texts[][2] = {{"id", r->execution_id},
                                    {"database", r->database},
                                    {"client", r->client},
                                    {"user", r->user},
                                    {"worker", r->worker}};
    od_slice sql = shorten(r->sql);

    od_json_put(json, "{");
    put_fields(json, texts, sizeof texts / sizeof *texts);
    od_json_put(json, "\"elapsed_ms\":%" PRIu64 ",\"bytes_sent\":%" PRIu64 ",\"waiting\":%s,\"cut\":%s,\"sql\":",
                r->elapsed_ms, r->bytes_sent, truth(r->waiting), truth(r->sql && r->sql[sql.len] != '\0'));
    od_json_text(json, sql);
    od_json_put(json, "}");
}

static int by_age(const void *a, const void *b)
{
    uint64_t x = (*(const od_status_running *const *)a)->elapsed_ms;
    uint64_t y = (*(const od_status_running *const *)b)->elapsed_ms;

    return x > y ? -1 : x < y;
}

static od_code put_all_running(od_json *json, const od_status *s, od_error *err)
{
    const od_status_running **order = od_calloc(s->running_count + 1, sizeof *order);

    if (!order)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a list of executions");
    for (size_t i = 0; i < s->running_count; i++)
        order[i] = &s->running[i];
    qsort((void *)order, s->running_count, sizeof *order, by_age);
    for (size_t i = 0; i < s->running_count && i < VIEW_RUNNING; i++) {
        od_json_put(json, i ? "," : "");
        put_running(json, order[i]);
    }
    od_free((void *)order);
    return OD_OK;
}

od_code view_status(const od_status *s, od_buf *out, od_error *err)
{
    const char *const texts[][2] = {{"version", s->version}, {"duckdb_version", s->duckdb_version}, {"role", s->role}};
    od_json json = {.out = out, .err = err};
    od_code rc;

    od_json_put(&json, "{");
    put_fields(&json, texts, sizeof texts / sizeof *texts);
    od_json_put(&json, "\"uptime_seconds\":%" PRIu64 ",\"draining\":%s,", s->uptime_seconds, truth(s->draining));
    od_json_put(&json, "\"in_flight\":%" PRIu32 ",\"max_in_flight\":%" PRIu32 ",\"queued\":%" PRIu32, s->in_flight,
                s->max_in_flight, s->queued);
    od_json_put(&json, ",\"max_queued\":%" PRIu32 ",\"transactions\":%" PRIu32, s->max_queued, s->transactions);
    od_json_put(&json,
                ",\"executions_total\":%" PRIu64 ",\"errors_total\":%" PRIu64 ",\"cancelled_total\":%" PRIu64 ",",
                s->executions_total, s->errors_total, s->cancelled_total);
    put_names(&json, "databases", s->databases, s->database_count);
    od_json_put(&json, ",\"workers\":[");
    for (size_t i = 0; i < s->worker_count; i++) {
        od_json_put(&json, i ? "," : "");
        put_worker(&json, &s->workers[i]);
    }
    od_json_put(&json, "],\"running_count\":%zu,\"running\":[", s->running_count);
    rc = put_all_running(&json, s, err);
    od_json_put(&json, "]}");
    return rc != OD_OK ? rc : json.rc;
}

od_code view_failures(const od_gateway_failure *list, size_t count, od_buf *out, od_error *err)
{
    od_json json = {.out = out, .err = err};

    od_json_put(&json, "{\"failures\":[");
    for (size_t i = 0; i < count; i++) {
        const od_gateway_failure *f = &list[i];
        const char *const texts[][2] = {{"call", f->call},
                                        {"id", f->execution_id},
                                        {"database", f->database},
                                        {"client", f->client},
                                        {"user", f->user},
                                        {"code", od_code_name(f->code)},
                                        {"kind", od_kind_name(f->kind)},
                                        {"sqlstate", f->sqlstate}};

        od_json_put(&json, "%s{\"unix_ms\":%" PRId64 ",", i ? "," : "", f->unix_ms);
        put_fields(&json, texts, sizeof texts / sizeof *texts);
        od_json_field(&json, "message", f->message);
        od_json_put(&json, "}");
    }
    od_json_put(&json, "]}");
    return json.rc;
}
