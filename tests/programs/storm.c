/* Clients that ask, read, cancel and hang up, at random and many at once.
 *
 * usage: storm ENDPOINT CLIENTS QUERIES SEED
 * Ends with 0 if all clients came to their end and no answer was a wrong one; what was cancelled or refused is no error. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "query/client.h"

typedef enum { READ_ALL, READ_SOME, CANCEL, HANG_UP, WAYS } way;

static od_endpoint endpoint;
static atomic_long left;
static atomic_ullong ended, failed, refused, cancelled, wrong;

static uint32_t dice(uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static od_remote *connect_anew(void)
{
    char database[] = "mydb";
    const od_remote_options options = {.endpoint = endpoint, .database = database};
    od_remote *remote = NULL;

    if (od_remote_create(&options, &remote, NULL) != OD_OK)
        abort();
    return remote;
}

static void count(od_code rc, const od_error *err)
{
    atomic_fetch_add(&ended, 1);
    if (rc == OD_OK)
        return;
    if (rc == OD_E_BUSY)
        atomic_fetch_add(&refused, 1);
    else if (rc == OD_E_CANCELLED)
        atomic_fetch_add(&cancelled, 1);
    else if (rc == OD_E_CATALOG || rc == OD_E_EXISTS)
        atomic_fetch_add(&failed, 1);
    else if (atomic_fetch_add(&wrong, 1) < 10)
        fprintf(stderr, "storm: %s: %s\n", od_code_name(rc), err->message);
}

/* Reads at most MOST payloads of RESULT. */
static od_code read_on(od_result *result, unsigned most, od_error *err)
{
    od_code rc = OD_OK;
    od_slice payload;

    for (unsigned i = 0; i < most; i++) {
        od_msg *owner = NULL;

        rc = od_result_next(result, &owner, &payload, err);
        if (rc != OD_OK || !owner)
            break;
        od_msg_unref(owner);
    }
    return rc;
}

static void once(od_remote **remote, uint32_t *seed)
{
    static const char *const queries[] = {"SELECT 42", "SELECT i FROM range(200000) t(i)", "FROM nothere",
                                          "SELECT count(*) FROM range(1000000) t(i) WHERE hash(i) % 7 = 1",
                                          "SELECT count(*) FROM range(100000000000) t(i) WHERE hash(i) % 7 = 1"};
    uint32_t which = dice(seed) % 5;
    way how = (way)(dice(seed) % WAYS);
    const od_remote_query query = {.sql = od_slice_str(queries[which])};
    od_result *result = NULL;
    bool known;
    od_error err = {0};
    od_code rc = OD_OK;

    if (which == 4 && how < CANCEL)
        how = CANCEL; /* it has no end of its own */
    rc = od_remote_execute(*remote, &query, &result, &err);
    if (rc == OD_OK && how == READ_ALL)
        rc = read_on(result, UINT32_MAX, &err);
    else if (rc == OD_OK && how == READ_SOME)
        rc = read_on(result, 1, &err);
    if (rc == OD_OK && how >= CANCEL)
        nanosleep(&(struct timespec){.tv_nsec = (long)(dice(seed) % 5000000)}, NULL);
    if (rc == OD_OK && how == CANCEL) {
        rc = od_remote_cancel(*remote, od_result_execution_id(result), &known, &err);
        if (rc == OD_OK && known)
            rc = read_on(result, UINT32_MAX, &err);
    }
    count(rc, &err);
    od_result_free(result);
    if (how == HANG_UP) {
        od_remote_unref(*remote);
        *remote = connect_anew();
    }
}

static void *client_main(void *arg)
{
    uint32_t seed = *(const uint32_t *)arg;
    od_remote *remote = connect_anew();

    while (atomic_fetch_sub(&left, 1) > 0)
        once(&remote, &seed);
    od_remote_unref(remote);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { MAX = 1024 };
    static pthread_t threads[MAX];
    static uint32_t seeds[MAX];
    od_error err;
    long clients;

    if (argc != 5) {
        fprintf(stderr, "usage: storm ENDPOINT CLIENTS QUERIES SEED\n");
        return 2;
    }
    if (od_endpoint_parse(od_slice_str(argv[1]), &endpoint, &err) != OD_OK) {
        fprintf(stderr, "storm: %s\n", err.message);
        return 2;
    }
    clients = strtol(argv[2], NULL, 10);
    atomic_store(&left, strtol(argv[3], NULL, 10));
    for (long i = 0; i < clients && i < MAX; i++) {
        seeds[i] = (uint32_t)(strtol(argv[4], NULL, 10) * 7919 + i * 104729);
        if (pthread_create(&threads[i], NULL, client_main, &seeds[i]) != 0)
            abort();
    }
    for (long i = 0; i < clients && i < MAX; i++)
        pthread_join(threads[i], NULL);
    printf("%llu queries ended: %llu cancelled, %llu refused, %llu of wrong SQL, %llu otherwise\n", atomic_load(&ended),
           atomic_load(&cancelled), atomic_load(&refused), atomic_load(&failed), atomic_load(&wrong));
    return atomic_load(&wrong) ? 1 : 0;
}
