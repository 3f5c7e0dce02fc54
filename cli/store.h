/* What the commands of the storage share. */
#ifndef OD_CLI_STORE_H
#define OD_CLI_STORE_H

#include "cli/command.h"
#include "openduck/storage.h"

#define STORE_SIZE_TEXT 32
#define STORE_TIME_TEXT 32

/* Opens the store that --data-dir and --postgres-url name, which has to be there. On failure tells it and gives the exit code in *code. */
bool store_open(const char *command, const od_options *options, od_store **out, int *code);
/* Closes STORE (NULL allowed); tells ERR if RC is a failure, and gives the exit code. */
int store_close(const char *command, od_store *store, od_storage_code rc, const od_storage_error *err);
/* Wrong usage: tells it, and gives the exit code. */
int store_usage(const char *command, const char *why);

/* "1 layer", "2 layers". Returns OUT. */
const char *store_layers(uint64_t count, char out[STORE_SIZE_TEXT]);
/* "12.3 MiB", "2026-01-31 12:00:00" (UTC). Both return OUT. */
const char *store_size(uint64_t bytes, char out[STORE_SIZE_TEXT]);
const char *store_time(int64_t ms, char out[STORE_TIME_TEXT]);
void store_json(const char *name, const char *value); /* "name": "value" */

/* A line of progress on stderr, if that is a terminal; the next one takes its place. */
void store_progress(const char *fmt, ...) OD_PRINTF(1, 2);
void store_progress_end(void);

#endif
