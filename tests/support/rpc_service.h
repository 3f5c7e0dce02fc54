/* support/rpc_service.h: a small service over query/rpc for tests, the echo programs and the benchmark.
 *
 *   /test.Rpc/Echo     each request message is answered with the same message, status OK after the last
 *   /test.Rpc/Stream   "COUNT SIZE": COUNT messages of SIZE bytes 'x'
 *   /test.Rpc/Threaded as Stream, sent by a thread of its own
 *   /test.Rpc/Collect  takes all messages, answers "COUNT BYTES"
 *   /test.Rpc/Slow     asks for no message at all
 *   /test.Rpc/Hang     takes its request, never answers
 *   /test.Rpc/Fail     "STATUS TEXT": ends with that status
 *   /test.Rpc/Abort    resets the stream when its request has come
 *   /test.Rpc/Relay/X  passes on to /test.Rpc/X of the service's upstream */
#ifndef OD_TESTS_RPC_SERVICE_H
#define OD_TESTS_RPC_SERVICE_H

#include <pthread.h>

#include "query/rpc.h"

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned opened, gone, clean; /* calls; of the gone ones those that ended cleanly */
    od_code last_code;            /* of the last that did not */
    char last_text[OD_ERROR_MESSAGE_SIZE];
    size_t handed;     /* bytes that Stream has queued so far */
    unsigned up_gone;  /* of Relay: calls to the upstream that have ended */
    unsigned messages; /* that came, to Echo and Collect */
    od_endpoint upstream;
    bool verbose; /* tells on stdout how calls end */
} rpc_service;

extern const od_rpc_method RPC_SERVICE_METHODS[];
extern const size_t RPC_SERVICE_METHOD_COUNT;

void rpc_service_init(rpc_service *service);
/* Waits until GONE calls have ended; false after 5 seconds. */
bool rpc_service_wait_gone(rpc_service *service, unsigned gone);
bool rpc_service_wait_up_gone(rpc_service *service, unsigned gone);
bool rpc_service_wait_messages(rpc_service *service, unsigned messages);
bool rpc_service_wait_opened(rpc_service *service, unsigned opened);

/* From here on the servers and channels below speak TLS, or plain text again. Any https:// endpoint of this process is then checked
 * against the test's own CA. */
void rpc_service_use_tls(bool on);
/* "http://HOST:PORT", or "https://..." */
void rpc_service_url(const char *host, uint16_t port, char out[64]);

/* A server with this service on a free loopback port; aborts on failure. */
od_rpc_server *rpc_service_start(rpc_service *service, const od_rpc_server_options *options);
od_channel *rpc_channel_to(uint16_t port);

/* One message of LEN bytes, all BYTE. */
od_msg *rpc_message(size_t len, uint8_t byte);
od_rpc_out rpc_out(od_msg *body);
od_rpc_out rpc_out_text(const char *text); /* at most 64 bytes */

#endif
