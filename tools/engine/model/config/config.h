/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what a model is made of, as its checkpoint says. */
#ifndef KT_ENGINE_MODEL_CONFIG_CONFIG_H
#define KT_ENGINE_MODEL_CONFIG_CONFIG_H

#include "tools/engine/model/config/settings.h"

/** What mixes the tokens of a sequence in a layer. */
enum kt_mixer_kind {
    KT_MIXER_ATTENTION, /**< grouped-query attention */
    KT_MIXER_LATENT,    /**< multi-head latent attention */
    KT_MIXER_DELTA,     /**< Gated DeltaNet: a convolution and a recurrent state instead of keys and values */
    KT_MIXER_KINDS
};

/** Where hidden states are normed in a layer: what mixers and networks read, and what they give before it is
 * added to the residual. */
enum kt_norm_place {
    KT_NORM_BEFORE_MIXER,
    KT_NORM_AFTER_MIXER,
    KT_NORM_BEFORE_FFN,
    KT_NORM_AFTER_FFN,      /**< the sum of all that a layer has of dense networks and experts */
    KT_NORM_AFTER_DENSE,    /**< the dense network beside experts alone */
    KT_NORM_BEFORE_EXPERTS, /**< what they read, if not what the dense network reads */
    KT_NORM_AFTER_EXPERTS,
    KT_NORM_ROUTER, /**< what the router reads, if not what experts read */
    KT_NORM_PLACES
};
/** As most families have it: nothing is normed after. */
#define KT_NORMS_BEFORE (1U << KT_NORM_BEFORE_MIXER | 1U << KT_NORM_BEFORE_FFN)
/** What mixers and networks give, or what they read, too. */
#define KT_NORMS_AFTER (1U << KT_NORM_AFTER_MIXER | 1U << KT_NORM_AFTER_FFN)
#define KT_NORMS_AROUND (KT_NORMS_BEFORE | KT_NORMS_AFTER)

/** Halves of a layer, each of which adds to the residual x what it gives, f. */
enum kt_half { KT_HALF_MIXER, KT_HALF_FFN, KT_HALVES };

/** x becomes keep x + add f; 0: 1. */
struct kt_residual_config {
    float keep, add;
};

/** The rope of a layer's queries and keys. */
enum kt_layer_rope {
    KT_LAYER_ROPE,        /**< kt_engine_config.rope */
    KT_LAYER_ROPE_WINDOW, /**< kt_engine_config.window_rope */
    KT_LAYER_ROPE_NONE
};
#define KT_LAYER_ROPES 2 /* that have angles */

/** What is normed in queries and keys. */
enum kt_head_norm { KT_HEAD_NORM_NONE, KT_HEAD_NORM_EACH, KT_HEAD_NORM_WHOLE };

/** Which matrices of attention have biases: those that the file has, or exactly these. */
enum kt_biases { KT_BIASES_ANY, KT_BIASES_NONE, KT_BIASES_QKV, KT_BIASES_ALL };

/** Numbers that the output of attention is multiplied by. */
enum kt_output_gate {
    KT_OUTPUT_GATE_NONE,
    KT_OUTPUT_GATE_JOINED,   /**< rows of queries come with as many gates, [query | gate] of each head */
    KT_OUTPUT_GATE_ELEMENTS, /**< a matrix makes one for each number */
    KT_OUTPUT_GATE_HEADS     /**< a matrix makes one for each head */
};
enum kt_gate_function { KT_GATE_SIGMOID, KT_GATE_SOFTPLUS };

/** Queries grow with their position p, from 0 on: by 1 + rate ln(1 + floor((p + first) / length)), or by
 * (1 + (p + first) / length)^rate. */
enum kt_growth { KT_GROWTH_NONE, KT_GROWTH_LOG, KT_GROWTH_POWER };
struct kt_growth_config {
    uint32_t growth; /**< enum kt_growth */
    uint32_t first;
    double rate, length;
};

