#include "query/rights.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "query/rights/rights_internal.h"
#include "base/banned.h"

static const char MARK[] = "openduck-rights/1 ";

/* ---- making ---- */

od_rights *rights_new(const char *name)
{
    od_rights *r = od_calloc(1, sizeof *r);

    if (!r)
        return NULL;
    atomic_init(&r->refs, 1);
    atomic_init(&r->withdrawn, false);
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

od_rights *od_rights_ref(od_rights *rights)
{
    if (rights)
        atomic_fetch_add_explicit(&rights->refs, 1, memory_order_relaxed);
    return rights;
}

void od_rights_unref(od_rights *rights)
{
    if (!rights || atomic_fetch_sub_explicit(&rights->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < rights->database_count; i++)
        od_free(rights->databases[i]);
    od_free((void *)rights->databases);
    od_free(rights);
}

od_code rights_add_database(od_rights *rights, od_slice name, od_error *err)
{
    char **more;

    if (name.len == 1 && name.data[0] == '*') {
        rights->every_database = true;
        return OD_OK;
    }
    if (rights->database_count == RIGHTS_DATABASES)
        return od_fail(err, OD_E_INVALID, "more than %d databases", RIGHTS_DATABASES);
    more = od_realloc((void *)rights->databases, (rights->database_count + 1) * sizeof *more);
    if (more)
        rights->databases = more;
    if (more)
        more[rights->database_count] = od_strndup((const char *)name.data, name.len);
    if (!more || !more[rights->database_count])
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a token's rights");
    rights->database_count++;
    return OD_OK;
}

bool rights_is_name(od_slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
              c == '.'))
            return false;
    }
    return name.len > 0 && name.len <= RIGHTS_NAME;
}

bool rights_same(const od_rights *a, const od_rights *b)
{
    if (a->writes != b->writes || a->admin != b->admin || a->worker != b->worker ||
        a->every_database != b->every_database || a->database_count != b->database_count)
        return false;
    for (size_t i = 0; i < a->database_count; i++) {
        if (strcmp(a->databases[i], b->databases[i]) != 0)
            return false;
    }
    return true;
}

/* ---- asking ---- */

const char *od_rights_name(const od_rights *rights)
{
    return rights ? rights->name : "";
}

bool od_rights_admin(const od_rights *rights)
{
    return !rights || rights->admin;
}

bool od_rights_worker(const od_rights *rights)
{
    return !rights || rights->worker;
}

bool od_rights_writes(const od_rights *rights)
{
    return !rights || rights->writes;
}

bool od_rights_every_database(const od_rights *rights)
{
    return !rights || rights->every_database;
}

bool od_rights_executes(const od_rights *rights)
{
    return !rights || rights->every_database || rights->database_count > 0;
}

bool od_rights_limited(const od_rights *rights)
{
    return rights && (!rights->writes || !rights->every_database);
}

static bool stands_for(const char *pattern, od_slice name)
{
    size_t len = strlen(pattern);

    if (len > 0 && pattern[len - 1] == '*')
        return name.len >= len - 1 && strncasecmp(pattern, (const char *)name.data, len - 1) == 0;
    return name.len == len && strncasecmp(pattern, (const char *)name.data, len) == 0;
}

bool od_rights_database(const od_rights *rights, od_slice database)
{
    if (od_rights_every_database(rights))
        return true;
    for (size_t i = 0; i < rights->database_count && database.len > 0; i++) {
        if (stands_for(rights->databases[i], database))
            return true;
    }
    return false;
}

bool od_rights_same_bearer(const od_rights *a, const od_rights *b)
{
    return strcmp(od_rights_name(a), od_rights_name(b)) == 0;
}

bool od_rights_withdrawn(const od_rights *rights)
{
    return rights && atomic_load(&rights->withdrawn);
}

od_code od_rights_check_database(const od_rights *rights, od_slice database, od_error *err)
{
    int shown = (int)(database.len < 200 ? database.len : 200);

    if (database.len > 0 ? od_rights_database(rights, database) : od_rights_executes(rights))
        return OD_OK;
    if (database.len == 0)
        return od_fail(err, OD_E_PERMISSION, "token '%s' has no right to any database", od_rights_name(rights));
    return od_fail(err, OD_E_PERMISSION, "token '%s' has no right to database '%.*s'", od_rights_name(rights), shown,
                   (const char *)database.data);
}

od_code od_rights_check_status(const od_rights *rights, od_error *err)
{
    return od_rights_admin(rights) ? OD_OK : od_rights_check_database(rights, (od_slice){0}, err);
}

od_code od_rights_check_worker(const od_rights *rights, od_error *err)
{
    if (od_rights_worker(rights))
        return OD_OK;
    if (rights->name[0] == '\0')
        return od_fail(err, OD_E_PERMISSION, "workers register with the token of --worker-token here");
    return od_fail(err, OD_E_PERMISSION, "token '%s' lacks the right 'worker'", rights->name);
}

od_code od_rights_check_owner(const od_rights *rights, const od_rights *owner, const char *what, od_error *err)
{
    if (od_rights_admin(rights) || od_rights_same_bearer(rights, owner))
        return OD_OK;
    return od_fail(err, OD_E_PERMISSION, "token '%s' may not %s of others: it lacks the right 'admin'",
                   od_rights_name(rights), what);
}

