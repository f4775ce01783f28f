/* SPDX-License-Identifier: Apache-2.0 */
/* write_family.c - write_family [--f32|--coded|--decoded] TABLES NAME OUT: a tiny model of a family, as a
 * GGUF file if OUT ends in .gguf, else as a folder. --ids prints the ids of its test instead. For trying
 * things by hand and for compare_engines.py. */
#include "tests/engine/families/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    static struct family family;
    static const char *const names[] = {"", "--f32", "--coded", "--decoded"};
    int form = 0;
    for (int i = 1; i < 4 && argc > 1; i++)
        if (strcmp(argv[1], names[i]) == 0)
            form = i;
    argv += form > 0;
    if (argc - (form > 0) != 4)
        die("write_family [--f32|--coded|--decoded] TABLES NAME OUT.gguf|FOLDER|--ids");
    family_open(&family, argv[1], argv[2]);
    const char *out = argv[3], *end = strrchr(out, '.');
    if (strcmp(out, "--ids") == 0) {
        for (uint32_t i = 0; i < family.n_tokens; i++)
            printf("%d ", family_id(&family, i));
        printf("\n");
    } else if (end && strcmp(end, ".gguf") == 0) {
        family_write_gguf(&family, out, (enum form)form);
    } else {
        if (mkdir(out, 0777) != 0 && errno != EEXIST)
            die("cannot make %s: %s", out, strerror(errno));
        family_write_folder(&family, out, (enum form)form);
    }
    family_close(&family);
    return EXIT_SUCCESS;
}
