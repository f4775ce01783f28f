/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - one file or text that is asked for by HTTP: what comes, and what it means. */
#define _GNU_SOURCE

#include "tools/engine/base/rename.h"
#include "tools/engine/pull/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_REDIRECTIONS = 10, MOST_OTHER = 1 << 18, MOST_WAIT = 120 };

static void say(struct pull_transfer *transfer, const char *format, ...) KT_PRINTF(2, 3);
static void say(struct pull_transfer *transfer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(transfer->problem, sizeof(transfer->problem), format, arguments);
    va_end(arguments);
}

/* ---- the part ------------------------------------------------------------------------------- */

static void begin_anew(struct pull_transfer *transfer)
{
    transfer->have = 0;
    sha256_init(&transfer->sha256);
    sha1_init(&transfer->sha1);
    if (transfer->file && *transfer->file->sha1) { /* as git hashes its objects */
        char head[40];
        int length = snprintf(head, sizeof(head), "blob %" PRIu64, transfer->file->size);
        sha1_update(&transfer->sha1, (size_t)length + 1, (const uint8_t *)head);
    }
}

static void add_bytes(struct pull_transfer *transfer, const void *data, size_t n)
{
    sha256_update(&transfer->sha256, n, data);
    if (*transfer->file->sha1)
        sha1_update(&transfer->sha1, n, data);
    transfer->have += n;
}

