"""One fact of a text at a time: texts in which it occurs, and texts in which it is absent."""

# ruff: noqa: E501, RUF001 # a text is one line, and Chinese has its own punctuation

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from samedevice.diagnosis import explain_text
from samedevice.diagnosis.paste._tried import without_attempts

TWO = "Expected all tensors to be on the same device, but found at least two devices, "


def linear(devices: str, argument: str, op: str = "addmm", statement: str = "y = self.proj(h)") -> str:
    """A traceback that ends in a linear layer."""
    return (
        "Traceback (most recent call last):\n"
        f'  File "/home/user/app/net.py", line 31, in forward\n    {statement}\n'
        f"RuntimeError: {TWO}{devices}! (when checking argument for argument {argument} in method wrapper_CUDA_{op})\n"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (linear("cpu and cuda:0", "mat2", "mm"), "input-not-on-embedding-device"),
        (linear("cuda:0 and cpu", "mat1"), "input-not-on-embedding-device"),
        (linear("cuda:0 and cpu", "mat2", "mm"), "module-left-on-other-device"),
        (linear("cpu and cuda:0", "mat1"), "module-left-on-other-device"),
        (linear("cpu and cuda:0", "weight", "_native_layer_norm"), "input-not-on-embedding-device"),
        (linear("cuda:0 and cpu", "weight", "_cudnn_convolution"), "module-left-on-other-device"),
    ],
)
def test_which_side_of_a_layer_is_on_the_host(text, cause):
    assert explain_text(text)[0].cause == cause


def test_a_product_that_is_written_out_has_no_sides():
    finding = explain_text(linear("cpu and cuda:0", "mat2", "mm", "s = torch.matmul(self.bank, x)"))[0]
    assert finding.cause != "input-not-on-embedding-device"


def indexed(statement: str, device: str = "cpu") -> str:
    """A traceback that ends where a tensor is indexed."""
    return (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 80, in <module>\n    loss = compute_loss(out, batch)\n'
        f'  File "app/assign.py", line 12, in assign\n    {statement}\n'
        "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor "
        f"({device})\n"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (indexed("grid = grid[keep]"), "tensor-created-on-wrong-device"),
        (indexed("a, b = anchors[j], t[j]"), "tensor-created-on-wrong-device"),
        (indexed("w = self.table[rank]"), "tensor-created-on-wrong-device"),
        (indexed("labels = labels[keep]"), "loss-or-label-on-other-device"),
        (indexed("cos = cos[position_ids]"), "rope-table-on-wrong-device"),
    ],
)
def test_an_indexed_tensor_on_the_host(text, cause):
    assert explain_text(text)[0].cause == cause


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("total += part.cpu()", "tensor-created-on-wrong-device"),
        ("x = a * b.to('cpu')", "tensor-created-on-wrong-device"),
        ("acc = torch.cat([acc, new.cpu()])", "tensor-created-on-wrong-device"),
        ("loss = criterion(out.cpu(), labels)", "loss-or-label-on-other-device"),
    ],
)
def test_a_statement_that_sends_an_operand_to_the_host(statement, cause):
    text = (
        f'Traceback (most recent call last):\n  File "run.py", line 9, in step\n    {statement}\nRuntimeError: '
        f"{TWO}cuda:0 and cpu!\n"
    )
    assert explain_text(text)[0].cause == cause


SCRIPTED = """RuntimeError: The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "/srv/app/cell.py", line 51, in step
    def step(self, x, carry):
        h = F.layer_norm(x, (x.shape[-1],))
        carry = torch.cat((carry, h[:-1]))
                ~~~~~~~~~ <--- HERE
        k = h * self.mix
        return k, carry
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0! \
(when checking argument for argument tensors in method wrapper_CUDA_cat)
"""


def test_torchscript_marks_the_statement_behind_it():
    finding = explain_text(SCRIPTED)[0]
    assert finding.at is not None and finding.at.code == "carry = torch.cat((carry, h[:-1]))"
    assert finding.cause == "cache-or-beam-state-on-wrong-device"
    without = SCRIPTED.replace("carry = torch.cat((carry, h[:-1]))", "k = h * self.mix + self.bias")
    assert explain_text(without)[0].cause != "cache-or-beam-state-on-wrong-device"


ASSERT = "RuntimeError: CUDA error: device-side assert triggered"


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        (f"Assertion `t >= 0 && t < n_classes` failed.\n{ASSERT}", "likely"),
        (f"Assertion `srcIndex < srcSelectDimSize` failed.\n{ASSERT}", "likely"),
        (
            f'  File "train.py", line 3, in step\n    loss = F.nll_loss(out, y)\n{ASSERT}',
            "likely",
        ),
        (f"Training dies in the first epoch, one card only:\n{ASSERT}", "guess"),
        (f"Assertion `input_val >= zero && input_val <= one` failed.\n{ASSERT}", "guess"),
    ],
)
def test_a_check_in_a_kernel_is_about_an_index_or_values(text, confidence):
    finding = explain_text(text)[0]
    assert (finding.verdict, finding.confidence) == ("not-a-device-error", confidence)
    assert finding.topic in ("index", "numbers")


