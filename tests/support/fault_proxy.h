/* A proxy before an HTTP server that answers, breaks and delays as it is told, one request on a connection. */
#ifndef OD_TESTS_SUPPORT_FAULT_PROXY_H
#define OD_TESTS_SUPPORT_FAULT_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef enum {
    FAULT_NONE,
    FAULT_500, /* the server is not asked */
    FAULT_503,
    FAULT_403,
    FAULT_SHORT,   /* half of the answer comes */
    FAULT_GARBAGE, /* a byte of each 4 KiB of what is given is another, the last one, too */
    FAULT_CUT,     /* the request is taken, and the connection ends */
    FAULT_STALL,   /* the request is taken, and nothing comes */
    FAULT_HALF,    /* half of the answer comes, and then nothing */
    FAULT_DRIP,    /* it comes byte by byte, and takes minutes */
    /* Of an answer to who asked for a range: */
    FAULT_CLIPPED, /* its first ten bytes */
    FAULT_SHIFTED, /* as many bytes from one before, or the whole if there is none before */
    FAULT_WHOLE,   /* all there is */
} fault_kind;

typedef struct {
    char url[64];
    int server_port;
    int listening;
    int stop[2];
    pthread_t thread;
    pthread_mutex_t lock; /* the rest */
    fault_kind fault;
    int first;
    int count;
    int requests;
} fault_proxy;

/* SERVER is http://127.0.0.1:PORT. */
void fault_proxy_begin(fault_proxy *proxy, const char *server);
/* Of the requests from now on, FIRST to FIRST + COUNT - 1 have this FAULT. */
void fault_proxy_set(fault_proxy *proxy, fault_kind fault, int first, int count);
int fault_proxy_requests(fault_proxy *proxy); /* since it was set */
void fault_proxy_end(fault_proxy *proxy);

#endif
