/* The entries of a folder at the time when it was opened, in the form that the kernel reads them. */
#ifndef OD_FUSE_LISTING_H
#define OD_FUSE_LISTING_H

#include "fuse/mount.h"
#include "fuse/operations.h"

typedef struct listing listing;

/* Those of the folder N. REQ is borrowed for the call. */
od_storage_code listing_make(mount *m, node n, fuse_req_t req, listing **out, od_storage_error *err);
/* Answers REQ with up to SIZE bytes of whole entries from OFFSET, which is 0 or what an entry before says. */
void listing_reply(listing *l, fuse_req_t req, off_t offset, size_t size);
void listing_free(listing *l);

#endif
