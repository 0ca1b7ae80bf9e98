"""Guards in the loops of transformers and accelerate, with the real libraries, and in a real IPython
shell.
"""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

import samedevice as sd
from samedevice import integrations

GPU, OTHER = "cuda:0", "cuda:1"


class Classifier(nn.Module):
    """Meets a helper on the host."""

    def __init__(self, broken=True):
        super().__init__()
        self.layer, self.broken = nn.Linear(4, 3), broken

    def forward(self, x, labels=None):
        scale = torch.arange(3.0, device="cpu" if self.broken else x.device)
        logits = self.layer(x) * scale
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


DATA = [{"x": torch.ones(4) * number, "labels": torch.tensor(number % 3)} for number in range(8)]


def trainer(tmp_path, model, *callbacks):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        per_device_train_batch_size=2,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
        seed=0,
        learning_rate=0.1,
    )
    return transformers.Trainer(model=model, args=args, train_dataset=DATA, callbacks=list(callbacks))


def trained(tmp_path, model, *callbacks):
    trainer(tmp_path, model, *callbacks).train()
    return [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.fixture
def one_gpu():
    pytest.importorskip("accelerate")
    with sd.machine("1x24GB") as entered:
        yield entered


def made(broken=True):
    torch.manual_seed(0)
    return Classifier(broken)


def test_a_trainer(tmp_path, one_gpu):
    model, hook = made(), sys.excepthook
    callback = integrations.GuardCallback()
    with pytest.raises(RuntimeError, match="same device") as caught:
        trainer(tmp_path, model, callback).train()
    assert caught.value.finding.code == "SD101"
    assert "scale" in caught.value.finding.at.code
    assert len(caught.value.__notes__) == 1
    callback.remove()
    assert "forward" not in vars(model)
    assert sys.excepthook is hook


def test_a_trainer_that_nothing_happens_to(tmp_path, one_gpu):
    hook = sys.excepthook
    plain, model = made(broken=False), made(broken=False)
    expected = trained(tmp_path, plain)
    assert all(map(torch.equal, trained(tmp_path, model, integrations.GuardCallback()), expected))
    assert "forward" not in vars(model)
    assert sys.excepthook is hook


def test_a_trainer_that_is_healed(tmp_path, one_gpu):
    expected = trained(tmp_path, made(broken=False))
    model, callback = made(), integrations.GuardCallback(healing=True)
    found = trained(tmp_path, model, callback)
    assert all(map(torch.equal, found, expected))
    assert not torch.equal(found[0], made().layer.weight)
    assert [repair.target for repair in callback.healing.repairs] == [GPU]
    assert "forward" not in vars(model)


def loop(accelerator, model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, torch.utils.data.DataLoader(DATA, batch_size=2)
    )
    for _, batch in zip(range(steps), loader, strict=False):
        optimizer.zero_grad()
        accelerator.backward(model(**batch)["loss"])
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_an_accelerator(one_gpu):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator()
    before = dict(vars(accelerator))
    remove = integrations.guard_accelerator(accelerator)
    model = made()
    with pytest.raises(RuntimeError, match="same device") as caught:
        loop(accelerator, model)
    assert "scale" in caught.value.finding.at.code
    assert len(caught.value.__notes__) == 1
    remove()
    assert vars(accelerator).keys() == before.keys()
    assert "forward" not in vars(model)


def test_an_accelerator_that_nothing_happens_to(one_gpu):
    accelerate = pytest.importorskip("accelerate")
    expected = loop(accelerate.Accelerator(), made(broken=False))
    accelerator = accelerate.Accelerator()
    integrations.guard_accelerator(accelerator)
    integrations.guard_accelerator(accelerator)
    assert all(map(torch.equal, loop(accelerator, made(broken=False)), expected))


def test_a_backward_pass_of_an_accelerator(one_gpu):
    accelerate = pytest.importorskip("accelerate")

    class Meets(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.sum()

        @staticmethod
        def backward(context, gradient):
            return torch.ones(3, device=GPU) * torch.arange(3.0)

    accelerator = accelerate.Accelerator()
    integrations.guard_accelerator(accelerator)
    weight = torch.ones(3, device=GPU, requires_grad=True)
    with pytest.raises(RuntimeError, match="same device") as caught:
        accelerator.backward(Meets.apply(weight))
    assert caught.value.finding.code == "SD101"


@pytest.fixture
def shell():
    interactive = pytest.importorskip("IPython.core.interactiveshell")
    yield interactive.InteractiveShell.instance()
    interactive.InteractiveShell.clear_instance()


CELL = "import torch\ntorch.ones(2) + torch.ones(2, device='meta')"


def test_a_notebook(shell, capsys):
    shell.run_cell(CELL)
    assert "SD102" not in "".join(capsys.readouterr())
    shell.run_line_magic("load_ext", "samedevice")
    result = shell.run_cell(CELL)
    said = "".join(capsys.readouterr())
    assert said.count("SD102 unmaterialized-weights") == 1
    assert "is not on the expected device" in said
    assert result.error_in_exec.finding.code == "SD102"
    shell.run_cell("1/0")
    assert "SD1" not in (said := "".join(capsys.readouterr()))
    assert "ZeroDivisionError" in said
    shell.run_cell("for")
    assert "SyntaxError" in "".join(capsys.readouterr())
    shell.run_line_magic("unload_ext", "samedevice")
    shell.run_cell(CELL)
    assert "SD102" not in "".join(capsys.readouterr())


def test_a_notebook_that_has_a_handler(shell, capsys):
    seen = []
    shell.set_custom_exc((RuntimeError,), lambda own, kind, error, trace, tb_offset=None: seen.append(error))
    remove = integrations.guard_notebook(shell)
    shell.run_cell(CELL)
    assert seen[0].finding.code == "SD102"
    remove()
    shell.run_cell(CELL)
    assert not hasattr(seen[1], "finding")


def test_names():
    assert set(integrations.__all__) <= set(dir(integrations))
    with pytest.raises(AttributeError):
        integrations.nothing  # noqa: B018
