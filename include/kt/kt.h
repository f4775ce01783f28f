/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/kt.h - run the experts of Mixture-of-Experts models on CPUs.
 *
 *     kt_context_create()   configuration, CPU, NUMA nodes, threads, plugins
 *     kt_checkpoint_open()  a GGUF file, a folder of safetensors files (or your own tensors as views)
 *     kt_layer_create()     one MoE layer's shape and activation
 *     kt_layer_load()       weights -> packed by a backend, on their NUMA node
 *     kt_layer_forward()    hidden states, expert ids, router weights -> sum of the experts
 *
 * Thread-safety: unless a function says otherwise, different objects may be used from different
 * threads at once; one object only from one thread at a time. Layers of one context share its
 * threads: their forwards run one after another, and may be called from any thread.
 *
 * Alignment: rows that are read or written (inputs, outputs, queries), expert ids and router weights must be
 * aligned to the size of their elements: 2 bytes for BF16 and F16, 4 for F32 and float, 8 for int64_t; else
 * KT_E_INVALID. The same holds for float arrays such as biases, which are not checked. A kt_view and its
 * scales may be at any address. No other alignment is required unless a function says so; memory aligned to
 * 64 bytes may be faster.
 *
 * "The same bits" does not apply to the sign and payload of a NaN, which may depend on what else is computed.
 *
 * Fork: a forked child has none of a context's threads; functions that require them fail with KT_E_STATE. So
 * do functions on objects that another thread of the parent was using at the time of the fork: a checkpoint's
 * experts, a cache, a recorder, staging buffers. All objects can still be destroyed, no function blocks, and
 * other checkpoints and a new context work.
 *
 * The library never prints, exits, aborts or installs signal handlers.
 */
#ifndef KT_KT_H
#define KT_KT_H

#include <kt/config.h>
#include <kt/types.h>
#include <kt/version.h>

#ifdef __cplusplus
/* A struct and the function that fills it have one name, as stat(2) has. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

struct kt_config;
struct kt_context;
struct kt_checkpoint;
struct kt_layer;

/* ---- version and names ---------------------------------------------------------------------- */

/** The library's version, "0.1.0". Static. */
const char *kt_version(void);

/** "invalid argument" for KT_E_INVALID, and so on. Never NULL. Static. */
const char *kt_status_name(enum kt_status status);

/** "q4_k" for KT_DTYPE_Q4_K; "?" for an unknown number. Static. */
const char *kt_dtype_name(uint32_t dtype);

/** The dtype of a name such as "q4_k" (case does not matter), or KT_DTYPE_NONE. */
enum kt_dtype kt_dtype_parse(const char *name);

/** The backend for a method name of KT-Kernel, such as "AMXINT4" (case does not matter): "amx_int4".
 * Methods for weights as published (FP8, RAWINT4) also name the format of the model. The name of a backend
 * and "auto" are returned unchanged. NULL: unknown. Static, or `method` itself. */
const char *kt_method_backend(const char *method);

/** The setting that such a method requires for its backend, for kt_config_params.settings: on ARM,
 * "plugin.kml_arm.weights=int4" for MOE_INT4. NULL: none. Static. */
const char *kt_method_setting(const char *method);

/** The names of such methods, by index from 0; NULL after the last one. Static. */
const char *kt_method_name(size_t index);

/** Elements and bytes of a block of the format; 1 element for plain types; 0 and 0 if unknown. */
void kt_dtype_block(uint32_t dtype, uint32_t *elements, uint32_t *bytes);

/* ---- context -------------------------------------------------------------------------------- */

/**
 * Creates a context: detects the CPU and the NUMA nodes, starts the threads, opens the plugins.
 * A plugin that cannot be used is not an error (see kt_backend_info) unless it is `enabled = required`.
 * `config` may be NULL, which means that of kt_config_create(NULL).
 */
enum kt_status kt_context_create(const struct kt_config *config, struct kt_context **context,
                                 struct kt_error *error);
