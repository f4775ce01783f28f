/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.h - shared by the files of `kt plugin`.
 *
 * `kt plugin check` calls nothing of a plugin in its own process: every check is a job that a child process
 * runs under a time limit, and the job's verdict includes how the child ended.
 */
#ifndef KT_TOOL_PLUGIN_H
#define KT_TOOL_PLUGIN_H

#include "tools/check/check.h"
#include "tools/kt/base/cli.h"

#include <kt/plugin_attention.h>
#include <kt/plugin_rows.h>
#include <sys/types.h>

enum plugin_state { PLUGIN_OK, PLUGIN_FAILED, PLUGIN_SKIPPED };

struct plugin_verdict {
    enum plugin_state state;
    char text[1024]; /* what was checked, what is wrong, or why it was skipped */
};

/* Sets a verdict; return it: `return plugin_say(verdict, PLUGIN_FAILED, ...)`. */
enum plugin_state plugin_say(struct plugin_verdict *verdict, enum plugin_state state, const char *format, ...)
    KT_PRINTF(3, 4);

/* ---- file.c: the file as bytes --------------------------------------------------------- */

struct plugin_file {
    const char *path; /* as the user named it */
    char name[32];    /* NAME of kt_NAME.so */
    unsigned char *data;
    uint64_t size;
    char *copy; /* path of a copy that nobody else can change */
};

/* Reads FILE and makes the copy. False after a verdict. */
bool plugin_file_open(const struct kt_cli *cli, const char *path, struct plugin_file *file,
                      struct plugin_verdict *verdict);
void plugin_file_close(struct plugin_file *file);
/* One exported symbol, no undefined kt_ symbol, no RUNPATH. */
enum plugin_state plugin_file_symbols(const struct plugin_file *file, struct plugin_verdict *verdict);
/* No code runs when it is loaded. */
enum plugin_state plugin_file_constructors(const struct plugin_file *file, struct plugin_verdict *verdict);

/* ---- state.c: process state that a plugin must not change ------------------------------------- */

#define PLUGIN_N_STATES 12

struct plugin_process {
    uint64_t values[PLUGIN_N_STATES];
};
void plugin_state_take(struct plugin_process *process);
/* Names the first state that has changed; NULL: none. */
const char *plugin_state_compare(const struct plugin_process *process);
/* Are the floating-point modes unchanged? Fast. */
bool plugin_state_has_modes(const struct plugin_process *process);
/* Lists the first n child processes; returns how many. */
unsigned plugin_children(pid_t *children, unsigned n);

/* ---- child.c --------------------------------------------------------------------------- */

#define PLUGIN_PAYLOAD 32768

/* Memory that a child shares with its parent. */
struct plugin_child {
    struct plugin_verdict verdict;
    char where[256]; /* what the child is doing */
    bool finished;   /* the job returned */
    bool speaks;     /* it may write to standard output and error */
    char region[64]; /* name of the guarded memory that a crash met, or "" */
    int64_t offset;
    uint64_t region_size;
    union {
        unsigned char bytes[PLUGIN_PAYLOAD];
        uint64_t aligned;
    } payload; /* the job's result */
};

typedef void plugin_job(void *data, struct plugin_child *child);

/* Runs a job in a child and returns its verdict. A crash, an exit, a loop, output to standard output or
 * error, and changed process state are failures. `result` gets the child's shared memory. */
enum plugin_state plugin_child_run(const struct kt_cli *cli, uint64_t seconds, plugin_job *job, void *data,
                                   struct plugin_child *result);

/* ---- open.c: a plugin loaded in a child -------------------------------------------------- */

#define PLUGIN_MAX_OPTIONS 64

/* Tables of functions that a level may have. */
enum { PLUGIN_EXPERTS = 1, PLUGIN_ATTENTION = 2, PLUGIN_ROWS = 4 };

