/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - checkkernel --plugin FILE|reference [--level L] [--skip 'L...'] [--type T] [--cases N]
 *          [--seed N] [--emulated] [--no-subnormal] [--set KEY=VALUE,... [--also KEY=VALUE,...]]
 *          [--record FILE] [--known FILE [--same-code]]
 *
 * Runs random cases of every level that this CPU can run and every format that the plugin takes, and
 * compares the levels with each other. --emulated: every level, whatever this CPU can do, because the
 * instructions were translated. --also: with this instead of --set the levels must give the same bits.
 * --record: results that are right go to FILE, from which --known of another run takes them: recorded.h.
 * --same-code: by the same build of the plugin, on another CPU.
 * --no-subnormal: in a mode that reads subnormal numbers as 0. Exit 0: all right, 1: something is wrong, 2:
 * usage, 77: nothing to do.
 */
#include "core/machine/cpu.h"
#include "core/backend/module.h"
#include "core/backend/module_check.h"
#include "core/backend/reference.h"
#include "tests/checkkernel/check.h"
#include "tests/checkkernel/host.h"
#include "tests/checkkernel/recorded.h"

#include <dlfcn.h>
#include <getopt.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OPTIONS 8

struct run {
    const struct kt_plugin *plugin;
    struct kt_caps caps;
    const char *level; /* NULL: all */
    const char *skip;  /* levels to leave out, NULL: none */
    char *set[2];      /* options other than their defaults, of two instances; NULL: none */
    uint64_t refused;  /* levels whose check fails, by their index */
    uint32_t dtype;    /* NONE: all */
    unsigned cases;    /* per level and format */
    uint64_t seed;
    bool emulated, same_code;
    FILE *record; /* NULL: nothing is recorded */
    char *lines;  /* of --known, NULL: none */
    unsigned done, failed, known;
};

/* ---- a case ---- */

static const char *case_text; /* what runs now, for messages */

void check_fail(struct check *check, const char *format, ...)
{
    if (check->wrong)
        return;
    check->wrong = true;
    va_list arguments;
    va_start(arguments, format);
    printf("FAIL %s: ", case_text);
    (void)vprintf(format, arguments);
    (void)putchar('\n');
    va_end(arguments);
}

/* A debugger says more. */
void check_enter(const struct check *check, const char *function)
{
    (void)check;
    (void)function;
    check_in_mode();
}

static void run_checks(struct check *check)
{
    check_layout(check);
    check_refusals(check);
    check_pack(check);
    if (check->wrong)
        return;
    check_weights(check);
    const uint64_t random = check->random; /* levels that are not cut have the same inputs */
    check_cut(check);
    check->random = random;
    check_minima(check);
    check_refused(check);
    make_inputs(check);
    for (uint64_t i = 0, k = input_cols(check); i < check->n_acts * k && check->extreme; i++)
        check->input[i] = to_bf16(i / k % 2 ? -2 : 2);
    if (!check_linear(check)) {
        check_act(check, KT_STAGE_GATE_UP);
        check_gate_up(check);
    }
    check_act(check, KT_STAGE_DOWN);
    check_down(check);
    if (!recorded_suffices(check))
        (check_linear(check) ? check_nan_linear : check_nan)(check);
    if (!check_linear(check))
        check_same_linear(check);
}

struct answer {
    uint8_t *data;
    uint64_t size;
};

/* What the first level of a case made. */
struct first_level {
    struct recorded products[MODEL_RULES]; /* by the rule by which rows are packed */
    bool made[MODEL_RULES];
    struct answer packed[2]; /* weights and the name of their form, of both instances */
};

/* Weights of one form are the same bytes, whichever level packs them: stores are read by all. */
static void compare_packed(struct check *check, struct answer *first)
{
    const struct guarded *packed = check->packed;
    const uint64_t name = sizeof check->layout.form, size = name + packed[0].size + packed[1].size;
    if (check->model->code_row && !check->layout.form[0]) /* a form of the level's own */
        return;
    uint8_t *data = check_need(malloc(size));
    memcpy(data, check->layout.form, name);
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++)
        if (packed[s].size)
            memcpy(data + name + (s == KT_STAGE_DOWN ? packed[0].size : 0), packed[s].data, packed[s].size);
    if (!first->data) {
        *first = (struct answer){data, size};
        return;
    }
    if (memcmp(first->data, data, name) == 0 && (first->size != size || memcmp(first->data, data, size) != 0))
        check_fail(check, "packed weights differ from those of the first level");
    free(data);
}