/** Layers keep their context alive; it is freed with the last of them. `context` may be NULL. */
void kt_context_destroy(struct kt_context *context);

/** The machine as the context uses it. Strings live as long as the context. */
struct kt_context_info {
    uint32_t n_nodes;            /**< NUMA nodes in use */
    uint32_t n_threads;          /**< of all nodes, the caller's included */
    uint32_t bind_failures;      /**< threads that could not be bound to their core */
    uint32_t membind_failures;   /**< buffers that could not be bound to their node */
    const char *cpu_features;    /**< "avx2 fma f16c ...", after the mask */
    const char *cpu_variant;     /**< "amx" .. "scalar": the best named level of the features */
    uint64_t cpu;                /**< KT_CPU_ bits of <kt/plugin.h> */
    const char *membind_message; /**< why memory binding failed, "" if it did not */
    const char *idle_cpus; /**< usable CPUs to which no thread is bound, "4-7,12"; "" if there are none or
                              threads are not bound */
    const char *cpu_model; /**< as in tuned.ini: "GenuineIntel-6-143", vendor, family and model */
    const char *microcode; /**< "0x2b000603"; "": unknown */
};
void kt_context_info(const struct kt_context *context, struct kt_context_info *info);

struct kt_node_info {
    uint32_t os_index; /**< as in numactl */
    uint32_t n_threads;
    uint64_t memory; /**< local bytes by the topology; a hint only */
};
enum kt_status kt_context_node(const struct kt_context *context, uint32_t index, struct kt_node_info *info,
                               struct kt_error *error);

/** State of a configured plugin. */
enum kt_backend_state {
    KT_BACKEND_LOADED = 0,
    KT_BACKEND_DISABLED = 1, /**< enabled = no */
    KT_BACKEND_UNFIT = 2,    /**< this CPU lacks a feature that its configuration requires */
    KT_BACKEND_REFUSED = 3,  /**< its probe or open failed with a reason, or no level fits */
    KT_BACKEND_FAILED = 4    /**< file missing, not owned safely, wrong ABI, damaged */
};

/** A configured plugin, or the built-in reference. Strings live as long as the context. */
struct kt_backend_info {
    const char *name;
    enum kt_backend_state state;
    const char *reason; /**< the problem and what to do; if loaded, why it cannot use a better level of this
                           CPU; or "" */
    const char *file;   /**< absolute path of the plugin, "" for the reference */
    const char *origin; /**< where its section is: "/usr/share/...ini:3" */
    const char *version;
    const char *description;
    const char *formats;     /**< "bf16 f16 q4_k ..." */
    const char *level;       /**< level in use, "" if not loaded */
    const char *levels;      /**< all levels, best first, "amx avx512_vnni avx2 scalar" */
    const char *instruction; /**< multiply instruction that limits the level */
    int64_t priority;        /**< `auto` tries higher priorities first */
    size_t n_options;
    uint32_t takes_linears;   /**< not 0: also used for linears; 0: its plugin ABI only has experts, or it
                                 computes attention, or it was not opened */
    uint32_t takes_attention; /**< not 0: used for attention */
};
size_t kt_context_backend_count(const struct kt_context *context);
enum kt_status kt_context_backend(const struct kt_context *context, size_t index,
                                  struct kt_backend_info *info, struct kt_error *error);

/** Option `option` of backend `index`: value, help and origin; setting->section is the backend's name. */
enum kt_status kt_context_backend_option(const struct kt_context *context, size_t index, size_t option,
                                         struct kt_setting *setting, struct kt_error *error);

/**
 * Runs `count` empty stages back to back (dispatch, barrier, return) on all threads and returns the mean time
 * of one in nanoseconds; with `asleep`, it waits before each until the workers sleep.
 */
enum kt_status kt_context_dispatch_time(struct kt_context *context, uint32_t count, int asleep,
                                        double *nanoseconds, struct kt_error *error);

