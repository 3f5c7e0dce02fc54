/* Who has signed in: a browser has the random name of its session, never the token. */
#ifndef OD_QUERY_CONSOLE_SESSION_H
#define OD_QUERY_CONSOLE_SESSION_H

#include "base/secret.h"
#include "query/rights.h"

enum {
    SESSIONS = 32,          /* one more takes the place of the one that was used least lately */
    SESSION_ID_SIZE = 65,   /* 64 hexadecimal digits and a NUL */
    SESSION_IDLE_S = 900,   /* without a request; an open page asks all the time */
    SESSION_LIFE_S = 43200, /* with however many */
};

typedef struct {
    od_secret id;
    od_rights *rights;          /* of the token that it was begun with; NULL: all */
    char csrf[SESSION_ID_SIZE]; /* what a page has to show to change something */
    int64_t begun_ns, used_ns;
} session;

/* Zeroed at first. One thread at a time. */
typedef struct {
    session list[SESSIONS];
} sessions;

void sessions_release(sessions *all);
/* A new one of RIGHTS (referenced), with its id in OUT. */
OD_MUST_CHECK od_code sessions_begin(sessions *all, od_rights *rights, int64_t now_ns, char out[SESSION_ID_SIZE],
                                     od_error *err);
/* The one called ID, used now; NULL: there is none (any more). */
session *sessions_find(sessions *all, od_slice id, int64_t now_ns);
void sessions_end(session *s);

#endif