/* Must the level give the bits of others? Of those whose rows are packed by the same rule. */
static bool must_agree(const struct check *check, unsigned *rule)
{
    *rule = check->model->own_rule ? check->model->own_rule(&check->layout) : 0;
    return model_is_int8(check) ||
           !(model_lists(check->model->own_order, check->level) || check->model->scaled);
}

static void compare_products(struct check *check, struct first_level *first)
{
    unsigned rule;
    if (!must_agree(check, &rule))
        return;
    struct recorded made = recorded_make(check);
    made.of = RECORDED_FIRST;
    if (!first->made[rule])
        first->products[rule] = made;
    else if (memcmp(first->products[rule].stage, made.stage, sizeof made.stage) != 0)
        check_fail(check, "bits differ from those of the first level");
    first->made[rule] = true;
}

static void name_format(const struct kt_format *format, char name[64])
{
    (void)snprintf(name, 64, "%s", kt_dtype_name(format->dtype));
    if (format->scale_dtype)
        (void)snprintf(name, 64, "%s %s[%llux%llu]%s", kt_dtype_name(format->dtype),
                       kt_dtype_name(format->scale_dtype), (unsigned long long)format->group_rows,
                       (unsigned long long)format->group_cols, format->zero_dtype ? "+zeros" : "");
}

/* For messages. */
static void describe(const struct run *run, const struct check *check, char text[400])
{
    const struct kt_shape *shape = &check->layout.shape;
    char names[3][64];
    for (int p = 0; p < 3; p++)
        name_format(&shape->format[p], names[p]);
    if (check_linear(check))
        (void)snprintf(text, 400, "%s %s linear %s %llu x %llu rows %u%s --seed %llu", run->plugin->name,
                       check->level->name, names[KT_DOWN], (unsigned long long)shape->hidden_size,
                       (unsigned long long)shape->intermediate_size, check->n_rows,
                       check->layout.deterministic ? " deterministic" : "", (unsigned long long)run->seed);
    else
        (void)snprintf(text, 400, "%s %s %s/%s/%s hidden %llu intermediate %llu rows %u%s --seed %llu",
                       run->plugin->name, check->level->name, names[0], names[1], names[2],
                       (unsigned long long)shape->hidden_size, (unsigned long long)shape->intermediate_size,
                       check->n_rows, check->layout.deterministic ? " deterministic" : "",
                       (unsigned long long)run->seed);
}

/* Tunables that do not change bits, at an end of their range in two of three cases: so levels, of which one
 * has what another has not, still agree. */
static void fill_tuned(const struct kt_ops *ops, uint32_t turn, struct kt_layout *layout)
{
    for (uint32_t i = 0; turn != 0 && i < ops->n_tunables; i++)
        if (!(ops->tunables[i].flags & KT_TUNABLE_BITS))
            layout->tuned[i] = turn == 1 ? ops->tunables[i].minimum : ops->tunables[i].maximum;
}

/* What a case is made from; `kind` says which formats, or which groups. */
struct wanted {
    uint32_t dtype;
    unsigned kind;
    bool linear;
};

/* Does the option of --also change none of the case's formats? Then the first instance has done the same. */
static bool changes_nothing(const struct check *check)
{
    const struct kt_shape *shape = &check->layout.shape;
    for (int p = (int)check_first_projection(check); p <= KT_DOWN; p++)
        for (const uint32_t *dtype = check->model->also_dtypes; dtype && *dtype; dtype++)
            if (*dtype == shape->format[p].dtype)
                return false;
    return check->model->also_dtypes;
}

/* Results that are right are written down. */
static void count_case(struct run *run, const struct check *check, const struct recorded_case *of)
{
    run->done++;
    run->failed += check->wrong;
    run->known += recorded_before(check);
    if (run->record && !check->wrong) {
        struct recorded made = recorded_make(check);
        recorded_add(run->record, of, &made);
    }
}

/* Weights in a form of the level's own, which no store has: in two of three cases as for a store, or of one.
 */
