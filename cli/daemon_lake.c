#include <string.h>

#include "cli/daemon.h"
#include "base/banned.h"

/* Whether NAME is set in TEXT: "name=", "name ='. */
static bool sets(const char *text, const char *name)
{
    for (const char *at = strcasestr(text, name); at; at = strcasestr(at + 1, name)) {
        const char *after = at + strlen(name);

        if (after[strspn(after, " \t")] == '=')
            return true;
    }
    return false;
}

/* "postgresql://user:password@host/..." */
static bool has_password_before_host(const char *text)
{
    const char *authority = strstr(text, "://");
    size_t len = authority ? strcspn(authority + 3, "/?") : 0;
    const char *at = authority ? memrchr(authority + 3, '@', len) : NULL;

    return at && memchr(authority + 3, ':', (size_t)(at - authority - 3));
}

/* Clients can ask DuckDB for the text, as for the path of every database. */
static bool has_password(const char *metadata)
{
    if (strncmp(metadata, "postgres:", 9) != 0 && strncmp(metadata, "mysql:", 6) != 0)
        return false;
    return sets(metadata, "password") || sets(metadata, "passwd") || has_password_before_host(metadata);
}

od_code daemon_lake(const od_options *options, od_engine_lake *lake, od_error *err)
{
    *lake = (od_engine_lake){
        .name = od_options_str(options, OD_OPT_DUCKLAKE_NAME),
        .metadata = od_options_str(options, OD_OPT_DUCKLAKE_METADATA),
        .data = od_options_str(options, OD_OPT_DUCKLAKE_DATA),
    };
    if (!lake->metadata[0] != !lake->data[0])
        return od_fail(err, OD_E_INVALID, "a DuckLake needs both --ducklake-metadata and --ducklake-data");
    if (!lake->name[0])
        return od_options_reject(options, OD_OPT_DUCKLAKE_NAME, "a name is needed", err);
    if (has_password(lake->metadata))
        return od_fail(err, OD_E_INVALID,
                       "--ducklake-metadata holds a password, which clients could read: PGPASSWORD or a password file "
                       "(MYSQL_PWD) is where it belongs");
    return OD_OK;
}
