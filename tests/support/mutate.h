/* Recorded bytes, changed in many ways. */
#ifndef OD_TESTS_MUTATE_H
#define OD_TESTS_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* Gives ATTEMPT as many changed files of FOLDER as the environment's VARIABLE says, or OTHERWISE; each ends where its memory ends. The same
 * ones each time. Returns how many files there are. */
size_t mutate_files(const char *folder, const char *variable, long otherwise,
                    int (*attempt)(const uint8_t *data, size_t size));

#endif
