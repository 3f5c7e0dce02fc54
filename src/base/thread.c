#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

#include "base/banned.h"

int od_thread_create(pthread_t *out, void *(*run)(void *arg), void *arg)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked;
    sigset_t old;
    int errnum;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&blocked, own[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    errnum = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return errnum;
}

void od_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool od_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, od_deadline deadline)
{
    struct timespec at = {.tv_sec = deadline.at_ns / 1000000000, .tv_nsec = deadline.at_ns % 1000000000};

    if (deadline.at_ns == OD_DEADLINE_NEVER.at_ns) {
        pthread_cond_wait(cond, lock);
        return true;
    }
    if (deadline.at_ns < 0)
        return false;
    return pthread_cond_timedwait(cond, lock, &at) != ETIMEDOUT;
}
