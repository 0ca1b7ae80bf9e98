"""Writes small models under the names of the hub, for tests that load a model by name.

Time: a minute or two the first time.
Needs: transformers; PyPI the first time, for diffusers.

They are in a cache of the hub's layout.

    python -m evidence stand-ins        # writes what is missing and prints the folder for HF_HUB_CACHE

They have the class and the names of the model that they stand in for, mostly its number of layers, and little
else of it: a narrow width, random weights, and a tokenizer of bytes. Two of them (`_Taught`) are trained
until they write the sentences that accelerate's tests expect of the true model. With `HF_HUB_CACHE` pointing
here and `HF_HUB_OFFLINE=1`, tests that name these models run unedited and without a network. What passes this
way says that devices are handled rightly; of the true model's quality, numbers or memory it says nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.environments.overlays import OverlayError, cache_folder, environment, installed
from evidence.peers import pipeline_stand_in
from evidence.places import SOURCES

_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_VOCABULARY = 320
"""256 bytes, five special tokens, and room for the pieces of a taught sentence."""
_WIDTH = 64
_HEADS = {"num_hidden_layers": 2, "num_attention_heads": 4}
_SEED = 0
_LAYOUT = 1
"""Counted up when what is written changes otherwise than by a description."""
_STEPS = 600
"""Of training, at most."""


@dataclass(frozen=True, slots=True)
class _Taught:
    """A sentence that a stand-in has learned: what it is asked, and the pieces, one token each, that it
    answers.
    """

    prompt: str
    pieces: tuple[str, ...]
    in_four_bits: tuple[str, ...] = ()
    """What it answers instead with its linear layers in bitsandbytes' FP4, where a test expects quantization
    to show.
    """


@dataclass(frozen=True, slots=True)
class StandIn:
    """One small model: its class in transformers, what its configuration says, and what lies beside its
    weights.
    """

    model: str
    """A class of transformers; empty for a repository without weights, or for the pipeline of diffusers."""
    config: Mapping[str, Any] = field(default_factory=dict)
    pickled: bool = False
    """Whether there is a `pytorch_model.bin` besides the safetensors."""
    taught: _Taught | None = None
    tokenizer: bool = True
    images: Mapping[str, Any] = field(default_factory=dict)
    """What the configuration of its image processor says."""
    adapter_of: str = ""
    """The model for which this is a LoRA adapter."""
    tells_pairs_apart: bool = False
    """Whether its body has learned to tell the pairs of sentences of `write_data` apart, so that a few steps
    teach a new head.
    """
    pipeline: bool = False
    """Whether it is the pipeline that `pipeline_stand_in` writes."""


_GPT2 = {"n_embd": _WIDTH, "n_head": 4, "n_positions": 1024}
_LLAMA = {"hidden_size": _WIDTH, "intermediate_size": 4 * _WIDTH, "num_key_value_heads": 4, **_HEADS}
_BERT = {"hidden_size": _WIDTH, "intermediate_size": 4 * _WIDTH, **_HEADS}
_T5 = {
    "d_model": _WIDTH,
    "d_kv": 16,
    "d_ff": 4 * _WIDTH,
    "num_heads": 4,
    "decoder_start_token_id": 1,
    "is_gated_act": True,
}
_BART = {
    "d_model": _WIDTH,
    **{
        f"{part}_{what}": size
        for part in ("encoder", "decoder")
        for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    },
}


def _opt(layers: int, **more: Any) -> StandIn:
    sizes = {
        "hidden_size": _WIDTH,
        "ffn_dim": 4 * _WIDTH,
        "num_attention_heads": 4,
        "num_hidden_layers": layers,
        "word_embed_proj_dim": _WIDTH,
    }
    return StandIn("OPTForCausalLM", {**sizes, **more})


def _bloom(name: str, layers: int, width: int = _WIDTH, **more: Any) -> StandIn:
    return StandIn(name, {"hidden_size": width, "n_layer": layers, "n_head": 4}, **more)


_BLOOM_SENTENCE = _Taught(
    "Hello my name is",
    (" John", ".\n", "I", " am", " a", " friend", " of", " the", " family", ".\n"),
    in_four_bits=(" John", ".\n", "I", " am", " a", " friend", " of", " your", " father", ".\n"),
)
_GPT2_SENTENCE = _Taught(
    "Hello world! My name is", (" Ki", "yo", "shi", ",", " and", " I", "'m", " a", " student", " at")
)

STAND_INS: Mapping[str, StandIn] = {
    # accelerate's tests
    "gpt2": StandIn("GPT2LMHeadModel", {**_GPT2, "n_layer": 12}, taught=_GPT2_SENTENCE),
    "bigscience/bloom-560m": _bloom("BloomModel", 24, pickled=True),
    "marcsun13/bloom-1b7_with_lm_head": _bloom("BloomForCausalLM", 24, pickled=True, taught=_BLOOM_SENTENCE),
    "bigscience/bloom-1b7": StandIn("", {"model_type": "bloom"}, taught=_BLOOM_SENTENCE),
    "bert-base-cased": StandIn(
        "BertForPreTraining", {**_BERT, "num_hidden_layers": 12}, tells_pairs_apart=True
    ),
    "EleutherAI/gpt-neo-125m": StandIn(
        "GPTNeoForCausalLM",
        {
            "hidden_size": _WIDTH,
            "num_layers": 12,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 6]],
        },
    ),
    "bigscience/T0pp": StandIn(
        "",
        {
            "model_type": "t5",
            "d_model": 4096,
            "d_ff": 10240,
            "d_kv": 64,
            "num_heads": 64,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "vocab_size": 32128,
            "feed_forward_proj": "gated-gelu",
            "architectures": ["T5ForConditionalGeneration"],
        },
        tokenizer=False,
    ),
    "HuggingFaceTB/SmolLM-360M": StandIn("LlamaForCausalLM", _LLAMA),
    "distilbert-base-uncased": StandIn(
        "DistilBertForSequenceClassification",
        {"dim": _WIDTH, "hidden_dim": 4 * _WIDTH, "n_layers": 6, "n_heads": 4},
    ),
    "hf-internal-testing/mrpc-bert-base-cased": StandIn("BertForSequenceClassification", _BERT),
    "Qwen/Qwen3-0.6B": StandIn(
        "Qwen3ForCausalLM", {**_LLAMA, "num_hidden_layers": 28, "head_dim": 16, "tie_word_embeddings": True}
    ),
    "microsoft/phi-2": StandIn(
        "PhiForCausalLM",
        {"hidden_size": _WIDTH, "intermediate_size": 4 * _WIDTH, **_HEADS, "num_hidden_layers": 32},
    ),
    "stable-diffusion-v1-5/stable-diffusion-v1-5": StandIn("", tokenizer=False, pipeline=True),
    "hf-internal-testing/tiny-random-bert": StandIn("BertModel", _BERT),
    "hf-internal-testing/tiny-random-gpt2": StandIn("GPT2LMHeadModel", {**_GPT2, "n_layer": 2}),
    "sshleifer/tiny-gpt2": StandIn("GPT2LMHeadModel", {**_GPT2, "n_layer": 2}),
    # peft's
    "facebook/opt-125m": _opt(12, hidden_size=128, word_embed_proj_dim=128),  # FP8 takes blocks of 128
    # So large that what an adapter does to probabilities exceeds the tests' tolerances.
    "peft-internal-testing/opt-125m": _opt(12, init_std=0.2),
    "facebook/opt-350m": _opt(6, word_embed_proj_dim=_WIDTH // 2, do_layer_norm_before=False),
    "facebook/opt-6.7b": _opt(18),  # two of them on the second GPU of the tests' maps
    "peft-internal-testing/tiny-random-OPTForCausalLM": _opt(2),
    "bigscience/bloomz-560m": _bloom(
        "BloomForCausalLM", 2, width=1024
    ),  # a test gives it hidden states of the true width
    "peft-internal-testing/tiny-random-BloomForCausalLM": _bloom(
        "BloomForCausalLM", 2, width=32
    ),  # four times a LoRA's rank
    "openai-community/gpt2": StandIn("GPT2LMHeadModel", {**_GPT2, "n_layer": 12}),
    "peft-internal-testing/tiny-random-gpt2": StandIn("GPT2LMHeadModel", {**_GPT2, "n_layer": 2}),
    "google/flan-t5-base": StandIn(
        "T5ForConditionalGeneration",
        {**_T5, "num_layers": 12, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": True},
    ),
    "t5-small": StandIn(
        "T5ForConditionalGeneration",
        {**_T5, "num_layers": 6, "is_gated_act": False, "feed_forward_proj": "relu"},
    ),
    "google/flan-t5-small": StandIn(
        "T5ForConditionalGeneration", {**_T5, "num_layers": 8, "feed_forward_proj": "gated-gelu"}
    ),
    "peft-internal-testing/tiny-random-t5": StandIn("T5ForConditionalGeneration", {**_T5, "num_layers": 5}),
    "peft-internal-testing/tiny-random-T5ForConditionalGeneration": StandIn(
        "T5ForConditionalGeneration", {**_T5, "num_layers": 2}
    ),
    "openai/whisper-large": StandIn(
        "WhisperForConditionalGeneration",
        {
            **_BART,
            "num_mel_bins": 80,
            "bos_token_id": 0,
            "pad_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 0,
            "begin_suppress_tokens": None,
            "suppress_tokens": None,
        },
    ),
    "hf-internal-testing/tiny-random-LlamaForCausalLM": StandIn("LlamaForCausalLM", _LLAMA),
    "peft-internal-testing/tiny-random-LlamaForCausalLM": StandIn("LlamaForCausalLM", _LLAMA),
    # Among so many tokens none has a probability that shows what merging into 4 bits loses.
    "trl-internal-testing/tiny-random-LlamaForCausalLM": StandIn(
        "LlamaForCausalLM", {**_LLAMA, "hidden_size": 16, "intermediate_size": 64, "vocab_size": 32000}
    ),
    "trl-internal-testing/tiny-GptOssForCausalLM": StandIn(
        "GptOssForCausalLM", {**_LLAMA, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "hf-internal-testing/tiny-random-MistralForCausalLM": StandIn("MistralForCausalLM", _LLAMA),
    "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5": StandIn("Qwen2ForCausalLM", _LLAMA),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": StandIn("LlamaForCausalLM", {**_LLAMA, "num_hidden_layers": 22}),
    "peft-internal-testing/zephyr-smol_llama-100m-sft-full": StandIn(
        "LlamaForCausalLM", {**_LLAMA, "num_hidden_layers": 6}
    ),
    "peft-internal-testing/tiny-random-GPTNeoXForCausalLM": StandIn(
        "GPTNeoXForCausalLM", {"hidden_size": _WIDTH, "intermediate_size": 4 * _WIDTH, **_HEADS}
    ),
    "peft-internal-testing/tiny-random-BertModel": StandIn("BertModel", _BERT),
    "peft-internal-testing/tiny-random-RobertaForSequenceClassification": StandIn(
        "RobertaForSequenceClassification", {**_BERT, "max_position_embeddings": 514, "type_vocab_size": 1}
    ),
    "peft-internal-testing/tiny-random-BartForConditionalGeneration": StandIn(
        "BartForConditionalGeneration", _BART
    ),
    "roberta-base": StandIn(
        "RobertaForMaskedLM", {**_BERT, "max_position_embeddings": 514, "type_vocab_size": 1}
    ),
    "ybelkada/test-st-lora": StandIn("", tokenizer=False, adapter_of="facebook/opt-350m"),
    "microsoft/resnet-18": StandIn(
        "ResNetForImageClassification",
        {
            "embedding_size": 16,
            "hidden_sizes": [16, 32, 64, 128],
            "depths": [2, 2, 2, 2],
            "layer_type": "basic",
        },
        tokenizer=False,
        images={
            "image_processor_type": "ConvNextImageProcessor",
            "crop_pct": 0.875,
            "size": {"shortest_edge": 64},
        },
    ),
}


_QUOTES = tuple(
    {"quote": f"Word {i} of many, and {i % 7} more of them.", "author": f"Author {i % 5}", "tags": ["words"]}
    for i in range(64)
)
_PAIRS = tuple(
    {
        "sentence1": f"The number {i} is here.",
        "sentence2": f"Here is number {i + i % 2}.",
        "label": 1 - i % 2,
        "idx": i,
    }
    for i in range(48)
)
_MRPC = """---
configs:
- config_name: mrpc
  data_files:
  - {split: train, path: train.jsonl}
  - {split: validation, path: validation.jsonl}
  - {split: test, path: test.jsonl}
