#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

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