def test_a_bare_check_in_a_kernel_on_several_gpus_stays_open():
    finding = explain_text(f"One GPU order gives a loss of 3, another order of the same GPUs: {ASSERT}")[0]
    assert (finding.cause, finding.confidence) == ("hardware-or-driver", "guess")


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        (
            "Moving the quantised layer to the cpu and back to cuda breaks it: a shape mismatch in matmul.",
            "shape",
        ),
        ("After padding the batch the encoder says that the sizes do not match, whatever I pass.", "shape"),
        ("微调时报维度不匹配，输入是 512，模型要 768，改了 config 也不行。", "shape"),
        (
            "The checkpoint cannot be loaded, there are unexpected keys in it, all begin with module.",
            "state-dict",
        ),
        ("With bf16 on it stops with a dtype mismatch in the attention, without it all is fine.", "dtype"),
        ("It runs out of memory after some hundred steps although the batch is one.", "out-of-memory"),
        ("一张 24G 的卡跑 13B，加载到一半就爆显存了，有什么办法？", "out-of-memory"),
        (
            "There is no error, but the cards are idle most of the time and an epoch takes far too long.",
            "speed",
        ),
    ],
)
def test_prose_about_something_else(text, topic):
    finding = explain_text(text)[0]
    assert (finding.verdict, finding.topic) == ("not-a-device-error", topic)
    assert (finding.code == "SD104") is (topic == "out-of-memory")


@pytest.mark.parametrize(
    "text",
    [
        "First a shape mismatch, which I solved, and now tensors are on different devices, cuda:0 and cpu.",
        "generate stops, the mask and the indices are not on one device, with sizes that are all right.",
        "爆显存之后我把模型放到两张卡上，现在报张量不在同一个设备上。",
    ],
)
def test_devices_that_met_are_not_something_else(text):
    assert explain_text(text)[0].verdict != "not-a-device-error"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "RuntimeError: CUDA error: no kernel image is available for execution on the device",
            "hardware-or-driver",
        ),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
            "hardware-or-driver",
        ),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "hardware-or-driver"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "not-a-device-error"),
        (
            "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.",
            "not-a-device-error",
        ),
        ("RuntimeError: cuda runtime error (2) : out of memory at THCStorage.cu:58", "not-a-device-error"),
        (
            "RuntimeError: expected device cuda:0 and dtype Float but got device cuda:0 and dtype Half",
            "not-a-device-error",
        ),
        (
            "NotImplementedError: There were no tensor arguments to this function. Available functions are [CPU, CUDA]",
            "not-a-device-error",
        ),
    ],
)
def test_messages_of_the_machine_and_of_others(message, cause):
    assert explain_text(message)[0].cause == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # the table of positions
        (
            "The hook puts activations on cuda:1 and rotary_emb was moved to cuda:0, so it stops with two devices.",
            "rope-table-on-wrong-device",
        ),
        ("inv_freq 还在 cpu 上，query 在 cuda:0，前向时报设备不一致。", "rope-table-on-wrong-device"),
        # quantised state
        (
            "A model in 8 bit runs on the first GPU. When I move it to cuda:1, quant_state.code is still on cuda:0.",
            "quantized-state-on-other-device",
        ),
        (
            "量化后的模型换到另一张卡上就报设备不一致，报错里提到 scales 和 qzeros。",
            "quantized-state-on-other-device",
        ),
        (
            "Calibrating layer by layer stops at layer 12: two devices, cuda:0 and cuda:1. 4 bit, group size 128.",
            "quantized-state-on-other-device",
        ),
        # ranks
        (
            "torchrun with four processes. Rank 2 says cuda:2 and cuda:0 were found, each rank names its own GPU.",
            "rank-device-not-set",
        ),
        (
            "With srun it fails at the first step, found cuda:0 and cuda:1. Started by torchrun the very same thing "
            "works.",
            "launch-variable-not-exported",
        ),
        (
            "deepspeed 起 4 个进程，rank 3 报 cuda:3 和 cuda:0 不一致，其他进程也是各报各的卡。",
            "rank-device-not-set",
        ),
        # offloading
        (
            "pipe.enable_sequential_cpu_offload() works. A second pipe made of its components fails with the same "
            "device error.",
            "offload-hook-bypassed",
        ),
        (
            "开了 cpu offload 之后直接调用 model.encoder 就报设备不一致，走 forward 没问题。",
            "offload-hook-bypassed",
        ),
        # the default device
        (
            'After torch.set_default_device("cuda") the loader dies, the sampler and the indices are not on one device.',
            "generator-or-default-device",
        ),
        (
            "脚本开头设了 torch.set_default_device('cuda')，数据加载时报设备不一致。",
            "generator-or-default-device",
        ),
        # a map under a launcher
        (
            "Started by accelerate launch with two processes, the model gets a device_map in the loader, and the first "
            "step raises the two devices error.",
            "device-map-in-multi-process-launch",
        ),
    ],
)
def test_facts_of_stories(text, cause):
    assert explain_text(text)[0].cause == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Version 3.0.0rc1 of the toolbox. Our own model trains badly and found cuda:0 and cpu in one step, why?",
            "library-version-regression",
        ),
        (
            "Python 3.10, CUDA 11.8, one 4090. The forward works on cpu and found two devices, cuda:0 and cpu, here.",
            "library-version-regression",
        ),
        (
            "A quantised model answers well on both cards, and I would like it to be quicker than 12 tokens/s.",
            "quantized-state-on-other-device",
        ),
        (
            "Each of my four processes uses device_map={'': local_rank}, torchrun, and found cuda:0 and cpu in the loss.",
            "device-map-in-multi-process-launch",
        ),
        (
            "torchrun on four cards stops with cuda:0 and cpu, the targets are on the cpu.",
            "rank-device-not-set",
        ),
        (
            "Is it normal that an offloaded model is ten times slower? Nothing fails, it just takes its time.",
            "offload-hook-bypassed",
        ),
    ],
)
def test_facts_that_are_absent(text, cause):
    assert explain_text(text)[0].cause != cause


