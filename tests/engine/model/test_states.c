/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_states.c - models whose layers keep states (Gated DeltaNet): bits, sessions that cannot go back, steps
 * that fail midway, names of checkpoints that see images, too, wrong configurations. Their logits are
 * compared in tests/engine/families.
 */
#include "tests/engine/families/opened.h"
#include "tests/support/alloc_faults.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"
#include "tools/engine/model/block/block.h"

#include <check.h>
#include <kt/engine.h>
#include <stdlib.h>
#include <string.h>

#define N_IDS 70

struct world {
    struct family family;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    int32_t ids[N_IDS];
};

static struct kt_error error;

static bool open_context(struct world *w, int threads, bool deterministic)
{
    w->context = opened_context(threads, deterministic ? "core.deterministic=yes" : "core.deterministic=no");
    return w->context != NULL;
}

static void open_family(struct world *w, const char *name)
{
    opened_tables(&w->family, name);
    for (uint32_t i = 0; i < N_IDS; i++)
        w->ids[i] = family_id(&w->family, i);
}

static enum kt_status open_model(struct world *w, const char *path, uint32_t max_batch)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.cache_dtype = KT_DTYPE_F32;
    params.max_sessions = 3;
    params.cache_tokens = 1024;
    params.max_batch = max_batch;
    ck_ok(kt_checkpoint_open(path, NULL, &w->checkpoint, &ck_error));
    return kt_model_open(w->context, w->checkpoint, &params, &w->model, &error);
}

/* The model in a folder of its own. */
static bool open_world(struct world *w, const char *name, int threads, bool deterministic, uint32_t max_batch)
{
    memset(w, 0, sizeof(*w));
    if (!open_context(w, threads, deterministic))
        return false;
    open_family(w, name);
    ck_assert_msg(open_model(w, opened_file(&w->family, false), max_batch) == KT_OK, "%s", error.message);
    ck_ok(kt_session_open(w->model, &w->session, &ck_error));
    return true;
}

static void close_world(struct world *w)
{
    kt_session_close(w->session);
    kt_model_close(w->model);
    kt_checkpoint_close(w->checkpoint);
    kt_context_destroy(w->context);
    family_close(&w->family);
}

static float *make_logits(const struct world *w, uint32_t n)
{
    return calloc((size_t)n * w->family.vocabulary, sizeof(float));
}

/* Logits of tokens first .. first + n - 1, which go into a session in one step. */
static float *step(struct world *w, struct kt_session *session, uint32_t first, uint32_t n)
{
    float *logits = make_logits(w, n);
    const struct kt_step one = {session, w->ids + first, n, n, logits};
    ck_ok(kt_model_step(w->model, &one, 1, &ck_error));
    return logits;
}

/* Frees what was got. */
static void expect_same(const struct world *w, float *got, const float *wanted, uint32_t first, uint32_t n,
                        const char *what)
{
    size_t size = w->family.vocabulary * sizeof(float);
    ck_assert_msg(memcmp(got, wanted + (size_t)first * w->family.vocabulary, n * size) == 0, "%s: other bits",
                  what);
    free(got);
}

/* ---- bits ---- */

/* Slices of 1 and 7 tokens take the states from one to the next, and keep to one form of the delta rule. */
START_TEST(bits_do_not_depend_on_threads_or_slices)
{
    static const struct {
        int threads;
        uint32_t batch;
    } ways[] = {{1, 0}, {3, 0}, {5, 7}, {1, 1}};
    struct world first, w;
    if (!open_world(&first, _i ? "qwen35moe" : "qwen3next", 2, true, 0))
        return;
    float *wanted = step(&first, first.session, 0, N_IDS);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        ck_assert(open_world(&w, first.family.name, ways[i].threads, true, ways[i].batch));
        expect_same(&w, step(&w, w.session, 0, N_IDS), wanted, 0, N_IDS, "another slice or thread");
        close_world(&w);
    }
    free(wanted);
    close_world(&first);
}
END_TEST

/* Without core.deterministic too. */
START_TEST(bits_do_not_depend_on_threads)
{
    struct world first, w;
    if (!open_world(&first, "qwen3next", 1, false, 0))
        return;
    ck_assert(open_world(&w, "qwen3next", 4, false, 0));
    float *wanted = step(&first, first.session, 0, N_IDS);
    expect_same(&w, step(&w, w.session, 0, N_IDS), wanted, 0, N_IDS, "four threads");
    free(wanted);
    close_world(&w);
    close_world(&first);
}
END_TEST

