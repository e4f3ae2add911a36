#include "cli/env.h"

#include <stdlib.h>

void sc_env_read(sc_env *out)
{
    out->path = getenv("PATH");
    out->term = getenv("TERM");
    out->no_color = getenv("NO_COLOR");
}
