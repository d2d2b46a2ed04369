/* A library with NVRTC's interface that does what words in the source tell it to, so that the
 * tool's faults can be provoked in milliseconds and without CUDA. A line "fake WORD ARGUMENT" of
 * the source is a command; they run in order:
 *
 *   crash               dies of SIGSEGV            exit N          ends the process
 *   hang                never answers              sleep MS        takes that long
 *   eat MIB             uses memory up to MIB      eat-forever     and does not stop
 *   stderr TEXT         a line on standard error   stdout TEXT     a line on standard output
 *   garbage             writes noise into every pipe that the process has
 *   close               closes every pipe and hangs
 *   open NAME           reads a file as NVRTC would: stat, then fopen
 *   raw NAME            reads it past libc, and logs how many bytes it has
 *   stat NAME           only the stat              rename A B      changes files meanwhile
 *   write NAME          tries to write one         cwd, time       what it sees of these
 *   log TEXT            a line of the program log  result N        the compile's result
 *   cubin NAME          the file's bytes are the cubin
 *   empty               no cubin                   blind           looks at no file
 *   lower SYMBOL NAME   the symbol of a name       refuse-names    takes no name
 *
 * Without a cubin of its own it makes one line of text per option. A file `fake.txt` beside the
 * library changes what it is: lines "version 11 8", "archs 90 100", "load crash" or "load hang". A
 * file `compiles.txt` there gets a line per compile: the program's name and its arch. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    OK = 0,
    INVALID_INPUT = 3,
    TEXT_MAX = 1 << 16,
};

struct program {
    char *source, *name;
    char log[TEXT_MAX];
    char *cubin;
    size_t cubin_size;
};

int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
int nvrtcCreateProgram(struct program **program, const char *source, const char *name,
                       int header_count, const char *const *headers, const char *const *names);
int nvrtcDestroyProgram(struct program **program);
int nvrtcCompileProgram(struct program *program, int count, const char *const *options);
int nvrtcAddNameExpression(struct program *program, const char *name);
int nvrtcGetLoweredName(struct program *program, const char *name, const char **symbol);
int nvrtcGetCUBINSize(struct program *program, size_t *size);
int nvrtcGetCUBIN(struct program *program, char *cubin);
int nvrtcGetLTOIRSize(struct program *program, size_t *size);
int nvrtcGetLTOIR(struct program *program, char *ir);
int nvrtcGetProgramLogSize(struct program *program, size_t *size);
int nvrtcGetProgramLog(struct program *program, char *log);
const char *nvrtcGetErrorString(int result);

/* glibc exports it for old binaries, NVRTC among them, and no longer declares it. */
int __xstat(int stat_version, const char *name, struct stat *out);

static int version[2] = {13, 0};
static int archs[16] = {75, 80, 90, 100, 120, 121};
static int arch_count = 6;

static void hang(void)
{
    for (;;)
        pause();
}

