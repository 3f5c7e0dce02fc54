/* Random work on layers, compared with the same work in memory, through crashes that lose what was not synced.
 *
 * After a crash the state has to be one that memory had at or after the last sync that was acknowledged. OPENDUCK_LONG=1 takes a million steps. */
#include "storage/store.h"

#include <errno.h>
#include <stdlib.h>

#include "support/lossy_io.h"
#include "unit/storage/place.h"

#define LEASE_MS 1000
#define MAX_SNAPSHOTS 12
#define MAX_STATES 512

typedef struct {
    char layered[OD_STORAGE_ID_SIZE];
    char memory[OD_STORAGE_ID_SIZE];
} pair;

typedef struct {
    place p;
    lossy_io io;
    uint64_t dice;
    od_store *store;
    od_volume *volume;
    od_store *oracle;
    od_volume *twin; /* the volume's in the oracle */
    int generation;
    char states[MAX_STATES][OD_STORAGE_ID_SIZE]; /* of the oracle, since the last acknowledged sync, oldest first */
    int state_count;
    pair snapshots[MAX_SNAPSHOTS];
    int snapshot_count;
    char database[32]; /* that the volume is of */
    int clones;
    od_volume *reader; /* of a snapshot that may have been dropped since; NULL: none */
    od_volume *reader_twin;
    long crashes;
} model;

static uint64_t roll(model *m, uint64_t below)
{
    return lossy_random(&m->dice) % below;
}

static void note_state(model *m)
{
    assert_true(m->state_count < MAX_STATES);
    OK(od_volume_seal(m->twin, m->states[m->state_count++], err));
}

/* The last state is on the disk: what came before cannot come back. */
static void forget_states(model *m)
{
    for (int i = 0; i < m->state_count; i++)
        OK(od_store_drop_snapshot(m->oracle, m->states[i], err));
    m->state_count = 0;
    note_state(m);
}

static void open_store(model *m)
{
    od_store_ports ports = place_ports(&m->p, LEASE_MS, &m->io.io);

    OK(od_store_open_with(&ports, &m->store, err));
    OK(od_volume_open(m->store, m->database, OD_VOLUME_CREATE, &m->volume, err));
}

static void begin(model *m, uint64_t seed)
{
    memset(m, 0, sizeof *m);
    m->dice = seed;
    snprintf(m->database, sizeof m->database, "db");
    place_begin(&m->p);
    lossy_begin(&m->io);
    open_store(m);
    OK(od_store_open_memory(&m->oracle, err));
    OK(od_volume_open(m->oracle, "db", OD_VOLUME_CREATE, &m->twin, err));
    note_state(m);
}

static void check_snapshots(model *m)
{
    for (int i = 0; i < m->snapshot_count; i++) {
        od_volume *left;
        od_volume *right;

        OK(od_volume_open_snapshot(m->store, m->snapshots[i].layered, &left, err));
        OK(od_volume_open_snapshot(m->oracle, m->snapshots[i].memory, &right, err));
        if (!place_same(left, right))
            fail_msg("snapshot %d of %d changed", i, m->snapshot_count);
        OK(od_volume_close(left, err));
        OK(od_volume_close(right, err));
    }
}

static void close_reader(model *m)
{
    if (m->reader == NULL)
        return;
    (void)od_volume_close(m->reader, NULL); /* it may be in the middle of a crash */
    OK(od_volume_close(m->reader_twin, err));
    m->reader = NULL;
}

/* What it reads is what it read at first, whatever was dropped, merged and collected since. */
static void check_reader(model *m)
{
    const pair *of;

    if (m->reader != NULL) {
        if (!place_same(m->reader, m->reader_twin))
            fail_msg("a reader's snapshot changed");
        close_reader(m);
    } else if (m->snapshot_count > 0) {
        of = &m->snapshots[roll(m, (uint64_t)m->snapshot_count)];
        OK(od_volume_open_snapshot(m->store, of->layered, &m->reader, err));
        OK(od_volume_open_snapshot(m->oracle, of->memory, &m->reader_twin, err));
    }
}

/* The id that the next file gets; a file is made and removed to see it. */
static uint64_t next_id(od_volume *volume)
{
    uint64_t file = 0;

    OK(od_volume_create(volume, "probe", &file, err));
    OK(od_volume_remove(volume, file, err));
    return file;
}

