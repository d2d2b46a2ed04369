/* Loads hostile text as a description, in a project that has kernels and other descriptions: it
 * gives a target exactly when it reports no error, and the target keeps the header's promises. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "target/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64], path[96];

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void remove_project(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    if (system(command) != 0)
        perror(command);
}

/* tests/lua/good, whose targets may be written. Runs from the repository's root. */
static void make_project(void)
{
    char command[256];
    snprintf(root, sizeof root, "%s/kpack-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    require(mkdtemp(root) != NULL);
    atexit(remove_project);
    snprintf(command, sizeof command, "cp -R tests/lua/good/. '%s'", root);
    require(system(command) == 0);
    snprintf(path, sizeof path, "%s/targets/fuzz.lua", root);
}

static void check_entry(const struct target_entry *entry)
{
    require(entry->name[0] != '\0');
    require(!entry->has_block || (uint64_t)entry->block[0] * entry->block[1] * entry->block[2] > 0);
    require((entry->twin_module == NULL) == (entry->twin_entry == NULL));
    require((entry->twin_module == NULL) == (entry->bits == TARGET_BITS_NONE));
}

static void check_module(const struct target_module *module)
{
    char source[4096];
    struct stat info;
    require(module->name[0] != '\0' && module->origin[0] != '\0' && module->source[0] != '/');
    snprintf(source, sizeof source, "%s/%s", root, module->source);
    require(stat(source, &info) == 0 && S_ISREG(info.st_mode));
    require(!module->every || module->entry_count == 0);
    for (size_t i = 0; i < module->entry_count; i++)
        check_entry(&module->entries[i]);
    for (size_t i = 1; i < module->constant_count; i++)
        require(strcmp(module->constants[i - 1].name, module->constants[i].name) < 0);
    for (size_t i = 0; i < module->include_count; i++)
        require(module->includes[i][0] != '/');
}

static void check(const struct target *target)
{
    require(target->name[0] != '\0' && strncmp(target->arch, "sm_", 3) == 0);
    require(strcmp(target->path, path) == 0 && target->root[0] == '/');
    for (size_t i = 0; i < target->module_count; i++) {
        check_module(&target->modules[i]);
        require(i == 0 || strcmp(target->modules[i - 1].name, target->modules[i].name) < 0);
    }
    for (size_t i = 1; i < target->lever_count; i++)
        require(strcmp(target->levers[i - 1].name, target->levers[i].name) < 0);
    for (size_t i = 1; i < target->absent_count; i++) {
        const struct target_absent *a = &target->absents[i - 1], *b = &target->absents[i];
        int modules = strcmp(a->module, b->module);
        require(modules < 0 || (modules == 0 && strcmp(a->entry, b->entry) < 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (root[0] == '\0')
        make_project();
    FILE *file = fopen(path, "wb");
    require(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    struct arena arena = {0};
    struct diags diags = {0};
    struct str text = {0};
    const struct target *target = target_load(path, &arena, &diags);
    require((target != NULL) == (diags.errors == 0));
    if (target != NULL)
        check(target);
    diag_render(&diags, 0, false, &text);
    require(diags.count == 0 || text.len > 0);
    str_free(&text);
    diag_free(&diags);
    arena_free(&arena);
    return 0;
}
