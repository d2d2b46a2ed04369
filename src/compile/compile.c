#include "compile/compile.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/jobserver.h"
#include "base/proc.h"
#include "compile/answer.h"
#include "compile/schedule.h"
#include "compile/wire.h"
#include "compile/worker.h"

enum {
    TICK_MS = 100,
    ERROR_TEXT_MAX = 16 * 1024, /* of a worker's standard error, its end */
    STARTS_MAX = 3,             /* failures to start in a row before the build is given up */
};
#define NO_UNIT SIZE_MAX
/* NVRTC's heap does not shrink: a worker that keeps more than this after a unit, or more than half
 * of what it may use, is replaced. */
#define RECYCLE_BYTES ((uint64_t)1 << 30)

struct worker {
    struct proc proc;
    size_t unit;                    /* NO_UNIT: idle */
    bool ready;                     /* it has opened NVRTC */
    double started, memory_checked; /* seconds */
    uint64_t peak_bytes;
    struct str to_send, received, errors;
    size_t sent;
};

struct run {
    const struct compile_unit *units;
    size_t count;
    const struct compile_options *options;
    struct arena *arena;
    struct compile_result *results;
    struct diags *diags;
    struct diags *unit_diags; /* of units that are done, until those before them are */
    size_t shown;             /* units whose diags were moved on */
    bool *done;
    double start;
    double looked; /* when the workers were looked at last */
    struct schedule schedule;
    struct worker *workers;
    size_t worker_count;
    unsigned failed_starts;
    bool any_ready, stop; /* stop: nothing more is handed out */
    bool abort;           /* and what runs is killed */
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void tell(struct run *run, enum compile_event event, size_t unit)
{
    if (run->options->event)
        run->options->event(run->options->event_user, event, unit);
}

/* ---- Ending a unit
 * ------------------------------------------------------------------------------- */

/* The end of what a worker wrote to its standard error, on lines of its own. */
static void add_error_text(const struct worker *worker, struct str *out)
{
    size_t size = worker->errors.len;
    while (size && worker->errors.data[size - 1] == '\n')
        size--;
    if (!size)
        return;
    str_addc(out, '\n');
    str_add(out, worker->errors.data, size);
}

/* Moves the diags of units on in the units' order, whatever order they end in. */
static void move_diags(struct run *run, bool all)
{
    for (; run->shown < run->count && (all || run->done[run->shown]); run->shown++) {
        struct diags *of_unit = &run->unit_diags[run->shown];
        for (size_t i = 0; i < of_unit->count; i++)
            diag_add_text(run->diags, of_unit->items[i].level, of_unit->items[i].loc,
                          of_unit->items[i].message);
        diag_free(of_unit);
        *of_unit = (struct diags){0};
    }
}

static void unit_done(struct run *run, struct worker *worker, enum compile_status status)
{
    size_t unit = worker->unit;
    struct compile_result *result = &run->results[unit];
    result->status = status;
    result->worker = (unsigned)(worker - run->workers);
    result->begin = worker->started - run->start;
    result->end = now() - run->start;
    if (!result->log)
        result->log = "";
    if (result->seconds <= 0)
        result->seconds = now() - worker->started;
    if (worker->peak_bytes > result->peak_bytes)
        result->peak_bytes = worker->peak_bytes;
    if (status != COMPILE_OK && !run->options->keep_going)
        run->stop = true;
    worker->unit = NO_UNIT;
    schedule_done(&run->schedule, unit);
    run->done[unit] = true;
    move_diags(run, false);
    tell(run, COMPILE_FINISHED, unit);
}

static void discard(struct worker *worker)
{
    proc_kill(&worker->proc);
    str_free(&worker->to_send);
    str_free(&worker->received);
    str_free(&worker->errors);
    *worker = (struct worker){.unit = NO_UNIT, .proc = {.in = -1, .out = -1, .error = -1}};
}

/* The worker is lost: kills it and charges its unit, if it had one, with `format`. */
static void lose(struct run *run, struct worker *worker, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void lose(struct run *run, struct worker *worker, const char *format, ...)
{
    if (worker->unit != NO_UNIT) {
        const struct compile_unit *unit = &run->units[worker->unit];
        struct str text = {0};
        va_list args;
        str_addf(&text, "'%s' was not compiled: ", unit->name);
        va_start(args, format);
        str_addv(&text, format, args);
        va_end(args);
        add_error_text(worker, &text);
        diag_add_text(&run->unit_diags[worker->unit], DIAG_ERROR, unit->loc, str_text(&text));
        str_free(&text);
        unit_done(run, worker, COMPILE_CRASHED);
    }
    discard(worker);
}

/* ---- Starting
 * ------------------------------------------------------------------------------------ */

static void add_start(struct run *run, struct str *out)
{
    const struct cuda *cuda = run->options->cuda;
    size_t begin = wire_begin(out, WIRE_START);
    wire_text(out, cuda->nvrtc);
    wire_text(out, cuda->nvjitlink ? cuda->nvjitlink : "");
    wire_texts(out, cuda->includes, cuda->include_count);
    wire_end(out, begin);
}

static void add_option(struct arena *arena, const char ***list, size_t *count, const char *prefix,
                       const char *value)
{
    (*list)[(*count)++] = arena_printf(arena, "%s%s", prefix, value);
}

static void add_job(const struct compile_unit *unit, struct str *out)
{
    struct arena arena = {0};
    size_t count = 0, most = unit->flag_count + unit->define_count + unit->include_count + 8;
    const char **list = arena_alloc(&arena, most, sizeof *list);
    add_option(&arena, &list, &count, "--gpu-architecture=", unit->arch);
    if (unit->way == COMPILE_WHOLE)
        add_option(&arena, &list, &count, "--ptxas-options=", "-v");
    else
        add_option(&arena, &list, &count, "", "-dlto");
    for (size_t i = 0; i < unit->flag_count; i++)
        add_option(&arena, &list, &count, "", unit->flags[i]);
    for (size_t i = 0; i < unit->define_count; i++)
        add_option(&arena, &list, &count, "-D", unit->defines[i]);
    for (size_t i = 0; i < unit->include_count; i++)
        add_option(&arena, &list, &count, "-I", unit->includes[i]);
    /* As nvcc has them. */
    add_option(&arena, &list, &count, "-I", COMPILE_CUDA_ROOT);
    add_option(&arena, &list, &count, "-I", COMPILE_CUDA_ROOT "/cccl");
    add_option(&arena, &list, &count, "-I", COMPILE_HEADERS_ROOT);
    size_t begin = wire_begin(out, WIRE_JOB);
    wire_text(out, unit->root);
    wire_text(out, unit->source);
    wire_text(out, unit->arch);
    wire_texts(out, list, count);
    wire_texts(out, unit->expressions, unit->expression_count);
    wire_u64(out, unit->way);
    wire_texts(out, unit->link_options, unit->link_option_count);
    wire_texts(out, unit->kernels, unit->kernel_count);
    wire_end(out, begin);
    arena_free(&arena);
}

static void start_failed(struct run *run)
{
    if (run->any_ready || ++run->failed_starts < STARTS_MAX)
        return;
    run->stop = true;
    diag_error(run->diags, "no compile worker starts: %u tries in a row failed", STARTS_MAX);
}

static void hand_out(struct run *run, struct worker *worker, size_t unit)
{
    worker->unit = unit;
    worker->started = worker->memory_checked = now();
    worker->peak_bytes = 0;
    tell(run, COMPILE_STARTED, unit);
    if (!worker->proc.pid) {
        static const char *const argv[] = {"/proc/self/exe", COMPILE_WORKER_ARG, NULL};
        static const char *const extra[] = {"CUDA_CACHE_DISABLE=1", NULL};
        struct diags local = {0};
        if (!proc_start(argv, extra, &worker->proc, &local)) {
            lose(run, worker, "%s", local.items[0].message);
            start_failed(run);
        } else {
            add_start(run, &worker->to_send);
        }
        diag_free(&local);
    }
    if (worker->proc.pid)
        add_job(&run->units[unit], &worker->to_send);
}

/* ---- Answers
 * ------------------------------------------------------------------------------------- */

static void take_ready(struct run *run, struct worker *worker, struct wire_message *message)
{
    struct arena arena = {0};
    const char *error = wire_take_text(message, &arena);
    if (!wire_done(message) || worker->ready) {
        lose(run, worker, "its worker wrote something that is no answer");
    } else if (*error) {
        run->stop = run->abort = true;
        lose(run, worker, "%s", error);
    } else {
        worker->ready = run->any_ready = true;
        run->failed_starts = 0;
    }
    arena_free(&arena);
}

/* Whether another unit of the same split module has said the same. */
static bool is_said(const struct run *run, size_t index)
{
    const struct compile_unit *unit = &run->units[index];
    for (size_t i = 0; unit->way != COMPILE_WHOLE && i < run->count; i++)
        if (i != index && run->results[i].status == COMPILE_FAILED &&
            run->units[i].defines == unit->defines &&
            strcmp(run->results[i].log, run->results[index].log) == 0)
            return true;
    return false;
}

static void take_result(struct run *run, struct worker *worker, struct wire_message *message)
{
    struct arena arena = {0};
    struct answer answer;
    size_t unit = worker->unit;
    if (!worker->ready || unit == NO_UNIT ||
        !answer_take(message, &run->units[unit], run->arena, &arena, &answer)) {
        lose(run, worker, "its worker wrote something that is no answer");
    } else {
        bool failed = answer.outcome != WORKER_DONE;
        run->results[unit] = answer.result;
        if (!failed || !answer.result.log[0] || !is_said(run, unit))
            answer_report(&answer, &run->units[unit], run->options->cuda, &run->unit_diags[unit]);
        unit_done(run, worker, failed ? COMPILE_FAILED : COMPILE_OK);
        uint64_t half = run->options->worker_memory / 2;
        if (answer.resident > (half && half < RECYCLE_BYTES ? half : RECYCLE_BYTES))
            discard(worker);
    }
    arena_free(&arena);
}

static void take_messages(struct run *run, struct worker *worker)
{
    struct wire_message message;
    size_t used;
    enum wire_state state;
    while (worker->proc.pid && (state = wire_next(str_text(&worker->received), worker->received.len,
                                                  &message, &used)) != WIRE_MORE) {
        /* A lost worker takes its buffer with it, so the message is moved out first. */
        struct str bytes = worker->received;
        worker->received = (struct str){0};
        if (state == WIRE_WHOLE)
            str_add(&worker->received, bytes.data + used, bytes.len - used);
        if (state == WIRE_WHOLE && message.type == WIRE_READY)
            take_ready(run, worker, &message);
        else if (state == WIRE_WHOLE && message.type == WIRE_RESULT)
            take_result(run, worker, &message);
        else
            lose(run, worker, "its worker wrote something that is no answer");
        str_free(&bytes);
    }
}

/* ---- Pipes
 * --------------------------------------------------------------------------------------- */

/* Reads what is there; false at the end of the stream. */
static bool drain(int fd, struct str *out)
{
    char chunk[64 * 1024];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got > 0)
            str_add(out, chunk, (size_t)got);
        else if (got < 0 && errno == EINTR)
            continue;
        else
            return got < 0 && errno == EAGAIN;
    }
}

