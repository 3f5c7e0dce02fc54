/* vgi/companion.h: the databases that a worker, or a server, asks to have attached beside its catalog: which are allowed, and
 * for how long they stay.
 *
 * A worker is not trusted: its manifest says what this process opens. So the policy comes first (od_companion_request_make,
 * pure), then the registry, one for each DuckDB instance, which never touches a database that it did not attach itself: it
 * knows a database by its identity, not by its name. Catalogs that ask for the very same companion share it, and it goes
 * with the last of them.
 *
 * No lock is held while the host attaches or detaches: an alias is then in a state of its own, and only who wants the same
 * alias waits. Thread: any, unless said otherwise. */
#ifndef OD_VGI_COMPANION_H
#define OD_VGI_COMPANION_H

#include <stdint.h>

#include "base/buf.h"

#define OD_COMPANION_MAX 256          /* companions of one catalog */
#define OD_COMPANION_TEXT_MAX 65536   /* bytes of one text of the manifest */
#define OD_COMPANION_OPTIONS_MAX 1024 /* options of one companion */

typedef struct {
    const char *key;
    const char *value;
} od_companion_option;

/* An entry of the manifest as the worker sent it; all of it borrowed. NULL texts are "". */
typedef struct {
    const char *alias;
    const char *target;
    const char *db_type; /* "": what stands before the first ':' of the target */
    const od_companion_option *options;
    size_t option_count;
    const char *secret_ref;
    bool hidden;
    bool required;
} od_companion_wish;

/* What the user's ATTACH says about companions. */
typedef struct {
    const char *family;  /* what messages call its kind: "OpenDuck"; NULL: "VGI" */
    const char *catalog; /* the catalog's own name */
    bool secrets;        /* the worker may name the user's secrets */
    bool read_only;      /* whatever the worker wants */
} od_companion_terms;

/* A wish that is allowed, in the form in which it is attached. Owned. */
typedef struct {
    char *alias;
    char *type;                   /* "postgres", in lower case */
    char *path;                   /* what to open: the target without the prefix that names the type */
    char *shown;                  /* the target as people may see it: no passwords */
    char *secret;                 /* the secret that must exist, already among the options; NULL: none */
    od_companion_option *options; /* keys in lower case, sorted */
    size_t option_count;
    bool hidden;
    bool read_only;
    bool secret_skipped; /* the worker named a secret that the user does not let it have */
} od_companion_request;

/* Judges WISH. OD_E_BINDER says why it is not allowed (no password in the text); *out is then empty. */
OD_MUST_CHECK od_code od_companion_request_make(const od_companion_wish *wish, const od_companion_terms *terms,
                                                od_companion_request *out, od_error *err);
void od_companion_request_release(od_companion_request *request);
/* True if both ask for the very same database, so that one attachment serves both. */
bool od_companion_request_same(const od_companion_request *a, const od_companion_request *b);

/* Appends TARGET without its passwords: password=..., user:...@host and their like become "***". */
OD_MUST_CHECK od_code od_companion_redact(od_buf *out, const char *target, od_error *err);

typedef struct {
    const char *name;
    const char *value;
} od_companion_field;

/* What the door does for the registry, in the thread of the call. An identity is a number that no two databases of an
 * instance ever have. None of the functions throws. */
typedef struct {
    void *arg;
    /* The identity of the database that is attached as ALIAS (any case); 0: there is none. Asks nobody outside. */
    uint64_t (*find)(void *arg, const char *alias);
    /* Attaches; *identity is that of the new database. Fails if there is a database of that name. */
    od_code (*attach)(void *arg, const od_companion_request *request, uint64_t *identity, od_error *err);
    /* Detaches the database ALIAS. Fails if it cannot go now, because somebody works with it. */
    od_code (*detach)(void *arg, const char *alias, od_error *err);
    /* OD_OK if there is a secret of that name. */
    od_code (*secret)(void *arg, const char *name, od_error *err);
    /* The statement should end: whoever waits for another's attach or detach gives up. */
    bool (*interrupted)(void *arg);
    /* Something that an operator may want to know. */
    void (*event)(void *arg, const char *name, const od_companion_field *fields, size_t count);
} od_companion_host;

typedef struct od_companion_registry od_companion_registry;
typedef struct od_companion_set od_companion_set;

OD_MUST_CHECK od_code od_companion_registry_create(od_companion_registry **out, od_error *err);
/* No set of it may be left. */
void od_companion_registry_free(od_companion_registry *registry);

/* Attaches, or shares, what WISHES ask for, in their order. One that is not required and cannot be had is skipped with an
 * event. On failure (OD_E_BINDER with the reason, OD_E_CANCELLED) nothing of this call stays attached, and *out is NULL. */
OD_MUST_CHECK od_code od_companion_set_attach(od_companion_registry *registry, const od_companion_host *host,
                                              const od_companion_wish *wishes, size_t count,
                                              const od_companion_terms *terms, od_companion_set **out, od_error *err);
/* Gives all of them back: who was the last user of a companion detaches it. What cannot be detached now stays known with no
 * user, and is taken over by the next who asks for the same. NULL allowed. */
void od_companion_set_release(od_companion_set *set, const od_companion_host *host);
/* The DuckDB instance ends, and its databases with it: frees the set, and detaches nothing. NULL allowed. */
void od_companion_set_abandon(od_companion_set *set);

/* One row of vgi_companion_catalogs(); borrowed for the call. */
typedef struct {
    const char *alias;
    const char *shown;
    const char *type;
    bool hidden;
    size_t users;
} od_companion_row;

/* Calls EACH with every companion that is attached, in the order of their aliases. */
OD_MUST_CHECK od_code od_companion_registry_list(od_companion_registry *registry, const od_companion_host *host,
                                                 void (*each)(void *arg, const od_companion_row *row), void *arg,
                                                 od_error *err);

#endif