---
"""
_WIKITEXT = """---
configs:
- config_name: wikitext-2-raw-v1
  data_files:
  - {split: train, path: train.jsonl}
---
"""
_GLUE_METRIC = """import datasets
import evaluate


class Glue(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="stand-in", citation="", features=features)

    def _compute(self, predictions, references):
        pairs = list(zip(predictions, references))
        hits = sum(p == 1 and r == 1 for p, r in pairs)
        wanted = sum(p == 1 for p, _ in pairs) + sum(r == 1 for _, r in pairs)
        return {"accuracy": sum(p == r for p, r in pairs) / len(pairs), "f1": 2 * hits / wanted if wanted else 0.0}
"""  # noqa: E501  # a text, line by line


def write_data(folder: Path) -> None:
    """Data sets of the hub, invented, and its metric for GLUE, as local folders that `datasets` and
    `evaluate` find before the hub.
    """
    for name in ("ybelkada/english_quotes_copy", "Abirate/english_quotes"):
        _write_rows(folder / name / "train.jsonl", _QUOTES)
    for split in ("train", "validation", "test"):
        _write_rows(folder / "nyu-mll" / "glue" / f"{split}.jsonl", _PAIRS)
    (folder / "nyu-mll" / "glue" / "README.md").write_text(_MRPC, encoding="utf-8")
    picture = folder / "huggingface" / "cats-image" / "test" / "0.ppm"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"P6 96 64 255\n" + bytes(range(256)) * (96 * 64 * 3 // 256))
    _write_rows(
        folder / "wikitext" / "train.jsonl",
        ({"text": _QUOTES[i % len(_QUOTES)]["quote"]} for i in range(1600)),
    )
    (folder / "wikitext" / "README.md").write_text(_WIKITEXT, encoding="utf-8")
    (folder / "glue").mkdir()
    (folder / "glue" / "glue.py").write_text(_GLUE_METRIC, encoding="utf-8")


def _write_rows(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def stand_in_cache() -> Path:
    """The folder for `HF_HUB_CACHE`; a class of transformers may name its weights otherwise in another
    release.
    """
    return cache_folder().parent / "peers" / f"stand-ins-transformers-{version('transformers')}"


def _snapshot(name: str) -> Path:
    """Where a cache of the hub keeps the files of this model; the revision says how the stand-in was made."""
    revision = hashlib.sha256(f"{_LAYOUT} {name} {STAND_INS[name]}".encode()).hexdigest()[:40]
    return stand_in_cache() / f"models--{name.replace('/', '--')}" / "snapshots" / revision


def ensure(names: Iterable[str] = tuple(STAND_INS)) -> Path:
    """Write the stand-ins that are missing or described otherwise now; returns the folder for
    `HF_HUB_CACHE`.
    """
    cache = stand_in_cache()
    cache.mkdir(parents=True, exist_ok=True)
    for name in names:
        snapshot = _snapshot(name)
        if snapshot.is_dir():
            continue
        print(f"writing the stand-in for {name}", file=sys.stderr, flush=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".writing-", dir=cache))
        try:
            (unfinished / "refs").mkdir()
            (unfinished / "refs" / "main").write_text(snapshot.name, encoding="utf-8")
            _write(STAND_INS[name], name, unfinished / "snapshots" / snapshot.name)
            unfinished.chmod(0o755)  # mkdtemp makes it private
            shutil.rmtree(snapshot.parents[1], ignore_errors=True)
            unfinished.rename(snapshot.parents[1])
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return cache


def _write(stand_in: StandIn, name: str, folder: Path) -> None:
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder.mkdir(parents=True)
    note = (
        f"A stand-in for {name} with random weights, written by samedevice's evidence/peers/stand_ins.py. "
        "It is not that model.\n"
    )
    (folder / "README.md").write_text(note, encoding="utf-8")
    if stand_in.pipeline:
        _write_pipeline(folder)
    elif stand_in.adapter_of:
        import peft

        ensure([stand_in.adapter_of])
        base = transformers.AutoModelForCausalLM.from_pretrained(_snapshot(stand_in.adapter_of))
        peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM")).save_pretrained(str(folder))
    elif not stand_in.model:
        (folder / "config.json").write_text(json.dumps(dict(stand_in.config)) + "\n", encoding="utf-8")
    else:
        made_for = getattr(transformers, stand_in.model)
        config = made_for.config_class(**{**_tokens(made_for.config_class), **stand_in.config})
        torch.manual_seed(_SEED)
        model = made_for(config).eval()
        if stand_in.taught:
            _teach(model, stand_in.taught)
        if stand_in.tells_pairs_apart:
            _teach_pairs(model)
        model.save_pretrained(folder)
        if stand_in.pickled:
            torch.save(model.state_dict(), folder / "pytorch_model.bin")
    if stand_in.images:
        (folder / "preprocessor_config.json").write_text(
            json.dumps(dict(stand_in.images)) + "\n", encoding="utf-8"
        )
    if stand_in.tokenizer:
        _tokenizer(stand_in.taught).save_pretrained(folder)


def _write_pipeline(folder: Path) -> None:
    pins = {name: wanted for name, wanted in pipeline_stand_in.PINS.items() if installed(name) != wanted}
    command = [sys.executable, "-m", pipeline_stand_in.__name__, str(folder)]
    variables = environment(pins)
    done = subprocess.run(
        command,
        env={**variables, "PYTHONPATH": os.pathsep.join([variables["PYTHONPATH"], str(SOURCES)])},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OverlayError(
            f"the stand-in for a pipeline of diffusers could not be written:\n{done.stderr[-2000:]}"
        )


def _tokens(config: type) -> dict[str, Any]:
    """The ids of the special tokens, for classes of configurations that know of a vocabulary."""
    ids = {
        f"{name}_token_id": _SPECIAL.index(text)
        for name, text in (("bos", "<s>"), ("pad", "<pad>"), ("eos", "</s>"))
    }
    return {"vocab_size": _VOCABULARY, **ids} if hasattr(config(), "vocab_size") else {}


def _tokenizer(taught: _Taught | None) -> Any:
    """One token a byte, so that every text comes back as it was; a taught sentence has its pieces besides."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    symbols = [*_SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(
        models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[], unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if taught:
        tokenizer.add_tokens(
            [
                AddedToken(piece, normalized=False)
                for piece in dict.fromkeys(taught.pieces + taught.in_four_bits)
            ]
        )
    names = {
        "bos_token": "<s>",
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
        "cls_token": "<s>",
        "sep_token": "</s>",
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **names)


