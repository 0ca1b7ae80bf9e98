"""Cases whose memory is recorded on a real GPU and asked of a virtual one: inference, generation, training.

Each case runs in a process of its own on `cuda:0`, real or virtual, and names its moments: what is allocated
and reserved at most during each, and held after it. Models are built from their published configurations,
with as many layers as fit one GPU beside another case; weights are drawn, so that no peak may depend on a
value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from evidence.memory.memory_sweep import MODELS
from samedevice.planner import Full, Lora, Optimizer, Precision, Training, Tuning, step_here

GPU = torch.device("cuda", 0)
HALF = torch.bfloat16
PRECISIONS: tuple[Precision, ...] = ("bf16", "bf16-mixed")
OPTIMIZERS: tuple[Optimizer, ...] = ("adamw-foreach", "sgd", "sgd-momentum", "adafactor")


class Moment(Protocol):
    """Opens a moment of a case."""

    def __call__(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Measure what happens inside under that name."""
        ...


Body = Callable[[Moment], None]


@dataclass(slots=True)
class Amounts:
    """Bytes of one moment."""

    allocated: int
    """At most, during it."""
    reserved: int
    held: int
    """Allocated after it."""
    kept: int
    """Reserved after it."""


class Measure:
    """The moments of one run."""

    def __init__(self) -> None:
        self.moments: dict[str, Amounts] = {}

    @contextlib.contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure one moment."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        yield
        torch.cuda.synchronize()
        self.moments[name] = Amounts(
            torch.cuda.max_memory_allocated(),
            torch.cuda.max_memory_reserved(),
            torch.cuda.memory_allocated(),
            torch.cuda.memory_reserved(),
        )


def config_of(name: str, layers: int | None = None, **changes: Any) -> dict[str, Any]:
    """A published configuration, with fewer layers."""
    values = {**MODELS[name], **changes}
    if layers is not None:
        values["n_layer" if "n_layer" in values else "num_hidden_layers"] = layers
    return values


def language_model(config: dict[str, Any], dtype: torch.dtype = HALF, attention: str | None = "sdpa") -> Any:
    """The model, drawn on the GPU in its type."""
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {**config, "attn_implementation": attention} if attention else config
    parsed = AutoConfig.for_model(**values)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(GPU):
            return AutoModelForCausalLM.from_config(parsed, dtype=dtype).eval()
    finally:
        torch.set_default_dtype(before)


def tokens(batch: int, length: int) -> torch.Tensor:
    """Ids that every vocabulary has."""
    return torch.arange(1, length + 1, device=GPU).remainder(1000).expand(batch, length).contiguous()


def prefill(
    config: dict[str, Any],
    batch: int,
    context: int,
    dtype: torch.dtype = HALF,
    attention: str = "sdpa",
    kernel: SDPBackend | None = None,
) -> Body:
    """One pass over a prompt, with its cache and all logits."""

    def body(moment: Moment) -> None:
        with moment("load"):
            model = language_model(config, dtype, attention)
        ids = tokens(batch, context)
        with torch.no_grad(), _attending(kernel), moment("prefill"):
            answer = model(ids, use_cache=True)
        with torch.no_grad(), _attending(kernel), moment("again"):
            del answer
            model(ids, use_cache=True, logits_to_keep=1)

    return body


def _attending(kernel: SDPBackend | None) -> contextlib.AbstractContextManager[None]:
    return sdpa_kernel(kernel) if kernel is not None else contextlib.nullcontext()


def generate(
    config: dict[str, Any],
    batch: int,
    prompt: int,
    new: int,
    dtype: torch.dtype = HALF,
    attention: str = "sdpa",
    **options: Any,
) -> Body:
    """`generate` as people call it; no end token, so that all new tokens come."""

    def body(moment: Moment) -> None:
        with moment("load"):
            model = language_model(config, dtype, attention)
        ids = tokens(batch, prompt)
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0
        settings = {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, **options}
        with moment("generate"):
            model.generate(ids, attention_mask=torch.ones_like(ids), **settings)

    return body


