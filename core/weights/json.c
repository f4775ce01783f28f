/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - the JSON library recurses and allocates, so it sees a text only after a scan without
 * recursion has bounded the depth and the number of containers.
 */
#include "core/weights/json.h"

#include "core/error.h"
#include "core/weights/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_PER_CONTAINER = 16 };

/* What the scan knows of the text so far. */
struct scan {
    uint64_t depth, containers;
    bool quoted, escaped;
};

/* Takes one byte; false where the text goes beyond a bound or holds a byte that JSON forbids. */
static bool step(struct scan *scan, unsigned char c, uint64_t depth, uint64_t containers)
{
    if (c < 0x20 && (scan->quoted || (c != '\t' && c != '\n' && c != '\r')))
        return false;
    if (scan->quoted) {
        scan->quoted = scan->escaped || c != '"';
        scan->escaped = !scan->escaped && c == '\\';
    } else if (c == '"') {
        scan->quoted = true;
    } else if (c == '{' || c == '[') {
        scan->depth++;
        scan->containers++;
    } else if ((c == '}' || c == ']') && scan->depth > 0) {
        scan->depth--;
    }
    return scan->depth <= depth && scan->containers <= containers;
}

static enum kt_status scan_text(const struct kt_file *file, uint64_t offset, uint64_t size,
                                const struct kt_json_bounds *bounds, struct kt_error *error)
{
    unsigned char chunk[4096];
    struct scan scan = {.depth = 0};
    uint64_t allowed = size / BYTES_PER_CONTAINER + bounds->spare;
    for (uint64_t at = 0; at < size; at += sizeof chunk) {
        uint64_t count = size - at < sizeof chunk ? size - at : sizeof chunk;
        enum kt_status status = kt_file_read(file, offset + at, chunk, count, error);
        if (status != KT_OK)
            return status;
        for (uint64_t i = 0; i < count; i++)
            if (!step(&scan, chunk[i], bounds->depth, allowed))
                return kt_fail(error, KT_E_FORMAT,
                               "%s: byte %" PRIu64 ": %s holds byte %02x here, nests %" PRIu64
                               " deep and has %" PRIu64 " objects and arrays so far; text, %" PRIu32
                               " and %" PRIu64 " are allowed",
                               file->label, offset + at + i, bounds->what, chunk[i], scan.depth,
                               scan.containers, bounds->depth, allowed);
    }
    return KT_OK;
}

static enum kt_status parse(const struct kt_file *file, uint64_t offset, const char *text,
                            size_t size, const char *what, json_t **root, struct kt_error *error)
{
    json_error_t problem;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (*root)
        return KT_OK;
    /* A failed allocation leaves no text; whatever is wrong with the JSON itself does. */
    if (!problem.text[0])
        return kt_fail(error, KT_E_NOMEM, "%s: no memory to parse %s", file->label, what);
    bool clean = kt_name_valid(problem.text, strlen(problem.text));
    return kt_fail(error, KT_E_FORMAT, "%s: byte %" PRIu64 ": %s is no JSON: %s", file->label,
                   offset + (uint64_t)problem.position, what,
                   clean ? problem.text : "a control character or no UTF-8");
}

enum kt_status kt_json_load(const struct kt_file *file, uint64_t offset, uint64_t size,
                            const struct kt_json_bounds *bounds, json_t **root,
                            struct kt_error *error)
{
    if (size > bounds->largest)
        return kt_fail(error, KT_E_FORMAT,
                       "%s: %s takes %" PRIu64 " bytes; at most %" PRIu64 " are read", file->label,
                       bounds->what, size, bounds->largest);
    enum kt_status status = scan_text(file, offset, size, bounds, error);
    if (status != KT_OK)
        return status;
    char *text = malloc((size_t)size + 1);
    if (!text)
        return kt_fail(error, KT_E_NOMEM, "%s: no memory for the %" PRIu64 " bytes of %s",
                       file->label, size, bounds->what);
    status = kt_file_read(file, offset, text, size, error);
    if (status == KT_OK)
        status = parse(file, offset, text, (size_t)size, bounds->what, root, error);
    free(text);
    return status;
}

enum kt_status kt_json_open(const char *path, const struct kt_json_bounds *bounds,
                            char label[KT_LABEL_SIZE], json_t **root, struct kt_error *error)
{
    struct kt_file file;
    enum kt_status status = kt_file_open(path, KT_IO_READ, &file, error);
    if (status != KT_OK)
        return status;
    memcpy(label, file.label, KT_LABEL_SIZE);
    status = kt_json_load(&file, 0, file.size, bounds, root, error);
    kt_file_close(&file);
    return status;
}
