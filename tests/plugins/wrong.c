/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrong.c - the plugin of fake.c with one fault in what it does: the one that KT_TEST_FAULT names in the
 * environment. tests/kt/kt_plugin.sh says which check must find it. What lies in the file itself is built
 * with -DCONSTRUCTOR, -DINITIALIZER, -DRESOLVER, -DSECOND_SYMBOL or -DUNDECLARED, and -DNAME=NAME.
 */
#define _GNU_SOURCE
#define WRONG
#include "tests/plugins/fake.c"

#include <fenv.h>
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define DEFINE(name) KT_PLUGIN_DEFINE(name)
#if !defined FORMATS
#define FORMATS "f32 bf16"
#endif
#define IS(fault) is_fault(#fault)

static bool is_fault(const char *name)
{
    static const char *fault;
    if (!fault && !(fault = getenv("KT_TEST_FAULT")))
        fault = "";
    return strcmp(fault, name) == 0;
}

static volatile int zero, spun;
static volatile unsigned char *volatile nowhere;

#if defined CONSTRUCTOR
static __attribute__((constructor)) void run_early(void)
{
    zero = 0;
}
#endif
#if defined INITIALIZER /* the linker is told its name */
void run_early(void);
void run_early(void)
{
    zero = 0;
}
#endif
#if defined RESOLVER
static int one(void)
{
    return 1;
}
static __attribute__((used)) int (*resolve(void))(void)
{
    return one;
}
int chosen(void) __attribute__((ifunc("resolve")));
int (*volatile call_chosen)(void) = chosen;
#endif
#if defined SECOND_SYMBOL
__attribute__((visibility("default"))) extern int another_symbol;
int another_symbol = 1;
#endif

static void fall(void)
{
    *nowhere = 1;
}

static void *idle(void *data)
{
    (void)data;
    for (;;)
        (void)pause();
    return NULL;
}

/* What a process has once, changed for all of it. */
static void meddle(void)
{
    pthread_t thread;
    if (IS(GATE_THREAD))
        (void)pthread_create(&thread, NULL, idle, NULL);
    if (IS(GATE_PROCESS) && fork() == 0) {
        (void)setsid(); /* it is not in the group that is ended */
        (void)pause();
        _exit(0);
    }
    if (IS(GATE_ROUNDING))
        (void)fesetround(FE_UPWARD);
    if (IS(GATE_HANDLER))
        (void)signal(SIGSEGV, SIG_IGN);
    if (IS(GATE_SIGNALS)) {
        sigset_t all;
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_BLOCK, &all, NULL);
    }
    if (IS(GATE_ALARM))
        (void)alarm(10000);
    if (IS(GATE_OPENS))
        (void)open("/dev/null", O_RDONLY);
    for (int fd = 3; IS(GATE_CLOSES) && fd < 100; fd++)
        (void)close(fd);
    if (IS(GATE_FOLDER) && chdir("/usr") != 0)
        (void)chdir("/");
    if (IS(GATE_LOCALE))
        (void)setlocale(LC_ALL, "C.UTF-8");
    if (IS(GATE_UMASK))
        (void)umask(0777);
    if (IS(GATE_ENVIRONMENT))
        (void)setenv("OMP_NUM_THREADS", "1", 1);
}

static enum kt_status wrong_probe(const struct kt_host *host, const struct kt_caps *caps,
                                  struct kt_error *error)
{
    if (IS(PROBE_CRASH))
        fall();
    while (IS(PROBE_LOOP))
        spun++;
    if (IS(PROBE_EXIT))
        exit(0);
    if (IS(PROBE_PRINT))
        (void)puts("hello from a plugin");
    if (IS(PROBE_MUTE))
        return KT_E_UNSUPPORTED;
    if (IS(PROBE_LEAK))
        (void)host->allocate(host, 100);
    return probe(host, caps, error);
}

/* What the host refuses, or notes, while the plugin is opened. */
static void misuse(const struct kt_host *host)
{
    static float number;
    const struct kt_view view = {.data = &number, .rows = 1, .cols = 1, .dtype = KT_DTYPE_F32};
    struct kt_error error;
    unsigned char *memory;
    if (IS(HOST_LEVEL))
        host->log(host, (enum kt_log_level)77, "a line");
    if (IS(HOST_LINES))
        host->log(host, KT_LOG_DEBUG, "a line\n");
    if (IS(HOST_VIEW))
        (void)host->dequantize(host, &view, 1, 0, 1, &number, &error);
    for (int i = 0; IS(HOST_BLOCKS) && i < 100000 && host->allocate(host, 64); i++)
        spun++;
    if (IS(HOST_BEHIND) && (memory = host->allocate(host, 100))) {
        memory[100] = 1;
        host->release(host, memory, 100);
    }
}