/* Those above the file that are missing. */
static bool make_folders(const char *path)
{
    char *folder = strdup(path);
    bool made = folder != NULL;
    for (char *slash = made ? strchr(folder + 1, '/') : NULL; slash && made; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        made = mkdir(folder, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    int failure = errno;
    free(folder);
    errno = failure;
    return made;
}

/* What an earlier pull has left. */
static bool read_part(struct pull_transfer *transfer)
{
    struct stat info;
    uint8_t *buffer = malloc(1 << 20);
    bool read_all = buffer && fstat(transfer->fd, &info) == 0 && S_ISREG(info.st_mode);
    if (read_all && (uint64_t)info.st_size > transfer->file->size)
        read_all = ftruncate(transfer->fd, 0) == 0;
    ssize_t n = 1;
    while (read_all && n > 0 && pull_signal() == 0) {
        n = read(transfer->fd, buffer, 1 << 20);
        if (n > 0)
            add_bytes(transfer, buffer, (size_t)n);
    }
    free(buffer);
    return read_all && n >= 0;
}

/* ---- what comes ----------------------------------------------------------------------------- */

/* The value of a header, if it is this one. */
static const char *value_of(const char *line, size_t length, const char *name, size_t *n)
{
    size_t own = strlen(name);
    if (length <= own || strncasecmp(line, name, own) != 0 || line[own] != ':')
        return NULL;
    const char *value = line + own + 1, *end = line + length;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *n = (size_t)(end - value);
    return value;
}

/* Link: <URL>; rel="next" */
static void take_link(struct pull_transfer *transfer, const char *value, size_t n)
{
    char *text = strndup(value, n), *end = text ? strchr(text, '>') : NULL;
    if (end && *text == '<' && strstr(end, "rel=\"next\"")) {
        *end = '\0';
        free(transfer->next);
        transfer->next = strdup(text + 1);
    }
    free(text);
}

/* A part must go on where it ends, and be of a whole as large as was said. */
static bool check_range(struct pull_transfer *transfer, const char *value, size_t n)
{
    char text[80];
    uint64_t from, to, total;
    snprintf(text, sizeof(text), "%.*s", (int)(n < sizeof(text) ? n : sizeof(text) - 1), value);
    if (sscanf(text, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &from, &to, &total) == 3 &&
        from == transfer->have && transfer->file && total == transfer->file->size)
        return true;
    say(transfer, "bytes from %" PRIu64 " of %" PRIu64 " were asked for, and '%s' came", transfer->have,
        transfer->file ? transfer->file->size : 0, text);
    return false;
}

static size_t take_header(char *line, size_t size, size_t n, void *data)
{
    struct pull_transfer *transfer = data;
    size_t length = size * n, n_value;
    const char *value;
    transfer->heard = kt_cli_now();
    transfer->n_other += length;
    if (transfer->n_other > MOST_OTHER) {
        say(transfer, "its headers are too long");
        return 0;
    }
    if (length > 5 && strncmp(line, "HTTP/", 5) == 0)
        transfer->wait = 0;
    if ((value = value_of(line, length, "Retry-After", &n_value)) != NULL && n_value > 0 && n_value < 8) {
        transfer->wait = strtod(value, NULL);
        transfer->wait = transfer->wait > MOST_WAIT ? MOST_WAIT : transfer->wait < 0 ? 0 : transfer->wait;
    }
    if ((value = value_of(line, length, "Link", &n_value)) != NULL)
        take_link(transfer, value, n_value);
    if (transfer->have > 0 && (value = value_of(line, length, "Content-Range", &n_value)) != NULL) {
        (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
        if (transfer->status == 206 && !(transfer->goes_on = check_range(transfer, value, n_value)))
            return 0;
    }
    return length;
}

/* The first bytes of a whole body, where a range may have been asked for. */
static bool begin_body(struct pull_transfer *transfer)
{
    transfer->began = true;
    if (!transfer->file || transfer->have == 0)
        return true;
    if (transfer->status == 206 && !transfer->goes_on)
        say(transfer, "a part came that does not say which one it is");
    if (transfer->status == 206)
        return transfer->goes_on;
    if (ftruncate(transfer->fd, 0) != 0 || lseek(transfer->fd, 0, SEEK_SET) != 0) {
        say(transfer, "%s: %s", transfer->part, strerror(errno));
        return false;
    }
    begin_anew(transfer);
    return true;
}

static bool keep_text(struct pull_transfer *transfer, const char *data, size_t n)
{
    if (transfer->length + n > PULL_MOST_LIST) {
        say(transfer, "the answer is longer than %d MiB", PULL_MOST_LIST >> 20);
        return false;
    }
    char *grown = realloc(transfer->text, transfer->length + n + 1);
    if (!grown) {
        say(transfer, "out of memory");
        return false;
    }
    transfer->text = grown;
    memcpy(grown + transfer->length, data, n);
    transfer->length += n;
    grown[transfer->length] = '\0';
    return true;
}

static bool keep_bytes(struct pull_transfer *transfer, const char *data, size_t n)
{
    if (transfer->have + n > transfer->file->size) {
        say(transfer, "more bytes came than the %" PRIu64 " that were said", transfer->file->size);
        return false;
    }
    for (size_t done = 0; done < n;) {
        ssize_t written = write(transfer->fd, data + done, n - done);
        if (written < 0 && errno != EINTR) {
            say(transfer, "%s: %s", transfer->part, strerror(errno));
            transfer->failed = true; /* asking again would not help */
            return false;
        }
        done += written > 0 ? (size_t)written : 0;
    }
    add_bytes(transfer, data, n);
    transfer->file->have = transfer->have;
    return true;
}

static size_t take_body(char *data, size_t size, size_t n, void *own)
{
    struct pull_transfer *transfer = own;
    size_t length = size * n;
    transfer->heard = kt_cli_now();
    if (!transfer->began)
        (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
    if (transfer->status != 200 && transfer->status != 206) {
        transfer->n_other += length;
        return transfer->n_other > MOST_OTHER ? 0 : length;
    }
    if (!transfer->began && !begin_body(transfer))
        return 0;
    return (transfer->file ? keep_bytes(transfer, data, length) : keep_text(transfer, data, length)) ? length
                                                                                                     : 0;
}

/* Ends what has been silent for too long. CURLOPT_LOW_SPEED_TIME looks at the mean of some seconds, so what
 * came before would count. */
static int check_silence(void *own, curl_off_t total, curl_off_t now, curl_off_t sent_total, curl_off_t sent)
{
    struct pull_transfer *transfer = own;
    (void)total, (void)now, (void)sent_total, (void)sent;
    if (kt_cli_now() - transfer->heard <= (double)transfer->pull->args->timeout)
        return 0;
    say(transfer, "nothing came for %" PRIu64 " s", transfer->pull->args->timeout);
    transfer->silent = true;
    return 1;
}

/* ---- asking --------------------------------------------------------------------------------- */

static void set_protocols(CURL *easy)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
}

/* The token is for the hub alone, not for where it sends us. */
static bool set_headers(struct pull_transfer *transfer)
{
    const struct pull *pull = transfer->pull;
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    if (pull->token && pull_same_origin(transfer->at, pull->endpoint)) {
        char *line = kt_cli_format(pull->cli, "Authorization: Bearer %s", pull->token);
        transfer->headers = curl_slist_append(NULL, line);
        free(line);
        if (!transfer->headers)
            return false;
    }
    return curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK;
}

bool pull_start(struct pull_transfer *transfer)
{
    const struct pull *pull = transfer->pull;
    long timeout = (long)pull->args->timeout;
    if (!transfer->easy)
        transfer->easy = curl_easy_init();
    CURL *easy = transfer->easy;
    if (!easy || !set_headers(transfer))
        return false;
    transfer->status = 0;
    transfer->n_other = transfer->length = 0;
    transfer->began = transfer->goes_on = transfer->silent = false;
    transfer->heard = kt_cli_now();
    *transfer->problem = *transfer->curl_problem = '\0';
    /* A body that breaks off may have moved it. */
    if (transfer->file && lseek(transfer->fd, (off_t)transfer->have, SEEK_SET) < 0)
        return false;
    char range[32];
    snprintf(range, sizeof(range), "%" PRIu64 "-", transfer->have);
    set_protocols(easy);
    (void)curl_easy_setopt(easy, CURLOPT_RANGE, transfer->have > 0 ? range : NULL);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_problem);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "kt-kernel");
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, timeout);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, check_silence);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    return curl_easy_setopt(easy, CURLOPT_URL, transfer->at) == CURLE_OK;
}

