#include "compile_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/proc.h"

struct arena world_arena;
char *world_folder;

/* Written plainly: flushing every file to the disk, as file_publish does, takes seconds in all. */
void world_put(const char *folder, const char *name, const void *bytes, size_t size)
{
    struct diags diags = {0};
    const char *path = path_join(&world_arena, folder, name);
    assert_true(file_make_dirs(path_dir(&world_arena, path), &diags));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

struct cuda world_cuda(const char *facts, bool builtins)
{
    static int number;
    const char *dir = arena_printf(&world_arena, "%s/cuda%d", world_folder, number++);
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"};
    for (size_t i = 0; i < (builtins ? 2 : 1); i++) {
        struct str bytes = {0};
        struct diags diags = {0};
        const char *from = arena_printf(&world_arena, FAKE "/nvrtc/lib64/%s", names[i]);
        assert_true(file_read(from, &bytes, &diags));
        world_put(dir, arena_printf(&world_arena, "lib64/%s", names[i]), bytes.data, bytes.len);
        str_free(&bytes);
    }
    if (facts)
        world_put(dir, "lib64/fake.txt", facts, strlen(facts));
    world_put(dir, "include/cuda.h", "cuda\n", 5);
    struct cuda cuda;
    struct diags diags = {0};
    assert_true(cuda_find(dir, world_folder, &world_arena, &cuda, &diags));
    return cuda;
}

void world_event(void *user, enum compile_event event, size_t unit)
{
    struct world *world = user;
    if (event == COMPILE_TICK) {
        assert_true(unit == SIZE_MAX);
        world->ticks++;
        return;
    }
    assert_true(unit < world->count);
    if (event == COMPILE_STARTED && ++world->started == world->stop_after)
        world->stop = 1;
    world->finished += event == COMPILE_FINISHED;
}

struct world *world_new(void)
{
    struct world *world = arena_alloc(&world_arena, 1, sizeof *world);
    static struct cuda cuda;
    if (!cuda.nvrtc)
        cuda = world_cuda(NULL, true);
    world->cuda = cuda;
    world->options = (struct compile_options){
        .workers = 2,
        .unit_timeout = 30,
        .keep_going = true,
        .event = world_event,
        .event_user = world,
        .stop = &world->stop,
    };
    return world;
}

struct compile_unit *world_unit(struct world *world, const char *source)
{
    static int number;
    const char *name = arena_printf(&world_arena, "unit%d.cu", number++);
    world_put(world_folder, name, source, strlen(source));
    struct compile_unit *unit = &world->units[world->count++];
    *unit = (struct compile_unit){
        .name = arena_printf(&world_arena, "t/%zu", world->count),
        .root = world_folder,
        .source = name,
        .arch = "sm_90a",
        .loc = {"targets/t.lua", (uint32_t)world->count, 3},
    };
    return unit;
}

bool world_run(struct world *world)
{
    world->options.cuda = &world->cuda;
    bool ok = compile_run(world->units, world->count, &world->options, &world_arena, world->results,
                          &world->diags);
    diag_render(&world->diags, 0, false, &world->text);
    /* No child is left, alive or dead. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return ok;
}

void world_end(struct world *world)
{
    diag_free(&world->diags);
    str_free(&world->text);
}

void world_expect(const struct world *world, const char *text)
{
    if (!strstr(str_text(&world->text), text))
        print_message("expected: %s\nfound: %s\n", text, str_text(&world->text));
    assert_non_null(strstr(str_text(&world->text), text));
}

int world_set_up(void **state)
{
    (void)state;
    world_folder = arena_strdup(&world_arena, "/tmp/kpack-faults-XXXXXX");
    return mkdtemp(world_folder) ? 0 : -1;
}

int world_tear_down(void **state)
{
    (void)state;
    const char *const argv[] = {"/bin/rm", "-rf", world_folder, NULL};
    struct proc proc;
    struct diags diags = {0};
    if (proc_start(argv, NULL, &proc, &diags))
        proc_wait(&proc);
    diag_free(&diags);
    arena_free(&world_arena);
    return 0;
}
