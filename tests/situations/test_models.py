"""The models of the examples: real tokenizers with the ids that the configurations name, weights under
published names.
"""

import json

import pytest

from evidence.environments import example_models

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("name", example_models.SPECIFICATIONS)
def test_the_tokenizer_and_the_configuration_agree(name, root):
    folder = example_models.make(name, root)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    assert tokenizer.eos_token_id == config["eos_token_id"]
    assert tokenizer.pad_token_id == config["bos_token_id"]
    for kind, token in (
        ("image", "<|image_pad|>"),
        ("video", "<|video_pad|>"),
        ("vision_start", "<|vision_start|>"),
    ):
        if f"{kind}_token_id" in config:
            assert tokenizer.convert_tokens_to_ids(token) == config[f"{kind}_token_id"]
    chat = [{"role": "user", "content": "Describe the image, 图片."}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(ids) < config["vocab_size"]


@pytest.mark.parametrize(
    "name", [name for name, own in example_models.SPECIFICATIONS.items() if "like" in own]
)
def test_tiny_models_have_weights_and_full_size_ones_do_not(name, root):
    safetensors = pytest.importorskip("safetensors")
    folder = example_models.make(name, root)
    with safetensors.safe_open(folder / "model.safetensors", "pt") as weights:
        names = set(weights.keys())

    assert "model.embed_tokens.weight" in names
    assert ("lm_head.weight" in names) == (not example_models.specification(name)[0]["tie_word_embeddings"])
    assert all(not weight.startswith(("model.visual", "model.language_model")) for weight in names)
    sister = example_models.make(example_models.SPECIFICATIONS[name]["like"], root)
    assert not list(sister.glob("*.safetensors"))


def test_a_folder_is_made_once(root):
    folder = example_models.make("tiny-qwen1.5-tied", root)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert example_models.make("tiny-qwen1.5-tied", root) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
