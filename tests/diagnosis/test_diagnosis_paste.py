"""Reading pasted errors: every layout gives the same answer, nothing makes it fail or slow."""

from __future__ import annotations

import json
import random
import re
import string
import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samedevice.diagnosis import CAUSES, UNDETERMINED, explain_text
from samedevice.diagnosis.paste import read_paste
from samedevice.findings import explain_document
from samedevice.messages import languages
from samedevice.report import render, render_finding

SITE = "/home/user/venv/lib/python3.11/site-packages"
MESSAGE = "Expected all tensors to be on the same device, but found at least two devices, cuda:1 and cuda:0!"
PLAIN = f"""\
Traceback (most recent call last):
  File "/home/user/chat.py", line 30, in <module>
    model.generate(**inputs)
  File "{SITE}/torch/utils/_contextlib.py", line 116, in decorate_context
    return func(*args, **kwargs)
  File "{SITE}/transformers/models/llama/modeling_llama.py", line 651, in forward
    inputs_embeds = self.embed_tokens(input_ids)
                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/functional.py", line 2542, in embedding
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)
RuntimeError: {MESSAGE}
"""


def prefixed(prefix):
    return "".join(f"{prefix}{line}\n" for line in PLAIN.splitlines())


NOTEBOOK = f"""\
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
Cell In[26], line 4
      2 inputs = tokenizer(text)
      3
----> 4 model.generate(**inputs)

File ~/venv/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py:651, in LlamaModel.forward(self, input_ids)
    649 if inputs_embeds is None:
    650     pass
--> 651     inputs_embeds = self.embed_tokens(input_ids)
    652

RuntimeError: {MESSAGE}
"""  # noqa: E501  # a text, line by line
OLD_NOTEBOOK = f"""\
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
<ipython-input-7-4bb1e4> in <module>
----> 1 model.generate(**inputs)

{SITE}/transformers/models/llama/modeling_llama.py in forward(self, input_ids, attention_mask)
    650         if inputs_embeds is None:
--> 651             inputs_embeds = self.embed_tokens(input_ids)

RuntimeError: {MESSAGE}
"""
RICH = f"""\
╭───────────────────── Traceback (most recent call last) ─────────────────────╮
│ /home/user/chat.py:30 in <module>                                           │
│                                                                             │
│   29 inputs = tokenizer(text)                                               │
│ ❱ 30 model.generate(**inputs)                                               │
│                                                                             │
│ {SITE}/transformers/models/llama/modeling_llama.py:651 in forward │
│                                                                             │
│   650 if inputs_embeds is None:                                             │
│ ❱ 651     inputs_embeds = self.embed_tokens(input_ids)                      │
╰─────────────────────────────────────────────────────────────────────────────╯
RuntimeError: {MESSAGE}
"""
COLAB = f"""\
RuntimeError                              Traceback (most recent call last)
[<ipython-input-7-4bb1e4>](https://localhost:8080/#) in <cell line: 1>()
----> 1 model.generate(**inputs)

3 frames
[{SITE}/transformers/models/llama/modeling_llama.py](https://localhost:8080/#) in forward(self, input_ids)
    650         if inputs_embeds is None:
--> 651             inputs_embeds = self.embed_tokens(input_ids)

RuntimeError: {MESSAGE}
"""
FRAMES = PLAIN.splitlines()[1:-1]
LINES = PLAIN.splitlines()
LAYOUTS = {
    "Colab": COLAB,
    "Streamlit": f"RuntimeError: {MESSAGE}\nTraceback:\n\n"
    + "\n".join(line.removeprefix("  ") for line in FRAMES),
    "VS Code": re.sub(r"File (~/\S+?):(\d+), in", r"File [\1:\2](vscode-cell:?line=2), in", NOTEBOOK),
    "two ranks in one line": "".join(f"{line}{line}\n" for line in LINES),
    "rank tags in one line": "".join(f"[rank0]: {line} [rank1]: {line}\n" for line in LINES),
    "without line breaks": " ".join(PLAIN.split()),
    "wrapped between words": "\n".join(textwrap.wrap(PLAIN, 72)),
    "each line wrapped": "\n".join(part for line in LINES for part in textwrap.wrap(line, 60)),
    "cut at column 80": "\n".join(
        line[at : at + 80] for line in LINES for at in range(0, max(len(line), 1), 80)
    ),
    "quoted twice": prefixed("> > "),
    "bullets": prefixed("* "),
    "compose": prefixed("trainer-1  | "),
    "journal": prefixed("Nov 22 10:01:02 gpu01 python[1234]: "),
    "actor": prefixed("(RayTrainWorker pid=1234, ip=10.0.0.1) "),
    "numbered by task": prefixed("3: "),
    "numbered lines": "".join(f"{number:4d}  {line}\n" for number, line in enumerate(LINES, 1)),
    "box": prefixed("| "),
    "date with zone": prefixed("[2024-01-11T19:02:01,123+08:00][ERROR][worker] "),
    "no indentation": "\n".join(line.strip() for line in LINES),
    "HTML": "<pre>" + PLAIN.replace("<module>", "&lt;module&gt;").replace('"', "&quot;") + "</pre>",
    "curly quotes": PLAIN.replace('"', "\u201d"),
    "newest first": f"RuntimeError: {MESSAGE}\nTraceback (most recent call first):\n"
    + "\n".join("\n".join(FRAMES[at:end]) for at, end in ((7, 9), (4, 7), (2, 4), (0, 2))),
    "plain": PLAIN,
    "rank": prefixed("[rank3]: "),
    "default rank": prefixed("[default3]:"),
    "date and level": prefixed("2024-01-11 19:02:01,123 - ERROR - "),
    "loguru": prefixed("2024-01-11 19:02:01 | ERROR | stderr | "),
    "kubernetes": prefixed("2024-01-11T19:02:01.123456789Z "),
    "quoted mail": prefixed("> "),
    "windows lines": PLAIN.replace("\n", "\r\n"),
    "colours": PLAIN.replace("RuntimeError", "\x1b[1;35mRuntimeError\x1b[0m").replace(
        "line 651", "line \x1b[35m651\x1b[0m"
    ),
    "colours without escapes": PLAIN.replace("RuntimeError", "[1;35mRuntimeError[0m"),
    "cut at the top": PLAIN[PLAIN.index("    inputs_embeds") :],
    "notebook": NOTEBOOK,
    "old notebook": OLD_NOTEBOOK,
    "rich": RICH,
    "wrapped message": PLAIN.replace("but found at", "but found\nat"),
    "something behind it": PLAIN + "\nAny idea? I use two A100.\n",
    "error named first": "# Error report\n- **Exception Message:** "
    + f"{MESSAGE}\n\n## Stack Trace\n```\n{PLAIN.partition('RuntimeError')[0]}```\n",
    "blank lines between frames": PLAIN.replace("\n  File", "\n\n  File"),
    "in a string": json.dumps({"name": "RuntimeError", "message": MESSAGE, "stack": PLAIN}),
    "Python 3.13": PLAIN.replace("    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^", "    ~~~~~~~~~~~~~~~~^^^^^^^^^^^"),
    "bold in Markdown": PLAIN.replace("RuntimeError", "**_RuntimeError"),
    "notebook file": json.dumps(
        {
            "cells": [
                {
                    "outputs": [
                        {
                            "output_type": "error",
                            "ename": "RuntimeError",
                            "evalue": MESSAGE,
                            "traceback": NOTEBOOK.splitlines(),
                        }
                    ]
                }
            ]
        }
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_answer(layout):
    finding = explain_text(LAYOUTS[layout])[0]
    assert finding.cause == "input-not-on-embedding-device"
    assert finding.confidence == "likely"
    assert [operand.device for operand in finding.operands] == ["cuda:1", "cuda:0"]
    assert finding.message == MESSAGE
    assert "self.embed_tokens(input_ids)" in finding.at.code


@pytest.mark.parametrize("layout", ["plain", "rank", "loguru", "notebook", "rich", "colours"])
def test_frames(layout):
    report = read_paste(LAYOUTS[layout])[0]
    at = report.at
    assert (at.file, at.line) == ("transformers/models/llama/modeling_llama.py", 651)
    assert at.function.endswith("forward")
    assert report.exception == "RuntimeError"


def test_ranks_together():
    lines = [
        f"[rank{rank}]: {line}" for line in PLAIN.splitlines() for rank in (0, 1, 5)
    ]  # interleaved, as they arrive
    (report,) = read_paste("\n".join(lines))
    assert report.ranks == (0, 1, 5)
    assert report.at.line == 651


def test_new_wording():
    text = (
        "RuntimeError: Expected all tensors to be on the same device, but got mat2 is on cpu, different from "
        "other tensors on cuda:0 (when checking argument in method wrapper_CUDA_mm)"
    )
    (report,) = read_paste(text)
    assert (report.kind, report.devices, report.argument, report.op) == (
        "argument-device",
        ("cpu", "cuda:0"),
        "mat2",
        "wrapper_CUDA_mm",
    )
    assert report.message == text.removeprefix("RuntimeError: ")


def test_several_errors_last_one_first():
    text = f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n\n{PLAIN}"
    last, *others = explain_text(text)
    assert last.kind == "same-device"
    assert [finding.kind for finding in others] == ["out-of-memory"]
    assert any("out-of-memory" in render(note) for note in last.notes)


def test_versions():
    report = read_paste(PLAIN + "transformers==4.50.0, torch 2.6.0+cu124, accelerate: 1.2.1")[0]
    assert report.versions == {"transformers": "4.50.0", "torch": "2.6.0+cu124", "accelerate": "1.2.1"}
    report = read_paste(
        PLAIN + "- `Accelerate` version: 0.27.0\n- PyTorch version (GPU?): 2.3.0+cu121 (True)\n"
    )[0]
    assert report.versions == {"accelerate": "0.27.0", "torch": "2.3.0+cu121"}


def test_windows_paths():
    text = PLAIN.replace(
        f"{SITE}/transformers/models/llama",
        r"C:\\Python\\Lib\\site-packages\\transformers\\models\\llama".replace("\\\\", "\\"),
    )
    text = text.replace("llama/modeling_llama", "llama\\modeling_llama")
    assert read_paste(text)[0].at.file == "transformers/models/llama/modeling_llama.py"


def test_known_release_is_offered():
    text = PLAIN.replace("llama/modeling_llama.py", "qwen2_5_vl/modeling_qwen2_5_vl.py").replace(
        "in forward", "in get_rope_index"
    )
    (finding, *_) = explain_text(text)
    assert any("pip install transformers==4.52.4" in render(fix.title) for fix in finding.fixes)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("You can't move a model that has some modules offloaded to cpu or disk.", "dispatched-model-moved"),
        ("RuntimeError: CUDA error: invalid device ordinal", "device-ordinal-out-of-range"),
        (
            "DGLError: Check failed: e == cudaSuccess: CUDA: cudaErrorInvalidDevice",
            "device-ordinal-out-of-range",
        ),
        ("ValueError: lm_head.weight doesn't have any device set.", "device-map-incomplete-or-wrong"),
    ],
)
def test_last_line_alone(text, cause):
    (finding,) = explain_text(text)
    assert (finding.cause, finding.confidence) == (cause, "certain")
    assert finding.reasons
    assert render(finding.cure, "zh") != render(finding.cure)