static void drain_errors(struct worker *worker)
{
    struct proc *proc = &worker->proc;
    if (proc->error >= 0 && !drain(proc->error, &worker->errors)) {
        close(proc->error);
        proc->error = -1;
    }
    struct str *errors = &worker->errors;
    if (errors->len > ERROR_TEXT_MAX) {
        memmove(errors->data, errors->data + errors->len - ERROR_TEXT_MAX, ERROR_TEXT_MAX + 1);
        errors->len = ERROR_TEXT_MAX;
    }
}

/* Its output has ended: says how the worker ended. One that lives on without its pipe is killed. */
static void ended(struct run *run, struct worker *worker)
{
    int status = 0;
    pid_t got = 0;
    for (int i = 0; i < 60 && (got = waitpid(worker->proc.pid, &status, WNOHANG)) == 0; i++)
        poll(NULL, 0, 5);
    drain_errors(worker);
    struct str text = {0};
    if (got == worker->proc.pid) {
        worker->proc.pid = 0;
        proc_close(&worker->proc);
        proc_describe(status, &text);
    } else {
        str_adds(&text, "closed its pipe");
    }
    bool had_unit = worker->unit != NO_UNIT, ready = worker->ready;
    lose(run, worker, "its worker %s%s", str_text(&text), ready ? "" : " before it was ready");
    str_free(&text);
    if (had_unit && !ready)
        start_failed(run);
}

