/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a JSON Schema, or, behind a byte of 1 to 3, a regular expression, a list or rules; behind a
 * zero byte may be bytes that walk through its grammar. A byte that may come has one behind it, or the text
 * may end: nobody is led into a dead end. */
#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/machine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte from `from` on that may come; -1: none. */
static int find_byte(struct kt_machine *machine, uint32_t state, uint8_t from)
{
    for (unsigned i = 0; i < 256; i++)
        if (kt_machine_step(machine, state, (uint8_t)(from + i), false))
            return (uint8_t)(from + i);
    return -1;
}

static void walk(const struct kt_program *program, const uint8_t *bytes, size_t n)
{
    struct kt_machine machine;
    if (!kt_machine_init(&machine, program))
        abort();
    uint32_t state = kt_machine_start(&machine);
    for (size_t i = 0; i < (n > 64 ? 64 : n < 16 ? 16 : n); i++) {
        int byte = find_byte(&machine, state, n ? bytes[i % n] : (uint8_t)(i * 37));
        if (byte < 0 && !machine.states[state].accepts)
            abort();
        if (byte < 0)
            break;
        state = kt_machine_step(&machine, state, (uint8_t)byte, false);
    }
    kt_machine_free(&machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = memchr(data, 0, size);
    size_t length = zero ? (size_t)(zero - data) : size;
    struct kt_grammar *grammar = NULL;
    struct kt_error error = {.status = KT_OK};
    bool is_text = length > 0 && data[0] >= 1 && data[0] <= 3;
    enum kt_status status =
        is_text ? kt_grammar_text(data[0] - 1u, (const char *)data + 1, length - 1, NULL, &grammar, &error)
                : kt_grammar_json((const char *)data, length, NULL, &grammar, &error);
    if (status != error.status || (status != KT_OK && !error.message[0]))
        abort();
    if (status != KT_OK)
        return 0;
    walk(&grammar->program, zero ? zero + 1 : NULL, zero ? size - length - 1 : 0);
    kt_grammar_destroy(grammar);
    return 0;
}