/** Attention of a layer. Latent attention has the heads, their own sizes, biases and growth of it. */
struct kt_attention_config {
    uint32_t n_heads, n_kv_heads, head_size;
    uint32_t value_size; /**< numbers of a value; 0: as many as of a key */
    uint32_t biases;     /**< enum kt_biases */
    uint32_t norm;       /**< enum kt_head_norm */
    bool norms_rotated;  /**< after they are rotated instead of before */
    bool norms_plainly;  /**< the norm has no weights */
    bool norms_values;   /**< each head of values, without weights */
    bool shares_keys;    /**< values are the keys, before their norm */
    bool has_sinks;      /**< a logit for each head that takes its share of the softmax and gives nothing */
    uint32_t gate;       /**< enum kt_output_gate */
    uint32_t gating;     /**< enum kt_gate_function */
    bool gate_biases;    /**< all gates of a head have a number added, of KT_OUTPUT_GATE_ELEMENTS */
    float scale;         /**< of scores; 0: 1 / sqrt(head_size) */
    float value_scale;   /**< 0: 1 */
    float clip;          /**< numbers of queries, keys and values are at most that far from 0; 0: any */
    struct kt_growth_config growth;
};

/** What becomes of gate g and up u of dense networks and shared experts before the gating, L being `limit`:
 * u is clamped to -L .. L, and */
enum kt_clamp {
    KT_CLAMP_NONE,
    KT_CLAMP_GATED, /**< silu(g) is L at most */
    KT_CLAMP_OAI    /**< g is L at most, and the network's numbers are g sigmoid(alpha g) (u + 1) */
};
struct kt_clamp_config {
    uint32_t clamp; /**< enum kt_clamp */
    double limit, alpha;
};

struct kt_layer_config {
    uint32_t mixer;  /**< enum kt_mixer_kind */
    bool dense;      /**< a dense network instead of experts */
    uint64_t window; /**< tokens that a query sees, its own among them; 0: all */
    uint64_t chunk;  /**< a query sees tokens from a multiple of it on, whole pages of the cache; 0: all */
    uint32_t rope;   /**< enum kt_layer_rope */
    uint32_t shares; /**< 1 + the layer before whose keys and values it has; 0: its own */
    bool shares_selection; /**< it has no indexer, but the rows that the layer before it has */
    uint32_t norms;        /**< of enum kt_norm_place, a bit each */
    bool postpones;        /**< what experts give is kept for a later layer */
    bool adds_kept;        /**< behind the layer, what was kept is added */
    struct kt_residual_config residual[KT_HALVES];
    struct kt_clamp_config clamp; /**< experts have their own: the library's activation */
    /** kt_engine_config.attention, unless the family's read_layers changed it. */
    struct kt_attention_config attention;
};

/** Multi-head latent attention: a head's keys are nope_size numbers of a latent and rope_size rotated ones.
 */
struct kt_latent_config {
    uint32_t q_rank;  /**< of the latent that queries are made of; 0: they are made of the layer's input */
    uint32_t kv_rank; /**< of the one that keys and values are made of; 0: there is none */
    uint32_t nope_size, rope_size, value_size;
    float q_scale, kv_scale; /**< what the latents are multiplied by, behind their norms; 0: 1 */
};

/** What selects the rows of the cache that queries of latent attention see. */
struct kt_indexer_config {
    uint32_t n_heads; /**< of its queries; 0: there is none */
    uint32_t size;    /**< numbers of a query and a key, of which the first latent.rope_size are rotated */
    uint32_t budget;  /**< rows that are selected */
    uint32_t pairing; /**< enum kt_rope_pairing, which need not be that of attention */
};

struct kt_delta_config {
    uint32_t n_heads, n_key_heads; /**< heads of values, a multiple of those of keys */
    uint32_t key_size, value_size; /**< numbers of a head */
    uint32_t width;                /**< inputs that the convolution sees */
    uint32_t order;                /**< enum kt_delta_order: which key head a value head has */
};