static void send_some(struct worker *worker)
{
    struct str *out = &worker->to_send;
    while (worker->sent < out->len) {
        ssize_t done = write(worker->proc.in, out->data + worker->sent, out->len - worker->sent);
        if (done < 0 && errno == EINTR)
            continue;
        /* EPIPE: the worker's end is seen on its output. */
        if (done < 0)
            break;
        worker->sent += (size_t)done;
    }
    if (worker->sent == out->len || (errno != EAGAIN && errno != EINTR)) {
        str_clear(out);
        worker->sent = 0;
    }
}

static void check_limits(struct run *run, struct worker *worker, double time)
{
    const struct compile_options *options = run->options;
    if (worker->unit == NO_UNIT)
        return;
    if (options->unit_timeout && time - worker->started > options->unit_timeout) {
        lose(run, worker, "it took longer than the time limit of %u s", options->unit_timeout);
        return;
    }
    if (time - worker->memory_checked < 0.2)
        return;
    worker->memory_checked = time;
    uint64_t resident = proc_resident(worker->proc.pid);
    if (resident > worker->peak_bytes)
        worker->peak_bytes = resident;
    if (options->worker_memory && resident > options->worker_memory)
        lose(run, worker, "its worker used %" PRIu64 " MiB, more than the limit of %" PRIu64 " MiB",
             resident >> 20, options->worker_memory >> 20);
}

