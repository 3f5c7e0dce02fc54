/* base/thread.h: threads that leave signals to the program that they run in. */
#ifndef OD_BASE_THREAD_H
#define OD_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/deadline.h"

/* As pthread_create with default attributes, also in what it returns; all signals are blocked in the thread but those that a fault of
 * its own raises. */
int od_thread_create(pthread_t *out, void *(*run)(void *arg), void *arg);

/* A condition that is waited for by the clock of od_deadline. */
void od_cond_init(pthread_cond_t *cond);
/* COND is of od_cond_init. false when DEADLINE passed; may wake for nothing. */
bool od_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, od_deadline deadline);

#endif
