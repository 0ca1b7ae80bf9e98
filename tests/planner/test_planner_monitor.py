"""Peaks of a run beside the prediction."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice.machines import blas_workspace, parse_machine
from samedevice.planner import Training, TrainingShape, training_memory

GIB = 1 << 30


def test_a_line_for_the_first_step_and_then_for_each_second_one():
    lines = []
    with sd.machine("2x24GB"), sd.monitor(predicted=GIB, every=2, write=lines.append) as watch:
        for step in range(4):
            torch.zeros((step + 1) * GIB, dtype=torch.uint8, device="cuda:1")
            watch.step()
    assert lines == [
        "step 1  cuda:1  peak 1.0 GiB, reserved 1.0 GiB; predicted 1.0 GiB (+0.0%)",
        "step 3  cuda:1  peak 3.0 GiB, reserved 6.0 GiB; predicted 1.0 GiB (-66.7%)",
    ]
    assert [reading.step for reading in watch.readings] == [1, 3]


def test_without_a_prediction_peaks_alone():
    lines = []
    with sd.machine("1x24GB"), sd.monitor(write=lines.append, language="zh") as watch:
        torch.zeros(GIB, dtype=torch.uint8, device="cuda")
        watch.step()
    assert lines == ["第 1 步  cuda:0  峰值 1.0 GiB，保留 1.0 GiB"]  # noqa: RUF001 # Chinese punctuation
    assert watch.readings[0].error is None


def test_what_ran_out_of_memory_leaves_its_peak():
    with (
        sd.machine("1x4GB"),
        pytest.raises(torch.OutOfMemoryError),
        sd.monitor(write=lambda line: None) as watch,
    ):
        kept = [torch.zeros(GIB, dtype=torch.uint8, device="cuda") for _ in range(9)]
        del kept
    assert watch.readings[0].allocated == 4 * GIB


def test_before_any_gpu_is_used_it_is_silent():
    with sd.machine("1x24GB"), sd.monitor() as watch:
        watch.step()
    assert watch.readings == []


def test_it_hooks_nothing():
    with sd.machine("1x24GB"):
        model = nn.Linear(8, 8, device="cuda")
        with sd.monitor(every=1000, write=lambda line: None):
            assert not model._forward_hooks
            assert not model._forward_pre_hooks


def test_every_is_positive():
    with pytest.raises(ValueError, match="every"):
        sd.monitor(every=0)


def test_the_trainer_s_callback(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    sizes = {
        "hidden_size": 512,
        "intermediate_size": 1408,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "vocab_size": 32000,
    }
    training = Training(precision="fp32", context=128, micro_batch=2)
    with sd.machine("1x24GB"):
        model = LlamaForCausalLM(LlamaConfig(**sizes, use_cache=False))
        machine = parse_machine("1x24GB")
        predicted = training_memory(TrainingShape.from_module(model), machine, training)
        workspaces = 2 * blas_workspace(machine.gpus[0])  # of this thread and of autograd's
        watch = sd.monitor(predicted.peak + workspaces, write=lambda line: None)
        arguments = TrainingArguments(
            str(tmp_path), max_steps=3, per_device_train_batch_size=2, report_to=[], save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True, max_grad_norm=0.0, optim="adamw_torch_fused",  # the default from torch 2.8 on
        )  # fmt: skip
        rows = [{"input_ids": [1] * 128, "labels": [1] * 128}] * 8
        Trainer(model, arguments, train_dataset=rows, callbacks=[watch.callback()]).train()
    assert [reading.step for reading in watch.readings] == [1, 2, 3]
    assert abs(watch.readings[-1].error) < 0.05


def test_small_amounts_are_told_in_mib():
    lines = []
    with sd.machine("1x24GB"), sd.monitor(predicted=3 << 20, write=lines.append) as watch:
        torch.zeros(2 << 20, dtype=torch.uint8, device="cuda")
        watch.step()
    assert lines == ["step 1  cuda:0  peak 2.0 MiB, reserved 20.0 MiB; predicted 3.0 MiB (+50.0%)"]
