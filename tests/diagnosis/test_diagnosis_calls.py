"""Fixes at a call: what is given to a function is changed where the script gives it, and the run is clean."""

from __future__ import annotations

import re

import pytest

import samedevice as sd
from samedevice.diagnosis import judge
from samedevice.diagnosis.fixes import combined
from samedevice.machines import parse_machine
from samedevice.report import render
from samedevice.report.terminal import why_text
from samedevice.runtime import VirtualMachine


def findings_of(path):
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        exec(
            compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"}
        )  # the test's own script
    return machine.findings


def events_of(path):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as machine:
        exec(compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"})
    return machine.events


def repaired(path, source):
    """The first fix of a script's first finding; the script is changed by it."""
    path.write_text(source, "utf-8")
    fix = findings_of(path)[0].fixes[0]
    assert fix.diff is not None, fix.title
    added = [each for each in fix.diff.splitlines() if each.startswith("+")]
    assert not any(re.search(r"""["']c(?:uda|pu)""", each) for each in added)
    text, refused = combined(source, [fix.diff])
    assert not refused
    path.write_text(text, "utf-8")
    return fix, text


DRAWN = {
    "torch.randperm(4, generator=g)": "torch.randperm(4, generator=g, device=g.device)",
    "torch.randint(\n    0, 4, (2,),\n    generator=g,\n)": "    generator=g,\n    device=g.device,\n)",
    "torch.randn(2, generator=own.g)": "torch.randn(2, generator=own.g, device=own.g.device)",
}


@pytest.mark.parametrize("call", DRAWN)
def test_numbers_are_drawn_where_the_generator_is(call, tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        'import torch\ng = torch.Generator("cuda:1")\nclass own:\n    g = g\n\n'
        f'torch.randn(2, generator=g, device="cuda:1")\ndrawn = {call}\n',
    )
    assert DRAWN[call] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


READ_ON_HOST = {
    "rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)": "pack_padded_sequence(x, lengths.cpu(), ",
    "rnn.pack_padded_sequence(x.cpu(), lengths=sizes[1], enforce_sorted=False)": "lengths=sizes[1].cpu(), ",
    "rnn.pack_padded_sequence(x, sizes.get(1), False, False)": "(x, sizes.get(1).cpu(), False, False)",
    "x.tensor_split(lengths + 1)": "x.tensor_split((lengths + 1).cpu())",
    "torch.tensor_split(x, lengths, dim=1)": "torch.tensor_split(x, lengths.cpu(), dim=1)",
}


@pytest.mark.parametrize("call", READ_ON_HOST)
def test_what_is_read_on_the_host_is_brought_there(call, tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        "import torch\nfrom torch.nn.utils import rnn\nx = torch.ones(4, 2, 3).cuda()\n"
        f"lengths = torch.tensor([2, 4]).cuda()\nsizes = {{1: lengths}}\nout = {call}\n",
    )
    assert READ_ON_HOST[call] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_operand_that_is_read_on_the_host_is_told(language, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nlengths = torch.tensor([1, 2]).cuda()\n"
        "torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2).cuda(), lengths, enforce_sorted=False)\n"
    )
    (finding,) = findings_of(path)
    assert (finding.cause, finding.guilty) == ("extra-input-on-wrong-device", "lengths")
    (event,) = events_of(path)
    said = [render(each, language) for each in (*judge(event).reasons, judge(event).title, judge(event).cure)]
    assert all("lengths" in each for each in said)
    assert "one device" not in why_text(judge(event), language)


PARTS = {
    "torch.stack(parts)": "torch.stack([each.to(parts[0].device) for each in parts])",
    "torch.cat(parts, dim=0)": "torch.cat([each.to(parts[0].device) for each in parts], dim=0)",
    "torch.hstack(kept[0])": "torch.hstack([each.to(kept[0][0].device) for each in kept[0]])",
    "torch.stack(parts[:2])": "torch.stack([each.to(parts[:2][0].device) for each in parts[:2]])",
    "torch.stack(list(parts))": None,
    "torch.stack(tensors=parts)": "torch.stack(tensors=[each.to(parts[0].device) for each in parts])",
    "torch.stack([parts[0], parts[1], parts[2]])": None,
}


@pytest.mark.parametrize("call", PARTS)
def test_all_tensors_of_a_list_are_moved_where_it_is_used(call, tmp_path):
    source = (
        "import torch\n\n\ndef join(parts, kept):\n"
        f"    return {call}\n\n\n"
        "for i in range(2):\n"
        '    parts = [torch.ones(2, device=f"cuda:{i}"), torch.ones(2), torch.ones(2)]\n'
        "    parts[2] = parts[2].to(parts[0].device)\n    join(parts, [parts])\n"
    )
    path = tmp_path / "script.py"
    if PARTS[call] is None:
        path.write_text(source, "utf-8")
        assert not any("for each in" in (fix.diff or "") for each in findings_of(path) for fix in each.fixes)
        return
    fix, text = repaired(path, source)
    assert PARTS[call] in text
    assert fix.safety == "safe"
    assert findings_of(path) == []


STATES = {
    "state": "tuple(each.to(self.rnn.weight_ih_l0.device) for each in state)",
    "hx=state": "hx=tuple(each.to(next(self.rnn.parameters()).device) for each in state)",
}


@pytest.mark.parametrize("given", STATES)
def test_all_tensors_of_a_state_are_moved_where_it_is_used(given, tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        "import torch\nfrom torch import nn\n\nclass Decoder(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.rnn = nn.LSTM(4, 4)\n\n    def forward(self, x, state):\n"
        f"        self.state = state\n        return self.rnn(x * 1.0, {given})[0]\n\n"
        "for i in (0, 1):\n"
        '    state = torch.zeros(1, 2, 4, device=f"cuda:{1 - i}"), torch.zeros(1, 2, 4, device="cuda:1")\n'
        '    Decoder().to(f"cuda:{i}")(torch.ones(3, 2, 4, device=f"cuda:{i}"), state)\n',
    )
    assert STATES[given] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


def test_the_own_statement_is_never_called_library_code(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nrnn = torch.nn.LSTM(4, 4).cuda(1)\nstate = {'h': torch.zeros(1, 2, 4).cuda(0)}\n"
        "rnn(torch.ones(3, 2, 4).cuda(1), (state['h'] * 1, state['h'] * 2))\n",
        "utf-8",
    )
    for finding in findings_of(path):
        said = [finding.cure or "", *(fix.title for fix in finding.fixes)]
        assert not any(re.search(r"library|release|report it", each) for each in said)
        assert not any(str(tmp_path) in each for each in said)


MAPPINGS = {
    "batch = {'input_ids': ids, 'attention_mask': torch.ones_like(ids)}": (
        "model(**{name: each.to(model.device) for name, each in batch.items()})"
    ),
    "batch = {'input_ids': ids, 'use_cache': False}": (
        'model(**{name: each.to(model.device) if hasattr(each, "to") else each for name, each in '
        "batch.items()})"
    ),
    "batch = tokenizer('a', return_tensors='pt')": "model(**batch.to(model.device))",
    "batch = collate(ids)": "model(**{name: each.to(model.device) for name, each in batch.items()})",
}


@pytest.mark.parametrize("made", MAPPINGS)
def test_a_whole_mapping_is_moved_where_the_model_is_called(made, tmp_path):
    pytest.importorskip("transformers")
    fix, text = repaired(
        tmp_path / "script.py",
        "import torch\nfrom transformers import BatchEncoding, LlamaConfig, LlamaForCausalLM\n\n"
        "def collate(ids):\n    return {'input_ids': ids, 'attention_mask': torch.ones_like(ids)}\n\n"
        "def tokenizer(text, return_tensors):\n    return BatchEncoding(collate(torch.tensor([[1, 2]])))\n\n"
        "def run(ids):\n"
        "    model = LlamaForCausalLM(LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, "
        "num_attention_heads=1, vocab_size=16)).cuda()\n"
        f"    {made}\n    model(**batch)\n\nrun(torch.tensor([[1, 2]]))\n",
    )
    assert MAPPINGS[made] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


def test_a_mapping_goes_to_the_table_of_a_model_of_the_script(tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        "import torch\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.embed = torch.nn.Embedding(16, 8)\n\n    def forward(self, ids, shift):\n"
        "        return self.embed(ids) + shift\n\n"
        "model = Model().cuda()\n"
        "for batch in [{'ids': torch.tensor([[1, 2]]), 'shift': torch.ones(8)}]:\n    model(**batch)\n",
    )
    assert "model(**{name: each.to(model.embed.weight.device) for name, each in batch.items()})" in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


LLAMA = (
    "import torch\nfrom transformers import LlamaConfig, LlamaForCausalLM\n\n"
    "def build():\n"
    "    return LlamaForCausalLM(LlamaConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, "
    "num_attention_heads=1, vocab_size=16)).cuda()\n\n"
)
GIVEN = {
    "model(input_ids=ids, attention_mask=ids * 0 + 1)": (
        "model(input_ids=ids.to(model.device), attention_mask=(ids * 0 + 1).to(model.device))"
    ),
    "model(ids)": "model(ids.to(model.device))",
    "kept.model(input_ids=ids[:, :1])": "kept.model(input_ids=ids[:, :1].to(kept.model.device))",
}


@pytest.mark.parametrize("call", GIVEN)
def test_inputs_are_moved_where_a_function_calls_the_model_that_it_was_given(call, tmp_path):
    pytest.importorskip("transformers")
    fix, text = repaired(
        tmp_path / "script.py",
        f"{LLAMA}class kept:\n    model = build()\n\ndef run(model, ids):\n    print({call}.logits.shape)\n\n"
        "run(kept.model, torch.tensor([[1, 2]]))\n",
    )
    assert GIVEN[call] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


OTHERS = {
    "a generator that is not the only one": (
        "import torch\nother = torch.Generator()\nown = torch.Generator()\n"
        "def f(x):\n    return x * torch.rand(2, generator=own, device=x.device)\n\n"
        "for i in range(2):\n    f(torch.ones(2, device=f'cuda:{i}'))\n",
        "torch.rand(2, generator=own, device=own.device).to(x.device)",
    ),
    "a device that one line names with another": (
        "import tempfile, torch\nTRAIN, SERVE = 'cuda:0', 'cuda:1'\n"
        "class Service:\n    def __init__(self, file):\n        self.stats = torch.load(file)\n\n"
        "    def __call__(self):\n        return torch.ones(2, device=SERVE) - self.stats['mean']\n\n"
        "with tempfile.NamedTemporaryFile() as file:\n"
        "    torch.save({'mean': torch.ones(2, device=TRAIN)}, file.name)\n    Service(file.name)()\n",
        "torch.load(file, map_location=SERVE)",
    ),
    "a tensor made of another one on the host": (
        "import torch\ndef f(x):\n    far = torch.ones(2, 2).triu(1)\n"
        "    band = torch.zeros(2, 2).masked_fill(far.bool(), 1.0)\n    return x + band\n\n"
        "for i in range(2):\n    f(torch.ones(2, 2, device=f'cuda:{i}'))\n",
        "torch.zeros(2, 2).masked_fill(far.bool(), 1.0).to(x.device)",
    ),
    "weights that were attached on one GPU": (
        "import torch\nfrom torch import nn\n\nclass Part(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)\n"
        "        self.ia3 = None\n\n    def forward(self, x):\n        h = torch.relu(self.up(x))\n"
        "        h = torch.mul(h, self.ia3)\n        return x + self.down(h)\n\n"
        "class Parts(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.parts = nn.ModuleList(Part() for _ in range(4))\n\n    def forward(self, x):\n"
        "        for part in self.parts:\n            x = part(x.to(part.up.weight.device))\n"
        "        return x\n\nmodel = Parts().requires_grad_(False)\nfor i, part in enumerate(model.parts):\n"
        "    part.to(f'cuda:{i // 2}')\nhome = next(model.parameters()).device\nfor part in model.parts:\n"
        "    part.ia3 = nn.Parameter(torch.ones(4).to(home), requires_grad=False)\n"
        "model(torch.ones(2, 4))\n",
        "torch.mul(h, self.ia3.to(h.device))",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_first_change_repairs_the_program(name, tmp_path):
    source, expected = OTHERS[name]
    fix, text = repaired(tmp_path / "script.py", source)
    assert expected in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


def test_an_activation_does_not_follow_weights_to_the_host(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nmodels = {'a': torch.nn.Linear(2, 2).cuda()}\nstep = models['a']\n"
        "z = torch.ones(1, 2).cuda()\nfor _ in range(2):\n    z = z - step(z * 1)\n    step.to('cpu')\n",
        "utf-8",
    )
    for finding in findings_of(path):
        assert not any("parameters()).device" in (fix.diff or "") for fix in finding.fixes)
