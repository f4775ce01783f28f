/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a template; behind a zero byte may be the JSON of its variables. */
#include <kt/text.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conversation[] =
    "{\"s\":\"a \\u00e4<|x|>\",\"n\":-3,\"f\":0.5,\"l\":[1,\"b\",null],\"d\":{\"k\":[true]},\"bos_token\":\"<s>\",\"messages\":["
    "{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":"
    "\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *source = (const char *)data, *zero = memchr(data, 0, size);
    uint64_t length = zero ? (uint64_t)(zero - source) : size;
    const char *variables = zero ? zero + 1 : conversation;
    uint64_t variables_length = zero ? size - length - 1 : sizeof conversation - 1;
    struct kt_render_params params = KT_RENDER_PARAMS_INIT;
    struct kt_template *chat;
    struct kt_rendering *rendering;
    struct kt_error error = {.status = KT_OK};
    params.max_steps = 20000;
    params.max_output = 1 << 16;
    params.has_time = 1;
    params.parse_arguments = size % 2;
    enum kt_status status = kt_template_create(source, length, "t", &chat, &error);
    if (status != error.status || (status != KT_OK && !error.message[0]))
        abort();
    if (status != KT_OK)
        return 0;
    status = kt_template_render(chat, variables, variables_length, &params, &rendering, &error);
    if (status != error.status)
        abort();
    if (status == KT_OK) {
        uint64_t n, all = 0, bytes;
        const struct kt_text_part *parts = kt_rendering_parts(rendering, &n);
        const char *text = kt_rendering_text(rendering, &bytes);
        for (uint64_t i = 0; i < n; i++) {
            if (parts[i].text != text + all || parts[i].length == 0)
                abort();
            all += parts[i].length;
        }
        if (all != bytes || bytes > params.max_output)
            abort();
        kt_rendering_destroy(rendering);
    }
    kt_template_destroy(chat);
    return 0;
}
