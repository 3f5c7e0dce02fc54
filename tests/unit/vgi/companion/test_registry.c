#include "unit/base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/thread.h"
#include "vgi/companion.h"

#define SLOTS 16

/* An instance of databases, as the host has it. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char name[SLOTS][32];
    uint64_t identity[SLOTS];
    uint64_t last;
    int attaches;
    int detaches;
    char fail_alias[32]; /* its attach fails */
    char kept_alias[32]; /* its detach fails */
    char slow_alias[32]; /* its attach waits until it is let go */
    bool slow_waits;
    bool let_go;
    atomic_bool interrupted;
    char events[1024];
} fake;

static int slot_of(const fake *f, const char *alias)
{
    for (int i = 0; i < SLOTS; i++) {
        if (f->identity[i] != 0 && strcasecmp(f->name[i], alias) == 0)
            return i;
    }
    return -1;
}

static uint64_t fake_find(void *arg, const char *alias)
{
    fake *f = arg;
    uint64_t result = 0;

    pthread_mutex_lock(&f->lock);
    int slot = slot_of(f, alias);
    if (slot >= 0)
        result = f->identity[slot];
    pthread_mutex_unlock(&f->lock);
    return result;
}

/* With the lock. */
static uint64_t put(fake *f, const char *alias)
{
    for (int i = 0; i < SLOTS; i++) {
        if (f->identity[i] == 0) {
            snprintf(f->name[i], sizeof(f->name[i]), "%s", alias);
            f->identity[i] = ++f->last;
            return f->last;
        }
    }
    return 0;
}

