"""Training memory of one GPU, by formula.

Must guarantee: every byte belongs to a named part, and the parts that are held at the worst moment add up to
`peak`.

Sources of the formulas:
- ZeRO's stages: Rajbhandari et al., *ZeRO: Memory Optimizations Toward Training Trillion Parameter Models*
  (arXiv:1910.02054), figure 1; bucket sizes and live parameters are the defaults of DeepSpeed's
  `zero_optimization` configuration.
- FSDP2: `torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py` (a gathered buffer is copied out into the
  parameters; gradients are copied into one buffer for the reduce-scatter) and `_fsdp_param_group.py` (one
  group is gathered ahead).
- DDP: the note on `gradient_as_bucket_view` in the documentation of `DistributedDataParallel`: buckets are
  one more copy of all gradients.
- Autocast: casts of trained fp32 weights are cached until autocast is left, and kept for the backward
  (`aten/src/ATen/autocast_mode.cpp`).
- 4-bit weights: Dettmers et al., *QLoRA* (arXiv:2305.14314), section 3: blocks of 64, their constants in 8
  bits in blocks of 256.
- 8-bit Adam: Dettmers et al. (arXiv:2110.02861): a byte a state, one fp32 constant for 256 of them
  (bitsandbytes' block size).
- Adafactor: Shazeer and Stern (arXiv:1804.04235): a row and a column of sums for a matrix, as in
  `torch.optim.Adafactor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samedevice.errors import UsageError
from samedevice.planner._activations import FP32, Arithmetic, end_memory, layer_memory
from samedevice.planner._settings import ATTENTION, Full, Lora, Training
from samedevice.planner._shape import TrainingShape, Weight

if TYPE_CHECKING:
    from samedevice.machines import Machine

RESERVE = 2 << 30
"""Bytes of each GPU that a plan leaves alone: CUDA context, NCCL, cuBLAS and fragmentation. A choice, not a
measurement.
"""

ZERO_BUCKET = 500_000_000
"""Elements of DeepSpeed's `reduce_bucket_size` and `allgather_bucket_size`, by default."""
ZERO3_GROUP = 1_000_000_000
"""Elements of `sub_group_size`, by default: so many of a rank's weights are stepped at once."""
ZERO3_LIVE = 1_000_000_000
"""Elements of `stage3_max_live_parameters`, by default."""


MOMENTS = {
    "gather": "the first layer's weights have come",
    "forward": "the loss is computed",
    "loss": "it goes backward",
    "head": "the backward is in the head",
    "layer": "in the last layer",
    "reduce": "in a layer whose neighbour's gradients are on their way",
    "first": "in the first layer",
    "backward": "it ends",
    "step": "the optimizer works",
}
"""Moments of a training step, in order."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What one GPU holds at one moment of a step, in bytes."""

    name: str
    """One of `MOMENTS`."""
    weights: int
    gradients: int
    optimizer: int
    activations: int
    gathered: int
    """Weights of other ranks, for as long as a layer needs them; under autocast the 16-bit copies of weights.
    """
    buckets: int
    """What communication copies gradients into."""
    working: int
    """Short-lived results of the operators that run then."""

    @property
    def total(self) -> int:
        """All of it."""
        return (
            self.weights
            + self.gradients
            + self.optimizer
            + self.activations
            + self.gathered
            + self.buckets
            + self.working
        )


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Training memory of one GPU, and what the host holds for it; bytes."""

    training: Training
    ranks: int
    moments: tuple[Moment, ...]
    host: int
    """Host memory for this rank's offloaded state."""

    @property
    def worst(self) -> Moment:
        """The moment with the most memory."""
        return max(self.moments, key=lambda moment: moment.total)

    @property
    def peak(self) -> int:
        """Bytes at the worst moment."""
        return self.worst.total


def training_memory(shape: TrainingShape, machine: Machine, training: Training) -> MemoryEstimate:
    """What one GPU of `machine` needs for a training step after the first one.

    Raises UsageError for an architecture without a formula for its activations, and for a mode that the
    machine cannot have.
    """
    return _Estimator(shape, machine, training).estimate()


def capacity(machine: Machine, reserve: int = RESERVE) -> int:
    """Bytes that a plan may use on each GPU: the smallest one decides."""
    return min(gpu.total_memory for gpu in machine.gpus) - reserve


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Bytes of one element."""

    weight: int
    frozen: int
    gradient: int
    state: int
    """Of each of the optimizer's states."""
    master: int
    """Of a separate fp32 copy of the weights; 0 where the weights are it."""
    arithmetic: Arithmetic