def training(config: dict[str, Any], chosen: Training) -> Body:
    """Two steps of the planner's own training."""

    def body(moment: Moment) -> None:
        import samedevice.planner._measure as measure

        @contextlib.contextmanager
        def peak(peaks: dict[str, int], name: str) -> Iterator[None]:
            with moment(name):
                yield
            peaks[name] = max(peaks[name], torch.cuda.max_memory_allocated())

        kept, measure._peak = measure._peak, peak
        try:
            step_here(config, chosen)
        finally:
            measure._peak = kept

    return body


def train(
    make: Callable[[], tuple[Any, dict[str, torch.Tensor]]],
    optimizer: Callable[[Any], torch.optim.Optimizer] = torch.optim.AdamW,
    half: torch.dtype | None = None,
    steps: int = 2,
) -> Body:
    """Steps of a training loop as tutorials have it: AdamW on a model that gives a loss."""

    def body(moment: Moment) -> None:
        with moment("load"):
            model, batch = make()
            model.train()
        stepper = optimizer(model.parameters())
        cast = torch.autocast("cuda", half) if half is not None else contextlib.nullcontext()
        for number in range(steps):
            with moment(f"forward {number}"), cast:
                loss = model(**batch).loss
            with moment(f"backward {number}"):
                loss.backward()
            del loss
            with moment(f"step {number}"):
                stepper.step()
                stepper.zero_grad()

    return body


def infer(make: Callable[[], tuple[Any, dict[str, torch.Tensor]]], half: torch.dtype | None = None) -> Body:
    """Two passes of a model that is no language model."""

    def body(moment: Moment) -> None:
        with moment("load"):
            model, batch = make()
            model.eval()
        cast = torch.autocast("cuda", half) if half is not None else contextlib.nullcontext()
        for name in ("forward", "again"):
            with torch.no_grad(), moment(name), cast:
                model(**batch)

    return body


def _of(kind: str, head: str, batch: Callable[[], dict[str, torch.Tensor]], **values: Any) -> Any:
    """A maker of a transformers model with its inputs; `dtype` is its type."""
    dtype = values.pop("dtype", torch.float32)

    def make() -> tuple[Any, dict[str, torch.Tensor]]:
        import transformers

        config = transformers.AutoConfig.for_model(kind, **values)
        with torch.device(GPU):
            model = getattr(transformers, head)(config).to(dtype)
        made = {
            name: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for name, tensor in batch().items()
        }
        return model, made

    return make


def _picture(batch: int, size: int, labels: bool = False) -> Callable[[], dict[str, torch.Tensor]]:
    def made() -> dict[str, torch.Tensor]:
        found = {"pixel_values": torch.randn(batch, 3, size, size, device=GPU)}
        if labels:
            found["labels"] = torch.zeros(batch, dtype=torch.long, device=GPU)
        return found

    return made


def _text(batch: int, length: int, labels: str = "") -> Callable[[], dict[str, torch.Tensor]]:
    def made() -> dict[str, torch.Tensor]:
        ids = tokens(batch, length)
        found = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if labels == "sequence":
            found["labels"] = torch.zeros(batch, dtype=torch.long, device=GPU)
        elif labels:
            found["labels"] = ids.clone()
        return found

    return made


def _speech(batch: int, labels: bool = False) -> Callable[[], dict[str, torch.Tensor]]:
    def made() -> dict[str, torch.Tensor]:
        features = torch.randn(batch, 80, 3000, device=GPU)
        return {"input_features": features, "labels" if labels else "decoder_input_ids": tokens(batch, 64)}

    return made


def _recurrent() -> tuple[Any, dict[str, torch.Tensor]]:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(20000, 512, device=GPU)
            self.lstm = torch.nn.LSTM(512, 1024, num_layers=2, batch_first=True, device=GPU)
            self.head = torch.nn.Linear(1024, 20000, device=GPU)

        def forward(self, input_ids: torch.Tensor) -> Any:
            from types import SimpleNamespace

            logits = self.head(self.lstm(self.embedding(input_ids))[0])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), input_ids.flatten())
            return SimpleNamespace(logits=logits, loss=loss)

    return Model(), {"input_ids": tokens(16, 256)}


