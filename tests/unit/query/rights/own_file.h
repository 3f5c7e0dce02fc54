/* A file of a test's own, for setup and teardown of a group. */
#ifndef OD_TEST_RIGHTS_OWN_FILE_H
#define OD_TEST_RIGHTS_OWN_FILE_H

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/od-tokens-XXXXXX";

static inline int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static inline int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

#endif