static enum kt_status lay_out(struct check *check, unsigned kind)
{
    const struct kt_ops *ops = check->level->ops;
    struct kt_layout layout = check->layout;
    enum kt_status status = ops->layout(check->instance, &check->layout, NULL);
    if (status || !check->model->code_row || check->layout.form[0] || kind % 3 == 0)
        return status;
    struct kt_layout stored = layout;
    stored.stored = true;
    status = ops->layout(check->instance, &stored, NULL);
    if (status == KT_OK && !stored.form[0])
        check_fail(check, "weights for a store have no form");
    if (status || kind % 3 == 1) {
        check->layout = stored;
        return status;
    }
    check->layout = layout;
    memcpy(check->layout.form, stored.form, sizeof stored.form);
    return ops->layout(check->instance, &check->layout, NULL);
}

/* One case on one level, `also`: with the instance of --also; false: the plugin does not take it. */
static bool run_case(struct run *run, const struct kt_level *level, void *instance, bool also,
                     const struct wanted *wanted, struct first_level *first)
{
    unsigned kind = wanted->kind;
    uint64_t state = run->seed + 1000003u * wanted->dtype + 17u * kind;
    struct check check = {.level = level,
                          .instance = instance,
                          .host = &check_host,
                          .same_code = run->same_code};
    char text[400];
    const struct recorded_case of = {level->name, also, kt_dtype_name(wanted->dtype), kind, wanted->linear};
    struct kt_shape *shape = &check.layout.shape;
    struct recorded known;
    unsigned rule;
    check.model = model_find(run->plugin->name);
    (wanted->linear ? make_linear_shape : make_shape)(wanted->dtype, kind, check.model, &state, shape);
    if (also && changes_nothing(&check))
        return true;
    if (check.model->rounded)
        check.n_rows = 1 + random_below(&state, random_below(&state, 2) ? 70 : 9);
    else
        check.n_rows = 1 + random_below(&state, kind % 3 ? 9 : 33);
    if (kind % 8 == 7) { /* more than what fits into L2, and K of many tiles: blocked in another way */
        check.large = true;
        make_large(shape, wanted->linear);
        check.n_rows = 65 + random_below(&state, 32);
    }
    check.h_panels = check.model->code_row;
    check.extreme = check.model->code_row && kind % 8 == (wanted->linear ? 3 : 7) && state % 2;
    check.n_acts = 1 + random_below(&state, check.n_rows + 3);
    check.layout.deterministic = random_below(&state, 3) == 0;
    describe(run, &check, text);
    case_text = text;
    fill_tuned(level->ops, check.n_rows % 3, &check.layout);
    if (lay_out(&check, kind))
        return false;
    check.random = state;
    if (run->lines && recorded_find(run->lines, &of, &known))
        check.known = &known;
    else if (must_agree(&check, &rule) && first->made[rule])
        check.known = &first->products[rule];
    make_source(&check, kind);
    if (level->ops->thread_enter)
        level->ops->thread_enter(instance);
    run_checks(&check);
    if (level->ops->thread_leave)
        level->ops->thread_leave(instance);
    if (!check.wrong)
        compare_packed(&check, &first->packed[also]);
    if (!check.wrong)
        compare_products(&check, first);
    count_case(run, &check, &of);
    free_case(&check);
    if (level->ops->release_layout)
        level->ops->release_layout(instance, &check.layout);
    return true;
}

/* ---- all cases ---- */

static bool can_run(const struct run *run, uint32_t l)
{
    const struct kt_level *level = run->plugin->levels[l];
    return (!run->level || strcmp(run->level, level->name) == 0) && !model_lists(run->skip, level) &&
           (run->emulated || (level->cpu & ~run->caps.cpu) == 0) && !(run->refused >> l & 1);
}

/* What levels say themselves of whether they can run; false: not the one that was asked for. */
static bool ask_levels(struct run *run, void *instance)
{
    for (uint32_t l = 0; l < run->plugin->n_levels; l++) {
        const struct kt_level *level = run->plugin->levels[l];
        struct kt_error error = {KT_OK, ""};
        if (!can_run(run, l) || !level->check || level->check(instance, &error) == KT_OK)
            continue;
        printf("checkkernel: %s: not %s: %s\n", run->plugin->name, level->name, error.message);
        run->refused |= UINT64_C(1) << l;
        if (run->level)
            return false;
    }
    return true;
}

