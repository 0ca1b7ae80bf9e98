"""Blocks that no list keeps whole: what is flagged, what is left alone, and what the fix writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from samedevice.diagnosis.fixes import combined
from samedevice.lint import Options, check_text

ALONE = Options(select=("SD219",))
HEAD = "import torch\nfrom torch import nn\nfrom transformers import PreTrainedModel\n\n\n"
BLOCK = """\
class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 8)

    def forward(self, hidden_states):
        {body}


"""
MODEL = """\
class Model(PreTrainedModel):
    {names}

    def __init__(self, config):
        super().__init__(config)
        self.blocks = nn.ModuleList([{made} for _ in range(2)])
"""
ADDS = "return hidden_states + self.outer(self.inner(hidden_states))"


def found(body=ADDS, names="main = 1", made="Block(config)", between="", head=HEAD):
    text = head + BLOCK.format(body=body) + between + MODEL.format(names=names, made=made)
    return text, check_text(Path("model.py"), text, ALONE).findings


@pytest.mark.parametrize(
    "body",
    [
        ADDS,
        "residual = hidden_states\n        hidden_states = self.outer(self.inner(residual))\n"
        "        return residual + hidden_states",
        "hidden_states += self.outer(self.norm(hidden_states))\n        return hidden_states",
        "x = hidden_states\n        if self.training:\n            x = self.norm(x)\n"
        "        return torch.relu(self.outer(self.inner(x))) + hidden_states",
        "a = self.inner(hidden_states)\n        return self.outer(hidden_states) + a",
        "return torch.matmul(self.inner(hidden_states), self.outer(hidden_states))",
        "return self.inner(hidden_states) * self.outer(hidden_states)",
        "return torch.utils.checkpoint.checkpoint(self.outer, hidden_states) + hidden_states",
    ],
)
def test_a_residual_block_that_no_list_names(body):
    _, findings = found(body)
    assert [finding.code for finding in findings] == ["SD219"]


@pytest.mark.parametrize(
    "body",
    [
        "return self.outer(self.inner(hidden_states))",
        "return self.outer(self.inner(hidden_states)) + 1",
        "return hidden_states + self.norm(hidden_states)",
        "x = self.outer(self.inner(hidden_states))\n        return x + hidden_states.to(x.device)",
        "x = self.outer(self.inner(hidden_states))\n        return x + hidden_states.to(x)",
        "x = self.outer(self.inner(hidden_states))\n        return (x,) + (hidden_states,)",
        "x = self.outer(self.inner(hidden_states))\n        return x + hidden_states[1:]",
        "x = self.outer(self.inner(hidden_states))\n        return x + hidden_states[1:-1]",
        "return hidden_states + hidden_states.shape[0]",
        "x = self.outer(self.inner(hidden_states))\n        return x + x",
        "return hidden_states + torch.relu(hidden_states)",
    ],
)
def test_a_block_without_a_residual(body):
    assert found(body)[1] == ()


@pytest.mark.parametrize(
    "names",
    [
        '_no_split_modules = ["Block"]',
        '_no_split_modules: list[str] = ["Block"]',
        "_no_split_modules = names()",
        'def later(self):\n        self._no_split_modules = ["Block"]',
        '_no_split_modules = ["Outer"]',
    ],
)
def test_a_block_that_a_list_names_or_may_name(names):
    outer = "class Outer(nn.Module):\n    def __init__(self):\n        self.inside = Block(1)\n\n\n"
    assert found(names=names, made="Outer()", between=outer)[1] == ()


def test_a_list_that_comes_with_a_base_of_another_package_is_left_alone():
    head = HEAD.replace("PreTrainedModel", "LlamaPreTrainedModel as PreTrainedModel")
    assert found(head=head)[1] == ()
    assert len(found()[1]) == 1


def test_a_sum_of_one_part_cannot_be_cut():
    text = HEAD + BLOCK.format(body="return hidden_states + self.inner(hidden_states)")
    text = text.replace("        self.norm = nn.LayerNorm(8)\n", "").replace(
        "        self.outer = nn.Linear(8, 8)\n", ""
    )
    text += MODEL.format(names="main = 1", made="Block(config)")
    assert check_text(Path("model.py"), text, ALONE).findings == ()


@pytest.mark.parametrize(
    "names", ["main = 1", '_no_split_modules = ["Embeddings"]', "_no_split_modules = None"]
)
def test_the_fix_names_the_block_and_keeps_what_was_named(names):
    text, (finding,) = found(names=names)
    (fix,) = finding.fixes
    changed, refused = combined(text, [fix.diff])
    assert not refused
    kept = '"Embeddings", ' if "Embeddings" in names else ""
    assert f'_no_split_modules = [{kept}"Block"]' in changed
    assert check_text(Path("model.py"), changed, ALONE).findings == ()


def test_the_innermost_repeated_class_is_the_block():
    stage = (
        "class Stage(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
        "        kind = Block\n        self.layers = nn.Sequential()\n"
        "        for number in range(3):\n            self.layers.add_module(str(number), kind(config))\n\n\n"
    )
    _, (finding,) = found(between=stage, made="Stage(config)")
    assert dict(finding.title.values)["blocks"] == "Block"