/**
 * Submits `count` empty tasks one after the other, as kt_layer_submit does, waits for each and then sleeps
 * for gap_us; if that is more than core.spin_us, the threads go to sleep in between. times[i] is the time in
 * nanoseconds from the call until the last thread has started.
 */
enum kt_status kt_context_submit_times(struct kt_context *context, uint32_t count, uint32_t gap_us,
                                       double *times, struct kt_error *error);

/** Runs function(data, thread, n_threads) once on every thread of the context and waits: like
 * kt_context_run_threads, for functions that do not use struct kt_thread. */
enum kt_status kt_context_run(struct kt_context *context,
                              void (*function)(void *data, uint32_t thread, uint32_t n_threads), void *data,
                              struct kt_error *error);

/* ---- runs of threads: what an engine computes between layers and linears -------------------- */

#define KT_THREAD_COUNTERS 4

/** A thread of the context in a run. */
struct kt_thread {
    uint32_t index, n_threads; /**< among all */
    uint32_t node, n_nodes;    /**< its NUMA node, from 0 in the order of kt_context_node */
    uint32_t index_in_node, n_in_node;
    void *core; /**< the core's own */
};

/**
 * Calls function(data, thread) once on every thread of the context, including the caller's, and returns when
 * all have returned. It costs as much as starting a forward, because it runs on the threads that compute
 * layers and linears, which spin between runs; so a model's step can be a list of forwards and runs. What one
 * thread wrote is visible to all after a barrier and after the run. Runs and forwards of a context are
 * serialized. The function must only call these functions of the library: the three below, kt_view_gather,
 * and those of <kt/rows.h> and <kt/kv.h> that read and write rows. Allocates nothing. KT_E_STATE: this
 * process is a fork of the one that created the context.
 */
enum kt_status kt_context_run_threads(struct kt_context *context,
                                      void (*function)(void *data, const struct kt_thread *thread),
                                      void *data, struct kt_error *error);

/** Waits until all threads of the run have called it; each thread must call it equally often. */
void kt_thread_barrier(const struct kt_thread *thread);
/** The same among the threads of a node. */
void kt_thread_node_barrier(const struct kt_thread *thread);

/** The number of the next task of this thread's node: 0, 1, 2, ..., each returned to one thread of the node.
 * counter: 0 to KT_THREAD_COUNTERS - 1; each begins at 0 in every run. */
uint32_t kt_thread_claim(const struct kt_thread *thread, uint32_t counter);

/** Bytes that can be allocated now without swapping: the free memory of the machine, or the rest of the limit
 * of this process's control groups, which is less in a container. Cached pages of files count as free. 0:
 * unknown. */
uint64_t kt_memory_available(void);

/** The CPU quota of this process's control groups in thousandths of a CPU, from cpu.max or cpu.cfs_quota_us:
 * 2500 means 2.5 seconds of CPU time per second. 0: no quota. A context without core.threads has at most as
 * many threads, rounded up. Any thread. */
uint32_t kt_cpu_quota(void);

/* ---- checkpoint ----------------------------------------------------------------------------- */

enum kt_io {
    KT_IO_MMAP = 0, /**< map files; a file that shrinks while mapped raises SIGBUS on access */
    KT_IO_READ = 1  /**< read tensors into memory; a file that shrinks is KT_E_IO */
};

struct kt_checkpoint_params {
    size_t struct_size;
    enum kt_io io;
    kt_log_fn log;
    void *log_data;
};
#define KT_CHECKPOINT_PARAMS_INIT KT_INIT(kt_checkpoint_params)

