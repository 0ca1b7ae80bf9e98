"""sentence-transformers: a made-up package of the same form, whose losses read weights and make tensors."""

from __future__ import annotations

import sys

import pytest

from samedevice.sweep import _sentences
from samedevice.sweep._sentences import SentencesLibrary
from samedevice.sweep._trial import Asked, try_target

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

MODEL = '''\
import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer


class BaseModel(nn.Module):
    pass


class Encoder(BaseModel):
    """An encoder that is loaded from a folder, or made of modules."""

    def __init__(self, folder=None, modules=None, device=None, model_kwargs=None):
        super().__init__()
        if modules is None:
            modules = [Transformer(folder, model_kwargs or {})]
        self.parts = nn.ModuleList(modules)
        if device is not None:
            self.to(device)

    def __iter__(self):
        return iter(self.parts)

    @property
    def device(self):
        return next(self.parameters()).device

    def preprocess(self, texts):
        return dict(self.parts[0].tokenizer(texts, return_tensors="pt", padding=True))

    def forward(self, features):
        for part in self.parts:
            features = part(features)
        return features

    def encode(self, texts, show_progress_bar=None):
        features = {name: each.to(self.device) for name, each in self.preprocess(texts).items()}
        with torch.no_grad():
            return self(features)["sentence_embedding"]

    def save_pretrained(self, folder):
        self.parts[0].model.save_pretrained(folder)
        self.parts[0].tokenizer.save_pretrained(folder)


class Transformer(nn.Module):
    def __init__(self, folder, settings):
        super().__init__()
        self.model = AutoModel.from_pretrained(folder, **settings)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def forward(self, features):
        features["sentence_embedding"] = self.model(**features).last_hidden_state[:, 0]
        return features


class Scaled(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.norm = nn.LayerNorm(dimension)

    def forward(self, features):
        features["sentence_embedding"] = self.norm(features["sentence_embedding"])
        return features
'''
LOSSES = """\
import torch
from torch import nn

__all__ = ["Good", "Bad", "Around", "Weights"]


class Good(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.__dict__["model"] = model

    def forward(self, features, labels):
        a, b = (self.model(each)["sentence_embedding"] for each in features)
        return ((a * b).sum(-1) - labels).pow(2).mean()


class Bad(Good):
    def forward(self, features, labels):
        a, b = (self.model(each)["sentence_embedding"] for each in features)
        return ((a * b).sum(-1) * torch.ones(len(a)) - labels).mean()


class Around(nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.loss = loss

    def forward(self, features, labels):
        return {"own": self.loss(features, labels)}


class Weights:
    pass
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """With one encoder, one module and three losses."""
    root = tmp_path / "sentence_madeup"
    for folder in ("base", "plain", "plain/modules", "plain/losses"):
        (root / folder).mkdir(parents=True)
        (root / folder / "__init__.py").write_text("")
    (root / "base" / "model.py").write_text(MODEL.partition("class Encoder")[0])
    text = "from sentence_madeup.base.model import BaseModel\n"
    rest = "class Encoder" + MODEL.partition("class Encoder")[2]
    imports = "import torch\nfrom torch import nn\nfrom transformers import AutoModel, AutoTokenizer\n"
    (root / "plain" / "model.py").write_text(imports + text + rest)
    (root / "plain" / "__init__.py").write_text("from sentence_madeup.plain.model import Encoder\n")
    (root / "plain" / "modules" / "__init__.py").write_text(
        "from sentence_madeup.plain.model import Scaled\n__all__ = ['Scaled']\n"
    )
    (root / "plain" / "losses" / "all.py").write_text(LOSSES)
    (root / "plain" / "losses" / "__init__.py").write_text(
        "from sentence_madeup.plain.losses.all import *\n"
        "from sentence_madeup.plain.losses.all import __all__\n"
    )
    (root / "__init__.py").write_text(
        "from sentence_madeup.plain.model import Encoder\n__all__ = ['Encoder']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(_sentences, "_PACKAGE", "sentence_madeup")
    _sentences._encoders.cache_clear()
    library = SentencesLibrary()
    library.prepare()
    yield library
    _sentences._encoders.cache_clear()
    for name in [each for each in sys.modules if each.partition(".")[0] == "sentence_madeup"]:
        del sys.modules[name]


def told_of(library, name, *actions):
    told: list = []
    asked = Asked(actions=actions or ("loss",), cuts=2, confirm=False)
    try_target(library, name, asked, told.append, lambda finding: {"code": finding.code})
    return told


def test_encoders_modules_and_losses_are_targets(package):
    names = [each.name.partition(".")[2] for each in package.targets()]
    assert names == ["plain:Encoder", "plain.modules:Scaled", "plain.losses:Good", "plain.losses:Bad",
                     "plain.losses:Around"]  # fmt: skip


def test_an_encoder_is_cut_and_loaded_by_its_own_constructor(package):
    told = told_of(package, "sentence_madeup.plain:Encoder")
    runs = [each for each in told if each["kind"] == "run"]
    assert [run["status"] for run in runs] == ["ran", "ran", "ran"]
    assert runs[1]["cut"].endswith("@1")
    assert not [each for each in told if each["kind"] == "finding"]


def test_a_module_stands_where_it_runs(package):
    told = told_of(package, "sentence_madeup.plain.modules:Scaled")
    assert next(each["kind"] for each in told) == "built"


def test_a_loss_that_makes_a_tensor_on_the_host_is_found_on_one_gpu_and_a_good_one_is_not(package):
    told = told_of(package, "sentence_madeup.plain.losses:Bad", "train")
    (found,) = [each for each in told if each["kind"] == "finding"]
    assert found["root"] == "created by torch.ones(len(a))"
    good = told_of(package, "sentence_madeup.plain.losses:Good", "train")
    assert next(each["status"] for each in good if each["kind"] == "run") == "ran"


def test_a_loss_around_another_one_gets_one(package):
    told = told_of(package, "sentence_madeup.plain.losses:Around", "train")
    assert next(each["status"] for each in told if each["kind"] == "run") == "ran"
