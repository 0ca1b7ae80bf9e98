"""Cells on a virtual machine, in a real Jupyter kernel."""

from __future__ import annotations

import html
import re

import nbclient
import nbformat
import pytest

BUG = "import torch\na = torch.ones(2, device='cuda:0')\n{before}torch.ones(2) + a"
CELLS = {
    "load": "%load_ext samedevice",
    "cell": "%%samedevice 2x24GB\n" + BUG.format(before="print('hello')\n"),
    "chinese": "%%samedevice --lang zh\n" + BUG.format(before="# 2\n"),
    "raise": "%%samedevice 3x24GB --fail-fast\ndef f(x):\n    return torch.ones(2) + x\n"
    "f(torch.ones(2, device='cuda:2'))",
    "own error": "%%samedevice\n{}['mine']",
    "time": "%%samedevice\n%%time\nprint('timed')",
    "no machine": "%%samedevice 2xFOO\nprint('ran')",
    "no option": "%%samedevice --nothing\nprint('ran')",
    "syntax": "%%samedevice\nfor x in",
    "await": "%%samedevice\nawait nothing()",
    "on": "%samedevice 1x24GB",
    "inside": "model = torch.nn.Linear(2, 2).cuda()\ntorch.cuda.device_count()",
    "bug inside": "model(torch.ones(1, 2)).device",
    "quiet inside": "await __import__('asyncio').sleep(0)\nmodel(torch.ones(1, 2, device='cuda')).device",
    "cell inside": "%%samedevice\n1",
    "told": "%samedevice",
    "off": "%samedevice off",
    "after": "torch.cuda.device_count()",
    "untold": "%samedevice",
    "text": "import samedevice as sd\nwith sd.machine('2x24GB', on_mismatch='record') as vm:\n"
    "    torch.ones(2, device='cuda:1') + torch.ones(2)  # <script>alert(1)</script>\nvm.findings",
    "machine": "vm",
    "placement": "sd.placement(torch.nn.Linear(2, 2))",
    "alignment": "sd.check({'x': torch.ones(2)}, torch.nn.Linear(2, 2))",
    "explained": "sd.explain('RuntimeError: <b>CUDA</b> error: invalid device ordinal')",
    "unload": "%unload_ext samedevice",
    "gone": "%samedevice",
}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell by its name."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS.values()])
    nbclient.NotebookClient(notebook, timeout=300, allow_errors=True).execute()
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells), strict=True))


def plain(text):
    return html.unescape(re.sub(r"<[^>]*>|\x1b\[[0-9;]*m", "", text))


def page(found):
    """The HTML of the last output, as a reader sees it."""
    return plain(found[-1].data["text/html"])


def printed(found):
    return "".join(output.text for output in found if output.output_type == "stream")


def test_a_cell(outputs):
    found = outputs["cell"]
    assert [output.output_type for output in found] == ["stream", "execute_result", "display_data"]
    assert found[0].text == "hello\n"
    assert found[1].data["text/plain"] == "tensor([2., 2.], device='cuda:0')"
    assert found[2].data["text/plain"] == "<run on 2x24GB, findings: 1>"
    assert "Cell In[2]:5 in <module>      torch.ones(2) + a" in page(found)
    assert "samedevice: 1 finding on 2x24GB" in page(found)
    assert "创建于第 3 行" in page(outputs["chinese"])


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("raise", ["Cell In[4], line 4", "Cell In[4], line 3, in f(x)"], "Expected all tensors to be on the"),
        ("own error", ["Cell In[5], line 2"], "KeyError: 'mine'"),
    ],
)
def test_an_error_shows_the_frames_of_its_author_once(outputs, name, lines, said):
    errors = [output for output in outputs[name] if output.output_type == "error"]
    assert len(errors) == 1
    trace = plain("\n".join(errors[0].traceback))
    assert re.findall(r"^(?:Cell|File) .*$", trace, re.MULTILINE) == lines
    assert said in trace
    assert ("SD101 cross-device-operands" in trace) == (name == "raise")
    assert "ended with an error" in page([output for output in outputs[name] if "data" in output])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no machine", "machine specification '2xFOO' names no known GPU"),
        ("no option", "unrecognized arguments: --nothing"),
        ("await", "a cell with await can't be run by %%samedevice"),
        ("cell inside", "the machine 24GB is on for all cells"),
        ("gone", "Line magic function `%samedevice` not found"),
    ],
)
def test_refused(outputs, name, said):
    assert said in printed(outputs[name])
    assert not [output for output in outputs[name] if "data" in output]


def test_another_magic_behind(outputs):
    assert printed(outputs["time"]).startswith("timed\n")
    assert "Wall time" in printed(outputs["time"])


def test_syntax_is_told_by_the_shell(outputs):
    assert "SyntaxError" in plain(str(outputs["syntax"]))
    assert "finding" not in plain(str(outputs["syntax"]))


def test_a_machine_for_all_cells(outputs):
    assert outputs["on"] == []
    assert [output.data["text/plain"] for output in outputs["inside"]] == ["1"]
    result, shown = outputs["bug inside"]
    assert result.data["text/plain"] == "device(type='cuda', index=0)"
    assert "Cell In[13]:1 in <module>" in page([shown])
    assert len(outputs["quiet inside"]) == 1
    assert "samedevice: 1 finding on 24GB" in page(outputs["told"])
    assert outputs["off"] == []
    assert [output.data["text/plain"] for output in outputs["after"]] == ["0"]
    assert "no machine is on" in printed(outputs["untold"])


def test_what_cells_show(outputs):
    (found,) = outputs["text"]
    assert found.data["text/plain"] == "[<SD101 cross-device-operands at Cell In[20]:3>]"
    assert "<script>" not in found.data["text/html"]
    assert "# <script>alert(1)</script>" in page([found])
    assert page(outputs["machine"]).startswith("samedevice.machine 2x24GB, findings: 1")
    (placed,) = outputs["placement"]
    assert placed.data["text/plain"] == "<placement of Linear: cpu 24 B>"
    assert "(all)   Linear  cpu     24 B" in page([placed])
    (aligned,) = outputs["alignment"]
    assert aligned.data["text/plain"] == "<alignment with Linear: 0 of 1 tensors to move>"
    assert "<b>" not in outputs["explained"][0].data["text/html"]
    for name in ("text", "placement", "alignment", "machine"):
        assert not re.search(r"<(?:script|link|img|iframe)|https?://", outputs[name][0].data["text/html"])
