"""A folder of a user's own model code is swept like a library."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("warm_children")

CODE = """
import torch
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class OwnConfig(PretrainedConfig):
    model_type = "own"

    def __init__(self, hidden_size=64, vocab_size=100, num_hidden_layers=4, **rest):
        self.hidden_size, self.vocab_size, self.num_hidden_layers = hidden_size, vocab_size, num_hidden_layers
        super().__init__(**rest)


class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    _no_split_modules = []

    def __init__(self, config):
        super().__init__(config)
        self.embed = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(config.hidden_size, config.hidden_size) for _ in range(config.num_hidden_layers)
        )
        self.head = torch.nn.Linear(config.hidden_size, 2)
        self.post_init()

    def forward(self, input_ids, labels=None):
        x = self.embed(input_ids).mean(1)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        loss = None if labels is None else torch.nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


class Hanging(OwnModel):
    def forward(self, input_ids, labels=None):
        while True:
            pass
"""


def folder_of(tmp_path, kind):
    folder = tmp_path / "models" / kind.lower()
    folder.mkdir(parents=True)
    (folder / "own.py").write_text(CODE)
    values = {"model_type": "own", "architectures": [kind], "hidden_size": 64, "vocab_size": 100}
    values["auto_map"] = {"AutoConfig": "own.OwnConfig", "AutoModel": f"own.{kind}"}
    (folder / "config.json").write_text(json.dumps(values))
    return folder.parent


def sweep(tmp_path, *words):
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", "samedevice", "sweep", *words, "--store", str(tmp_path / "s.db")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=280)


def test_own_code_is_tried_and_a_class_that_hangs_costs_only_itself(tmp_path):
    folder_of(tmp_path, "OwnModel")
    folder = folder_of(tmp_path, "Hanging")
    out = tmp_path / "o.json"
    done = sweep(tmp_path, str(folder), "--actions", "loss", "--seconds", "5", "--json", str(out))
    assert done.returncode == 1, done.stderr
    document = json.loads(out.read_text())
    how = {target["name"].rpartition(":")[2]: target["how"] for target in document["targets"]}
    assert how == {"OwnModel": "ended", "Hanging": "out of time"}
    (root,) = document["roots"]
    assert root["key"] == "labels of the caller meet a loss on another GPU"
    assert "cross_entropy(logits, labels)" in root["finding"]["at"]["code"]
    assert "own.py:" in root["statements"][0]
    assert "1 classes were ended at their limit" in done.stdout