/* A case on all levels. */
static void run_levels(struct run *run, void *const *instance, const struct wanted *wanted)
{
    const struct kt_plugin *plugin = run->plugin;
    struct first_level first = {.packed = {{NULL, 0}}};
    for (uint32_t l = 0; l < 2 * plugin->n_levels; l++)
        if (can_run(run, l / 2) && instance[l % 2] &&
            !run_case(run, plugin->levels[l / 2], instance[l % 2], l % 2, wanted, &first)) {
            printf("FAIL %s: layout refused\n", case_text);
            run->failed++;
        }
    for (int i = 0; i < 2; i++)
        free(first.packed[i].data);
}

/* Of each format cases of experts and, one for each four, of linears. Returns how many levels could run. */
static unsigned run_cases(struct run *run, void *const *instance)
{
    const struct kt_plugin *plugin = run->plugin;
    const uint32_t *dtypes = model_find(plugin->name)->dtypes;
    unsigned levels = 0;
    for (uint32_t l = 0; l < plugin->n_levels; l++)
        levels += can_run(run, l);
    for (uint32_t d = 0; dtypes[d] && levels > 0; d++) {
        if (run->dtype && run->dtype != dtypes[d])
            continue;
        for (unsigned kind = 0; kind < run->cases; kind++)
            run_levels(run, instance, &(struct wanted){dtypes[d], kind, false});
        for (unsigned kind = 0; kind < (run->cases + 3) / 4; kind++)
            run_levels(run, instance, &(struct wanted){dtypes[d], kind, true});
    }
    return levels;
}

struct files {
    const char *plugin, *record, *known; /* NULL: not given */
};