/* The oracle goes on from the state that came back. Two states may look alike and differ in the ids that have been given. */
static void adopt(model *m)
{
    uint64_t next = next_id(m->volume);

    OK(od_volume_sync(m->volume, err));
    OK(od_volume_close(m->twin, err));
    for (int i = m->state_count - 1; i >= 0; i--) {
        char name[32];

        snprintf(name, sizeof name, "db%d", ++m->generation);
        OK(od_store_clone(m->oracle, m->states[i], name, err));
        OK(od_volume_open(m->oracle, name, OD_VOLUME_WRITE, &m->twin, err));
        if (place_same(m->volume, m->twin) && next_id(m->twin) == next) {
            forget_states(m);
            return;
        }
        OK(od_volume_close(m->twin, err));
    }
    fail_msg("after crash %ld: no state of the last %d came back", m->crashes, m->state_count);
}

static void crash(model *m)
{
    m->io.dead = true;
    m->crashes++;
    close_reader(m);
    (void)od_volume_close(m->volume, NULL);
    OK(od_store_close(m->store, err));
    lossy_crash(&m->io, &m->dice);
    atomic_fetch_add(&m->p.now, LEASE_MS);
    open_store(m);
    adopt(m);
    check_snapshots(m);
}

static void reopen(model *m)
{
    close_reader(m);
    OK(od_volume_close(m->volume, err));
    OK(od_store_close(m->store, err));
    open_store(m);
    assert_true(place_same(m->volume, m->twin));
    check_snapshots(m);
    forget_states(m);
}

/* Work goes on in a clone of a snapshot. */
static void move_to_clone(model *m)
{
    const pair *of;
    char name[32];

    if (m->snapshot_count == 0)
        return;
    of = &m->snapshots[roll(m, (uint64_t)m->snapshot_count)];
    snprintf(m->database, sizeof m->database, "clone%d", ++m->clones);
    snprintf(name, sizeof name, "twin of %s", m->database);
    OK(od_store_clone(m->store, of->layered, m->database, err));
    OK(od_store_clone(m->oracle, of->memory, name, err));
    OK(od_volume_close(m->volume, err));
    OK(od_volume_close(m->twin, err));
    OK(od_volume_open(m->store, m->database, OD_VOLUME_WRITE, &m->volume, err));
    OK(od_volume_open(m->oracle, name, OD_VOLUME_WRITE, &m->twin, err));
    assert_true(place_same(m->volume, m->twin));
    forget_states(m);
}

/* A file that is there; false: there is none. */
static bool pick(model *m, uint64_t *file, uint64_t *size)
{
    place_listing list = {0};
    size_t i;

    OK(od_volume_list(m->twin, place_note, &list, err));
    if (list.count == 0)
        return false;
    i = (size_t)roll(m, list.count);
    *file = list.id[i];
    *size = list.size[i];
    return true;
}

static void compare_some(model *m, uint64_t file)
{
    uint8_t left[9000];
    uint8_t right[9000];
    uint64_t at = roll(m, 50000);
    size_t len = (size_t)roll(m, sizeof left);
    size_t got_left;
    size_t got_right;

    OK(od_volume_read(m->volume, file, at, left, len, &got_left, err));
    OK(od_volume_read(m->twin, file, at, right, len, &got_right, err));
    assert_int_equal(got_left, got_right);
    assert_memory_equal(left, right, got_left);
}

static od_storage_code change_file(model *m, uint64_t file, uint64_t size)
{
    static uint8_t data[9000];
    char name[16];
    uint64_t at;
    size_t len;
    od_storage_code rc;

    switch (roll(m, 12)) {
    case 0:
        at = roll(m, 3) == 0 ? 0 : roll(m, size + 4000);
        rc = od_volume_truncate(m->volume, file, at, NULL);
        if (rc == OD_STORAGE_OK)
            OK(od_volume_truncate(m->twin, file, at, err));
        return rc;
    case 1:
        snprintf(name, sizeof name, "f%d", (int)roll(m, 5));
        rc = od_volume_rename(m->volume, file, name, NULL);
        if (rc == OD_STORAGE_OK)
            OK(od_volume_rename(m->twin, file, name, err));
        return rc;
    case 2:
        if (roll(m, 3) != 0)
            return OD_STORAGE_OK;
        rc = od_volume_remove(m->volume, file, NULL);
        if (rc == OD_STORAGE_OK)
            OK(od_volume_remove(m->twin, file, err));
        return rc;
    default:
        at = roll(m, 40000);
        len = (size_t)roll(m, sizeof data);
        memset(data, (int)roll(m, 256), len);
        for (size_t i = 0; i < len; i += 97)
            data[i] = (uint8_t)roll(m, 256);
        rc = od_volume_write(m->volume, file, at, data, len, NULL);
        if (rc == OD_STORAGE_OK)
            OK(od_volume_write(m->twin, file, at, data, len, err));
        return rc;
    }
}