struct kt_router_config {
    uint32_t routing; /**< enum kt_routing */
    uint32_t n_groups, top_groups, group_score;
    bool normalizes; /**< weights of the chosen experts sum up to `scale` */
    float scale;
    float near;             /**< of KT_ROUTING_MIXER */
    float cap;              /**< c: logits z are c tanh(z / c); 0: they stay */
    bool weighs_input;      /**< what experts read is multiplied by their weight, not what they give */
    bool scales_input;      /**< what KT_NORM_ROUTER gives is divided by the root of the hidden size */
    bool has_expert_scales; /**< weights are multiplied by a number of the expert */
    bool has_correction;    /**< a number for each expert that counts in the choice only */
};

/** What settings are that a file leaves out; 0: the file must say it, or what the comment says. */
struct kt_defaults {
    const char *name; /**< a class of config.json */
    double rope_base, eps;
    double window_base, window_rotated; /**< of layers that slide, where config.json has no ropes at all */
    double rotated; /**< part of a head; 0: all, and the class ignores partial_rotary_factor */
    uint64_t context;
    uint32_t n_heads;                                /**< 0: the file must say it */
    uint32_t n_kv_heads;                             /**< 0: as many as of queries */
    uint32_t head_size;                              /**< 0: the hidden size over the heads */
    uint32_t n_experts;                              /**< 0: none */
    uint32_t top_k, window;                          /**< the window: where the model slides at all */
    uint32_t n_shared, n_dense, n_mtp, shared_width; /**< 0: none */
    bool ties;                                       /**< tie_word_embeddings */
};

struct kt_engine_config {
    const struct kt_family *family;
    const struct kt_defaults *defaults;
    bool is_gguf;
    const char *json_stem; /**< of names in safetensors: "model." or another one */
    uint32_t n_layers;
    uint32_t n_skipped;             /**< layers behind them, which predict tokens after the next */
    bool has_mtp;                   /**< the first of these can be computed */
    bool block_is_dense;            /**< it has a dense network, where other layers have experts */
    struct kt_layer_config *layers; /**< [n_layers + 1], that one the last */
    uint64_t vocabulary;            /**< by config.json; 0: it does not say */
    uint64_t hidden_size, context_length;
    bool ties; /**< the head is the embedding */
    float eps;
    float norm_offset;                    /**< 1: weights of norms are stored less 1 */
    uint32_t norm;                        /**< enum kt_norm, of hidden states; heads have KT_NORM_RMS */
    bool norm_biases;                     /**< norms of hidden states must have biases */
    bool is_parallel;                     /**< networks read what mixers read, and have no norm before */
    float embedding_scale, logits_scale;  /**< factors; 0: 1 */
    float logits_cap;                     /**< c: logits z become c tanh(z / c) after that; 0: they stay */
    struct kt_attention_config attention; /**< of all layers, see kt_layer_config */
    struct kt_latent_config latent;
    struct kt_indexer_config indexer;
    struct kt_delta_config delta;
    uint32_t pairing;                  /**< enum kt_rope_pairing */
    struct kt_rope_params rope;        /**< divisors NULL: they are loaded with the weights */
    struct kt_rope_params window_rope; /**< of layers that say so */
    double proportional;               /**< this part of the pairs of `rope` is rotated; 0: all of its size */
    float *divisors;                   /**< of `rope`, where config.json has them */
    float rope_scale;                  /**< of cosines and sines of `rope`; 0: 1 */
    uint32_t n_experts, top_k;
    uint32_t n_identities; /**< further experts, behind them, which give what they read */
    struct kt_router_config router;
    bool has_dense_beside;              /**< layers with experts have a dense network, too */
    bool has_layer_scales;              /**< what a layer leaves may be multiplied by a number */
    bool has_shared;                    /**< an expert that every token goes through */
    bool gates_shared;                  /**< its output is multiplied by the sigmoid of one number */
    bool has_expert_biases;             /**< routers and experts must have biases */
    uint32_t input_size;                /**< of inputs of single layers; 0: there are none */
    uint32_t gating;                    /**< enum kt_gating, of dense networks and shared experts */
    bool has_head_bias;                 /**< the head must have one */
    bool has_mlp_biases;                /**< dense networks and shared experts may have biases */
    uint64_t dense_width, shared_width; /**< rows of their gates; 0: as many as the file has */
};

