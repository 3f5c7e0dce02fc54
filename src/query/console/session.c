#include "query/console/session.h"

#include <stdio.h>
#include <string.h>

#include "base/uuid.h"
#include "base/banned.h"

#define SECOND_NS INT64_C(1000000000)

/* 244 random bits. */
static void make_name(char out[SESSION_ID_SIZE])
{
    for (size_t i = 0; i < 2; i++) {
        od_uuid part = od_uuid_random();

        for (size_t b = 0; b < sizeof part.bytes; b++)
            snprintf(out + 32 * i + 2 * b, 3, "%02x", part.bytes[b]);
    }
}

void sessions_end(session *s)
{
    od_secret_release(&s->id);
    od_rights_unref(s->rights);
    explicit_bzero(s, sizeof *s);
}

void sessions_release(sessions *all)
{
    for (size_t i = 0; i < SESSIONS; i++)
        sessions_end(&all->list[i]);
}

static bool is_over(const session *s, int64_t now_ns)
{
    return od_rights_withdrawn(s->rights) || now_ns - s->used_ns >= SESSION_IDLE_S * SECOND_NS ||
           now_ns - s->begun_ns >= SESSION_LIFE_S * SECOND_NS;
}

static void expire(sessions *all, int64_t now_ns)
{
    for (size_t i = 0; i < SESSIONS; i++) {
        if (all->list[i].id.len > 0 && is_over(&all->list[i], now_ns))
            sessions_end(&all->list[i]);
    }
}

od_code sessions_begin(sessions *all, od_rights *rights, int64_t now_ns, char out[SESSION_ID_SIZE], od_error *err)
{
    session *place = &all->list[0];
    od_code rc;

    expire(all, now_ns);
    for (size_t i = 0; i < SESSIONS && place->id.len > 0; i++) {
        if (all->list[i].id.len == 0 || all->list[i].used_ns < place->used_ns)
            place = &all->list[i];
    }
    sessions_end(place);
    make_name(out);
    make_name(place->csrf);
    place->begun_ns = place->used_ns = now_ns;
    place->rights = od_rights_ref(rights);
    rc = od_secret_set(&place->id, od_slice_str(out), err);
    if (rc != OD_OK)
        sessions_end(place);
    return rc;
}

session *sessions_find(sessions *all, od_slice id, int64_t now_ns)
{
    session *found = NULL;

    expire(all, now_ns);
    for (size_t i = 0; i < SESSIONS && id.len > 0; i++) {
        if (all->list[i].id.len > 0 && od_secret_equal(&all->list[i].id, id))
            found = &all->list[i];
    }
    if (found)
        found->used_ns = now_ns;
    return found;
}