_QWEN = config_of("Qwen2.5-0.5B")
_LLAMA = config_of("Llama-3.1-8B", 8)
_GEMMA2 = config_of("Gemma-2-2B", 8)
_KERNELS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "memory-efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def _inference() -> Iterator[tuple[str, Body]]:
    for name, dtype in (("bf16", HALF), ("fp16", torch.float16), ("fp32", torch.float32)):
        yield f"prefill Qwen2.5-0.5B {name}, 4x2048", prefill(_QWEN, 4, 2048, dtype)
        yield f"prefill Llama-3.1-8B 8 layers {name}, 1x8192", prefill(_LLAMA, 1, 8192, dtype)
    yield "prefill Qwen2.5-0.5B bf16 eager, 2x2048", prefill(_QWEN, 2, 2048, attention="eager")
    for name, kernel in _KERNELS.items():
        yield f"prefill Llama-3.1-8B 8 layers bf16 {name}, 2x2048", prefill(_LLAMA, 2, 2048, kernel=kernel)
    yield (
        "prefill Llama-3.1-8B 8 layers fp32 memory-efficient, 2x2048",
        prefill(_LLAMA, 2, 2048, torch.float32, kernel=SDPBackend.EFFICIENT_ATTENTION),
    )
    yield "prefill Gemma-2-2B 8 layers bf16 eager, 1x4096", prefill(_GEMMA2, 1, 4096, attention="eager")
    yield "prefill Gemma-2B 8 layers bf16, 1x8192", prefill(config_of("Gemma-2B", 8), 1, 8192)
    yield "prefill Phi-3-mini 8 layers bf16, 2x2048", prefill(config_of("Phi-3-mini", 8), 2, 2048)
    yield (
        "prefill GPT-2-XL 12 layers fp32, 4x1024",
        prefill(config_of("GPT-2-XL", 12), 4, 1024, torch.float32),
    )
    yield "prefill OPT-6.7B 6 layers fp16, 2x2048", prefill(config_of("OPT-6.7B", 6), 2, 2048, torch.float16)
    for name, dtype in (("bf16", HALF), ("fp32", torch.float32)):
        yield f"generate Qwen2.5-0.5B {name}, 8x512+64", generate(_QWEN, 8, 512, 64, dtype)
    yield "generate Qwen2.5-7B bf16, 1x1024+64", generate(config_of("Qwen2.5-7B"), 1, 1024, 64)
    yield "generate Llama-3.1-8B 8 layers bf16, 16x1024+32", generate(_LLAMA, 16, 1024, 32)
    yield (
        "generate Qwen2.5-0.5B bf16 static cache, 8x512+64",
        generate(_QWEN, 8, 512, 64, cache_implementation="static", disable_compile=True),
    )
    yield "generate Qwen2.5-0.5B bf16 four beams, 4x512+32", generate(_QWEN, 4, 512, 32, num_beams=4)
    yield (
        "generate Qwen2.5-0.5B bf16 sampled, 8x512+32",
        generate(_QWEN, 8, 512, 32, do_sample=True, top_k=50, top_p=0.9, temperature=0.7),
    )
    yield (
        "generate Gemma-2-2B 8 layers bf16 eager, 4x1024+32",
        generate(_GEMMA2, 4, 1024, 32, attention="eager"),
    )
    yield "infer BERT-large fp32, 32x512", infer(_of("bert", "BertModel", _text(32, 512), hidden_size=1024,
        num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096))  # fmt: skip
    yield "infer ViT-B/16 fp32, 64 pictures", infer(_of("vit", "ViTModel", _picture(64, 224)))
    yield (
        "infer ViT-B/16 fp16, 64 pictures",
        infer(_of("vit", "ViTModel", _picture(64, 224), dtype=torch.float16)),
    )
    yield "infer ResNet-50 fp32, 64 pictures", infer(_of("resnet", "ResNetModel", _picture(64, 224)))
    yield "infer ConvNeXt fp32, 32 pictures", infer(_of("convnext", "ConvNextModel", _picture(32, 224)))
    yield "infer Whisper small fp16, 8", infer(_of("whisper", "WhisperModel", _speech(8), dtype=torch.float16,
        d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12,
        decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072))  # fmt: skip


