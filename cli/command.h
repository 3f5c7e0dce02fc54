/* What the files of the command line share: one function a command, and how they fail. */
#ifndef OD_CLI_COMMAND_H
#define OD_CLI_COMMAND_H

#include "base/options.h"
#include "query/client.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* The options are parsed; --help is dealt with. Each returns the exit code. */
int command_serve(const od_options *options);
int command_gateway(const od_options *options);
int command_worker(const od_options *options);
int command_query(const od_options *options);
int command_cancel(const od_options *options);
int command_status(const od_options *options);
int command_snapshot(const od_options *options);
int command_gc(const od_options *options);
int command_storage(const od_options *options);
int command_vgi_serve(const od_options *options);

/* Writes "openduck COMMAND: message" to stderr; OD_E_INVALID is wrong usage, all else a failure. */
int command_fail(const char *command, od_code code, const od_error *err);

/* Reads the process's own command line, environment and --config file once more. The caller frees *out. */
OD_MUST_CHECK od_code command_read_again(od_options **out, od_error *err);

/* The remote that --endpoint, --token and, if there is one, --database name. WANTED (NULL: nothing) has what only some commands
 * take: timeouts, max_message. */
OD_MUST_CHECK od_code command_connect(const od_options *options, const char *database, const od_remote_options *wanted,
                                      od_remote **out, od_error *err);

#endif