struct kt_name {
    const char *gguf, *json;
};

/** Names of what a layer has, where families differ. */
struct kt_family_names {
    struct kt_name
        norms[KT_NORM_PLACES];    /**< by enum kt_norm_place; NULL: "attn_norm" and its like, load.c */
    const char *json_router;      /**< NULL: "mlp.gate" */
    const char *json_correction;  /**< NULL: "mlp.gate.e_score_correction_bias" */
    const char *json_shared;      /**< NULL: "mlp.shared_experts" */
    const char *json_shared_gate; /**< NULL: "mlp.shared_expert_gate" */
    const char *json_stem;        /**< before all names but the head's; NULL: "model." or its like */
    const char *json_layers;      /**< NULL: "layers" */
    const char *json_final_norm;  /**< NULL: "norm" */
    const char *json_embedding;   /**< NULL: "embed_tokens" */
    const char *json_attention;   /**< NULL: "self_attn" */
    const char *json_output;      /**< of attention; NULL: "o_proj" */
    const char *json_query_norm;  /**< NULL: "q_norm" */
    const char *json_key_norm;    /**< NULL: "k_norm" */
    const char *json_gate;        /**< of attention's output; NULL: "g_proj" */
    const char *json_gate_bias;   /**< of single heads; NULL: there are none */
    const char *json_sinks;       /**< NULL: "sinks" */
    const char *json_joined;      /**< queries, keys and values are rows of one matrix, attn_qkv in some GGUF
                                     files; NULL: of three */
    const char *json_network;     /**< NULL: "mlp", dense */
    const char *json_both;        /**< gate and up of networks are one matrix, of that name; NULL: two */
    const char *json_down;        /**< NULL: "down_proj", of networks */
    bool gguf_both;               /**< "ffn_up" has gate and up of dense networks */
    bool gguf_shared_both;        /**< "ffn_up_shexp" has those of shared experts */
    const char *json_needless;    /**< of a layer: left out where nothing is computed with it; NULL: none */
    /** With kt_family.parts: first words of names that the number of the part follows; NULL behind the last
     * one. */
    const char *const *json_parted;
    /** Tensors whose names begin so are of parts that the logits of text do not depend on; NULL behind the
     * last one. */
    const char *const *skipped;
    /** Of blocks that predict: they are not layers behind the last one, but have names of their own, "mtp.".
     */
    bool json_mtp;
    /** The norm before the head of a block that predicts, behind the layers; NULL: "shared_head.norm". */
    const char *json_mtp_norm;
    const char *json_mtp_head; /**< its own head, where the file has one; NULL: the model's */
};

/** A family of models: what they have in common and files do not say. */
struct kt_family {
    const char *name;      /**< as GGUF files call it */
    const char *classes;   /**< " Qwen3MoeForCausalLM " of config.json */
    uint32_t gguf_pairing; /**< enum kt_rope_pairing */
    uint32_t json_pairing;
    const struct kt_own_name *own_names; /**< of settings of config.json; NULL: none */
    struct kt_family_names names;
    /** Reads what the family has besides, after everything else was read. NULL: nothing. */
    void (*read)(struct kt_settings *settings, struct kt_engine_config *config);
    /** Changes attention and ropes of single layers, which have those of all before. NULL: nothing. */
    void (*read_layers)(struct kt_settings *settings, struct kt_engine_config *config);
    /** "rope_parameters" of config.json may have an object for each type of layer: the rope is that of
     * "full_attention", the window's that of "sliding_attention". */
    bool ropes_by_type;
    bool has_null_ropes; /**< one of them may be null: these layers are not rotated */
    bool layer_norms;    /**< GGUF files may have the epsilon of LayerNorm instead of the other one */
    bool lists_ropes;    /**< and config.json without such objects may list base and part of each layer */
    bool has_longrope;   /**< its rope may be scaled by a list of divisors */
    bool heads_by_layer; /**< layers differ in them, and read_layers reads that */
    bool skips_mtp;      /**< blocks that predict tokens after the next are left out */
    /** A layer of files is so many here, of which only the first one has experts; 0: 1. config.json counts
     * those of files. */
    uint32_t parts;
};

