#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"

#include "base/banned.h"

enum { ALIGNMENT = 64 };

/* Memory that a pool keeps comes in multiples of this, so that messages of about one length fit in what others have left. */
enum { POOL_STEP = 256 << 10 };

/* One allocation holds this header, padding, and the data. */
struct od_msg {
    atomic_size_t refs;
    size_t len;
    uint8_t *data;
    od_msg_pool *pool; /* NULL: none */
    size_t size;       /* of the allocation */
    od_msg *next;      /* while the pool keeps it */
};

struct od_msg_pool {
    atomic_size_t refs; /* its creator's, and one of each message that is in use */
    size_t keep;
    pthread_mutex_t lock; /* guards what follows */
    od_msg *kept;
    size_t kept_bytes;
};

static void start_message(od_msg *msg, size_t len, unsigned skew)
{
    uintptr_t start = (uintptr_t)(msg + 1);

    start = (start + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    /* Derived from msg, not cast from an integer, so that checkers can follow the pointer. */
    msg->data = (uint8_t *)msg + (start - (uintptr_t)msg) + skew;
    msg->len = len;
    atomic_init(&msg->refs, 1);
}

od_code od_msg_create(size_t len, unsigned skew, od_msg **out, od_error *err)
{
    return od_msg_pool_take(NULL, len, skew, out, err);
}

od_code od_msg_pool_create(size_t keep, od_msg_pool **out, od_error *err)
{
    od_msg_pool *pool = od_calloc(1, sizeof *pool);

    *out = pool;
    if (!pool)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory");
    atomic_init(&pool->refs, 1);
    pool->keep = keep;
    (void)pthread_mutex_init(&pool->lock, NULL);
    return OD_OK;
}

static void drop_owner(od_msg_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (pool->kept) {
        od_msg *msg = pool->kept;
        pool->kept = msg->next;
        od_free(msg);
    }
    (void)pthread_mutex_destroy(&pool->lock);
    od_free(pool);
}

void od_msg_pool_free(od_msg_pool *pool)
{
    if (pool)
        drop_owner(pool);
}

/* One that POOL has kept, of at least SIZE bytes and not far more; NULL: none. */
static od_msg *take_kept(od_msg_pool *pool, size_t size)
{
    od_msg *found = NULL;

    (void)pthread_mutex_lock(&pool->lock);
    for (od_msg **at = &pool->kept; *at; at = &(*at)->next) {
        if ((*at)->size < size || (*at)->size / 4 > size)
            continue;
        found = *at;
        *at = found->next;
        pool->kept_bytes -= found->size;
        break;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return found;
}

/* Gives MSG back to its pool, or to the system. */
static void give_back(od_msg *msg)
{
    od_msg_pool *pool = msg->pool;

    (void)pthread_mutex_lock(&pool->lock);
    bool keeps = msg->size <= pool->keep - pool->kept_bytes;
    if (keeps) {
        msg->next = pool->kept;
        pool->kept = msg;
        pool->kept_bytes += msg->size;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    if (!keeps)
        od_free(msg);
    drop_owner(pool);
}

od_code od_msg_pool_take(od_msg_pool *pool, size_t len, unsigned skew, od_msg **out, od_error *err)
{
    od_msg *msg;
    size_t size;

    *out = NULL;
    if (skew >= ALIGNMENT)
        return od_fail(err, OD_E_INVALID, "a message skew of %u is above %d", skew, ALIGNMENT - 1);
    if (!od_add_size(len, sizeof *msg + ALIGNMENT - 1 + skew, &size) || size > PTRDIFF_MAX - POOL_STEP)
        return od_fail(err, OD_E_TOO_LARGE, "a message of %zu bytes is too large", len);
    if (size < POOL_STEP)
        pool = NULL;
    if (pool)
        size = (size + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
    msg = pool ? take_kept(pool, size) : NULL;
    if (!msg) {
        msg = od_alloc(size);
        if (!msg)
            return od_fail(err, OD_E_NO_MEMORY, "out of memory for a message of %zu bytes", len);
        msg->size = size;
    }
    msg->pool = pool;
    if (pool)
        atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    start_message(msg, len, skew);
    *out = msg;
    return OD_OK;
}

od_msg *od_msg_ref(od_msg *msg)
{
    /* The caller has a reference already, so nothing needs to be ordered. */
    atomic_fetch_add_explicit(&msg->refs, 1, memory_order_relaxed);
    return msg;
}

void od_msg_unref(od_msg *msg)
{
    if (!msg)
        return;
    /* acq_rel: every owner's reads happen before the last one frees. */
    if (atomic_fetch_sub_explicit(&msg->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (msg->pool)
        give_back(msg);
    else
        od_free(msg);
}

uint8_t *od_msg_data(od_msg *msg)
{
    return msg->data;
}

size_t od_msg_len(const od_msg *msg)
{
    return msg->len;
}

void od_msg_truncate(od_msg *msg, size_t len)
{
    if (len > msg->len)
        OD_BUG("a message can only be cut, not grown");
    msg->len = len;
}