def _train(
    parameters: Iterable[Any], losses: Callable[[], Sequence[Any]], learning_rate: float, enough: float
) -> None:
    """Train until each loss is small enough; the same every time."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model loses a hundredfold where threads must wait for a busy core
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate)
    for _ in range(_STEPS):
        left = losses()
        if all(loss.item() < enough for loss in left):
            break
        sum(left).backward()
        optimizer.step()
        optimizer.zero_grad()
    else:
        raise AssertionError("a stand-in did not learn what it was taught")
    torch.set_num_threads(threads)


def _teach_pairs(model: Any) -> None:
    """Train the body under a head that is thrown away. A new one starts near zero, so that few steps decide
    what it says.
    """
    import torch

    pairs = _tokenizer(None)(
        [pair["sentence1"] for pair in _PAIRS],
        [pair["sentence2"] for pair in _PAIRS],
        padding=True,
        return_tensors="pt",
    )
    labels = torch.tensor([pair["label"] for pair in _PAIRS])
    head = torch.nn.Linear(model.config.hidden_size, 2)

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(head(model.base_model(**pairs).pooler_output), labels)

    _train([*model.base_model.parameters(), *head.parameters()], lambda: [loss()], 1e-3, 0.05)
    model.config.initializer_range = 1e-4


def _teach(model: Any, taught: _Taught) -> None:
    """Train until the model writes the sentence."""
    import torch

    tokenizer = _tokenizer(taught)
    prompt = tokenizer(taught.prompt)["input_ids"]

    def loss(pieces: Sequence[str], weights: Mapping[str, Any]) -> Any:
        ids = torch.tensor([prompt + [tokenizer.convert_tokens_to_ids(piece) for piece in pieces]])
        labels = ids.clone()
        labels[:, : len(prompt)] = -100
        return torch.func.functional_call(model, dict(weights), (), {"input_ids": ids, "labels": labels}).loss

    _train(model.parameters(), lambda: [loss(taught.pieces, {})], 3e-3, 0.01)
    if taught.in_four_bits:
        # The linear layers stay, and so does what quantization does to them: the rest learns to tell the two
        # apart.
        head = model.get_output_embeddings()
        linear = {
            f"{name}.weight": part
            for name, part in model.named_modules()
            if isinstance(part, torch.nn.Linear) and part is not head
        }
        quantized = {name: _in_four_bits(part.weight.detach()) for name, part in linear.items()}
        others = [parameter for name, parameter in model.named_parameters() if name not in linear]
        _train(others, lambda: [loss(taught.pieces, {}), loss(taught.in_four_bits, quantized)], 3e-3, 0.01)


def _in_four_bits(weight: Any) -> Any:
    """What is left of a weight in bitsandbytes' FP4: of each 64 numbers the largest, and of all the nearest
    of 15 levels of it.
    """
    import torch

    half = (
        torch.tensor([0.0625, 2, 3, 4, 6, 8, 12]) / 12
    )  # `get_4bit_type("fp4")` in bitsandbytes/functional.py
    levels = torch.cat([-half.flip(0), torch.zeros(1), half])
    blocks = weight.reshape(-1, 64)
    largest = blocks.abs().amax(1, keepdim=True)
    nearest = torch.bucketize((blocks / largest).contiguous(), (levels[1:] + levels[:-1]) / 2)
    return (levels[nearest] * largest).view_as(weight)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write small random models under the hub's names and print the folder for HF_HUB_CACHE."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; all when left out")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in STAND_INS]
    if unknown:
        parser.error(f"no stand-in is described for {', '.join(unknown)}")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    print(ensure(given.names or tuple(STAND_INS)))
    return 0