/** The family of a GGUF architecture or of a class of config.json; NULL: none. */
const struct kt_family *kt_family_find(const char *name, bool is_gguf);

/** The number of a layer in files. */
static inline uint32_t kt_file_layer(const struct kt_engine_config *config, uint32_t layer)
{
    return config->family->parts ? layer / config->family->parts : layer;
}

/** Those of a GGUF file, or of the class that config.json names. */
const struct kt_defaults *kt_defaults_find(const struct kt_settings *settings);

/** Frees what it allocated if it fails; else kt_engine_config_free does. */
enum kt_status kt_engine_config_read(struct kt_checkpoint *checkpoint, struct kt_engine_config *config,
                                     struct kt_error *error);
/** The same of a config.json without a checkpoint. */
enum kt_status kt_engine_config_read_text(const char *json, uint64_t size, struct kt_engine_config *config,
                                          struct kt_error *error);
void kt_engine_config_free(struct kt_engine_config *config);

/** What all models of latent attention have, deepseek.c. */
void kt_engine_config_deepseek(struct kt_settings *settings, struct kt_engine_config *config);

/* What families call, parts.c. */

/** Layers 0 .. n - 1 are dense. */
void kt_engine_config_dense_first(struct kt_settings *settings, struct kt_engine_config *config, uint64_t n);
/** Sets windows as "layer_types" of config.json says; false: there is no such list. */
bool kt_engine_config_layer_types(struct kt_settings *settings, struct kt_engine_config *config,
                                  uint64_t window);
/** Whether a layer slides by what GGUF files may have, a list, or by a number n, of which n - 1 layers do. */
bool kt_engine_config_slides(struct kt_settings *settings, uint32_t layer, uint64_t fallback);
/** Sets windows by layer_types, or else by that pattern. */
void kt_engine_config_windows(struct kt_settings *settings, struct kt_engine_config *config,
                              uint64_t pattern);
/** The same, of that size. */
void kt_engine_config_turns(struct kt_settings *settings, struct kt_engine_config *config, uint64_t window,
                            uint64_t pattern);
/** Layers have as many heads as lists of GGUF files say, and one of config.json; NULL: it has none. */
void kt_engine_config_heads(struct kt_settings *settings, struct kt_engine_config *config, const char *json);
/** All layers have latent attention, whose sizes are read. What the configuration says of heads are their own
 * sizes, not those that the cache has. */
void kt_engine_config_latent(struct kt_settings *settings, struct kt_engine_config *config);
/** Fails where config.json has no rope: its class would take that of one published model. */
void kt_engine_config_need_rope(struct kt_settings *settings);
/** Queries grow, as files of Mistral's models say. */
void kt_engine_config_growth(struct kt_settings *settings, struct kt_engine_config *config);
/** Layers that see all tokens have no rope, where others slide, or always; for read_layers. */
void kt_engine_config_unrotated(struct kt_engine_config *config, bool always);
/** Element `layer` of a list that has one for each layer, or for blocks behind them, too. */
double kt_engine_config_listed(struct kt_settings *settings, const struct kt_engine_config *config,
                               const char *gguf, const char *json, uint32_t layer, double fallback);
/** Of a list of config.json with a number for each layer, that of the layers of the type whose rope is read;
 * one that is not a list serves for all. */
double kt_engine_config_of_type(struct kt_settings *settings, const struct kt_engine_config *config,
                                const char *json, double fallback);
