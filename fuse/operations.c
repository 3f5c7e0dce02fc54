#include "fuse/operations.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "fuse/listing.h"
#include "fuse/mount.h"
#include "base/banned.h"

/* All changes come through the kernel, which so knows the files better than we do; snapshots come and go by others, too. */
static const double file_timeout = 3600, folder_timeout = 1;

static mount *mount_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

/* ---- Errors ---- */

static int errno_of(od_storage_code code)
{
    switch (code) {
    case OD_STORAGE_OK:
        return 0;
    case OD_STORAGE_NOT_FOUND:
        return ENOENT;
    case OD_STORAGE_EXISTS:
        return EEXIST;
    case OD_STORAGE_INVALID:
        return EINVAL;
    case OD_STORAGE_READ_ONLY:
        return EROFS;
    case OD_STORAGE_STALE_LEASE:
        return ESTALE;
    case OD_STORAGE_NO_MEMORY:
        return ENOMEM;
    case OD_STORAGE_LEASED:
    case OD_STORAGE_IN_USE:
        return EBUSY;
    default:
        return EIO;
    }
}

/* A program is told a number: the rest is in the log. */
static int fail(const char *what, od_storage_code code, const od_storage_error *err)
{
    char quoted[OD_ERROR_MESSAGE_SIZE];

    if (code != OD_STORAGE_OK && code != OD_STORAGE_NOT_FOUND && code != OD_STORAGE_EXISTS)
        od_log(OD_LOG_ERROR, "fuse", "an operation failed", "operation=%s error=%s", what,
               od_log_quote(err->message, quoted, sizeof quoted));
    return errno_of(code);
}

/* The same of a file that was found before: another has its name now. */
static int fail_open(const char *what, od_storage_code code, const od_storage_error *err)
{
    return code == OD_STORAGE_NOT_FOUND ? ESTALE : fail(what, code, err);
}

/* ---- Attributes and names ---- */

static int fill(mount *m, node n, struct stat *st)
{
    od_storage_error err;
    od_storage_code rc;
    od_volume *volume;
    uint64_t size;
    bool writable = n.place == 0 && !m->read_only;

    *st = (struct stat){
        .st_ino = node_inode(n), .st_uid = m->uid, .st_gid = m->gid, .st_nlink = 1, .st_blksize = 1 << 18};
    st->st_mtime = st->st_ctime = st->st_atime = place_changed(m, n.place);
    if (n.kind == NODE_SCRATCH) {
        st->st_mode = S_IFLNK | 0777;
        return 0;
    }
    if (n.kind != NODE_FILE) {
        st->st_mode = S_IFDIR | (n.kind == NODE_FOLDER && writable ? 0700 : 0500);
        st->st_nlink = 2;
        return 0;
    }
    rc = place_enter(m, n.place, &volume, &err);
    if (rc != OD_STORAGE_OK)
        return fail("getattr", rc, &err);
    rc = od_volume_size(volume, n.file, &size, &err);
    place_leave(m, n.place);
    if (rc != OD_STORAGE_OK)
        return fail("getattr", rc, &err);
    st->st_mode = S_IFREG | (writable ? 0600 : 0400);
    st->st_size = (off_t)size;
    st->st_blocks = (blkcnt_t)((size + 511) / 512);
    return 0;
}

static double timeout_of(node n)
{
    return n.kind == NODE_FILE ? file_timeout : folder_timeout;
}

static void reply_entry(fuse_req_t req, node n)
{
    struct fuse_entry_param entry = {
        .ino = node_inode(n), .attr_timeout = timeout_of(n), .entry_timeout = timeout_of(n)};
    int rc = fill(mount_of(req), n, &entry.attr);

    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_entry(req, &entry);
}

