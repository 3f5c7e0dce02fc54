#include "support/mutate.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 256 };

typedef struct {
    uint8_t *data;
    size_t size;
} recording;

static uint64_t state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void load(const char *folder, const char *name, recording *out)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (f == NULL)
        abort();
    fseek(f, 0, SEEK_END);
    out->size = (size_t)ftell(f);
    rewind(f);
    out->data = malloc(out->size);
    if (out->data == NULL || fread(out->data, 1, out->size, f) != out->size)
        abort();
    fclose(f);
}

/* Some bytes or words, a cut, or a part in another's place. */
static size_t change(uint8_t *data, size_t size)
{
    static const uint32_t words[] = {0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffff8};
    size_t times = 1 + draw(4);

    for (size_t i = 0; i < times; i++) {
        size_t at = draw(size);
        uint32_t word = words[draw(sizeof words / sizeof words[0])];

        switch (draw(5)) {
        case 0:
            data[at] = (uint8_t)draw(256);
            break;
        case 1:
            data[at] ^= (uint8_t)(1u << draw(8));
            break;
        case 2:
            at &= ~(size_t)3;
            if (at + 4 <= size)
                memcpy(data + at, &word, 4);
            break;
        case 3: {
            size_t from = draw(size), len = 1 + draw(64);

            if (from + len <= size && at + len <= size)
                memmove(data + at, data + from, len);
            break;
        }
        default:
            if (draw(4) == 0)
                size = 1 + draw(size);
            break;
        }
    }
    return size;
}

static size_t load_all(const char *folder, recording *out)
{
    struct dirent *entry;
    size_t count = 0;
    DIR *dir = opendir(folder);

    if (dir == NULL)
        abort();
    while ((entry = readdir(dir)) != NULL && count < FILES)
        if (entry->d_name[0] != '.')
            load(folder, entry->d_name, &out[count++]);
    closedir(dir);
    return count;
}

size_t mutate_files(const char *folder, const char *variable, long otherwise,
                    int (*attempt)(const uint8_t *data, size_t size))
{
    const char *text = getenv(variable);
    long n = text != NULL ? strtol(text, NULL, 10) : otherwise;
    recording *files = calloc(FILES, sizeof *files);
    size_t count = load_all(folder, files);

    for (long i = 0; i < n && count > 0; i++) {
        const recording *from = &files[draw(count)];
        uint8_t *copy = malloc(from->size), *exact;
        size_t size;

        memcpy(copy, from->data, from->size);
        size = change(copy, from->size);
        exact = malloc(size); /* so that a sanitizer sees what is read beyond it */
        memcpy(exact, copy, size);
        free(copy);
        (void)attempt(exact, size);
        free(exact);
    }
    for (size_t i = 0; i < count; i++)
        free(files[i].data);
    free(files);
    return count;
}