def test_a_generators_state_on_a_gpu():
    """The type may be the wrong one, too, so it is not certain."""
    (finding, *_) = explain_text("TypeError: RNG state must be a torch.ByteTensor")
    assert (finding.cause, finding.confidence) == ("checkpoint-map-location", "likely")


def test_nothing_recognised():
    for text in ("", "\n\n", "hello"):
        (finding,) = explain_text(text)
        assert (finding.cause, finding.verdict) == (UNDETERMINED, "cannot-tell")
        assert finding.cure
        assert finding.ask


PIECES = st.sampled_from(
    [
        "Traceback (most recent call last):\n",
        '  File "x.py", line 3, in f\n',
        "    cos, position_ids\n",
        MESSAGE,
        "[rank0]: ",
        "\x1b[31m",
        "Expected all tensors to be on the same device",
        "cuda:0",
        "│ ",
        "❱ 12 x\n",
        "----> 1 f()\n",
        "Cell In[1], line 2\n",
        "\n",
        "\r",
        "2024-01-11 19:02:01 | ERROR | ",
        '{"cells": [',
        "weight is on the meta device",
        "Caught RuntimeError in replica 0 on device 0",
        "E   ",
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.text(max_size=400), st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=40).map("".join)
    )
)
def test_any_text_is_explained(text):
    slugs = {rule.name for rule in CAUSES}
    findings = explain_text(text)
    assert findings
    assert {finding.cause for finding in findings} <= slugs
    for language in languages():
        json.dumps(explain_document([render_finding(finding, language) for finding in findings]))