/**
 * Opens a GGUF file or safetensors files and checks their whole headers: magic, counts, names, types,
 * shapes, offsets, overlaps. Memory used is bounded by the files' size. `params` may be NULL.
 *
 * `path` is a file, or the folder of a safetensors checkpoint. The folder can also be opened through its
 * config.json, its index, or any file that model.safetensors.index.json lists. With an index, the checkpoint
 * consists of the files that it lists, in the folder or below it, which must have the listed tensors; if
 * several files have a tensor, the index determines which is used. A model.safetensors that the index does
 * not list takes precedence over it. Without an index, the checkpoint is model.safetensors, or else all
 * *.safetensors files of the folder; adapter_model*, consolidated* and variants (model.fp16.safetensors) are
 * only used if there are no others. Any other safetensors file is opened alone; if it has experts, the
 * config.json in its folder is read. The folder may also be output of KT-Kernel's converter, with safetensors
 * files or with folders _layer_N; config.json is optional there.
 *
 * A GGUF model split into files NAME-00001-of-00003.gguf is opened as a whole through any of them: names, the
 * keys split.no, split.count and split.tensors.count, and the tensors must agree. A folder without
 * safetensors files must have the .gguf files of one model, which is opened; files with mmproj or imatrix in
 * their names are ignored if there are others.
 *
 * Experts of safetensors files are found by the tensor names of known model families, and config.json must
 * agree with them. If their format or activation is not supported, the checkpoint still opens: a warning has
 * the reason, and so has the error of kt_checkpoint_experts.
 */
enum kt_status kt_checkpoint_open(const char *path, const struct kt_checkpoint_params *params,
                                  struct kt_checkpoint **checkpoint, struct kt_error *error);
/** Layers that read from it keep it open. `checkpoint` may be NULL. */
void kt_checkpoint_close(struct kt_checkpoint *checkpoint);

struct kt_checkpoint_info {
    const char *format;       /**< "gguf", "safetensors", or "kt": KT-Kernel's folders _layer_N */
    const char *architecture; /**< "qwen3moe", from the file or config.json (model_type); or "" */
    const char *name;         /**< the model's name, or "" */
    uint64_t n_tensors;
    uint64_t n_layers;     /**< layers by the metadata, 0: unknown */
    uint64_t n_moe_layers; /**< layers that hold experts */
    uint64_t size;         /**< bytes of all files */
    uint64_t expert_size;  /**< bytes of all experts' weights */
    uint64_t n_files;
};
void kt_checkpoint_info(const struct kt_checkpoint *checkpoint, struct kt_checkpoint_info *info);

struct kt_tensor_info {
    const char *name;
    uint32_t
        dtype; /**< enum kt_dtype; KT_DTYPE_NONE: a type that is not known, see kt_checkpoint_tensor_type */
    uint32_t n_dims;
    uint64_t dims[8]; /**< row-major: dims[n_dims - 1] varies fastest (GGUF lists them the other way); of a
                         tensor with more than 8, dims[0] is the product of the slowest ones */
    uint64_t offset;  /**< in its file */
    uint64_t size;
    const char *file; /**< the file's name, without the folder */
};
/** Tensors in the order of files and offsets. Strings live as long as the checkpoint. */
enum kt_status kt_checkpoint_tensor(const struct kt_checkpoint *checkpoint, uint64_t index,
                                    struct kt_tensor_info *info, struct kt_error *error);
/** The name of a tensor's type: that of its dtype or, if info.dtype is KT_DTYPE_NONE, what the file calls it,
 * such as "F6_E2M3" or "ggml type 43". Such a tensor is listed, its bytes can be read, and only what needs
 * its values fails. "?" for an index that is not a tensor. */
const char *kt_checkpoint_tensor_type(const struct kt_checkpoint *checkpoint, uint64_t index);
/** Finds a tensor by its exact name. */
enum kt_status kt_checkpoint_find(const struct kt_checkpoint *checkpoint, const char *name, uint64_t *index,
                                  struct kt_error *error);
/** The tensor's bytes: info.size readable bytes until the checkpoint is closed. */
enum kt_status kt_checkpoint_data(struct kt_checkpoint *checkpoint, uint64_t index, const void **data,
                                  struct kt_error *error);

