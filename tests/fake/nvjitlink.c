/* A library with nvJitLink's interface that does what the linked text tells it to, line by line:
 *
 *   link crash          dies of SIGSEGV     link hang     never answers
 *   link error TEXT     fails with that log link refuse   takes no data
 *   link mute           fails without a log link empty    links to nothing
 *   link cubin NAME     the file's bytes are the cubin
 *   link info TEXT      a line of the information log
 *
 * A fake NVRTC's "fake cubin NAME" is what it compiled for linking too: the file NAME holds these
 * lines. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct link {
    char text[4096], error[4096], info[4096];
    char *cubin;
    size_t cubin_size;
};

int nvJitLinkCreate(struct link **link, unsigned count, const char **options);
int nvJitLinkDestroy(struct link **link);
int nvJitLinkAddData(struct link *link, int type, const void *bytes, size_t size, const char *name);
int nvJitLinkComplete(struct link *link);
int nvJitLinkGetLinkedCubinSize(struct link *link, size_t *size);
int nvJitLinkGetLinkedCubin(struct link *link, void *bytes);
int nvJitLinkGetLinkedPtxSize(struct link *link, size_t *size);
int nvJitLinkGetLinkedPtx(struct link *link, char *bytes);
int nvJitLinkGetErrorLogSize(struct link *link, size_t *size);
int nvJitLinkGetErrorLog(struct link *link, char *bytes);
int nvJitLinkGetInfoLogSize(struct link *link, size_t *size);
int nvJitLinkGetInfoLog(struct link *link, char *bytes);

enum {
    OK = 0,
    REFUSED = 4,
    FAILED = 6,
    LTOIR = 3,
};

int nvJitLinkCreate(struct link **link, unsigned count, const char **options)
{
    if (count < 2 || strncmp(options[0], "-arch=sm_", 9) != 0 || strcmp(options[1], "-lto") != 0)
        return REFUSED;
    *link = calloc(1, sizeof **link);
    return *link ? OK : FAILED;
}

int nvJitLinkDestroy(struct link **link)
{
    free((*link)->cubin);
    free(*link);
    *link = NULL;
    return OK;
}

int nvJitLinkAddData(struct link *link, int type, const void *bytes, size_t size, const char *name)
{
    if (type != LTOIR || !name || size >= sizeof link->text)
        return REFUSED;
    memcpy(link->text, bytes, size);
    return strstr(link->text, "link refuse") ? REFUSED : OK;
}

static void read_cubin(struct link *link, const char *name)
{
    FILE *file = fopen(name, "r");
    link->cubin = calloc(1, 1 << 20);
    link->cubin_size = file && link->cubin ? fread(link->cubin, 1, 1 << 20, file) : 0;
    if (file)
        fclose(file);
}

static int obey(struct link *link, const char *word, const char *argument)
{
    if (strcmp(word, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    } else if (strcmp(word, "hang") == 0) {
        for (;;)
            pause();
    } else if (strcmp(word, "error") == 0) {
        snprintf(link->error, sizeof link->error, "%s\n", argument);
        return FAILED;
    } else if (strcmp(word, "mute") == 0) {
        return FAILED;
    } else if (strcmp(word, "empty") == 0) {
        link->cubin = calloc(1, 1);
    } else if (strcmp(word, "cubin") == 0) {
        read_cubin(link, argument);
    } else if (strcmp(word, "info") == 0) {
        snprintf(link->info, sizeof link->info, "%s\n", argument);
    }
    return OK;
}

int nvJitLinkComplete(struct link *link)
{
    char *rest = link->text;
    int result = OK;
    for (char *line; result == OK && (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "link ", 5) != 0)
            continue;
        char *argument = line + 5, *word = strsep(&argument, " ");
        result = obey(link, word, argument ? argument : "");
    }
    if (result == OK && !link->cubin) {
        link->cubin = strdup("nothing");
        link->cubin_size = strlen("nothing");
    }
    return result;
}

int nvJitLinkGetLinkedCubinSize(struct link *link, size_t *size)
{
    *size = link->cubin_size;
    return OK;
}

int nvJitLinkGetLinkedCubin(struct link *link, void *bytes)
{
    memcpy(bytes, link->cubin, link->cubin_size);
    return OK;
}

int nvJitLinkGetLinkedPtxSize(struct link *link, size_t *size)
{
    *size = link->cubin_size;
    return OK;
}

int nvJitLinkGetLinkedPtx(struct link *link, char *bytes)
{
    return nvJitLinkGetLinkedCubin(link, bytes);
}

int nvJitLinkGetErrorLogSize(struct link *link, size_t *size)
{
    *size = strlen(link->error) + 1;
    return OK;
}

int nvJitLinkGetErrorLog(struct link *link, char *bytes)
{
    strcpy(bytes, link->error);
    return OK;
}

int nvJitLinkGetInfoLogSize(struct link *link, size_t *size)
{
    *size = strlen(link->info) + 1;
    return OK;
}

int nvJitLinkGetInfoLog(struct link *link, char *bytes)
{
    strcpy(bytes, link->info);
    return OK;
}