/** Sets which layers are dense as "mlp_layer_types" of config.json says; false: there is no such list. */
bool kt_engine_config_mlp_types(struct kt_settings *settings, struct kt_engine_config *config);
/** The matrices of attention have biases where attention_bias of config.json says so, and else none. */
void kt_engine_config_biases(struct kt_settings *settings, struct kt_engine_config *config);
/** Experts are chosen by sigmoids and a correction. */
void kt_engine_config_plain_sigmoids(struct kt_settings *settings, struct kt_engine_config *config);
/** The same, with what files say of scale and groups. */
void kt_engine_config_sigmoid_router(struct kt_settings *settings, struct kt_engine_config *config);
/** Experts that all tokens go through are one network, as wide as so many of the others. */
void kt_engine_config_shared(struct kt_settings *settings, struct kt_engine_config *config);
/** Says whether the first block that predicts tokens after the next can be computed, and what its layer is.
 */
void kt_engine_config_find_mtp(struct kt_settings *settings, struct kt_engine_config *config);
/** Fails where layers that would be skipped are none that predict tokens after the next. */
void kt_engine_config_check_skipped(struct kt_settings *settings, struct kt_engine_config *config);

/** All layers have these norms, bits of enum kt_norm_place. */
void kt_engine_config_norms(struct kt_engine_config *config, uint32_t norms);
/** What halves of layers give is multiplied by this before it is added to the residual. */
void kt_engine_config_factors(struct kt_settings *settings, struct kt_engine_config *config, const char *gguf,
                              const char *json);
/** Logits are divided by this. */
void kt_engine_config_divide_logits(struct kt_settings *settings, struct kt_engine_config *config,
                                    const char *gguf, const char *json);

/** Embeddings are multiplied by the root of the hidden size. */
void kt_engine_config_scale_embedding(struct kt_engine_config *config);
/** Scores are divided by the root of a setting of config.json. */
void kt_engine_config_scale_queries(struct kt_settings *settings, struct kt_engine_config *config,
                                    const char *json, double fallback);
/** Logits have the soft cap final_logit_softcapping. */
void kt_engine_config_cap_logits(struct kt_settings *settings, struct kt_engine_config *config,
                                 double fallback);

/** The base of the rope grows to that of contexts `alpha` times as long; 0: not. */
void kt_engine_config_stretch_base(struct kt_engine_config *config, double alpha);
/** Who scales the rope need not say that the model is for longer contexts then. */
void kt_engine_config_stretch(struct kt_engine_config *config);
/** The layers that decoder_sparse_step and mlp_only_layers say are dense. */
void kt_engine_config_sparse_layers(struct kt_settings *settings, struct kt_engine_config *config);

extern const struct kt_family kt_family_qwen3moe, kt_family_qwen3, kt_family_qwen2, kt_family_llama,
    kt_family_gpt_oss, kt_family_glm4moe, kt_family_minimax_m2, kt_family_deepseek, kt_family_qwen3next,
    kt_family_qwen35moe, kt_family_qwen35, kt_family_qwen2moe, kt_family_dots1, kt_family_ernie,
    kt_family_ernie_moe, kt_family_hunyuan_moe, kt_family_hunyuan, kt_family_hy_v3, kt_family_exaone_moe,
    kt_family_smollm3, kt_family_olmoe, kt_family_sarvam, kt_family_seed_oss, kt_family_laguna,
    kt_family_mimo, kt_family_mellum, kt_family_ministral, kt_family_mistral4, kt_family_exaone4,
    kt_family_glm4, kt_family_phi3, kt_family_axk1;
extern const struct kt_family kt_family_step, kt_family_granite_swa, kt_family_granitemoe_swa,
    kt_family_minimax_m3;
extern const struct kt_family kt_family_granite, kt_family_granitemoe, kt_family_olmo2, kt_family_flex_olmo,
    kt_family_phimoe, kt_family_gemma3, kt_family_gemma4, kt_family_afmoe, kt_family_flint, kt_family_kolibri,
    kt_family_cohere2_moe, kt_family_llama4, kt_family_longcat, kt_family_beam, kt_family_dbrx,
    kt_family_aria, kt_family_deepseek32, kt_family_glm_dsa;

#endif
