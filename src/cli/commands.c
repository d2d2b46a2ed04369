#include "cli/cli.h"

#include <stdint.h>
#include <string.h>

static const struct cli_option build_options[] = {
    [BUILD_FILE] = {'o', NULL, "FILE", "write the image to FILE (one target only)"},
    [BUILD_JOBS] = {'j', NULL, "N", "compile N units at once (default: one per core)"},
    [BUILD_OUT] = {0, "out", "DIR", "write NAME.kpk into DIR (default: out under the root)"},
    [BUILD_CUDA] = {0, "cuda", "DIR", "use the CUDA toolkit or wheels in DIR"},
    [BUILD_KEEP_GOING] = {'k', NULL, NULL, "go on with the rest after a failure"},
    [BUILD_VERBOSE] = {'v', NULL, NULL, "say more: what is used, entries left out"},
    [BUILD_QUIET] = {'q', NULL, NULL, "print errors and warnings only"},
    [BUILD_PROGRESS] = {0, "progress", "WHEN", "auto (default), plain or none"},
    [BUILD_UNIT_TIMEOUT] = {0, "unit-timeout", "SECONDS", "give one unit SECONDS (default: 600)"},
    [BUILD_STAMP] = {0, "stamp", NULL, "record commit and source digests in the image"},
    [BUILD_CACHE] = {0, "cache", "DIR", "keep and find compiled units in DIR"},
    [BUILD_NO_CACHE] = {0, "no-cache", NULL, "compile every unit, and keep nothing"},
    [BUILD_DRY_RUN] = {'n', "dry-run", NULL,
                       "print the units that would be compiled, build nothing"},
    [BUILD_DEPFILE] = {0, "depfile", "FILE", "write what the images depend on, for make or ninja"},
    [BUILD_COMMANDS] = {0, "compile-commands", "FILE", "write a compilation database for clangd"},
    [BUILD_TIMINGS] = {0, "timings", "FILE", "write a Chrome trace of the units on each worker"},
    {0},
};

/* Of every command that reads images. */
#define TARGET_OPTION                                                                              \
    {                                                                                              \
        0, "target", "NAME", "of a bundle the part for target NAME alone"                          \
    }

