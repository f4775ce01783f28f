# SPDX-License-Identifier: Apache-2.0
"""KTMoEWrapper: the interface of KT-Kernel that SGLang and scripts use."""

from __future__ import annotations

import collections
import ctypes
import os
from typing import Any

from . import _abi, _arrays, _device, _model, _unpack
from ._lib import KTError, KTValueError, call, lib, whole
from .layer import Layer, Ticket, methods

_DEFAULT_MAX_TOKENS = 4096


def _refuse_training(what):
    raise NotImplementedError(
        f"{what}: kt_kernel of this package has no training (LoRA, backward); it computes inference only"
    )


def _check_method(method):
    if not isinstance(method, str):
        raise TypeError(f"method must be a name such as AMXINT4, not {type(method).__name__}")
    name = method.upper()
    if name.endswith(("_SFT", "_SKIPLORA")) or name == "INT8_SFT":
        _refuse_training(f'method="{method}"')
    if name == "SYCL_GPTQ_INT4":
        raise NotImplementedError(f'method="{method}" computes on Intel GPUs; on the CPU it is GPTQ_INT4')
    backend = lib.kt_method_backend(method.encode())
    if backend is None:
        raise KTValueError(f'method="{method}" is not known; methods are {", ".join(methods())}')
    return backend.decode()


def _make_mask(given, num_gpu_experts, n_experts):
    """A mask of the wrapper's own, of the caller's kind; the first num_gpu_experts where none is given."""
    torch = _arrays.torch_of(given)
    if torch is not None:
        if tuple(given.shape) != (n_experts,):
            raise KTValueError(f"gpu_experts_mask has the shape {list(given.shape)}, but must be [{n_experts}]")
        mask = torch.empty(n_experts, dtype=torch.bool, pin_memory=torch.cuda.is_available())
        return mask.copy_(given)
    module = _arrays.numpy("gpu_experts_mask is an array of its, where no tensor is given")
    mask = module.zeros(n_experts, dtype="bool")
    if given is None:
        if not 0 <= num_gpu_experts <= n_experts:
            raise KTValueError(f"num_gpu_experts is {num_gpu_experts}; 0 to num_experts {n_experts} are possible")
        mask[:num_gpu_experts] = True
    else:
        wished = module.asarray(given)
        if wished.shape != (n_experts,):
            raise KTValueError(f"gpu_experts_mask has the shape {list(wished.shape)}, but must be [{n_experts}]")
        mask[:] = wished
    return mask