/* ---- what its end means --------------------------------------------------------------------- */

static void give_up(struct pull_transfer *transfer)
{
    transfer->over = transfer->failed = true;
}

/* Later, if it has not been tried often; what has come since the last try counts. */
static void try_again(struct pull_transfer *transfer)
{
    const struct pull_transfer *t = transfer;
    double pause = t->pull->args->retry_wait * (double)(1u << (t->tries < 7 ? t->tries : 7));
    pause = pause > MOST_WAIT ? MOST_WAIT : pause;
    if (t->have >= t->before + (1 << 20))
        transfer->tries = 0;
    transfer->before = t->have;
    if (transfer->tries++ >= t->pull->args->retries) {
        give_up(transfer);
        return;
    }
    transfer->redirections = 0;
    free(transfer->at);
    transfer->at = kt_cli_format(t->pull->cli, "%s", t->url);
    transfer->not_before = kt_cli_now() + (t->wait > pause ? t->wait : pause);
    kt_cli_info(t->pull->cli, "%s: %s; again in %.1f s", t->url, t->problem,
                t->wait > pause ? t->wait : pause);
}

static void redirect(struct pull_transfer *transfer)
{
    const char *to = NULL;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &to);
    if (!to) {
        say(transfer, "HTTP %ld leads nowhere", transfer->status);
        give_up(transfer);
    } else if (++transfer->redirections > MOST_REDIRECTIONS) {
        say(transfer, "it was sent on more than %d times", MOST_REDIRECTIONS);
        give_up(transfer);
    } else if (!pull_may_ask(to, transfer->at, transfer->pull->args->allow_http)) {
        say(transfer, "it is sent on to %.120s, which is less protected", to);
        give_up(transfer);
    } else {
        char *at = kt_cli_format(transfer->pull->cli, "%s", to);
        free(transfer->at);
        transfer->at = at;
    }
}

/* Everything has come: is it right? Then it gets its name. */
static void finish_file(struct pull_transfer *transfer)
{
    struct pull *pull = transfer->pull;
    struct pull_file *file = transfer->file;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char sha256[65], sha1[41] = "";
    sha256_digest(&transfer->sha256, SHA256_DIGEST_SIZE, digest);
    pull_hex(digest, SHA256_DIGEST_SIZE, sha256);
    if (*file->sha1) {
        sha1_digest(&transfer->sha1, SHA1_DIGEST_SIZE, digest);
        pull_hex(digest, SHA1_DIGEST_SIZE, sha1);
    }
    if ((*file->sha256 && strcmp(file->sha256, sha256) != 0) || strcmp(file->sha1, sha1) != 0) {
        bool is_large = *file->sha256 != '\0';
        say(transfer, "its %s is %s, and the hub says %s", is_large ? "SHA-256" : "SHA-1 of git",
            is_large ? sha256 : sha1, is_large ? file->sha256 : file->sha1);
        begin_anew(transfer);
        if (ftruncate(transfer->fd, 0) != 0 || transfer->again)
            give_up(transfer);
        else
            try_again(transfer);
        transfer->again = true;
        return;
    }
    char *path = kt_cli_format(pull->cli, "%s/%s", pull->folder, file->path);
    transfer->over = true;
    if (fsync(transfer->fd) != 0 || !kt_rename_synced(transfer->part, path)) {
        say(transfer, "%s: %s", path, strerror(errno));
        transfer->failed = true;
    } else {
        file->done = true;
        pull_sums_set(pull->cli, &pull->sums, file->path, sha256);
        transfer->failed = pull_sums_write(pull->cli, pull->folder, &pull->sums) != KT_EXIT_OK;
    }
    free(path);
}

