#include "fuse/mount.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/banned.h"

/* A snapshot that nobody uses is kept open for a while, but not for so long that a dropped one lasts. */
enum { IDLE_MS = 5000 };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static od_storage_code no_memory(od_storage_error *err)
{
    err->code = OD_STORAGE_NO_MEMORY;
    snprintf(err->message, sizeof err->message, "out of memory");
    return err->code;
}

/* ---- Places ---- */

/* Under the lock. */
static place *place_add(mount *m, const char *id, time_t created)
{
    place **bigger = od_realloc(m->places, (m->place_count + 1) * sizeof(place *));
    place *p = od_calloc(1, sizeof *p);

    if (bigger)
        m->places = bigger;
    if (!bigger || !p) {
        od_free(p);
        return NULL;
    }
    snprintf(p->id, sizeof p->id, "%s", id);
    p->created = created;
    m->places[m->place_count++] = p;
    return p;
}

od_storage_code place_enter(mount *m, size_t number, od_volume **out, od_storage_error *err)
{
    od_storage_code rc = OD_STORAGE_OK;
    place *p;

    pthread_mutex_lock(&m->lock);
    p = m->places[number];
    if (!p->volume)
        rc = od_volume_open_snapshot(m->store, p->id, &p->volume, err);
    if (rc == OD_STORAGE_OK) {
        p->users++;
        *out = p->volume;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

void place_leave(mount *m, size_t number)
{
    place *p;

    pthread_mutex_lock(&m->lock);
    p = m->places[number];
    p->users--;
    p->idle_since_ms = now_ms();
    pthread_mutex_unlock(&m->lock);
}

typedef struct {
    const char *id;
    time_t created;
    bool found;
} search;

static int match(void *arg, const od_storage_snapshot *snapshot)
{
    search *s = arg;

    s->found = strcmp(snapshot->id, s->id) == 0;
    s->created = (time_t)(snapshot->created_ms / 1000);
    return s->found;
}

od_storage_code place_find(mount *m, const char *id, size_t *number, od_storage_error *err)
{
    search s = {.id = id};
    od_storage_code rc = od_store_snapshots(m->store, m->database, match, &s, err);
    size_t i = 1;

    if (rc != OD_STORAGE_OK)
        return rc;
    if (!s.found)
        return OD_STORAGE_NOT_FOUND;
    pthread_mutex_lock(&m->lock);
    while (i < m->place_count && strcmp(m->places[i]->id, id) != 0)
        i++;
    if (i == m->place_count && !place_add(m, id, s.created))
        rc = no_memory(err);
    pthread_mutex_unlock(&m->lock);
    *number = i;
    return rc;
}

time_t place_changed(mount *m, size_t number)
{
    time_t created;

    if (number == 0)
        return atomic_load(&m->changed);
    pthread_mutex_lock(&m->lock);
    created = m->places[number]->created;
    pthread_mutex_unlock(&m->lock);
    return created;
}

static void close_idle(mount *m)
{
    int64_t now = now_ms();

    for (size_t i = 1; i < m->place_count; i++) {
        place *p = m->places[i];

        if (p->volume && p->users == 0 && now - p->idle_since_ms >= IDLE_MS) {
            (void)od_volume_close(p->volume, NULL); /* nothing of it was written */
            p->volume = NULL;
        }
    }
}

static void *janitor(void *arg)
{
    mount *m = arg;
    struct timespec until;

    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += 1;
        (void)pthread_cond_timedwait(&m->wake, &m->lock, &until);
        close_idle(m);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

void place_scratch(mount *m, node n, char *out, size_t size)
{
    snprintf(out, size, "%s/%zu-%llu", m->scratch, n.place, (unsigned long long)n.file);
}

/* ---- Files that are open ---- */

bool name_is_hidden(const char *name)
{
    return strncmp(name, REMOVED_PREFIX, strlen(REMOVED_PREFIX)) == 0;
}

static opened *opened_find(mount *m, uint64_t file)
{
    for (size_t i = 0; i < m->opened_count; i++) {
        if (m->opened[i].file == file)
            return &m->opened[i];
    }
    return NULL;
}

bool opened_add(mount *m, uint64_t file)
{
    opened *o, *bigger;

    pthread_mutex_lock(&m->lock);
    o = opened_find(m, file);
    if (!o) {
        bigger = od_realloc(m->opened, (m->opened_count + 1) * sizeof(opened));
        if (bigger) {
            m->opened = bigger;
            o = &bigger[m->opened_count++];
            *o = (opened){.file = file};
        }
    }
    if (o)
        o->times++;
    pthread_mutex_unlock(&m->lock);
    return o != NULL;
}

bool opened_has(mount *m, uint64_t file)
{
    bool has;

    pthread_mutex_lock(&m->lock);
    has = opened_find(m, file) != NULL;
    pthread_mutex_unlock(&m->lock);
    return has;
}

bool opened_drop(mount *m, uint64_t file)
{
    bool removed = false;
    opened *o;

    pthread_mutex_lock(&m->lock);
    o = opened_find(m, file);
    if (o && --o->times == 0) {
        removed = o->removed;
        *o = m->opened[--m->opened_count];
    }
    pthread_mutex_unlock(&m->lock);
    return removed;
}

bool opened_doom(mount *m, uint64_t file)
{
    opened *o;

    pthread_mutex_lock(&m->lock);
    o = opened_find(m, file);
    if (o)
        o->removed = true;
    pthread_mutex_unlock(&m->lock);
    return o != NULL;
}

/* ---- The mount ---- */

typedef struct {
    uint64_t file;
    bool found;
} left;

static int is_left(void *arg, uint64_t file, const char *name, uint64_t size)
{
    left *l = arg;

    (void)size;
    l->file = file;
    l->found = name_is_hidden(name);
    return l->found;
}

static od_storage_code remove_left(od_volume *volume, od_storage_error *err)
{
    od_storage_code rc;
    left l;

    do {
        l.found = false;
        rc = od_volume_list(volume, is_left, &l, err);
        if (rc == OD_STORAGE_OK && l.found)
            rc = od_volume_remove(volume, l.file, err);
    } while (rc == OD_STORAGE_OK && l.found);
    return rc;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static od_storage_code open_tip(mount *m, place *tip, od_storage_error *err)
{
    od_storage_code rc =
        od_volume_open(m->store, m->database, m->read_only ? OD_VOLUME_READ : OD_VOLUME_CREATE, &tip->volume, err);

    if (rc == OD_STORAGE_OK && !m->read_only)
        rc = remove_left(tip->volume, err);
    return rc;
}

static od_storage_code start(mount *m, od_storage_error *err)
{
    place *tip = place_add(m, "", 0);
    od_storage_code rc = tip ? open_tip(m, tip, err) : no_memory(err);

    if (rc == OD_STORAGE_OK && od_thread_create(&m->janitor, janitor, m) != 0)
        rc = no_memory(err);
    if (rc != OD_STORAGE_OK && tip && tip->volume)
        (void)od_volume_close(tip->volume, NULL); /* nothing was written; RC tells why it is not used */
    if (rc != OD_STORAGE_OK)
        od_free(tip);
    return rc;
}

od_storage_code mount_open(mount *m, od_storage_error *err)
{
    pthread_condattr_t attr;
    od_storage_code rc;

    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wake, &attr);
    pthread_condattr_destroy(&attr);
    atomic_init(&m->changed, time(NULL));
    rc = start(m, err);
    if (rc != OD_STORAGE_OK) {
        od_free(m->places);
        pthread_cond_destroy(&m->wake);
        pthread_mutex_destroy(&m->lock);
    }
    return rc;
}

od_storage_code mount_close(mount *m, od_storage_error *err)
{
    od_storage_code rc;

    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_signal(&m->wake);
    pthread_mutex_unlock(&m->lock);
    pthread_join(m->janitor, NULL);
    for (size_t i = 1; i < m->place_count; i++) {
        (void)od_volume_close(m->places[i]->volume, NULL); /* nothing of it was written */
        od_free(m->places[i]);
    }
    rc = m->read_only ? OD_STORAGE_OK : remove_left(m->places[0]->volume, err);
    if (rc == OD_STORAGE_OK)
        rc = od_volume_close(m->places[0]->volume, err);
    else
        (void)od_volume_close(m->places[0]->volume, NULL);
    od_free(m->places[0]);
    od_free(m->places);
    od_free(m->opened);
    pthread_cond_destroy(&m->wake);
    pthread_mutex_destroy(&m->lock);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the threads have ended */
    if (m->scratch && nftw(m->scratch, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0)
        od_log(OD_LOG_WARN, "fuse", "temporary files are left", "folder=%s", m->scratch);
    return rc;
}