class KTMoEWrapper:
    """The experts of one layer that are computed on the CPU, beside others on a GPU or without one.

    layer_idx, num_experts, num_experts_per_tok, hidden_size, moe_intermediate_size
        the layer; the checkpoint must agree
    gpu_experts_mask
        bool [num_experts]: experts that another computes, so they are skipped here; None: those that
        num_gpu_experts says, the first ones. A whole number in this place is num_gpu_experts. It is copied
        into the attribute of the same name, one buffer that may be changed in place while serving
    cpuinfer_threads, threadpool_count, numa_nodes
        threads of all NUMA nodes (0: one a core), how many nodes (those that the machine has, at most), which.
        Wrappers with the same three share their threads
    weight_path
        the checkpoint: safetensors, GGUF, what KT-Kernel's converter wrote, or a store of ``kt convert``
    chunked_prefill_size
        tokens of a batch that buffers are made for; more are computed in pieces, but with deferred experts refused
    max_deferred_experts_per_token
        experts of a token that may be added to the next layer's output instead (see <kt/gpu.h>)
    method
        AMXINT4 ... MOE_INT4, or a backend's name. What it cannot have is an error, never another backend
    swiglu_limit, swiglu_alpha
        not 0: the activation, instead of what the checkpoint says

    Arguments of training raise NotImplementedError. submit_forward and sync_forward are called in turns, by one
    thread at a time; forward of tensors on the CPU by any.
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
        if mode != "inference":
            _refuse_training(f'mode="{mode}"')
        if cpu_save:
            raise NotImplementedError("cpu_save: packed weights are written by `kt convert`, see kt-convert(1)")
        if isinstance(gpu_experts_mask, int) and not isinstance(gpu_experts_mask, bool):
            num_gpu_experts, gpu_experts_mask = gpu_experts_mask, None
        self._backend = _check_method(method)
        self.method = method
        self.layer_idx = whole(layer_idx, "layer_idx")
        self.num_experts = whole(num_experts, "num_experts", 1)
        self.num_experts_per_tok = whole(num_experts_per_tok, "num_experts_per_tok", 1)
        self.hidden_size = whole(hidden_size, "hidden_size", 1)
        self.moe_intermediate_size = whole(moe_intermediate_size, "moe_intermediate_size", 1)
        self.weight_path = os.fspath(weight_path)
        # SGLang has -1 where prompts are not cut.
        bounded = bool(chunked_prefill_size) and chunked_prefill_size > 0
        self.max_tokens = whole(chunked_prefill_size, "chunked_prefill_size") if bounded else _DEFAULT_MAX_TOKENS
        self.max_deferred_experts_per_token = whole(
            max_deferred_experts_per_token or 0, "max_deferred_experts_per_token"
        )
        if swiglu_limit < 0 or swiglu_alpha < 0 or (swiglu_alpha and not swiglu_limit):
            raise KTValueError(
                f"swiglu_limit {swiglu_limit}, swiglu_alpha {swiglu_alpha}: neither may be negative, and alpha "
                "needs a limit"
            )
        self._swiglu = (swiglu_limit, swiglu_alpha)
        self._mask = _make_mask(gpu_experts_mask, num_gpu_experts, self.num_experts)
        nodes = None if numa_nodes is None else tuple(int(node) for node in numa_nodes)
        if nodes is not None and threadpool_count and len(nodes) != threadpool_count:
            raise KTValueError(
                f"numa_nodes {list(nodes)} are {len(nodes)}, but threadpool_count is {threadpool_count}"
            )
        self.context = _model.context_for(int(cpuinfer_threads or 0), int(threadpool_count or 0), nodes)
        self.moe: Layer | None = None
        self._pending: collections.deque[Ticket] = collections.deque()
        self._gpu = _device.Forwards(self)
        self._writes = _unpack.Writes(self)
        key = (os.path.abspath(self.weight_path), self.hidden_size, self.num_experts, self.num_experts_per_tok)
        self.model = _model.join(self, key, self.context)

    # ---- attributes that engines use ----

    @property
    def gpu_experts_mask(self) -> Any:
        """bool [num_experts], of the caller's kind; change it in place. To assign is to copy into it."""
        return self._mask

    @gpu_experts_mask.setter
    def gpu_experts_mask(self, mask: Any) -> None:
        wanted = [self.num_experts]
        if list(mask.shape) != wanted:
            raise KTValueError(f"gpu_experts_mask has the shape {list(mask.shape)}, but must be {wanted}")
        torch = _arrays.torch_of(self._mask)
        if torch is not None:
            self._mask.copy_(torch.as_tensor(mask))
        else:
            self._mask[:] = mask

    @property
    def num_gpu_experts(self) -> int:
        """How many experts the mask names now."""
        return int(self._mask.sum())

    @property
    def cpu_infer(self):
        """The Context: threads and queue."""
        return self.context

    # ---- weights ----

    def load_weights(self, physical_to_logical_map_cpu: Any = None) -> None:
        """Loads the layer's experts from weight_path; int64 [num_experts] on the CPU says which of the checkpoint
        each expert is, None: itself. KTError names the file, the tensor and what is wrong."""
        if not self.weight_path:
            raise KTValueError(f"layer {self.layer_idx}: weight_path is empty")
        checkpoint = self.model.checkpoint(self.weight_path)
        shape = {"n_experts": self.num_experts, "hidden_size": self.hidden_size}
        shape["intermediate_size"] = self.moe_intermediate_size
        limit, alpha = self._swiglu
        if limit:
            activation = "swigluoai" if alpha else "swiglu"
            shape.update(activation=_abi.ACTIVATION[activation], limit=limit, alpha=alpha)
        self._replace(
            Layer(
                self.context,
                checkpoint,
                self.layer_idx,
                backend=self._backend,
                max_tokens=self.max_tokens,
                skip_mask=self._mask,
                expert_map=physical_to_logical_map_cpu,
                top_k=self.num_experts_per_tok,
                **shape,
            )
        )

    def load_weights_from_tensors(
        self, gate_proj: Any, up_proj: Any, down_proj: Any, physical_to_logical_map_cpu: Any = None
    ) -> None:
        """The same from tensors on the CPU: gate and up [num_experts, moe_intermediate_size, hidden_size], down
        [num_experts, hidden_size, moe_intermediate_size], in bfloat16, float16 or float32. They are packed for the
        method and may be freed; nothing is written to weight_path (`kt convert` does that)."""
        expected = (self.num_experts, self.moe_intermediate_size, self.hidden_size)
        if tuple(gate_proj.shape) != expected:
            raise KTValueError(f"gate_proj has the shape {list(gate_proj.shape)}, but must be {list(expected)}")
        limit, alpha = self._swiglu
        self._replace(
            Layer.from_tensors(
                self.context,
                gate_proj,
                up_proj,
                down_proj,
                top_k=self.num_experts_per_tok,
                backend=self._backend,
                max_tokens=self.max_tokens,
                skip_mask=self._mask,
                expert_map=physical_to_logical_map_cpu,
                activation="swigluoai" if alpha else "swiglu" if limit else "silu",
                limit=limit,
                alpha=alpha,
                name=f"layer {self.layer_idx}",
            )
        )

    def _replace(self, layer):
        self._gpu.clear()
        self.moe, old = layer, self.moe
        if old is not None:
            old.close()

    @staticmethod
    def force_release_loader() -> None:
        """Closes checkpoints that no layer reads any more."""
        _model.release_checkpoints()

    # ---- forward ----

    def layer_handle(self):
        if self.moe is None:
            raise KTError(f"layer {self.layer_idx}: there are no weights; call load_weights first", "KT_E_STATE")
        return self.moe._use()

    def _submit(self, hidden_states, topk_ids, topk_weights) -> Ticket:
        self.layer_handle()
        prepared = self.moe._prepare(hidden_states, topk_ids, topk_weights, flat=True)
        position, deferral = self.model.place(self.layer_idx)
        if deferral is None:
            return self.moe._submit(prepared)
        number = ctypes.c_uint64()
        call(
            lib.kt_deferral_submit,
            deferral.handle,
            position - deferral.first,
            self.moe.handle,
            ctypes.byref(prepared[0]),
            ctypes.byref(number),
        )
        return Ticket(self.moe, number.value, prepared[1], (prepared, deferral))

    def submit_forward(self, hidden_states: Any, topk_ids: Any, topk_weights: Any, cuda_stream: Any = None) -> None:
        """Begins a forward: hidden_states [..., hidden_size], topk_ids [tokens, k] of integers, topk_weights
        [tokens, k]. On a GPU all is in the order of cuda_stream (None: torch's current one; a number or an
        object); on the CPU arrays are read from now on until sync_forward, and cuda_stream is not looked at."""
        if _arrays.is_on_gpu(hidden_states):
            self.layer_handle()
            self._gpu.submit(hidden_states, topk_ids, topk_weights, cuda_stream)
        else:
            self._pending.append(self._submit(hidden_states, topk_ids, topk_weights))

    def sync_forward(self, hidden_states: Any, cuda_stream: Any = None) -> Any:
        """The output [tokens, hidden_size] of the oldest forward that was submitted, in the dtype and on the
        device of its hidden_states. On a GPU it is there when the stream is, and stays until the layer's next
        forward of that size; failures are raised by a later call."""
        if _arrays.is_on_gpu(hidden_states):
            self.layer_handle()
            return self._gpu.sync(hidden_states, cuda_stream)
        if not self._pending:
            raise KTError(f"layer {self.layer_idx}: sync_forward without a submit_forward before it", "KT_E_STATE")
        return self._pending.popleft().wait()

    def forward(self, hidden_states: Any, topk_ids: Any, topk_weights: Any, cuda_stream: Any = None) -> Any:
        """submit_forward, then sync_forward."""
        if _arrays.is_on_gpu(hidden_states):
            self.submit_forward(hidden_states, topk_ids, topk_weights, cuda_stream)
            return self.sync_forward(hidden_states, cuda_stream)
        self.layer_handle()
        if self.model.place(self.layer_idx)[1] is not None:
            return self._submit(hidden_states, topk_ids, topk_weights).wait()
        forward, output, keep = self.moe._prepare(hidden_states, topk_ids, topk_weights, flat=True)
        call(lib.kt_layer_forward, self.moe.handle, ctypes.byref(forward))
        del keep
        return output

    def select_deferred_experts(self, expert_ids: Any, scores: Any, protected_k: int) -> tuple[Any, Any]:
        """expert_ids cut into those to compute at once and those that may be late, -1 in place of the others. An
        expert among the protected_k highest scores of any token is immediate for all tokens."""
        module = _arrays.torch_of(expert_ids) or _arrays.numpy("select_deferred_experts computes with it")
        protected_k = max(0, min(int(protected_k), expert_ids.shape[1]))
        if module.__name__ == "torch":
            best = module.sort(scores, dim=1, descending=True, stable=True)[1][:, :protected_k]
            chosen = module.unique(module.gather(expert_ids, 1, best))
            immediate = module.isin(expert_ids, chosen)
        else:
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
        sizes = [whole(size, "a batch size", 1) for size in capture_bs]
        _device.Sizes.sizes = sizes
        _device.Sizes.version += 1

    @staticmethod
    def get_capture_batch_sizes() -> list[int]:
        return list(_device.Sizes.sizes)

    @staticmethod
    def clear_buffer_cache() -> None:
        """Gives the staging buffers of all wrappers back. Graphs that use them must be done for good."""
        _model.clear_buffers()

    @staticmethod
    def clear_sft_buffer_cache() -> None:
        _refuse_training("clear_sft_buffer_cache")