int pull_prepare(struct pull_transfer *transfer)
{
    const struct pull *pull = transfer->pull;
    transfer->part = kt_cli_format(pull->cli, "%s/%s.part", pull->folder, transfer->file->path);
    if (!make_folders(transfer->part))
        return kt_cli_error(pull->cli, "%s: its folder cannot be made: %s", transfer->part, strerror(errno));
    transfer->fd = open(transfer->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (transfer->fd < 0)
        return kt_cli_error(pull->cli, "%s: %s", transfer->part, strerror(errno));
    if (flock(transfer->fd, LOCK_EX | LOCK_NB) != 0) {
        close(transfer->fd);
        transfer->fd = -1; /* it is not ours to remove */
        return kt_cli_error(pull->cli, "%s: another kt model pull writes it", transfer->part);
    }
    begin_anew(transfer);
    if (!read_part(transfer))
        return kt_cli_error(pull->cli, "%s: cannot be read: %s", transfer->part, strerror(errno));
    transfer->file->have = transfer->have;
    if (transfer->have > 0 && transfer->have == transfer->file->size)
        finish_file(transfer);
    return KT_EXIT_OK;
}

static void take_answer(struct pull_transfer *transfer)
{
    const char *token = transfer->pull->hub == MODEL_MODELSCOPE ? "MODELSCOPE_API_TOKEN" : "HF_TOKEN";
    long status = transfer->status;
    if (status == 200 || status == 206) {
        if (!transfer->file) {
            transfer->over = true;
        } else if (transfer->have < transfer->file->size) {
            say(transfer, "it ends after %" PRIu64 " of %" PRIu64 " bytes", transfer->have,
                transfer->file->size);
            try_again(transfer);
        } else {
            finish_file(transfer);
        }
    } else if (status >= 300 && status < 400) {
        redirect(transfer);
    } else if (status == 416 && transfer->have > 0) {
        say(transfer, "HTTP 416: the part of it that is here suits nothing");
        begin_anew(transfer);
        (void)!ftruncate(transfer->fd, 0);
        try_again(transfer);
    } else if (status == 408 || status == 429 || status >= 500) {
        say(transfer, "HTTP %ld", status);
        try_again(transfer);
    } else {
        say(transfer, status == 401 || status == 403 ? "HTTP %ld: a token may be needed, in %s" : "HTTP %ld",
            status, token);
        give_up(transfer);
    }
}

static bool is_passing(CURLcode result)
{
    static const CURLcode passing[] = {CURLE_COULDNT_RESOLVE_PROXY,
                                       CURLE_COULDNT_RESOLVE_HOST,
                                       CURLE_COULDNT_CONNECT,
                                       CURLE_PARTIAL_FILE,
                                       CURLE_OPERATION_TIMEDOUT,
                                       CURLE_GOT_NOTHING,
                                       CURLE_SEND_ERROR,
                                       CURLE_RECV_ERROR,
                                       CURLE_SSL_CONNECT_ERROR,
                                       CURLE_HTTP2,
                                       CURLE_HTTP2_STREAM,
                                       CURLE_WEIRD_SERVER_REPLY};
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        if (result == passing[i])
            return true;
    return false;
}

void pull_end(struct pull_transfer *transfer, CURLcode result)
{
    transfer->running = false;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &transfer->status);
    if (result == CURLE_OK) {
        /* An empty body has no first bytes. */
        if (transfer->began || (transfer->status != 200 && transfer->status != 206) || begin_body(transfer))
            take_answer(transfer);
        else
            give_up(transfer);
        return;
    }
    if (!*transfer->problem)
        say(transfer, "%s", *transfer->curl_problem ? transfer->curl_problem : curl_easy_strerror(result));
    bool is_wrong = result == CURLE_WRITE_ERROR && !transfer->failed && transfer->file && !transfer->again;
    if (is_wrong) { /* a body that is too long, or another range: whole and again, once */
        transfer->again = true;
        begin_anew(transfer);
        if (ftruncate(transfer->fd, 0) != 0)
            give_up(transfer);
        else
            try_again(transfer);
    } else if (transfer->silent || is_passing(result)) {
        try_again(transfer);
    } else {
        give_up(transfer);
    }
}

void pull_release(struct pull_transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    if (transfer->fd >= 0 && transfer->have == 0 && !transfer->file->done)
        (void)unlink(transfer->part); /* nothing to continue with */
    if (transfer->fd >= 0)
        close(transfer->fd);
    free(transfer->part);
    free(transfer->url);
    free(transfer->at);
    free(transfer->text);
    free(transfer->next);
    *transfer = (struct pull_transfer){.fd = -1, .over = true};
}