WRITTEN = json.loads((Path(__file__).parent / "texts_of_users.json").read_text("utf-8"))
"""Stories and pastes with the causes that a careful reader may name; all were labelled before they were asked.

`never` has causes that the words sound like and that it is not; of a text with `guess` no more is known.
"""


@pytest.mark.parametrize("each", WRITTEN, ids=[str(number) for number in range(len(WRITTEN))])
def test_texts_as_users_write_them(each):
    finding = explain_text(each["text"])[0]
    assert finding.cause in each.get("causes", [finding.cause])
    assert finding.cause not in each.get("never", [])
    assert finding.confidence == "guess" or not each.get("guess")


def test_no_more_is_told_than_is_known():
    text = (
        "Found at least two devices, cuda:0 and cuda:1. Please help, it is urgent, I have tried everything."
    )
    assert explain_text(text)[0].confidence == "guess"


@pytest.mark.parametrize("word", ["a_" * 5000, "x" * 10000])
def test_a_very_long_word_is_read_quickly(word):
    begun = time.process_time()
    explain_text(f"The same device error is {word}")
    assert time.process_time() - begun < 3


@pytest.mark.parametrize(
    ("text", "gone", "kept"),
    [
        (
            "IOMMU is off in the BIOS already, that changed nothing. It says cuda:1 and cuda:0.",
            "IOMMU",
            "cuda:1",
        ),
        ("I went back to 4.38, no change. The mask is on the cpu.", "4.38", "mask"),
        ("I tried A=1, B=2 and C=3 in turn. It hangs.", "B=2", "hangs"),
        ("换回旧版本 4.40 也一样，报 cuda:0 和 cpu。", "4.40", "cuda:0"),
        ("NCCL_P2P_DISABLE=1 试过了，没用。单卡正常。", "P2P", "单卡正常"),
        ("First I tried 2.4, which crashed too. Then I pinned 2.2 and it works.", "2.4", "2.2"),
    ],
)
def test_what_was_tried_in_vain_is_left_out(text, gone, kept):
    left = without_attempts(text)
    assert len(left) == len(text)
    assert gone not in left
    assert kept in left


@pytest.mark.parametrize(
    "text",
    [
        "I tried num_beams=1 and then it works.",
        "With --device cuda:2 it stops with the same device error, with cuda:0 it works.",
        "CUDA out of memory. Tried to allocate 2.50 GiB",
        "RuntimeError: Trying to backward through the graph a second time",
        "换成旧版本 4.40 就好了，试过两次",
    ],
)
def test_what_helped_or_was_no_attempt_stays(text):
    assert without_attempts(text) == text


TRITON = "ValueError: Pointer argument (at 0) cannot be accessed from Triton (cpu tensor?)"


@pytest.mark.parametrize(
    ("code", "cause", "guilty"),
    [
        ("net = Net.from_pretrained(p)\ny = net(x)", "module-left-on-other-device", "net"),
        ("net = Net.from_pretrained(p).cuda()\ny = net(x)", "input-not-on-embedding-device", "x"),
        (
            "net = load_model(p)\nnet = torch.compile(net)\nnet(x.cuda())",
            "module-left-on-other-device",
            "net",
        ),
        ("net = Net(3)\nnet.to(device)\nnet(x.to(device))", "kernel-launched-on-current-device", None),
        ("net = Net(3, device=device)\nnet(x.to(device))", "kernel-launched-on-current-device", None),
        ("net = Net(3)\nnet = accelerator.prepare(net)\nnet(x)", "kernel-launched-on-current-device", None),
        ("y = net(x)", "kernel-launched-on-current-device", None),
    ],
)
def test_what_the_shown_code_never_moves(code, cause, guilty):
    frames = 'Traceback (most recent call last):\n  File "/v/site-packages/triton/jit.py", line 3, in run\n    kernel.run()\n'
    for text in (
        f"{code}\n{TRITON}\nThis is the whole of it, is it a bug?",
        f"{code}\nthat is all of it, is it a bug?\n{frames}{TRITON}",
    ):
        finding = explain_text(text)[0]
        assert (finding.cause, finding.guilty) == (cause, guilty)
