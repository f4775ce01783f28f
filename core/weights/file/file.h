/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - a file of a checkpoint: opened once, mapped or read. */
#ifndef KT_CORE_WEIGHTS_FILE_FILE_H
#define KT_CORE_WEIGHTS_FILE_FILE_H

#include <kt/kt.h>

enum { KT_LABEL_SIZE = 208 };

struct kt_file {
    int fd;
    enum kt_io io;
    uint64_t size;             /* when it was opened */
    const uint8_t *map;        /* NULL with KT_IO_READ */
    char label[KT_LABEL_SIZE]; /* kt_file_label of its path */
};

/* A path for messages: one line; of a long path the end. */
void kt_file_label(const char *path, char label[KT_LABEL_SIZE]);

/* "folder/name", to be freed; NULL: no memory. */
char *kt_path_join(const char *folder, const char *name, struct kt_error *error);

enum kt_status kt_file_open(const char *path, enum kt_io io, struct kt_file *file, struct kt_error *error);
void kt_file_close(struct kt_file *file);

/* KT_E_IO if the file has become shorter since it was opened. */
enum kt_status kt_file_check_size(const struct kt_file *file, struct kt_error *error);

/* Reads exactly `size` bytes, not through the mapping: a file that became shorter is KT_E_IO, not a signal.
 */
enum kt_status kt_file_read(const struct kt_file *file, uint64_t offset, void *to, uint64_t size,
                            struct kt_error *error);

/* A header read from its beginning to its end, through a window of fixed size. */
struct kt_reader {
    const struct kt_file *file;
    uint64_t at;         /* in the file */
    uint64_t begin, end; /* what the window holds */
    uint64_t solid;      /* up to there, no hole of the file was found */
    uint8_t window[32768];
};

/* Reads the next bytes, called `what` in messages; KT_E_FORMAT if the file ends before. */
enum kt_status kt_reader_get(struct kt_reader *reader, void *to, uint64_t size, const char *what,
                             struct kt_error *error);
enum kt_status kt_reader_u32(struct kt_reader *reader, uint32_t *value, const char *what,
                             struct kt_error *error);
enum kt_status kt_reader_u64(struct kt_reader *reader, uint64_t *value, const char *what,
                             struct kt_error *error);
enum kt_status kt_reader_skip(struct kt_reader *reader, uint64_t size, const char *what,
                              struct kt_error *error);

#endif
