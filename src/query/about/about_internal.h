/* query/about, inside: streams that stay open, and the .proto files. */
#ifndef OD_QUERY_ABOUT_INTERNAL_H
#define OD_QUERY_ABOUT_INTERNAL_H

#include <pthread.h>

#include "query/about.h"

enum { ABOUT_METHODS = 4, ABOUT_MAX_REQUEST = 16 << 10 };

/* One call, from its opening to its end. */
typedef struct about_call {
    od_about *about;
    od_rpc_call *call;
    struct about_call *next, **prev; /* about->calls, under its lock */
    bool listed;
    /* The loop's thread only. */
    bool asked; /* health: its request has come */
    bool waits; /* reflection: the answers are not taken; no more is asked for */
} about_call;

struct od_about {
    od_rpc_method methods[ABOUT_METHODS];
    pthread_mutex_t lock; /* what follows */
    about_call *calls;    /* that stay open */
    bool draining;
};

/* Makes the state of CALL, with one message asked for, or ends it. */
void about_open(od_about *about, od_rpc_call *call, const od_rpc_events *events);
/* Has it ended by od_about_drain. False: that has been, and nothing was done. */
bool about_list(about_call *c);
/* For on_gone. */
void about_gone(void *user, od_rpc_call *call, const od_error *why);
/* Sends BYTES as a message; FINISH: and ends the call with STATUS and TEXT. */
void about_send(od_rpc_call *call, od_slice bytes, bool finish, int status, const char *text);

/* health.c */
void health_check_open(void *service, od_rpc_call *call);
void health_watch_open(void *service, od_rpc_call *call);
void health_end(od_rpc_call *call); /* a watched one: says NOT_SERVING, and ends it */

/* reflection.c */
void reflection_open(void *service, od_rpc_call *call);

/* Generated from proto/ by scripts/embed_protos.py. */
typedef struct {
    const char *name; /* "openduck/v1/execution.proto" */
    const uint8_t *bytes;
    size_t len; /* of a FileDescriptorProto */
} about_file;

typedef struct {
    const char *name; /* "openduck.v1.ExecutionService.Heartbeat" */
    size_t file;
} about_symbol;

extern const about_file about_files[];
extern const size_t about_file_count;
extern const about_symbol about_symbols[];
extern const size_t about_symbol_count;
extern const char *const about_services[];
extern const size_t about_service_count;

#endif
