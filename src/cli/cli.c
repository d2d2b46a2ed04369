#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/term.h"

void cli_flush(struct cli *cli)
{
    struct str text = {0};
    diag_render(&cli->diags, cli->printed, term_colour(stderr), &text);
    cli->printed = cli->diags.count;
    fflush(stdout);
    fwrite(str_text(&text), 1, text.len, stderr);
    str_free(&text);
}

enum cli_exit cli_usage(struct cli *cli, const char *format, ...)
{
    va_list args;
    struct str text = {0};
    va_start(args, format);
    str_addv(&text, format, args);
    va_end(args);
    diag_error(&cli->diags, "%s", str_text(&text));
    str_free(&text);
    cli_flush(cli);
    if (cli->command)
        fprintf(stderr, "usage: kpack %s%s%s%s\n", cli->command->name,
                cli->command->options->help ? " [OPTION ...]" : "",
                cli->command->words[0] ? " " : "", cli->command->words);
    fprintf(stderr, "'kpack help%s%s' says more\n", cli->command ? " " : "",
            cli->command ? cli->command->name : "");
    return CLI_USAGE;
}

enum {
    LONG_ONLY = 256, /* getopt's values of options without a letter start here */
    OPTIONS_MAX = 32,
};

enum cli_exit cli_unknown_command(struct cli *cli, const char *word)
{
    const char *names[OPTIONS_MAX];
    size_t count = 0;
    for (; cli_commands[count].name; count++)
        names[count] = cli_commands[count].name;
    const char *target = arena_printf(&cli->arena, "%s.lua", word);
    const char *nearest = file_is_regular(target) ? target : str_nearest(word, names, count);
    if (nearest)
        return cli_usage(cli, "unknown command '%s' (did you mean '%s'?)", word, nearest);
    return cli_usage(cli, "unknown command '%s', expected a command or a TARGET.lua", word);
}

/* ---- Options ----------------------------------------------------------------------------------
 */

static size_t option_count(const struct cli_option *options)
{
    size_t count = 0;
    while (options[count].help)
        count++;
    return count;
}

/* getopt's tables; a long option's value is LONG_ONLY + its position, --help's the one after. */
static void option_tables(const struct cli_option *options, struct option *out_long,
                          struct str *out_short)
{
    size_t count = option_count(options), longs = 0;
    if (count >= OPTIONS_MAX)
        BUG("more options than OPTIONS_MAX");
    str_adds(out_short, ":h");
    for (size_t i = 0; i < count; i++) {
        if (options[i].letter)
            str_addf(out_short, "%c%s", options[i].letter, options[i].value ? ":" : "");
        if (options[i].name)
            out_long[longs++] = (struct option){
                .name = options[i].name,
                .has_arg = options[i].value ? required_argument : no_argument,
                .val = LONG_ONLY + (int)i,
            };
    }
    out_long[longs] = (struct option){.name = "help", .val = LONG_ONLY + (int)count};
}

static size_t option_position(const struct cli_option *options, int value)
{
    if (value >= LONG_ONLY)
        return (size_t)(value - LONG_ONLY);
    size_t i = 0;
    while (options[i].help && options[i].letter != value)
        i++;
    return i;
}

static const char *option_text(struct cli *cli, size_t position)
{
    const struct cli_option *option = &cli->command->options[position];
    if (option->name)
        return arena_printf(&cli->arena, "--%s", option->name);
    return option->letter ? arena_printf(&cli->arena, "-%c", option->letter) : "--help";
}

static enum cli_exit unknown_option(struct cli *cli, const char *given)
{
    const struct cli_option *options = cli->command->options;
    if (optopt >= LONG_ONLY)
        return cli_usage(cli, "option '%s' takes no value",
                         option_text(cli, option_position(options, optopt)));
    if (optopt)
        return cli_usage(cli, "unknown option '-%c' of 'kpack %s'", optopt, cli->command->name);
    const char *names[OPTIONS_MAX] = {"help"};
    size_t count = 1;
    for (size_t i = 0; i < option_count(options); i++)
        if (options[i].name)
            names[count++] = options[i].name;
    char *word = arena_strndup(&cli->arena, given, strcspn(given, "="));
    const char *nearest = str_nearest(word + 2, names, count);
    if (nearest)
        return cli_usage(cli, "unknown option '%s' of 'kpack %s' (did you mean '--%s'?)", word,
                         cli->command->name, nearest);
    return cli_usage(cli, "unknown option '%s' of 'kpack %s'", word, cli->command->name);
}

