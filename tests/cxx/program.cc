// SPDX-License-Identifier: Apache-2.0
// program.cc MODEL - one token through experts 0 and 5 of layer 0, in any C++ from C++11 on.
#include <kt/kt.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace
{

// Every initializer of the headers says the size of its struct and leaves the rest 0.
template <typename T> bool is_sized(const T &value)
{
    return value.struct_size == sizeof value;
}

bool initializers()
{
    kt_config_params config = KT_CONFIG_PARAMS_INIT;
    kt_checkpoint_params checkpoint = KT_CHECKPOINT_PARAMS_INIT;
    kt_layer_params layer = KT_LAYER_PARAMS_INIT;
    kt_store_params store = KT_STORE_PARAMS_INIT;
    kt_forward forward = KT_FORWARD_INIT;
    kt_view view = KT_VIEW_INIT;
    kt_expert expert = {KT_VIEW_INIT, KT_VIEW_INIT, KT_VIEW_INIT, nullptr, nullptr, nullptr};
    kt_place_params place = KT_PLACE_PARAMS_INIT;
    kt_deferral_params deferral = KT_DEFERRAL_PARAMS_INIT;
    kt_host_params host = KT_HOST_PARAMS_INIT;
    kt_staging_params staging = KT_STAGING_PARAMS_INIT;
    kt_recorder_params recorder = KT_RECORDER_PARAMS_INIT;
    kt_writer_params writer = KT_WRITER_PARAMS_INIT;
    kt_kv_params cache = KT_KV_PARAMS_INIT;
    kt_kv_rows rows = KT_KV_ROWS_INIT;
    return is_sized(config) && is_sized(checkpoint) && is_sized(layer) && is_sized(store) &&
           is_sized(forward) && is_sized(view) && is_sized(expert.down) && is_sized(place) &&
           place.seed == 42 && is_sized(deferral) && is_sized(host) && is_sized(host.forward) &&
           is_sized(staging) && is_sized(recorder) && is_sized(writer) && is_sized(cache) &&
           is_sized(rows) && !view.data && !layer.backend &&
           !host.forward.input;
}

template <typename T> using owned = std::unique_ptr<T, void (*)(T *)>;

void check(kt_status status, const kt_error &error)
{
    if (status != KT_OK)
        throw std::runtime_error(error.message);
}

float compute(const char *path)
{
    kt_error error = {};
    kt_context *made = nullptr;
    check(kt_context_create(nullptr, &made, &error), error);
    owned<kt_context> context(made, kt_context_destroy);
    kt_checkpoint *opened = nullptr;
    check(kt_checkpoint_open(path, nullptr, &opened, &error), error);
    owned<kt_checkpoint> model(opened, kt_checkpoint_close);
    kt_layer_params params = KT_LAYER_PARAMS_INIT;
    check(kt_checkpoint_layer_params(model.get(), 0, &params, &error), error);
    params.max_tokens = 64;
    kt_layer *created = nullptr;
    check(kt_layer_create(context.get(), &params, &created, &error), error);
    owned<kt_layer> layer(created, kt_layer_destroy);
    check(kt_layer_load_checkpoint(layer.get(), model.get(), 0, &error), error);

    const int64_t ids[] = {0, 5};
    const float weights[] = {0.6f, 0.4f};
    std::vector<float> x(params.hidden_size), y(params.hidden_size);
    x[0] = 1.0f;
    kt_forward forward = KT_FORWARD_INIT;
    forward.n_tokens = 1;
    forward.top_k = 2;
    forward.expert_ids = ids;
    forward.router_weights = weights;
    forward.input = x.data();
    forward.output = y.data();
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    check(kt_layer_forward(layer.get(), &forward, &error), error);
    return y[0];
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2 || !initializers()) {
        std::fputs(argc == 2 ? "an initializer is wrong\n" : "usage: program MODEL\n", stderr);
        return 2;
    }
    try {
        std::printf("y[0] = %g\n", static_cast<double>(compute(argv[1])));
    } catch (const std::exception &exception) {
        std::fprintf(stderr, "%s\n", exception.what());
        return 1;
    }
    return 0;
}
