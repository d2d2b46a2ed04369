#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/proc.h"
#include "compile/compile.h"
#include "compile/file_layer.h"
#include "compile/nvjitlink.h"
#include "compile/nvrtc.h"
#include "compile/scan.h"
#include "compile/wire.h"
#include "compile/worker.h"

/* The last LTO-IR and all that its compile gave: the units of a split module differ in what is
 * linked of it only. */
struct kept {
    struct str key, ir, log; /* owned; key empty: nothing is kept */
    struct layer_log files;
    enum compile_inputs inputs;
    const char **symbols;
    struct arena arena; /* owns the symbols */
};

struct worker {
    int in, out;
    struct str received;
    struct arena arena; /* what lives as long as the worker */
    struct nvrtc nvrtc;
    bool ready;
    const char **cuda_folders;
    size_t cuda_folder_count;
    const char *nvjitlink_path;
    struct nvjitlink nvjitlink; /* opened by the first job that links */
    struct kept kept;
};

static bool send_all(int fd, const struct str *bytes)
{
    for (size_t at = 0; at < bytes->len;) {
        ssize_t done = write(fd, bytes->data + at, bytes->len - at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += (size_t)done;
    }
    return true;
}

/* NVRTC's text goes to the log of the unit, ours to one line per error. */
static void add_errors(const struct diags *diags, struct str *out)
{
    for (size_t i = 0; i < diags->count; i++)
        str_addf(out, "%s%s", i ? "\n" : "", diags->items[i].message);
}

static bool start(struct worker *worker, struct wire_message *message)
{
    const char *path = wire_take_text(message, &worker->arena);
    worker->nvjitlink_path = wire_take_text(message, &worker->arena);
    worker->cuda_folders = wire_take_texts(message, &worker->arena, &worker->cuda_folder_count);
    if (!wire_done(message))
        return false;
    layer_set_cuda(worker->cuda_folders, worker->cuda_folder_count);
    struct diags diags = {0};
    worker->ready = nvrtc_open(path, &worker->nvrtc, &diags);
    struct str errors = {0}, answer = {0};
    add_errors(&diags, &errors);
    size_t begin = wire_begin(&answer, WIRE_READY);
    wire_text(&answer, str_text(&errors));
    wire_end(&answer, begin);
    bool ok = send_all(worker->out, &answer);
    str_free(&errors);
    str_free(&answer);
    diag_free(&diags);
    return ok;
}

struct job {
    const char *root, *source, *arch;
    const char **options;
    size_t option_count;
    const char **expressions;
    size_t expression_count;
    const char **symbols; /* of the expressions */
    enum compile_way way;
    const char **link_options, **kernels;
    size_t link_option_count, kernel_count;
    struct arena *arena;
    enum worker_outcome outcome;
    struct str error, cubin, log;
    struct layer_log files;
    enum compile_inputs inputs;
    struct layer_log *shared_files; /* the worker's, of a job that links; NULL: the job's own */
};

/* "sm_90a" -> 90, 0 when it is no name of a real arch. */
static int arch_number(const char *arch)
{
    if (!str_starts(arch, "sm_"))
        return 0;
    char *end;
    long number = strtol(arch + 3, &end, 10);
    bool known = (*end == '\0' || ((*end == 'a' || *end == 'f') && end[1] == '\0')) &&
                 arch[3] >= '1' && arch[3] <= '9' && number < 10000;
    return known ? (int)number : 0;
}

static bool knows_arch(const struct nvrtc_info *info, const char *arch)
{
    int number = arch_number(arch);
    for (size_t i = 0; number && i < info->arch_count; i++)
        if (info->archs[i] == number)
            return true;
    return false;
}

static bool refuse(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct job *job, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    str_addv(&job->error, format, args);
    va_end(args);
    job->outcome = WORKER_REFUSED;
    return false;
}

/* Flags that NVRTC would take and that have no place in a description. */
static const struct {
    const char *names[5], *reason;
} misplaced[] = {
    {{"--gpu-architecture", "-arch"}, "the target's arch says it"},
    {{"--pch", "-pch", "--create-pch", "-create-pch"}, "a result must not depend on earlier ones"},
    {{"--use-pch", "-use-pch", "--pch-dir", "-pch-dir"},
     "a result must not depend on earlier ones"},
    {{"--time", "-time", "--fdevice-time-trace", "-fdevice-time-trace"}, "it writes a file"},
    {{"--relocatable-device-code=true", "-rdc=true", "--device-c", "-dc"},
     "a module is a whole program: nothing links it"},
};

static bool check_flags(struct job *job)
{
    /* The first option is our own --gpu-architecture. */
    for (size_t i = 1; i < job->option_count; i++)
        for (size_t j = 0; j < sizeof misplaced / sizeof *misplaced; j++)
            for (const char *const *name = misplaced[j].names; *name; name++) {
                size_t length = strlen(*name);
                const char *option = job->options[i];
                if (strncmp(option, *name, length) == 0 &&
                    (!option[length] || option[length] == '='))
                    return refuse(job, "the flag '%s' has no place in a description: %s", option,
                                  misplaced[j].reason);
            }
    return true;
}

static bool read_source(struct job *job, const struct str **out)
{
    int error = layer_read(job->source, out);
    if (error) {
        job->files.refused_count = 0;
        return refuse(job, "cannot read the source '%s': %s", job->source,
                      error == EISDIR   ? "it is a directory, expected a regular file"
                      : error == EINVAL ? "it is a special file, expected a regular file"
                                        : strerror(error));
    }
    if (strlen((*out)->data) != (*out)->len)
        return refuse(job, "the source '%s' holds a NUL byte at offset %zu", job->source,
                      strlen((*out)->data));
    return true;
}

static bool take(struct str *out, nvrtc_program program, int (*size_of)(nvrtc_program, size_t *),
                 int (*get)(nvrtc_program, char *))
{
    size_t size = 0;
    if (size_of(program, &size) != NVRTC_OK)
        return false;
    char *bytes = mem_alloc(size + 1, 1);
    bool ok = get(program, bytes) == NVRTC_OK;
    if (ok)
        str_add(out, bytes, size);
    free(bytes);
    return ok;
}

static bool add_expressions(const struct nvrtc *nvrtc, struct job *job, nvrtc_program program)
{
    for (size_t i = 0; i < job->expression_count; i++) {
        int result = nvrtc->AddNameExpression(program, job->expressions[i]);
        if (result != NVRTC_OK)
            return refuse(job, "NVRTC does not take the name '%s': %s", job->expressions[i],
                          nvrtc->GetErrorString(result));
    }
    return true;
}

static bool take_symbols(const struct nvrtc *nvrtc, struct job *job, nvrtc_program program)
{
    job->symbols = arena_alloc(job->arena, job->expression_count, sizeof *job->symbols);
    for (size_t i = 0; i < job->expression_count; i++) {
        const char *symbol = NULL;
        int result = nvrtc->GetLoweredName(program, job->expressions[i], &symbol);
        if (result != NVRTC_OK || !symbol)
            return refuse(job, "NVRTC does not say the symbol of '%s': %s", job->expressions[i],
                          nvrtc->GetErrorString(result));
        job->symbols[i] = arena_strdup(job->arena, symbol);
    }
    return true;
}

static void run_program(const struct nvrtc *nvrtc, struct job *job, nvrtc_program program)
{
    int result = nvrtc->CompileProgram(program, (int)job->option_count, job->options);
    take(&job->log, program, nvrtc->GetProgramLogSize, nvrtc->GetProgramLog);
    if (job->log.len && job->log.data[job->log.len - 1] == '\0')
        job->log.len--;
    if (result == NVRTC_OUT_OF_MEMORY)
        refuse(job, "NVRTC ran out of memory");
    else if (result != NVRTC_OK)
        refuse(job, "%s", nvrtc->GetErrorString(result));
    else if (job->way != COMPILE_WHOLE &&
             (!take(&job->cubin, program, nvrtc->GetLTOIRSize, nvrtc->GetLTOIR) || !job->cubin.len))
        refuse(job, "NVRTC made no LTO-IR: a flag asks for something else");
    else if (job->way == COMPILE_WHOLE &&
             (!take(&job->cubin, program, nvrtc->GetCUBINSize, nvrtc->GetCUBIN) || !job->cubin.len))
        refuse(job, "NVRTC made no cubin: a flag asks for something else");
    else
        take_symbols(nvrtc, job, program);
}

static void compile(const struct nvrtc *nvrtc, struct job *job, const char *text)
{
    nvrtc_program program;
    int result = nvrtc->CreateProgram(&program, text, job->source, 0, NULL, NULL);
    if (result != NVRTC_OK) {
        refuse(job, "NVRTC cannot take the source: %s", nvrtc->GetErrorString(result));
        return;
    }
    if (add_expressions(nvrtc, job, program))
        run_program(nvrtc, job, program);
    nvrtc->DestroyProgram(&program);
}

/* ---- Linking ----------------------------------------------------------------------------------
 */

static void add_key(const struct job *job, struct str *key)
{
    wire_text(key, job->root);
    wire_text(key, job->source);
    wire_texts(key, job->options, job->option_count);
    wire_texts(key, job->expressions, job->expression_count);
}

static void forget(struct kept *kept)
{
    str_free(&kept->key);
    str_free(&kept->ir);
    str_free(&kept->log);
    layer_free(&kept->files);
    arena_free(&kept->arena);
    *kept = (struct kept){0};
}

static bool is_kept(const struct kept *kept, const struct job *job)
{
    struct str key = {0};
    add_key(job, &key);
    bool same = kept->key.len == key.len && memcmp(kept->key.data, key.data, key.len) == 0;
    str_free(&key);
    return same;
}

/* Moves what the compile gave from the job to the worker. */
static void keep(struct kept *kept, struct job *job)
{
    forget(kept);
    add_key(job, &kept->key);
    kept->ir = job->cubin;
    kept->log = job->log;
    kept->files = job->files;
    kept->inputs = job->inputs;
    kept->symbols = arena_alloc(&kept->arena, job->expression_count, sizeof *kept->symbols);
    for (size_t i = 0; i < job->expression_count; i++)
        kept->symbols[i] = arena_strdup(&kept->arena, job->symbols[i]);
    job->cubin = job->log = (struct str){0};
    job->files = (struct layer_log){0};
}

static bool open_nvjitlink(struct worker *worker, struct job *job)
{
    if (worker->nvjitlink.handle)
        return true;
    struct diags diags = {0};
    bool ok = nvjitlink_open(worker->nvjitlink_path, &worker->nvjitlink, &diags);
    if (!ok)
        refuse(job, "%s", diags.items[0].message);
    diag_free(&diags);
    return ok;
}

static const char *kernel_symbol(const struct job *job, const char *kernel)
{
    for (size_t i = 0; i < job->expression_count; i++)
        if (strcmp(job->expressions[i], kernel) == 0)
            return job->symbols[i];
    return kernel;
}

static bool link_once(struct worker *worker, struct job *job, const char **options, size_t count,
                      bool ptx, struct str *out)
{
    struct str error = {0};
    bool ok = nvjitlink_link(&worker->nvjitlink, &worker->kept.ir, options, count, ptx, out,
                             &job->log, &error);
    if (!ok)
        refuse(job, "nvJitLink: %s", str_text(&error));
    str_free(&error);
    return ok;
}

/* Linked without any kernel, a module is its variables alone: most have none, and then nothing need
 * be made of their kernels. */
static bool has_variables(struct worker *worker, struct job *job)
{
    const char *options[] = {arena_printf(job->arena, "-arch=%s", job->arch), "-lto",
                             "-kernels-used=no kernel"};
    struct str cubin = {0}, log = {0}, error = {0};
    bool ok = nvjitlink_link(&worker->nvjitlink, &worker->kept.ir, options, 3, false, &cubin, &log,
                             &error);
    bool found = !ok || memmem(str_text(&cubin), cubin.len, ".nv.global", 10);
    str_free(&cubin);
    str_free(&log);
    str_free(&error);
    return found;
}

static void link_job(struct worker *worker, struct job *job)
{
    if (job->way == COMPILE_VARIABLES && !has_variables(worker, job)) {
        str_adds(&job->cubin, "// no variables\n");
        return;
    }
    size_t count = 0;
    const char **options =
        arena_alloc(job->arena, job->link_option_count + job->kernel_count + 5, sizeof *options);
    bool ptx = job->way == COMPILE_VARIABLES;
    options[count++] = arena_printf(job->arena, "-arch=%s", job->arch);
    options[count++] = "-lto";
    options[count++] = "-optimize-unused-variables";
    for (size_t i = 0; i < job->link_option_count; i++)
        options[count++] = job->link_options[i];
    options[count++] = ptx ? "-ptx" : "-Xptxas=-v";
    for (size_t i = 0; i < job->kernel_count; i++)
        options[count++] =
            arena_printf(job->arena, "-kernels-used=%s", kernel_symbol(job, job->kernels[i]));
    link_once(worker, job, options, count, ptx, &job->cubin);
}

static void compile_job(const struct worker *worker, struct job *job);

static void run_linked(struct worker *worker, struct job *job)
{
    if (!open_nvjitlink(worker, job))
        return;
    if (!is_kept(&worker->kept, job)) {
        compile_job(worker, job);
        if (job->outcome != WORKER_DONE)
            return;
        keep(&worker->kept, job);
        /* The unit that looks at the variables tells what the compiler said of the source. */
        if (job->way == COMPILE_VARIABLES || !job->kernel_count)
            str_add(&job->log, str_text(&worker->kept.log), worker->kept.log.len);
    } else if (job->way == COMPILE_VARIABLES) {
        str_add(&job->log, str_text(&worker->kept.log), worker->kept.log.len);
    }
    job->symbols = worker->kept.symbols;
    job->shared_files = &worker->kept.files;
    job->inputs = worker->kept.inputs;
    link_job(worker, job);
}

static void run_job(struct worker *worker, struct job *job)
{
    const struct nvrtc *nvrtc = &worker->nvrtc;
    if (!knows_arch(&nvrtc->info, job->arch)) {
        struct str archs = {0};
        nvrtc_add_archs(&nvrtc->info, ", ", &archs);
        refuse(job, "NVRTC %d.%d does not know the arch '%s', expected one of: %s",
               nvrtc->info.major, nvrtc->info.minor, job->arch, str_text(&archs));
        str_free(&archs);
        job->outcome = WORKER_UNKNOWN_ARCH;
        return;
    }
    if (!check_flags(job))
        return;
    if (chdir(job->root) != 0) {
        refuse(job, "cannot enter the project root '%s': %s", job->root, strerror(errno));
        return;
    }
    /* A hit of NVRTC's own cache would bring no ptxas log. The list has room for one more. */
    if (nvrtc_at_least(&nvrtc->info, 12, 9))
        job->options[job->option_count++] = "-no-cache";
    if (job->way == COMPILE_WHOLE)
        compile_job(worker, job);
    else
        run_linked(worker, job);
}

/* Nothing of the source's own includes was asked for, though it has some. */
static bool lacks_includes(const struct job *job, const char *text)
{
    const struct layer_log *files = &job->files;
    bool others = files->opened_count > 1 || files->missed_count;
    for (size_t i = 0; i < files->seen_count && !others; i++)
        others = strcmp(files->seen[i], files->opened[0].name) != 0;
    return !others && scan_has_includes(text);
}

/* One that reads past the file layer also sees no virtual folder: it compiles once more with real
 * ones. */
static void compile_unwatched(const struct worker *worker, struct job *job, const char *text)
{
    const char **options = job->options;
    size_t count = job->option_count;
    str_free(&job->cubin);
    str_free(&job->log);
    str_free(&job->error);
    job->outcome = WORKER_DONE;
    job->options = scan_real_options(options, count, worker->cuda_folders,
                                     worker->cuda_folder_count, job->arena, &job->option_count);
    compile(&worker->nvrtc, job, text);
    job->options = options;
    job->option_count = count;
}

static void compile_job(const struct worker *worker, struct job *job)
{
    const struct str *text;
    layer_start(&job->files);
    if (read_source(job, &text)) {
        compile(&worker->nvrtc, job, text->data);
        bool unwatched = !job->files.calls;
        if (unwatched)
            compile_unwatched(worker, job, text->data);
        if (unwatched || lacks_includes(job, text->data))
            job->inputs = scan_includes(job->source, job->options, job->option_count)
                              ? COMPILE_SCANNED
                              : COMPILE_UNKNOWN;
    }
    layer_stop();
}

static uint64_t status_bytes(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t kib = 0;
    size_t length = strlen(field);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, length) == 0)
            sscanf(line + length, ": %" SCNu64, &kib);
    if (file)
        fclose(file);
    return kib * 1024;
}