/* The file NAME of a place, or the folder outside for "FILE.tmp". */
static od_storage_code find(mount *m, size_t number, const char *name, node *out, od_storage_error *err)
{
    size_t len = strlen(name);
    char stem[OD_STORAGE_NAME_MAX + 1], path[4096];
    od_volume *volume;
    od_storage_code rc;

    if (name_is_hidden(name))
        return OD_STORAGE_NOT_FOUND;
    *out = (node){.kind = NODE_FILE, .place = number};
    rc = place_enter(m, number, &volume, err);
    if (rc != OD_STORAGE_OK)
        return rc;
    rc = od_volume_find(volume, name, &out->file, err);
    if (rc == OD_STORAGE_NOT_FOUND && len > 4 && len < sizeof stem && strcmp(name + len - 4, ".tmp") == 0) {
        snprintf(stem, sizeof stem, "%.*s", (int)(len - 4), name);
        out->kind = NODE_SCRATCH;
        rc = od_volume_find(volume, stem, &out->file, err);
        place_scratch(m, *out, path, sizeof path);
        if (rc == OD_STORAGE_OK && mkdir(path, 0700) != 0 && errno != EEXIST)
            rc = OD_STORAGE_NOT_FOUND; /* DuckDB then tries to make one, and is told that it cannot */
    }
    place_leave(m, number);
    return rc;
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    mount *m = mount_of(req);
    node at = node_of(parent), n = {.kind = NODE_SNAPSHOTS};
    od_storage_code rc = OD_STORAGE_NOT_FOUND;
    od_storage_error err;

    if (strlen(name) > OD_STORAGE_NAME_MAX) { /* the kernel asks here first, whatever it wants of a name */
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    if (at.kind == NODE_SNAPSHOTS) {
        n.kind = NODE_FOLDER;
        rc = place_find(m, name, &n.place, &err);
    } else if (at.kind == NODE_FOLDER && at.place == 0 && strcmp(name, FOLDER_OF_SNAPSHOTS) == 0) {
        rc = OD_STORAGE_OK;
    } else if (at.kind == NODE_FOLDER) {
        rc = find(m, at.place, name, &n, &err);
    }
    if (rc == OD_STORAGE_OK)
        reply_entry(req, n);
    else
        fuse_reply_err(req, fail("lookup", rc, &err));
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    node n = node_of(ino);
    struct stat st;
    int rc = fill(mount_of(req), n, &st);

    (void)fi;
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_attr(req, &st, timeout_of(n));
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
    node n = node_of(ino);
    char path[4096];

    if (n.kind != NODE_SCRATCH) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    place_scratch(mount_of(req), n, path, sizeof path);
    fuse_reply_readlink(req, path);
}

/* ---- Changes ---- */

static od_volume *tip(mount *m)
{
    return m->places[0]->volume;
}

/* Why what is at INO cannot be changed; 0: it can. */
static int refusal(mount *m, fuse_ino_t ino)
{
    node n = node_of(ino);

    if (n.place != 0 || m->read_only)
        return EROFS;
    return n.kind == NODE_FOLDER || n.kind == NODE_FILE ? 0 : EPERM;
}

static void changed(mount *m)
{
    atomic_store(&m->changed, time(NULL));
}

/* DuckDB has written a checkpoint when its log NAME has gone, or is begun anew. */
static void checkpointed(mount *m, const char *name)
{
    char id[OD_STORAGE_ID_SIZE];
    size_t len = strlen(name);
    od_storage_error err;
    od_storage_code rc;

    if (!m->seal_on_checkpoint || len < 4 || strcmp(name + len - 4, ".wal") != 0)
        return;
    rc = od_volume_seal(tip(m), id, &err);
    if (rc == OD_STORAGE_OK)
        od_log(OD_LOG_INFO, "fuse", "sealed", "snapshot=%s", id);
    else
        (void)fail("seal", rc, &err);
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    int rc = refusal(m, ino);
    od_storage_error err;

    if (rc == 0 && to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        rc = EPERM;
    if (rc == 0 && to_set & FUSE_SET_ATTR_SIZE) {
        rc = fail("truncate", od_volume_truncate(tip(m), node_of(ino).file, (uint64_t)attr->st_size, &err), &err);
        changed(m);
    }
    /* Times are not kept: they are those of the last change. */
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        do_getattr(req, ino, fi);
}

/* Whether to open INO as FLAGS ask. */
static int open_refusal(mount *m, fuse_ino_t ino, int flags)
{
    return (flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC) ? 0 : refusal(m, ino);
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    node n = node_of(ino);
    od_storage_error err;
    od_volume *volume;
    int rc = open_refusal(m, ino, fi->flags);

    if (rc == 0 && fi->flags & O_TRUNC) {
        rc = fail_open("truncate", od_volume_truncate(tip(m), n.file, 0, &err), &err);
        changed(m);
    }
    /* A place is entered for as long as a file of it is open. */
    if (rc == 0)
        rc = fail("open", place_enter(m, n.place, &volume, &err), &err);
    if (rc == 0 && n.place == 0 && !opened_add(m, n.file)) {
        place_leave(m, n.place);
        rc = ENOMEM;
    }
    fi->keep_cache = 1;
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_open(req, fi);
}

static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    node n = node_of(ino);
    od_storage_error err;

    (void)fi;
    if (n.place == 0 && opened_drop(m, n.file))
        (void)fail("remove", od_volume_remove(tip(m), n.file, &err), &err);
    place_leave(m, n.place);
    fuse_reply_err(req, 0);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    struct fuse_entry_param entry = {.attr_timeout = file_timeout, .entry_timeout = file_timeout};
    node n = {.kind = NODE_FILE};
    int rc = refusal(m, parent);
    od_storage_error err;
    od_volume *volume;

    (void)mode;
    if (rc == 0 && (name_is_hidden(name) || strcmp(name, FOLDER_OF_SNAPSHOTS) == 0))
        rc = EPERM;
    if (rc == 0)
        rc = fail("create", place_enter(m, 0, &volume, &err), &err);
    if (rc != 0) {
        fuse_reply_err(req, rc);
        return;
    }
    rc = fail("create", od_volume_create(volume, name, &n.file, &err), &err);
    changed(m);
    if (rc == 0)
        rc = fill(m, n, &entry.attr);
    if (rc == 0 && !opened_add(m, n.file))
        rc = ENOMEM;
    entry.ino = node_inode(n);
    if (rc != 0) {
        place_leave(m, 0);
        fuse_reply_err(req, rc);
    } else {
        fuse_reply_create(req, &entry, fi);
    }
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    mount *m = mount_of(req);
    char hidden[64];
    od_storage_error err;
    od_storage_code code;
    node n;
    int rc = refusal(m, parent);

    if (rc != 0) {
        fuse_reply_err(req, rc);
        return;
    }
    code = find(m, 0, name, &n, &err);
    if (code == OD_STORAGE_OK && n.kind != NODE_FILE) {
        fuse_reply_err(req, EPERM);
        return;
    }
    if (code == OD_STORAGE_OK && opened_has(m, n.file)) {
        snprintf(hidden, sizeof hidden, REMOVED_PREFIX "%llu", (unsigned long long)n.file);
        code = od_volume_rename(tip(m), n.file, hidden, &err);
    }
    /* Closed by now, it goes as if it had never been open. */
    if (code == OD_STORAGE_OK && !opened_doom(m, n.file))
        code = od_volume_remove(tip(m), n.file, &err);
    changed(m);
    if (code == OD_STORAGE_OK)
        checkpointed(m, name);
    fuse_reply_err(req, fail("unlink", code, &err));
}

/* A file that is replaced while it is open is gone for those who have it, as over NFS: so the step is one. */
static void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
                      unsigned flags)
{
    mount *m = mount_of(req);
    node n, target;
    od_storage_error err;
    od_storage_code code;
    int rc = refusal(m, parent);

    if (rc == 0)
        rc = refusal(m, newparent);
    if (rc == 0 && (flags & ~(unsigned)RENAME_NOREPLACE))
        rc = EINVAL;
    if (rc == 0 && (name_is_hidden(newname) || strcmp(newname, FOLDER_OF_SNAPSHOTS) == 0))
        rc = EPERM;
    if (rc == 0)
        rc = fail("rename", find(m, 0, name, &n, &err), &err);
    if (rc == 0 && n.kind != NODE_FILE)
        rc = EPERM;
    if (rc == 0 && flags & RENAME_NOREPLACE) {
        code = find(m, 0, newname, &target, &err);
        rc = code == OD_STORAGE_OK ? EEXIST : code == OD_STORAGE_NOT_FOUND ? 0 : fail("rename", code, &err);
    }
    if (rc == 0) {
        rc = fail("rename", od_volume_rename(tip(m), n.file, newname, &err), &err);
        changed(m);
    }
    if (rc == 0)
        checkpointed(m, newname);
    fuse_reply_err(req, rc);
}