static const struct cli_option image_options[] = {
    [LIST_TARGET] = TARGET_OPTION,
    [LIST_JSON] = {0, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_option verify_options[] = {
    [VERIFY_TARGET] = TARGET_OPTION,
    [VERIFY_REBUILD] = {0, "rebuild", "TARGET.lua",
                        "also check that a fresh build gives these bytes"},
    [VERIFY_JSON] = {0, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_option diff_options[] = {
    [DIFF_TARGET] = TARGET_OPTION,
    [DIFF_FAIL_ON] = {0, "fail-on", "WORDS", "exit 1 on these, such as removed,size=5%"},
    [DIFF_JSON] = {0, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_option header_options[] = {
    [HEADER_FILE] = {'o', NULL, "FILE", "write the header to FILE"},
    {0},
};

static const struct cli_option audit_options[] = {
    [AUDIT_LOOKUPS] = {0, "lookups", "FILE",
                       "what the engine asks for, as 'kpack lookups' prints it"},
    [AUDIT_TARGET] = TARGET_OPTION,
    [AUDIT_FAIL_ON] = {0, "fail-on", "WORDS", "exit 1 on these (default: undeclared)"},
    [AUDIT_JSON] = {0, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_option lookups_options[] = {
    [LOOKUPS_CALL] = {0, "call", "NAMES", "look for calls of these, joined by commas"},
    [LOOKUPS_JSON] = {0, "json", NULL, "print JSON"},
    {0},
};

static const struct cli_option bundle_options[] = {
    [BUNDLE_FILE] = {'o', NULL, "FILE", "write the bundle to FILE"},
    {0},
};

static const struct cli_option extract_options[] = {
    [EXTRACT_FILE] = {'o', NULL, "FILE", "write to FILE (default: MODULE.cubin)"},
    [EXTRACT_TARGET] = {0, "target", "NAME",
                        "of a bundle the part for NAME; without MODULE, all of it"},
    [EXTRACT_FATBIN] = {0, "fatbin", NULL, "write a CUDA fatbin of all the images' cubins"},
    [EXTRACT_CUDA] = {0, "cuda", "DIR", "with --fatbin: use fatbinary of the CUDA toolkit in DIR"},
    {0},
};

static const struct cli_option embed_options[] = {
    [EMBED_FILE] = {'o', NULL, "FILE", "write the object to FILE"},
    [EMBED_MACHINE] = {0, "machine", "NAME", "x86-64 or aarch64 (default: this host's)"},
    {0},
};

static const struct cli_option report_options[] = {
    [REPORT_FILE] = {'o', NULL, "FILE", "write the page to FILE"},
    [REPORT_TARGET] = TARGET_OPTION,
    {0},
};

static const struct cli_option explain_options[] = {
    [EXPLAIN_CUDA] = {0, "cuda", "DIR", "as for build"},
    [EXPLAIN_CACHE] = {0, "cache", "DIR", "as for build"},
    {0},
};

static const struct cli_option cache_options[] = {
    [CACHE_DIR] = {0, "cache", "DIR", "the cache in DIR, as a build with this option would"},
    [CACHE_MAX] = {0, "max", "SIZE", "with trim: leave SIZE at most, such as 512M (default: 5G)"},
    {0},
};

static const struct cli_option doctor_options[] = {
    [DOCTOR_CUDA] = {0, "cuda", "DIR", "look for CUDA in DIR, as a build with this option would"},
    {0},
};

static const struct cli_option no_options[] = {{0}};

const struct cli_command cli_commands[] = {
    {"build", "TARGET.lua ...", "compile the targets' kernels and write one image each",
     "The word 'build' may be left out. Images go to out/NAME.kpk under the project root: the\n"
     "target file's folder, or that folder's parent when it is called targets. An image whose\n"
     "bytes would not change is left alone; NAME.kpk.json beside it says what it was made from.\n"
     "A unit whose result is in the cache is not compiled. The others are, in worker processes,\n"
     "as many as fit into memory by the units' last peaks (or KPACK_MEM, such as 8G).\n",
     build_options, 1, SIZE_MAX, cmd_build},
    {"list", "IMAGE", "print what an image ships", NULL, image_options, 1, 1, cmd_list},
    {"show", "IMAGE MODULE[:ENTRY]", "print one module or entry of an image", NULL, image_options,
     2, 2, cmd_show},
    {"verify", "IMAGE", "check every byte of an image and every figure in it",
     "Decodes every group, compares every digest, and reads registers, shared memory, stack and\n"
     "code bytes again from each cubin. With '--rebuild', the target is built anew, without the\n"
     "cache, and its image must have the same bytes, a stamp aside; where it has not, the\n"
     "differences are printed.\n",
     verify_options, 1, 1, cmd_verify},
    {"diff", "BEFORE AFTER", "print how two images differ",
     "Compares modules, entries, constants, flags, figures, machine code, twins, levers and\n"
     "sizes. Exit status 0 however they differ, unless '--fail-on' names what must not happen,\n"
     "words joined by commas: removed, added (a module or an entry); spills, registers, smem,\n"
     "stack (more of it than before); code, constants, flags, levers (any difference); size\n"
     "(the file grew; size=5% allows 5 percent).\n",
     diff_options, 2, 2, cmd_diff},
    {"coverage", "IMAGE ...", "print which twins images ship",
     "A row for each parent, with how many twins each image ships, and for each of its twins;\n"
     "then parents without a twin, and constants that differ between images. A twin whose\n"
     "machine code is its parent's has no point: exit status 1.\n",
     image_options, 1, SIZE_MAX, cmd_coverage},
    {"audit", "--lookups=FILE IMAGE", "check an engine's lookups against an image",
     "Each lookup of FILE is answered, declared absent or undeclared; what the image ships and\n"
     "nobody asks for is listed too. FILE holds lines MODULE:ENTRY, with comments from '#' on,\n"
     "or JSON: a list of objects with module, entry and perhaps count, as the runtime counts\n"
     "misses. Exit status 1 when a lookup is undeclared; '--fail-on undeclared,unused' or\n"
     "'--fail-on unused' says otherwise.\n",
     audit_options, 1, 1, cmd_audit},
    {"lookups", "SRC ...", "collect an engine's lookups from its sources",
     "Reads C, C++, CUDA, Rust and Python, files or folders, and prints a line MODULE:ENTRY\n"
     "with its place for each call that has two literal strings side by side. The calls are\n"
     "those of kpk_resolve and try_target_kernel unless '--call' names others. What is not\n"
     "literal is printed as a comment.\n",
     lookups_options, 1, SIZE_MAX, cmd_lookups},
    {"size", "IMAGE", "print what takes the bytes of an image",
     "Modules share packed groups: a module's packed bytes are its part of them, by raw size.\n",
     image_options, 1, 1, cmd_size},
    {"report", "-o FILE IMAGE ...", "write a page about images for a browser",
     "One HTML file that needs nothing else: what the images are, what takes their bytes,\n"
     "entries with their resources, twins by target, levers, expected absences, and for two\n"
     "files how the second differs from the first, bundles target by target. Tables sort and\n"
     "search where scripts may run.\n",
     report_options, 1, SIZE_MAX, cmd_report},
    {"bundle", "-o FILE IMAGE ...", "join images of several targets in one file",
     "The runtime opens a bundle as it opens an image and reads the part for its device alone.\n"
     "Parts are the images given, byte for byte, by target; two images for one target or one\n"
     "arch are an error. A bundle among the images stands for its parts. The commands that read\n"
     "images show every part of a bundle, or with '--target' one; with '--json' they print\n"
     "{\"parts\": {TARGET: ...}} then, but for coverage, to which each part is an image.\n",
     bundle_options, 1, SIZE_MAX, cmd_bundle},
    {"extract", "IMAGE ... [MODULE[:ENTRY]]", "write a cubin out of an image to a file",
     "A module that was compiled entry by entry has a cubin for each: name the entry; the\n"
     "file is MODULE.ENTRY.cubin then. '--target' names the part of a bundle; without MODULE\n"
     "that part is written to TARGET.kpk, the image that was bundled. '--fatbin' takes several\n"
     "images, bundles as well, and writes CUDA's own container of the module's cubins in all\n"
     "of them to MODULE.fatbin, through the CUDA toolkit's fatbinary.\n",
     extract_options, 1, SIZE_MAX, cmd_extract},
    {"embed", "-o FILE IMAGE", "write an image as an object to link into a program",
     "The object's symbols are named after the image's file: for hopper.kpk kpk_image_hopper,\n"
     "its bytes, and kpk_image_hopper_size, their number; the C declarations are printed. Open\n"
     "it with kpk_open_memory. Every byte of the image is checked before.\n",
     embed_options, 1, 1, cmd_embed},
    {"header", "-o FILE TARGET.lua", "write a C header of a target's names and sizes",
     "Macros for C and C++: modules, entries, constants, blocks and bytes of shared memory, so\n"
     "that host code has them from where the kernels have them. Nothing is compiled.\n",
     header_options, 1, 1, cmd_header},
    {"explain", "TARGET.lua [MODULE]", "say why each unit would be compiled again",
     "For each unit: whether its result is in the cache ('hit'), or the first thing that differs\n"
     "from its last compile.\n",
     explain_options, 1, 2, cmd_explain},
    {"cache", "ACTION", "show, trim or clear the cache of compiled units",
     "ACTION is stats, trim, which removes what was used longest ago, or clear. Builds that\n"
     "run at the same time are not disturbed.\n",
     cache_options, 1, 1, cmd_cache},
    {"doctor", "", "say what a build would use, and what is missing",
     "Exit status 0 when a build would work here, else 1.\n", doctor_options, 0, 0, cmd_doctor},
    {"help", "[COMMAND]", "print help on kpack or on a command", NULL, no_options, 0, 1, cmd_help},
    {0},
};

const struct cli_command *cli_find_command(const char *name)
{
    for (const struct cli_command *command = cli_commands; command->name; command++)
        if (strcmp(command->name, name) == 0)
            return command;
    return NULL;
}