static bool parse(int argc, char **argv, struct run *run, struct files *files)
{
    static const struct option options[] = {
        {"plugin", required_argument, NULL, 'p'}, {"level", required_argument, NULL, 'l'},
        {"type", required_argument, NULL, 't'},   {"cases", required_argument, NULL, 'c'},
        {"seed", required_argument, NULL, 's'},   {"emulated", no_argument, NULL, 'e'},
        {"set", required_argument, NULL, 'o'},    {"also", required_argument, NULL, 'a'},
        {"no-subnormal", no_argument, NULL, 'n'}, {"skip", required_argument, NULL, 'k'},
        {"record", required_argument, NULL, 'r'}, {"known", required_argument, NULL, 'K'},
        {"same-code", no_argument, NULL, 'S'},    {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            files->plugin = optarg;
        else if (option == 'r')
            files->record = optarg;
        else if (option == 'K')
            files->known = optarg;
        else if (option == 'S')
            run->same_code = true;
        else if (option == 'l')
            run->level = optarg;
        else if (option == 'k')
            run->skip = optarg;
        else if (option == 't')
            run->dtype = kt_dtype_parse(optarg);
        else if (option == 'c')
            run->cases = (unsigned)strtoul(optarg, NULL, 10);
        else if (option == 's')
            run->seed = strtoull(optarg, NULL, 10);
        else if (option == 'e')
            run->emulated = true;
        else if (option == 'n')
            check_drops_subnormal = true;
        else if ((option == 'o' || option == 'a') && strchr(optarg, '='))
            run->set[option == 'a'] = optarg;
        else
            return false;
        if (option == 't' && !run->dtype) {
            (void)fprintf(stderr, "checkkernel: there is no format '%s'\n", optarg);
            return false;
        }
    }
    return files->plugin && optind == argc;
}

/* kt_NAME.so's plugin, or NULL. It is never closed: sanitizers want its symbols. */
static const struct kt_plugin *open_plugin(const char *file)
{
    const char *slash = strrchr(file, '/');
    char symbol[64];
    if (strcmp(file, "reference") == 0)
        return &kt_plugin_reference;
    (void)snprintf(symbol, sizeof symbol, "kt_plugin_%s", (slash ? slash + 1 : file) + strlen("kt_"));
    symbol[strcspn(symbol, ".")] = '\0';
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const struct kt_plugin *plugin = handle ? dlsym(handle, symbol) : NULL;
    struct kt_error error = {KT_OK, ""};
    if (!plugin)
        (void)fprintf(stderr, "checkkernel: %s\n", dlerror());
    else if (kt_module_check(plugin, symbol + strlen("kt_plugin_"), &error)) {
        (void)fprintf(stderr, "checkkernel: %s\n", error.message);
        plugin = NULL;
    }
    return plugin;
}

/* KEY=VALUE of a list, which is cut there; the next one, or NULL. *found: there is such an option. */
static char *set_value(const struct kt_plugin *plugin, char *word, struct kt_option_value values[MAX_OPTIONS],
                       bool *found)
{
    const size_t length = strcspn(word, "=");
    char *end = strchr(word, ',');
    *found = false;
    if (end)
        *end++ = '\0';
    for (uint32_t i = 0; i < plugin->n_options && i < MAX_OPTIONS && word[length]; i++) {
        const char *key = plugin->options[i].key;
        if (strlen(key) != length || memcmp(key, word, length) != 0)
            continue;
        values[i] = (struct kt_option_value){word + length + 1, strtoll(word + length + 1, NULL, 10)};
        *found = true;
    }
    return end;
}

/* The options' defaults, a plugin's first choice and "yes" being those, but for what `set` says; false: there
 * is no such option. */
static bool make_values(const struct kt_plugin *plugin, char *set, struct kt_option_value values[MAX_OPTIONS])
{
    bool found = true;
    for (uint32_t i = 0; i < plugin->n_options && i < MAX_OPTIONS; i++) {
        const struct kt_option *option = &plugin->options[i];
        values[i].text = option->default_text;
        values[i].number = option->type == KT_OPTION_INT    ? strtoll(option->default_text, NULL, 10)
                           : option->type == KT_OPTION_BOOL ? strcmp(option->default_text, "yes") == 0
                                                            : 0;
    }
    while (set && found)
        set = set_value(plugin, set, values, &found);
    return found;
}

int main(int argc, char **argv)
{
    struct kt_option_value values[2][MAX_OPTIONS] = {{{NULL, 0}}};
    struct run run = {.cases = 4, .seed = (uint64_t)time(NULL)};
    struct files files = {NULL, NULL, NULL};
    struct kt_error error = {KT_OK, ""};
    void *instance[2] = {NULL, NULL};
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* a crash takes no message along */
    if (!parse(argc, argv, &run, &files)) {
        (void)fputs(
            "usage: checkkernel --plugin FILE|reference [--level L] [--skip 'L...'] [--type T] "
            "[--cases N] [--seed N] [--emulated] [--no-subnormal] [--set KEY=VALUE,... [--also KEY=VALUE,...]] "
            "[--record FILE] [--known FILE [--same-code]]\n",
            stderr);
        return 2;
    }
    run.plugin = open_plugin(files.plugin);
    run.lines = files.known ? recorded_load(files.known, run.seed) : NULL; /* NULL: all is computed */
    run.record = files.record ? recorded_create(files.record, run.seed) : NULL;
    if (!run.plugin || (files.record && !run.record))
        return 1;
    if (!model_find(run.plugin->name)) {
        (void)fprintf(stderr, "checkkernel: model.c does not know %s\n", run.plugin->name);
        return 1;
    }
    bool detected = !kt_cpu_detect(getenv("KT_KERNEL_CPU_VARIANT"), &run.caps, &error);
    run.caps.l2_size = 65536; /* so small that 65 rows are two row blocks */
    for (int i = 0; i < 1 + (run.set[1] != NULL); i++) {
        if (!make_values(run.plugin, run.set[i], values[i])) {
            (void)fprintf(stderr, "checkkernel: %s has no option as in %s\n", run.plugin->name, run.set[i]);
            return 2;
        }
        instance[i] = &run; /* not NULL, where a plugin has no open */
        if (!detected ||
            (run.plugin->open && run.plugin->open(&check_host, &run.caps, values[i], &instance[i], &error))) {
            (void)fprintf(stderr, "checkkernel: %s\n", error.message);
            return 1;
        }
    }
    if (!ask_levels(&run, instance[0]) || (run.set[1] && !ask_levels(&run, instance[1])))
        return 1;
    unsigned levels = run_cases(&run, instance);
    for (int i = 0; i < 1 + (run.set[1] != NULL) && run.plugin->close; i++)
        run.plugin->close(instance[i]);
    free(run.lines);
    if (check_allocated) {
        printf("FAIL %s: %d blocks were not given back\n", run.plugin->name, check_allocated);
        run.failed++;
    }
    if (run.record && fclose(run.record) != 0) {
        perror(files.record);
        return 1;
    }
    if (levels == 0) {
        printf("SKIP: checkkernel: this CPU can run no level of %s that was asked for\n", run.plugin->name);
        return 77;
    }
    printf("checkkernel: %s: %u levels, %u cases, %u wrong, %u known, --seed %llu\n", run.plugin->name,
           levels, run.done, run.failed, run.known, (unsigned long long)run.seed);
    return run.failed > 0;
}