static enum kt_status wrong_open(const struct kt_host *host, const struct kt_caps *caps,
                                 const struct kt_option_value *values, void **instance,
                                 struct kt_error *error)
{
    pthread_t thread;
    if (IS(OPEN_TEXT)) {
        memset(error, 'A', sizeof *error);
        return KT_E_IO;
    }
    misuse(host);
    bool refuses = values[OPTION_PANEL_ROWS].number == 128;
    if (IS(OPTION_LEAK) && refuses)
        (void)host->allocate(host, 64);
    if (IS(OPTION_MUTE) && refuses)
        return KT_E_INVALID;
    void *first = IS(MEMORY_LEAK) || IS(MEMORY_STATUS) ? host->allocate(host, 64) : NULL;
    void *second = first ? host->allocate(host, 64) : NULL;
    if (!second && (IS(MEMORY_LEAK) || IS(MEMORY_STATUS))) {
        if (first && IS(MEMORY_STATUS))
            host->release(host, first, 64);
        return kt_plugin_fail(error, IS(MEMORY_STATUS) ? KT_E_IO : KT_E_NOMEM, "no memory");
    }
    if (first) {
        host->release(host, first, 64);
        host->release(host, second, 64);
    }
    if (IS(OPEN_LEAVES))
        *instance = (void *)&zero;
    if (IS(OPEN_LEAVES) || IS(OPEN_MUTE))
        return KT_E_IO;
    if (IS(OPEN_PATH))
        return host->trust(host, "kt.ini", error);
    if (IS(OPEN_WRITABLE))
        return host->trust(host, getenv("KT_TEST_FILE"), error);
    if (IS(OPEN_MALLOC))
        spun += malloc(1000) != NULL;
    if (IS(OPEN_CACHES))
        zero = (int)(65536 / caps->l2_size);
    if (IS(OPEN_LEAK))
        (void)host->allocate(host, 100);
    if (IS(OPEN_THREAD))
        (void)pthread_create(&thread, NULL, idle, NULL);
    if (IS(OPEN_CARELESS)) {
        void *memory = host->allocate(host, 64);
        memset(memory, 0, 64);
        host->release(host, memory, 64);
    }
    return open_fake(host, caps, values, instance, error);
}

static void wrong_close(void *instance)
{
    struct fake *fake = instance, copy = *fake;
    if (IS(CLOSE_SIZE)) {
        copy.host->release(copy.host, fake, sizeof *fake + 1);
        return;
    }
    close_fake(instance);
    if (IS(CLOSE_TWICE))
        copy.host->release(copy.host, fake, sizeof *fake);
}

static void misstate(struct kt_layout *layout_)
{
    int s = KT_STAGE_DOWN;
    if (IS(LAYOUT_PANELS))
        layout_->panel_rows[s] = 0;
    if (IS(LAYOUT_NOMINAL))
        layout_->nominal_size[s] = 0;
    if (IS(LAYOUT_WEIGHTS))
        layout_->weight_size[s] = 0;
    if (IS(LAYOUT_ROWS))
        layout_->act_row_size[s] = 0;
    if (IS(LAYOUT_H) && layout_->shape.activation != KT_ACTIVATION_NONE)
        layout_->h_row_size = 0;
    if (IS(LAYOUT_WORDS))
        layout_->rounding = "to whatever comes into the mind of whoever writes of it";
    if (IS(LAYOUT_SCRATCH))
        layout_->scratch_size = UINT64_C(1) << 62;
    if (IS(LAYOUT_Y))
        layout_->y_dtype = KT_DTYPE_F16;
    if (IS(CUT_SHARD))
        (void)snprintf(layout_->form, sizeof layout_->form, "wrong-1");
    if (IS(LAYOUT_FORM))
        memset(layout_->form, 'x', sizeof layout_->form);
}