static od_code fake_attach(void *arg, const od_companion_request *request, uint64_t *identity, od_error *err)
{
    fake *f = arg;
    od_code rc = OD_OK;

    pthread_mutex_lock(&f->lock);
    if (strcmp(request->alias, f->slow_alias) == 0) {
        f->slow_waits = true;
        pthread_cond_broadcast(&f->changed);
        while (!f->let_go)
            pthread_cond_wait(&f->changed, &f->lock);
    }
    if (strcmp(request->alias, f->fail_alias) == 0) {
        rc = od_fail(err, OD_E_IO, "cannot open");
    } else if (slot_of(f, request->alias) >= 0) {
        rc = od_fail(err, OD_E_BINDER, "exists");
    } else {
        f->attaches++;
        *identity = put(f, request->alias);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static od_code fake_detach(void *arg, const char *alias, od_error *err)
{
    fake *f = arg;
    od_code rc = OD_OK;

    pthread_mutex_lock(&f->lock);
    int slot = slot_of(f, alias);
    if (strcmp(alias, f->kept_alias) == 0 || slot < 0) {
        rc = od_fail(err, OD_E_BINDER, "it is the default database");
    } else {
        f->detaches++;
        f->identity[slot] = 0;
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static od_code fake_secret(void *arg, const char *name, od_error *err)
{
    (void)arg;
    return strcmp(name, "there") == 0
               ? OD_OK
               : od_fail(err, OD_E_BINDER, "VGI companion secret_ref '%s' did not resolve to a secret", name);
}

static bool fake_interrupted(void *arg)
{
    return atomic_load(&((fake *)arg)->interrupted);
}

static void fake_event(void *arg, const char *name, const od_companion_field *fields, size_t count)
{
    fake *f = arg;
    char line[256];
    int len = snprintf(line, sizeof(line), "%s", name);

    for (size_t i = 0; i < count; i++)
        len += snprintf(line + len, sizeof(line) - (size_t)len, " %s=%s", fields[i].name, fields[i].value);
    pthread_mutex_lock(&f->lock);
    size_t used = strlen(f->events);
    snprintf(f->events + used, sizeof(f->events) - used, "%s\n", line);
    pthread_mutex_unlock(&f->lock);
}

typedef struct {
    fake fake;
    od_companion_host host;
    od_companion_registry *registry;
} bench;

static int set_up(void **state)
{
    bench *b = test_calloc(1, sizeof(*b));

    pthread_mutex_init(&b->fake.lock, NULL);
    pthread_cond_init(&b->fake.changed, NULL);
    b->host =
        (od_companion_host){&b->fake, fake_find, fake_attach, fake_detach, fake_secret, fake_interrupted, fake_event};
    assert_int_equal(od_companion_registry_create(&b->registry, NULL), OD_OK);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    bench *b = *state;

    od_companion_registry_free(b->registry);
    pthread_cond_destroy(&b->fake.changed);
    pthread_mutex_destroy(&b->fake.lock);
    test_free(b);
    return 0;
}

static const od_companion_terms TERMS = {.catalog = "w"};

static od_code attach_of(bench *b, const od_companion_wish *wishes, size_t count, od_companion_set **out, od_error *err)
{
    return od_companion_set_attach(b->registry, &b->host, wishes, count, &TERMS, out, err);
}

static od_companion_set *attach_ok(bench *b, const od_companion_wish *wishes, size_t count)
{
    od_companion_set *set = NULL;
    od_error err = {0};

    if (attach_of(b, wishes, count, &set, &err) != OD_OK)
        fail_msg("%s", err.message);
    return set;
}

static void count_row(void *arg, const od_companion_row *row)
{
    char *text = arg;
    size_t used = strlen(text);

    snprintf(text + used, 256 - used, "%s:%s:%zu ", row->alias, row->type, row->users);
}

static void assert_listed(bench *b, const char *expected)
{
    char text[256] = "";

    assert_int_equal(od_companion_registry_list(b->registry, &b->host, count_row, text, NULL), OD_OK);
    assert_string_equal(text, expected);
}

static const od_companion_wish LAKE = {.alias = "lake", .target = "sqlite:/l", .required = true};
static const od_companion_wish POND = {.alias = "Pond", .target = "sqlite:/p", .required = true};

static void test_the_last_user_detaches(void **state)
{
    bench *b = *state;
    const od_companion_wish wishes[] = {LAKE, POND};
    od_companion_set *first = attach_ok(b, wishes, 2);
    od_companion_set *second = attach_ok(b, wishes, 1);

    assert_int_equal(b->fake.attaches, 2);
    assert_listed(b, "lake:sqlite:2 Pond:sqlite:1 ");
    od_companion_set_release(first, &b->host);
    assert_listed(b, "lake:sqlite:1 ");
    od_companion_set_release(second, &b->host);
    assert_listed(b, "");
    assert_int_equal(b->fake.detaches, 2);
    assert_string_equal(b->fake.events, "vgi.companion_attach alias=lake target=sqlite:/l shared=false\n"
                                        "vgi.companion_attach alias=Pond target=sqlite:/p shared=false\n"
                                        "vgi.companion_attach alias=lake target=sqlite:/l shared=true\n"
                                        "vgi.companion_detach alias=Pond\n"
                                        "vgi.companion_detach alias=lake\n");
}

static void test_names_are_the_same_in_any_case(void **state)
{
    bench *b = *state;
    od_companion_wish upper = LAKE;
    od_companion_set *first = attach_ok(b, &LAKE, 1);
    od_companion_set *second;

    upper.alias = "LAKE";
    second = attach_ok(b, &upper, 1);
    assert_listed(b, "lake:sqlite:2 ");
    od_companion_set_release(second, &b->host);
    od_companion_set_release(first, &b->host);
    assert_int_equal(b->fake.detaches, 1);
}

static void test_what_is_not_the_same_conflicts(void **state)
{
    bench *b = *state;
    static const od_companion_option option = {"a", "1"};
    od_companion_set *first = attach_ok(b, &LAKE, 1);
    od_companion_set *second = NULL;
    od_companion_wish wish = LAKE;
    od_error err = {0};

    wish.target = "postgres:host=h password=hush";
    assert_int_equal(attach_of(b, &wish, 1, &second, &err), OD_E_BINDER);
    assert_string_equal(err.message,
                        "VGI catalog 'w' could not attach required companion 'lake' (target 'postgres:host=h "
                        "password=***'): alias already in use by sqlite:/l (not replaced)");
    wish = LAKE;
    wish.options = &option;
    wish.option_count = 1;
    assert_int_equal(attach_of(b, &wish, 1, &second, &err), OD_E_BINDER);
    assert_non_null(strstr(err.message, "already in use by sqlite:/l with other options"));
    assert_listed(b, "lake:sqlite:1 ");
    od_companion_set_release(first, &b->host);
}

static void test_what_the_user_attached_stays(void **state)
{
    bench *b = *state;
    od_companion_wish optional = LAKE;
    od_companion_set *set = NULL;
    od_error err = {0};

    put(&b->fake, "LAKE");
    assert_int_equal(attach_of(b, &LAKE, 1, &set, &err), OD_E_BINDER);
    assert_non_null(strstr(err.message, "alias already in use by (existing non-companion catalog) (not replaced)"));
    optional.required = false;
    set = attach_ok(b, &optional, 1);
    od_companion_set_release(set, &b->host);
    assert_int_equal(b->fake.attaches + b->fake.detaches, 0);
    assert_non_null(
        strstr(b->fake.events, "vgi.companion_attach.skipped alias=lake target=sqlite:/l reason=VGI catalog"));
}

/* The user detaches a companion and gives its name to a database of his own. */
static void test_a_database_is_known_by_its_identity(void **state)
{
    bench *b = *state;
    od_companion_set *first = attach_ok(b, &LAKE, 1);
    od_companion_set *second = NULL;

    assert_int_equal(fake_detach(&b->fake, "lake", NULL), OD_OK);
    put(&b->fake, "lake");
    assert_listed(b, "");
    assert_int_equal(attach_of(b, &LAKE, 1, &second, NULL), OD_E_BINDER);
    od_companion_set_release(first, &b->host);
    assert_int_not_equal(fake_find(&b->fake, "lake"), 0);
}

static void test_a_companion_that_the_user_detached_is_attached_again(void **state)
{
    bench *b = *state;
    od_companion_set *first = attach_ok(b, &LAKE, 1);

    assert_int_equal(fake_detach(&b->fake, "lake", NULL), OD_OK);
    od_companion_set *second = attach_ok(b, &LAKE, 1);
    assert_listed(b, "lake:sqlite:1 ");
    od_companion_set_release(first, &b->host);
    assert_listed(b, "lake:sqlite:1 ");
    od_companion_set_release(second, &b->host);
    assert_int_equal(fake_find(&b->fake, "lake"), 0);
}

static void test_a_failure_gives_all_back(void **state)
{
    bench *b = *state;
    const od_companion_wish wishes[] = {LAKE, POND, {.alias = "x", .target = "ftp://nope/x", .required = true}};
    od_companion_set *set = NULL;
    od_error err = {0};

    assert_int_equal(attach_of(b, wishes, 3, &set, &err), OD_E_BINDER);
    assert_null(set);
    assert_non_null(strstr(err.message, "not permitted"));
    assert_listed(b, "");
    assert_int_equal(b->fake.detaches, 2);
    snprintf(b->fake.fail_alias, sizeof(b->fake.fail_alias), "Pond");
    assert_int_equal(attach_of(b, wishes, 2, &set, &err), OD_E_BINDER);
    assert_string_equal(err.message, "VGI catalog 'w' could not attach required companion 'Pond' (target 'sqlite:/p'): "
                                     "cannot open");
    assert_int_equal(fake_find(&b->fake, "lake"), 0);
}

static void test_an_optional_one_is_skipped_whatever_is_wrong(void **state)
{
    bench *b = *state;
    const od_companion_wish wishes[] = {
        {.alias = "x", .target = "ftp://nope/x"}, {.alias = "Pond", .target = "sqlite:/p"}, LAKE};
    od_companion_set *set;

    snprintf(b->fake.fail_alias, sizeof(b->fake.fail_alias), "Pond");
    set = attach_ok(b, wishes, 3);
    assert_listed(b, "lake:sqlite:1 ");
    od_companion_set_release(set, &b->host);
}

static void test_what_cannot_be_detached_is_taken_over(void **state)
{
    bench *b = *state;
    od_companion_wish other = LAKE;
    od_companion_set *set = attach_ok(b, &LAKE, 1);

    snprintf(b->fake.kept_alias, sizeof(b->fake.kept_alias), "lake");
    od_companion_set_release(set, &b->host);
    assert_listed(b, "lake:sqlite:0 ");
    assert_non_null(strstr(b->fake.events, "vgi.companion_detach.failed alias=lake error=it is the default database"));
    set = attach_ok(b, &LAKE, 1);
    assert_int_equal(b->fake.attaches, 1);
    od_companion_set_release(set, &b->host);
    /* And makes room for another as soon as it can. */
    b->fake.kept_alias[0] = '\0';
    other.target = "sqlite:/other";
    set = attach_ok(b, &other, 1);
    assert_int_equal(b->fake.attaches, 2);
    od_companion_set_release(set, &b->host);
    assert_listed(b, "");
}

static void test_a_secret_must_be_there(void **state)
{
    bench *b = *state;
    od_companion_terms terms = {.catalog = "w", .secrets = true};
    od_companion_wish wish = {.alias = "pg", .target = "postgres:host=h", .secret_ref = "gone", .required = true};
    od_companion_set *set = NULL;
    od_error err = {0};

    assert_int_equal(od_companion_set_attach(b->registry, &b->host, &wish, 1, &terms, &set, &err), OD_E_BINDER);
    assert_non_null(strstr(err.message, "VGI companion secret_ref 'gone' did not resolve to a secret"));
    wish.secret_ref = "there";
    assert_int_equal(od_companion_set_attach(b->registry, &b->host, &wish, 1, &terms, &set, &err), OD_OK);
    od_companion_set_release(set, &b->host);
    terms.secrets = false;
    assert_int_equal(od_companion_set_attach(b->registry, &b->host, &wish, 1, &terms, &set, &err), OD_OK);
    assert_non_null(strstr(b->fake.events, "vgi.companion_secret.skipped secret_ref=there"));
    od_companion_set_release(set, &b->host);
}

static void test_an_instance_that_ends_keeps_its_databases(void **state)
{
    bench *b = *state;
    od_companion_set *set = attach_ok(b, &LAKE, 1);

    od_companion_set_abandon(set);
    assert_int_equal(b->fake.detaches, 0);
}

typedef struct {
    bench *b;
    const od_companion_wish *wish;
    od_companion_set *set;
    od_code rc;
} job;

static void *run_attach(void *arg)
{
    job *j = arg;

    j->rc = od_companion_set_attach(j->b->registry, &j->b->host, j->wish, 1, &TERMS, &j->set, NULL);
    return NULL;
}

/* A host that does not answer holds up nobody but who wants the same alias, and those only until they are interrupted. */
static void test_a_slow_attach_holds_up_no_other(void **state)
{
    bench *b = *state;
    job slow = {.b = b, .wish = &LAKE};
    od_companion_set *set = NULL;
    pthread_t thread;

    snprintf(b->fake.slow_alias, sizeof(b->fake.slow_alias), "lake");
    assert_int_equal(od_thread_create(&thread, run_attach, &slow), 0);
    pthread_mutex_lock(&b->fake.lock);
    while (!b->fake.slow_waits)
        pthread_cond_wait(&b->fake.changed, &b->fake.lock);
    pthread_mutex_unlock(&b->fake.lock);

    od_companion_set *pond = attach_ok(b, &POND, 1);
    assert_listed(b, "Pond:sqlite:1 ");
    atomic_store(&b->fake.interrupted, true);
    assert_int_equal(attach_of(b, &LAKE, 1, &set, NULL), OD_E_CANCELLED);
    atomic_store(&b->fake.interrupted, false);

    pthread_mutex_lock(&b->fake.lock);
    b->fake.let_go = true;
    pthread_cond_broadcast(&b->fake.changed);
    pthread_mutex_unlock(&b->fake.lock);
    pthread_join(thread, NULL);
    assert_int_equal(slow.rc, OD_OK);
    od_companion_set_release(slow.set, &b->host);
    od_companion_set_release(pond, &b->host);
    assert_listed(b, "");
}

static void *run_rounds(void *arg)
{
    job *j = arg;

    for (int i = 0; i < 200 && j->rc == OD_OK; i++) {
        j->rc = od_companion_set_attach(j->b->registry, &j->b->host, j->wish, 2, &TERMS, &j->set, NULL);
        if (j->rc == OD_OK)
            od_companion_set_release(j->set, &j->b->host);
    }
    return NULL;
}

static void quiet(void *arg, const char *name, const od_companion_field *fields, size_t count)
{
    (void)arg;
    (void)name;
    (void)fields;
    (void)count;
}

static void test_counts_are_right_with_many_threads(void **state)
{
    bench *b = *state;
    const od_companion_wish wishes[] = {LAKE, POND};
    pthread_t threads[8];
    job jobs[8];

    b->host.event = quiet;
    for (size_t i = 0; i < COUNT(threads); i++) {
        jobs[i] = (job){.b = b, .wish = wishes};
        assert_int_equal(od_thread_create(&threads[i], run_rounds, &jobs[i]), 0);
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(jobs[i].rc, OD_OK);
    }
    assert_listed(b, "");
    assert_int_equal(b->fake.attaches, b->fake.detaches);
    assert_int_equal(fake_find(&b->fake, "lake") + fake_find(&b->fake, "pond"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_last_user_detaches),
        TEST(test_names_are_the_same_in_any_case),
        TEST(test_what_is_not_the_same_conflicts),
        TEST(test_what_the_user_attached_stays),
        TEST(test_a_database_is_known_by_its_identity),
        TEST(test_a_companion_that_the_user_detached_is_attached_again),
        TEST(test_a_failure_gives_all_back),
        TEST(test_an_optional_one_is_skipped_whatever_is_wrong),
        TEST(test_what_cannot_be_detached_is_taken_over),
        TEST(test_a_secret_must_be_there),
        TEST(test_an_instance_that_ends_keeps_its_databases),
        TEST(test_a_slow_attach_holds_up_no_other),
        TEST(test_counts_are_right_with_many_threads),
    };

    return check_run("companion registry", tests, argc, argv);
}
