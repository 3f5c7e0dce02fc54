/* What serve, gateway and worker have in common: signals, the ready line, draining. */
#ifndef OD_CLI_DAEMON_H
#define OD_CLI_DAEMON_H

#include "base/options.h"
#include "cli/observe.h"
#include "query/engine.h"
#include "query/rights.h"
#include "query/rpc.h"

/* Before the first thread: from here on signals wait for daemon_run. */
void daemon_block_signals(void);

/* Whether the address may be listened on. LISTEN_OPTION is the command's. */
OD_MUST_CHECK od_code daemon_check(const od_options *options, od_option listen_option, od_error *err);

/* The DuckLake of --ducklake-metadata, whose text is empty without one; all is OPTIONS' own. */
OD_MUST_CHECK od_code daemon_lake(const od_options *options, od_engine_lake *lake, od_error *err);

/* What --storage asks of databases, and the mounts of openduck-fuse that were begun for them. */
typedef struct daemon_mounts daemon_mounts;

/* With --storage fuse the path of each database, an openduck:// that is mounted here, or a mount that is there, becomes that of its file,
 * which MOUNTS has. *out is the caller's, also on failure. */
OD_MUST_CHECK od_code daemon_mounts_open(const od_options *options, od_engine_database *databases, size_t count,
                                         daemon_mounts **out, od_error *err);
const char *daemon_mounts_temp(const daemon_mounts *mounts); /* for DuckDB's temporary files; NULL: its own choice */
/* When nothing of the databases is open any more: unmounts what was begun here, and waits for it. NULL allowed. */
void daemon_mounts_close(daemon_mounts *mounts);

/* The engine of --db, FILE arguments and the other options of DuckDB. MOUNTS is not NULL for a command that takes those of a worker
 * (--storage, --ducklake-metadata, --max-snapshots): *mounts is the caller's, also on failure, and closed after the engine. OBSERVER's
 * metrics, which outlive the engine, are told of its storage. RUN_PLACES as in od_engine_options. */
OD_MUST_CHECK od_code daemon_open_engine(const od_options *options, unsigned run_places, observe *observer,
                                         daemon_mounts **mounts, od_engine **out, od_error *err);

/* For od_worker_options.on_fatal, on any thread: has daemon_run end the process with EXIT_FAILED. */
void daemon_fatal(void *unused, const char *why);

/* What a process listens with and dials with; each NULL if not opened. */
typedef struct {
    od_tls *server, *client;
} daemon_tls;

/* The server's of --tls-cert and --tls-key; none without them. */
OD_MUST_CHECK od_code daemon_tls_open(const od_options *options, daemon_tls *tls, od_error *err);
/* The client's of --tls-ca, which shows the same certificate. */
OD_MUST_CHECK od_code daemon_tls_open_client(const od_options *options, daemon_tls *tls, od_error *err);
/* Reads the files of both again, as SIGHUP asks for. */
OD_MUST_CHECK od_code daemon_tls_reload(const daemon_tls *tls, od_error *err);
void daemon_tls_close(daemon_tls *tls);

/* The tokens of --token, --tokens and, if WORKER, the --worker-token that a gateway knows its workers by. DELEGATED: od_tokens_options. */
OD_MUST_CHECK od_code daemon_tokens_open(const od_options *options, bool worker, bool delegated, od_tokens **out,
                                         od_error *err);

typedef struct {
    od_rpc_server *server;
    const daemon_tls *tls;
    od_tokens *tokens;                  /* read again when their file changes */
    void (*withdraw)(void *withdrawer); /* ends what was begun by those that are gone */
    void *withdrawer;
    const char *role; /* "serve" */
    const char *listen;
    bool open;                 /* there is no token */
    const od_options *options; /* in force */
    observe *observe;          /* stopped by daemon_run, before anything of the server is gone */
    void *arg;
    void (*drain)(void *arg);  /* no new work; may be NULL */
    void (*cancel)(void *arg); /* end what runs; may be NULL */
    /* Takes the reloadable options of its own from OPTIONS, or none of them; may be NULL. */
    od_code (*reload)(void *arg, const od_options *options, od_error *err);
} daemon_task;

/* Fill in what all servers share. */
void daemon_rpc_options(const od_options *options, od_option listen_option, const daemon_tls *tls,
                        od_rpc_server_options *out);
void daemon_task_options(const od_options *options, od_option listen_option, const daemon_tls *tls, daemon_task *out);
/* "http://HOST:PORT" of LISTEN with the port that was taken; TLS: "https://...". */
void daemon_url(const char *listen, uint16_t port, bool tls, char *out, size_t size);
/* Logs the start, prints the ready line, waits for a signal, drains. SIGHUP reads the options again, and keeps the old
 * ones if that fails. Nothing is logged before, so that what keeps a
 * server from starting is one line. */
void daemon_run(daemon_task *task);

#endif
