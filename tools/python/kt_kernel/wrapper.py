# SPDX-License-Identifier: Apache-2.0
"""KTMoEWrapper: the interface of KT-Kernel that SGLang and scripts use."""

from __future__ import annotations

import ctypes
import numbers
import os
import threading
from collections.abc import Callable
from typing import Any

from . import _abi, _arrays, _device, _model, _unpack
from ._handle import Single, logger
from ._lib import KTError, KTValueError, call, encode, lib, real, renamed, whole, whole_list
from .context import Context
from .layer import Layer, Ticket, method_settings, methods

_DEFAULT_MAX_TOKENS = 4096
_FORWARD = ("hidden_states", "topk_ids", "topk_weights")
# What the library calls otherwise than a wrapper's callers, and a setting that is none of theirs.
_NAMES = {
    "expert_map": "physical_to_logical_map_cpu",
    "max_tokens": "chunked_prefill_size",
    "top_k": "num_experts_per_tok",
    " (core.strict = yes forbids another)": "",
}


def _refuse_training(what):
    raise NotImplementedError(
        f"{what}: kt_kernel of this package has no training (LoRA, backward); it computes inference only"
    )


def _check_mode(mode):
    if mode == "sft":
        _refuse_training('mode="sft"')
    if mode != "inference":
        raise KTValueError(f'mode is {mode!r}, but must be "inference"')


def _check_method(method):
    if not isinstance(method, str):
        raise TypeError(f"method must be a name such as AMXINT4, not {type(method).__name__}")
    name = method.upper()
    if name.endswith(("_SFT", "_SKIPLORA")) or name == "INT8_SFT":
        _refuse_training(f'method="{method}"')
    if name == "SYCL_GPTQ_INT4":
        raise NotImplementedError(f'method="{method}" computes on Intel GPUs; on the CPU it is GPTQ_INT4')
    backend = lib.kt_method_backend(encode(method, "method"))
    if backend is None:
        raise KTValueError(f'method="{method}" is not known; methods are {", ".join(methods())}')
    return backend.decode()


def _as_mask(given, n_experts):
    """Converts a mask to an array of booleans of the caller's kind."""
    torch = _arrays.torch_of(given)
    if torch is not None:
        array, is_whole = given, not (given.is_floating_point() or given.is_complex())
    else:
        array = _arrays.numpy("gpu_experts_mask is none of torch's").asarray(given)
        is_whole = array.dtype.kind in "biu"
    if tuple(array.shape) != (n_experts,):
        raise KTValueError(f"gpu_experts_mask has the shape {list(array.shape)}, but must be [{n_experts}]")
    # Ids of experts are whole numbers too, but a mask has no 2.
    if not is_whole or (array > 1).any() or (array < 0).any():
        raise KTValueError(f"gpu_experts_mask is {array.dtype}, but must be of bool, or of 0 and 1")
    return array != 0


def _make_mask(given, num_gpu_experts, n_experts):
    """A mask of the wrapper's own, of the caller's kind; the first num_gpu_experts where none is given. Its memory
    can be neither resized nor freed, since the library reads it."""
    torch = _arrays.torch_of(given)
    if given is not None:
        given = _as_mask(given, n_experts)
    if torch is not None and torch.cuda.is_available():
        return torch.empty(n_experts, dtype=torch.bool, pin_memory=True).copy_(given)
    if torch is not None:
        return torch.frombuffer(bytearray(n_experts), dtype=torch.bool).copy_(given)
    module = _arrays.numpy("gpu_experts_mask is an array of its, where no tensor is given")
    mask = module.frombuffer(bytearray(n_experts), dtype="bool")
    mask[:] = module.arange(n_experts) < num_gpu_experts if given is None else given
    return mask


def _check_weights(array, what, expected):
    """Layer.from_tensors would call them otherwise."""
    found = _arrays.on_cpu(array, what)
    if found.shape != expected:
        raise KTValueError(f"{what} has the shape {list(found.shape)}, but must be {list(expected)}")
    if not found.is_dense():
        raise KTValueError(f"{what} is not dense; pass a contiguous one")
    _arrays.float_name(found, what)


def _context_of(threads, n_pools, nodes, method):
    """The context of wrappers with these settings."""
    threads, n_pools = whole(threads or 0, "cpuinfer_threads"), whole(n_pools or 0, "threadpool_count")
    chosen = None if nodes is None else tuple(whole_list(nodes, "numa_nodes"))
    if chosen is not None and n_pools and len(chosen) != n_pools:
        raise KTValueError(f"numa_nodes {list(chosen)} are {len(chosen)}, but threadpool_count is {n_pools}")
    with renamed({"threads = ": "cpuinfer_threads = "}):
        return _model.context_for(threads, n_pools, chosen, method_settings(method))