static void crash(void)
{
    /* Not a fault that a sanitizer would turn into a report of its own. */
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void read_archs(char *text)
{
    arch_count = 0;
    for (char *word = strtok(text, " \n"); word && arch_count < 16; word = strtok(NULL, " \n"))
        archs[arch_count++] = atoi(word);
}

/* The path of a file beside the library, "" when that is not known. */
static void beside(const char *name, char *path, size_t size)
{
    Dl_info info;
    path[0] = '\0';
    if (!dladdr(&version, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(path, size, "%.*s/%s", slash ? (int)(slash - info.dli_fname) : 1,
             slash ? info.dli_fname : ".", name);
}

/* By system calls: the tool watches the library's own. */
static void count_compile(const char *name, const char *arch)
{
    char path[4096], line[512];
    beside("compiles.txt", path, sizeof path);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND);
    int length = snprintf(line, sizeof line, "%s %s\n", name, arch);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

__attribute__((constructor)) static void load(void)
{
    char path[4096], line[256];
    beside("fake.txt", path, sizeof path);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strcmp(line, "load crash\n") == 0)
            crash();
        else if (strcmp(line, "load hang\n") == 0)
            hang();
        else if (strncmp(line, "archs ", 6) == 0)
            read_archs(line + 6);
        else
            sscanf(line, "version %d %d", &version[0], &version[1]);
    }
    if (file)
        fclose(file);
}

int nvrtcVersion(int *major, int *minor)
{
    *major = version[0];
    *minor = version[1];
    return OK;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = arch_count;
    return OK;
}

int nvrtcGetSupportedArchs(int *out)
{
    memcpy(out, archs, sizeof *archs * (size_t)arch_count);
    return OK;
}

int nvrtcCreateProgram(struct program **program, const char *source, const char *name,
                       int header_count, const char *const *headers, const char *const *names)
{
    if (header_count || headers || names)
        return INVALID_INPUT;
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    (*program)->name = strdup(name);
    return OK;
}

int nvrtcDestroyProgram(struct program **program)
{
    free((*program)->source);
    free((*program)->name);
    free((*program)->cubin);
    free(*program);
    *program = NULL;
    return OK;
}

static void wait_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void eat(long mib)
{
    for (long i = 0; i < mib; i++) {
        char *memory = malloc(1 << 20);
        if (!memory)
            abort();
        memset(memory, 1, 1 << 20);
        /* The compiler must not find out that nobody reads it. */
        __asm__ volatile("" : : "r"(memory) : "memory");
        if (i % 64 == 63)
            wait_ms(1);
    }
}

/* Every pipe of the process but its standard error. */
static void each_pipe(bool garbage)
{
    struct stat info;
    for (int fd = 3; fd < 64; fd++) {
        if (fstat(fd, &info) != 0 || !S_ISFIFO(info.st_mode))
            continue;
        if (!garbage)
            close(fd);
        else if (write(fd, "this is no message of yours", 27) < 0)
            continue;
    }
    if (!garbage) {
        close(1);
        close(2);
    }
}

static char *read_file(const char *name, size_t *size)
{
    FILE *file = fopen(name, "r");
    if (!file)
        return NULL;
    char *bytes = malloc(1 << 22);
    *size = bytes ? fread(bytes, 1, 1 << 22, file) : 0;
    fclose(file);
    return bytes;
}

static void open_file(struct program *program, const char *name)
{
    struct stat info;
    size_t size = 0, used = strlen(program->log);
    int found = __xstat(1, name, &info);
    char *bytes = read_file(name, &size);
    snprintf(program->log + used, sizeof program->log - used, "%s: stat %d, mtime %ld, %zu bytes\n",
             name, found, found == 0 ? (long)info.st_mtime : 0, bytes ? size : 0);
    free(bytes);
}

static void add_log(struct program *program, const char *text);

static void read_raw(struct program *program, const char *name)
{
    char text[512];
    long fd = syscall(SYS_openat, AT_FDCWD, name, O_RDONLY);
    long size = fd < 0 ? -1 : syscall(SYS_lseek, fd, 0, SEEK_END);
    if (fd >= 0)
        syscall(SYS_close, fd);
    snprintf(text, sizeof text, "%s: %ld bytes", name, size);
    add_log(program, text);
}

static void add_log(struct program *program, const char *text)
{
    size_t used = strlen(program->log);
    snprintf(program->log + used, sizeof program->log - used, "%s\n", text);
}

static void write_file(struct program *program, const char *name)
{
    char text[512];
    FILE *file = fopen(name, "w");
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    snprintf(text, sizeof text, "%s: fopen %d, open %d", name, file != NULL, fd);
    add_log(program, text);
}

static void rename_file(const char *names)
{
    char from[256], to[256];
    if (sscanf(names, "%255s %255s", from, to) == 2)
        rename(from, to);
}

static int run(struct program *program, const char *word, const char *argument, int result)
{
    char buffer[512];
    if (strcmp(word, "crash") == 0)
        crash();
    else if (strcmp(word, "exit") == 0)
        _exit(atoi(argument));
    else if (strcmp(word, "hang") == 0)
        hang();
    else if (strcmp(word, "sleep") == 0)
        wait_ms(atol(argument));
    else if (strcmp(word, "eat") == 0)
        eat(atol(argument));
    else if (strcmp(word, "eat-forever") == 0)
        eat(1L << 40);
    else if (strcmp(word, "stderr") == 0)
        fprintf(stderr, "%s\n", argument);
    else if (strcmp(word, "stdout") == 0)
        printf("%s\n", argument), fflush(stdout);
    else if (strcmp(word, "garbage") == 0)
        each_pipe(true);
    else if (strcmp(word, "close") == 0)
        each_pipe(false), hang();
    else if (strcmp(word, "open") == 0)
        open_file(program, argument);
    else if (strcmp(word, "raw") == 0)
        read_raw(program, argument);
    else if (strcmp(word, "stat") == 0)
        __xstat(1, argument, &(struct stat){0});
    else if (strcmp(word, "rename") == 0)
        rename_file(argument);
    else if (strcmp(word, "write") == 0)
        write_file(program, argument);
    else if (strcmp(word, "cwd") == 0)
        add_log(program, getcwd(buffer, sizeof buffer) ? buffer : "none");
    else if (strcmp(word, "time") == 0)
        add_log(program, time(NULL) ? "some" : "0");
    else if (strcmp(word, "log") == 0)
        add_log(program, argument);
    else if (strcmp(word, "result") == 0)
        return atoi(argument);
    else if (strcmp(word, "cubin") == 0)
        program->cubin = read_file(argument, &program->cubin_size);
    else if (strcmp(word, "empty") == 0)
        program->cubin = malloc(1);
    else if (strcmp(word, "lower") != 0 && strcmp(word, "refuse-names") != 0 &&
             strcmp(word, "blind") != 0)
        return INVALID_INPUT;
    return result;
}

int nvrtcCompileProgram(struct program *program, int count, const char *const *options)
{
    int result = OK;
    struct stat info;
    char *copy = strdup(program->source), *rest = copy;
    count_compile(program->name, count ? options[0] + strlen("--gpu-architecture=") : "");
    /* As NVRTC begins. */
    if (!strstr(program->source, "fake blind"))
        __xstat(1, program->name, &info);
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "fake ", 5) != 0)
            continue;
        char *argument = line + 5, *word = strsep(&argument, " ");
        result = run(program, word, argument ? argument : "", result);
    }
    free(copy);
    if (program->cubin || result != OK)
        return result;
    program->cubin = calloc(1, TEXT_MAX);
    for (int i = 0; i < count; i++)
        snprintf(program->cubin + strlen(program->cubin), TEXT_MAX - strlen(program->cubin), "%s\n",
                 options[i]);
    program->cubin_size = strlen(program->cubin);
    return OK;
}

