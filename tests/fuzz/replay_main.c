/* Replays a fuzz corpus without a fuzzer: runs LLVMFuzzerTestOneInput on every file named, and on
 * every file of every folder named, in order of name. An empty corpus still runs the empty input. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t files_run;

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    size_t size = 0;
    long end;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (end = ftell(f)) < 0) {
        fprintf(stderr, "replay: cannot read '%s': %s\n", path, strerror(errno));
        if (f != NULL)
            (void)fclose(f);
        return 1;
    }
    rewind(f);
    size = (size_t)end;
    /* Exactly as large as the input, so that a sanitizer sees the first byte read beyond it. */
    data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, f) != size) {
        fprintf(stderr, "replay: short read of '%s'\n", path);
        free(data);
        (void)fclose(f);
        return 1;
    }
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    files_run++;
    return 0;
}

static int replay(const char *path)
{
    struct stat st;
    struct dirent **names = NULL;
    int count;
    int failed = 0;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "replay: '%s': %s\n", path, strerror(errno));
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path);
    count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char child[4096];
        int len = snprintf(child, sizeof(child), "%s/%s", path, names[i]->d_name);

        if (names[i]->d_name[0] != '.' && len > 0 && (size_t)len < sizeof(child))
            failed |= replay(child);
        free(names[i]);
    }
    free((void *)names);
    return failed | (count < 0);
}

int main(int argc, char **argv)
{
    static const uint8_t nothing[1];
    int failed = 0;

    (void)LLVMFuzzerTestOneInput(nothing, 0);
    for (int i = 1; i < argc; i++)
        failed |= replay(argv[i]);
    printf("replayed %zu inputs\n", files_run);
    return failed;
}
