/* openduck snapshot: states of databases that are kept. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/json.h"
#include "cli/store.h"
#include "base/banned.h"

typedef struct {
    od_store *store;
    const char *argument;
    const char *second;
    bool json;
} call;

static od_storage_code seal(const call *c, od_storage_error *err)
{
    char id[OD_STORAGE_ID_SIZE] = "";
    od_volume *volume = NULL;
    od_storage_code rc = od_volume_open(c->store, c->argument, OD_VOLUME_WRITE, &volume, err);
    od_storage_code closed;

    if (rc != OD_STORAGE_OK)
        return rc;
    rc = od_volume_seal(volume, id, err);
    closed = od_volume_close(volume, rc == OD_STORAGE_OK ? err : NULL);
    if (rc != OD_STORAGE_OK)
        return rc;
    if (c->json) {
        fputs("{", stdout);
        store_json("snapshot", id);
        fputs(", ", stdout);
        store_json("database", c->argument);
        puts("}");
    } else {
        puts(id);
    }
    return closed;
}

typedef struct {
    bool json;
    bool any;
} listing;

static void print_row(const od_storage_snapshot *snapshot)
{
    char created[STORE_TIME_TEXT];

    printf("%s  %s  %s\n", snapshot->id, store_time(snapshot->created_ms, created), snapshot->database);
}

static void print_json(const od_storage_snapshot *snapshot)
{
    putchar('{');
    store_json("snapshot", snapshot->id);
    fputs(", ", stdout);
    store_json("database", snapshot->database);
    fputs(", ", stdout);
    store_json("layer", snapshot->layer);
    printf(", \"created_ms\": %" PRId64, snapshot->created_ms);
}

static int list_one(void *arg, const od_storage_snapshot *snapshot)
{
    listing *l = arg;

    if (!l->json) {
        print_row(snapshot);
        return 0;
    }
    fputs(l->any ? ",\n " : "", stdout);
    print_json(snapshot);
    putchar('}');
    l->any = true;
    return 0;
}

static od_storage_code list(const call *c, od_storage_error *err)
{
    listing l = {.json = c->json};
    od_storage_code rc;

    fputs(c->json ? "[" : "", stdout);
    rc = od_store_snapshots(c->store, c->argument, list_one, &l, err);
    fputs(c->json ? "]\n" : "", stdout);
    return rc;
}

typedef struct {
    const call *c;
    bool found;
} search;

static int show_head(void *arg, const od_storage_snapshot *snapshot)
{
    search *s = arg;
    char created[STORE_TIME_TEXT];

    if (strcasecmp(snapshot->id, s->c->argument) != 0)
        return 0;
    s->found = true;
    if (s->c->json)
        print_json(snapshot);
    else
        printf("snapshot:  %s\ndatabase:  %s\ncreated:   %s UTC\nlayer:     %s\n", snapshot->id, snapshot->database,
               store_time(snapshot->created_ms, created), snapshot->layer);
    return 1;
}

static int show_file(void *arg, uint64_t file, const char *name, uint64_t size)
{
    listing *l = arg;
    char text[STORE_SIZE_TEXT];

    (void)file;
    if (!l->json) {
        printf("file:      %s, %s\n", name, store_size(size, text));
        return 0;
    }
    fputs(l->any ? ", {" : "{", stdout);
    store_json("name", name);
    printf(", \"size\": %" PRIu64 "}", size);
    l->any = true;
    return 0;
}

/* It is opened first: what is damaged, or no id, is told by an error alone. */
static od_storage_code show(const call *c, od_storage_error *err)
{
    search s = {.c = c};
    listing l = {.json = c->json};
    od_volume *volume = NULL;
    od_storage_code rc = od_volume_open_snapshot(c->store, c->argument, &volume, err);

    if (rc != OD_STORAGE_OK)
        return rc;
    rc = od_store_snapshots(c->store, NULL, show_head, &s, err);
    if (rc == OD_STORAGE_OK && s.found) {
        fputs(c->json ? ", \"files\": [" : "", stdout);
        rc = od_volume_list(volume, show_file, &l, err);
        fputs(c->json ? "]}\n" : "", stdout);
    } else if (rc == OD_STORAGE_OK) {
        rc = OD_STORAGE_NOT_FOUND;
        snprintf(err->message, sizeof err->message, "the snapshot was dropped just now");
    }
    (void)od_volume_close(volume, NULL);
    return rc;
}

static od_storage_code drop(const call *c, od_storage_error *err)
{
    od_storage_code rc = od_store_drop_snapshot(c->store, c->argument, err);

    if (rc == OD_STORAGE_OK && c->json) {
        putchar('{');
        store_json("dropped", c->argument);
        puts("}");
    } else if (rc == OD_STORAGE_OK) {
        printf("dropped %s\n", c->argument);
    }
    return rc;
}

static od_storage_code clone(const call *c, od_storage_error *err)
{
    od_storage_code rc = od_store_clone(c->store, c->argument, c->second, err);

    if (rc == OD_STORAGE_OK && c->json) {
        putchar('{');
        store_json("database", c->second);
        fputs(", ", stdout);
        store_json("snapshot", c->argument);
        puts("}");
    } else if (rc == OD_STORAGE_OK) {
        printf("cloned %s to %s\n", c->argument, c->second);
    }
    return rc;
}

static const struct {
    const char *name;
    size_t least;
    size_t most;
    od_storage_code (*run)(const call *c, od_storage_error *err);
    const char *usage;
} verbs[] = {
    {"seal", 1, 1, seal, "'seal' takes a DATABASE"},
    {"list", 0, 1, list, "'list' takes at most a DATABASE"},
    {"show", 1, 1, show, "'show' takes a SNAPSHOT"},
    {"drop", 1, 1, drop, "'drop' takes a SNAPSHOT"},
    {"clone", 2, 2, clone, "'clone' takes a SNAPSHOT and the name of the new DATABASE"},
};

int command_snapshot(const od_options *options)
{
    size_t count;
    const char *const *args = od_options_args(options, &count);
    od_storage_error err = {0};
    call c = {.json = od_options_bool(options, OD_OPT_JSON)};
    int code;

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(args[0], verbs[i].name) != 0)
            continue;
        if (count - 1 < verbs[i].least || count - 1 > verbs[i].most)
            return store_usage("snapshot", verbs[i].usage);
        c.argument = count > 1 ? args[1] : NULL;
        c.second = count > 2 ? args[2] : NULL;
        if (!store_open("snapshot", options, &c.store, &code))
            return code;
        return store_close("snapshot", c.store, verbs[i].run(&c, &err), &err);
    }
    return store_usage("snapshot", "the first argument is one of seal, list, show, drop, clone");
}
