/* query/rights.h: whose token a call carries, and what its bearer may do.
 *
 * Tokens come from OPENDUCK_TOKEN (every right), --worker-token (workers register with it) and the file of --tokens, whose form
 * docs/security.md tells. Of each only the SHA-256 is kept. Comparing takes the same time whether and where one matches. */
#ifndef OD_QUERY_RIGHTS_H
#define OD_QUERY_RIGHTS_H

#include "base/secret.h"

/* What one token allows. Counted; it does not change, but for being withdrawn. All take NULL for every right, of nobody in particular. */
typedef struct od_rights od_rights;

od_rights *od_rights_ref(od_rights *rights); /* NULL gives NULL */
void od_rights_unref(od_rights *rights);

/* As logs and messages name it; "" for OPENDUCK_TOKEN, and where no token is needed. Lives as long as RIGHTS. */
const char *od_rights_name(const od_rights *rights);
bool od_rights_admin(const od_rights *rights);    /* sees and stops what others run */
bool od_rights_worker(const od_rights *rights);   /* registers workers */
bool od_rights_writes(const od_rights *rights);   /* not read-only */
bool od_rights_executes(const od_rights *rights); /* has a database, if only by a prefix */
bool od_rights_limited(const od_rights *rights);  /* lacks a database, or writing: what it runs has to be looked at */
bool od_rights_every_database(const od_rights *rights);
/* Of DATABASE, in any case of letters. */
bool od_rights_database(const od_rights *rights, od_slice database);
/* Whether what A began is B's to go on with. */
bool od_rights_same_bearer(const od_rights *a, const od_rights *b);
/* Its token was taken out of the file, or has other rights now: nothing more is done for it. Any thread. */
bool od_rights_withdrawn(const od_rights *rights);

/* OD_E_PERMISSION names the token and the right that it lacks. An empty DATABASE: any will do. */
OD_MUST_CHECK od_code od_rights_check_database(const od_rights *rights, od_slice database, od_error *err);
/* Whether there is anything of a server's status that RIGHTS may see. */
OD_MUST_CHECK od_code od_rights_check_status(const od_rights *rights, od_error *err);
OD_MUST_CHECK od_code od_rights_check_worker(const od_rights *rights, od_error *err);
/* For what OWNER began, or runs. WHAT: "cancel executions". */
OD_MUST_CHECK od_code od_rights_check_owner(const od_rights *rights, const od_rights *owner, const char *what,
                                            od_error *err);

/* For a transaction that OWNER began. */
OD_MUST_CHECK od_code od_rights_check_transaction(const od_rights *rights, const od_rights *owner, od_error *err);

/* For a further stream of the result of an execution that OWNER runs. */
OD_MUST_CHECK od_code od_rights_check_follower(const od_rights *rights, const od_rights *owner, od_error *err);

/* What a gateway calls a worker with instead of its caller's token: SHARED, the token of both, and RIGHTS, which the worker holds its
 * bearer to. A worker that does not know this form takes it for a wrong token. RIGHTS have a name. docs/protocol.md */
OD_MUST_CHECK od_code od_rights_delegate(const od_rights *rights, const od_secret *shared, od_secret *out,
                                         od_error *err);

/* ---- the tokens of a server ---- */

typedef struct od_tokens od_tokens; /* any thread */

typedef struct {
    const od_secret *token; /* with every right; NULL or empty: none */
    const od_secret
        *worker_token; /* registers workers, and nothing else does but tokens of the file; NULL or empty: TOKEN does */
    const char *file;  /* NULL or "": none */
    bool delegated;    /* this is a worker: takes what od_rights_delegate makes with TOKEN */
} od_tokens_options;

/* Copies OPTIONS. Without a token and a file whoever calls has every right.
 *   OD_E_INVALID   FILE:LINE and what is wrong there, without any secret; or others may read the file */
OD_MUST_CHECK od_code od_tokens_create(const od_tokens_options *options, od_tokens **out, od_error *err);
void od_tokens_free(od_tokens *tokens); /* NULL allowed */

/* The rights of whoever bears GIVEN, with a reference; NULL: every right. OD_E_UNAUTHENTICATED */
OD_MUST_CHECK od_code od_tokens_find(od_tokens *tokens, od_slice given, od_rights **out, od_error *err);

/* Reads the file again: all of it, or on failure nothing, is in force. Rights whose token is gone or has others now are withdrawn;
 * *withdrawn: there are some. */
OD_MUST_CHECK od_code od_tokens_reload(od_tokens *tokens, bool *withdrawn, od_error *err);
/* To be asked about every second: whether the file is another one than was read last, and was the same at the last question, so that
 * nobody is writing it. One thread. */
bool od_tokens_changed(od_tokens *tokens);
bool od_tokens_has_file(const od_tokens *tokens);
/* Whether a token is needed. */
bool od_tokens_required(const od_tokens *tokens);
size_t od_tokens_count(od_tokens *tokens); /* of the file */

#endif