def _planned() -> Iterator[tuple[str, dict[str, Any], Training]]:
    models = {
        "Qwen2.5-0.5B": _QWEN,
        "Llama-2-7B 8 layers": config_of("Llama-2-7B", 8),
        "Gemma-2B 4 layers": config_of("Gemma-2B", 4),
    }
    tunings: dict[str, Tuning] = {"AdamW": Full(), "LoRA": Lora()}
    for name, config in models.items():
        for precision in PRECISIONS:
            for how, tuning in tunings.items():
                for checkpointing in (False, True):
                    label = f"{name} {precision} {how}{' checkpointing' if checkpointing else ''}"
                    yield (
                        label,
                        config,
                        Training(
                            precision=precision,
                            context=1024,
                            micro_batch=2,
                            checkpointing=checkpointing,
                            tuning=tuning,
                        ),
                    )
    for optimizer in OPTIMIZERS:
        yield (
            f"Qwen2.5-0.5B bf16 {optimizer}",
            _QWEN,
            Training(precision="bf16", context=1024, micro_batch=2, optimizer=optimizer),
        )
    yield "Qwen2.5-0.5B fp32 AdamW", _QWEN, Training(precision="fp32", context=1024, micro_batch=2)
    yield (
        "Qwen2.5-0.5B fp16-mixed AdamW",
        _QWEN,
        Training(precision="fp16-mixed", context=1024, micro_batch=2),
    )
    yield (
        "GPT-2-XL 8 layers bf16-mixed AdamW",
        config_of("GPT-2-XL", 8),
        Training(precision="bf16-mixed", context=1024, micro_batch=2),
    )


def _trainings() -> Iterator[tuple[str, Body]]:
    yield (
        "train BERT-base fp32 AdamW, 16x256",
        train(_of("bert", "BertForSequenceClassification", _text(16, 256, "sequence"))),
    )
    yield (
        "train BERT-base bf16 autocast AdamW, 16x256",
        train(_of("bert", "BertForSequenceClassification", _text(16, 256, "sequence")), half=HALF),
    )
    yield (
        "train ResNet-50 fp32 SGD, 64 pictures",
        train(
            _of("resnet", "ResNetForImageClassification", _picture(64, 224, labels=True), num_labels=1000),
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        ),
    )
    yield "train ResNet-50 bf16 autocast SGD, 64 pictures", train(
        _of("resnet", "ResNetForImageClassification", _picture(64, 224, labels=True), num_labels=1000),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), half=HALF,
    )  # fmt: skip
    yield (
        "train ViT-B/16 bf16 autocast AdamW, 64 pictures",
        train(
            _of("vit", "ViTForImageClassification", _picture(64, 224, labels=True), num_labels=1000),
            half=HALF,
        ),
    )
    yield "train T5-base fp32 AdamW, 8x256", train(
        _of("t5", "T5ForConditionalGeneration", _text(8, 256, "all"), d_model=768, d_ff=3072, num_layers=12,
            num_heads=12, decoder_start_token_id=0)
    )  # fmt: skip
    yield "train Whisper small fp16 autocast AdamW, 8", train(
        _of("whisper", "WhisperForConditionalGeneration", _speech(8, labels=True), d_model=768,
            encoder_layers=12, decoder_layers=12, encoder_attention_heads=12, decoder_attention_heads=12,
            encoder_ffn_dim=3072, decoder_ffn_dim=3072),
        half=torch.float16,
    )  # fmt: skip
    yield "train LSTM fp32 AdamW, 16x256", train(_recurrent)