static od_storage_code create_file(model *m)
{
    char name[16];
    uint64_t left = 0;
    uint64_t right = 0;
    od_storage_code rc;

    snprintf(name, sizeof name, "f%d", (int)roll(m, 5));
    rc = od_volume_create(m->volume, name, &left, NULL);
    if (rc != OD_STORAGE_OK && rc != OD_STORAGE_EXISTS)
        return rc;
    assert_int_equal(od_volume_create(m->twin, name, &right, NULL), rc);
    assert_int_equal(left, right);
    return OD_STORAGE_OK;
}

static od_storage_code seal(model *m)
{
    pair made;
    od_storage_code rc;

    if (m->snapshot_count == MAX_SNAPSHOTS) {
        int i = (int)roll(m, MAX_SNAPSHOTS);

        rc = od_store_drop_snapshot(m->store, m->snapshots[i].layered, NULL);
        assert_int_equal(rc, OD_STORAGE_OK);
        OK(od_store_drop_snapshot(m->oracle, m->snapshots[i].memory, err));
        m->snapshots[i] = m->snapshots[--m->snapshot_count];
    }
    rc = od_volume_seal(m->volume, made.layered, NULL);
    if (rc != OD_STORAGE_OK)
        return rc;
    OK(od_volume_seal(m->twin, made.memory, err));
    m->snapshots[m->snapshot_count++] = made;
    forget_states(m);
    return rc;
}

static od_storage_code sync_all(model *m)
{
    od_storage_code rc = od_volume_sync(m->volume, NULL);

    if (rc == OD_STORAGE_OK)
        forget_states(m);
    return rc;
}

/* One random step; what it returns is of the layered side. */
static od_storage_code step(model *m)
{
    uint64_t file;
    uint64_t size;
    uint64_t what = roll(m, 100);
    od_storage_code rc;

    if (what < 10)
        return sync_all(m);
    if (what < 14)
        return seal(m);
    if (what < 16)
        return od_store_gc(m->store, (int)roll(m, 2), NULL, NULL, NULL, NULL);
    if (what < 17)
        return od_store_verify(m->store, NULL, NULL, NULL);
    if (what < 19)
        return od_store_compact(m->store, NULL, (int)roll(m, 2), NULL, NULL, NULL);
    if (what < 20 && m->p.blob[0] != '\0')
        return od_store_tier(m->store, NULL, NULL, NULL);
    if (!pick(m, &file, &size) || what < 23) {
        rc = create_file(m);
    } else if (what < 40) {
        compare_some(m, file);
        return OD_STORAGE_OK;
    } else {
        rc = change_file(m, file, size);
    }
    if (rc == OD_STORAGE_OK)
        note_state(m);
    return rc;
}

static void disturb(model *m)
{
    switch (roll(m, 60)) {
    case 0:
        m->io.dies_in = (long)roll(m, 20);
        break;
    case 1:
        m->io.write_fails_in = 0;
        m->io.write_error = ENOSPC;
        break;
    case 2:
        m->io.sync_fails_in = 0;
        break;
    default:
        break;
    }
}

static void run(uint64_t seed, long steps)
{
    static model m;

    begin(&m, seed);
    for (long i = 0; i < steps; i++) {
        od_storage_code rc;

        disturb(&m);
        rc = step(&m);
        if (m.io.dead || m.state_count > MAX_STATES - 2 || roll(&m, 150) == 0)
            crash(&m);
        else if (rc != OD_STORAGE_OK) /* a full disk, a failed sync: the next may go well, and nothing has changed */
            assert_int_equal(rc, OD_STORAGE_IO);
        else if (roll(&m, 150) == 0 && m.io.dies_in < 0 && m.io.write_fails_in < 0 && m.io.sync_fails_in < 0)
            reopen(&m);
        else if (roll(&m, 300) == 0 && m.io.dies_in < 0 && m.io.write_fails_in < 0 && m.io.sync_fails_in < 0)
            move_to_clone(&m);
        else if (roll(&m, 60) == 0)
            check_reader(&m);
    }
    crash(&m);
    OK(od_volume_close(m.volume, err));
    OK(od_store_verify(m.store, NULL, NULL, err));
    OK(od_store_close(m.store, err));
    OK(od_volume_close(m.twin, err));
    OK(od_store_close(m.oracle, err));
    assert_true(m.crashes > 0);
    lossy_end(&m.io);
    place_end(&m.p);
}

static void test_random_work_is_as_in_memory(void **state)
{
    bool longer = getenv("OPENDUCK_LONG") != NULL;
    uint64_t first = getenv("OPENDUCK_SEED") != NULL ? strtoull(getenv("OPENDUCK_SEED"), NULL, 10) : 1;

    (void)state;
    for (uint64_t seed = first; seed < first + (longer ? 334 : 3); seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        run(seed, longer ? 3000 : 500);
    }
}

