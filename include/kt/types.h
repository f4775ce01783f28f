/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/types.h - types that users (<kt/kt.h>) and plugin authors (<kt/plugin.h>) share.
 *
 * Conventions of the whole project
 *   Matrices   A projection is a matrix [rows][cols]: rows are output features, cols (K) are
 *              input features. gate and up are [intermediate_size][hidden_size], down is
 *              [hidden_size][intermediate_size].
 *   Sizes      are in bytes unless the name says otherwise; strides are in bytes.
 *   Errors     A function that can fail returns an enum kt_status and takes a last parameter
 *              `struct kt_error *error`, which may be NULL. Outputs are set only on success.
 *   Growth     A struct that a caller fills starts with struct_size; use its _INIT macro. Fields
 *              are appended, never reordered.
 *   C++        All headers are C++11 as well; _INIT macros are then expressions, constant ones from C++14 on.
 */
#ifndef KT_TYPES_H
#define KT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#if __cplusplus >= 201402L
#define KT_CONSTEXPR constexpr
#else
#define KT_CONSTEXPR inline
#endif
/* What C's designated initializers say, which C++ has from C++20 on only. */
extern "C++" {
namespace kt_cxx
{
template <typename T> KT_CONSTEXPR T sized()
{
    T value = T();
    value.struct_size = static_cast<decltype(value.struct_size)>(sizeof(T));
    return value;
}
} // namespace kt_cxx
}
#define KT_INIT(type) kt_cxx::sized<struct type>()