/* There are files only, in the one folder. */
static void refuse(fuse_req_t req, fuse_ino_t parent)
{
    fuse_reply_err(req, node_of(parent).place == 0 && !mount_of(req)->read_only ? EPERM : EROFS);
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    (void)name;
    (void)mode;
    refuse(req, parent);
}

static void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    (void)name;
    (void)mode;
    (void)device;
    refuse(req, parent);
}

static void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    (void)target;
    (void)name;
    refuse(req, parent);
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    (void)ino;
    (void)name;
    refuse(req, parent);
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    (void)name;
    refuse(req, parent);
}

/* ---- Bytes ---- */

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    node n = node_of(ino);
    char *buf = od_alloc(size);
    od_storage_error err;
    od_volume *volume;
    size_t got = 0;
    int rc;

    (void)fi;
    if (!buf) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    rc = fail("read", place_enter(m, n.place, &volume, &err), &err);
    if (rc == 0) {
        rc = fail_open("read", od_volume_read(volume, n.file, (uint64_t)off, buf, size, &got, &err), &err);
        place_leave(m, n.place);
    }
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_buf(req, buf, got);
    od_free(buf);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    od_storage_error err;
    int rc = refusal(m, ino);

    (void)fi;
    if (rc == 0) {
        rc = fail_open("write", od_volume_write(tip(m), node_of(ino).file, (uint64_t)off, buf, size, &err), &err);
        changed(m);
    }
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_write(req, size);
}