class AMXSFTMoEWrapper:
    """KT-Kernel's class for training, which is not here."""

    def __init__(self, *_arguments: Any, **_options: Any):
        _refuse_training("AMXSFTMoEWrapper")


def generate_gpu_experts_masks(activation_freq: Any, num_gpu_experts: int) -> Any:
    """bool [layers, experts]: the num_gpu_experts experts of all layers together that were used most.

    activation_freq [layers, experts] is how often each was used, of any dtype, not negative; of equal ones the
    first comes first. The masks are of its kind: a tensor on the CPU, or a numpy array.
    """
    module = _arrays.numpy("generate_gpu_experts_masks ranks by it")
    torch = _arrays.torch_of(activation_freq)
    counts = module.asarray(activation_freq.detach().cpu().numpy() if torch is not None else activation_freq)
    if counts.ndim != 2 or not counts.size:
        raise KTValueError(f"activation_freq has the shape {list(counts.shape)}, but must be [layers, experts]")
    if not module.isfinite(counts).all() or (counts < 0).any():
        raise KTValueError("activation_freq has numbers that are negative or not finite")
    if num_gpu_experts < 0:
        raise KTValueError(f"num_gpu_experts is {num_gpu_experts}, but must not be negative")
    # The library wants whole numbers: the place of each among the different ones has the same order.
    ranks = module.unique(counts, return_inverse=True)[1].reshape(counts.shape).astype("uint64")
    masks = module.zeros(counts.shape, dtype="uint8")
    params = _abi.sized(_abi.kt_place_params)
    params.placement = _abi.PLACE_FREQUENCY
    params.n_layers, params.n_experts = counts.shape
    params.n_on_gpu = min(int(num_gpu_experts), counts.size)
    params.counts = ranks.ctypes.data
    call(lib.kt_place, ctypes.byref(params), masks.ctypes.data)
    masks = masks.astype("bool")
    return torch.from_numpy(masks) if torch is not None else masks
