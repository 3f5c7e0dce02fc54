/* Which databases a worker may have attached, and how each kind is opened. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "vgi/companion/registry_internal.h"

#define ALLOWED_TEXT "ducklake, iceberg, postgres, mysql, duckdb, sqlite"

/* What stands before the ':' of a target, or as db_type: its name, the type that it means, and what such a database is. */
typedef struct {
    const char *name;
    const char *type;
    bool server;        /* its URL form (NAME://...) is the server's, and stays whole */
    bool metadata;      /* a DuckLake may keep its metadata in one */
    const char *secret; /* the option that takes a secret's name; NULL: none */
} scheme_row;

static const scheme_row SCHEMES[] = {
    {"ducklake", "ducklake", false, false, "meta_secret"},
    {"iceberg", "iceberg", false, false, "secret"},
    {"postgres", "postgres", true, true, "secret"},
    {"postgresql", "postgres", true, true, "secret"},
    {"mysql", "mysql", true, true, "secret"},
    {"duckdb", "duckdb", false, true, NULL},
    {"sqlite", "sqlite", false, true, NULL},
};

static const scheme_row *find_scheme(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(SCHEMES) / sizeof(SCHEMES[0]); i++) {
        if (strlen(SCHEMES[i].name) == len && strncasecmp(SCHEMES[i].name, name, len) == 0)
            return &SCHEMES[i];
    }
    return NULL;
}

/* The length of the word before the first ':' of TEXT, as DuckDB understands it (a drive letter is none); 0: no such word. */
static size_t prefix_len(const char *text)
{
    size_t len = 0;

    while (isalnum((unsigned char)text[len]) || text[len] == '_' || text[len] == '+' || text[len] == '.' ||
           text[len] == '-')
        len++;
    return len >= 2 && text[len] == ':' ? len : 0;
}

static bool is_url(const char *text, size_t prefix)
{
    return strncmp(text + prefix, "://", 3) == 0;
}

/* What the judgement of one wish needs. */
typedef struct {
    const od_companion_wish *wish;
    const od_companion_terms *terms;
    od_companion_request *out;
    const scheme_row *scheme;
    const scheme_row *inner; /* where a DuckLake's metadata are; NULL: in a file of DuckDB */
    od_error *err;
} judgement;

static const char *text_of(const char *text)
{
    return text ? text : "";
}

static od_code refuse_scheme(const judgement *j, const char *scheme, size_t len)
{
    return od_fail(j->err, OD_E_BINDER,
                   "%s catalog '%s' advertised companion '%s' with target '%s' whose scheme '%.*s' is not permitted "
                   "(allowed: " ALLOWED_TEXT ")",
                   family_of(j->terms), text_of(j->terms->catalog), text_of(j->wish->alias), j->out->shown, (int)len,
                   scheme);
}

static od_code keep(char **out, const char *text, size_t len, od_error *err)
{
    *out = od_strndup(text, len);
    return *out ? OD_OK : od_fail(err, OD_E_NO_MEMORY, "no memory for a companion");
}

