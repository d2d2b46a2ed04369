#include "cli/cli.h"

#include <stdio.h>

#include "base/str.h"

static void print_options(const struct cli_option *options)
{
    printf("\nOptions:\n");
    for (const struct cli_option *option = options; option->help; option++) {
        struct str left = {0};
        if (option->letter)
            str_addf(&left, "-%c%s", option->letter, option->name ? ", " : "");
        if (option->name)
            str_addf(&left, "%s--%s", option->letter ? "" : "    ", option->name);
        if (option->value)
            str_addf(&left, "%c%s", option->name ? '=' : ' ', option->value);
        printf("  %-26s %s\n", str_text(&left), option->help);
        str_free(&left);
    }
    printf("  %-26s %s\n", "-h, --help", "print this text");
}

static void print_command(const struct cli_command *command)
{
    printf("usage: kpack %s%s%s%s\n\n%s\n", command->name,
           command->options->help ? " [OPTION ...]" : "", command->words[0] ? " " : "",
           command->words, command->summary);
    if (command->about)
        printf("\n%s", command->about);
    print_options(command->options);
}

enum cli_exit cmd_help(struct cli *cli, const struct cli_args *args)
{
    if (args->word_count) {
        const struct cli_command *command = cli_find_command(args->words[0]);
        if (!command)
            return cli_unknown_command(cli, args->words[0]);
        print_command(command);
        return CLI_DONE;
    }
    printf("kpack compiles CUDA kernels ahead of time and packs them into one image per target.\n\n"
           "usage: kpack [build] [OPTION ...] TARGET.lua ...\n"
           "       kpack COMMAND [ARGUMENT ...]\n\nCommands:\n");
    for (const struct cli_command *command = cli_commands; command->name; command++)
        printf("  %-9s %s\n", command->name, command->summary);
    printf("\n'kpack help COMMAND' says more on each; 'kpack --version' prints the version.\n"
           "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
    return CLI_DONE;
}