int nvrtcAddNameExpression(struct program *program, const char *name)
{
    return strstr(program->source, "fake refuse-names") || !*name ? INVALID_INPUT : OK;
}

int nvrtcGetLoweredName(struct program *program, const char *name, const char **symbol)
{
    static char found[256];
    for (const char *line = program->source; line; line = strchr(line, '\n')) {
        int end = 0;
        line += *line == '\n';
        if (sscanf(line, "fake lower %255s %n", found, &end) == 1 && end &&
            strncmp(line + end, name, strlen(name)) == 0 && line[end + (int)strlen(name)] == '\n') {
            *symbol = found;
            return OK;
        }
        if (!*line)
            break;
    }
    return INVALID_INPUT;
}

int nvrtcGetCUBINSize(struct program *program, size_t *size)
{
    *size = program->cubin_size;
    return OK;
}

int nvrtcGetCUBIN(struct program *program, char *cubin)
{
    memcpy(cubin, program->cubin, program->cubin_size);
    return OK;
}

int nvrtcGetLTOIRSize(struct program *program, size_t *size)
{
    return nvrtcGetCUBINSize(program, size);
}

int nvrtcGetLTOIR(struct program *program, char *ir)
{
    return nvrtcGetCUBIN(program, ir);
}

int nvrtcGetProgramLogSize(struct program *program, size_t *size)
{
    *size = strlen(program->log) + 1;
    return OK;
}

int nvrtcGetProgramLog(struct program *program, char *log)
{
    strcpy(log, program->log);
    return OK;
}

const char *nvrtcGetErrorString(int result)
{
    return result == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER";
}