def noise(kind):
    generator = random.Random(7)
    return {
        "printable": lambda: "".join(generator.choices(string.printable, k=1_000_000)),
        "one letter": lambda: "a" * 1_000_000,
        "underscores": lambda: "_" * 1_000_000,
        "blank lines": lambda: "\n" * 1_000_000,
        "colours": lambda: "\x1b[" * 500_000,
        "prefixes": lambda: "[rank0]: " * 110_000,
        "the message": lambda: (MESSAGE + "\n") * 9_000,
        "tracebacks": lambda: PLAIN * 1_000,
        "brackets": lambda: '{"cells": ' + "[" * 1_000_000,
        "dotted": lambda: "a." * 500_000 + " is on the meta device",
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    [
        "printable",
        "one letter",
        "underscores",
        "blank lines",
        "colours",
        "prefixes",
        "the message",
        "tracebacks",
        "brackets",
        "dotted",
    ],
)
def test_a_megabyte_takes_no_minutes(kind):
    text = noise(kind)
    started = time.process_time()
    explain_text(text)
    assert (
        time.process_time() - started < 5
    )  # below 1 on an idle core; a pattern that tries all ways takes minutes


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
    ],
)
def test_a_lack_of_cuda_is_not_blamed_on_the_script_with_certainty(text):
    """A torch without CUDA, or code that names CUDA where none is meant to be: the line alone cannot tell."""
    (finding,) = explain_text(text)
    assert (finding.cause, finding.confidence) == ("hardware-or-driver", "likely")
    assert "hard-coded-device" in finding.candidates


