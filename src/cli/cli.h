#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "base/mem.h"

/* What the commands share: the command table, parsed arguments, and the only place of the tool that
 * prints and decides exit codes. */

enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

struct cli_option {
    char letter;       /* 0: none */
    const char *name;  /* without the dashes; NULL: none */
    const char *value; /* its argument's name for help; NULL: a flag */
    const char *help;  /* NULL ends a table */
};

struct cli_args {
    const char **values; /* by position in the command's table: NULL not given, "" a flag given */
    const char **words;  /* what is no option, in order */
    size_t word_count;
};

struct cli {
    const struct cli_command *command;
    struct arena arena;
    struct diags diags;
    size_t printed; /* diagnostics that cli_flush has shown */
};

struct cli_command {
    const char *name;
    const char *words;   /* for the usage line: "IMAGE MODULE[:ENTRY]" */
    const char *summary; /* one line */
    const char *about;   /* paragraphs for its own help page; may be NULL */
    const struct cli_option *options;
    size_t min_words, max_words;
    enum cli_exit (*run)(struct cli *cli, const struct cli_args *args);
};

/* Ended by a NULL name. */
extern const struct cli_command cli_commands[];

const struct cli_command *cli_find_command(const char *name);

/* Runs a whole command line, argv[0] included; returns the process's exit status. */
int cli_main(int argc, char **argv);

/* Prints the diagnostics that were added since the last call on standard error. */
void cli_flush(struct cli *cli);

/* Adds an error about the command line and says where its help is. Returns CLI_USAGE. */
enum cli_exit cli_usage(struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A usage error with the nearest command's name. */
enum cli_exit cli_unknown_command(struct cli *cli, const char *word);

/* One of each per command; options' positions are enums beside their tables. */
enum cli_exit cmd_build(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_explain(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_cache(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_list(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_show(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_verify(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_diff(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_coverage(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_audit(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_lookups(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_size(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_header(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_report(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_bundle(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_extract(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_embed(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_doctor(struct cli *cli, const struct cli_args *args);
enum cli_exit cmd_help(struct cli *cli, const struct cli_args *args);

enum {
    BUILD_FILE,
    BUILD_JOBS,
    BUILD_OUT,
    BUILD_CUDA,
    BUILD_KEEP_GOING,
    BUILD_VERBOSE,
    BUILD_QUIET,
    BUILD_PROGRESS,
    BUILD_UNIT_TIMEOUT,
    BUILD_STAMP,
    BUILD_CACHE,
    BUILD_NO_CACHE,
    BUILD_DRY_RUN,
    BUILD_DEPFILE,
    BUILD_COMMANDS,
    BUILD_TIMINGS,
    BUILD_OPTIONS, /* how many there are */
};

enum {
    EXPLAIN_CUDA,
    EXPLAIN_CACHE,
};

enum {
    CACHE_DIR,
    CACHE_MAX,
};

enum {
    LIST_TARGET, /* of list, show, size and coverage */
    LIST_JSON,
};

enum {
    VERIFY_TARGET,
    VERIFY_REBUILD,
    VERIFY_JSON,
};

enum {
    DIFF_TARGET,
    DIFF_FAIL_ON,
    DIFF_JSON,
};

enum {
    AUDIT_LOOKUPS,
    AUDIT_TARGET,
    AUDIT_FAIL_ON,
    AUDIT_JSON,
};

enum {
    LOOKUPS_CALL,
    LOOKUPS_JSON,
};

enum {
    BUNDLE_FILE,
};

enum {
    EXTRACT_FILE,
    EXTRACT_TARGET,
    EXTRACT_FATBIN,
    EXTRACT_CUDA,
};

enum {
    EMBED_FILE,
    EMBED_MACHINE,
};

enum {
    REPORT_FILE,
    REPORT_TARGET,
};

enum {
    HEADER_FILE,
};

enum {
    DOCTOR_CUDA,
};

#endif