/* Time for which this process was stopped, by Ctrl-Z or a sleeping machine, is no unit's: a look
 * at the workers that comes much later than asked for moves the start of what they do. */
static void excuse_stops(struct run *run, double time)
{
    double gap = time - run->looked;
    for (size_t i = 0; i < run->worker_count && gap > 10 * TICK_MS * 1e-3; i++)
        run->workers[i].started += gap;
    run->looked = time;
}

static void poll_workers(struct run *run)
{
    size_t count = run->worker_count * 3;
    struct pollfd *fds = mem_alloc(count + 1, sizeof *fds);
    for (size_t i = 0; i < run->worker_count; i++) {
        const struct worker *worker = &run->workers[i];
        fds[i * 3] = (struct pollfd){worker->proc.pid ? worker->proc.out : -1, POLLIN, 0};
        fds[i * 3 + 1] = (struct pollfd){worker->proc.pid ? worker->proc.error : -1, POLLIN, 0};
        fds[i * 3 + 2] = (struct pollfd){worker->to_send.len ? worker->proc.in : -1, POLLOUT, 0};
    }
    if (run->schedule.waits)
        fds[count++] = (struct pollfd){run->options->jobs->in, POLLIN, 0};
    int ready = poll(fds, (nfds_t)count, TICK_MS);
    double time = now();
    excuse_stops(run, time);
    for (size_t i = 0; i < run->worker_count; i++) {
        struct worker *worker = &run->workers[i];
        if (!worker->proc.pid || run->abort)
            continue;
        bool open = true;
        if (ready > 0) {
            if (fds[i * 3 + 1].revents)
                drain_errors(worker);
            if (fds[i * 3 + 2].revents)
                send_some(worker);
            if (fds[i * 3].revents)
                open = drain(worker->proc.out, &worker->received);
        }
        take_messages(run, worker);
        if (worker->proc.pid && !open)
            ended(run, worker);
        else if (worker->proc.pid)
            check_limits(run, worker, time);
    }
    free(fds);
}

