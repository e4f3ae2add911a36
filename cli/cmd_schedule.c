#include "cli/cmd.h"
#include "schedules/gen.h"

#include <stdio.h>

int sc_cmd_schedule_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    size_t n = 0;
    const sc_gen_info *list = sc_gen_list(&n);
    for (size_t i = 0; i < n; i++) {
        (void)printf("%-10s %s\n", list[i].name, list[i].summary);
    }
    return 0;
}