/* Of a folder, too: a sync is of all files. */
static void do_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    mount *m = mount_of(req);
    od_storage_error err;

    (void)datasync;
    (void)fi;
    if (refusal(m, ino) != 0)
        fuse_reply_err(req, 0); /* nothing of it can have been written */
    else
        fuse_reply_err(req, fail("fsync", od_volume_sync(tip(m), &err), &err));
}

/* ---- Folders ---- */

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    od_storage_error err;
    listing *l;
    int rc = fail("opendir", listing_make(mount_of(req), node_of(ino), req, &l, &err), &err);

    if (rc != 0) {
        fuse_reply_err(req, rc);
        return;
    }
    fi->fh = (uint64_t)(uintptr_t)l;
    fuse_reply_open(req, fi);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)ino;
    listing_reply((listing *)(uintptr_t)fi->fh, req, off, size);
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    listing_free((listing *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs st;

    (void)ino;
    if (statvfs(mount_of(req)->directory, &st) != 0) {
        fuse_reply_err(req, errno);
        return;
    }
    st.f_namemax = OD_STORAGE_NAME_MAX;
    fuse_reply_statfs(req, &st);
}

static void do_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi, unsigned flags,
                     const void *in, size_t in_size, size_t out_size)
{
    mount *m = mount_of(req);
    char id[OD_STORAGE_ID_SIZE] = "";
    od_storage_error err;
    int rc = refusal(m, ino);

    (void)arg;
    (void)fi;
    (void)flags;
    (void)in;
    (void)in_size;
    if (cmd != OPENDUCK_SEAL || out_size < sizeof id)
        rc = ENOTTY;
    if (rc == 0)
        rc = fail("seal", od_volume_seal(tip(m), id, &err), &err);
    if (rc != 0)
        fuse_reply_err(req, rc);
    else
        fuse_reply_ioctl(req, 0, id, sizeof id);
}

const struct fuse_lowlevel_ops fuse_operations = {
    .lookup = do_lookup,
    .getattr = do_getattr,
    .setattr = do_setattr,
    .readlink = do_readlink,
    .mkdir = do_mkdir,
    .mknod = do_mknod,
    .symlink = do_symlink,
    .link = do_link,
    .rmdir = do_rmdir,
    .unlink = do_unlink,
    .rename = do_rename,
    .open = do_open,
    .read = do_read,
    .write = do_write,
    .release = do_release,
    .fsync = do_fsync,
    .opendir = do_opendir,
    .readdir = do_readdir,
    .releasedir = do_releasedir,
    .fsyncdir = do_fsync,
    .statfs = do_statfs,
    .create = do_create,
    .ioctl = do_ioctl,
};