def _second_planned() -> Iterator[tuple[str, dict[str, Any], Training]]:
    mistral = config_of("Mistral-7B-v0.3", 4)
    for precision in PRECISIONS:
        for checkpointing in (False, True):
            more = " checkpointing" if checkpointing else ""
            yield f"Qwen3-8B 4 layers {precision} AdamW{more}, 1x3072", config_of("Qwen3-8B", 4), Training(
                precision=precision, context=3072, micro_batch=1, checkpointing=checkpointing
            )  # fmt: skip
            yield f"Mistral-7B 4 layers {precision} LoRA{more}, 3x1536", mistral, Training(
                precision=precision, context=1536, micro_batch=3, checkpointing=checkpointing, tuning=Lora()
            )  # fmt: skip
    yield "Pythia-2.8B 6 layers bf16-mixed AdamW, 4x512", config_of("Pythia-2.8B", 6), Training(
        precision="bf16-mixed", context=512, micro_batch=4
    )  # fmt: skip
    yield "StarCoder2-3B 6 layers bf16 AdamW, 2x2048", config_of("StarCoder2-3B", 6), Training(
        precision="bf16", context=2048, micro_batch=2
    )  # fmt: skip
    yield "OLMo-2-7B 4 layers fp32 AdamW, 1x1024", config_of("OLMo-2-7B", 4), Training(
        precision="fp32", context=1024, micro_batch=1
    )  # fmt: skip
    yield "Phi-2 6 layers fp16-mixed AdamW, 2x1024", config_of("Phi-2", 6), Training(
        precision="fp16-mixed", context=1024, micro_batch=2
    )  # fmt: skip
    yield "Mistral-7B 4 layers bf16 AdamW, 2 accumulated, 1x2048", mistral, Training(
        precision="bf16", context=2048, micro_batch=1, accumulation=2
    )  # fmt: skip
    yield "Mistral-7B 4 layers bf16 sgd-momentum, 1x2048", mistral, Training(
        precision="bf16", context=2048, micro_batch=1, optimizer="sgd-momentum"
    )  # fmt: skip
    yield "Qwen2.5-7B 4 layers bf16 LoRA, 4x768", config_of("Qwen2.5-7B", 4), Training(
        precision="bf16", context=768, micro_batch=4, tuning=Lora(rank=64)
    )  # fmt: skip


def _second_inference() -> Iterator[tuple[str, Body]]:
    yield "prefill Qwen3-8B 8 layers bf16, 2x3072", prefill(config_of("Qwen3-8B", 8), 2, 3072)
    yield (
        "prefill Mistral-7B 8 layers fp16, 1x6000",
        prefill(config_of("Mistral-7B-v0.3", 8), 1, 6000, torch.float16),
    )
    yield (
        "prefill Pythia-2.8B 12 layers fp32, 3x1500",
        prefill(config_of("Pythia-2.8B", 12), 3, 1500, torch.float32),
    )
    yield "prefill StarCoder2-3B 12 layers bf16, 8x700", prefill(config_of("StarCoder2-3B", 12), 8, 700)
    yield "prefill OLMo-2-7B 6 layers bf16, 1x4000", prefill(config_of("OLMo-2-7B", 6), 1, 4000)
    yield (
        "prefill Phi-2 12 layers fp16 eager, 2x1000",
        prefill(config_of("Phi-2", 12), 2, 1000, torch.float16, "eager"),
    )
    for name, kernel in _KERNELS.items():
        yield (
            f"prefill Llama-2-7B 6 layers bf16 {name}, 3x1700",
            prefill(config_of("Llama-2-7B", 6), 3, 1700, kernel=kernel),
        )
    yield (
        "prefill Llama-2-7B 6 layers fp32 memory-efficient, 2x1100",
        prefill(config_of("Llama-2-7B", 6), 2, 1100, torch.float32, kernel=SDPBackend.EFFICIENT_ATTENTION),
    )
    yield "generate Qwen3-8B 12 layers bf16, 5x700+40", generate(config_of("Qwen3-8B", 12), 5, 700, 40)
    yield (
        "generate Mistral-7B 12 layers fp16, 1x3000+20",
        generate(config_of("Mistral-7B-v0.3", 12), 1, 3000, 20, torch.float16),
    )
    yield (
        "generate Pythia-2.8B 12 layers fp32, 6x300+30",
        generate(config_of("Pythia-2.8B", 12), 6, 300, 30, torch.float32),
    )
    yield "generate Phi-2 bf16 three beams, 3x400+24", generate(config_of("Phi-2"), 3, 400, 24, num_beams=3)
    yield (
        "generate StarCoder2-3B 12 layers bf16 static cache, 3x900+30",
        generate(
            config_of("StarCoder2-3B", 12), 3, 900, 30, cache_implementation="static", disable_compile=True
        ),
    )
    yield "infer RoBERTa-base fp16, 48x300", infer(_of("roberta", "RobertaModel", _text(48, 300),
        dtype=torch.float16, max_position_embeddings=514))  # fmt: skip
    yield (
        "infer DistilBERT bf16 autocast, 40x384",
        infer(_of("distilbert", "DistilBertModel", _text(40, 384)), half=HALF),
    )
    yield "infer CLIP vision L/14 fp32, 24 pictures", infer(_of("clip_vision_model", "CLIPVisionModel",
        _picture(24, 224), hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
        num_attention_heads=16, patch_size=14))  # fmt: skip
    yield (
        "infer DINOv2-base bf16, 40 pictures",
        infer(_of("dinov2", "Dinov2Model", _picture(40, 224), dtype=HALF)),
    )
    yield "infer Swin-tiny fp32, 32 pictures", infer(_of("swin", "SwinModel", _picture(32, 224)))
    yield (
        "infer RegNet fp16, 40 pictures",
        infer(_of("regnet", "RegNetModel", _picture(40, 224), dtype=torch.float16)),
    )
    yield "infer Segformer fp32, 8 pictures", infer(_of("segformer", "SegformerModel", _picture(8, 512)))
    yield "infer T5-large fp32, 6x400", infer(_of("t5", "T5EncoderModel", _text(6, 400), d_model=1024,
        d_ff=4096, num_layers=24, num_heads=16))  # fmt: skip


