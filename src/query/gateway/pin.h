/* Transactions and the remote workers that they are pinned to.
 *
 * A transaction belongs to the client's connection on which it was begun: when that is closed, its worker is told to roll back. */
#ifndef OD_QUERY_GATEWAY_PIN_H
#define OD_QUERY_GATEWAY_PIN_H

#include "query/gateway/registry.h"
#include "query/rights.h"
#include "query/rpc.h"

typedef struct pins pins;

/* Counted. */
typedef struct pin {
    atomic_uint refs;
    pins *owner;
    char id[OD_EXECUTION_ID_SIZE];
    worker_entry *worker;
    od_rpc_call *anchor; /* the call that began it: its loop is where the worker is asked from */
    od_rpc_watch *watch;
    od_msg *rollback;  /* the request that ends it */
    od_rights *rights; /* of who began it; NULL: all */
    /* under the owner's lock */
    struct pin *next, **prev;
    bool listed, closed;
    unsigned users;
    int64_t used_ns;
} pin;

OD_MUST_CHECK od_code pins_create(unsigned limit, int64_t idle_ms, pins **out, od_error *err);
void pins_free(pins *p); /* when no call is left */
unsigned pins_count(pins *p);
/* Rolls back those that nothing was done for. */
void pins_expire(pins *p, int64_t now_ns);

/* Takes one of the bounded number before a transaction is begun: pins_add or pins_release follows. OD_E_BUSY */
OD_MUST_CHECK od_code pins_reserve(pins *p, od_error *err);
void pins_release(pins *p);
/* Rolls back those whose rights were withdrawn. */
void pins_withdraw(pins *p);
/* What was begun at a worker. */
typedef struct {
    od_slice id, token; /* TOKEN: that the worker was called with */
    od_rights *rights;  /* of who began it */
    worker_entry *worker;
} pin_of;
/* CALL has begun WHAT. On failure the transaction is rolled back, or ends with the connection. */
OD_MUST_CHECK od_code pins_add(pins *p, const pin_of *what, od_rpc_call *call, od_error *err);
/* In use until pin_leave; NULL: not known. */
pin *pins_use(pins *p, od_slice id);
/* For an ID that pins_use does not know: OD_E_NO_TRANSACTION. */
od_code pins_unknown(od_slice id, od_error *err);
void pin_leave(pin *n); /* NULL allowed */
/* It is over, or about to be. */
void pin_forget(pin *n);

#endif