static enum kt_status wrong_layout(void *instance, struct kt_layout *layout_, struct kt_error *error)
{
    struct kt_shape *shape = &layout_->shape;
    bool linear = shape->activation == KT_ACTIVATION_NONE;
    if (IS(LAYOUT_NOTHING))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "nothing is taken");
    if (IS(LAYOUT_LEAK))
        (void)((const struct fake *)instance)->host->allocate(((const struct fake *)instance)->host, 64);
    if (IS(CUT_SHARD) && *layout_->form)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "no shards are taken");
    if (IS(LINEAR_FORMAT) && linear)
        zero = (int)(32 / shape->format[KT_GATE].dtype);
    for (int p = linear && !IS(LINEAR_REFUSES) ? KT_DOWN : KT_GATE; p < 3; p++)
        if (shape->format[p].dtype != KT_DTYPE_F32 && shape->format[p].dtype != KT_DTYPE_BF16)
            return IS(LAYOUT_MUTE) ? KT_E_UNSUPPORTED
                                   : kt_plugin_fail(error, KT_E_UNSUPPORTED, "f32 and bf16 are taken");
    if (IS(LAYOUT_OVERFLOW) && shape->hidden_size > SIZE_LIMIT) {
        shape->hidden_size = shape->intermediate_size = 1;
        (void)layout(instance, layout_, error);
        shape->hidden_size = shape->intermediate_size = UINT64_C(1) << 62;
        return KT_OK;
    }
    enum kt_status status = layout(instance, layout_, error);
    static int n_asked;
    if (IS(LAYOUT_AGAIN) && n_asked++ % 2 != 0)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "not twice");
    if (IS(LAYOUT_OTHER) && n_asked++ % 2 != 0)
        layout_->h_row_size += 64;
    misstate(layout_);
    if (IS(LAYOUT_SHORT))
        for (int s = 0; s < 2; s++)
            layout_->weight_size[s] = (uint32_t)layout_->weight_size[s];
    if (IS(LAYOUT_UNIT))
        layout_->k_unit = 0;
    if (IS(LINEAR_STAGE) && linear)
        layout_->act_row_size[0] = 64;
    if (IS(LAYOUT_SHAPE))
        shape->top_k++;
    return status;
}

static enum kt_status wrong_pack(void *instance, const struct kt_pack *job, struct kt_error *error)
{
    const struct kt_layout *own = job->layout;
    struct kt_expert unscaled = *job->source;
    struct kt_pack other = *job;
    unscaled.gate.scales.data = unscaled.up.scales.data = unscaled.down.scales.data = NULL;
    if (IS(WEIGHTS_FACTOR))
        other.source = &unscaled;
    enum kt_status status = pack(instance, &other, error);
    float *packed = job->packed;
    if (IS(LINEAR_VIEW) && !job->source->gate.data)
        fall();
    while (IS(PACK_LOOP))
        spun++;
    if (IS(PACK_BEYOND))
        ((volatile unsigned char *)job->packed)[own->weight_size[job->stage]] = 1;
    if (IS(PACK_RANGES) && job->panel_begin > 0)
        packed[0] = 1e9f;
    if (IS(PACK_SOURCE))
        *(volatile unsigned char *)(uintptr_t)job->source->gate.data = 0;
    bool first = job->stage == KT_STAGE_GATE_UP && job->panel_begin == 0 && job->panel_end > 0;
    for (uint64_t i = 0; IS(WEIGHTS_ROWS) && first && i < own->shape.hidden_size; i++) {
        float *gate = packed_row(own, packed, KT_GATE, 0) + i, *up = packed_row(own, packed, KT_UP, 0) + i;
        float kept = *gate;
        *gate = *up;
        *up = kept;
    }
    uint64_t panels = own->panel_rows[KT_STAGE_DOWN], begin = job->panel_begin * panels;
    uint64_t end = job->panel_end * panels, cols = own->shape.intermediate_size;
    end = end < own->shape.hidden_size ? end : own->shape.hidden_size;
    for (uint64_t i = begin * cols; IS(WEIGHTS_ROUND) && job->stage == KT_STAGE_DOWN && i < end * cols; i++)
        packed[i] = roundf(packed[i] * 256) / 256;
    return status;
}

static enum kt_status wrong_row(void *instance, const struct kt_layout *own, const void *packed,
                                const struct kt_expert *source, enum kt_projection projection, uint64_t row,
                                float *out, struct kt_error *error)
{
    enum kt_status status = weight_row(instance, own, packed, source, projection, row, out, error);
    if (IS(WEIGHTS_SHARD) && !source)
        return kt_plugin_fail(error, KT_E_IO, "no row of a shard");
    if (IS(WEIGHTS_FAIL) && row == 3)
        return kt_plugin_fail(error, KT_E_IO, "no row 3");
    if (IS(WEIGHTS_BEFORE))
        out[-1] = 0;
    if (IS(WEIGHTS_BEYOND))
        out[projection == KT_DOWN ? own->shape.intermediate_size : own->shape.hidden_size] = 0;
    return status;
}

