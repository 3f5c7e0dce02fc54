/* query/rights, inside: rights, a set of tokens, and its file. */
#ifndef OD_QUERY_RIGHTS_INTERNAL_H
#define OD_QUERY_RIGHTS_INTERNAL_H

#include <stdatomic.h>

#include "base/sha256.h"
#include "query/rights.h"

enum {
    RIGHTS_NAME = 64, /* longest name of a token */
    RIGHTS_DATABASES = 1000,
    TOKENS_MOST = 4096,
    TOKENS_FILE = 1 << 20,
    TOKENS_LINE = 8192
};

struct od_rights {
    atomic_uint refs;
    atomic_bool withdrawn;
    char name[RIGHTS_NAME + 1];
    bool writes, admin, worker;
    bool every_database;
    char **databases; /* one that ends in '*' stands for all that begin so */
    size_t database_count;
};

/* With no rights at all. NULL when memory is out. */
od_rights *rights_new(const char *name);
/* "*", "prefix*" or a whole name. */
OD_MUST_CHECK od_code rights_add_database(od_rights *rights, od_slice name, od_error *err);
bool rights_same(const od_rights *a, const od_rights *b);
bool rights_is_name(od_slice name);

/* What SHARED delegates by GIVEN; *out NULL: it is not of that form, or SHARED is another. */
OD_MUST_CHECK od_code rights_delegated(od_slice given, const od_secret *shared, od_rights **out, od_error *err);

/* ---- a set: counted, does not change once it is shared ---- */

typedef struct {
    uint8_t digest[OD_SHA256_SIZE];
    od_rights *rights;
    int line;
} token_entry;

typedef struct {
    atomic_uint refs;
    token_entry *list;
    size_t count;
} token_set;

token_set *token_set_new(void);
void token_set_unref(token_set *set);
/* Takes RIGHTS, on failure too. */
OD_MUST_CHECK od_code token_set_add(token_set *set, const uint8_t *digest, od_rights *rights, int line, od_error *err);
/* Takes the same time for every GIVEN. Borrowed. */
const token_entry *token_set_find(const token_set *set, const uint8_t *digest);
const token_entry *token_set_named(const token_set *set, const char *name);

/* ---- token_file.c ---- */

/* Adds the tokens of TEXT, the content of the file called PATH, to SET. */
OD_MUST_CHECK od_code token_file_parse(const char *path, od_slice text, token_set *set, od_error *err);

/* What tells one content of a file from another without reading it. */
typedef struct {
    int64_t device, inode, size, changed_s, changed_ns;
} token_file_mark;

token_file_mark token_file_look(const char *path);
/* MARK is of what was read, or could not be. */
OD_MUST_CHECK od_code token_file_read(const char *path, token_set *set, token_file_mark *mark, od_error *err);

#endif
