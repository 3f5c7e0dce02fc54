/* The tokens in force, and how others take their place. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "query/rights/rights_internal.h"
#include "base/banned.h"

/* No name of the file: it has a blank. */
static const char WORKER_TOKEN[] = "worker token";

struct od_tokens {
    od_secret token; /* kept for what is delegated by it */
    bool has_worker_token, delegated;
    uint8_t token_digest[OD_SHA256_SIZE], worker_digest[OD_SHA256_SIZE];
    char *file;
    od_rights *anyone; /* of a caller where no token is needed; NULL: every right */

    token_file_mark read; /* of what was read last, or could not be: by who asks od_tokens_changed */
    token_file_mark seen; /* at the last question */

    pthread_mutex_t reload_lock; /* one at a time */
    pthread_mutex_t lock;        /* what follows */
    token_set *set;
};

static od_code copy_token(od_tokens *t, const od_secret *token, od_error *err)
{
    if (!token || token->len == 0)
        return OD_OK;
    od_sha256_of(od_slice_of(token->value, token->len), t->token_digest);
    return od_secret_set(&t->token, od_slice_of(token->value, token->len), err);
}

/* Those of OPENDUCK_TOKEN, or of whoever calls if there is no token. NULL when memory is out. */
static od_rights *all_rights(const od_tokens *t)
{
    od_rights *all = rights_new("");

    if (all) {
        all->writes = all->admin = all->every_database = true;
        all->worker = !t->has_worker_token;
    }
    return all;
}

/* The two that come from options. */
static od_code add_own(const od_tokens *t, token_set *set, od_error *err)
{
    od_code rc = OD_OK;

    if (t->token.len > 0)
        rc = token_set_add(set, t->token_digest, all_rights(t), 0, err);
    /* Where both are the same, what the access token may do is not less for it. */
    if (rc == OD_OK && t->has_worker_token && t->token.len > 0 &&
        memcmp(t->token_digest, t->worker_digest, OD_SHA256_SIZE) == 0) {
        set->list[0].rights->worker = true;
    } else if (rc == OD_OK && t->has_worker_token) {
        od_rights *worker = rights_new(WORKER_TOKEN);

        if (worker)
            worker->worker = true;
        rc = token_set_add(set, t->worker_digest, worker, 0, err);
    }
    return rc;
}

/* A set of all that is in force by the file as it is now. */
static od_code make_set(od_tokens *t, token_set **out, od_error *err)
{
    token_set *set = token_set_new();
    od_code rc = set ? add_own(t, set, err) : od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens");

    if (rc == OD_OK && t->file)
        rc = token_file_read(t->file, set, &t->read, err);
    if (rc != OD_OK) {
        token_set_unref(set);
        set = NULL;
    }
    *out = set;
    return rc;
}

od_code od_tokens_create(const od_tokens_options *options, od_tokens **out, od_error *err)
{
    od_tokens *t = od_calloc(1, sizeof *t);
    const od_secret *worker = options->worker_token;
    od_code rc;

    *out = NULL;
    if (!t)
        return od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens");
    pthread_mutex_init(&t->reload_lock, NULL);
    pthread_mutex_init(&t->lock, NULL);
    t->delegated = options->delegated;
    t->has_worker_token = worker && worker->len > 0;
    if (t->has_worker_token)
        od_sha256_of(od_slice_of(worker->value, worker->len), t->worker_digest);
    OD_TRY(copy_token(t, options->token, err));
    if (options->file && options->file[0]) {
        t->file = od_strdup(options->file);
        if (!t->file)
            OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens"));
    }
    OD_TRY(make_set(t, &t->set, err));
    if (!od_tokens_required(t) && t->has_worker_token) {
        t->anyone = all_rights(t);
        if (!t->anyone)
            OD_TRY(od_fail(err, OD_E_NO_MEMORY, "out of memory for tokens"));
    }
    t->seen = t->read;
    *out = t;
    t = NULL;

out:
    od_tokens_free(t);
    return rc;
}

