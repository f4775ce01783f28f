/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - the page at /, which is page.html as the build has put it into a string. */
#include "tools/engine/serve/server.h"

static const char page[] =
#include "tools/engine/serve/page_html.h"
    ;

bool kt_answer_page(struct kt_exchange *exchange)
{
    return kt_reply_page(exchange, page, sizeof(page) - 1);
}