static void wrong_act(void *instance, const struct kt_act_pack *job)
{
    struct kt_act_pack other = *job;
    bool linear = job->layout->shape.activation == KT_ACTIVATION_NONE;
    uint64_t n = job->layout->shape.intermediate_size;
    if (IS(LINEAR_STRIDE) && linear)
        other.source_stride = (int64_t)(n * (job->source_dtype == KT_DTYPE_F32 ? 4 : 2));
    if (IS(LINEAR_OPTION) && linear && job->layout->panel_rows[1] == 128)
        fall();
    if (IS(LINEAR_H) && linear)
        other.source_dtype = 0;
    if (IS(LINEAR_JOBS) && linear)
        other.packed = (char *)job->packed - job->row_begin * job->layout->act_row_size[1];
    if (IS(ACT_F16) && job->source_dtype == KT_DTYPE_F16)
        other.source_dtype = KT_DTYPE_BF16;
    act_pack(instance, &other);
    if (IS(ACT_ROWS) && job->row_end - job->row_begin < job->n_rows)
        *(float *)job->packed = 7;
}

static void wrong_gate(void *instance, const struct kt_product *job)
{
    const struct fake *fake = instance;
    const struct kt_layout *own = job->layout;
    if (IS(GATE_BEFORE))
        zero += ((const volatile unsigned char *)job->packed)[-1];
    if (IS(GATE_SOURCE))
        *(volatile unsigned char *)(uintptr_t)job->packed = 0;
    if (IS(GATE_TRAP) && job->n_rows == 33)
        __builtin_trap();
    meddle();
    if (IS(GATE_INDEX))
        zero += (int)((const volatile uint32_t *)job->index)[job->n_rows];
    if (IS(GATE_NEXT))
        zero += ((const volatile unsigned char *)job->next)[job->next_size];
    if (IS(GATE_ROWS) && job->n_rows > 256)
        fall();
    if (IS(GATE_OPTION) && fake->values[OPTION_PANEL_ROWS].number == 128)
        fall();
    if (IS(GATE_FAILS))
        (void)kt_plugin_fail(job->error, KT_E_IO, "no reason at all");
    if (IS(GATE_FIRST) && spun++ > 0)
        return;
    if (IS(GATE_BIAS) && job->bias[0] && !job->bias[1])
        fall();
    if (IS(GATE_ALLOCATES))
        fake->host->release(fake->host, fake->host->allocate(fake->host, 64), 64);
    gate_up(instance, job);
    uint64_t last = own->shape.hidden_size - 1, end = job->panel_end * own->panel_rows[0];
    for (uint64_t row = job->panel_begin * own->panel_rows[0];
         IS(GATE_COLUMN) && row < end && row < own->shape.intermediate_size; row++)
        for (uint32_t r = 0; r < job->n_rows; r++) {
            const float *x = act_row(job, KT_STAGE_GATE_UP, r);
            float g = multiply(packed_row(own, job->packed, KT_GATE, row), x, last);
            float u = multiply(packed_row(own, job->packed, KT_UP, row), x, last);
            ((float *)(void *)((char *)job->out + r * own->h_row_size))[row] =
                activate(&own->shape, g + (job->bias[0] ? job->bias[0][row] : 0),
                         u + (job->bias[1] ? job->bias[1][row] : 0));
        }
}

static float *y_row(const struct kt_product *job, uint32_t r)
{
    return (float *)(void *)((char *)job->out + (int64_t)job->out_index[r] * job->out_stride);
}

