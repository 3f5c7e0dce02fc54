/* base/alloc.h: the one place that allocates, so that tests can make the n-th allocation fail. */
#ifndef OD_BASE_ALLOC_H
#define OD_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

void *od_alloc(size_t size);            /* NULL when memory is out; size 0 gives a unique pointer */
void *od_calloc(size_t n, size_t size); /* zeroed; NULL on overflow too */
void *od_realloc(void *ptr, size_t size);
void od_free(void *ptr);
char *od_strdup(const char *str);              /* NULL in, NULL out */
char *od_strndup(const char *str, size_t len); /* NULL with a length of 0 gives "" */

/* false on overflow; *sum is then unchanged. */
bool od_add_size(size_t a, size_t b, size_t *sum);
bool od_mul_size(size_t a, size_t b, size_t *product);

/* Test seam: after N further allocations the next one fails (once); -1 switches it off. */
void od_alloc_fail_after(long n);

/* Freed memory, up to BYTES at an end of the heap, stays with the process, and pieces below an eighth of BYTES are taken from the heap:
 * what is allocated and freed again and again then costs no page faults. For processes of our own, not for a host's. */
void od_alloc_keep(size_t bytes);

/* Gives memory that has been freed back to the system. May take milliseconds. */
void od_alloc_trim(void);

#endif
