/* The snapshots that are open, each an engine of its own: bounded, shared by those who read the same one, closed when idle. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/uuid.h"
#include "query/engine/engine_internal.h"
#include "base/banned.h"

enum { DEFAULT_MAX = 8, DEFAULT_IDLE_MS = 60000 };

/* How long it is taken for granted that a snapshot was not dropped. */
#define CHECKED_NS ((int64_t)1000000000)

enum { PATH_SIZE = 16384 };

struct od_snapshot {
    od_snapshots *pool;
    od_snapshot *next;
    size_t database; /* of the pool's */
    char id[OD_UUID_TEXT_SIZE];
    od_engine *engine; /* NULL while it is being opened */
    /* Under the pool's lock: */
    unsigned users;
    bool gone;          /* no longer in the list: the last user closes it */
    int64_t used_ns;    /* when it was last given back */
    int64_t checked_ns; /* when the store was last seen to have it */
};

struct od_snapshots {
    od_engine *engine; /* borrowed */
    od_engine_database *databases;
    size_t database_count;
    unsigned threads;
    bool external_access, mounted;
    size_t batch_bytes, max_payload;
    unsigned max;
    int64_t idle_ns; /* 0: no limit */

    pthread_mutex_t lock; /* what follows; never held while something is opened, closed or asked */
    pthread_cond_t changed;
    od_snapshot *list;
    unsigned count; /* open, being opened, or being closed */
    bool stopping;
    pthread_t closer;
    bool has_closer;
};

/* ---- create, free ---- */

static od_code copy_databases(od_snapshots *pool, const od_engine_options *options, od_error *err)
{
    pool->databases = od_calloc(options->database_count + 1, sizeof *pool->databases);
    if (pool->databases == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < options->database_count; i++) {
        od_engine_database *copy = &pool->databases[pool->database_count++];
        copy->name = od_strdup(options->databases[i].name);
        copy->path = od_strdup(options->databases[i].path);
        if (copy->name == NULL || copy->path == NULL)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    }
    return OD_OK;
}

