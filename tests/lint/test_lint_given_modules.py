"""SD224: constructors that run what they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from samedevice.lint import Options, check_text

HEAD = "import torch\nfrom torch import nn\n\n\n"
INNER = """class Inner(nn.Module):
    def __init__(self, net, width):
        super().__init__()
        self.net, self.width = net, width

    def last(self):
        return list(self.net.children())[-1]

    def forward(self, x):
        return self.net(x)


"""


def codes(body, arguments="net"):
    text = f"{HEAD}{INNER}class Outer(nn.Module):\n    def __init__(self, {arguments}):\n"
    text += "        super().__init__()\n" + "".join(f"        {line}\n" for line in body)
    text += "\n    def forward(self, x):\n        return x\n"
    return [each.code for each in check_text(Path("m.py"), text, Options(("SD224",), fixes=False)).findings]


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ("net: nn.Module", ["self.size = net(torch.zeros(1, 3, 8, 8)).shape"]),
        ("net: Inner", ["x = torch.zeros(1, 3)", "self.size = net(x).shape"]),
        ("net", ["self.table = net(torch.arange(9)).detach()"]),
        ("net", ["self.inner = Inner(net, 4)", "self.forward(torch.randn(2, 3))"]),
        ("*, net", ["self.inner = Inner(width=4, net=net)", "self(torch.randn(2, 3))"]),
        ("net: nn.Module", ["self.body = net", "self.size = self.body(torch.zeros(1, 3)).shape"]),
    ],
)
def test_a_given_module_gets_a_tensor_of_the_host(arguments, body):
    assert codes(body, arguments) == ["SD224"]


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        ("fill", ["self.table = fill(torch.zeros(3))"]),
        ("act", ["self.act = act", "self.size = self.act(torch.zeros(3)).shape"]),
        ("net: nn.Module", ["self.own = nn.Linear(3, 3)", "self.size = self.own(torch.zeros(3)).shape"]),
        ("net: nn.Module", ["d = next(net.parameters()).device", "net(torch.zeros(1, 3, device=d))"]),
        ("net: nn.Module", ["net.cpu()", "net(torch.zeros(1, 3))"]),
        ("net: nn.Module, x", ["net(x)", "self.y = torch.zeros(3)"]),
        ("width", ["self.inner = Inner(nn.Linear(3, 3), width)", "self.forward(torch.randn(2, 3))"]),
    ],
)
def test_what_is_no_given_module_or_is_asked_where_it_is(arguments, body):
    assert codes(body, arguments) == []