class KTMoEWrapper(Single):
    """The experts of one layer that are computed on the CPU, beside others on a GPU or without one.

    layer_idx, num_experts, num_experts_per_tok, hidden_size, moe_intermediate_size
        the layer; the checkpoint must agree
    gpu_experts_mask
        bool [num_experts]: experts that another computes, so they are skipped here; None: those that
        num_gpu_experts says, the first ones. A whole number in this place is num_gpu_experts. It is copied
        into the attribute of the same name, one buffer that may be changed in place while serving
    cpuinfer_threads, threadpool_count, numa_nodes
        threads of all NUMA nodes (0: one a core), how many nodes (those that the machine has, at most), which.
        Wrappers with the same three share their threads, but methods
        that are one backend's with other options do not
    weight_path
        the checkpoint: safetensors, GGUF, what KT-Kernel's converter wrote, or a store of ``kt convert``
    cpu_save
        load_weights_from_tensors writes what it packed into weight_path
    chunked_prefill_size
        tokens of a batch that buffers are made for; more are computed in pieces, but with deferred experts refused
    max_deferred_experts_per_token
        experts of a token that may be added to the next layer's output instead (see <kt/gpu.h>)
    method
        AMXINT4 ... MOE_INT4, or a backend's name. What it cannot have is an error, never another backend
    swiglu_limit, swiglu_alpha
        not 0: the activation, instead of what the checkpoint says

    Arguments of training raise NotImplementedError. Any thread may call forward, and submit_forward and sync_forward
    with hidden_states of its own; on a GPU, and with deferred experts, one pass follows another. A wrapper must live
    as long as streams and graphs run its forwards.
    """

    def __init__(
        self,
        layer_idx: int,
        num_experts: int,
        num_experts_per_tok: int,
        hidden_size: int,
        moe_intermediate_size: int,
        gpu_experts_mask: Any = None,
        cpuinfer_threads: int = 0,
        threadpool_count: int = 0,
        weight_path: str | os.PathLike = "",
        chunked_prefill_size: int = _DEFAULT_MAX_TOKENS,
        cpu_save: bool = False,
        max_deferred_experts_per_token: int | None = None,
        method: str = "AMXINT4",
        numa_nodes: list[int] | None = None,
        mode: str = "inference",
        num_gpu_experts: int = 0,
        lora_rank: int = 16,
        lora_alpha: float = 32.0,
        lora_dropout: float = 0.0,
        max_cache_depth: int = 1,
        group_size: int = 128,
        zero_point: bool = True,
        full_weight_grad: bool = False,
        swiglu_limit: float = 0.0,
        swiglu_alpha: float = 0.0,
    ):
        _check_mode(mode)
        if isinstance(gpu_experts_mask, numbers.Integral) and not isinstance(gpu_experts_mask, bool):
            num_gpu_experts, gpu_experts_mask = int(gpu_experts_mask), None
        self._backend = _check_method(method)
        self.method = method
        self.layer_idx = whole(layer_idx, "layer_idx")
        self.num_experts = whole(num_experts, "num_experts", 1)
        self.num_experts_per_tok = whole(num_experts_per_tok, "num_experts_per_tok", 1)
        self.hidden_size = whole(hidden_size, "hidden_size", 1)
        self.moe_intermediate_size = whole(moe_intermediate_size, "moe_intermediate_size", 1)
        self.weight_path = os.fsdecode(encode(weight_path, "weight_path"))
        self.cpu_save = bool(cpu_save)
        if self.cpu_save and not self.weight_path:
            raise KTValueError("cpu_save writes into weight_path, which is empty")
        # SGLang has -1 where prompts are not cut.
        cut = whole(chunked_prefill_size or 0, "chunked_prefill_size", -(1 << 31))
        self.max_tokens = cut if cut > 0 else _DEFAULT_MAX_TOKENS
        self._max_deferred = whole(max_deferred_experts_per_token or 0, "max_deferred_experts_per_token")
        self._activation = _activation_of(real(swiglu_limit, "swiglu_limit"), real(swiglu_alpha, "swiglu_alpha"))
        n_on_gpu = whole(num_gpu_experts, "num_gpu_experts", 0, self.num_experts)
        self._mask = _make_mask(gpu_experts_mask, n_on_gpu, self.num_experts)
        self.context = _context_of(cpuinfer_threads, threadpool_count, numa_nodes, method)
        self.moe: Layer | None = None
        self._pending: list[tuple[Any, Ticket]] = []
        self._lock = threading.Lock()  # of _pending
        self._gpu = _device.Forwards(self)
        self._writes = _unpack.Writes(self)
        path = os.path.abspath(self.weight_path)
        key = (path, self._backend, self.hidden_size, self.num_experts, self.num_experts_per_tok)
        self.model = _model.join(self, key, self.context)

    # ---- attributes that engines use ----

    @property
    def gpu_experts_mask(self) -> Any:
        """bool [num_experts], of the caller's kind; change it in place. To assign is to copy into it."""
        return self._mask

    @gpu_experts_mask.setter
    def gpu_experts_mask(self, mask: Any) -> None:
        mask = _as_mask(mask, self.num_experts)
        torch = _arrays.torch_of(self._mask)
        if torch is not None:
            self._mask.copy_(torch.as_tensor(mask))
        else:
            self._mask[:] = mask

    @property
    def max_deferred_experts_per_token(self) -> int:
        """Experts of a token that may be late. To assign is for passes that begin afterwards, without graphs."""
        return self._max_deferred

    @max_deferred_experts_per_token.setter
    def max_deferred_experts_per_token(self, number: int | None) -> None:
        self._max_deferred = whole(number or 0, "max_deferred_experts_per_token")
        self.model.rearrange()

    @property
    def num_gpu_experts(self) -> int:
        """How many experts the mask names now."""
        return int(self._mask.sum())

    @property
    def cpu_infer(self) -> Context:
        """The Context: threads and queue."""
        return self.context

    # ---- weights ----

    def load_weights(
        self, physical_to_logical_map_cpu: Any = None, *, progress: Callable[[int, int], object] | None = None
    ) -> None:
        """Loads the layer's experts from weight_path; int64 [num_experts] on the CPU says which of the checkpoint
        each expert is, None: itself; progress as in Layer. KTError names the file, the tensor and what is wrong."""
        if not self.weight_path:
            raise KTValueError(f"layer {self.layer_idx}: weight_path is empty")
        with renamed(_NAMES):
            layer = Layer(
                self.context,
                self.model.checkpoint(self.weight_path),
                self.layer_idx,
                backend=self._backend,
                max_tokens=self.max_tokens,
                skip_mask=self._mask,
                expert_map=physical_to_logical_map_cpu,
                top_k=self.num_experts_per_tok,
                progress=progress,
                n_experts=self.num_experts,
                hidden_size=self.hidden_size,
                intermediate_size=self.moe_intermediate_size,
                **self._activation,
            )
        self._replace(layer)
        # kt run --engine sglang looks for it in SGLang's log.
        text = "kt_kernel: layer %d is loaded: %d experts by %s, %d of them on a GPU"
        logger.info(text, self.layer_idx, self.num_experts, self._backend, self.num_gpu_experts)

    def load_weights_from_tensors(
        self, gate_proj: Any, up_proj: Any, down_proj: Any, physical_to_logical_map_cpu: Any = None
    ) -> None:
        """The same from tensors on the CPU: gate and up [num_experts, moe_intermediate_size, hidden_size], down
        [num_experts, hidden_size, moe_intermediate_size], in bfloat16, float16 or float32. They are packed for the
        method and may be freed. With cpu_save, what was packed is also written into the folder weight_path, before
        the map, for load_weights of another run: a store of such layers, as `kt convert` makes of a checkpoint."""
        wide = (self.num_experts, self.moe_intermediate_size, self.hidden_size)
        _check_weights(gate_proj, "gate_proj", wide)
        _check_weights(up_proj, "up_proj", wide)
        _check_weights(down_proj, "down_proj", (wide[0], wide[2], wide[1]))
        with renamed(_NAMES):
            layer = Layer.from_tensors(
                self.context,
                gate_proj,
                up_proj,
                down_proj,
                store=self.weight_path if self.cpu_save else None,
                index=self.layer_idx,
                top_k=self.num_experts_per_tok,
                backend=self._backend,
                max_tokens=self.max_tokens,
                skip_mask=self._mask,
                expert_map=physical_to_logical_map_cpu,
                **self._activation,
            )
        self._replace(layer)
        if self.cpu_save:
            self.model.release_checkpoint()  # what was open does not have this layer

    def _replace(self, layer):
        self._gpu.clear()
        self.moe = layer  # what was there ends with the forwards that use it

    @staticmethod
    def force_release_loader() -> None:
        """Closes checkpoints that no layer reads any more."""
        _model.release_checkpoints()

    # ---- forward ----

    def loaded(self) -> Layer:
        """The layer with its weights. KTError: there are none."""
        moe = self.moe
        if moe is None:
            raise KTError(f"layer {self.layer_idx}: there are no weights; call load_weights first", "KT_E_STATE")
        return moe

    def _submit(self, moe, hidden_states, topk_ids, topk_weights) -> Ticket:
        prepared = moe._prepare(hidden_states, topk_ids, topk_weights, flat=True, names=_FORWARD)
        position, deferral = self.model.place(self.layer_idx)
        if deferral is None:
            return moe._submit(prepared)
        number, position = ctypes.c_uint64(), position - deferral.first
        with self.model.lock:
            call(
                lib.kt_deferral_submit,
                deferral.handle,
                position,
                moe._use(),
                ctypes.byref(prepared[0]),
                ctypes.byref(number),
            )
        return Ticket(moe._context, number.value, prepared[1], (prepared, deferral))

    def submit_forward(self, hidden_states: Any, topk_ids: Any, topk_weights: Any, cuda_stream: Any = None) -> None:
        """Begins a forward: hidden_states [..., hidden_size], topk_ids [tokens, k] of integers, topk_weights
        [tokens, k]. On a GPU all is in the order of cuda_stream (None: torch's current one; a number or an
        object); on the CPU arrays are read from now on until sync_forward, and cuda_stream is not looked at."""
        if _arrays.is_on_gpu(hidden_states):
            self.loaded()
            self._gpu.submit(hidden_states, topk_ids, topk_weights, cuda_stream)
        else:
            ticket = self._submit(self.loaded(), hidden_states, topk_ids, topk_weights)
            with self._lock:
                self._pending.append((hidden_states, ticket))

    def sync_forward(self, hidden_states: Any, cuda_stream: Any = None) -> Any:
        """The output [tokens, hidden_size] of the oldest forward that was submitted with these hidden_states, else
        of the oldest one, in the dtype and on the device of its hidden_states. On a GPU it is there when the stream
        is, and stays until the layer's next forward of that size; failures are raised by a later call."""
        if _arrays.is_on_gpu(hidden_states):
            self.loaded()
            return self._gpu.sync(hidden_states, cuda_stream)
        return self._take(hidden_states).wait()

    def _take(self, hidden_states) -> Ticket:
        with self._lock:
            if not self._pending:
                raise KTError(
                    f"layer {self.layer_idx}: sync_forward without a submit_forward before it", "KT_E_STATE"
                )
            given = (index for index, pair in enumerate(self._pending) if pair[0] is hidden_states)
            return self._pending.pop(next(given, 0))[1]

    def forward(self, hidden_states: Any, topk_ids: Any, topk_weights: Any, cuda_stream: Any = None) -> Any:
        """submit_forward, then sync_forward."""
        if _arrays.is_on_gpu(hidden_states):
            self.submit_forward(hidden_states, topk_ids, topk_weights, cuda_stream)
            return self.sync_forward(hidden_states, cuda_stream)
        moe = self.loaded()
        if self.model.place(self.layer_idx)[1] is not None:
            return self._submit(moe, hidden_states, topk_ids, topk_weights).wait()
        forward, output, keep = moe._prepare(hidden_states, topk_ids, topk_weights, flat=True, names=_FORWARD)
        call(lib.kt_layer_forward, moe._use(), ctypes.byref(forward))
        del keep
        return output

    def select_deferred_experts(self, expert_ids: Any, scores: Any, protected_k: int) -> tuple[Any, Any]:
        """expert_ids cut into those to compute at once and those that may be late, -1 in place of the others. An
        expert among the protected_k highest scores of any token is immediate for all tokens."""
        shape = _arrays.view(expert_ids, "expert_ids").shape
        if len(shape) != 2 or _arrays.view(scores, "scores").shape != shape:
            raise KTValueError(f"expert_ids of the shape {list(shape)} and scores must both be [tokens, k]")
        protected_k = max(0, min(whole(protected_k, "protected_k", -(1 << 31)), shape[1]))
        module = torch = _arrays.torch_of(expert_ids)
        if torch is not None:
            scores = torch.as_tensor(scores, device=expert_ids.device)
            best = module.sort(scores, dim=1, descending=True, stable=True)[1][:, :protected_k]
            chosen = module.unique(module.gather(expert_ids, 1, best))
            immediate = module.isin(expert_ids, chosen)
        else:
            module = _arrays.numpy("select_deferred_experts computes with it")
            best = module.argsort(-module.asarray(scores, dtype="float64"), axis=1, kind="stable")[:, :protected_k]
            chosen = module.unique(module.take_along_axis(module.asarray(expert_ids), best, axis=1))
            immediate = module.isin(expert_ids, chosen)
        none = module.full_like(expert_ids, -1)
        return module.where(immediate, expert_ids, none), module.where(immediate, none, expert_ids)

    # ---- experts for GPUs ----

    def submit_write_weight_scale_to_buffer(
        self,
        gpu_tp_count: int,
        expert_id: int,
        w13_weight_ptrs: list[int],
        w13_scale_ptrs: list[int],
        w2_weight_ptrs: list[int],
        w2_scale_ptrs: list[int],
    ) -> None:
        """Begins to write an expert to the buffers of gpu_tp_count ranks, a pointer for each: gate's rows, then
        up's, and down's columns of the rank; scales likewise, none where the format has none (see <kt/gpu.h>).
        Scales are float32 for FP8, bfloat16 for RAWINT4 and MXFP4, and bytes for MXFP8."""
        self._writes.submit(gpu_tp_count, expert_id, w13_weight_ptrs, w13_scale_ptrs, w2_weight_ptrs, w2_scale_ptrs)

    def sync_write_weight_scale_to_buffer(self) -> None:
        """Waits until all experts that were submitted are written."""
        self._writes.sync()

    # ---- buffers of the process ----

    @staticmethod
    def set_capture_batch_sizes(capture_bs: list[int]) -> None:
        """Batch sizes that graphs are captured for: forwards on a GPU get buffers of just these sizes."""
        if not all(whole_list(capture_bs, "capture_bs")):
            raise KTValueError(f"a batch size in {list(capture_bs)} is 0")
        _device.Sizes.sizes = [int(size) for size in capture_bs]
        _device.Sizes.version += 1

    @staticmethod
    def get_capture_batch_sizes() -> list[int]:
        """What set_capture_batch_sizes was given last."""
        return list(_device.Sizes.sizes)

    @staticmethod
    def clear_buffer_cache() -> None:
        """Gives the staging buffers of all wrappers back. Graphs that use them must be done for good."""
        _model.clear_buffers()

    @staticmethod
    def clear_sft_buffer_cache() -> None:
        """KT-Kernel's buffers for training: NotImplementedError."""
        _refuse_training("clear_sft_buffer_cache")