/** The MoE part of one layer of a model. */
struct kt_moe_info {
    uint64_t layer;
    uint32_t n_experts;
    uint32_t top_k; /**< 0: not in the metadata */
    uint64_t hidden_size;
    uint64_t intermediate_size;
    uint32_t dtype[3];   /**< by enum kt_projection */
    uint32_t has_bias;   /**< bits by enum kt_projection */
    uint32_t activation; /**< enum kt_activation */
    float limit;
    float alpha;
    uint64_t size;              /**< bytes of the experts' weights; with safetensors, scales included */
    const char *stored_backend; /**< a store's layer: the backend that its weights are packed for, else "" */
    const char *stored_form;    /**< the form of the packed objects, or "" */
    const char *stored_source;  /**< fingerprint of the packed checkpoint; "" if there was none */
    const char *stored_layers;  /**< all its layers with experts, "0-3,5"; "..." if unknown; or "" */
};
/** The numbers of the layers that hold experts, ascending: index 0 .. n_moe_layers - 1. */
enum kt_status kt_checkpoint_moe_layer(const struct kt_checkpoint *checkpoint, uint64_t index,
                                       uint64_t *layer, struct kt_error *error);
/** Layers after the model's last one, which predict further tokens, do not count in n_moe_layers of a
 * safetensors checkpoint, but are found here and loaded by their number: mtp.layers.0 is the first one after
 * it. */
enum kt_status kt_checkpoint_moe(const struct kt_checkpoint *checkpoint, uint64_t layer,
                                 struct kt_moe_info *info, struct kt_error *error);
/** Fills views of experts 0 .. n_experts - 1 of the layer; they live as long as the checkpoint. In a store,
 * views have sizes and the source type, but no data: kt_layer_load_checkpoint loads it. Weights that
 * KT-Kernel packed are decoded here, by the calling thread, to int8 rows with float32 scales. This uses
 * 3 x intermediate_size x hidden_size bytes per expert, plus the scales, until the checkpoint is closed or
 * kt_checkpoint_release_layer is called. KT_E_FORMAT: quantization cannot have produced such rows. */
enum kt_status kt_checkpoint_experts(struct kt_checkpoint *checkpoint, uint64_t layer,
                                     struct kt_expert *experts, uint32_t n_experts, struct kt_error *error);

/** Frees the weights decoded by kt_checkpoint_experts for this layer, whose views are then invalid; does
 * nothing if they point into the files. Not required after kt_layer_load_checkpoint, kt_layer_store and
 * kt_layer_plan_checkpoint: they free the weights that they decode, and a layer that keeps its source frees
 * it when it is destroyed or loaded again. */
enum kt_status kt_checkpoint_release_layer(struct kt_checkpoint *checkpoint, uint64_t layer,
                                           struct kt_error *error);

/** A string that identifies a checkpoint: XXH3 of every file's size and of samples of its content, 16 hex
 * digits. Copies have the same fingerprint. */
enum kt_status kt_checkpoint_fingerprint(const struct kt_checkpoint *checkpoint, char text[17],
                                         struct kt_error *error);

/** Reads all of a store's layer and compares it with its checksums; KT_E_FORMAT names the object that
 *  is damaged. Layers in their source format have none: KT_E_UNSUPPORTED. */
enum kt_status kt_checkpoint_verify(const struct kt_checkpoint *checkpoint, uint64_t layer,
                                    struct kt_error *error);

/* ---- views of your own tensors -------------------------------------------------------------- */

/** Describes a dense row-major matrix of `dtype` at `data`; checks that `size` is exactly its size. */
enum kt_status kt_view_dense(struct kt_view *view, uint32_t dtype, const void *data, uint64_t size,
                             uint64_t rows, uint64_t cols, struct kt_error *error);

/** Dequantizes row `row` of any view to cols float32 values. Thread-safe. */
enum kt_status kt_view_row(const struct kt_view *view, uint64_t row, float *out, struct kt_error *error);

/** Bytes of the matrix itself, its scales and zeros included, without gaps; 0 if it is not valid. */
uint64_t kt_view_bytes(const struct kt_view *view);

