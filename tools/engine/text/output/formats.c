/* SPDX-License-Identifier: Apache-2.0 */
/* The formats: their tags, and what follows each. */
#include "tools/engine/text/output/parser.h"

#define THINK                 \
    {                         \
        "<think>", "</think>" \
    }
#define LONGCAT_THINK                         \
    {                                         \
        "<longcat_think>", "</longcat_think>" \
    }
#define DSML "｜DSML｜"

static const struct kt_markup function_markup = {
    .section = "<tool_call>",
    .section_end = "</tool_call>",
    .call = "<function=",
    .name_end = ">",
    .key = "<parameter=",
    .key_ends = {">"},
    .value_ends = {"\n</parameter>", "</parameter>", "\n</function>", "</function>",
                   "\n<parameter=", "\n</tool_call>"},
    .n_value_ends = 2,
    .next_key = 4,
    .lost_ends = 5,
    .next_section = "<tool_call>\n<function=",
    .call_end = "</function>",
    .lines = true,
};

static const struct kt_markup glm_markup = {
    .call = "<tool_call>",
    .key = "<arg_key>",
    .key_ends = {"</arg_key>"},
    .value = "<arg_value>",
    .value_ends = {"</arg_value>"},
    .n_value_ends = 1,
    .call_end = "</tool_call>",
};

static const struct kt_markup longcat_markup = {
    .call = "<longcat_tool_call>",
    .key = "<longcat_arg_key>",
    .key_ends = {"</longcat_arg_key>"},
    .value = "<longcat_arg_value>",
    .value_ends = {"</longcat_arg_value>"},
    .n_value_ends = 1,
    .call_end = "</longcat_tool_call>",
};

static const struct kt_markup minimax_markup = {
    .section = "<minimax:tool_call>",
    .section_end = "</minimax:tool_call>",
    .call = "<invoke name=\"",
    .name_end = "\">",
    .key = "<parameter name=\"",
    .key_ends = {"\">"},
    .value_ends = {"</parameter>"},
    .n_value_ends = 1,
    .call_end = "</invoke>",
};

static const struct kt_markup dsml_markup = {
    .section = "<" DSML "function_calls>",
    .section_end = "</" DSML "function_calls>",
    .other_end = "</" DSML "tool_calls>",
    .call = "<" DSML "invoke name=\"",
    .name_end = "\">",
    .key = "<" DSML "parameter name=\"",
    .key_ends = {"\">", "\" string=\"true\">", "\" string=\"false\">"},
    .value_ends = {"</" DSML "parameter>"},
    .n_value_ends = 1,
    .call_end = "</" DSML "invoke>",
};

