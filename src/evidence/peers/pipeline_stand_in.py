"""Writes a stand-in for Stable Diffusion 1.5: the same kinds of parts, small, with random weights.

A program of its own, because it wants diffusers, which `stand_ins` does without.

    python -m evidence.peers.pipeline_stand_in FOLDER
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

PINS = {
    "certifi": "2026.10.18",
    "charset-normalizer": "3.5.2",
    "diffusers": "0.38.0",
    "httpcore": "1.0.9",
    "httpx": "0.28.1",
    "importlib-metadata": "10.2.0",
    "requests": "2.32.5",
    "sniffio": "1.3.1",
    "urllib3": "2.8.0",
    "zipp": "4.1.2",
}
"""What diffusers needs besides our own dependencies."""
_WIDTH = 32
_CHANNELS = (32, 64)


def _tokenizer(folder: Path) -> Any:
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    symbols = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    (folder / "vocab.json").write_text(
        json.dumps({symbol: i for i, symbol in enumerate(symbols)}), encoding="utf-8"
    )
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    return CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77)


def main(folder: Path) -> None:
    """Write the pipeline's folder."""
    import torch
    from diffusers import AutoencoderKL, PNDMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer = _tokenizer(Path(scratch))
    sizes: dict[str, Any] = {
        "hidden_size": _WIDTH,
        "intermediate_size": 2 * _WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    ids: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 1}
    StableDiffusionPipeline(
        vae=AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            block_out_channels=_CHANNELS,
            latent_channels=4,
            sample_size=16,
        ),
        text_encoder=CLIPTextModel(CLIPTextConfig(vocab_size=len(tokenizer), **sizes, **ids)),
        tokenizer=tokenizer,
        unet=UNet2DConditionModel(
            sample_size=8,
            layers_per_block=1,
            block_out_channels=_CHANNELS,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=_WIDTH,
            attention_head_dim=4,
        ),
        scheduler=PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