def test_where_cuda_is_not_meant_to_be_code_names_it():
    (finding,) = explain_text("On my Mac with mps\nAssertionError: Torch not compiled with CUDA enabled")
    assert finding.cause == "hard-coded-device"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Detected CUDA_VISIBLE_DEVICES=1,3 but ignoring it because one or several of --include "
            "were used.",
            "launch-config-contradiction",
        ),
        (
            "AttributeError: 'DataParallel' object has no attribute 'config'",
            "data-parallel-replica-device",
        ),
        (
            '  File "score.py", line 9, in update\n    self.hits += hits\n'
            "RuntimeError: Expected all tensors to be on the same device, but found at least two "
            "devices, cuda:0 and cpu!",
            "metric-state-device",
        ),
        (
            '  File "lib.py", line 9, in embedding\n    return torch.embedding(weight, input, '
            "padding_idx)\n"
            "RuntimeError: Expected object of backend CPU but got backend CUDA for argument #3 'index'",
            "module-left-on-other-device",
        ),
        (
            ">>> v.to('cuda:1')\ntensor([0., 0.], device='cuda:1')\n>>> v\ntensor([3., 4.], "
            "device='cuda:0')\n"
            "what is wrong with this machine, it has four cards",
            "hardware-or-driver",
        ),
        ("ValueError: No slot '3' specified on host 'node7'", "launch-config-contradiction"),
        (
            "AssertionError: world_size (8) must not exceed the number of available GPUs (4)",
            "processes-exceed-gpus",
        ),
        (
            "ValueError: lm_head.weight is on the meta device, we need a `value` to put in on 0.",
            "meta-tensor-not-materialized",
        ),
        (
            "UserWarning: You are calling .generate() with the `input_ids` being on a device type "
            "different than your "
            "model's device. `input_ids` is on cuda, whereas the model is on cpu.\n"
            "RuntimeError: Expected all tensors to be on the same device, but found at least two "
            "devices, cpu and "
            "cuda:0! (when checking argument for argument index in method wrapper_CUDA__index_select)",
            "input-not-on-embedding-device",
        ),
    ],
)
def test_messages_with_one_cause(text, cause):
    assert explain_text(text)[0].cause == cause


