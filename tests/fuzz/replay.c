/* Feeds every file of the folders named to a fuzz target, as one TAP test each folder. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)info.st_size;
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        perror(path);
        return 1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 0;
}

static int run_folder(const char *folder, unsigned *count)
{
    DIR *listing = opendir(folder);
    if (listing == NULL) {
        perror(folder);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        failed |= run_file(path);
        (*count)++;
    }
    closedir(listing);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        unsigned count = 0;
        int bad = run_folder(argv[i], &count) != 0 || count == 0;
        printf("%s %d - %u inputs of %s\n", bad ? "not ok" : "ok", i, count, argv[i]);
        failed |= bad;
    }
    return failed;
}