/* Fills *out_args; false with *out_exit when there is nothing to run: help asked for, or a mistake.
 */
static bool parse(struct cli *cli, int argc, char **argv, struct cli_args *out_args,
                  enum cli_exit *out_exit)
{
    const struct cli_option *options = cli->command->options;
    struct option longs[OPTIONS_MAX + 1] = {0};
    struct str shorts = {0};
    option_tables(options, longs, &shorts);
    char *short_text = arena_strdup(&cli->arena, str_text(&shorts));
    str_free(&shorts);
    *out_args = (struct cli_args){
        .values = arena_alloc(&cli->arena, option_count(options) + 1, sizeof(char *)),
        .words = arena_alloc(&cli->arena, (size_t)argc, sizeof(char *)),
    };
    opterr = 0;
    optind = 1;
    int got;
    while ((got = getopt_long(argc, argv, short_text, longs, NULL)) != -1) {
        if (got == '?') {
            *out_exit = unknown_option(cli, argv[optind - 1]);
            return false;
        }
        size_t position = option_position(options, got == ':' ? optopt : got);
        if (got == ':' || (optarg && !optarg[0])) {
            *out_exit = cli_usage(cli, "option '%s' needs a value: %s", option_text(cli, position),
                                  options[position].value);
            return false;
        }
        if (got == 'o' && strcmp(optarg, "-") == 0) {
            *out_exit = cli_usage(cli, "option '-o' takes no '-' for standard output: name a file");
            return false;
        }
        if (position == option_count(options)) {
            const char *words[] = {cli->command->name};
            *out_exit = cmd_help(cli, &(struct cli_args){.words = words, .word_count = 1});
            return false;
        }
        out_args->values[position] = optarg ? optarg : "";
    }
    while (optind < argc)
        out_args->words[out_args->word_count++] = argv[optind++];
    return true;
}

/* ---- Commands ---------------------------------------------------------------------------------
 */

static enum cli_exit run_command(struct cli *cli, int argc, char **argv)
{
    struct cli_args args;
    enum cli_exit result;
    if (!parse(cli, argc, argv, &args, &result))
        return result;
    const struct cli_command *command = cli->command;
    for (size_t i = 0; i < args.word_count; i++)
        if (!args.words[i][0])
            return cli_usage(cli, "word %zu of 'kpack %s' is empty, expected %s", i + 1,
                             command->name, command->words);
    if (args.word_count < command->min_words)
        return cli_usage(cli, "'kpack %s' needs %s", command->name, command->words);
    if (args.word_count > command->max_words)
        return cli_usage(cli, "'kpack %s' has no use for '%s'", command->name,
                         args.words[command->max_words]);
    return command->run(cli, &args);
}

static enum cli_exit dispatch(struct cli *cli, int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : NULL;
    if (!first)
        return cli_usage(cli, "nothing to do: expected a command or a TARGET.lua");
    if (strcmp(first, "--version") == 0) {
        puts("kpack " KPACK_VERSION);
        return CLI_DONE;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        return cmd_help(cli, &(struct cli_args){0});
    cli->command = cli_find_command(first);
    if (cli->command)
        return run_command(cli, argc - 1, argv + 1);
    if (first[0] != '-' && !str_ends(first, ".lua"))
        return cli_unknown_command(cli, first);
    cli->command = cli_find_command("build");
    return run_command(cli, argc, argv);
}

/* A closed standard stream would give its number to the next file opened, an image perhaps, and
 * what is printed would go there. */
static void open_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", O_RDWR);
}

int cli_main(int argc, char **argv)
{
    open_streams();
    signal(SIGXFSZ,
           SIG_IGN); /* a write past the size limit is an error, which leaves no half file */
    struct cli cli = {0};
    enum cli_exit result = dispatch(&cli, argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && result == CLI_DONE) {
        diag_error(&cli.diags, "cannot write to standard output: %s", strerror(errno));
        result = CLI_FAILED;
    }
    cli_flush(&cli);
    diag_free(&cli.diags);
    arena_free(&cli.arena);
    return (int)result;
}