void od_tokens_free(od_tokens *tokens)
{
    if (!tokens)
        return;
    token_set_unref(tokens->set);
    od_rights_unref(tokens->anyone);
    od_secret_release(&tokens->token);
    od_free(tokens->file);
    pthread_mutex_destroy(&tokens->reload_lock);
    pthread_mutex_destroy(&tokens->lock);
    od_free(tokens);
}

static token_set *current(od_tokens *t)
{
    token_set *set;

    pthread_mutex_lock(&t->lock);
    set = t->set;
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&t->lock);
    return set;
}

bool od_tokens_has_file(const od_tokens *tokens)
{
    return tokens->file != NULL;
}

bool od_tokens_required(const od_tokens *tokens)
{
    return tokens->token.len > 0 || tokens->file != NULL;
}

size_t od_tokens_count(od_tokens *tokens)
{
    token_set *set = current(tokens);
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        count += set->list[i].line > 0;
    token_set_unref(set);
    return count;
}

/* ---- finding ---- */

static od_code unknown(const od_tokens *t, od_slice given, od_error *err)
{
    if (given.len > 0)
        return od_fail(err, OD_E_UNAUTHENTICATED, "invalid access_token");
    return od_fail(err, OD_E_UNAUTHENTICATED, "access_token required when %s is set",
                   t->token.len > 0 ? "OPENDUCK_TOKEN" : "OPENDUCK_TOKENS");
}

od_code od_tokens_find(od_tokens *tokens, od_slice given, od_rights **out, od_error *err)
{
    uint8_t digest[OD_SHA256_SIZE];
    const token_entry *entry;
    token_set *set;
    od_code rc = OD_OK;

    *out = NULL;
    if (tokens->delegated) {
        rc = rights_delegated(given, &tokens->token, out, err);
        if (rc != OD_OK || *out)
            return rc;
    }
    set = current(tokens);
    od_sha256_of(given, digest);
    entry = given.len > 0 ? token_set_find(set, digest) : NULL;
    if (entry)
        *out = od_rights_ref(entry->rights);
    else if (od_tokens_required(tokens))
        rc = unknown(tokens, given, err);
    else
        *out = od_rights_ref(tokens->anyone);
    token_set_unref(set);
    explicit_bzero(digest, sizeof digest);
    return rc;
}

/* ---- reading again ---- */

/* FRESH's rights take the place of OLD's, which go on to be the same objects where they are the same. */
static bool withdraw(const token_set *old, token_set *fresh)
{
    bool some = false;

    for (size_t i = 0; i < old->count; i++) {
        token_entry *entry = (token_entry *)(uintptr_t)token_set_named(fresh, old->list[i].rights->name);
        bool same = entry && memcmp(entry->digest, old->list[i].digest, OD_SHA256_SIZE) == 0 &&
                    rights_same(entry->rights, old->list[i].rights);

        if (same) {
            od_rights_unref(entry->rights);
            entry->rights = od_rights_ref(old->list[i].rights);
        } else {
            atomic_store(&old->list[i].rights->withdrawn, true);
            some = true;
        }
    }
    return some;
}

od_code od_tokens_reload(od_tokens *tokens, bool *withdrawn, od_error *err)
{
    token_set *fresh = NULL, *old;
    od_code rc;

    *withdrawn = false;
    pthread_mutex_lock(&tokens->reload_lock);
    rc = make_set(tokens, &fresh, err);
    if (rc == OD_OK) {
        old = tokens->set; /* changed here alone */
        *withdrawn = withdraw(old, fresh);
        pthread_mutex_lock(&tokens->lock);
        tokens->set = fresh;
        pthread_mutex_unlock(&tokens->lock);
        token_set_unref(old);
    }
    pthread_mutex_unlock(&tokens->reload_lock);
    return rc;
}

bool od_tokens_changed(od_tokens *tokens)
{
    token_file_mark now, before = tokens->seen;

    if (!tokens->file)
        return false;
    now = token_file_look(tokens->file);
    tokens->seen = now;
    return memcmp(&now, &before, sizeof now) == 0 && memcmp(&now, &tokens->read, sizeof now) != 0;
}