od_code od_rights_check_transaction(const od_rights *rights, const od_rights *owner, od_error *err)
{
    if (od_rights_same_bearer(rights, owner))
        return OD_OK;
    return od_fail(err, OD_E_PERMISSION, "the transaction was begun by another token than '%s'",
                   od_rights_name(rights));
}

od_code od_rights_check_follower(const od_rights *rights, const od_rights *owner, od_error *err)
{
    if (od_rights_same_bearer(rights, owner))
        return OD_OK;
    return od_fail(err, OD_E_PERMISSION, "the execution to follow is one of another token than '%s'",
                   od_rights_name(rights));
}

/* ---- delegation: MARK NAME ' ' FLAGS ' ' DATABASES ' ' SHARED ---- */

static bool is_plain(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '*';
}

static od_code write_database(od_buf *out, const char *name, od_error *err)
{
    od_code rc = OD_OK;

    for (const char *at = name; *at && rc == OD_OK; at++)
        rc = is_plain((uint8_t)*at) ? od_buf_append(out, at, 1, err)
                                    : od_buf_printf(out, err, "%%%02X", (unsigned)(uint8_t)*at);
    return rc;
}

static od_code write_databases(od_buf *out, const od_rights *r, od_error *err)
{
    od_code rc = OD_OK;

    if (r->every_database)
        return od_buf_append(out, "*", 1, err);
    for (size_t i = 0; i < r->database_count && rc == OD_OK; i++) {
        if (i > 0)
            rc = od_buf_append(out, ",", 1, err);
        if (rc == OD_OK)
            rc = write_database(out, r->databases[i], err);
    }
    return rc;
}

od_code od_rights_delegate(const od_rights *rights, const od_secret *shared, od_secret *out, od_error *err)
{
    od_buf text = {0};
    od_code rc;

    OD_TRY(od_buf_printf(&text, err, "%s%s %s%s- ", MARK, rights->name, rights->writes ? "w" : "",
                         rights->admin ? "a" : ""));
    OD_TRY(write_databases(&text, rights, err));
    OD_TRY(od_buf_append(&text, " ", 1, err));
    if (shared && shared->len > 0)
        OD_TRY(od_buf_append(&text, shared->value, shared->len, err));
    OD_TRY(od_secret_set(out, od_slice_of(text.data, text.len), err));

out:
    if (text.data)
        explicit_bzero(text.data, text.cap);
    od_buf_release(&text);
    return rc;
}

/* What comes before the next blank of *rest, which goes on behind it. False: there is none. */
static bool take_word(od_slice *rest, od_slice *word)
{
    const uint8_t *blank = rest->len > 0 ? memchr(rest->data, ' ', rest->len) : NULL;

    if (!blank)
        return false;
    *word = od_slice_of(rest->data, (size_t)(blank - rest->data));
    *rest = od_slice_of(blank + 1, rest->len - word->len - 1);
    return true;
}

static bool decode_database(od_slice text, od_buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c == '%') {
            int high = i + 2 < text.len ? od_hex_value(text.data[i + 1]) : -1;
            int low = i + 2 < text.len ? od_hex_value(text.data[i + 2]) : -1;

            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return false;
            c = (uint8_t)(high * 16 + low);
            i += 2;
        } else if (!is_plain(c)) {
            return false;
        }
        if (od_buf_append(out, &c, 1, NULL) != OD_OK)
            return false;
    }
    return out->len > 0;
}

static bool read_databases(od_slice list, od_rights *r)
{
    while (list.len > 0) {
        const uint8_t *comma = memchr(list.data, ',', list.len);
        size_t len = comma ? (size_t)(comma - list.data) : list.len;
        od_buf name = {0};
        bool good = decode_database(od_slice_of(list.data, len), &name) &&
                    rights_add_database(r, od_slice_of(name.data, name.len), NULL) == OD_OK;

        od_buf_release(&name);
        if (!good || (comma && len + 1 == list.len))
            return false;
        len += comma != NULL;
        list = od_slice_of(list.data + len, list.len - len);
    }
    return true;
}

static bool read_flags(od_slice flags, od_rights *r)
{
    for (size_t i = 0; i < flags.len; i++) {
        switch (flags.data[i]) {
        case 'w':
            r->writes = true;
            break;
        case 'a':
            r->admin = true;
            break;
        case '-':
            break;
        default: /* a right that is not known here, and cannot be held to */
            return false;
        }
    }
    return true;
}

od_code rights_delegated(od_slice given, const od_secret *shared, od_rights **out, od_error *err)
{
    size_t mark = sizeof MARK - 1;
    od_slice rest, name, flags, databases;
    od_rights *r;

    *out = NULL;
    if (given.len < mark || memcmp(given.data, MARK, mark) != 0)
        return OD_OK;
    rest = od_slice_of(given.data + mark, given.len - mark);
    if (!take_word(&rest, &name) || !take_word(&rest, &flags) || !take_word(&rest, &databases) ||
        !rights_is_name(name) || (shared->len > 0 && !od_secret_equal(shared, rest)))
        return OD_OK;
    r = rights_new("");
    if (!r)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for a token's rights");
    memcpy(r->name, name.data, name.len);
    if (!read_flags(flags, r) || !read_databases(databases, r)) {
        od_rights_unref(r);
        return OD_OK;
    }
    *out = r;
    return OD_OK;
}
