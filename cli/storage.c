/* openduck storage: looks after a store. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/store.h"
#include "base/banned.h"

typedef struct {
    od_store *store;
    const char *database; /* NULL: all */
    bool json;
    bool whole;
    uint64_t layers;
    uint64_t bytes;
    uint64_t found; /* damaged layers, merges, databases */
} call;

/* ---- verify ---- */

static int tell_check(void *arg, const od_storage_check *check)
{
    call *c = arg;
    char size[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];

    c->layers++;
    c->bytes += check->bytes;
    if (check->problem != NULL) {
        store_progress_end();
        if (c->json) {
            fputs(c->found > 0 ? ",\n  {" : "\n  {", stdout);
            store_json("layer", check->layer);
            fputs(", ", stdout);
            store_json("problem", check->problem);
            putchar('}');
        } else {
            printf("%s  %s\n", check->layer, check->problem);
        }
        c->found++;
    }
    store_progress("%s, %s", store_layers(c->layers, layers), store_size(c->bytes, size));
    return 0;
}

static od_storage_code verify(call *c, od_storage_error *err)
{
    char size[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];
    od_storage_code rc;

    fputs(c->json ? "{\"damaged\": [" : "", stdout);
    rc = od_store_verify(c->store, tell_check, c, err);
    store_progress_end();
    if (c->json)
        printf("], \"layers\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", c->layers, c->bytes);
    else
        printf("%s, %s, %" PRIu64 " damaged\n", store_layers(c->layers, layers), store_size(c->bytes, size), c->found);
    return rc;
}

/* ---- compact ---- */

static int tell_merge(void *arg, const od_storage_merge *merge)
{
    call *c = arg;
    char before[STORE_SIZE_TEXT];
    char after[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];

    (void)store_layers(merge->layers, layers);
    (void)store_size(merge->bytes_before, before);
    (void)store_size(merge->bytes_after, after);
    if (!merge->done) {
        store_progress("%s, %s: wrote %s", layers, before, after);
        return 0;
    }
    store_progress_end();
    if (c->json) {
        fputs(c->found > 0 ? ",\n  {" : "\n  {", stdout);
        store_json("layer", merge->layer);
        printf(", \"layers\": %" PRIu64 ", \"bytes_before\": %" PRIu64 ", \"bytes_after\": %" PRIu64 "}", merge->layers,
               merge->bytes_before, merge->bytes_after);
    } else {
        printf("%s  %s, %s, became one of %s\n", merge->layer, layers, before, after);
    }
    c->found++;
    return 0;
}

static od_storage_code compact(call *c, od_storage_error *err)
{
    od_storage_code rc;

    fputs(c->json ? "{\"merges\": [" : "", stdout);
    rc = od_store_compact(c->store, c->database, c->whole, tell_merge, c, err);
    store_progress_end();
    if (c->json)
        puts("]}");
    else if (rc == OD_STORAGE_OK && c->found == 0)
        puts("nothing to merge");
    return rc;
}

/* ---- tier ---- */

static int tell_tiered(void *arg, const od_storage_tiered *tiered)
{
    call *c = arg;
    char size[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];

    c->layers++;
    c->bytes += tiered->bytes;
    if (c->json) {
        fputs(c->layers > 1 ? ",\n  {" : "\n  {", stdout);
        store_json("layer", tiered->layer);
        printf(", \"bytes\": %" PRIu64 "}", tiered->bytes);
    } else {
        store_progress_end();
        printf("%s  %s\n", tiered->layer, store_size(tiered->bytes, size));
    }
    store_progress("%s, %s", store_layers(c->layers, layers), store_size(c->bytes, size));
    return 0;
}

static od_storage_code tier(call *c, od_storage_error *err)
{
    od_storage_code rc;

    fputs(c->json ? "{\"sent\": [" : "", stdout);
    rc = od_store_tier(c->store, tell_tiered, c, err);
    store_progress_end();
    if (c->json)
        puts("]}");
    else if (rc == OD_STORAGE_OK && c->layers == 0)
        puts("nothing to send");
    return rc;
}

/* ---- status ---- */

static void print_status(const od_storage_status *s)
{
    char stored[STORE_SIZE_TEXT];
    char data[STORE_SIZE_TEXT];
    char layers[STORE_SIZE_TEXT];

    printf("%s%s\n", s->database, s->has_writer ? " (has a writer)" : "");
    printf("  %" PRIu64 " snapshot%s, %s, %" PRIu64 " to be merged\n", s->snapshots, s->snapshots == 1 ? "" : "s",
           store_layers(s->layers, layers), s->mergeable);
    printf("  %s in layers for %s of data", store_size(s->stored_bytes, stored), store_size(s->data_bytes, data));
    if (s->data_bytes > 0)
        printf(": %.2f stored and %.2f read a byte, in %" PRIu64 " pieces",
               (double)s->stored_bytes / (double)s->data_bytes, (double)s->read_bytes / (double)s->data_bytes,
               s->extents);
    putchar('\n');
}

static int tell_status(void *arg, const od_storage_status *s)
{
    call *c = arg;

    c->found++;
    if (!c->json) {
        print_status(s);
        return 0;
    }
    fputs(c->found > 1 ? ",\n {" : "{", stdout);
    store_json("database", s->database);
    printf(", \"has_writer\": %s, \"snapshots\": %" PRIu64 ", \"layers\": %" PRIu64 ", \"mergeable\": %" PRIu64,
           s->has_writer ? "true" : "false", s->snapshots, s->layers, s->mergeable);
    printf(", \"stored_bytes\": %" PRIu64 ", \"data_bytes\": %" PRIu64 ", \"read_bytes\": %" PRIu64
           ", \"extents\": %" PRIu64 "}",
           s->stored_bytes, s->data_bytes, s->read_bytes, s->extents);
    return 0;
}

static od_storage_code status(call *c, od_storage_error *err)
{
    od_storage_code rc;

    fputs(c->json ? "[" : "", stdout);
    rc = od_store_status(c->store, c->database, tell_status, c, err);
    fputs(c->json ? "]\n" : "", stdout);
    return rc;
}

static const struct {
    const char *name;
    size_t most;
    od_storage_code (*run)(call *c, od_storage_error *err);
    const char *usage;
} verbs[] = {
    {"verify", 0, verify, "'verify' takes no argument: it reads the whole store"},
    {"compact", 1, compact, "'compact' takes at most a DATABASE"},
    {"tier", 0, tier, "'tier' takes no argument: it sends what the whole store has not sent"},
    {"status", 1, status, "'status' takes at most a DATABASE"},
};

int command_storage(const od_options *options)
{
    size_t count;
    const char *const *args = od_options_args(options, &count);
    od_storage_error err = {0};
    call c = {.json = od_options_bool(options, OD_OPT_JSON), .whole = od_options_bool(options, OD_OPT_WHOLE)};
    int code;

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(args[0], verbs[i].name) != 0)
            continue;
        if (count - 1 > verbs[i].most)
            return store_usage("storage", verbs[i].usage);
        if (c.whole && verbs[i].run != compact)
            return store_usage("storage", "--whole is for 'compact'");
        c.database = count > 1 ? args[1] : NULL;
        if (!store_open("storage", options, &c.store, &code))
            return code;
        return store_close("storage", c.store, verbs[i].run(&c, &err), &err);
    }
    return store_usage("storage", "the first argument is one of verify, compact, tier, status");
}
