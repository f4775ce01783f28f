/* SPDX-License-Identifier: Apache-2.0 */
/* test_template_large.c - templates with many names and long conversations take steps as their length says.
 */
#define XXH_INLINE_ALL
#include "tests/support/suite.h"

#include <kt/text.h>

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* "{{ v%06x }}" of n names; their length. With one_hash the low 12 bits of their hashes are 0. */
static size_t write_names(char *source, uint32_t n, bool one_hash)
{
    size_t length = 0;
    for (uint32_t i = 0, done = 0; done < n; i++) {
        char name[8];
        snprintf(name, sizeof(name), "v%06x", i & 0xffffff);
        if (one_hash && (XXH3_64bits(name, 7) & 0xfff) != 0)
            continue;
        length += (size_t)sprintf(source + length, "{{ %s }}", name);
        done++;
    }
    return length;
}

/* A name is compared with 64 at most, of however many: else many, or some that share a hash, would take
 * quadratic time. */
START_TEST(many_names)
{
    enum { MANY = 300000 };
    char *source = malloc(MANY * 13 + 1);
    struct kt_template *chat = NULL;
    struct kt_error error = {.status = KT_OK};
    ck_assert_ptr_nonnull(source);
    size_t length = write_names(source, MANY, false);
    ck_assert_msg(kt_template_create(source, length, "t", &chat, &error) == KT_OK, "%s", error.message);
    kt_template_destroy(chat);
    length = write_names(source, 65, true);
    ck_assert_int_eq(kt_template_create(source, length - 13, "t", &chat, &error), KT_OK);
    kt_template_destroy(chat);
    ck_assert_int_eq(kt_template_create(source, length, "t", &chat, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "more than 64 names of one hash"));
    free(source);
}
END_TEST

/* A conversation of 1 MB takes steps as its length says, some 20 for each 64 bytes, not the 8 million in
 * which a text that grows would be copied with each message. */
START_TEST(long_conversation)
{
    static const char source[] =
        "{% set ns = namespace(all='') %}{% for m in messages %}{% set ns.all = ns.all + '<|im_start|>' + m.role + '\\n' + "
        "m.content|trim + '<|im_end|>\\n' %}{{ m|tojson }}{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% endfor %}{{ ns.all }}";
    json_t *messages = json_array();
    char content[1025];
    memset(content, 'a', 1024);
    content[1024] = 0;
    for (int i = 0; i < 1024; i++)
        json_array_append_new(messages, json_pack("{s:s,s:s}", "role", i % 2 ? "user" : "assistant",
                                                  "content", content));
    json_t *all = json_pack("{s:o}", "messages", messages);
    char *variables = json_dumps(all, 0);
    struct kt_render_params how = KT_RENDER_PARAMS_INIT;
    struct kt_template *chat = NULL;
    struct kt_rendering *rendering = NULL;
    struct kt_error error = {.status = KT_OK};
    uint64_t length;
    how.max_steps = 16384 * 32;
    ck_assert_int_eq(kt_template_create(source, strlen(source), "t", &chat, &error), KT_OK);
    ck_assert_msg(kt_template_render(chat, variables, strlen(variables), &how, &rendering, &error) == KT_OK,
                  "%s", error.message);
    (void)kt_rendering_text(rendering, &length);
    ck_assert_uint_gt(length, 3 << 20);
    kt_rendering_destroy(rendering);
    kt_template_destroy(chat);
    free(variables);
    json_decref(all);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("large");
    tcase_add_test(tests, many_names);
    tcase_add_test(tests, long_conversation);
    return run_tests("template_large", tests);
}
