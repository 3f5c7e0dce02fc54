#include "support/worker_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgi/client/client_internal.h"

static void tell_ready(void *arg, const char *location)
{
    world *w = arg;

    pthread_mutex_lock(&w->lock);
    snprintf(w->location, sizeof w->location, "%s", location);
    pthread_cond_signal(&w->ready);
    pthread_mutex_unlock(&w->lock);
}

static void *serve(void *arg)
{
    world *w = arg;
    const od_vgiw_listen listen = {.ready = tell_ready, .arg = w};
    od_vgiw_error err = {.message = ""};
    od_vgiw_code code = w->http ? od_vgiw_serve_http(w->worker, "127.0.0.1:0", &listen, &err)
                                : od_vgiw_serve_unix(w->worker, w->path, &listen, &err);

    if (code != OD_VGIW_OK)
        fprintf(stderr, "%s\n", err.message);
    return code == OD_VGIW_OK ? arg : NULL;
}

void world_begin(world *w, bool http, const od_vgi_dialect *dialect)
{
    *w = (world){.http = http};
    snprintf(w->folder, sizeof w->folder, "/tmp/openduck-worker-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    snprintf(w->path, sizeof w->path, "%s/socket", w->folder);
    w->worker = numbers_worker(&w->state);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ready, NULL);
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
    pthread_mutex_lock(&w->lock);
    while (w->location[0] == '\0')
        pthread_cond_wait(&w->ready, &w->lock);
    pthread_mutex_unlock(&w->lock);
    const od_vgi_options options = {.location = w->location};
    assert_int_equal(od_vgi_open(&options, &w->vgi, NULL), OD_OK);
    atomic_store(&w->vgi->dialect, dialect);
    const od_vgi_attach attach = {.name = "HOT"};
    assert_int_equal(od_vgi_attach_catalog(w->vgi, (od_vgi_interrupt){0}, &attach, &w->attached, NULL), OD_OK);
    w->context.attach = w->attached.opaque;
}

void world_end(world *w)
{
    void *result;

    assert_int_equal(od_vgi_detach_catalog(w->vgi, &w->context, NULL), OD_OK);
    od_vgi_answer_free(w->attached.answer);
    od_vgi_unref(w->vgi);
    od_vgiw_stop(w->worker);
    assert_int_equal(pthread_join(w->thread, &result), 0);
    assert_ptr_equal(result, w);
    od_vgiw_free(w->worker);
    assert_int_equal(w->state.opened, w->state.closed);
    assert_int_not_equal(access(w->path, F_OK), 0);
    assert_int_equal(rmdir(w->folder), 0);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->ready);
}

void world_each_way(void (*check)(world *w))
{
    for (int http = 0; http < 2; http++) {
        for (size_t i = 0; i < OD_VGI_DIALECTS; i++) {
            world w;

            world_begin(&w, http == 1, &od_vgi_dialects[i]);
            check(&w);
            world_end(&w);
        }
    }
}
