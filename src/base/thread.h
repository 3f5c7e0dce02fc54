/* base/thread.h: threads that leave signals to the program that they run in. */
#ifndef OD_BASE_THREAD_H
#define OD_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create with default attributes, also in what it returns; all signals are blocked in the thread but those that a fault of
 * its own raises. */
int od_thread_create(pthread_t *out, void *(*run)(void *arg), void *arg);

#endif