def _second_trainings() -> Iterator[tuple[str, Body]]:
    yield "train RoBERTa-base bf16 autocast AdamW, 12x400", train(
        _of("roberta", "RobertaForSequenceClassification", _text(12, 400, "sequence"),
            max_position_embeddings=514),
        half=HALF,
    )  # fmt: skip
    yield (
        "train DistilBERT fp32 Adam, 24x256",
        train(
            _of("distilbert", "DistilBertForSequenceClassification", _text(24, 256, "sequence")),
            lambda parameters: torch.optim.Adam(parameters, foreach=False),
        ),
    )
    yield (
        "train Swin-tiny fp16 autocast AdamW, 24 pictures",
        train(
            _of("swin", "SwinForImageClassification", _picture(24, 224, labels=True), num_labels=100),
            half=torch.float16,
        ),
    )
    yield (
        "train ConvNeXt fp32 AdamW, 20 pictures",
        train(
            _of("convnext", "ConvNextForImageClassification", _picture(20, 224, labels=True), num_labels=100)
        ),
    )
    yield (
        "train DINOv2-base fp32 SGD, 16 pictures",
        train(
            _of("dinov2", "Dinov2ForImageClassification", _picture(16, 224, labels=True), num_labels=100),
            lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        ),
    )
    yield "train BART-base bf16 autocast AdamW, 6x500", train(
        _of("bart", "BartForConditionalGeneration", _text(6, 500, "all"), d_model=768, encoder_layers=6,
            decoder_layers=6, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072,
            decoder_ffn_dim=3072),
        half=HALF,
    )  # fmt: skip
    yield (
        "train ViT-B/16 fp32 RMSprop, 20 pictures",
        train(
            _of("vit", "ViTForImageClassification", _picture(20, 224, labels=True), num_labels=100),
            torch.optim.RMSprop,
        ),
    )


SECOND_PLANNED = {f"train {name}": (config, chosen) for name, config, chosen in _second_planned()}
SECOND: dict[str, Body] = {
    **dict(_second_inference()),
    **{name: training(config, chosen) for name, (config, chosen) in SECOND_PLANNED.items()},
    **dict(_second_trainings()),
}
"""The second half: recorded before anything was derived from the first, and asked afterwards."""
PLANNED: dict[str, tuple[dict[str, Any], Training]] = {
    f"train {name}, 2x1024": (config, chosen) for name, config, chosen in _planned()
} | SECOND_PLANNED
"""What the planner's formula speaks of, by the case's name: a configuration and the training."""
CASES: dict[str, Body] = {
    **dict(_inference()),
    **{name: training(config, chosen) for name, (config, chosen) in PLANNED.items()},
    **dict(_trainings()),
    **SECOND,
}
"""By name: what is run, on what and how large."""