static bool wants_stop(const struct run *run)
{
    return run->abort || (run->options->stop && *run->options->stop);
}

static void hand_all_out(struct run *run)
{
    for (size_t i = 0; i < run->worker_count && !run->stop; i++) {
        size_t unit = run->workers[i].unit == NO_UNIT ? schedule_next(&run->schedule) : NO_UNIT;
        if (unit != SCHEDULE_NONE)
            hand_out(run, &run->workers[i], unit);
    }
}

/* When nothing is left to hand out, whoever is done ends while the others compile: a worker's
 * hundred megabytes take a while to be given back. Its end is seen on its output. */
static void end_idle(struct run *run)
{
    for (size_t i = 0; i < run->worker_count && schedule_is_empty(&run->schedule); i++)
        if (run->workers[i].proc.pid && run->workers[i].unit == NO_UNIT)
            kill(run->workers[i].proc.pid, SIGKILL);
}

static void loop(struct run *run)
{
    double ticked = 0;
    while (!wants_stop(run)) {
        hand_all_out(run);
        if (!run->schedule.running && (run->stop || schedule_is_empty(&run->schedule)))
            break;
        end_idle(run);
        poll_workers(run);
        if (now() - ticked >= TICK_MS * 1e-3) {
            ticked = now();
            tell(run, COMPILE_TICK, NO_UNIT);
        }
    }
    for (size_t i = 0; i < run->worker_count; i++)
        if (run->workers[i].proc.pid)
            kill(run->workers[i].proc.pid, SIGKILL);
    for (size_t i = 0; i < run->worker_count; i++) {
        /* A unit that was stopped is as if it had never begun. */
        run->workers[i].unit = NO_UNIT;
        discard(&run->workers[i]);
    }
}

bool compile_run(const struct compile_unit *units, size_t count,
                 const struct compile_options *options, struct arena *arena,
                 struct compile_result *out_results, struct diags *diags)
{
    struct run run = {
        .units = units,
        .count = count,
        .options = options,
        .arena = arena,
        .results = out_results,
        .diags = diags,
        .worker_count = options->workers < count ? options->workers : count,
        .start = now(),
        .looked = now(),
    };
    for (size_t i = 0; i < count; i++)
        out_results[i] = (struct compile_result){.log = ""};
    if (!count)
        return true;
    /* A worker that dies while it is written to must not take the tool with it, and how it died
     * must not be lost to a caller who ignores the ends of children. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    struct sigaction pipe_before, child_before;
    sigaction(SIGPIPE, &ignore, &pipe_before);
    sigaction(SIGCHLD, &standard, &child_before);
    schedule_start(&run.schedule, units, count, options);
    run.done = arena_alloc(arena, count, sizeof *run.done);
    run.unit_diags = mem_alloc(count, sizeof *run.unit_diags);
    run.workers = mem_alloc(run.worker_count, sizeof *run.workers);
    for (size_t i = 0; i < run.worker_count; i++)
        discard(&run.workers[i]);
    loop(&run);
    schedule_end(&run.schedule);
    free(run.workers);
    move_diags(&run, true);
    free(run.unit_diags);
    sigaction(SIGPIPE, &pipe_before, NULL);
    sigaction(SIGCHLD, &child_before, NULL);
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        ok &= out_results[i].status == COMPILE_OK;
    return ok;
}