static od_code keep_lower(char **out, const char *text, od_error *err)
{
    od_code rc = keep(out, text, strlen(text), err);

    for (char *c = *out; c && *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    return rc;
}

static od_code check_text(const judgement *j, const char *what, const char *text)
{
    if (strlen(text) > OD_COMPANION_TEXT_MAX)
        return od_fail(j->err, OD_E_BINDER, "%s catalog '%s' advertised a companion whose %s is too long",
                       family_of(j->terms), text_of(j->terms->catalog), what);
    return OD_OK;
}

static od_code check_alias(const judgement *j)
{
    static const char *const RESERVED[] = {"main", "temp", "system"};
    const char *alias = text_of(j->wish->alias);

    if (alias[0] == '\0')
        return od_fail(j->err, OD_E_BINDER, "%s catalog '%s' advertised a companion without an alias",
                       family_of(j->terms), text_of(j->terms->catalog));
    for (size_t i = 0; i < sizeof(RESERVED) / sizeof(RESERVED[0]); i++) {
        if (strcasecmp(alias, RESERVED[i]) == 0)
            return od_fail(j->err, OD_E_BINDER,
                           "%s catalog '%s' advertised a companion whose alias '%s' is a reserved name",
                           family_of(j->terms), text_of(j->terms->catalog), alias);
    }
    if (strcasecmp(alias, text_of(j->terms->catalog)) == 0)
        return od_fail(j->err, OD_E_BINDER, "%s catalog '%s' advertised a companion of its own name",
                       family_of(j->terms), alias);
    return check_text(j, "alias", alias);
}

/* REST is what follows "ducklake:": where the metadata are. */
static od_code judge_metadata(judgement *j, const char *rest)
{
    size_t prefix = prefix_len(rest);

    if (prefix == 0)
        return OD_OK;
    j->inner = find_scheme(rest, prefix);
    if (j->inner ? !j->inner->metadata : !is_url(rest, prefix))
        return refuse_scheme(j, rest, prefix);
    return OD_OK;
}

/* Type and path: the prefix of the target must say what db_type says. */
static od_code judge_target(judgement *j)
{
    const char *target = text_of(j->wish->target);
    const char *db_type = text_of(j->wish->db_type);
    size_t prefix = prefix_len(target);
    const scheme_row *own = find_scheme(target, prefix);
    const char *path = target;
    od_code rc;

    j->scheme = db_type[0] == '\0' ? own : find_scheme(db_type, strlen(db_type));
    if (!j->scheme && db_type[0] != '\0')
        return refuse_scheme(j, db_type, strlen(db_type));
    if (!j->scheme)
        return refuse_scheme(j, target, strchr(target, ':') ? strcspn(target, ":") : 0);
    if (own && strcmp(own->type, j->scheme->type) == 0) {
        if (!(own->server && is_url(target, prefix)))
            path += prefix + 1;
        prefix = 0;
    }
    if (strcmp(j->scheme->type, "ducklake") == 0) {
        if ((rc = judge_metadata(j, path)) != OD_OK)
            return rc;
    } else if (prefix > 0 && strcmp(j->scheme->type, "iceberg") != 0 &&
               /* A DuckDB file may be far away; of others the prefix is another type's. */
               !(strcmp(j->scheme->type, "duckdb") == 0 && !own && is_url(target, prefix))) {
        return refuse_scheme(j, target, prefix);
    }
    if ((rc = keep(&j->out->type, j->scheme->type, strlen(j->scheme->type), j->err)) != OD_OK)
        return rc;
    return keep(&j->out->path, path, strlen(path), j->err);
}

/* Options that would say otherwise than the fields that are judged. */
static od_code judge_option(const judgement *j, const char *key, const char *value)
{
    bool secret = strcmp(key, "secret") == 0 || strcmp(key, "meta_secret") == 0;
    const scheme_row *meta = strcmp(key, "meta_type") == 0 ? find_scheme(value, strlen(value)) : NULL;
    bool fixed = strcmp(key, "type") == 0 || strcmp(key, "hidden") == 0;

    if (strcmp(key, "meta_type") == 0 && !(meta && meta->metadata))
        fixed = true;
    if (!fixed && !(secret && !j->terms->secrets))
        return OD_OK;
    return od_fail(j->err, OD_E_BINDER,
                   "%s catalog '%s' advertised companion '%s' with the option '%s', which is not permitted%s",
                   family_of(j->terms), text_of(j->terms->catalog), text_of(j->wish->alias), key,
                   secret ? " without attach_companion_secrets" : "");
}

static int compare_options(const void *a, const void *b)
{
    return strcmp(((const od_companion_option *)a)->key, ((const od_companion_option *)b)->key);
}

static bool is_access_option(const char *key)
{
    return strcmp(key, "read_only") == 0 || strcmp(key, "readonly") == 0 || strcmp(key, "read_write") == 0 ||
           strcmp(key, "readwrite") == 0;
}

static od_code add_option(judgement *j, const char *key, const char *value)
{
    od_companion_option *slot = &j->out->options[j->out->option_count];
    char *copy = NULL;
    char *lower = NULL;
    od_code rc;

    OD_TRY(keep_lower(&lower, key, j->err));
    OD_TRY(judge_option(j, lower, value));
    if (j->terms->read_only && is_access_option(lower))
        goto out;
    OD_TRY(check_text(j, "option", value));
    OD_TRY(keep(&copy, value, strlen(value), j->err));
    slot->key = lower;
    slot->value = copy;
    j->out->option_count++;
    return OD_OK;

out:
    od_free(lower);
    return rc;
}

static od_code judge_options(judgement *j)
{
    const od_companion_wish *wish = j->wish;
    od_code rc;

    if (wish->option_count > OD_COMPANION_OPTIONS_MAX)
        return od_fail(j->err, OD_E_BINDER, "%s catalog '%s' advertised companion '%s' with too many options",
                       family_of(j->terms), text_of(j->terms->catalog), text_of(wish->alias));
    /* One more: a secret may be added. */
    j->out->options = od_calloc(wish->option_count + 1, sizeof(*j->out->options));
    if (!j->out->options)
        return od_fail(j->err, OD_E_NO_MEMORY, "no memory for a companion");
    for (size_t i = 0; i < wish->option_count; i++) {
        rc = add_option(j, text_of(wish->options[i].key), text_of(wish->options[i].value));
        if (rc != OD_OK)
            return rc;
    }
    return OD_OK;
}

static bool has_option(const od_companion_request *request, const char *key)
{
    for (size_t i = 0; i < request->option_count; i++) {
        if (strcmp(request->options[i].key, key) == 0)
            return true;
    }
    return false;
}

/* A secret goes by its name, in the option that the type has for it: the secret's values would not be known as options. */
static od_code judge_secret(judgement *j)
{
    const char *name = text_of(j->wish->secret_ref);
    const scheme_row *taker = strcmp(j->scheme->type, "ducklake") == 0 ? j->inner : j->scheme;
    od_code rc;

    if (name[0] == '\0')
        return OD_OK;
    j->out->secret_skipped = !j->terms->secrets;
    if (!j->terms->secrets || has_option(j->out, text_of(j->scheme->secret)))
        return OD_OK;
    if (!taker || !taker->secret)
        return od_fail(j->err, OD_E_BINDER,
                       "%s catalog '%s' advertised companion '%s' with a secret_ref, but a database of type '%s' "
                       "takes no secret",
                       family_of(j->terms), text_of(j->terms->catalog), text_of(j->wish->alias), j->scheme->type);
    if ((rc = check_text(j, "secret_ref", name)) != OD_OK)
        return rc;
    if ((rc = keep(&j->out->secret, name, strlen(name), j->err)) != OD_OK)
        return rc;
    return add_option(j, j->scheme->secret, name);
}

static od_code judge_all(judgement *j)
{
    od_buf shown = {0};
    od_code rc;

    OD_TRY(check_alias(j));
    OD_TRY(check_text(j, "target", text_of(j->wish->target)));
    OD_TRY(keep(&j->out->alias, text_of(j->wish->alias), strlen(text_of(j->wish->alias)), j->err));
    OD_TRY(od_companion_redact(&shown, text_of(j->wish->target), j->err));
    OD_TRY(keep(&j->out->shown, (const char *)shown.data, shown.len, j->err));
    OD_TRY(judge_target(j));
    OD_TRY(judge_options(j));
    OD_TRY(judge_secret(j));
    qsort(j->out->options, j->out->option_count, sizeof(*j->out->options), compare_options);
    for (size_t i = 1; i < j->out->option_count; i++) {
        if (strcmp(j->out->options[i - 1].key, j->out->options[i].key) == 0) {
            rc = od_fail(j->err, OD_E_BINDER, "%s catalog '%s' advertised companion '%s' with the option '%s' twice",
                         family_of(j->terms), text_of(j->terms->catalog), j->out->alias, j->out->options[i].key);
            goto out;
        }
    }

out:
    od_buf_release(&shown);
    return rc;
}

od_code od_companion_request_make(const od_companion_wish *wish, const od_companion_terms *terms,
                                  od_companion_request *out, od_error *err)
{
    judgement j = {.wish = wish, .terms = terms, .out = out, .err = err};
    od_code rc;

    *out = (od_companion_request){.hidden = wish->hidden, .read_only = terms->read_only};
    rc = judge_all(&j);
    if (rc != OD_OK)
        od_companion_request_release(out);
    return rc;
}

void od_companion_request_release(od_companion_request *request)
{
    for (size_t i = 0; i < request->option_count; i++) {
        od_free((char *)request->options[i].key);
        od_free((char *)request->options[i].value);
    }
    od_free(request->options);
    od_free(request->alias);
    od_free(request->type);
    od_free(request->path);
    od_free(request->shown);
    od_free(request->secret);
    *request = (od_companion_request){0};
}

bool od_companion_request_same(const od_companion_request *a, const od_companion_request *b)
{
    if (strcasecmp(a->alias, b->alias) != 0 || strcmp(a->type, b->type) != 0 || strcmp(a->path, b->path) != 0 ||
        a->hidden != b->hidden || a->read_only != b->read_only || a->option_count != b->option_count)
        return false;
    for (size_t i = 0; i < a->option_count; i++) {
        if (strcmp(a->options[i].key, b->options[i].key) != 0 || strcmp(a->options[i].value, b->options[i].value) != 0)
            return false;
    }
    return true;
}
