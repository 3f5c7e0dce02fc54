#include "fuse/listing.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/banned.h"

struct listing {
    fuse_req_t req;
    node at;
    char *bytes;
    size_t len, size;
    size_t *ends; /* of the entries */
    size_t count;
    bool failed; /* memory is out */
    pthread_mutex_t replying;
};

static void add(listing *l, node n, const char *name)
{
    struct stat st = {.st_ino = node_inode(n), .st_mode = n.kind == NODE_FILE ? S_IFREG : S_IFDIR};
    size_t need = fuse_add_direntry(l->req, NULL, 0, name, NULL, 0);
    size_t *ends = od_realloc(l->ends, (l->count + 1) * sizeof *ends);
    char *bytes = l->bytes;

    if (ends)
        l->ends = ends;
    if (l->size - l->len < need) {
        bytes = od_realloc(l->bytes, 2 * l->size + need);
        if (bytes) {
            l->bytes = bytes;
            l->size = 2 * l->size + need;
        }
    }
    if (!ends || !bytes) {
        l->failed = true;
        return;
    }
    fuse_add_direntry(l->req, l->bytes + l->len, need, name, &st, (off_t)(l->len + need));
    l->len += need;
    l->ends[l->count++] = l->len;
}

static int add_file(void *arg, uint64_t file, const char *name, uint64_t size)
{
    listing *l = arg;

    (void)size;
    if (!name_is_hidden(name))
        add(l, (node){.kind = NODE_FILE, .place = l->at.place, .file = file}, name);
    return l->failed;
}

/* Its inode is known when it is looked up; until then it has its folder's, which no program minds. */
static int add_snapshot(void *arg, const od_storage_snapshot *snapshot)
{
    listing *l = arg;

    add(l, (node){.kind = NODE_SNAPSHOTS}, snapshot->id);
    return l->failed;
}

od_storage_code listing_make(mount *m, node n, fuse_req_t req, listing **out, od_storage_error *err)
{
    listing *l = od_calloc(1, sizeof *l);
    od_storage_code rc = OD_STORAGE_NO_MEMORY;
    od_volume *volume;

    if (!l)
        goto out;
    pthread_mutex_init(&l->replying, NULL);
    l->req = req;
    l->at = n;
    add(l, n, ".");
    add(l, (node){.kind = n.kind == NODE_FOLDER && n.place != 0 ? NODE_SNAPSHOTS : NODE_FOLDER}, "..");
    if (n.kind == NODE_SNAPSHOTS) {
        rc = od_store_snapshots(m->store, m->database, add_snapshot, l, err);
    } else {
        rc = place_enter(m, n.place, &volume, err);
        if (rc == OD_STORAGE_OK) {
            rc = od_volume_list(volume, add_file, l, err);
            place_leave(m, n.place);
        }
        if (n.place == 0)
            add(l, (node){.kind = NODE_SNAPSHOTS}, FOLDER_OF_SNAPSHOTS);
    }
    if (rc == OD_STORAGE_OK && l->failed)
        rc = OD_STORAGE_NO_MEMORY;
out:
    if (rc == OD_STORAGE_NO_MEMORY) {
        err->code = rc;
        snprintf(err->message, sizeof err->message, "out of memory for the entries of a folder");
    }
    if (rc != OD_STORAGE_OK)
        listing_free(l);
    else
        *out = l;
    return rc;
}

void listing_reply(listing *l, fuse_req_t req, off_t offset, size_t size)
{
    size_t from = offset < 0 || (size_t)offset > l->len ? l->len : (size_t)offset, to = from;

    for (size_t i = 0; i < l->count; i++) {
        if (l->ends[i] > to && l->ends[i] - from <= size)
            to = l->ends[i];
    }
    pthread_mutex_lock(&l->replying);
    fuse_reply_buf(req, l->bytes + from, to - from);
    pthread_mutex_unlock(&l->replying);
}

void listing_free(listing *l)
{
    if (!l)
        return;
    /* The kernel may go on with an answer, and so come here, before the call that gave it has returned. */
    pthread_mutex_lock(&l->replying);
    pthread_mutex_unlock(&l->replying);
    pthread_mutex_destroy(&l->replying);
    od_free(l->bytes);
    od_free(l->ends);
    od_free(l);
}