extern "C" {
#else
#define KT_INIT(type)                      \
    {                                      \
        .struct_size = sizeof(struct type) \
    }
#endif

#if defined __GNUC__
#define KT_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define KT_PRINTF(format_index, first_index)
#endif

/** The status of a call. The numbers are part of the ABI. */
enum kt_status {
    KT_OK = 0,
    KT_E_INVALID = 1,     /**< an argument is wrong: NULL, zero, a size that overflows */
    KT_E_RANGE = 2,       /**< a value, such as an expert id, is outside its range */
    KT_E_NOMEM = 3,       /**< memory could not be allocated */
    KT_E_IO = 4,          /**< a file could not be opened or read, or it changed meanwhile */
    KT_E_FORMAT = 5,      /**< a file's content breaks its format */
    KT_E_UNSUPPORTED = 6, /**< valid, but nothing here can do it */
    KT_E_NOT_FOUND = 7,   /**< a tensor, layer, backend or key does not exist */
    KT_E_CONFIG = 8,      /**< the configuration is wrong */
    KT_E_PLUGIN = 9,      /**< a required plugin could not be used */
    KT_E_BUSY = 10,       /**< the queue is full, or the object is in use */
    KT_E_SYSTEM = 11,     /**< the operating system refused: threads, affinity */
    KT_E_STATE = 12,      /**< called in the wrong order, such as forward before load */
    KT_E_BACKEND = 13     /**< a backend failed while it computed */
};

/** An error's status and its text: what was wrong, where, and what to do. Owned by the caller. */
struct kt_error {
    enum kt_status status;
    char message[1020]; /**< one line, no newline, NUL-terminated, UTF-8 */
};

enum kt_log_level { KT_LOG_ERROR = 0, KT_LOG_WARNING = 1, KT_LOG_INFO = 2, KT_LOG_DEBUG = 3 };

/** Number formats. The values are part of the ABI; gaps are for future formats. */
enum kt_dtype {
    KT_DTYPE_NONE = 0,
    /* plain */
    KT_DTYPE_F32 = 1,
    KT_DTYPE_F16 = 2,
    KT_DTYPE_BF16 = 3,
    KT_DTYPE_F64 = 4,
    KT_DTYPE_I8 = 5,
    KT_DTYPE_I16 = 6,
    KT_DTYPE_I32 = 7,
    KT_DTYPE_I64 = 8,
    KT_DTYPE_U8 = 9,
    KT_DTYPE_U16 = 10,
    KT_DTYPE_U32 = 11,
    KT_DTYPE_U64 = 12,
    KT_DTYPE_BOOL = 13,
    KT_DTYPE_F8_E4M3 = 14, /**< with scales: per block, per row or per group */
    KT_DTYPE_F8_E5M2 = 15,
    KT_DTYPE_F8_E8M0 = 16, /**< a power of two: the scales of MXFP4 and MXFP8 */
    /* two weights a byte, the first one low; blocks of 8 in 4 bytes; scales per group beside them */
    KT_DTYPE_INT4 = 17,    /**< code - zero, codes 0..15; without zeros (u8) the zero is 8 */
    KT_DTYPE_F4_E2M1 = 18, /**< sign, 0 0.5 1 1.5 2 3 4 6 */
    /* block formats of GGUF: scales inside the block */
    KT_DTYPE_Q4_0 = 32,
    KT_DTYPE_Q4_1 = 33,
    KT_DTYPE_Q5_0 = 34,
    KT_DTYPE_Q5_1 = 35,
    KT_DTYPE_Q8_0 = 36,
    KT_DTYPE_Q2_K = 37,
    KT_DTYPE_Q3_K = 38,
    KT_DTYPE_Q4_K = 39,
    KT_DTYPE_Q5_K = 40,
    KT_DTYPE_Q6_K = 41,
    KT_DTYPE_IQ4_NL = 42,
    KT_DTYPE_IQ4_XS = 43,
    KT_DTYPE_MXFP4 = 44,
    KT_DTYPE_Q8_1 = 45,
    KT_DTYPE_Q8_K = 46,
    KT_DTYPE_IQ1_S = 47,
    KT_DTYPE_IQ1_M = 48,
    KT_DTYPE_IQ2_XXS = 49,
    KT_DTYPE_IQ2_XS = 50,
    KT_DTYPE_IQ2_S = 51,
    KT_DTYPE_IQ3_XXS = 52,
    KT_DTYPE_IQ3_S = 53,
    KT_DTYPE_TQ1_0 = 54,
    KT_DTYPE_TQ2_0 = 55,
    KT_DTYPE_NVFP4 = 56,
    KT_DTYPE_Q1_0 = 57,
    KT_DTYPE_Q2_0 = 58
};

/**
 * Scales (or zeros) stored beside a matrix: one value per group_rows x group_cols weights. A weight is its
 * quant times its scale, an int4 weight (quant - zero) times its scale. Scales are F32, F16, BF16, F64,
 * F8_E4M3, F8_E5M2 or F8_E8M0; a view with others is refused (KT_E_UNSUPPORTED), and a backend may take fewer
 * of them. Zeros are U8, of INT4 weights only, in the same groups as scales; without them the zero is 8. I8
 * and INT4 weights need scales.
 */
struct kt_scales {
    const void *data; /**< NULL: there are none */
    uint64_t size;    /**< bytes readable at data */
    uint32_t dtype;   /**< enum kt_dtype */
    uint32_t reserved;
    uint64_t group_rows;
    uint64_t group_cols;
    int64_t row_stride; /**< from one group of rows to the next */
    int64_t col_stride; /**< from one group of columns to the next */
};

/**
 * A weight matrix in a checkpoint or in the caller's memory; nothing is copied. Element (r, c) is in block
 * c / block_elements of row r, whose first byte is data + r * row_stride + (c / block_elements) *
 * block_stride.
 */
struct kt_view {
    uint32_t struct_size;
    uint32_t dtype;   /**< enum kt_dtype */
    const void *data; /**< at any address */
    uint64_t size;    /**< bytes readable at data (strides below 0: from the lowest byte that they reach) */
    uint64_t rows;
    uint64_t cols;
    int64_t row_stride;
    int64_t block_stride;
    struct kt_scales scales;
    struct kt_scales zeros;
    const char *name; /**< the tensor's name for messages, or NULL; lives as long as the view */
};
#define KT_VIEW_INIT KT_INIT(kt_view)

/**
 * The activation between the gate/up products and the down product, g = gate, u = up, L = limit:
 *   SILU        silu(g) * u                                   (Qwen3-MoE, DeepSeek-V3, Mixtral)
 *   SWIGLU      g = min(g, L), u = clamp(u, -L, L): silu(g) * u             (DeepSeek-V4, L 10)
 *   SWIGLUOAI   g = min(g, L), u = clamp(u, -L, L): g * sigmoid(alpha * g) * (u + 1)
 *                                                              (gpt-oss, alpha 1.702, L 7)
 *   NONE        there is neither gate nor up: for plugins, the shape of a linear (<kt/plugin.h>)
 *   GELU_TANH   g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 * g^3))) * u                 (Gemma 4)
 *   SWIGLUSTEP  g = min(silu(g), L), u = clamp(u, -L, L): g * u                        (Step-3.5, L 7)
 *   SITU        u = L * tanh(u / L), or u itself if L is 0: alpha * tanh(g / alpha) * sigmoid(g) * u
 *                                                    (Kimi K3, Inkling 2, alpha 4, L 25)
 *   RELU2       max(u, 0)^2; experts have up and down, and no gate                        (Nemotron-H)
 *
 * Activations from GELU_TANH on were added in plugin ABI 1.9.
 */
enum kt_activation {
    KT_ACTIVATION_SILU = 0,
    KT_ACTIVATION_SWIGLU = 1,
    KT_ACTIVATION_SWIGLUOAI = 2,
    KT_ACTIVATION_NONE = 3,
    KT_ACTIVATION_GELU_TANH = 4,
    KT_ACTIVATION_SWIGLUSTEP = 5,
    KT_ACTIVATION_SITU = 6,
    KT_ACTIVATION_RELU2 = 7
};

/** "swiglu" for KT_ACTIVATION_SWIGLU; "?" for an unknown number. */
static inline const char *kt_activation_name(uint32_t activation)
{
    static const char *const names[] = {"silu",      "swiglu",     "swigluoai", "none",
                                        "gelu_tanh", "swiglustep", "situ",      "relu2"};
    return activation < sizeof names / sizeof names[0] ? names[activation] : "?";
}

/** A projection of an expert. */
enum kt_projection { KT_GATE = 0, KT_UP = 1, KT_DOWN = 2 };

/** The first projection of experts with this activation: KT_UP where they have no gate; of a linear KT_DOWN.
 */
static inline enum kt_projection kt_activation_first(uint32_t activation)
{
    return activation == KT_ACTIVATION_NONE ? KT_DOWN : activation == KT_ACTIVATION_RELU2 ? KT_UP : KT_GATE;
}

/** One expert's weights in their source format. */
struct kt_expert {
    struct kt_view gate;    /**< [intermediate_size][hidden_size]; KT_VIEW_INIT where there is no gate */
    struct kt_view up;      /**< [intermediate_size][hidden_size] */
    struct kt_view down;    /**< [hidden_size][intermediate_size] */
    const float *gate_bias; /**< [intermediate_size], or NULL; all experts of a layer or none */
    const float *up_bias;   /**< [intermediate_size], or NULL */
    const float *down_bias; /**< [hidden_size], or NULL */
};

#ifdef __cplusplus
}
#endif
#endif