static void wrong_down(void *instance, const struct kt_product *job)
{
    const struct kt_shape *shape = &job->layout->shape;
    struct kt_product other = *job;
    uint64_t n = shape->intermediate_size;
    bool is_worker = IS(THREADS) && syscall(SYS_gettid) != getpid();
    if (IS(DOWN_BIAS))
        other.bias[0] = NULL;
    down(instance, &other);
    uint64_t first = job->panel_begin * job->layout->panel_rows[1],
             end = job->panel_end * job->layout->panel_rows[1];
    end = end < shape->hidden_size ? end : shape->hidden_size;
    for (uint32_t r = 0; r < job->n_rows; r++) {
        float *y = y_row(job, r);
        for (uint64_t row = first; row < end; row++) {
            float last = packed_row(job->layout, job->packed, KT_DOWN, row)[n - 1] *
                         act_row(job, KT_STAGE_DOWN, r)[n - 1];
            if (IS(DOWN_COLUMN) || (IS(LINEAR_COLUMN) && shape->activation == KT_ACTIVATION_NONE))
                y[row] -= last;
            if (IS(DOWN_SCALE))
                y[row] *= 0.97f;
            if (IS(DOWN_MEAN) && job->n_rows == 33) /* where rows are dense, their bound is wide */
                y[row] *= 0.96f;
            if (IS(DOWN_ALIGNED) && (uintptr_t)y % 64 != 0)
                y[row] *= 1.1f;
            if (IS(DOWN_PANELS) && row == first && first > 0)
                y[row] *= 1.0001f;
            if (IS(DOWN_PLACE) && r + 1 == job->n_rows)
                y[row] *= 1.0000002f;
            if (IS(NAN_LEAKS) && r > 0 && isnan(y_row(job, 0)[row]))
                y[row] = NAN;
            if (IS(NAN_HIDDEN) && isnan(y[row]))
                y[row] = 0;
            if (is_worker)
                y[row] *= 1.0001f;
        }
    }
    for (uint32_t r = 0; IS(DOWN_GAP) && job->n_rows > 1 && r < job->n_rows; r++)
        if (job->out_index[r] == 0)
            y_row(job, r)[shape->hidden_size] = 7;
    if (IS(DOWN_BEYOND))
        ((volatile float *)y_row(job, job->n_rows - 1))[shape->hidden_size] = 0;
}

static void wrong_cut(void *instance, const struct kt_cut *job)
{
    struct kt_cut other = *job;
    if (IS(CUT_ROW))
        other.begin = job->begin - 1;
    cut(instance, &other);
    if (IS(CUT_FAILS))
        (void)kt_plugin_fail(job->error, KT_E_IO, "no cut");
    if (IS(CUT_BEYOND))
        ((volatile unsigned char *)job->out)[job->shard->weight_size[job->stage]] = 1;
}

static enum kt_status wrong_unpack(void *instance, const struct kt_unpack *job, struct kt_error *error)
{
    (void)instance;
    if (IS(UNPACK_MUTE) || (IS(UNPACK_FAILS) && job->codes))
        return KT_E_IO;
    if (IS(UNPACK_FAILS))
        return KT_OK;
    if (!IS(UNPACK_LIES))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "weights are float32");
    for (uint64_t row = job->row_begin; row < job->row_end; row++)
        memset((char *)job->codes + (int64_t)(row - job->row_begin) * job->codes_stride, 0,
               (size_t)job->codes_stride);
    return KT_OK;
}

#if defined UNDECLARED && defined __x86_64__
static void never(void)
{
    __asm__ volatile("vpaddd %%ymm0, %%ymm1, %%ymm2" ::: "memory");
}

static void enter(void *instance)
{
    (void)instance;
    if (zero)
        never();
}

static void leave(void *instance)
{
    (void)instance;
}
#endif

static const struct kt_ops wrong_ops = {
    .struct_size = sizeof wrong_ops,
    .layout = wrong_layout,
    .pack = wrong_pack,
    .act_pack = wrong_act,
    .gate_up = wrong_gate,
    .down = wrong_down,
    .weight_row = wrong_row,
    .cut = wrong_cut,
    .unpack = wrong_unpack,
    .tunables = tunables,
    .n_tunables = sizeof tunables / sizeof tunables[0],
#if defined UNDECLARED && defined __x86_64__
    .thread_enter = enter,
    .thread_leave = leave,
#endif
};
static enum kt_status check_level(void *instance, struct kt_error *error)
{
    const struct kt_host *host = ((const struct fake *)instance)->host;
    (void)error;
    if (IS(CHECK_LEAK))
        (void)host->allocate(host, 64);
    return IS(CHECK_MUTE) ? KT_E_UNSUPPORTED : KT_OK;
}

static const struct kt_level wrong_level = {.struct_size = sizeof wrong_level,
                                            .name = "scalar",
                                            .instruction = "mulss",
                                            .check = check_level,
                                            .ops = &wrong_ops};
static const struct kt_level *const wrong_levels[] = {&wrong_level};
/* What fake.c has of its own, and what one fault alone uses. */
static __attribute__((used)) const void *const unused[] = {levels};
static __attribute__((used)) void *(*const unused_function)(void *) = idle;

DEFINE(NAME) = {
    .abi_major = KT_PLUGIN_ABI_MAJOR,
    .abi_minor = KT_PLUGIN_ABI_MINOR,
    .struct_size = sizeof(struct kt_plugin),
    .name = TEXT(NAME),
    .version = "1.0",
    .description = "wrong, for tests",
    .formats = FORMATS,
    .levels = wrong_levels,
    .n_levels = 1,
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .probe = wrong_probe,
    .open = wrong_open,
    .close = wrong_close,
};