/* ---- layer ---------------------------------------------------------------------------------- */

struct kt_layer_params {
    size_t struct_size;
    uint32_t n_experts;
    uint32_t top_k; /**< experts per token */
    uint64_t hidden_size;
    uint64_t intermediate_size;
    uint32_t max_tokens;       /**< buffers are allocated for this many; larger batches run in chunks */
    uint32_t activation;       /**< enum kt_activation */
    float limit;               /**< SWIGLU, SWIGLUOAI, SWIGLUSTEP: > 0; SITU: >= 0 */
    float alpha;               /**< SWIGLUOAI: any; SITU: > 0 */
    const char *backend;       /**< name of a backend, or NULL: the configuration's core.backend */
    const uint8_t *skip_mask;  /**< n_experts bytes, or NULL. Not 0: the expert is skipped. Owned by
                                     the caller, read at each forward, may change between calls. */
    const int64_t *expert_map; /**< n_experts numbers: physical expert i holds the checkpoint's
                                     expert expert_map[i]; NULL: itself. Copied. */
    const char *name;          /**< for messages, such as "layer 3"; NULL: "layer". Copied. */
    int stored; /**< not 0: the layer is for kt_layer_store, and plans describe that: the form in memory of
                   some backends cannot be stored */
};
#define KT_LAYER_PARAMS_INIT KT_INIT(kt_layer_params)

/** Fills shape and activation from layer `index` of the checkpoint, top_k 1 if it is unknown; other fields do
 * not change. */
enum kt_status kt_checkpoint_layer_params(const struct kt_checkpoint *checkpoint, uint64_t index,
                                          struct kt_layer_params *params, struct kt_error *error);

/** Makes a layer without weights. Keeps the context alive. */
enum kt_status kt_layer_create(struct kt_context *context, const struct kt_layer_params *params,
                               struct kt_layer **layer, struct kt_error *error);
/** Waits for the layer's submitted work first. `layer` may be NULL. */
void kt_layer_destroy(struct kt_layer *layer);

/** A backend that was considered for a layer. */
struct kt_candidate {
    char backend[32];
    char level[16];
    int chosen;
    char reason[256]; /**< why it was rejected; "" if it was not tried; for the chosen one, the backend's
                         reason (struct kt_backend_info) */
};

#define KT_MAX_NODES 64
#define KT_MAX_CANDIDATES 24

/** The backend and the memory that loading a layer requires. */
struct kt_plan {
    uint32_t n_nodes;
    uint32_t n_candidates;
    struct {
        uint64_t intermediate_begin, intermediate_end; /**< the node's shard */
        uint64_t weight_size;                          /**< packed weights on this node */
        uint64_t buffer_size; /**< activations and outputs, shared by all layers of the context */
    } node[KT_MAX_NODES];
    struct kt_candidate candidate[KT_MAX_CANDIDATES];
    uint64_t weight_size; /**< of all nodes */
    uint64_t buffer_size;
    uint64_t nominal_size; /**< of one expert in its format, without padding */
    char form[32];         /**< of the packed objects, as named in a store; "": they cannot be stored */
    uint32_t keeps_source; /**< not 0: products read the source itself */
    uint32_t fallback;     /**< not 0: not the requested backend; candidate[] has the reason */
    char rounding[48];     /**< form to which packing rounds: "int8, a scale for each row"; "": exact */
    char compact[112]; /**< why a smaller form was chosen than the one optimized for speed; "": it was not */
    char tuned[224];   /**< configured values of the backend's tunables: "prefetch_bytes 2048 instead of
                          1024; 6.0 % faster"; "": there are none */
};

/**
 * Chooses a backend for weights like `example` (formats and shape matter, data is not read) and computes the
 * memory that loading would require. Nothing is allocated.
 * Fails with KT_E_UNSUPPORTED if no backend supports the weights, or core.strict is on and the requested
 * backend does not: candidate[] and n_candidates of the plan then have the reasons, the rest is 0.
 */
