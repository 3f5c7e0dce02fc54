/* The files of src/query/console/page, by scripts/embed_page.py. */
#ifndef OD_QUERY_CONSOLE_PAGE_H
#define OD_QUERY_CONSOLE_PAGE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *path; /* "/console.js" */
    const char *content_type;
    const uint8_t *data;
    size_t len;
} page_file;

extern const page_file page_files[];
enum { PAGE_FILES = 5 }; /* how many there are */

#endif
