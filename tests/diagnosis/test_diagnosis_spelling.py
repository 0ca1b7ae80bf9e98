"""Which expression of a failing statement an operand is, and how the source can ask for its device."""

from __future__ import annotations

import ast
import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samedevice.diagnosis.fixes import Script, moved
from samedevice.diagnosis.fixes._spelling import device_text, spelled_at, weight_text
from samedevice.events import Operand, Place


def operand(name, local=None, parameter=None, role=None):
    return Operand(name, "cpu", (2,), "float32", local=local, parameter=parameter, role=role)


def at(code, call=""):
    return Place("s.py", 1, "f", code, call)


def test_a_key_may_have_other_quotes():
    script = Script("s.py", 'y = f(seen["a"], seen["b"])\n')
    node = spelled_at(script, at('y = f(seen["a"], seen["b"])'), operand("x", "seen['b']"))
    assert script.text(node) == 'seen["b"]'


@pytest.mark.parametrize(
    ("code", "call", "name", "found"),
    [
        ("y = f(a) + g(b)", "f(a) + g(b)", "self", "f(a)"),
        ("y = f(a) + g(b)", "f(a) + g(b)", "other", "g(b)"),
        ("y = (a @ b)", "a @ b", "mat2", "b"),
        ("y = f(a) > g(b)", "f(a) > g(b)", "other", "g(b)"),
        ("x += g(b)", "", "other", "g(b)"),
        ("x += g(b)", "", "self", "x"),
        ("y = x[i(), j()]", "x[i(), j()]", "indices[1]", "j()"),
        ("y = x[..., j()]", "x[..., j()]", "indices[1]", None),
        ("x[i()] = v()", "x[i()]", "values", "v()"),
        ("x[i()] = v()", "", "self", "x"),
        ("y = torch.cat([f(), g()], -1)", "torch.cat([f(), g()], -1)", "tensors[1]", "g()"),
        ("y = torch.cat([*f(), g()], -1)", "torch.cat([*f(), g()], -1)", "tensors[1]", None),
        ("y = x.masked_scatter(m(), s())", "x.masked_scatter(m(), s())", "source", "s()"),
        ("y = torch.where(a(), b(), c())", "torch.where(a(), b(), c())", "other", "c()"),
        ("y = x.where(a(), c())", "x.where(a(), c())", "condition", "a()"),
        (
            "y = F.cross_entropy(a(), b(), weight=w())",
            "F.cross_entropy(a(), b(), weight=w())",
            "weight",
            "w()",
        ),
        ("y = F.mse_loss(a(), b())", "F.mse_loss(a(), b())", "target", "b()"),
        ("y = self.proj(f(a))", "self.proj(f(a))", "mat1", "f(a)"),
        ("y = embed(f(a))", "embed(f(a))", "indices", "f(a)"),
        ("y = x.topk(f(a))", "x.topk(f(a))", "nothing", None),
    ],
)
def test_an_operand_without_a_name_is_found_by_its_position(code, call, name, found):
    script = Script("s.py", f"{code}\n")
    node = spelled_at(script, at(code, call), operand(name))
    assert (node if node is None else script.text(node)) == found


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("x", "x.device"),
        ("self.mask", "self.mask.device"),
        ("caches[i]", "caches[i].device"),
        ("batch['ids']", "batch['ids'].device"),
        ("x[:, 0]", "x.device"),
        ("x[..., None].float()", "x.device"),
        ("x.to(torch.int8)", "x.device"),
        ("x.to(y.dtype).sum(-1)", "x.device"),
        ("torch.softmax(x, -1)", "x.device"),
        ("x.to(other)", None),
        ("x.cpu()", None),
        ("f(x)", None),
        ("a + b", None),
    ],
)
def test_a_device_is_asked_of_what_is_at_hand(code, text):
    script = Script("s.py", f"{code}\n")
    statement = script.tree.body[0]
    assert isinstance(statement, ast.Expr)
    assert device_text(script, statement.value) == text


@pytest.mark.parametrize(
    ("call", "parameter", "text"),
    [
        ("self.proj(x)", "layers.0.proj.weight", "self.proj.weight.device"),
        ("layer(x)", "layers.0.weight", "next(layer.parameters()).device"),
        ("self.layers[0](x)", "layers.0.bias", "self.layers[0].bias.device"),
        ("self.net(x)", "net.2.weight", "next(self.net.parameters()).device"),
        ("F.linear(x, w)", "proj.weight", None),
        ("x.matmul(w)", "proj.weight", None),
        ("build()(x)", "proj.weight", None),
    ],
)
def test_a_module_that_is_called_tells_where_its_weights_are(call, parameter, text):
    script = Script("s.py", f"y = {call}\n")
    weight = operand("weight", parameter=parameter, role="parameter")
    assert weight_text(script, at(f"y = {call}", call), weight) == text


EXPRESSIONS = st.sampled_from(
    ["x", "f(x)", "p.q", "u[0]", "x[:, 1]", "(x\n    - 1)", "x  # why\n    .float()", "-x", "a if b else c"]
)
SHAPES = st.sampled_from(
    [
        ("y = (({a}) + ({b}))", "other"),
        ("y = torch.cat([({a}), ({b})], -1)", "tensors[1]"),
        ("y = torch.where(m, ({a}), ({b}))", "other"),
        ("y = (({a}))[({b})]", "indices[0]"),
        ("z += ({b})", "other"),
        ("z[({a})] = ({b})", "values"),
        ("y = self.proj(({b}))", "mat1"),
    ]
)
LINES = st.lists(st.sampled_from(["# é\n", "w = 1;  v = 2\n", "\n", "if w:\n\tv()\n"]), max_size=3)


def bare(expression):
    """An expression as one that stands in parentheses, so that it may have lines of its own."""
    return f"(\n    {expression}\n)" if "\n" in expression else expression


@given(LINES, SHAPES, EXPRESSIONS, EXPRESSIONS, LINES)
def test_a_moved_operand_changes_its_statement_and_nothing_else(before, shape, a, b, after):
    template, name = shape
    statement = template.format(a=bare(a), b=bare(b))
    source = f"{''.join(before)}{statement}\n{''.join(after)}"
    script = Script("s.py", source)
    line = "".join(before).count("\n") + 1
    ran = next((node for node in script.tree.body if node.lineno == line), None)
    assert ran is not None
    value = ran.value if name not in ("values",) and not isinstance(ran, ast.AugAssign) else None
    call = " ".join(script.text(value).split()) if value is not None else ""
    node = spelled_at(script, Place("s.py", line, "f", "", call), operand(name))
    assert node is not None
    changed = ast.parse(moved(script, node, "x.device"))
    same = [ast.dump(now) == ast.dump(then) for now, then in zip(changed.body, script.tree.body, strict=True)]
    assert same == [each is not ran for each in script.tree.body]
    assert comments(moved(script, node, "x.device")) == comments(source)


def comments(source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]