def _activation_of(limit, alpha):
    """Options of Layer for what is not 0."""
    if alpha and not limit:
        raise KTValueError(f"swiglu_alpha is {alpha}, but swiglu_limit 0: alpha needs a limit")
    return {"activation": "swigluoai" if alpha else "swiglu", "limit": limit, "alpha": alpha} if limit else {}


class AMXSFTMoEWrapper:
    """KT-Kernel's class for training, which is not here."""

    def __init__(self, *_arguments: Any, **_options: Any):
        _refuse_training("AMXSFTMoEWrapper")


def generate_gpu_experts_masks(activation_freq: Any, num_gpu_experts: int) -> Any:
    """bool [layers, experts]: the num_gpu_experts experts of all layers together that were used most.

    activation_freq [layers, experts] is how often each was used, of any dtype, not negative; of equal ones the
    first comes first. num_gpu_experts below 0 is 0, and above all experts all of them. The masks are of the kind
    of activation_freq: a tensor on the CPU, or a numpy array.
    """
    module = _arrays.numpy("generate_gpu_experts_masks ranks by it")
    torch = _arrays.torch_of(activation_freq)
    if torch is not None and activation_freq.is_floating_point():
        activation_freq = activation_freq.double()  # numpy has no bfloat16
    counts = module.asarray(activation_freq.detach().cpu().numpy() if torch is not None else activation_freq)
    if counts.ndim != 2 or not counts.size or counts.dtype.kind not in "biuf":
        found = f"{counts.dtype} of the shape {list(counts.shape)}"
        raise KTValueError(f"activation_freq is {found}, but must be numbers [layers, experts]")
    if not module.isfinite(counts).all() or (counts < 0).any():
        raise KTValueError("activation_freq has numbers that are negative or not finite")
    # The library wants integers: ranks among the distinct numbers have the same order.
    ranks = module.unique(counts, return_inverse=True)[1].reshape(counts.shape).astype("uint64")
    masks = module.zeros(counts.shape, dtype="uint8")
    params = _abi.sized(_abi.kt_place_params)
    params.placement = _abi.PLACE_FREQUENCY
    params.n_layers, params.n_experts = counts.shape
    params.n_on_gpu = max(0, min(whole(num_gpu_experts, "num_gpu_experts", -(1 << 31)), counts.size))
    params.counts = ranks.ctypes.data
    call(lib.kt_place, ctypes.byref(params), masks.ctypes.data)
    masks = masks.astype("bool")
    return torch.from_numpy(masks) if torch is not None else masks