enum kt_status kt_layer_plan(struct kt_layer *layer, const struct kt_expert *example, struct kt_plan *plan,
                             struct kt_error *error);

/** The same for layer `index` of a checkpoint, which may be a store. */
enum kt_status kt_layer_plan_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                        uint64_t index, struct kt_plan *plan, struct kt_error *error);

/**
 * Packs n_experts experts, in parallel, each shard on its node. Experts must all have the same
 * formats; KT_E_FORMAT: a scale is NaN, infinite, or negative with FP8 or FP4. The memory may be freed
 * afterwards. On failure the layer has no weights, except after KT_E_BUSY (submitted work still uses them),
 * which leaves it unchanged.
 */
enum kt_status kt_layer_load(struct kt_layer *layer, const struct kt_expert *experts, uint32_t n_experts,
                             struct kt_error *error);

/**
 * The same for layer `index` of an open checkpoint; a backend that keeps its source reads it in
 * place, and the layer then keeps the checkpoint open.
 * A layer of a store is not packed again. On one NUMA node, its mapped file is used in place, and an expert
 * is compared with its checksum when a forward first requests it, which fails with KT_E_FORMAT if it is
 * damaged. On several nodes, with an expert_map or with KT_IO_READ, it is compared and copied here.
 */
enum kt_status kt_layer_load_checkpoint(struct kt_layer *layer, struct kt_checkpoint *checkpoint,
                                        uint64_t index, struct kt_error *error);

/**
 * Loads all weights that are used in place into memory, on all threads, so that no forward waits for a page
 * fault: those of a mapped store, and those that a backend reads from its source. Experts of a store that
 * have not been compared with their checksums are compared here. Packed or copied weights already are in
 * memory. Forwards of the context wait until it is done. KT_E_FORMAT: an expert is damaged, KT_E_IO: the file
 * was truncated; the layer then is unchanged. Other threads can watch and stop it like a load.
 */
enum kt_status kt_layer_populate(struct kt_layer *layer, struct kt_error *error);

/** Progress of a load that runs in another thread, in bytes of packed weights on all nodes, or of
 * kt_layer_populate, in bytes read. Before the first load and while it prepares, both are 0;
 * afterwards done equals total. Any thread. */
void kt_layer_load_progress(const struct kt_layer *layer, uint64_t *done, uint64_t *total);

/** Makes a load or kt_layer_populate that runs in another thread fail soon, with KT_E_STATE; does nothing
 * without one. Any thread. */
void kt_layer_load_stop(struct kt_layer *layer);

struct kt_store_params {
    size_t struct_size;
    const char *folder; /**< where layer-00003.safetensors is written; it must exist */
    /** Called from the caller's thread with bytes of packed weights; may be NULL. */
    void (*progress)(void *data, uint64_t done, uint64_t total);
    void *data;
};
#define KT_STORE_PARAMS_INIT KT_INIT(kt_store_params)

/**
 * Packs layer `index` of a checkpoint for the backend in the layer's params, and writes it to a store: a
 * folder that kt_checkpoint_open reads. The layer's loaded weights are not changed; its sizes must match the
 * checkpoint; activation and top_k come from the file, and its expert_map is ignored. The file has a
 * temporary name until it is complete and durable (fsync of file and folder); a file of the same name is
 * replaced. Memory: two packed objects per thread. KT_E_UNSUPPORTED: the backend's weights cannot be stored;
 * KT_E_BUSY: another process is writing this layer.
 */
enum kt_status kt_layer_store(struct kt_layer *layer, struct kt_checkpoint *checkpoint, uint64_t index,
                              const struct kt_store_params *params, struct kt_error *error);

/** The same for weights that are not in a checkpoint, n_experts as for kt_layer_load: they become layer
 *  `index` of the store. A store has either only such layers, or only those of one checkpoint. */