/* A field of a struct of the plugin's that begins with its size: NULL where an older one ends before it. */
#define PLUGIN_FIELD(object, field)                                                            \
    ((object)->struct_size >= offsetof(__typeof__(*(object)), field) + sizeof((object)->field) \
         ? (object)->field                                                                     \
         : NULL)

/* Facts found when the library loaded the plugin, for later children. */
struct plugin_facts {
    uint64_t cpu; /* KT_CPU_ bits that may be used */
    int state;    /* enum kt_backend_state */
    char reason[1024];
    char version[64], formats[512];
    uint32_t n_levels, n_options;
    struct {
        char name[32];
        uint64_t cpu;
        uint32_t tables; /* PLUGIN_EXPERTS, ... */
        bool has_check;
    } levels[64];
    char values[PLUGIN_MAX_OPTIONS][128]; /* of options, as configured */
};
_Static_assert(sizeof(struct plugin_facts) <= PLUGIN_PAYLOAD, "a child's payload must hold the facts");

struct plugin_run {
    struct kt_cli *cli;
    const struct plugin_file *file;
    const struct plugin_facts *facts;
    uint64_t seed;
    unsigned n_kinds; /* cases of each format */
    uint32_t level_index;

    /* In the child: */
    struct plugin_child *child;
    struct plugin_process before;
    const struct kt_plugin *plugin;
    const struct kt_level *level;
    struct kt_caps caps;
    struct kt_host host;
    struct kt_option_value values[PLUGIN_MAX_OPTIONS];
    char of[160];         /* ", KEY = VALUE" where an option is tried, for messages */
    char no_linears[400]; /* why the plugin takes none; "": it was not asked or takes some */
    uint32_t activations; /* bits of those that were tried with a format that is taken */
    void *instance;
};

/* A context of the library with this plugin and no other. */
enum kt_status plugin_context(struct kt_cli *cli, struct kt_context **context, struct kt_error *error);
/* A job: fills struct plugin_facts as its payload. `data` is a struct plugin_run. */
plugin_job plugin_job_load;

/* Open the module and make an instance, as the library would; false after a verdict. */
bool plugin_attach(struct plugin_run *run, struct plugin_child *child);
bool plugin_instance(struct plugin_run *run);
/* Calls the level's check, as the core does before it uses a level; KT_OK if it has none. */
enum kt_status plugin_ready(struct plugin_run *run, struct kt_error *error);
/* Which tables of functions the level has. */
uint32_t plugin_tables(const struct kt_level *level);
void plugin_detach(struct plugin_run *run);

/* Sets the child's verdict; only the first failure counts. */
void plugin_fail(struct plugin_run *run, const char *format, ...) KT_PRINTF(2, 3);
bool plugin_failed(const struct plugin_run *run);
void plugin_where(struct plugin_run *run, const char *format, ...) KT_PRINTF(2, 3);

/* Fails if the last function called changed the floating-point modes. */
void plugin_check_modes(struct plugin_run *run);

/* The counting host: makes allocation number `fail_at` fail, 0: none. */
void plugin_host_reset(uint64_t fail_at);
uint64_t plugin_host_allocations(void); /* requested since then */
uint64_t plugin_host_live(void);        /* blocks not yet released */
/* From now on allocations are failures of the plugin in `function`; NULL: allowed again. */
void plugin_host_forbid(const char *function);

/* Jobs on an instance. `data` is a struct plugin_run. */
plugin_job plugin_job_probe, plugin_job_open, plugin_job_level;

/* ---- cases.c: random cases of a level ------------------------------------------------------ */

/* A case: shape, formats, rows. */
struct plugin_case {
    struct plugin_run *run;
    struct check check;
    char text[256]; /* "bf16, hidden 33, intermediate 5, 3 rows"; "linear of bf16, 33 x 5, 3 rows" */
};
typedef void plugin_step(struct plugin_case *item);

