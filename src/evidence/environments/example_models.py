"""Makes the models that the examples run, on this machine and without a download.

Time: seconds.
Needs: transformers, tokenizers.

    python -m evidence example-models [FOLDER]        # default: ~/.cache/samedevice/models

`example_models.json` holds the hyperparameters. The full-size folders get the published `config.json` and a
tokenizer, and no weights: inside `samedevice run` they load as ghost checkpoints. The tiny ones get random
weights too, under the names that the published checkpoints use, so every release of transformers can read
them. The tokenizer is a real byte-level BPE, learned here from a few sentences; its special tokens have the
ids that the configuration names.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.commands import command_parser

DEFAULT_FOLDER = Path("~/.cache/samedevice/models").expanduser()
SPECIFICATIONS: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("example_models.json").read_text("utf-8")
)
SPECIAL_TOKENS = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>",
    "<|box_start|>", "<|box_end|>",
    "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
SENTENCES = [
    "Give me a short introduction to large language models.",
    "You are a helpful assistant.",
    "What is shown in this picture, and what happens in the video?",
    "The weights of the model are on several devices, and the inputs are on one of them.",
    "Describe the image. system user assistant",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['content'] is "
    "string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}{% if part['type'] == "
    "'image' %}<|vision_start|><|image_pad|><|vision_end|>{% elif part['type'] == 'video' "
    "%}<|vision_start|><|video_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% "
    "endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% "
    "endif %}"
)
IMAGE_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "min_pixels": 3136,
    "max_pixels": 12845056,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "merge_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def specification(name: str) -> tuple[dict[str, Any], int]:
    """The configuration of a model; a tiny one is its full-size sister with some numbers changed."""
    own = SPECIFICATIONS[name]
    base = SPECIFICATIONS[own["like"]]["config"] if "like" in own else {}
    return {**base, **own["config"]}, own["special_tokens_from"]


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def write_tokenizer(folder: Path, special_tokens_from: int) -> None:
    """A byte-level BPE in the files that every release reads: vocab.json and merges.txt."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    learned.train_from_iterator(
        SENTENCES, trainers.BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    )
    model = json.loads(learned.to_str())["model"]
    ids = {token: special_tokens_from + index for index, token in enumerate(SPECIAL_TOKENS)}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    write_json(folder / "vocab.json", {**model["vocab"], **ids})
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "added_tokens_decoder": {
                str(number): {"content": token, **flags} for token, number in ids.items()
            },
            "additional_special_tokens": SPECIAL_TOKENS[1:],
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "unk_token": None,
            "model_max_length": 32768,
            "padding_side": "left",
            "chat_template": CHAT_TEMPLATE,
        },
    )


def published_name(name: str) -> str:
    """The name of a weight in the published checkpoints, which are older than the present module names."""
    return re.sub(r"^model\.visual\.", "visual.", re.sub(r"^model\.language_model\.", "model.", name))


def write_weights(folder: Path) -> None:
    """Random weights, under the names of the published checkpoints."""
    import torch
    import transformers
    from safetensors.torch import save_file
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    torch.manual_seed(0)
    family = "AutoModelForImageTextToText" if config.model_type == "qwen2_5_vl" else "AutoModelForCausalLM"
    model = getattr(transformers, family).from_config(config)
    weights = {
        published_name(name): tensor.detach().contiguous() for name, tensor in model.state_dict().items()
    }
    if config.tie_word_embeddings:
        del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def make(name: str, root: Path = DEFAULT_FOLDER) -> Path:
    """The folder of the model `name`, made when it is not there yet; it appears under its name only when it
    is complete.
    """
    folder = root / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        write_model(unfinished, name)
        unfinished.chmod(0o755)  # mkdtemp makes it private
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # no other process was faster
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def write_model(folder: Path, name: str) -> None:
    """All files of the model `name`."""
    config, special_tokens_from = specification(name)
    write_json(folder / "config.json", config)
    ends = {
        "bos_token_id": config["bos_token_id"],
        "eos_token_id": [config["eos_token_id"]],
        "pad_token_id": special_tokens_from,
    }
    write_json(folder / "generation_config.json", ends)
    write_tokenizer(folder, special_tokens_from)
    if config["model_type"] == "qwen2_5_vl":
        write_json(folder / "preprocessor_config.json", IMAGE_PROCESSOR)
        write_json(folder / "chat_template.json", {"chat_template": CHAT_TEMPLATE})
    if "like" in SPECIFICATIONS[name]:
        write_weights(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make them all and print their folders."""
    parser = command_parser(__name__, __doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=DEFAULT_FOLDER)
    root = parser.parse_args(arguments).folder
    for name in SPECIFICATIONS:
        print(make(name, root))
    return 0