/* Makes VmHWM start again from the present size. */
static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t done = write(fd, "5", 1);
    (void)done;
    close(fd);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct compile_input *)a)->name, ((const struct compile_input *)b)->name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t sort_unique(const char **texts, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(texts, count, sizeof *texts, by_text);
    for (size_t i = 0; i < count; i++)
        if (!kept || strcmp(texts[kept - 1], texts[i]) != 0)
            texts[kept++] = texts[i];
    return kept;
}

static void add_files(struct str *out, struct layer_log *files)
{
    if (files->opened_count > 1)
        qsort(files->opened + 1, files->opened_count - 1, sizeof *files->opened, by_name);
    wire_inputs(out, files->opened, files->opened_count);
    wire_texts(out, files->missed, sort_unique(files->missed, files->missed_count));
    wire_texts(out, files->refused, sort_unique(files->refused, files->refused_count));
}

static bool work(struct worker *worker, struct wire_message *message)
{
    struct arena arena = {0};
    struct job job = {
        .root = wire_take_text(message, &arena),
        .source = wire_take_text(message, &arena),
        .arch = wire_take_text(message, &arena),
        .options = wire_take_texts(message, &arena, &job.option_count),
        .expressions = wire_take_texts(message, &arena, &job.expression_count),
        .arena = &arena,
        .way = (enum compile_way)wire_take_u64(message),
        .link_options = wire_take_texts(message, &arena, &job.link_option_count),
        .kernels = wire_take_texts(message, &arena, &job.kernel_count),
    };
    if (!wire_done(message) || !worker->ready)
        return false;
    struct timespec before, after;
    reset_peak();
    clock_gettime(CLOCK_MONOTONIC, &before);
    run_job(worker, &job);
    clock_gettime(CLOCK_MONOTONIC, &after);
    struct str answer = {0};
    size_t begin = wire_begin(&answer, WIRE_RESULT);
    wire_u64(&answer, job.outcome);
    wire_text(&answer, str_text(&job.error));
    wire_bytes(&answer, job.log.data, job.log.len);
    wire_bytes(&answer, job.cubin.data, job.outcome == WORKER_DONE ? job.cubin.len : 0);
    wire_texts(&answer, job.symbols, job.outcome == WORKER_DONE ? job.expression_count : 0);
    add_files(&answer, job.shared_files ? job.shared_files : &job.files);
    wire_u64(&answer, (uint64_t)((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec -
                                 before.tv_nsec));
    wire_u64(&answer, status_bytes("VmHWM"));
    wire_u64(&answer, status_bytes("VmRSS"));
    wire_u64(&answer, (uint64_t)worker->nvrtc.info.major);
    wire_u64(&answer, (uint64_t)worker->nvrtc.info.minor);
    wire_u64(&answer, job.inputs);
    wire_end(&answer, begin);
    bool ok = send_all(worker->out, &answer);
    str_free(&answer);
    str_free(&job.error);
    str_free(&job.log);
    str_free(&job.cubin);
    layer_free(&job.files);
    arena_free(&arena);
    return ok;
}

static bool receive(struct worker *worker)
{
    char chunk[64 * 1024];
    ssize_t got;
    while ((got = read(worker->in, chunk, sizeof chunk)) < 0 && errno == EINTR)
        ;
    if (got > 0)
        str_add(&worker->received, chunk, (size_t)got);
    return got > 0;
}

/* The pipes move away from 0 and 1, so that nothing that NVRTC prints can be taken for an answer.
 */
static bool move_pipes(struct worker *worker)
{
    worker->in = fcntl(0, F_DUPFD_CLOEXEC, 10);
    worker->out = fcntl(1, F_DUPFD_CLOEXEC, 10);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return worker->in >= 0 && worker->out >= 0 && null >= 0 && dup2(null, 0) == 0 &&
           dup2(2, 1) == 1;
}

/* NVRTC reads variables that change what it makes (NVRTC_APPEND_FLAGS and others): it gets none. */
static bool set_environment(void)
{
    return clearenv() == 0 && setenv("CUDA_CACHE_DISABLE", "1", 1) == 0 &&
           setenv("PWD", COMPILE_CWD, 1) == 0 && setenv("TZ", "UTC", 1) == 0 &&
           setenv("LC_ALL", "C.UTF-8", 1) == 0;
}

int compile_worker_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct worker worker = {0};
    /* Ctrl-C reaches the whole group: the tool decides what ends, and a worker ends with it. */
    signal(SIGINT, SIG_IGN);
    /* A crash of NVRTC must not leave a core file in the project. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (!move_pipes(&worker) || !set_environment()) {
        perror("kpack: compile worker");
        return 1;
    }
    bool ok = true;
    while (ok && receive(&worker)) {
        struct wire_message message;
        size_t used;
        enum wire_state state;
        while (ok && (state = wire_next(str_text(&worker.received), worker.received.len, &message,
                                        &used)) != WIRE_MORE) {
            if (state == WIRE_WHOLE && message.type == WIRE_START)
                ok = start(&worker, &message);
            else if (state == WIRE_WHOLE && message.type == WIRE_JOB)
                ok = work(&worker, &message);
            else
                ok = false;
            if (!ok)
                break;
            memmove(worker.received.data, worker.received.data + used, worker.received.len - used);
            worker.received.len -= used;
        }
    }
    /* NVRTC's threads and destructors have nothing to save. */
    _exit(ok ? 0 : 1);
}