const struct kt_parser_family kt_parser_families[] = {
    [KT_OUTPUT_PLAIN] = {.name = "plain", .think = THINK},
    [KT_OUTPUT_HERMES] = {.name = "hermes",
                          .think = THINK,
                          .open = {"<tool_call>"},
                          .begin = {kt_parser_json},
                          .close = {"</tool_call>"},
                          .strips = true},
    [KT_OUTPUT_FUNCTION] = {.name = "function",
                            .think = THINK,
                            .open = {"<tool_call>", "<function="},
                            .begin = {kt_parser_markup_section, kt_parser_markup_bare},
                            .strips = true,
                            .markup = &function_markup},
    [KT_OUTPUT_GLM] = {.name = "glm",
                       .think = THINK,
                       .open = {"<tool_call>"},
                       .begin = {kt_parser_markup_name},
                       .strips = true,
                       .markup = &glm_markup},
    /* Conversions of R1 and its distilled models write the first tag in other ways, and some all of them. */
    [KT_OUTPUT_DEEPSEEK] =
        {.name = "deepseek",
         .think = THINK,
         .open = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool_calls_begin｜>",
                  "<｜tool calls begin｜>", "<｜tool\\_calls\\_begin｜>", "<｜tool▁calls｜>",
                  "<|tool▁calls▁begin|>", "<|tool_calls_begin|>"},
         .begin = {kt_parser_named_section, kt_parser_named, kt_parser_named_section, kt_parser_named_section,
                   kt_parser_named_section, kt_parser_named_section, kt_parser_named_section,
                   kt_parser_named_section},
         .close = {"<｜tool▁call▁end｜>", "<｜tool_call_end｜>", "<|tool_call_end|>", "<｜tool▁calls▁end｜>",
                   "<｜tool_calls_end｜>", "<|tool_calls_end|>"},
         .n_call_ends = 3,
         .head_end = {"<｜tool▁sep｜>", "<｜tool_sep｜>", "<|tool_sep|>"},
         .section_call = {"<｜tool▁call▁begin｜>", "<｜tool_call_begin｜>", "<|tool_call_begin|>"}},
    [KT_OUTPUT_DSML] = {.name = "dsml",
                        .think = THINK,
                        .open = {"<" DSML "function_calls>", "<" DSML "tool_calls>"},
                        .begin = {kt_parser_markup_section, kt_parser_markup_section},
                        .strips = true,
                        .markup = &dsml_markup},
    /* Models write the section's tags in the singular, too. */
    [KT_OUTPUT_KIMI] = {.name = "kimi",
                        .think = THINK,
                        .open = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                                 "<|tool_call_section_begin|>"},
                        .begin = {kt_parser_named_section, kt_parser_named, kt_parser_named_section},
                        .close = {"<|tool_call_end|>", "<|tool_calls_section_end|>",
                                  "<|tool_call_section_end|>"},
                        .n_call_ends = 1,
                        .head_end = {"<|tool_call_argument_begin|>"},
                        .section_call = {"<|tool_call_begin|>"}},
    [KT_OUTPUT_MINIMAX] = {.name = "minimax",
                           .think = THINK,
                           .open = {"<minimax:tool_call>"},
                           .begin = {kt_parser_markup_section},
                           .strips = true,
                           .markup = &minimax_markup},
    [KT_OUTPUT_HARMONY] = {.name = "harmony",
                           .open = {"<|start|>", "<|channel|>", " to="},
                           .begin = {kt_parser_harmony, kt_parser_harmony, kt_parser_harmony},
                           .close = {"<|call|>", "<|end|>", "<|return|>"},
                           .stop = {"<|call|>", "<|end|>", "<|return|>"}},
    [KT_OUTPUT_MISTRAL] = {.name = "mistral",
                           .think = {"[THINK]", "[/THINK]"},
                           .open = {"[TOOL_CALLS]"},
                           .begin = {kt_parser_mistral},
                           .head_end = {"[ARGS]", "[CALL_ID]"}},
    [KT_OUTPUT_JSON] = {.name = "json",
                        .think = THINK,
                        .open = {"<|tool_call|>", "<tool_call>", "<|tool_call_start|>", "<|python_tag|>"},
                        .begin = {kt_parser_json, kt_parser_json, kt_parser_json, kt_parser_json},
                        .close = {"</tool_call>", "<|tool_call_end|>"},
                        .strips = true,
                        .takes_bare = true},
    [KT_OUTPUT_LONGCAT] = {.name = "longcat",
                           .think = LONGCAT_THINK,
                           .open = {"<longcat_tool_call>"},
                           .begin = {kt_parser_json},
                           .close = {"</longcat_tool_call>"},
                           .strips = true},
    [KT_OUTPUT_LONGCAT_MARKUP] = {.name = "longcat-markup",
                                  .think = LONGCAT_THINK,
                                  .open = {"<longcat_tool_call>"},
                                  .begin = {kt_parser_markup_name},
                                  .strips = true,
                                  .markup = &longcat_markup},
};

const uint32_t kt_parser_n_families = sizeof kt_parser_families / sizeof *kt_parser_families;
