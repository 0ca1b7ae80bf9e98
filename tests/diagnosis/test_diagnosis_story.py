"""Prose: what it states, and the causes that follow."""

# ruff: noqa: RUF001 # Chinese has its own punctuation

# ruff: noqa: E501 # texts as people write them

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from evidence.bugs.corpus import COLLECTIONS
from samedevice.diagnosis import explain_text
from samedevice.diagnosis.paste._told import told_in
from samedevice.report import render

STORIES = COLLECTIONS[-1]
SITUATIONS = [entry for entry in STORIES.entries() if entry["situation"] is not None]
SOURCES = Path(__file__).parents[2] / "src" / "samedevice" / "diagnosis"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("embed_tokens is on cuda:1 and input_ids on cuda:0", [("embedding", "cuda:1"), ("ids", "cuda:0")]),
        ("past_key_value 在 cpu，key_states 在 cuda:0", [("cache", "cpu"), ("keys", "cuda:0")]),
        ("the labels go to GPU 2", [("labels", "cuda:2")]),
        ("embed_tokens 在 1 号卡", [("embedding", "cuda:1")]),
        ("nothing is anywhere", []),
    ],
)
def test_things_and_their_devices(text, places):
    assert [(role, device) for role, _, device in told_in(text).places] == places


def test_what_works_and_what_fails():
    told = told_in("1.8B, 4B and 7B all answer. The 0.5B one dies in the embedding.")
    assert (told.fails, told.works) == ((0.5,), (1.8, 4.0, 7.0))
    told = told_in("1.8B、4B 都能正常跑，只有 0.5B 不行")
    assert (told.fails, told.works) == ((0.5,), (1.8, 4.0))


@pytest.mark.parametrize(
    ("text", "launched"),
    [
        ("torchrun --nproc_per_node 8 train.py", True),
        ("torchrun --nproc_per_node=1 train.py", False),
        ("accelerate launch train.py", True),
        ("起 8 个进程", True),
        ("python train.py", False),
    ],
)
def test_launches(text, launched):
    assert told_in(text).launched is launched


@pytest.mark.parametrize("entry", SITUATIONS, ids=lambda entry: entry["id"])
def test_situations_get_their_advice(entry):
    finding = explain_text(STORIES.paste_of(entry))[0]
    advice = {
        "S1": "get_input_embeddings",
        "S2": "samedevice.align",
        "S3": "samedevice.align",
        "S4": "preflight",
        "S5": "guard_cache",
    }[entry["situation"]]
    assert finding.cause in {entry["root_cause"], *entry["also_acceptable"]}
    assert advice in render(finding.cure)
    assert advice in render(finding.cure, "zh")


def test_a_launch_alone_is_no_cause():
    text = "We start torchrun with 8 processes and device_map='auto' and everything works well since months."
    assert explain_text(text)[0].cause == "not-a-device-error"


NAMES = (
    "transformers|accelerate|diffusers|deepspeed|peft|trl|bitsandbytes|petals|torchmetrics|torcheval|ignite|"
    "liger|exllama|comfy|webui|a1111|verl|vllm|sglang|openrlhf|llava|minicpm|internvl|ovis|gptq|awq|compel|"
    "sd_embed|megatron|lightning|qwen|llama|mamba|fla/"
)


def test_no_sign_and_no_condition_knows_a_name():
    """Conditions are about messages, statements and functions, never about whose library or file it is."""
    found = []
    for path in [*SOURCES.glob("rules/*.py"), *SOURCES.glob("story/*.py"), SOURCES / "_source.py"]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _LOOKS:
                texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
                found += [(path.name, text) for text in texts if re.search(NAMES, str(text), re.IGNORECASE)]
    assert found == []