_Row = tuple[str, int, int, int, int, int]
"""Moment, gradients, activations, copies of weights, buckets, working."""


class _Estimator:
    def __init__(self, shape: TrainingShape, machine: Machine, training: Training) -> None:
        if shape.dimensions is None:
            raise UsageError(
                f"the activations of {shape.name} have no formula; measure a step on the virtual machine "
                "instead"
            )
        self.shape = shape
        self.training = training
        self.sizes = shape.dimensions
        self.ranks = training.chosen_ranks or len(machine.gpus)
        self.mode = training.mode
        if self.mode == "single":
            self.ranks = 1
        elif self.ranks > len(machine.gpus):
            raise UsageError(f"{self.ranks} ranks do not fit on {machine.spec}: one process for each GPU")
        self.shards = self._shards()
        self.lora = training.tuning if isinstance(training.tuning, Lora) else None
        self.size = self._sizes()
        self.adapters = self._adapters()

    def _shards(self) -> int:
        """Over how many GPUs the weights are spread."""
        if self.mode in ("single", "ddp", "zero1", "zero2"):
            return 1
        if self.mode == "hybrid":
            group = self.training.gpus_per_group or max(1, self.ranks // 2)
            if self.ranks % group:
                raise UsageError(f"{self.ranks} ranks cannot form groups of {group}")
            return group
        return self.ranks

    def _sizes(self) -> _Bytes:
        precision = self.training.precision
        mixed, full = precision.endswith("-mixed"), precision == "fp32"
        zero = self.mode.startswith("zero")
        compute = 4 if full else 2
        if zero:
            # DeepSpeed keeps fp32 masters of 16-bit weights, whatever the configuration calls it.
            return _Bytes(
                compute, compute, compute, 4, 0 if full else 4, Arithmetic(compute, compute, autocast=False)
            )
        weight = 4 if full or mixed else 2
        sharded = self.mode in ("fsdp", "hybrid")
        stream = 4 if full or (mixed and not sharded) else 2
        frozen = weight
        if self.lora is not None and not full:
            frozen = 2
            stream = 2  # the frozen model is loaded in 16 bits, and so are its hidden states
            weight = 4 if self.lora.fp32_adapters else 2
        return _Bytes(
            weight, frozen, weight, weight, 0, Arithmetic(compute, stream, autocast=mixed and not sharded)
        )

    # -- counts

    def _adapters(self) -> list[Weight]:
        lora = self.lora
        if lora is None:
            return []
        if self.sizes.experts and lora.adapts("gate_up_proj", "down_proj"):
            raise UsageError(
                "adapters of experts have no formula (peft adds them up to whole weights); target "
                + ", ".join(ATTENTION)
            )
        made = []
        for weight in self.shape.matrices:
            if lora.adapts(weight.module):
                out, into = weight.shape
                made += [
                    Weight(f"{weight.name}.lora_A", (lora.rank, into)),
                    Weight(f"{weight.name}.lora_B", (out, lora.rank)),
                ]
        if not made:
            raise UsageError(f"no matrix of {self.shape.name} is named {', '.join(lora.targets)}")
        return made

    def _trained(self) -> tuple[Weight, ...]:
        return self.shape.weights if self.lora is None else tuple(self.adapters)

    def _frozen_bytes(self) -> int:
        """Bytes of what is not trained, before it is spread."""
        if self.lora is None:
            return 0
        if not self.lora.quantized:
            return self.shape.count * self.size.frozen
        matrices = sum(weight.count for weight in self.shape.matrices)
        # peft's `prepare_model_for_kbit_training` makes what stays unquantised fp32.
        return round(matrices * (0.5 + 1 / 64 + FP32 / (64 * 256))) + (self.shape.count - matrices) * FP32

    def _states(self, weights: tuple[Weight, ...]) -> int:
        """Bytes of the optimizer's states, before they are spread."""
        kind, size = self.training.optimizer, self.size.state
        total = 0
        for weight in weights:
            count = weight.count
            if kind in ("adamw", "adamw-foreach"):
                total += 2 * count * size
            elif kind == "sgd-momentum":
                total += count * size
            elif kind == "adafactor":
                total += (
                    count // weight.shape[-1] + count // weight.shape[-2] if len(weight.shape) > 1 else count
                ) * size
            elif kind == "adamw-8bit":
                # bitsandbytes leaves tensors below 4096 elements in fp32.
                total += 2 * count * FP32 if count < 4096 else 2 * count + 2 * FP32 * -(-count // 256)
        return total

    def _step_working(self, weights: tuple[Weight, ...]) -> int:
        """What the optimizer makes while it works.

        The foreach one takes a square root of all second moments at once.
        """
        kind, count = self.training.optimizer, sum(weight.count for weight in weights)
        largest = max(weight.count for weight in weights)
        if kind == "adamw-foreach":
            return count * self.size.state
        if kind == "adafactor":
            return 2 * largest * self.size.state
        return 0

    # -- the estimate

    def estimate(self) -> MemoryEstimate:
        training, size = self.training, self.size
        trained = self._trained()
        count = sum(weight.count for weight in trained)
        spread_states = self.ranks if self.mode.startswith("zero") else self.shards
        weights = (count * size.weight + self._frozen_bytes()) // self.shards
        spread_gradients = self.ranks if self.mode in ("zero2", "zero3") else self.shards
        gradients = count * size.gradient // spread_gradients
        if self.mode == "ddp" and training.bucket_view:
            gradients = 0  # they are views of the buckets
        optimizer = (self._states(trained) + count * size.master) // spread_states
        step_working = self._step_working(trained) // spread_states
        host = 0
        if training.offload != "none":
            host += optimizer
            optimizer, step_working = 0, 0
            if training.offload == "parameters":
                host += weights
                weights = 0
            if self.mode in ("fsdp", "hybrid", "zero2", "zero3"):
                host += gradients
                gradients = 0

        buckets = self._buckets(count)
        along = self._along_shards(gradients) if self._gathers else self._along(gradients, buckets)
        moments = [
            Moment(name, weights, held, optimizer, kept, copies, copied, working)
            for name, held, kept, copies, copied, working in along
        ]
        stays = buckets if self.mode == "ddp" else 0
        if self.mode.startswith("zero") and training.offload == "none" and size.master:
            part = -(-count // self.ranks)  # of the gradients; in fp32 for the step, at ZeRO-3 group by group
            step_working += (min(part, ZERO3_GROUP) if self.mode == "zero3" else part) * FP32
        moments.append(Moment("step", weights, gradients, optimizer, 0, 0, stays, step_working))
        return MemoryEstimate(training, self.ranks, tuple(moments), host)

    @property
    def _gathers(self) -> bool:
        """Whether FSDP2 gathers layers."""
        return self.mode in ("fsdp", "hybrid") and self.shards > 1

    def _along_shards(self, gradients: int) -> list[_Row]:
        """The same as `_along` for FSDP2, one group for each layer and one for everything outside.

        The buffer that the outside was gathered into stays until the first layer has come. The outside stays
        gathered from its forward to the end of the backward, and so does the last layer. While a layer goes
        backward, the next one is being gathered into a buffer and the reduce-scatter of the one before still
        has its input.
        """
        # Long: one row for each moment of a step, and before them what the rows hold.
        training, sizes, arithmetic, shape = self.training, self.sizes, self.size.arithmetic, self.shape
        layer = layer_memory(sizes, arithmetic, training.tuning, training.context)
        end = end_memory(sizes, arithmetic, training.tuning)
        tokens = training.micro_batch * training.context
        one, working = layer.kept * tokens, layer.working * tokens
        boundary = layer.boundary * tokens if training.checkpointing else one
        layers = sizes.layers * boundary
        kept = layers + end.kept * tokens

        share = self._layer_gradient()  # of a layer's gradients, in the compute type
        whole = sum(weight.count for weight in shape.outside)
        outside, block = (
            whole * arithmetic.compute,
            max(shape.blocks.values(), default=0) * arithmetic.compute,
        )
        head = self._head_gradient() // self.size.gradient * arithmetic.compute
        reduce = FP32 // arithmetic.compute if training.precision.endswith("-mixed") else 1
        stays = gradients if training.accumulation > 1 else 0
        inside = stays or gradients - (
            0
            if self.lora is not None or training.offload != "none"
            else whole * self.size.gradient // self.shards
        )
        outer = outside if self.lora is None else 0
        grad, sent = share, share * reduce
        shard = (
            0
            if training.offload != "none"
            else share // arithmetic.compute * self.size.gradient // self.shards
        )
        return [
            ("gather", stays, boundary, 2 * (outside + block), 0, 0),
            ("forward", stays, kept, outside + block, 0, end.forward_peak * tokens),
            ("loss", stays, kept, outside + block, 0, end.backward_peak * tokens),
            ("head", stays, kept, outside + block, 0, end.logits * tokens + head),
            (
                "layer",
                stays,
                layers - boundary + (one if training.checkpointing else 0),
                outside + 2 * block,
                sent + head,
                working,
            ),
            *(
                ("reduce", before, left + rest, outside + 2 * block, sent + head + ready, working)
                for before, left in (
                    (stays, layers - 2 * boundary),
                    (max(stays, inside - 2 * shard), boundary),
                )
                for rest, ready in ((0, grad), (layer.early * tokens, int(grad * self._mlp_share())))
            ),
            ("first", inside, one, outside + block, sent + head, working),
            ("backward", inside, 0, 0, outer + outer * reduce, 0),
        ]

    def _mlp_share(self) -> float:
        """How much of a layer's weights is the MLP's."""
        block = [
            weight
            for weight in self.shape.weights
            if weight.name.startswith(next(iter(self.shape.blocks), "-"))
        ]
        widths = {
            self.sizes.inner,
            self.sizes.expert_inner,
            2 * self.sizes.inner,
            2 * self.sizes.expert_inner,
            self.sizes.shared_inner,
        } - {0}
        return sum(weight.count for weight in block if widths & set(weight.shape)) / max(
            1, sum(weight.count for weight in block)
        )

    def _layer_gradient(self) -> int:
        """Bytes of the gradients of one layer in the compute type."""
        if self.lora is None:
            return max(self.shape.blocks.values(), default=0) * self.size.arithmetic.compute
        return sum(weight.count for weight in self.adapters) // max(self.sizes.layers, 1) * self.size.gradient

    def _casts(self) -> tuple[int, int]:
        """Bytes of autocast's copies of weights: of one layer, and of the head."""
        if not self.size.arithmetic.autocast or self.lora is not None:
            return 0, 0
        used = sum(weight.count for weight in self.shape.matrices) // max(self.sizes.layers, 1)
        head = self.shape.head or self.shape.embedding
        compute = self.size.arithmetic.compute
        return used * compute, 0 if head is None else head.count * compute

    def _buckets(self, count: int) -> int:
        size = self.size
        if self.mode == "ddp":
            return count * size.gradient
        if self.mode in ("zero1", "zero2", "zero3"):
            return min(count, ZERO_BUCKET) * size.gradient
        return 0

    def _along(self, gradients: int, buckets: int) -> list[_Row]:
        """What is held along forward and backward.

        Activations go while gradients come, both layer by layer, so the worst is at one of the ends.
        """
        training, sizes, arithmetic = self.training, self.sizes, self.size.arithmetic
        tokens = training.micro_batch * training.context
        layer = layer_memory(sizes, arithmetic, training.tuning, training.context)
        end = end_memory(sizes, arithmetic, training.tuning)
        cast_layer, cast_head = self._casts()
        gathered = min(self.shape.count, ZERO3_LIVE) * arithmetic.compute if self.mode == "zero3" else 0

        one = layer.kept * tokens
        layers = sizes.layers * (layer.boundary * tokens if training.checkpointing else one)
        again = one if training.checkpointing else 0
        kept = layers + end.kept * tokens
        casts = sizes.layers * cast_layer + cast_head
        casts_kept = cast_head if training.checkpointing else casts
        working = layer.working * tokens

        # A gradient that is already there gets the new one added: for a moment both are there.
        stays = gradients if training.accumulation > 1 else 0
        head = self._head_gradient()
        embedding = head if self.lora is None else 0
        done = 0 if stays else min(gradients, head // self._spread())
        last = cast_layer if training.checkpointing else sizes.layers * cast_layer
        above = 0 if stays else max(0, gradients - embedding // self._spread())
        # A tied matrix has two, and torch adds them into a third where the first is a view (a `linear`
        # without a cast).
        twice = embedding * ((1 if stays else 0) + ((1 if cast_head else 2) if self.shape.tied else 0))
        return [
            ("forward", stays, kept, gathered + casts, buckets, end.forward_peak * tokens),
            ("loss", stays, kept, gathered + casts_kept, buckets, end.backward_peak * tokens),
            ("head", stays, kept, gathered + casts_kept, buckets, end.logits * tokens + head + cast_head),
            ("layer", stays + done, layers, gathered + last, buckets, again + working),
            ("first", stays + above, one, gathered + cast_layer, buckets, working),
            ("backward", gradients, 0, gathered, buckets, twice),
        ]

    def _spread(self) -> int:
        return self.shards if self.mode != "zero2" else self.ranks

    def _head_gradient(self) -> int:
        """Bytes of the gradient of the output matrix, before it is spread."""
        if not isinstance(self.training.tuning, Full):
            return 0
        head = self.shape.head or self.shape.embedding
        return 0 if head is None else head.count * self.size.gradient
