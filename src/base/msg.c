#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/buf.h"

#include "base/banned.h"

enum { ALIGNMENT = 64 };

/* One allocation holds this header, padding, and the data. */
struct od_msg {
    atomic_size_t refs;
    size_t len;
    uint8_t *data;
};

od_code od_msg_create(size_t len, unsigned skew, od_msg **out, od_error *err)
{
    od_msg *msg;
    uintptr_t start;
    size_t size;

    *out = NULL;
    if (skew >= ALIGNMENT)
        return od_fail(err, OD_E_INVALID, "a message skew of %u is above %d", skew, ALIGNMENT - 1);
    if (!od_add_size(len, sizeof *msg + ALIGNMENT - 1 + skew, &size) || size > PTRDIFF_MAX)
        return od_fail(err, OD_E_TOO_LARGE, "a message of %zu bytes is too large", len);
    msg = od_alloc(size);
    if (!msg)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a message of %zu bytes", len);
    start = (uintptr_t)(msg + 1);
    start = (start + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    /* Derived from msg, not cast from an integer, so that checkers can follow the pointer. */
    msg->data = (uint8_t *)msg + (start - (uintptr_t)msg) + skew;
    msg->len = len;
    atomic_init(&msg->refs, 1);
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
    if (atomic_fetch_sub_explicit(&msg->refs, 1, memory_order_acq_rel) == 1)
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
