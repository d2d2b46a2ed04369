#include <string.h>

#include "cli/cli.h"
#include "compile/compile.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], COMPILE_WORKER_ARG) == 0)
        return compile_worker_main(argc, argv);
    return cli_main(argc, argv);
}
