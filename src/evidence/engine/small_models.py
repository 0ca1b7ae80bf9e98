"""Tiny random models of transformers' own classes, and inputs for them: for `model-sweep`.

Nothing is downloaded. A class's default configuration is made small field by field, by what fields are
usually called; what a name cannot tell stands in the two tables at the end.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from transformers.models.auto import configuration_auto, modeling_auto

VOCABULARY = 160
LENGTH = 8
_MOST_LAYERS = 8

# What a model is asked to be: the first list that knows its type decides the class.
_HEADS = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "MASKED_LM",
    "CAUSAL_LM",
    "CTC",
    "RNNT",
    "TDT",
    "TEXT_TO_WAVEFORM",
    "TEXT_TO_SPECTROGRAM",
    "MASK_GENERATION",
    "ZERO_SHOT_OBJECT_DETECTION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "INSTANCE_SEGMENTATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "KEYPOINT_MATCHING",
    "KEYPOINT_DETECTION",
    "POSE_ESTIMATION",
    "TIME_SERIES_PREDICTION",
    "TABLE_QUESTION_ANSWERING",
    "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "IMAGE_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "QUESTION_ANSWERING",
    "PRETRAINING",
)

# (pattern of a field's name, size); the first that matches holds, and only makes smaller.
_SIZES: tuple[tuple[str, int], ...] = (
    (r".*codebook_size|.*num_buckets|.*hash_buckets", 64),
    (r"rotary_dim", 4),
    (r"num_feat_extract_layers|.*num_stages", 99),
    (r".*vocab_size.*|.*vocabulary_size", VOCABULARY),
    (r"type_vocab_size", 2),
    (
        r"(max|n|num|seq).*(positions?|position_embeddings|pos|seq_len.*|length)|.*n_positions|n_ctx|.*context_length",
        128,
    ),
    (r".*(q|kv)_lora_rank|.*lora_rank|.*_rank", 16),
    (r"(qk_nope|v)_head_dim|index_head_dim", 8),
    (r"qk_rope_head_dim", 4),
    (r".*(key_value_heads|kv_heads|query_groups|num_attention_groups)|n_groups|mamba_n_groups", 2),
    (r".*head_dim|d_kv|kv_channels|.*attention_head_size|.*head_size", 8),
    (r".*heads?|.*_n_head|.*attention_heads?_.*", 4),
    (r".*(hidden_layers|_layers|n_layers?|num_layers|num_blocks|depth|n_blocks|num_.*_blocks)|n_layer", 2),
    (r".*(num_experts_per_tok|top_k|moe_topk|num_selected_experts|experts_per_tok.*)", 2),
    (r"n_shared_experts|num_shared_experts|n_group|topk_group", 1),
    (r".*(num|n)_.*experts|.*num_experts|moe_num_experts|ffn_num_experts", 4),
    (
        r".*(intermediate_size|ffn_dim|ffn_hidden_size|d_ff|n_inner|feedforward.*|intermediate_dim|mlp_dim|d_inner|ffn_embed_dim)",
        64,
    ),
    (r".*(state_size|d_state)", 8),
    (r".*(conv_kernel|d_conv)", 4),
    (r"image_size|.*img_size|.*input_size|crop_size", 32),
    (r"patch_size|.*_patch_size", 8),
    (r".*num_(image_tokens|queries|latents|query_tokens|object_queries)|num_queries|num_query.*", 8),
    (r"num_frames|tubelet.*frames", 4),
    (r".*mel_bins|.*num_mel.*", 16),
    (r"max_source_positions", 32),
    (r".*(sliding_window|attention_window|window_size|chunk_size|block_size|local_attn.*length)", 16),
    (
        r".*(hidden_size|hidden_dim|d_model|n_embd|embed_dim|projection_dim|embedding_size|embedding_dim|hidden_channels|_dim|dim"
        r"|_width|_channels|upsample_initial_channel|hidden_features|num_filters|_size|width|emb_size|n_embed|_features)",
        32,
    ),
)
# Fields that the last pattern would ruin.
_KEEP = re.compile(
    r".*(num_channels|in_channels|in_chans|num_input_channels|spatial_merge_size|temporal_patch_size|kernel.*|stride.*|type_vocab_size"
    r"|chunk_size_feed_forward|kernel_size|audio_channels|merge_size|num_labels|layer_norm.*|.*hop.*|beam.*|shared_attention.*|downsample.*"
    r"|pool.*size|reduction|.*scale.*)"
)
_LENGTH_LISTS = re.compile(r".*(depths?|layers|blocks|num_layers)$")
_HEAD_LISTS = re.compile(r".*heads?$")
_SIZE_LISTS = re.compile(r".*(hidden_sizes|embed_dims?|dims?|channels|conv_dim|widths?|sizes)$")


def classes() -> dict[str, str]:
    """Name of the class for each model type that transformers has."""
    found: dict[str, str] = {}
    tables = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES") for head in _HEADS]
    for model_type in configuration_auto.CONFIG_MAPPING_NAMES:  # type: ignore[attr-defined]  # not in its list
        for table in [*tables, modeling_auto.MODEL_MAPPING_NAMES]:
            name = table.get(model_type)
            if name is not None:
                found[model_type] = name if isinstance(name, str) else name[0]
                break
    return found


def small_config(config_class: type[Any], changes: dict[str, Any] | None = None) -> Any:
    """The class's default configuration, made small."""
    fields = _small_fields(_own_fields(config_class()))
    return config_class(**_merged(fields, changes or {}))