enum kt_status kt_layer_store_experts(struct kt_layer *layer, const struct kt_expert *experts,
                                      uint32_t n_experts, uint64_t index,
                                      const struct kt_store_params *params, struct kt_error *error);

/** The loaded weights. Strings live as long as the layer. */
struct kt_layer_info {
    const char *backend; /**< "" before load */
    const char *level;
    const char *instruction;
    uint64_t packed_size;  /**< bytes of all packed experts, all nodes */
    uint64_t nominal_size; /**< bytes of one expert in its format */
    uint32_t n_experts, top_k;
    uint64_t hidden_size, intermediate_size;
    const char *rounding; /**< kt_plan.rounding */
};
void kt_layer_info(const struct kt_layer *layer, struct kt_layer_info *info);

struct kt_forward {
    size_t struct_size;
    uint32_t n_tokens; /**< 0 is allowed and does nothing */
    uint32_t top_k;    /**< ids per token, 1 .. the layer's top_k; 0: the layer's */
    const int64_t
        *expert_ids; /**< [n_tokens][top_k]; negative or masked ids are skipped; >= n_experts: KT_E_RANGE */
    const float *router_weights; /**< [n_tokens][top_k] */
    const void *input;           /**< [n_tokens][hidden_size] */
    void *output;          /**< [n_tokens][hidden_size]; overlaps nothing that is read, else KT_E_INVALID */
    uint32_t input_dtype;  /**< KT_DTYPE_BF16, KT_DTYPE_F16 or KT_DTYPE_F32 */
    uint32_t output_dtype; /**< likewise */
    int64_t input_stride;  /**< bytes from token to token; 0: dense */
    int64_t output_stride;
    uint32_t accumulate; /**< not 0: output += result */
    uint32_t reserved;
};
#define KT_FORWARD_INIT KT_INIT(kt_forward)

/**
 * output[t] = sum over k of router_weights[t][k] * down(activation(gate(x), up(x))). Checks everything,
 * including ids, before it writes. Bit-identical for any number of threads. A NaN in one token does not
 * affect other tokens. Allocates nothing. Any thread; the caller's thread takes part. KT_E_BACKEND: the
 * backend failed during computation. The message has layer, backend and reason; the output is undefined, and
 * the next forward is not affected.
 */
enum kt_status kt_layer_forward(struct kt_layer *layer, const struct kt_forward *forward,
                                struct kt_error *error);

/**
 * Adds a forward to the context's first-in first-out queue and returns immediately. The struct is copied; the
 * data that it points to must live until kt_wait. Allocates nothing. KT_E_BUSY: core.queue_depth tickets have
 * not yet been waited for. Any thread.
 */
enum kt_status kt_layer_submit(struct kt_layer *layer, const struct kt_forward *forward, uint64_t *ticket,
                               struct kt_error *error);
/** Waits until the ticket's work is done and returns its status. Once per ticket. Any thread. */
enum kt_status kt_wait(struct kt_context *context, uint64_t ticket, struct kt_error *error);

/** How often each of n_experts experts was computed since the layer was created or reset, not counting masked
 * ones. For requests, see <kt/stats.h>. Any thread. */
enum kt_status kt_layer_usage(const struct kt_layer *layer, uint64_t *counts, uint32_t n_experts,
                              struct kt_error *error);
/** Resets all statistics of the layer. Waits for a running forward. Any thread. */
void kt_layer_usage_reset(struct kt_layer *layer);

/** Rows [row, row + n_rows) of an expert's projection as used by the loaded kernel, dequantized to float32,
 *  [n_rows][cols]. */
enum kt_status kt_layer_weights(const struct kt_layer *layer, uint32_t expert, enum kt_projection projection,
                                uint64_t row, uint64_t n_rows, float *out, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#include <kt/attention.h>
#include <kt/gpu.h>
#include <kt/kv.h>
#include <kt/linear.h>
#include <kt/model.h>
#include <kt/rows.h>
#include <kt/selection.h>
#include <kt/stats.h>
#include <kt/tune.h>
#endif
