/* SPDX-License-Identifier: Apache-2.0 */
/* write_family.c - write_family [--f32] TABLES NAME OUT: a tiny model of a family, as a GGUF file if OUT ends
 * in .gguf, else as a folder. --ids prints the ids of its test instead. For trying things by hand and for
 * compare_engines.py. */
#include "tests/engine/families/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    static struct family family;
    bool is_wide = argc > 1 && strcmp(argv[1], "--f32") == 0;
    argv += is_wide;
    if (argc - is_wide != 4)
        die("write_family [--f32] TABLES NAME OUT.gguf|FOLDER|--ids");
    family_open(&family, argv[1], argv[2]);
    const char *out = argv[3], *end = strrchr(out, '.');
    if (strcmp(out, "--ids") == 0) {
        for (uint32_t i = 0; i < family.n_tokens; i++)
            printf("%d ", family_id(&family, i));
        printf("\n");
    } else if (end && strcmp(end, ".gguf") == 0) {
        family_write_gguf(&family, out, is_wide);
    } else {
        if (mkdir(out, 0777) != 0 && errno != EEXIST)
            die("cannot make %s: %s", out, strerror(errno));
        family_write_folder(&family, out, is_wide);
    }
    family_close(&family);
    return EXIT_SUCCESS;
}