def test_the_oldest_wording_is_about_devices():
    (finding,) = explain_text(
        "RuntimeError: Assertion `THCTensor_(checkGPU)(state, 2, self, src)' failed.  at Pointwise.cu:99"
    )
    assert (finding.code, finding.verdict) == ("SD101", "device-error")


def test_a_frame_whose_beginning_was_cut_off():
    (finding,) = explain_text(
        '/opt/env/lib/python3.11/site-packages/kit/loss.py", line 12, in token_loss\n'
        "    picked = logp.gather(-1, labels.unsqueeze(-1))\n"
        "RuntimeError: Expected all tensors to be on the same device, but found at least two "
        "devices, cuda:3 and "
        "cuda:0! (when checking argument for argument index in method wrapper_CUDA_gather)"
    )
    assert finding.cause == "loss-or-label-on-other-device"
    assert finding.at is not None


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("Expected tensor on cuda:1 but found tensor on cuda:0", {"cuda:0", "cuda:1"}),
        ("Expected all_gather output tensor on CUDA but found tensor on cpu", {"cpu", "cuda"}),
    ],
)
def test_what_collectives_say_from_torch_2_15_on(text, devices):
    (finding,) = explain_text(f"RuntimeError: {text}")
    assert finding.code == "SD109"
    assert {each.device for each in finding.operands} == devices


@pytest.mark.parametrize("language", languages())
def test_what_a_message_does_not_name_is_not_asked_for(language):
    text = "ValueError: Calculated loss must be on the original device: cuda:0 but device in use is cuda:1\n"
    (finding,) = explain_text(text)
    assert finding.cause == "loss-or-label-on-other-device"
    assert [(each.name, each.device) for each in finding.operands] == [("?", "cuda:0"), ("loss", "cuda:1")]
    assert not any("?" in render(reason, language) for reason in finding.reasons)