def _own_fields(config: Any) -> dict[str, Any]:
    common = set(transformers.PretrainedConfig().to_dict()) - {
        "pad_token_id",
        "bos_token_id",
        "eos_token_id",
        "tie_word_embeddings",
    }
    return {
        name: value
        for name, value in config.to_dict().items()
        if name not in common or name == "is_encoder_decoder"
    }


def _merged(fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(fields)
    for name, value in changes.items():
        own = result.get(name)
        result[name] = _merged(own, value) if isinstance(own, dict) and isinstance(value, dict) else value
        if value is DROP:
            del result[name]
    return result


DROP = object()
"""Value of a change that leaves a field out."""


def _small_fields(fields: dict[str, Any], top: bool = True) -> dict[str, Any]:
    common = set(transformers.PretrainedConfig().to_dict())
    layers = [
        value
        for name, value in fields.items()
        if isinstance(value, int) and _size_of(name) == 2 and value > 2
    ]
    lists = [value for value in fields.values() if isinstance(value, list) and len(value) in layers]
    count = max([2, *(_until_all_seen(value) for value in lists)])
    result: dict[str, Any] = {}
    token = VOCABULARY - 1
    derived = {"out_features", "out_indices", "stage_names"} | (
        {"qk_head_dim", "head_dim"} if "qk_rope_head_dim" in fields else set()
    )
    fields = {name: value for name, value in fields.items() if name not in derived}
    if fields.get("is_encoder_decoder") and fields.get("decoder_start_token_id") is None:
        fields["decoder_start_token_id"] = 1
    for name, value in fields.items():
        if isinstance(value, dict) and name not in ("id2label", "label2id"):
            inner = {
                k: v
                for k, v in value.items()
                if "model_type" not in value or k not in common or k == "model_type"
            }
            result[name] = _small_fields(inner, False) if "config" in name else value
            if name in ("rope_parameters", "rope_scaling") and (
                "mrope_section" in value or _turns_in_sections(fields, value)
            ):
                result[name] = {**value, "mrope_section": [2, 1, 1]}
        elif isinstance(value, bool) or value is None:
            result[name] = value
        elif re.fullmatch(r".*(token_id|token_index|_id|token_ids)", name) and isinstance(value, (int, list)):
            known = {
                "pad_token_id": 0,
                "bos_token_id": 1,
                "eos_token_id": 2,
                "decoder_start_token_id": 1,
                "sep_token_id": 3,
            }
            result[name] = known.get(name, token)
            if name not in known:
                token -= 1
                result[name] = [result[name]] if isinstance(value, list) else result[name]
        elif isinstance(value, int):
            size = _size_of(name)
            if size == 2 and value in layers:
                size = count
            if name == "num_key_value_heads" and "kv_lora_rank" in fields:
                size = 4  # latent attention has as many as queries
            result[name] = value if size is None else min(value, size)
        elif (
            isinstance(value, (list, tuple))
            and len(value) > 0
            and all(isinstance(part, (int, str)) for part in value)
        ):
            result[name] = _small_list(name, value, layers, count)
        else:
            result[name] = value
    return result


def _turns_in_sections(fields: dict[str, Any], rope: dict[str, Any]) -> bool:
    return (
        "vl" in fields.get("model_type", "")
        and "text" in fields["model_type"]
        and rope.get("rope_type") == "default"
    )


def _small_list(name: str, value: Any, layers: list[int], count: int) -> Any:
    if name.endswith("image_size") and len(value) == 2 and isinstance(value[0], int):
        return [min(part, 64) for part in value]
    if len(value) in layers and (isinstance(value[0], (str, bool)) or "layer" in name):
        return value[:count]
    if isinstance(value[0], str):
        return value
    if _LENGTH_LISTS.fullmatch(name):
        return [1 if part > 0 else part for part in value]
    if _HEAD_LISTS.fullmatch(name):
        return [min(part, 2) for part in value]
    if _SIZE_LISTS.fullmatch(name) and not _KEEP.fullmatch(name):
        return [min(part, 32) for part in value]
    return value


def _size_of(name: str) -> int | None:
    if name == "type_vocab_size" or _KEEP.fullmatch(name):
        return None
    return next((size for pattern, size in _SIZES if re.fullmatch(pattern, name)), None)


def _until_all_seen(values: list[Any]) -> int:
    """How many of the first values show every kind once."""
    kinds = {str(value) for value in values}
    if len(kinds) > 4 or all(isinstance(value, int) and value > 1 for value in values):
        return 2
    for length in range(1, len(values) + 1):
        if {str(value) for value in values[:length]} == kinds:
            return min(length, _MOST_LAYERS)
    return 2


def build(model_type: str, class_name: str) -> torch.nn.Module:
    """A random model of that class, in evaluation mode."""
    model_class = getattr(transformers, class_name)
    config_class = model_class.config_class or configuration_auto.CONFIG_MAPPING[model_type]
    config = small_config(config_class, CONFIGS.get(model_type))
    torch.manual_seed(0)
    model: torch.nn.Module = model_class(config).eval()
    for parameter in model.parameters():  # zeros and ones everywhere would hide wrong values
        if (
            parameter.is_floating_point()
            and parameter.numel() > 1
            and float(parameter.detach().float().std()) < 1e-6
        ):
            with torch.no_grad():
                parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


def inputs_for(model: Any, model_type: str) -> dict[str, Any]:
    """What its `forward` takes, as a processor would hand it over: on the host, with a place for each feature
    of an image.
    """
    made = _first_inputs(model, model_type)
    try:
        with torch.no_grad():
            model(**made)
    except (ValueError, RuntimeError) as error:
        said = re.search(r"do(?:es)? not match,? *:?.*tokens: *\d+, features:? *(\d+)", str(error))
        if said is None or "input_ids" not in made:
            raise
        rows = made["input_ids"].shape[0]
        for count in (int(said[1]) // rows, int(said[1]) // rows // 32):
            with_places = {**made, **_with_places(made["input_ids"], _special_token(model.config), count)}
            with contextlib.suppress(ValueError, RuntimeError), torch.no_grad():
                model(**with_places)
                return with_places
        raise
    return made


def _special_token(config: Any) -> int:
    names = (
        "image_token_id",
        "image_token_index",
        "audio_token_id",
        "audio_token_index",
        "media_token_id",
        "video_token_id",
    )
    return int(next(getattr(config, name) for name in names if getattr(config, name, None) is not None))


def _with_places(input_ids: torch.Tensor, token: int, count: int) -> dict[str, torch.Tensor]:
    places = torch.full((input_ids.shape[0], count), token)
    longer = torch.cat([input_ids[:, :3], places, input_ids[:, 3:]], dim=1)
    return {"input_ids": longer, "attention_mask": torch.ones_like(longer)}


def _first_inputs(model: Any, model_type: str) -> dict[str, Any]:
    own = INPUTS.get(model_type, {})
    if callable(own):
        return dict(own(model.config))
    names = inspect.signature(model.forward).parameters
    if "image_grid_thw" in names and "input_ids" in names and not own:
        return _grid_inputs(model.config, names)
    main = model.main_input_name
    made: dict[str, Any] = {}
    for name in names:
        if name in own:
            continue
        if name in (main, *_ALWAYS) or (
            name in _WHEN_NEEDED and names[name].default is inspect.Parameter.empty
        ):
            value = _input(name, model.config)
            if value is not None:
                made[name] = value
    if "input_ids" in made and main != "input_ids" and made.get(main) is None:
        made.pop("input_ids")
    made.update(
        {
            name: value(model.config) if callable(value) else value
            for name, value in own.items()
            if value is not DROP
        }
    )
    if "attention_mask" in names and "input_ids" in made and "attention_mask" not in own:
        made["attention_mask"] = torch.ones_like(made["input_ids"])
        made["attention_mask"][0, 0] = 0 if _decodes(model) else 1
    if model.config.is_encoder_decoder and "decoder_input_ids" in names and "decoder_input_ids" not in own:
        made["decoder_input_ids"] = ids(model.config)
    return made


def _decodes(model: Any) -> bool:
    return (
        bool(model.can_generate())
        and not model.config.is_encoder_decoder
        and "pixel_values" not in _parameters(model)
    )


def _parameters(model: Any) -> Any:
    return inspect.signature(model.forward).parameters


_ALWAYS = ("input_ids", "pixel_values")
_WHEN_NEEDED = ("pixel_values_videos", "input_features", "input_values", "bbox", "pixel_mask", "past_values",
"past_time_features",
                "past_observed_mask", "inputs", "pixel_values1", "labels")  # fmt: skip


def _parts(config: Any) -> Iterator[Any]:
    yield config
    for name in (
        "vision_config",
        "image_config",
        "backbone_config",
        "audio_config",
        "audio_encoder_config",
        "encoder",
        "speech_config",
    ):
        part = getattr(config, name, None)
        if part is not None and not isinstance(part, dict):
            yield part


def field(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these fields that the configuration or its vision or audio part has."""
    for part in _parts(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def ids(config: Any, length: int = LENGTH) -> torch.Tensor:
    """Token numbers that mean nothing special."""
    return torch.randint(5, 100, (2, length), generator=torch.Generator().manual_seed(1))


def noise(*size: int) -> torch.Tensor:
    """Numbers that are the same every time."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(2))


def _input(name: str, config: Any) -> Any:
    if name == "input_ids":
        return ids(config)
    if name in ("pixel_values", "pixel_values1"):
        size = field(config, "image_size", "img_size", "input_size", default=64)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        channels = field(config, "num_channels", "in_channels", "in_chans", default=3)
        frames = getattr(config, "num_frames", None)
        if frames and not hasattr(config, "vision_config"):
            return noise(2, frames, channels, height, width)
        return noise(2, channels, height, width)
    if name == "pixel_values_videos":
        size = field(config, "image_size", "crop_size", default=32)
        return noise(2, field(config, "num_frames", "frames_per_clip", default=4), 3, size, size)
    if name == "input_values":
        channels = getattr(config, "audio_channels", None)
        return noise(2, channels, 1600) if channels else noise(2, 1600)
    if name == "input_features":
        bins = field(config, "num_mel_bins", "input_feat_per_channel", "feature_size", default=16)
        length = 2 * field(config, "max_source_positions", default=32)
        return noise(2, bins, length) if hasattr(config, "max_source_positions") else noise(2, length, bins)
    if name == "bbox":
        return torch.tensor([[[1, 2, 3, 4]] * LENGTH] * 2)
    if name == "pixel_mask":
        return None
    return None


def _grid_inputs(config: Any, names: Any) -> dict[str, Any]:
    """Two images of four by four patches, as Qwen's processors hand them over."""
    vision = config.vision_config
    merge = field(vision, "spatial_merge_size", "merge_size", default=2)
    patch = field(vision, "patch_size", default=14)
    depth = field(vision, "temporal_patch_size", default=1)
    channels = field(vision, "in_channels", "num_channels", "in_chans", default=3)
    token = _special_token(config)
    made = _with_places(ids(config), token, 16 // merge**2)
    start = getattr(config, "vision_start_token_id", None)
    if isinstance(start, int):
        made["input_ids"][:, 2] = start
    made["pixel_values"] = noise(32, channels * depth * patch * patch)
    if "mm_token_type_ids" in names:
        made["mm_token_type_ids"] = (made["input_ids"] == token).long()
    made["image_grid_thw"] = torch.tensor([[1, 4, 4], [1, 4, 4]])
    return made


def _series(config: Any) -> dict[str, Any]:
    past, future, features = (
        config.context_length + max(config.lags_sequence),
        config.prediction_length,
        config.num_time_features,
    )
    return {
        "past_values": noise(2, past),
        "past_time_features": noise(2, past, features),
        "past_observed_mask": torch.ones(2, past),
        "future_values": noise(2, future),
        "future_time_features": noise(2, future, features),
    }


_RESNET = {
    "backbone_config": {
        "model_type": "resnet",
        "embedding_size": 16,
        "hidden_sizes": [16, 16, 32, 32],
        "depths": [1, 1, 1, 1],
        "layer_type": "basic",
        "out_features": ["stage2", "stage3", "stage4"],
    }
}
_MAMBA_HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}

_FOUR_STAGES = ["stage1", "stage2", "stage3", "stage4"]

CONFIGS: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 64, "num_mel_bins": 32},
    "blip-2": {"image_token_index": 159},
    "instructblip": {"image_token_index": 159},
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_method": "greedy"},
    "donut-swin": {"window_size": 4, "depths": [1, 1], "num_heads": [2, 2]},
    "fastspeech2_conformer": {"vocab_size": VOCABULARY},
    "gemma3": {"mm_tokens_per_image": 4},
    "gemma3n": {"text_config": {"intermediate_size": 64, "activation_sparsity_pattern": DROP,
    "num_kv_shared_layers": 1,
                                "vocab_size_per_layer_input": VOCABULARY}},
    "gemma4": {"text_config": {"per_layer_config": DROP, "num_kv_shared_layers": 0,
    "vocab_size_per_layer_input": VOCABULARY}},
    "glm4v": {"text_config": {"rope_parameters": {"mrope_section": [2, 1, 1]}}},
    "llava_next": {"image_grid_pinpoints": [[32, 64]]},
    "llava_next_video": {"image_grid_pinpoints": [[32, 64]]},
    "llava_onevision": {"image_grid_pinpoints": [[32, 64]]},
    "mllama": {"vision_config": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 96}},
    "speecht5": {"vocab_size": VOCABULARY},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "vits": {"vocab_size": VOCABULARY, "noise_scale": 0.0, "noise_scale_duration": 0.0},
    "xlnet": {"d_head": 8},
    "autoformer": {"prediction_length": 4},
    "bamba": {**_MAMBA_HEADS, "attn_layer_indices": [1]},
    "beit": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "canine": {"num_hash_buckets": 64},
    "conditional_detr": _RESNET,
    "dab-detr": _RESNET,
    "data2vec-vision": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "deformable_detr": _RESNET,
    "depth_anything": {"backbone_config": {"model_type": "dinov2", "hidden_size": 32, "num_attention_heads":
    4, "num_hidden_layers": 4,
                                           "image_size": 28, "patch_size": 14, "out_features": _FOUR_STAGES,
                                           "reshape_hidden_states": False}, "neck_hidden_sizes": [16, 16, 32,
                                           32],
                       "reassemble_hidden_size": 32},
    "detr": _RESNET,
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "is_hybrid": False},
    "esm": {"vocab_size": VOCABULARY, "mask_token_id": 32, "pad_token_id": 1},
    "falcon_h1": {**_MAMBA_HEADS, "mamba_d_ssm": 64},
    "gemma3n_text": {"intermediate_size": 64, "activation_sparsity_pattern": DROP, "num_kv_shared_layers": 1,
                     "vocab_size_per_layer_input": VOCABULARY},
    "gemma4_text": {"per_layer_config": DROP, "num_kv_shared_layers": 0, "vocab_size_per_layer_input":
    VOCABULARY},
    "granitemoehybrid": {**_MAMBA_HEADS, "layers_block_type": ["mamba", "attention"]},
    "informer": {"prediction_length": 4},
    "jamba": {"num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4,
    "use_mamba_kernels": False},
    "layoutlmv3": {"coordinate_size": 4, "shape_size": 8},
    "longt5": {"local_radius": 4, "global_block_size": 4},
    "perceiver": {"d_latents": 32, "num_latents": 8, "qk_channels": 32, "v_channels": 32,
    "num_self_attention_heads": 4},
    "mamba2": {"num_heads": 8},
    "mask2former": {"feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32},
    "maskformer": {"fpn_feature_size": 32, "mask_feature_size": 32},
    "nemotron": {"num_key_value_heads": 2},
    "recurrent_gemma": {"num_hidden_layers": 3, "lru_width": 32},
    "reformer": {"axial_pos_embds_dim": [16, 16], "axial_pos_shape": [4, 2], "attn_layers": ["local", "lsh"],
                 "num_attention_heads": 4, "lsh_attn_chunk_length": 4, "local_attn_chunk_length": 4,
                 "num_buckets": 2},
    "swin": {"window_size": 4, "depths": [1, 1], "num_heads": [2, 2]},
    "table-transformer": _RESNET,
    "time_series_transformer": {"prediction_length": 4},
    "xlstm": {"qk_dim_factor": 1.0, "v_dim_factor": 1.0, "mlstm_round_up_to_multiple_of": 8},
    "wav2vec2-bert": {"vocab_size": VOCABULARY},
    "zamba2": {"attention_head_dim": 16, "n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1},
}  # fmt: skip
"""Changes to a small configuration, by model type."""

INPUTS: dict[str, Any] = {
    "blip-2": lambda c: {
        **_with_places(ids(c), 159, c.num_query_tokens),
        "pixel_values": noise(2, 3, 32, 32),
    },
    "instructblip": lambda c: {
        **_with_places(ids(c), 159, c.num_query_tokens),
        "pixel_values": noise(2, 3, 32, 32),
        "qformer_input_ids": ids(c),
    },
    "dac": {"input_values": lambda c: noise(2, 1, 1600)},
    "decision_transformer": lambda c: {
        "states": noise(2, 4, c.state_dim),
        "actions": noise(2, 4, c.act_dim),
        "rewards": noise(2, 4, 1),
        "returns_to_go": noise(2, 4, 1),
        "timesteps": torch.arange(4).expand(2, 4),
        "attention_mask": torch.ones(2, 4),
    },
    **{
        key: {"pixel_values": lambda c: noise(2, 1, 3, *([c.vision_config.image_size] * 2))}
        for key in ("idefics2", "idefics3", "smolvlm")
    },
    **{
        key: {
            "pixel_values": lambda c: noise(2, 3, 3, 32, 32),
            "image_sizes": lambda c: torch.tensor([[32, 64]] * 2),
        }
        for key in ("llava_next", "llava_next_video", "llava_onevision")
    },
    "mistral3": {
        "pixel_values": lambda c: noise(2, 3, 32, 32),
        "image_sizes": lambda c: torch.tensor([[32, 32]] * 2),
    },
    "mllama": {
        "pixel_values": lambda c: noise(
            2, 1, c.vision_config.max_num_tiles, 3, *[c.vision_config.image_size] * 2
        ),
        "aspect_ratio_ids": lambda c: torch.ones(2, 1, dtype=torch.long),
        "aspect_ratio_mask": lambda c: torch.ones(2, 1, c.vision_config.max_num_tiles, dtype=torch.long),
        "cross_attention_mask": lambda c: torch.ones(
            2, LENGTH, 1, c.vision_config.max_num_tiles, dtype=torch.long
        ),
    },
    **{
        key: {"input_ids": lambda c: ids(c).repeat(c.num_codebooks, 1)}
        for key in ("musicgen", "musicgen_melody")
    },
    **{
        key: {"past_values": lambda c: noise(2, c.context_length, c.num_input_channels)}
        for key in ("patchtst", "patchtsmixer")
    },
    "siglip2": {
        "pixel_values": lambda c: noise(2, 16, 3 * c.vision_config.patch_size**2),
        "pixel_attention_mask": lambda c: torch.ones(2, 16, dtype=torch.long),
        "spatial_shapes": lambda c: torch.tensor([[4, 4]] * 2),
    },
    "udop": {"bbox": lambda c: torch.rand(2, LENGTH, 4, generator=torch.Generator().manual_seed(3))},
    "audio-spectrogram-transformer": {"input_values": lambda c: noise(2, c.max_length, c.num_mel_bins)},
    "clap": {
        "input_features": lambda c: noise(2, 1, 64, 64),
        "is_longer": lambda c: torch.tensor([[False], [False]]),
    },
    "lightglue": {"pixel_values": lambda c: noise(1, 2, 3, 32, 32)},
    "lxmert": {
        "visual_feats": lambda c: noise(2, 4, c.visual_feat_dim),
        "visual_pos": lambda c: noise(2, 4, c.visual_pos_dim),
    },
    "perceiver": lambda c: {"inputs": ids(c)},
    "pop2piano": {"input_features": lambda c: noise(2, 8, c.d_model)},
    "speech_to_text": {"input_features": lambda c: noise(2, 64, c.input_feat_per_channel)},
    "xclip": {"pixel_values": lambda c: noise(2, c.vision_config.num_frames, 3, 32, 32)},
    **dict.fromkeys(("time_series_transformer", "informer", "autoformer"), _series),
}
"""Inputs by model type: a function of the configuration that makes all, or a table of some."""
