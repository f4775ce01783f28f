/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instructions.c - a plugin's gate and up product of one panel, again and again, for an emulator that counts:
 *     instructions FILE LEVEL DTYPE ROWS COLUMNS TIMES [OPTION=VALUE...]
 * instructions.sh, which makes it and runs it, takes off what does not depend on TIMES and COLUMNS.
 */
#include <kt/plugin.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUTS 16 /* of gate, and of up */

static const struct type {
    const char *name;
    uint32_t dtype;
    uint64_t columns, bytes; /* of a block */
} types[] = {
    {"bf16", KT_DTYPE_BF16, 1, 2},     {"q4_0", KT_DTYPE_Q4_0, 32, 18},   {"q8_0", KT_DTYPE_Q8_0, 32, 34},
    {"q4_k", KT_DTYPE_Q4_K, 256, 144}, {"q6_k", KT_DTYPE_Q6_K, 256, 210},
};

static void *allocate(const struct kt_host *host, uint64_t size)
{
    (void)host;
    void *memory = aligned_alloc(64, (size + 127) / 64 * 64);
    if (memory)
        memset(memory, 0, (size + 127) / 64 * 64);
    return memory;
}

static void release(const struct kt_host *host, void *memory, uint64_t size)
{
    (void)host;
    (void)size;
    free(memory);
}

static enum kt_status dequantize(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error)
{
    (void)host;
    (void)view;
    (void)row;
    (void)col;
    (void)error;
    memset(out, 0, n * sizeof *out);
    return KT_OK;
}

static const char *name_dtype(uint32_t dtype)
{
    (void)dtype;
    return "?";
}

static const struct kt_host host = {
    .struct_size = sizeof(struct kt_host),
    .abi_minor = KT_PLUGIN_ABI_MINOR,
    .allocate = allocate,
    .release = release,
    .dequantize = dequantize,
    .dtype_name = name_dtype,
};

static void fail(const char *what)
{
    fprintf(stderr, "instructions: %s\n", what);
    exit(1);
}

/* An option's value: what the command line says of it, or its default. */
static struct kt_option_value read_option(const struct kt_option *option, char **said)
{
    struct kt_option_value value = {.text = option->default_text};
    size_t length = strlen(option->key);
    for (; *said; said++)
        if (strncmp(*said, option->key, length) == 0 && (*said)[length] == '=')
            value.text = *said + length + 1;
    value.number = strtoll(value.text, NULL, 10);
    if (option->type == KT_OPTION_BOOL)
        value.number = strcmp(value.text, "yes") == 0;
    if (option->type != KT_OPTION_ENUM)
        return value;
    const char *choice = option->choices;
    for (value.number = 0; strncmp(choice, value.text, strlen(value.text)) != 0; value.number++) {
        choice = strchr(choice, '|');
        if (!choice++)
            fail("no such choice");
    }
    return value;
}

static const struct kt_plugin *load(const char *file)
{
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    char symbol[256];
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fail(dlerror());
    (void)snprintf(symbol, sizeof symbol, "kt_plugin_%.*s", (int)strcspn(name + 3, "."), name + 3);
    const struct kt_plugin *plugin = dlsym(handle, symbol);
    if (!plugin)
        fail(dlerror());
    return plugin;
}

static const struct kt_ops *find_ops(const struct kt_plugin *plugin, const char *level)
{
    for (uint32_t i = 0; i < plugin->n_levels; i++)
        if (strcmp(plugin->levels[i]->name, level) == 0)
            return plugin->levels[i]->ops;
    fail("no such level");
    return NULL;
}

static const struct type *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    fail("no such type");
    return NULL;
}

static void run(const struct kt_ops *ops, void *instance, const struct type *type, uint32_t n_rows,
                uint64_t columns, uint64_t times)
{
    struct kt_format format = {.dtype = type->dtype}, down = {.dtype = KT_DTYPE_BF16}; /* of 16 columns */
    struct kt_layout layout = {.shape = {.n_experts = 1,
                                         .top_k = 1,
                                         .hidden_size = columns,
                                         .intermediate_size = OUTPUTS,
                                         .format = {format, format, down}}};
    struct kt_error error = {KT_OK, ""};
    if (ops->layout(instance, &layout, &error))
        fail(error.message);
    uint64_t row = columns / type->columns * type->bytes, unit = layout.row_unit ? layout.row_unit : 1;
    uint64_t padded = (n_rows + unit - 1) / unit * unit;
    struct kt_view view = {.struct_size = sizeof view,
                           .dtype = type->dtype,
                           .data = allocate(&host, OUTPUTS * row),
                           .size = OUTPUTS * row,
                           .rows = OUTPUTS,
                           .cols = columns,
                           .row_stride = (int64_t)row,
                           .block_stride = (int64_t)type->bytes};
    struct kt_expert expert = {.gate = view, .up = view};
    struct kt_pack pack = {.layout = &layout,
                           .source = &expert,
                           .panel_end = 1,
                           .packed = allocate(&host, layout.weight_size[0])};
    if (layout.panel_rows[0] != OUTPUTS || ops->pack(instance, &pack, &error))
        fail("the panel cannot be packed");
    struct kt_act_pack act = {.layout = &layout,
                              .source_dtype = KT_DTYPE_BF16,
                              .n_rows = n_rows,
                              .row_end = n_rows,
                              .source = allocate(&host, n_rows * columns * 2),
                              .source_stride = (int64_t)columns * 2,
                              .packed = allocate(&host, padded * layout.act_row_size[0])};
    ops->act_pack(instance, &act);
    struct kt_product job = {.layout = &layout,
                             .packed = pack.packed,
                             .panel_end = 1,
                             .n_rows = n_rows,
                             .act = act.packed,
                             .out = allocate(&host, padded * layout.h_row_size),
                             .scratch = allocate(&host, layout.scratch_size)};
    while (times--)
        ops->gate_up(instance, &job);
}

int main(int argc, char **argv)
{
    struct kt_option_value values[16];
    struct kt_caps caps = {.l2_size = 1 << 20};
    struct kt_error error = {KT_OK, ""};
    void *instance = NULL;
    if (argc < 7)
        fail("usage: instructions FILE LEVEL DTYPE ROWS COLUMNS TIMES [OPTION=VALUE...]");
    const struct kt_plugin *plugin = load(argv[1]);
    for (uint32_t i = 0; i < plugin->n_options && i < 16; i++)
        values[i] = read_option(&plugin->options[i], argv + 7);
    if (plugin->open(&host, &caps, values, &instance, &error))
        fail(error.message);
    run(find_ops(plugin, argv[2]), instance, find_type(argv[3]), (uint32_t)strtoul(argv[4], NULL, 10),
        strtoull(argv[5], NULL, 10), strtoull(argv[6], NULL, 10));
    return 0;
}
