/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.h - kt model pull and verify. A pull is a list of a repository's files (hub.c), a choice among them
 * (choose.c), transfers of several at once (transfer.c, fetch.c), checksums (sums.c), and a name in the
 * registry (pull.c).
 */
#ifndef KT_ENGINE_PULL_PULL_H
#define KT_ENGINE_PULL_PULL_H

#include "tools/kt/model/options.h"
#include "tools/kt/model/registry.h"

#include <curl/curl.h>
#include <nettle/sha1.h>
#include <nettle/sha2.h>

enum { PULL_MOST_FILES = 100000, PULL_MOST_LIST = 16 << 20 };

/* A file of a repository. */
struct pull_file {
    char *path; /* with slashes */
    uint64_t size;
    char sha256[65]; /* of large files; or "" */
    char sha1[41];   /* of git's object, of others; or "" */
    bool chosen;
    uint64_t have; /* bytes that are here */
    bool done;
};

struct pull {
    struct kt_cli *cli;
    const struct model_args *args;
    enum model_hub hub;
    char *endpoint, *token; /* token NULL: none */
    char *repository, *revision, *commit, *folder;
    char *name; /* of the known model; NULL: it is none */
    struct pull_file *files;
    size_t n_files;
    struct pull_sums {
        struct pull_sum {
            char sha256[65];
            char *path;
        } * sum;
        size_t n;
    } sums; /* of files in the folder */
};

int pull_verify(struct kt_cli *cli, const char *name);

/* ---- names.c -------------------------------------------------------------------------------- */

/* May a server name a file so? Relative, no .., no control characters, nothing that kt writes itself. */
bool pull_is_safe(const char *path);
/* The file is of a GGUF model in several files: the length of what all their names begin with; else 0. */
size_t pull_split(const char *path);
/* OWNER/NAME. */
bool pull_is_repository(const char *text);
/* With %41 for what cannot stand in a URL; slashes stay if `keep_slashes`. */
char *pull_escape(const struct kt_cli *cli, const char *text, bool keep_slashes);
/* Same scheme, host and port? */
bool pull_same_origin(const char *url, const char *other);
bool pull_is_loopback(const char *url);
/* May this be asked? https, or http of this machine; after a redirection from `from` (or NULL) nothing less
 * protected. */
bool pull_may_ask(const char *url, const char *from, bool allow_http);

/* ---- hub.c ---------------------------------------------------------------------------------- */

/* Where the hub is, by the environment. Returns 0, or an exit code after a message; so do the others. */
int pull_find_hub(struct pull *pull);
/* Lists the files, and fixes the commit. */
int pull_list(struct pull *pull);
char *pull_url(const struct pull *pull, const struct pull_file *file);

/* ---- choose.c ------------------------------------------------------------------------------- */

int pull_choose(struct pull *pull);
/* The file that the model is opened by, among the chosen; NULL: the folder; *none: there are no weights. */
const struct pull_file *pull_first(const struct pull *pull, bool *none);

/* ---- fetch.c -------------------------------------------------------------------------------- */

/* One thing that is asked for, until it is whole or given up. */
struct pull_transfer {
    struct pull *pull;
    struct pull_file *file; /* NULL: to memory */
    char *url, *at;         /* at: where redirections led */
    char *text;             /* to memory, 0 at its end */
    size_t length;
    char *next; /* the next page of a list, by the header Link */
    int fd;     /* of the part */
    char *part;
    uint64_t have; /* bytes in it; their hashes are: */
    struct sha256_ctx sha256;
    struct sha1_ctx sha1;
    CURL *easy;
    struct curl_slist *headers;
    long status;
    unsigned redirections, tries;
    bool began, goes_on;            /* a body has begun; it is the rest of a part */
    bool again;                     /* it was fetched again after a wrong checksum */
    uint64_t before;                /* `have` at the last try */
    size_t n_other;                 /* bytes of headers, and of bodies that are not wanted */
    double wait, not_before, heard; /* heard: when bytes came last */
    bool silent;                    /* it was ended, for none came */
    bool running, over, failed;
    char problem[CURL_ERROR_SIZE], curl_problem[CURL_ERROR_SIZE];
};

/* Opens the part, and reads what is in it. */
int pull_prepare(struct pull_transfer *transfer);
bool pull_start(struct pull_transfer *transfer);
/* What the end of a try means: again, later, over. */
void pull_end(struct pull_transfer *transfer, CURLcode result);
void pull_release(struct pull_transfer *transfer);

/* ---- transfer.c ----------------------------------------------------------------------------- */

/* Fetches one text. */
int pull_text(struct pull *pull, const char *url, struct pull_transfer *transfer);
/* Fetches all chosen files that are not done. */
int pull_files(struct pull *pull);
/* A signal wants it to end: 0, or its number. */
int pull_signal(void);
void pull_catch_signals(void);

/* ---- sums.c --------------------------------------------------------------------------------- */

/* Checksums of a folder's files, as sha256sum(1) reads them: .kt-pull.sha256. */
int pull_sums_read(const struct kt_cli *cli, const char *folder, struct pull_sums *sums);
int pull_sums_write(const struct kt_cli *cli, const char *folder, const struct pull_sums *sums);
void pull_sums_set(const struct kt_cli *cli, struct pull_sums *sums, const char *path, const char *sha256);
/* NULL: unknown. */
const char *pull_sums_get(const struct pull_sums *sums, const char *path);
void pull_sums_free(struct pull_sums *sums);
void pull_hex(const uint8_t *digest, size_t n, char *text);
/* The SHA-1 of the object that git makes of a file of this size. */
bool pull_blob_file(const char *path, uint64_t size, char sha1[41]);
/* The SHA-256 of a file; adds its bytes to *done, of *total that progress shows (may be NULL). False with
 * errno.
 */
bool pull_sum_file(const char *path, char sha256[65], uint64_t *done, uint64_t total);

#endif
