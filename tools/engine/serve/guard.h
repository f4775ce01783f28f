/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - who may ask: API keys, and web pages that a browser has from elsewhere. */
#ifndef KT_ENGINE_SERVE_GUARD_H
#define KT_ENGINE_SERVE_GUARD_H

#include <kt/types.h>
#include <stdbool.h>
#include <stddef.h>

struct kt_keys {
    char **keys;
    size_t n;
};

/* False: out of memory. */
bool kt_keys_add(struct kt_keys *keys, const char *key);
/* Keys of a file, one a line; KT_E_INVALID: others than its owner may read it, or it has none. */
enum kt_status kt_keys_read(struct kt_keys *keys, const char *path, struct kt_error *error);
void kt_keys_free(struct kt_keys *keys);
/* Which of the keys that is, from 1 on; 0: none. The time that this takes does not tell how much of it was
 * right. */
size_t kt_keys_find(const struct kt_keys *keys, const char *key);

/* Whether an address or a name, as a server is bound to it, is this machine's own. */
bool kt_host_is_local(const char *host);
/* Whether the header Host may be of a request to a server that only this machine reaches: a name that
 * somebody else's name server gave out for 127.0.0.1 may not, since a page from there would be let in by the
 * browser. */
bool kt_host_allows(const char *bound, const char *header);
/* Whether the header Origin (may be NULL) is of the server's own page. */
bool kt_origin_allows(const char *origin, const char *host);

#endif
