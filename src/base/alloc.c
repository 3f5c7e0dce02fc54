#include "base/alloc.h"

#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

/* -1: off. Reaching 0 makes one allocation fail and switches the seam off again. */
static atomic_long fail_after = -1;

static bool must_fail(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);

    while (left >= 0) {
        if (atomic_compare_exchange_weak_explicit(&fail_after, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return left == 0;
    }
    return false;
}

void od_alloc_fail_after(long n)
{
    atomic_store(&fail_after, n < 0 ? -1 : n);
}

void *od_alloc(size_t size)
{
    if (must_fail() || size > PTRDIFF_MAX)
        return NULL;
    return malloc(size ? size : 1);
}

void *od_calloc(size_t n, size_t size)
{
    size_t total;

    if (must_fail() || !od_mul_size(n, size, &total) || total > PTRDIFF_MAX)
        return NULL;
    return calloc(1, total ? total : 1);
}

void *od_realloc(void *ptr, size_t size)
{
    if (must_fail() || size > PTRDIFF_MAX)
        return NULL;
    return realloc(ptr, size ? size : 1);
}

void od_free(void *ptr)
{
    free(ptr);
}

char *od_strdup(const char *str)
{
    return str ? od_strndup(str, strlen(str)) : NULL;
}

char *od_strndup(const char *str, size_t len)
{
    char *copy;
    size_t size;

    if (!str && len == 0)
        str = ""; /* an empty slice may have no address */
    if (!str)
        return NULL;
    len = strnlen(str, len);
    if (!od_add_size(len, 1, &size))
        return NULL;
    copy = od_alloc(size);
    if (!copy)
        return NULL;
    memcpy(copy, str, len);
    copy[len] = '\0';
    return copy;
}

bool od_add_size(size_t a, size_t b, size_t *sum)
{
    size_t result;

    if (__builtin_add_overflow(a, b, &result))
        return false;
    *sum = result;
    return true;
}

bool od_mul_size(size_t a, size_t b, size_t *product)
{
    size_t result;

    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *product = result;
    return true;
}

void od_alloc_keep(size_t bytes)
{
    int most = bytes > INT_MAX ? INT_MAX : (int)bytes;

    /* NOLINTBEGIN(concurrency-mt-unsafe): glibc's takes the lock of the heap */
    (void)mallopt(M_TRIM_THRESHOLD, most);
    (void)mallopt(M_MMAP_THRESHOLD, most / 8);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

void od_alloc_trim(void)
{
    (void)malloc_trim(0);
}
