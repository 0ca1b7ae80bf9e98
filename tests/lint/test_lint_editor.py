"""`samedevice lint --lsp`, asked by a real client over standard input and output."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("pygls")
from lsprotocol import types
from pygls.lsp.client import LanguageClient

pytestmark = pytest.mark.usefixtures("warm")

BAD = """\
import torch


def shifted(x: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(x.shape[1])
    return x + steps
"""
GOOD = BAD.replace("(x.shape[1])", "(x.shape[1], device=x.device)")
PATIENCE = 60


class Client(LanguageClient):
    """An editor: it keeps what the server shows."""

    def __init__(self):
        super().__init__("test", "1")
        self.shown: asyncio.Queue = asyncio.Queue()
        self.messages: list[str] = []

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params):
            self.shown.put_nowait(params)

        @self.feature(types.WINDOW_SHOW_MESSAGE)
        def _(params):
            self.messages.append(params.message)

    async def next(self):
        return await asyncio.wait_for(self.shown.get(), PATIENCE)

    def open(self, path, text):
        item = types.TextDocumentItem(path.as_uri(), "python", 1, text)
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, path, text, version):
        identifier = types.VersionedTextDocumentIdentifier(version, path.as_uri())
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [whole]))

    async def actions(self, path, line, only=None):
        at = types.Position(line, 8)
        return await self.text_document_code_action_async(
            types.CodeActionParams(
                types.TextDocumentIdentifier(path.as_uri()),
                types.Range(at, at),
                types.CodeActionContext([], only),
            )
        )

    async def hover(self, path, line):
        where = types.TextDocumentIdentifier(path.as_uri()), types.Position(line, 8)
        return await self.text_document_hover_async(types.HoverParams(*where))


CHOSEN = ("--select", "SD201,SD208")


@asynccontextmanager
async def editor(folder, *words, locale="en"):
    client = Client()
    await client.start_io(sys.executable, "-m", "samedevice", "lint", "--lsp", *CHOSEN, *words)
    await client.initialize_async(
        types.InitializeParams(types.ClientCapabilities(), root_uri=folder.as_uri(), locale=locale)
    )
    client.initialized(types.InitializedParams())
    yield client
    await client.shutdown_async(None)
    client.exit(None)
    await asyncio.wait_for(client.stop(), PATIENCE)


def applied(text, action):
    """The text after the edits of an action, as an editor makes them."""
    ((_, edits),) = action.edit.changes.items()
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda each: each.range.start.line, reverse=True):
        assert edit.range.start.character == edit.range.end.character == 0
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


def test_findings_come_with_the_text_and_go_with_the_fix(tmp_path):
    async def talk():
        path = tmp_path / "model.py"
        async with editor(tmp_path) as client:
            client.open(path, BAD)  # it was never saved
            (shown,) = (await client.next()).diagnostics
            assert (shown.code, shown.source, shown.range.start.line) == ("SD201", "samedevice", 4)
            assert BAD.splitlines()[4][shown.range.start.character : shown.range.end.character] == (
                "steps = torch.arange(x.shape[1])"
            )
            assert "torch.arange(x.shape[1]) is made on the host" in shown.message
            quick, every = await client.actions(path, 4)
            assert applied(BAD, quick) == applied(BAD, every) == GOOD
            assert (quick.kind, every.kind) == ("quickfix", "source.fixAll.samedevice")
            assert [each.kind for each in await client.actions(path, 0)] == ["source.fixAll.samedevice"]
            assert len(await client.actions(path, 4, [types.CodeActionKind.QuickFix])) == 1
            assert len(await client.actions(path, 4, [types.CodeActionKind.SourceFixAll])) == 1
            assert not await client.actions(path, 4, [types.CodeActionKind.Refactor])
            page = await client.hover(path, 4)
            assert page.contents.value.startswith("# SD201 unplaced-tensor-meets-placed")
            assert await client.hover(path, 0) is None
            client.change(path, GOOD, 2)
            assert not (await client.next()).diagnostics
            client.change(path, BAD + "def (", 3)  # no Python for a moment: what was shown stays
            client.change(path, BAD, 4)
            assert (await client.next()).version == 4

    asyncio.run(talk())


def test_a_saved_file_changes_what_another_says(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    base, model = package / "base.py", package / "model.py"
    base.write_text("from torch import nn\n\n\nclass Base(nn.Module):\n    pass\n")
    text = (
        "import torch\n\nfrom .base import Base\n\n\nclass Model(Base):\n    def __init__(self):\n"
        "        super().__init__()\n        self.table = torch.zeros(4)\n\n"
        "    def forward(self, x: torch.Tensor):\n        return x + self.table\n"
    )
    moving = f"{base.read_text()}\n    def _apply(self, function):\n        return self\n"

    async def talk():
        async with editor(tmp_path) as client:
            client.open(model, text)
            before = (await client.next()).diagnostics
            base.write_text(moving)
            saved = types.TextDocumentIdentifier(base.as_uri())
            client.text_document_did_save(types.DidSaveTextDocumentParams(saved))
            told = await client.next()
            while told.uri != model.as_uri():
                told = await client.next()
            return [each.code for each in before], [each.code for each in told.diagnostics]

    before, after = asyncio.run(talk())
    assert before
    assert after == []


KEPT = """\
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.zeros(4)

    def forward(self, x: torch.Tensor):
        return x + self.table
"""
DERIVED = """\
import torch

from .model import Model


class Placed(Model):
    def __init__(self, device: torch.device):
        super().__init__()
        self.table = torch.zeros(4, device=device)
"""
GLOBAL = """\
import torch

STEPS = torch.zeros(4)


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + STEPS
"""
SENDS = "from . import model\n\n\ndef send(device):\n    model.STEPS.data = model.STEPS.to(device)\n"
IMPORTS = """\
import torch

from .made import steps


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x + steps(4)
"""
MADE = "import torch\n\n\ndef steps(count: int) -> torch.Tensor:\n    return torch.zeros(count)\n"


@pytest.mark.parametrize(
    ("text", "other", "saved", "counts"),
    [
        (KEPT, "placed.py", DERIVED, (1, 0)),
        (GLOBAL, "sending.py", SENDS, (1, 0)),
        (IMPORTS, "made.py", MADE, (0, 1)),
    ],
    ids=["derived", "sent", "new"],
)
def test_a_saved_file_is_read_anew_by_all_that_look_through_the_package(text, other, saved, counts, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    model, beside = package / "model.py", package / other
    model.write_text(text)

    async def talk():
        async with editor(tmp_path) as client:
            client.open(model, text)
            found = [len((await client.next()).diagnostics)]
            for written in (saved, None, saved):
                if written is None:
                    beside.unlink()
                else:
                    beside.write_text(written)
                identifier = types.TextDocumentIdentifier(beside.as_uri())
                client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))
                told = await client.next()
                while told.uri != model.as_uri():
                    told = await client.next()
                found.append(len(told.diagnostics))
            return found

    assert asyncio.run(talk()) == [*counts, *counts]


def test_comments_settings_and_language(tmp_path):
    settings = tmp_path / "pyproject.toml"
    settings.write_text('[tool.samedevice.lint]\nexclude = ["old"]\n')
    ignored = BAD.replace("x.shape[1])", "x.shape[1])  # samedevice: ignore[SD201] of the host")
    (tmp_path / "old").mkdir()

    async def talk():
        async with editor(tmp_path, locale="zh-CN") as client:
            client.open(tmp_path / "ignored.py", ignored)
            assert not (await client.next()).diagnostics
            client.open(tmp_path / "old" / "model.py", BAD)
            assert not (await client.next()).diagnostics
            client.open(tmp_path / "model.py", BAD)
            (shown,) = (await client.next()).diagnostics
            assert "创建在内存里" in shown.message
            page = await client.hover(tmp_path / "model.py", 4)
            assert "为什么会失败" in page.contents.value
            settings.write_text("[tool.samedevice.lint]\nselect = 7\n")
            client.change(tmp_path / "model.py", GOOD, 2)
            client.change(tmp_path / "model.py", BAD, 3)
            while not client.messages:
                await asyncio.sleep(0.05)
            return client.messages

    (message,) = asyncio.run(talk())
    assert "pyproject.toml" in message


def test_positions_count_as_the_editor_does(tmp_path):
    text = BAD.replace("steps = torch", 's = "𝄞"; steps = torch')

    async def talk():
        async with editor(tmp_path) as client:
            client.open(tmp_path / "model.py", text)
            (shown,) = (await client.next()).diagnostics
            return shown.range.end.character

    assert asyncio.run(talk()) == len(text.splitlines()[4]) + 1  # UTF-16 has two units for the clef


@pytest.mark.parametrize("words", [["--lsp", "."], ["--lsp", "--select", "SD9"], []])
def test_wrong_usage(words, tmp_path):
    command = [sys.executable, "-m", "samedevice", "lint", *words]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("samedevice: ")


def test_without_pygls_the_extra_is_named(tmp_path):
    (tmp_path / "pygls.py").write_text("raise ImportError('no pygls')\n")
    (tmp_path / "lsprotocol.py").write_text("raise ImportError('no pygls')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['samedevice', 'lint', '--lsp']; "
    code += "from samedevice.cli import main; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert 'pip install "samedevice[lsp]"' in done.stderr