START_TEST(bits_do_not_depend_on_other_sessions)
{
    struct world w;
    struct kt_session *others[2];
    if (!open_world(&w, _i ? "qwen35moe" : "qwen3next", 2, true, 32))
        return;
    float *wanted = step(&w, w.session, 0, N_IDS), *prompt = make_logits(&w, 69);
    float *last = make_logits(&w, 1), *other = make_logits(&w, 1);
    ck_ok(kt_session_truncate(w.session, 0, &ck_error));
    for (int i = 0; i < 2; i++)
        ck_ok(kt_session_open(w.model, &others[i], &ck_error));
    const struct kt_step mixed[] = {{others[0], w.ids + 3, 40, 0, NULL},
                                    {w.session, w.ids, 69, 69, prompt},
                                    {others[1], w.ids + 9, 1, 1, other}};
    ck_ok(kt_model_step(w.model, mixed, 3, &ck_error));
    expect_same(&w, prompt, wanted, 0, 69, "a prompt beside others");
    const struct kt_step decodes[] = {{others[1], w.ids, 1, 0, NULL},
                                      {w.session, w.ids + 69, 1, 1, last},
                                      {others[0], w.ids + 1, 1, 1, other}};
    ck_ok(kt_model_step(w.model, decodes, 3, &ck_error));
    expect_same(&w, last, wanted, 69, 1, "a token beside others");
    for (int i = 0; i < 2; i++)
        kt_session_close(others[i]);
    free(other);
    free(wanted);
    close_world(&w);
}
END_TEST

/* ---- sessions ---- */

START_TEST(sessions_fork_whole_and_begin_anew)
{
    struct world w;
    struct kt_session *fork, *none, *restored;
    int32_t *ids;
    uint64_t n_ids;
    struct kt_model_info info;
    if (!open_world(&w, "qwen3next", 2, true, 0))
        return;
    kt_model_info(w.model, &info);
    ck_assert_uint_eq(info.has_states, 1);
    float *wanted = step(&w, w.session, 0, N_IDS);
    ck_says(kt_session_truncate(w.session, 33, &error), &error, KT_E_UNSUPPORTED,
            "the first 33 of 70 tokens: states cannot be truncated");
    ck_says(kt_session_fork(w.session, 33, &fork, &error), &error, KT_E_UNSUPPORTED, "or keep 0 tokens");
    ck_assert_uint_eq(kt_session_tokens(w.session), N_IDS);
    ck_ok(kt_session_truncate(w.session, 0, &ck_error));
    expect_same(&w, step(&w, w.session, 0, 40), wanted, 0, 40, "begun again");
    ck_ok(kt_session_fork(w.session, 40, &fork, &ck_error)); /* a snapshot */
    ck_ok(kt_session_fork(w.session, 0, &none, &ck_error));
    expect_same(&w, step(&w, w.session, 40, 30), wanted, 40, 30, "behind a fork");
    expect_same(&w, step(&w, fork, 40, 30), wanted, 40, 30, "of a fork");
    expect_same(&w, step(&w, none, 0, 40), wanted, 0, 40, "of a fork of no tokens");
    ck_ok(kt_session_save(none, sandbox_path("saved"), w.ids, &ck_error));
    kt_session_close(none);
    ck_ok(kt_session_restore(w.model, sandbox_path("saved"), &restored, &ids, &n_ids, &ck_error));
    ck_assert_uint_eq(n_ids, 40);
    expect_same(&w, step(&w, restored, 40, 30), wanted, 40, 30, "of a file");
    kt_session_close(restored);
    free(ids);
    kt_session_close(fork);
    free(wanted);
    close_world(&w);
}
END_TEST

/* Memory is asked for before anything is computed, so states are as they were without it. */
START_TEST(a_step_without_memory_changes_nothing)
{
    struct world w;
    struct kt_session *second;
    bool hit = true;
    int n_failed = 0;
    if (!open_world(&w, "qwen3next", 1, true, 0))
        return;
    float *wanted = step(&w, w.session, 0, 12), *logits[2] = {make_logits(&w, 1), make_logits(&w, 1)};
    ck_ok(kt_session_open(w.model, &second, &ck_error));
    for (unsigned long n = 1; hit; n++, n_failed++) {
        ck_ok(kt_session_truncate(w.session, 0, &ck_error));
        ck_ok(kt_session_truncate(second, 0, &ck_error));
        free(step(&w, w.session, 0, 11));
        const struct kt_step both[] = {{w.session, w.ids + 11, 1, 1, logits[0]},
                                       {second, w.ids, 1, 1, logits[1]}};
        faults_arm(n);
        enum kt_status status = kt_model_step(w.model, both, 2, &error);
        hit = faults_hit();
        faults_arm(0);
        ck_assert_int_eq(status, hit ? KT_E_NOMEM : KT_OK);
        if (!hit)
            break;
        ck_assert_uint_eq(kt_session_tokens(w.session), 11);
        expect_same(&w, step(&w, w.session, 11, 1), wanted, 11, 1, "after a failure");
        expect_same(&w, step(&w, second, 0, 12), wanted, 0, 12, "a session that had no tokens");
    }
    ck_assert_int_gt(n_failed, 1);
    free(logits[0]);
    free(logits[1]);
    free(wanted);
    kt_session_close(second);
    close_world(&w);
}
END_TEST

