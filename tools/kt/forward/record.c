/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - writes statistics and recorded batches of layers to files. */
#include "tools/kt/forward/record.h"

#include "tools/kt/base/table.h"

#include <inttypes.h>

int kt_keeping_begin(struct kt_keeping *keeping, struct kt_context *context, struct kt_layer *layer,
                     uint64_t number)
{
    struct kt_recorder_params params = KT_RECORDER_PARAMS_INIT;
    struct kt_error error;
    if (!keeping->record_path)
        return KT_EXIT_OK;
    params.size = keeping->record_size;
    params.hidden_states = 1;
    if ((!keeping->recorder && kt_recorder_create(context, &params, &keeping->recorder, &error) != KT_OK) ||
        kt_layer_record(layer, keeping->recorder, number, &error) != KT_OK)
        return kt_cli_fail(keeping->cli, &error);
    return KT_EXIT_OK;
}

int kt_keeping_end(struct kt_keeping *keeping, struct kt_layer *layer, uint64_t number)
{
    struct kt_layer_info info;
    struct kt_error error;
    kt_layer_info(layer, &info);
    if ((keeping->record_path && kt_layer_record(layer, NULL, 0, &error) != KT_OK) ||
        (keeping->stats_path && !keeping->stats &&
         kt_stats_create(info.n_experts, &keeping->stats, &error) != KT_OK) ||
        (keeping->stats_path && kt_stats_add_layer(keeping->stats, number, layer, &error) != KT_OK))
        return kt_cli_fail(keeping->cli, &error);
    return KT_EXIT_OK;
}

int kt_keeping_write(const struct kt_keeping *keeping)
{
    struct kt_recorder_info info;
    struct kt_error error;
    char size[24];
    enum kt_status status = KT_OK;
    kt_signals_hold(true);
    if (keeping->stats)
        status = kt_stats_save(keeping->stats, keeping->stats_path, &error);
    kt_signals_hold(false);
    if (status != KT_OK)
        return kt_cli_error(keeping->cli, "statistics %s", error.message);
    if (!keeping->recorder)
        return KT_EXIT_OK;
    kt_recorder_info(keeping->recorder, &info);
    kt_signals_hold(true);
    status = kt_recorder_save(keeping->recorder, keeping->record_path, &error);
    kt_signals_hold(false);
    if (status != KT_OK)
        return kt_cli_error(keeping->cli, "record %s", error.message);
    if (info.n_dropped_batches > 0)
        kt_cli_note(keeping->cli, "%" PRIu64 " of %" PRIu64 " batches did not fit into %s and are not in %s",
                    info.n_dropped_batches, info.n_batches + info.n_dropped_batches,
                    kt_bytes_text(info.size, size, sizeof(size)), keeping->record_path);
    return KT_EXIT_OK;
}

void kt_keeping_free(struct kt_keeping *keeping)
{
    kt_recorder_destroy(keeping->recorder);
    kt_stats_destroy(keeping->stats);
}