/* Runs one case of an expert; false: the plugin does not take it. */
bool plugin_case_run(struct plugin_run *run, uint32_t dtype, unsigned kind, plugin_step *step);
/* Likewise one of a linear; false also where the plugin's ABI has none. */
bool plugin_linear_run(struct plugin_run *run, uint32_t dtype, unsigned kind, plugin_step *step);
/* Runs `step` on all cases, for the job `self`. */
void plugin_cases_run(void *data, struct plugin_child *child, plugin_job *self, plugin_step *step);
/* Asks for a layout; false: the plugin refused with a reason, as it may. */
bool plugin_ask_layout(struct plugin_case *item, struct kt_layout *layout, struct kt_error *error);
void plugin_forget_layout(struct check *check, struct kt_layout *layout);

/* The n-th value to try for an option, and its text; false: there is none. */
bool plugin_option_value(const struct kt_option *option, unsigned n, char text[128],
                         struct kt_option_value *value);

/* Packs one case, checks that, and compares its numbers with float64. */
plugin_step plugin_step_option;
/* Reads the weights by weight_row into check->weights. */
void plugin_read_weights(struct check *check);

/* Jobs on a level, in cases.c, steps.c, cut.c, options.c and memory.c.
 * `data` is a struct plugin_run. */
plugin_job plugin_job_layout;
plugin_job plugin_job_pack, plugin_job_weights, plugin_job_activations, plugin_job_numbers, plugin_job_ranges,
    plugin_job_isolation, plugin_job_cut, plugin_job_unpack;
plugin_job plugin_job_options, plugin_job_threads, plugin_job_memory;

/* ---- attention.c ---- */

/* Asks for layouts until one is taken, and computes its cases if `whole`; false: none is. */
bool plugin_attention_run(struct plugin_run *run, bool whole, struct kt_error *error);
/* Jobs on a level. */
plugin_job plugin_job_attention_layout, plugin_job_attention_numbers, plugin_job_attention_isolation,
    plugin_job_attention_threads;

/* ---- rows.c ---- */

/* Jobs on a level. */
plugin_job plugin_job_rows_numbers, plugin_job_rows_isolation, plugin_job_rows_threads;

/* ---- numbers.c ------------------------------------------------------------------------------ */

/* Runs the whole expert on check->input and writes y of every row. */
void plugin_forward(struct check *check);
/* Compares with float64 arithmetic on the weights that weight_row gives. */
void plugin_compare(struct plugin_case *item);
/* Reads y[r][i]. */
float plugin_read_y(const struct check *check, uint32_t r, uint64_t i);

/* ---- isa.c ------------------------------------------------------------------------------- */

/* Writes the names of KT_CPU_ bits, "avx2 fma", into text; returns text. */
char *plugin_cpu_names(uint64_t bits, char *text, size_t size);
/* Parses such a text; false at an unknown word. */
bool plugin_cpu_parse(const char *names, uint64_t *bits);
/* A job: disassembles the file and follows each function that the core may call. */
plugin_job plugin_job_instructions;

/* ---- check.c, speed.c ------------------------------------------------- */

struct plugin_check_args {
    uint64_t timeout, cases, seed;
    bool quick;
};
int plugin_check(struct kt_cli *cli, const char *path, const struct plugin_check_args *args);

/* A job: one token through a layer whose weights come from memory, as a fraction of the machine's limit. */
plugin_job plugin_job_speed;

/* ---- new.c, intree.c: new backends ------------------------------------------------- */

int plugin_new(struct kt_cli *cli, const char *name, const char *folder);
/* A copy of the backend `like` in the source tree `tree`. */
int plugin_new_in_tree(struct kt_cli *cli, const char *name, const char *like, const char *tree);

/* May a backend be called so? */
bool plugin_check_name(const char *name);
int plugin_refuse_name(const struct kt_cli *cli, const char *name);
/* rename(2) that takes no place of an empty folder's; false: errno says why. */
bool plugin_move_to(const char *from, const char *to);

#endif
