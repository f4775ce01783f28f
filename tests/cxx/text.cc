// SPDX-License-Identifier: Apache-2.0
// text.cc MODEL - a text to ids and back by <kt/text.h>, and what of it <kt/sampling.h> chooses, in any C++
// from C++11 on.
#include <kt/sampling.h>
#include <kt/text.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

namespace
{

template <typename T> using owned = std::unique_ptr<T, void (*)(T *)>;

void check(kt_status status, const kt_error &error)
{
    if (status != KT_OK)
        throw std::runtime_error(error.message);
}

// Every initializer of the header says the size of its struct and leaves the rest 0.
bool initializers()
{
    kt_render_params render = KT_RENDER_PARAMS_INIT;
    kt_parser_params parser = KT_PARSER_PARAMS_INIT;
    kt_sampling_params sampling = KT_SAMPLING_PARAMS_INIT;
    return sampling.struct_size == sizeof sampling && sampling.temperature == 0 &&
           render.struct_size == sizeof render && render.max_steps == 0 &&
           parser.struct_size == sizeof parser && parser.tools == nullptr;
}

std::string there_and_back(const char *path, const std::string &text)
{
    kt_error error = {};
    kt_tokenizer *opened = nullptr;
    check(kt_tokenizer_open(path, &opened, &error), error);
    owned<kt_tokenizer> tokenizer(opened, kt_tokenizer_destroy);

    kt_text_part part = {text.data(), text.size(), 1, 0};
    std::int32_t *made = nullptr;
    std::uint64_t n_ids = 0;
    check(kt_tokenizer_encode(tokenizer.get(), &part, 1, KT_ENCODE_BOS, &made, &n_ids, &error), error);
    owned<std::int32_t> ids(made, kt_ids_free);
    char *decoded = nullptr;
    std::uint64_t length = 0;
    check(kt_tokenizer_decode(tokenizer.get(), ids.get(), n_ids, KT_DECODE_NO_CONTROL, &decoded, &length,
                              &error),
          error);
    owned<char> back(decoded, kt_text_free);
    return std::string(back.get(), static_cast<std::size_t>(length));
}

std::int32_t choose()
{
    kt_error error = {};
    kt_sampler *created = nullptr;
    kt_sampling_params params = KT_SAMPLING_PARAMS_INIT;
    check(kt_sampler_create(3, &params, &created, &error), error);
    owned<kt_sampler> sampler(created, kt_sampler_destroy);
    const float logits[3] = {1, 3, 2};
    kt_choice choice = {};
    check(kt_sampler_choose(sampler.get(), logits, 0, nullptr, &choice, &error), error);
    return choice.id;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2 || !initializers()) {
        std::fputs(argc == 2 ? "an initializer is wrong\n" : "usage: text MODEL\n", stderr);
        return 2;
    }
    try {
        const std::string text = "To be, or not to be<|im_end|>";
        if (there_and_back(argv[1], text) != text)
            throw std::runtime_error("the text has not come back");
        if (choose() != 1)
            throw std::runtime_error("the likeliest token was not chosen");
        std::puts("the text came back");
    } catch (const std::exception &exception) {
        std::fprintf(stderr, "%s\n", exception.what());
        return 1;
    }
    return 0;
}