HOST_ARGUMENT = (
    "RuntimeError: Tensor for argument #3 'mat2' is on CPU, but expected it to be on GPU (while checking "
    "arguments for addmm)"
)
HOST_PRODUCT = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and "
    "cpu! (when checking argument for argument mat2 in method wrapper_CUDA_{op})"
)
TWO_GPUS = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:1 and "
    "cuda:0! (when checking argument for argument mat2 in method wrapper_CUDA_bmm)"
)
MPS = "RuntimeError: Placeholder storage has not been allocated on MPS device!"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Everything was asked to be on the host: what is on a GPU is the odd one.
        (f"python tag.py --no_cuda --epochs 2\n{HOST_ARGUMENT}", "hard-coded-device"),
        (f"other = Reader(use_gpu=False)\n{HOST_ARGUMENT}", "module-left-on-other-device"),
        (f"python tag.py --epochs 2\n{HOST_ARGUMENT}", "module-left-on-other-device"),
        (f"usage: tag.py [--no_cuda] [--epochs N]\n{HOST_ARGUMENT}", "module-left-on-other-device"),
        (f"I never gave it --no_cuda.\n{HOST_ARGUMENT}", "module-left-on-other-device"),
        # A kernel that is there for a GPU alone.
        (
            'File "sample.py", line 9, in forward\n    out = _ext.furthest_point_sampling(xyz, n)\n'
            'RuntimeError: falseINTERNAL ASSERT FAILED at "sampling.cpp":83, please report a bug to PyTorch. '
            "CPU not supported",
            "input-not-on-embedding-device",
        ),
        # What a lookup on Apple's GPU meets is on the host; of code that is shown, what nothing moves.
        (
            'File "functional.py", line 2210, in embedding\n    return torch.embedding(weight, input)\n'
            + MPS,
            "input-not-on-embedding-device",
        ),
        (
            "```\nmodel = Speech.from_pretrained('a/b').to(device)\nread = Reader.from_pretrained('a/b')\n"
            f"given = read('Hello')\naudio = model.generate(**given)\n```\n{MPS}",
            "input-not-on-embedding-device",
        ),
        # What is done with the rows that an index read is not what was wrong with the index.
        (
            'File "run.py", line 300, in show\n    light = self.data.lights[rows, columns].cuda()\n'
            "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
            "tensor-created-on-wrong-device",
        ),
        # A table that is kept by a size alone is on the GPU of its first use.
        (
            'File "warp.py", line 39, in warp\n    grid = GRIDS[str(flow.size())] + flow\n'
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
            "cuda:0 and cuda:1!",
            "tensor-created-on-wrong-device",
        ),
        # Its own sentence in bold letters is the error.
        (
            "it says\n**UnboundLocalError: local variable 'clip' referenced before assignment**",
            "not-a-device-error",
        ),
        # Words of torch from before 1.5 name no operator; `mat2` is of a product.
        (
            'File "hand.py", line 182, in forward\n    posed = self.joints(shape)\n'
            "RuntimeError: Expected object of backend CUDA but got backend CPU for argument #2 'mat2'",
            "module-left-on-other-device",
        ),
        # An embedding's weight that computes the scores.
        (
            'File "lm.py", line 74, in forward\n    scores = torch.einsum("bld,vd->blv", states, '
            "self.decoder.embed_words.weight)\n" + TWO_GPUS,
            "lm-head-or-tied-weight-split",
        ),
        (
            'File "score.py", line 9, in count\n    if pred_class not in target_classes:\n'
            "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, "
            "cuda:0 and cpu!",
            "loss-or-label-on-other-device",
        ),
        # Told in words.
        (
            f"The small model is forced to 'cuda:0', the large one is spread by itself. {TWO_GPUS}",
            "hard-coded-device",
        ),
        (
            "RuntimeError: GET was unable to find an engine to execute this computation. The helper creates "
            "its tensors on self._device instead of the device of its input.",
            "tensor-created-on-wrong-device",
        ),
    ],
)
def test_what_decides_stands_beside_the_message(text, cause):
    finding, *_ = explain_text(text)
    assert finding.cause == cause


def test_fine_tuning_is_nothing_that_works():
    error = HOST_PRODUCT.format(op="mm")
    told, other = (
        explain_text(f"{text}. {error}")[0].cause
        for text in ("It is fine without LoRA", "Full fine-tuning without LoRA")
    )
    assert told == "adapter-weights-on-other-device"
    assert other != told


def test_code_that_is_commented_out_says_nothing():
    error = HOST_PRODUCT.format(op="bmm")
    code = "model = load(\n    path,\n    {}device_map='auto',\n)\nmodel.quantize(tokenizer)\n"
    told, silent = (explain_text(f"{code.format(each)}{error}")[0] for each in ("", "# "))
    assert told.cause == "device-map-incomplete-or-wrong"
    assert silent.cause != told.cause