/* What a backend that fails within a slice leaves behind. */
START_TEST(spoilt_states_are_refused)
{
    struct world w;
    struct kt_session *fork;
    if (!open_world(&w, "qwen3next", 1, true, 0))
        return;
    float *wanted = step(&w, w.session, 0, 12), *logits = make_logits(&w, 1);
    const struct kt_step one = {w.session, w.ids, 1, 1, logits};
    w.session->spoilt = true;
    ck_says(kt_model_step(w.model, &one, 1, &error), &error, KT_E_STATE, "truncate it to 0");
    ck_says(kt_session_truncate(w.session, 12, &error), &error, KT_E_STATE, "its states");
    ck_says(kt_session_fork(w.session, 12, &fork, &error), &error, KT_E_STATE, "its states");
    ck_says(kt_session_save(w.session, sandbox_path("saved"), w.ids, &error), &error, KT_E_STATE,
            "its states");
    ck_ok(kt_session_truncate(w.session, 0, &ck_error));
    expect_same(&w, step(&w, w.session, 0, 12), wanted, 0, 12, "from the beginning");
    free(logits);
    free(wanted);
    close_world(&w);
}
END_TEST

/* ---- names ---- */

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size);
    ck_assert_uint_eq(fread(data, 1, *size, file), *size);
    ck_assert_int_eq(fclose(file), 0);
    return data;
}

/* As checkpoints that see images have it: config.json keeps all of it in text_config, and the names of
 * tensors begin otherwise. How much of a head is rotated is left out: a quarter, as here. */
static void write_with_images(const struct world *w)
{
    size_t size, header_size;
    json_error_t place;
    char *data = read_file(sandbox_path("model/model.safetensors"), &size);
    uint64_t length;
    memcpy(&length, data, sizeof(length));
    json_t *header = json_loadb(data + 8, length, 0, &place), *renamed = json_object(), *item;
    const char *name;
    json_object_foreach (header, name, item) {
        char other[200];
        bool is_text = strncmp(name, "model.", 6) == 0 && strncmp(name, "model.visual.", 13) != 0;
        (void)snprintf(other, sizeof(other), "%s%s", is_text ? "model.language_model." : "",
                       name + (is_text ? 6 : 0));
        json_object_set(renamed, other, item);
    }
    char *text = json_dumps(renamed, JSON_COMPACT);
    header_size = (strlen(text) + 7) / 8 * 8;
    char *out = malloc(8 + header_size + size);
    uint64_t written = header_size;
    memcpy(out, &written, 8);
    memset(out + 8, ' ', header_size);
    memcpy(out + 8, text, strlen(text));
    memcpy(out + 8 + header_size, data + 8 + length, size - 8 - length);
    sandbox_write_bytes("images/model.safetensors", out, header_size + size - length);
    json_t *rope = json_object_get(w->family.config, "rope_parameters");
    ck_assert_int_eq(json_object_del(rope, "partial_rotary_factor"), 0);
    json_t *config = json_pack("{s:[s], s:O, s:{s:i}}", "architectures", "Qwen3_5ForConditionalGeneration",
                               "text_config", w->family.config, "vision_config", "depth", 27);
    char *lines = json_dumps(config, JSON_INDENT(2));
    sandbox_write("images/config.json", "%s", lines);
    free(lines);
    free(text);
    free(out);
    free(data);
    json_decref(config);
    json_decref(header);
    json_decref(renamed);
}

START_TEST(language_models_have_other_names_beside_images)
{
    struct world w;
    if (!open_world(&w, "qwen35", 2, true, 0))
        return;
    float *wanted = step(&w, w.session, 0, 20);
    write_with_images(&w);
    kt_session_close(w.session);
    kt_model_close(w.model);
    kt_checkpoint_close(w.checkpoint);
    ck_assert_msg(open_model(&w, sandbox_path("images"), 0) == KT_OK, "%s", error.message);
    ck_ok(kt_session_open(w.model, &w.session, &ck_error));
    expect_same(&w, step(&w, w.session, 0, 20), wanted, 0, 20, "under another name");
    free(wanted);
    close_world(&w);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("states");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, bits_do_not_depend_on_threads_or_slices, 0, 2);
    tcase_add_test(tests, bits_do_not_depend_on_threads);
    tcase_add_loop_test(tests, bits_do_not_depend_on_other_sessions, 0, 2);
    tcase_add_test(tests, sessions_fork_whole_and_begin_anew);
    tcase_add_test(tests, a_step_without_memory_changes_nothing);
    tcase_add_test(tests, spoilt_states_are_refused);
    tcase_add_test(tests, language_models_have_other_names_beside_images);
    return run_tests("states", tests);
}