/* ---- Crashes and errors at each step of a seal ---- */

static void write_text(od_volume *volume, uint64_t file, const char *text)
{
    OK(od_volume_write(volume, file, 0, text, strlen(text), err));
}

static void test_a_crash_at_each_point_loses_nothing(void **state)
{
    static const char *const points[] = {"seal.begin",    "seal.indexed", "seal.synced", "advance.begin",
                                         "advance.noted", "advance.made", "seal.done",   "close"};

    (void)state;
    for (size_t i = 0; i < COUNT(points); i++) {
        static model m;
        uint64_t file;

        begin(&m, i + 1);
        OK(od_volume_create(m.volume, "f", &file, err));
        write_text(m.volume, file, "first");
        OK(od_volume_seal(m.volume, NULL, err));
        write_text(m.volume, file, "second");
        OK(od_volume_sync(m.volume, err));
        m.io.dies_at = points[i];
        if (strcmp(points[i], "close") != 0)
            assert_int_equal(od_volume_seal(m.volume, NULL, NULL), OD_STORAGE_IO);
        (void)od_volume_close(m.volume, NULL);
        OK(od_store_close(m.store, err));
        lossy_crash(&m.io, &m.dice);
        atomic_fetch_add(&m.p.now, LEASE_MS);
        open_store(&m);
        check_text(m.volume, file, "second");
        write_text(m.volume, file, "third!");
        OK(od_volume_seal(m.volume, NULL, err));
        OK(od_store_gc(m.store, 0, NULL, NULL, NULL, err));
        OK(od_store_verify(m.store, NULL, NULL, err));
        check_text(m.volume, file, "third!");
        OK(od_volume_close(m.volume, err));
        OK(od_store_close(m.store, err));
        OK(od_volume_close(m.twin, err));
        OK(od_store_close(m.oracle, err));
        lossy_end(&m.io);
        place_end(&m.p);
    }
}

static void test_a_seal_that_fails_leaves_the_writer_as_it_was(void **state)
{
    static model m;
    uint64_t file;
    char snapshot[OD_STORAGE_ID_SIZE];
    long n = 0;

    (void)state;
    begin(&m, 7);
    OK(od_volume_create(m.volume, "f", &file, err));
    write_text(m.volume, file, "before");
    for (;; n++) {
        od_storage_code rc;

        m.io.write_fails_in = n;
        m.io.write_error = ENOSPC;
        rc = od_volume_seal(m.volume, snapshot, NULL);
        m.io.write_fails_in = -1;
        if (rc == OD_STORAGE_OK)
            break;
        assert_int_equal(rc, OD_STORAGE_IO);
        check_text(m.volume, file, "before");
        write_text(m.volume, file, "afterw");
        write_text(m.volume, file, "before");
        OK(od_volume_sync(m.volume, err));
    }
    assert_true(n >= 2);
    for (n = 0;; n++) {
        od_storage_code rc;

        write_text(m.volume, file, "change");
        m.io.sync_fails_in = n;
        rc = od_volume_seal(m.volume, snapshot, NULL);
        m.io.sync_fails_in = -1;
        if (rc == OD_STORAGE_OK)
            break;
        check_text(m.volume, file, "change");
    }
    assert_true(n >= 2);
    /* A sync that failed is not made good by one that only looks at what came later. */
    write_text(m.volume, file, "doubt!");
    m.io.sync_fails_in = 0;
    assert_int_equal(od_volume_sync(m.volume, NULL), OD_STORAGE_IO);
    OK(od_volume_sync(m.volume, err));
    m.io.dead = true;
    (void)od_volume_close(m.volume, NULL);
    OK(od_store_close(m.store, err));
    lossy_crash(&m.io, &m.dice);
    atomic_fetch_add(&m.p.now, LEASE_MS);
    open_store(&m);
    check_text(m.volume, file, "doubt!");
    OK(od_volume_close(m.volume, err));
    OK(od_store_verify(m.store, NULL, NULL, err));
    OK(od_store_close(m.store, err));
    OK(od_volume_close(m.twin, err));
    OK(od_store_close(m.oracle, err));
    lossy_end(&m.io);
    place_end(&m.p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_work_is_as_in_memory),
        cmocka_unit_test(test_a_crash_at_each_point_loses_nothing),
        cmocka_unit_test(test_a_seal_that_fails_leaves_the_writer_as_it_was),
    };

    return check_run("storage.model", tests, argc, argv);
}
