/* storage/segment.h: the append-only file of a layer. docs/formats/segment.md is its specification.
 *
 * Bytes that come back from a file are foreign: everything here is checked against its checksum and its bounds before it is used.
 * A failed check is OD_E_CORRUPT with the layer and the position in its text. All of it may be called from any thread. */
#ifndef OD_STORAGE_SEGMENT_H
#define OD_STORAGE_SEGMENT_H

#include "base/buf.h"
#include "base/uuid.h"
#include "storage/io.h"

#define OD_SEGMENT_HEADER_SIZE 128
#define OD_RECORD_HEADER_SIZE 64
#define OD_RECORD_MAX (256U << 10) /* bytes of payload */
#define OD_FILE_NAME_MAX 255       /* bytes of a logical file's name */
#define OD_FOOTER_TRAILER_SIZE 128 /* at the end of a sealed segment */
#define OD_SEGMENT_HASH_SIZE 16

/* What the header says. SALT is random, so that no bytes that a user stores can pass for a record. */
typedef struct {
    od_uuid volume;
    od_uuid layer;
    od_uuid parent; /* all zero: none */
    uint64_t epoch;
    uint64_t salt;
} od_segment;

typedef enum {
    OD_RECORD_DATA = 1, /* payload: the bytes at OFFSET of FILE */
    OD_RECORD_CREATE,   /* payload: the name of the new FILE */
    OD_RECORD_TRUNCATE, /* OFFSET is the new size of FILE */
    OD_RECORD_RENAME,   /* payload: the new name of FILE; another file of that name is removed */
    OD_RECORD_REMOVE,   /* of FILE */
    OD_RECORD_SYNC,     /* all records before are meant to be on stable storage together */
} od_record_kind;

typedef struct {
    uint64_t sequence; /* 1, 2, 3, ... within its segment */
    uint64_t file;
    uint64_t offset;
    uint64_t durable; /* the segment was known to be on stable storage up to here when this was written */
    uint32_t length;  /* of the payload */
    od_record_kind kind;
    uint64_t payload_sum; /* set by od_record_encode and od_record_decode */
} od_record;

void od_segment_encode(const od_segment *segment, uint8_t out[OD_SEGMENT_HEADER_SIZE]);
/* Reads the header of FILE. */
OD_MUST_CHECK od_code od_segment_read(const od_io *io, void *file, od_segment *out, od_error *err);

/* Writes the header of RECORD, which stands at POSITION, and sets its payload_sum. */
void od_record_encode(const od_segment *segment, uint64_t position, od_record *record, const void *payload,
                      uint8_t out[OD_RECORD_HEADER_SIZE]);
/* Whether the bytes are a whole header that was written for this position of this segment. */
bool od_record_decode(const od_segment *segment, uint64_t position, const uint8_t in[OD_RECORD_HEADER_SIZE],
                      od_record *out);
bool od_record_payload_ok(const od_segment *segment, uint64_t position, const od_record *record, const void *payload);

/* What is wanted of the data record at POSITION, whose payload has PAYLOAD bytes: LENGTH of them, behind the first SKIP. They are the bytes
 * at OFFSET of FILE. */
typedef struct {
    uint64_t position;
    uint64_t file;
    uint64_t offset;
    uint32_t payload;
    uint32_t skip;
    uint32_t length;
} od_record_part;

/* The whole record is read and checked; OUT is undefined on failure. */
OD_MUST_CHECK od_code od_record_read(const od_io *io, void *file, const od_segment *segment, const od_record_part *part,
                                     void *out, od_error *err);

/* Called for each whole record in order; PAYLOAD is borrowed for the call. What it returns ends the scan if it is not OD_OK. */
typedef od_code (*od_record_fn)(void *arg, uint64_t position, const od_record *record, const void *payload,
                                od_error *err);

typedef struct {
    uint64_t end;                       /* of the last whole record */
    uint64_t synced;                    /* of the last sync mark among them; the header's size if there is none */
    uint64_t sequence;                  /* of the last whole record */
    uint64_t durable;                   /* the largest that a record claims, behind the first that is not whole, too */
    uint8_t hash[OD_SEGMENT_HASH_SIZE]; /* of the content up to END */
} od_scan;

/* Walks the records up to LIMIT (not behind the end of the file). The first that is not whole ends the walk; then the
 * rest up to LIMIT is searched for records that claim that more was on stable storage. */
OD_MUST_CHECK od_code od_segment_scan(const od_io *io, void *file, const od_segment *segment, uint64_t limit,
                                      od_record_fn fn, void *arg, od_scan *out, od_error *err);
/* The same for what a writer left that has died, up to the end of the file: what lies behind OUT->end was never
 * acknowledged, and is to be cut.
 *   OD_E_CORRUPT   a record that was on stable storage is not whole */
OD_MUST_CHECK od_code od_segment_recover(const od_io *io, void *file, const od_segment *segment, od_record_fn fn,
                                         void *arg, od_scan *out, od_error *err);

/* OD_E_CORRUPT, with layer and position. */
od_code od_segment_corrupt(const od_segment *segment, uint64_t position, const char *what, od_error *err);

/* What a sealed segment says of itself. */
typedef struct {
    uint64_t id;
    uint64_t size;
    uint64_t floor; /* bytes of the layers below at or behind this are gone */
    char name[OD_FILE_NAME_MAX + 1];
} od_footer_file;

typedef struct {
    uint64_t file;
    uint64_t offset;
    uint64_t position;
    uint32_t length;
    uint32_t skip;
    uint32_t record; /* bytes of the record's payload */
} od_footer_extent;

typedef struct {
    uint64_t sequence;     /* of the last record */
    uint64_t next_file;    /* no file has had this id or a larger one */
    od_footer_file *files; /* all that exist when it was sealed, by id */
    size_t file_count;
    od_footer_extent *extents; /* of this segment, by file and offset, without overlaps */
    size_t extent_count;
    uint8_t hash[OD_SEGMENT_HASH_SIZE]; /* of the content */
} od_footer;

/* The content hash is a chain over the segment's header and the headers of its records, which hold the sums of the payloads. */
void od_segment_hash_begin(const od_segment *segment, uint8_t hash[OD_SEGMENT_HASH_SIZE]);
void od_segment_hash_add(uint8_t hash[OD_SEGMENT_HASH_SIZE], const uint8_t header[OD_RECORD_HEADER_SIZE]);

/* Appends to OUT the footer of a segment whose records end at POSITION. */
OD_MUST_CHECK od_code od_footer_encode(const od_segment *segment, uint64_t position, const od_footer *footer,
                                       od_buf *out, od_error *err);
/* Reads the footer of the sealed segment that is LENGTH bytes long; *records is where its records end. FILE begins with byte BASE of
 * the segment: 0, or where the records end if the footer is a file of its own. */
OD_MUST_CHECK od_code od_footer_read(const od_io *io, void *file, const od_segment *segment, uint64_t base,
                                     uint64_t length, od_footer *out, uint64_t *records, od_error *err);
/* The bytes of a segment that holds nothing but what FOOTER tells of. */
uint64_t od_footer_live(const od_footer *footer);
void od_footer_release(od_footer *footer); /* of what od_footer_read gave */

#endif
