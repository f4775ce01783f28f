/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - the page at /, its style and its program: files that the build has put into strings. */
#include "tools/engine/serve/server.h"

#include <string.h>

static const char page[] =
#include "tools/engine/serve/page_html.h"
    ;
static const char style[] =
#include "tools/engine/serve/page_css.h"
    ;
static const char program[] =
#include "tools/engine/serve/page_js.h"
    ;

bool kt_answer_page(struct kt_exchange *exchange)
{
    const char *path = exchange->route->path;
    if (strcmp(path, "/page.css") == 0)
        return kt_reply_page(exchange, "text/css; charset=utf-8", style, sizeof(style) - 1);
    if (strcmp(path, "/page.js") == 0)
        return kt_reply_page(exchange, "text/javascript; charset=utf-8", program, sizeof(program) - 1);
    return kt_reply_page(exchange, "text/html; charset=utf-8", page, sizeof(page) - 1);
}