_LOOKS = {"line", "shown", "at", "inside", "anywhere", "said"}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "With --device cuda:2 our tracker stops with the same device error, with cuda:0 it "
            "works. Nothing else "
            "was changed between the two runs.",
            "hard-coded-device",
        ),
        ("指定 cuda:3 跑评测就报设备不一致，换成 cuda:0 就没问题，代码里别的都没改。", "hard-coded-device"),
        (
            "Our pooling is a custom CUDA kernel. With device = torch.device('cuda:1') it returns "
            "zeros, on cuda:0 all "
            "is right, and behind DDP as well.",
            "kernel-launched-on-current-device",
        ),
        (
            "On one GPU the answers are fine. As soon as the model is spread over three cards it "
            "writes garbage, "
            "without any error.",
            "hardware-or-driver",
        ),
        ("单卡推理正常，四张卡一起跑输出全是乱码，也不报错，换机器又好了。", "hardware-or-driver"),
        (
            "Eight ranks train with DDP, and nvidia-smi shows that every process also has 700 MiB of "
            "memory on GPU 0. "
            "What allocates it there?",
            "rank-device-not-set",
        ),
        (
            "The scheduler binds the cards, so every task gets a single GPU. The trainer still builds "
            "torch.device('cuda', local_rank), and on the second task that fails.",
            "device-ordinal-out-of-range",
        ),
        (
            'model = AutoModel.from_pretrained(name, device_map="auto").to("cuda") ends at once and '
            "says that parts "
            "are offloaded, though the card is empty.",
            "dispatched-model-moved",
        ),
        (
            "model = load_checkpoint_and_dispatch(model, folder, device_map='auto') and then a "
            "forward: expected all "
            "tensors to be on the same device, on two GPUs only.",
            "block-split-across-devices",
        ),
        (
            "A fresh run trains. When it is resumed, the first optimizer step stops with cuda:0 and "
            "cpu, the argument is "
            "one of the step counters.",
            "optimizer-state-on-other-device",
        ),
        (
            "Loaded with an automatic map, some layers are offloaded. A layer of ours calls F.linear "
            "with self.weight, "
            "which is on meta there, and fails.",
            "offload-hook-bypassed",
        ),
        (
            "The two devices error, cuda:0 and cpu, comes with --lowvram only. Without the option "
            "the same model is fine.",
            "weights-moved-away-by-manager",
        ),
        (
            "The calibration moves an argument when it is a tensor. Our blocks get a list of "
            "tensors, the list is passed "
            "on as it is and stays on the cpu, so it fails with cuda:0 and cpu.",
            "extra-input-on-wrong-device",
        ),
        (
            "On the first card the fused norm and the one of torch agree. On the second card the "
            "fused one returns zeros "
            "and nothing is raised.",
            "kernel-launched-on-current-device",
        ),
        (
            "Nine billion parameters, automatic map, two cards. It stops with cuda:0 and cuda:1, "
            "wherever I put the ids.",
            "block-split-across-devices",
        ),
        (
            "subgraph() dies, it says that devices differ. My edge_index is on cuda:0, and the "
            "node_mask is on cpu, it comes "
            "out of a transform.",
            "extra-input-on-wrong-device",
        ),
        (
            "Since last week sampling stops with the two devices error as soon as offloading is on. "
            "With 1.4.2 of the "
            "library there is no problem.",
            "library-version-regression",
        ),
    ],
)
def test_what_stories_state(text, cause):
    assert explain_text(text)[0].cause == cause


def test_a_quoted_error_does_not_hide_that_devices_met():
    """A dtype error beside it is not what such a story is about."""
    (finding,) = explain_text(
        "Either it says \"addmm_impl_cpu_\" not implemented for 'Half', or the weights are on the "
        "cpu and the inputs "
        "on cuda:0 and it dies. Only with offloading."
    )
    assert finding.verdict != "not-a-device-error"


def test_another_gpu_alone_is_no_cause():
    (finding,) = explain_text(
        "I run it with --device cuda:1 and training is slow, what can I do about the speed?"
    )
    assert finding.cause != "hard-coded-device"


def test_two_devices_without_an_error_are_no_cause():
    (finding,) = explain_text(
        "With an automatic map the layers are on cuda:0 and cuda:1, and it writes four tokens a "
        "second. How can I make "
        "it quicker?"
    )
    assert finding.verdict == "not-a-device-error"


def test_a_head_on_the_current_gpu_beside_a_model_that_is_spread():
    (finding,) = explain_text(
        'device_map="auto" on two 3090s. hidden = model.model(ids).last_hidden_state; logits = my_head(hidden), and '
        "my_head = nn.Linear(4096, 5).cuda(). It says expected all tensors to be on the same device, cuda:1 and cuda:0."
    )
    assert (finding.cause, finding.guilty) == ("hard-coded-device", "my_head")
    assert finding.cure is not None and finding.cure.key == "advice.part-to-what-it-reads"


def test_prose_beside_a_traceback_tells_what_the_traceback_leaves_open():
    traceback = (
        'Traceback (most recent call last):\n  File "train.py", line 83, in <module>\n    pred = net(img)\n'
        '  File "unet.py", line 61, in forward\n    x = torch.cat([skip, up], dim=1)\n'
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!\n"
    )
    assert explain_text(traceback)[0].cause == "undetermined"
    told = explain_text(f"{traceback}编码器放在 cuda:0,解码器放在 cuda:1,skip 是编码器的输出,求大佬看看")[0]
    assert (told.cause, told.confidence) == ("block-split-across-devices", "guess")


def test_the_machine_in_prose_makes_no_device_error_of_one_about_keys():
    (finding,) = explain_text(
        "RuntimeError: Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "fc.weight".\n\tUnexpected key(s) in state_dict: "module.fc.weight".\n'
        "模型保存的时候用的是 cuda:0 和 cuda:1 两张卡 DataParallel"
    )
    assert (finding.cause, finding.topic) == ("not-a-device-error", "state-dict")


def test_an_old_driver_comes_before_the_gpus_that_it_does_not_show():
    (finding, *_) = explain_text(
        "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).\n"
        "RuntimeError: No CUDA GPUs are available\n代码用到 cuda:0"
    )
    assert finding.cause == "hardware-or-driver"
    assert finding.cure is not None and finding.cure.key == "advice.driver-too-old"


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("torch.cat complains cuda:1, cuda:0. The projector sits on one of them.", ("cuda:1", "cuda:0")),
        ("拼接的时候报错 cuda:1，cuda:0。模型在两张卡上，不知道为什么会这样", ("cuda:1", "cuda:0")),
    ],
)
def test_two_devices_that_end_a_clause_are_a_pair(text, gpus):
    assert told_in(text).met == gpus