od_code od_snapshots_create(od_engine *engine, const od_engine_options *options, od_snapshots **out, od_error *err)
{
    od_code rc;
    *out = NULL;
    od_snapshots *pool = od_calloc(1, sizeof *pool);
    if (pool == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    (void)pthread_mutex_init(&pool->lock, NULL);
    od_cond_init(&pool->changed);
    pool->engine = engine;
    pool->threads = options->threads;
    pool->external_access = options->external_access;
    pool->mounted = options->mounted;
    pool->batch_bytes = options->batch_bytes;
    pool->max_payload = options->max_payload;
    pool->max = options->max_snapshots > 0 ? options->max_snapshots : DEFAULT_MAX;
    int64_t idle_ms = options->snapshot_idle_ms != 0 ? options->snapshot_idle_ms : DEFAULT_IDLE_MS;
    pool->idle_ns = idle_ms > 0 ? idle_ms * 1000000 : 0;
    OD_TRY(copy_databases(pool, options, err));
    *out = pool;
    pool = NULL;
out:
    od_snapshots_free(pool);
    return rc;
}

static void close_one(od_snapshot *snapshot)
{
    od_engine_close(snapshot->engine);
    od_free(snapshot);
}

void od_snapshots_free(od_snapshots *pool)
{
    if (pool == NULL)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
    if (pool->has_closer)
        (void)pthread_join(pool->closer, NULL);
    while (pool->list != NULL) {
        od_snapshot *snapshot = pool->list;
        pool->list = snapshot->next;
        close_one(snapshot);
    }
    for (size_t i = 0; i < pool->database_count; i++) {
        od_free((void *)(uintptr_t)pool->databases[i].name);
        od_free((void *)(uintptr_t)pool->databases[i].path);
    }
    od_free(pool->databases);
    (void)pthread_cond_destroy(&pool->changed);
    (void)pthread_mutex_destroy(&pool->lock);
    od_free(pool);
}

/* ---- the list, under the lock ---- */

static od_snapshot *find(const od_snapshots *pool, size_t database, const char *id)
{
    od_snapshot *snapshot = pool->list;
    while (snapshot != NULL && (snapshot->database != database || strcmp(snapshot->id, id) != 0))
        snapshot = snapshot->next;
    return snapshot;
}

/* Nobody finds it any more. */
static void unlist(od_snapshot *snapshot)
{
    od_snapshot **at = &snapshot->pool->list;
    if (snapshot->gone)
        return;
    while (*at != snapshot)
        at = &(*at)->next;
    *at = snapshot->next;
    snapshot->gone = true;
}

/* The one that nobody has used for the longest time; NULL: all are in use. */
static od_snapshot *oldest_idle(const od_snapshots *pool)
{
    od_snapshot *oldest = NULL;
    for (od_snapshot *s = pool->list; s != NULL; s = s->next)
        if (s->users == 0 && (oldest == NULL || s->used_ns < oldest->used_ns))
            oldest = s;
    return oldest;
}

/* Closes one that nobody uses; lets go of the lock meanwhile. */
static void close_idle(od_snapshot *snapshot)
{
    od_snapshots *pool = snapshot->pool;
    unlist(snapshot);
    (void)pthread_mutex_unlock(&pool->lock);
    close_one(snapshot);
    (void)pthread_mutex_lock(&pool->lock);
    pool->count--;
    (void)pthread_cond_broadcast(&pool->changed);
}

/* ---- closing what is idle ---- */

static void wait_until(od_snapshots *pool, int64_t at_ns)
{
    (void)od_cond_wait(&pool->changed, &pool->lock, (od_deadline){at_ns});
}

static void *close_when_idle(void *arg)
{
    od_snapshots *pool = arg;
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->stopping) {
        od_snapshot *oldest = oldest_idle(pool);
        if (oldest != NULL && oldest->used_ns + pool->idle_ns <= od_clock_ns())
            close_idle(oldest);
        else
            wait_until(pool, oldest != NULL ? oldest->used_ns + pool->idle_ns : INT64_MAX);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- opening ---- */

static od_code no_snapshot(const od_snapshot *snapshot, od_error *err)
{
    return od_fail(err, OD_E_NOT_FOUND, "database '%s' has no snapshot '%s'",
                   snapshot->pool->databases[snapshot->database].name, snapshot->id);
}

/* Whether the store of DATABASE is behind a mount of openduck-fuse. */
static bool is_mounted(const od_snapshots *pool, size_t database)
{
    const char *path = pool->databases[database].path;
    return pool->mounted && !od_engine_is_stored(path) && strcmp(path, ":memory:") != 0;
}

/* Asks the mount. */
static od_code look_in_mount(const od_snapshot *snapshot, char *path, od_error *err)
{
    const char *file = snapshot->pool->databases[snapshot->database].path;
    const char *end = strrchr(file, '/');
    int length = snprintf(path, PATH_SIZE, "%.*s/snapshots/%s/database.duckdb", end != NULL ? (int)(end - file) : 1,
                          end != NULL ? file : ".", snapshot->id);
    if (length < 0 || length >= PATH_SIZE)
        return od_fail(err, OD_E_TOO_LARGE, "the path of a snapshot beside '%s' is too long", file);
    return access(path, F_OK) == 0 ? OD_OK : no_snapshot(snapshot, err);
}

/* Asks the store. PATH: what attaches it. */
static od_code look(const od_snapshot *snapshot, char *path, od_error *err)
{
    const od_snapshots *pool = snapshot->pool;
    const char *name = pool->databases[snapshot->database].name;
    char why[sizeof err->message] = "";
    duckdb_connection connection = NULL;
    if (is_mounted(pool, snapshot->database))
        return look_in_mount(snapshot, path, err);
    if (duckdb_connect(pool->engine->instance, &connection) == DuckDBError)
        return od_fail(err, OD_E_INTERNAL, "the database gives no connection");
    bool looked = pool->engine->host->find_snapshot(connection, name, snapshot->id, path, PATH_SIZE, why, sizeof why);
    duckdb_disconnect(&connection);
    if (!looked) {
        od_code rc = od_duck_fail(err, why);
        od_error_prefix(err, "cannot look for snapshot '%s' of database '%s'", snapshot->id, name);
        return rc;
    }
    return path[0] != '\0' ? OD_OK : no_snapshot(snapshot, err);
}

/* Beside what the engine itself spills, and of no other process: DuckDB's temporary files have the same names everywhere. */
static od_code temp_directory(const od_snapshot *snapshot, od_buf *out, od_error *err)
{
    const od_snapshots *pool = snapshot->pool;
    const char *beside = "";
    for (size_t i = 0; i < pool->database_count && beside[0] == '\0'; i++)
        if (!pool->mounted && !od_engine_is_stored(pool->databases[i].path) &&
            strcmp(pool->databases[i].path, ":memory:") != 0)
            beside = pool->databases[i].path;
    return od_buf_printf(out, err, "%s.snapshot-%s-%d.tmp", beside, snapshot->id, (int)getpid());
}

/* The same wherever the snapshot is read, since its catalog is. */
static uint64_t version_of(const char *id)
{
    od_uuid uuid;
    uint64_t version = 0;
    if (od_uuid_parse(id, &uuid))
        memcpy(&version, uuid.bytes, sizeof version);
    return version >> 1 | 1;
}

/* A snapshot's share of what the engine may use, as text for memory_limit. */
static od_code memory_share(const od_snapshots *pool, char *out, size_t size, od_error *err)
{
    uint64_t kib = 0;
    duckdb_connection connection = NULL;
    duckdb_result result;
    od_code rc = OD_OK;
    if (duckdb_connect(pool->engine->instance, &connection) == DuckDBError)
        return od_fail(err, OD_E_INTERNAL, "the database gives no connection");
    if (duckdb_query(connection, "SELECT (parse_formatted_bytes(current_setting('memory_limit')) // 1024)::UBIGINT",
                     &result) == DuckDBError)
        rc = od_duck_fail(err, duckdb_result_error(&result));
    duckdb_data_chunk chunk = rc == OD_OK ? duckdb_fetch_chunk(result) : NULL;
    if (chunk != NULL)
        kib = *(uint64_t *)duckdb_vector_get_data(duckdb_data_chunk_get_vector(chunk, 0));
    duckdb_destroy_data_chunk(&chunk);
    duckdb_destroy_result(&result);
    duckdb_disconnect(&connection);
    (void)snprintf(out, size, "%llu KiB", (unsigned long long)(kib / pool->max));
    return rc;
}

static od_code open_engine(const od_snapshot *snapshot, od_engine **out, od_error *err)
{
    const od_snapshots *pool = snapshot->pool;
    char memory[40], *path = od_alloc(PATH_SIZE);
    od_buf temp = {0};
    od_error again;
    od_code rc;
    *out = NULL;
    if (path == NULL)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    OD_TRY(look(snapshot, path, err));
    OD_TRY(temp_directory(snapshot, &temp, err));
    OD_TRY(od_buf_append(&temp, "", 1, err));
    OD_TRY(memory_share(pool, memory, sizeof memory, err));
    const od_engine_database database = {pool->databases[snapshot->database].name, path};
    const od_engine_options options = {
        .databases = &database,
        .database_count = 1,
        .read_only = true,
        .threads = pool->threads,
        .memory_limit = memory,
        .external_access = pool->external_access,
        .batch_bytes = pool->batch_bytes,
        .max_payload = pool->max_payload,
        .host = pool->engine->host,
        .run_places = pool->engine->run_places,
        .temp_directory = (const char *)temp.data,
        .catalog_version = version_of(snapshot->id),
    };
    rc = od_engine_open(&options, out, err);
    if (rc != OD_OK && look(snapshot, path, &again) == OD_E_NOT_FOUND)
        rc = no_snapshot(snapshot, err); /* it was dropped just now */
out:
    od_buf_release(&temp);
    od_free(path);
    return rc;
}

/* ---- taking ---- */

static od_code find_database(const od_engine *engine, od_slice name, size_t *out, od_error *err)
{
    const od_snapshots *pool = engine->snapshots;
    size_t at = 0;
    while (name.len > 0 && at < engine->database_count && !od_slice_equal(od_slice_str(engine->names[at]), name))
        at++;
    if (at == engine->database_count)
        return od_fail(err, OD_E_NOT_FOUND, "database '%.*s' is not served here",
                       (int)(name.len < 200 ? name.len : 200), (const char *)name.data);
    if (at >= pool->database_count || (!od_engine_is_stored(pool->databases[at].path) && !is_mounted(pool, at)))
        return od_fail(err, OD_E_NOT_IMPLEMENTED, "database '%s' has no snapshots: it is not at openduck://",
                       engine->names[at]);
    *out = at;
    return OD_OK;
}

static od_code parse_id(od_slice text, char *id, od_error *err)
{
    od_uuid uuid;
    bool sized = text.len == OD_UUID_TEXT_SIZE - 1 && memchr(text.data, '\0', text.len) == NULL;
    if (sized) {
        memcpy(id, text.data, text.len);
        id[text.len] = '\0';
    }
    if (!sized || !od_uuid_parse(id, &uuid))
        return od_fail(err, OD_E_INVALID, "a snapshot's id is a UUID, which the one that was given is not");
    od_uuid_format(uuid, id);
    return OD_OK;
}

/* Puts one that is to be opened into the list, in use. */
static od_snapshot *enter(od_snapshots *pool, size_t database, const char *id)
{
    od_snapshot *snapshot = od_calloc(1, sizeof *snapshot);
    if (snapshot == NULL)
        return NULL;
    snapshot->pool = pool;
    snapshot->database = database;
    memcpy(snapshot->id, id, sizeof snapshot->id);
    snapshot->users = 1;
    snapshot->next = pool->list;
    pool->list = snapshot;
    pool->count++;
    if (!pool->has_closer && pool->idle_ns > 0)
        pool->has_closer = od_thread_create(&pool->closer, close_when_idle, pool) == 0;
    return snapshot;
}

/* Under the lock: SNAPSHOT in use, or *entered: it is to be opened. */
static od_code reserve(od_snapshots *pool, size_t database, const char *id, od_deadline patience, od_snapshot **out,
                       bool *entered, od_error *err)
{
    for (;;) {
        od_snapshot *snapshot = find(pool, database, id), *idle;
        *entered = false;
        if (snapshot != NULL && snapshot->engine != NULL) {
            snapshot->users++;
            *out = snapshot;
            return OD_OK;
        }
        if (snapshot == NULL && pool->count < pool->max) {
            *out = enter(pool, database, id);
            *entered = true;
            return *out != NULL ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "out of memory");
        }
        idle = snapshot == NULL ? oldest_idle(pool) : NULL;
        if (idle != NULL)
            close_idle(idle);
        else if (!od_deadline_passed(patience))
            wait_until(pool, patience.at_ns);
        else
            return od_fail(err, OD_E_BUSY, "%u snapshots are in use, and no more may be open at once (--max-snapshots)",
                           pool->max);
    }
}

/* Of one that is open: whether it was dropped since. */
static od_code check(od_snapshot *snapshot, od_error *err)
{
    od_snapshots *pool = snapshot->pool;
    int64_t now = od_clock_ns();
    (void)pthread_mutex_lock(&pool->lock);
    bool fresh = now - snapshot->checked_ns < CHECKED_NS;
    (void)pthread_mutex_unlock(&pool->lock);
    if (fresh)
        return OD_OK;
    char *path = od_alloc(PATH_SIZE);
    od_code rc = path != NULL ? look(snapshot, path, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory");
    od_free(path);
    (void)pthread_mutex_lock(&pool->lock);
    if (rc == OD_OK)
        snapshot->checked_ns = now;
    else if (rc == OD_E_NOT_FOUND)
        unlist(snapshot);
    (void)pthread_mutex_unlock(&pool->lock);
    return rc;
}

static od_code open_entered(od_snapshot *snapshot, od_error *err)
{
    od_snapshots *pool = snapshot->pool;
    od_engine *engine;
    int64_t now = od_clock_ns();
    od_code rc = open_engine(snapshot, &engine, err);
    (void)pthread_mutex_lock(&pool->lock);
    snapshot->engine = engine;
    snapshot->checked_ns = now;
    if (rc != OD_OK)
        unlist(snapshot);
    (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
    return rc;
}

od_code od_snapshot_take(od_engine *engine, od_slice database, od_slice id, od_deadline patience, od_snapshot **out,
                         od_error *err)
{
    od_snapshots *pool = engine->snapshots;
    od_snapshot *snapshot = NULL;
    char text[OD_UUID_TEXT_SIZE];
    size_t at = 0;
    bool entered;
    *out = NULL;
    od_code rc = find_database(engine, database, &at, err);
    if (rc == OD_OK)
        rc = parse_id(id, text, err);
    if (rc != OD_OK)
        return rc;
    (void)pthread_mutex_lock(&pool->lock);
    rc = reserve(pool, at, text, patience, &snapshot, &entered, err);
    (void)pthread_mutex_unlock(&pool->lock);
    if (rc == OD_OK)
        rc = entered ? open_entered(snapshot, err) : check(snapshot, err);
    if (rc == OD_OK)
        *out = snapshot;
    else
        od_snapshot_give(snapshot);
    return rc;
}

od_engine *od_snapshot_engine(const od_snapshot *snapshot)
{
    return snapshot->engine;
}

void od_snapshot_spoil(od_snapshot *snapshot)
{
    (void)pthread_mutex_lock(&snapshot->pool->lock);
    unlist(snapshot);
    (void)pthread_mutex_unlock(&snapshot->pool->lock);
}

void od_snapshot_give(od_snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    od_snapshots *pool = snapshot->pool;
    (void)pthread_mutex_lock(&pool->lock);
    snapshot->used_ns = od_clock_ns();
    if (--snapshot->users == 0 && snapshot->gone)
        close_idle(snapshot);
    else if (snapshot->users == 0)
        (void)pthread_cond_broadcast(&pool->changed);
    (void)pthread_mutex_unlock(&pool->lock);
}
