/* openduck status: whether an endpoint serves, and what it runs. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cli/command.h"
#include "cli/json.h"
#include "base/banned.h"

enum { TIMEOUT_MS = 5000 };

static void json_field(const char *name, const char *value)
{
    printf("\"%s\": ", name);
    json_text(stdout, od_slice_str(value));
}

static void json_list(const char *name, const char *const *values, size_t count)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", stdout);
        json_text(stdout, od_slice_str(values[i]));
    }
    putchar(']');
}

static void print_json(const char *endpoint, const od_status *s)
{
    putchar('{');
    json_field("endpoint", endpoint);
    fputs(", ", stdout);
    json_field("version", s->version);
    fputs(", ", stdout);
    json_field("duckdb_version", s->duckdb_version);
    fputs(", ", stdout);
    json_field("role", s->role);
    printf(", \"uptime_seconds\": %" PRIu64 ", \"draining\": %s", s->uptime_seconds, s->draining ? "true" : "false");
    printf(", \"in_flight\": %" PRIu32 ", \"max_in_flight\": %" PRIu32 ", \"queued\": %" PRIu32
           ", \"max_queued\": %" PRIu32 ", \"transactions\": %" PRIu32,
           s->in_flight, s->max_in_flight, s->queued, s->max_queued, s->transactions);
    printf(", \"executions_total\": %" PRIu64 ", \"errors_total\": %" PRIu64 ", \"cancelled_total\": %" PRIu64 ", ",
           s->executions_total, s->errors_total, s->cancelled_total);
    json_list("databases", s->databases, s->database_count);
    fputs(", \"workers\": [", stdout);
    for (size_t i = 0; i < s->worker_count; i++) {
        const od_status_worker *w = &s->workers[i];

        fputs(i ? ", {" : "{", stdout);
        json_field("worker_id", w->worker_id);
        fputs(", ", stdout);
        json_field("endpoint", w->endpoint);
        printf(", \"healthy\": %s, \"in_flight\": %" PRIu32 ", \"max_concurrency\": %" PRIu32
               ", \"known_seconds\": %" PRIu64 ", ",
               w->healthy ? "true" : "false", w->in_flight, w->max_concurrency, w->known_seconds);
        json_list("databases", w->databases, w->database_count);
        putchar('}');
    }
    fputs("], \"running\": [", stdout);
    for (size_t i = 0; i < s->running_count; i++) {
        const od_status_running *r = &s->running[i];

        fputs(i ? ", {" : "{", stdout);
        json_field("execution_id", r->execution_id);
        fputs(", ", stdout);
        json_field("database", r->database);
        printf(", \"elapsed_ms\": %" PRIu64 ", \"bytes_sent\": %" PRIu64 ", \"waiting\": %s, ", r->elapsed_ms,
               r->bytes_sent, r->waiting ? "true" : "false");
        json_field("worker", r->worker);
        fputs(", ", stdout);
        json_field("client", r->client);
        fputs(", ", stdout);
        json_field("user", r->user);
        fputs(", ", stdout);
        json_field("sql", r->sql);
        putchar('}');
    }
    fputs("]}\n", stdout);
}

static void print_names(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? ", " : "", names[i]);
}

/* On one line of its own; what could move the terminal's cursor is a blank. */
static void print_sql(const char *sql)
{
    if (!sql[0])
        return;
    fputs("            ", stdout);
    for (; *sql; sql++)
        putchar((unsigned char)*sql < ' ' || *sql == 0x7F ? ' ' : *sql);
    putchar('\n');
}

static void print_text(const char *endpoint, const od_status *s, int64_t took_us)
{
    printf("OK %s role=%s version=%s%s%s uptime=%" PRIu64 "s answered=%.1fms\n", endpoint, s->role, s->version,
           s->duckdb_version[0] ? " duckdb=" : "", s->duckdb_version, s->uptime_seconds, (double)took_us / 1000.0);
    if (s->draining)
        puts("draining:   yes, new executions are refused");
    printf("in flight:  %" PRIu32 " of %" PRIu32 ", queued %" PRIu32 " of %" PRIu32 ", transactions %" PRIu32 "\n",
           s->in_flight, s->max_in_flight, s->queued, s->max_queued, s->transactions);
    printf("executions: %" PRIu64 ", errors %" PRIu64 ", cancelled %" PRIu64 "\n", s->executions_total, s->errors_total,
           s->cancelled_total);
    if (s->database_count > 0) {
        fputs("databases:  ", stdout);
        print_names(s->databases, s->database_count);
        putchar('\n');
    }
    for (size_t i = 0; i < s->worker_count; i++) {
        const od_status_worker *w = &s->workers[i];

        printf("worker:     %s %s%s%s, in flight %" PRIu32 "%s", w->endpoint, w->healthy ? "up" : "down",
               w->worker_id[0] ? ", id " : "", w->worker_id, w->in_flight, w->database_count ? ", databases " : "");
        print_names(w->databases, w->database_count);
        putchar('\n');
    }
    for (size_t i = 0; i < s->running_count; i++) {
        const od_status_running *r = &s->running[i];

        printf("%s    %s %s%s%.1fs, %" PRIu64 " bytes sent%s%s\n",
               r->waiting ? "waiting:" : "running:", r->execution_id, r->database, r->database[0] ? ", " : "",
               (double)r->elapsed_ms / 1000.0, r->bytes_sent, r->worker[0] ? ", at " : "", r->worker);
        print_sql(r->sql);
    }
}

int command_status(const od_options *options)
{
    od_remote *remote = NULL;
    od_status status = {0};
    int64_t start_ns = od_clock_ns();
    od_error err;
    od_code rc;

    OD_TRY(command_connect(options, NULL, NULL, &remote, &err));
    OD_TRY(od_remote_status(remote, TIMEOUT_MS, (od_interrupt){0}, &status, &err));
    if (od_options_bool(options, OD_OPT_JSON))
        print_json(od_remote_authority(remote), &status);
    else
        print_text(od_remote_authority(remote), &status, (od_clock_ns() - start_ns) / 1000);

out:
    od_status_release(&status);
    od_remote_unref(remote);
    if (rc == OD_OK)
        return EXIT_DONE;
    if (!remote)
        return command_fail("status", rc, &err);
    fprintf(stderr, "%s: %s\n", rc == OD_E_UNAVAILABLE || rc == OD_E_TIMEOUT ? "UNREACHABLE" : "UNHEALTHY",
            err.message);
    return EXIT_FAILED;
}
