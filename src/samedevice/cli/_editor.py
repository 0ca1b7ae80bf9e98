"""`samedevice lint --lsp`: what lint finds, shown by an editor while a file is written.

Must guarantee: standard output carries the protocol and nothing else; what is shown belongs to the text that
the editor has, saved or not; a file that cannot be read as Python for a moment keeps what was shown.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

import samedevice
from samedevice.diagnosis.fixes import changes_of
from samedevice.errors import UsageError
from samedevice.findings import Finding
from samedevice.lint import Checked, Linter, Options, is_excluded, rule_of
from samedevice.messages import Language, Phrase, language_of
from samedevice.report import error_text, page_text, render, render_finding
from samedevice.settings import Settings, find_settings
from samedevice.suppression import Decisions, Found, sift

_PAUSE = 0.3
"""Seconds without a key after which a changed text is read."""
_FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.samedevice"
_NOTHING: tuple[Finding[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    language: Language | None = None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an editor shows of a file."""

    version: int | None
    findings: tuple[Finding[str], ...]
    diagnostics: tuple[types.Diagnostic, ...]


@dataclass(slots=True)
class _Files:
    """Reads texts; other files of the project are kept until one is saved."""

    asked: Asked
    language: Language = "en"
    _linters: dict[Options, Linter] = field(default_factory=dict)

    def forget(self) -> None:
        """Another file changed on disk."""
        self._linters.clear()

    def findings(self, path: Path, text: str) -> tuple[Finding[str], ...] | None:
        """What is told of a text, in the language; None where it is no Python for now.

        Raises `UsageError` for settings that are not understood.
        """
        settings = find_settings(path.parent)
        options, excluded = self._options(settings, path)
        if excluded:
            return _NOTHING
        checked = self._linter(options).check_code(path, text)
        if checked.unreadable is not None:
            return None
        return tuple(
            render_finding(each, self._language(settings)) for each in _told(checked, settings, text)
        )

    def _language(self, settings: Settings) -> Language:
        return self.asked.language or settings.language or self.language

    def _options(self, settings: Settings, path: Path) -> tuple[Options, bool]:
        lint = settings.lint
        folder = Path(path.anchor) if settings.file is None else settings.file.parent
        options = Options(self.asked.select or lint.select, (*lint.ignore, *self.asked.ignore))
        return options, is_excluded(path, folder, (*lint.exclude, *self.asked.exclude))

    def _linter(self, options: Options) -> Linter:
        if options not in self._linters:
            self._linters[options] = Linter(options)
        return self._linters[options]


def _told(checked: Checked, settings: Settings, text: str) -> tuple[Finding[Phrase], ...]:
    """What neither a comment of the text nor a setting leaves out."""
    found = [Found(finding) for finding in checked.findings]
    texts = {str(checked.path): text}
    return sift(found, Decisions(settings.ignore), f"lint {checked.path}", texts=texts).findings


class Editor:
    """Answers one editor."""

    def __init__(self, server: LanguageServer, asked: Asked) -> None:
        self.server = server
        self.files = _Files(asked, language_of(os.environ))
        self._shown: dict[str, _Shown] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._reader = ThreadPoolExecutor(1)
        self._complained = ""

    def begin(self, locale: str | None) -> None:
        """The editor says in which language its user works."""
        if locale:
            self.files.language = language_of({"LANG": locale.replace("-", "_")})

    def read(self, uri: str, pause: float = 0.0) -> None:
        """Read the text of a file soon; a later call takes the place of one that still waits."""
        if uri in self._waiting:
            self._waiting[uri].cancel()
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._read(uri, pause))

    async def _read(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        path = _path_of(uri)
        if path is None:
            return
        document = self.server.workspace.get_text_document(uri)
        version, text = document.version, document.source
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._reader, self.files.findings, path, text)
        except UsageError as error:
            self._complain(error_text(error, self.files.asked.language or self.files.language))
            return
        if found is not None and document.version == version:
            self._show(uri, document, _Shown(version, found, tuple(_diagnostics(document, found))))

    def _complain(self, text: str) -> None:
        if text != self._complained:  # once, not at every key
            self._complained = text
            told = types.ShowMessageParams(types.MessageType.Error, f"samedevice: {text}")
            self.server.window_show_message(told)

    def _show(self, uri: str, document: TextDocument, shown: _Shown) -> None:
        self._shown[uri] = shown
        told = types.PublishDiagnosticsParams(uri, list(shown.diagnostics), shown.version)
        self.server.text_document_publish_diagnostics(told)

    def close(self, uri: str) -> None:
        """The file is no longer open."""
        if uri in self._waiting:
            self._waiting.pop(uri).cancel()
        self._shown.pop(uri, None)
        self.server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def saved(self, uri: str) -> None:
        """A file was written; others may say something else now."""
        self.files.forget()
        for each in list(self._shown):
            self.read(each)
        self.read(uri)

    def actions(self, uri: str, asked: types.Range) -> Iterator[types.CodeAction]:
        """The safe fixes of what is shown in a range, and all of them at once."""
        document = self.server.workspace.get_text_document(uri)
        shown = self._shown.get(uri)
        if shown is None or shown.version != document.version:
            return
        every: list[types.TextEdit] = []
        for finding, diagnostic in zip(shown.findings, shown.diagnostics, strict=True):
            for fix in finding.fixes[:1]:
                edits = _edits(fix.diff) if fix.safety == "safe" and fix.diff else []
                if not edits:
                    continue
                if not any(_touch(edit.range, other.range) for edit in edits for other in every):
                    every += edits
                if _touch(diagnostic.range, asked):
                    yield types.CodeAction(
                        f"{fix.title} ({finding.code})",
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic],
                        is_preferred=True,
                        edit=_changes(document, edits),
                    )
        if every:
            language = self.files.asked.language or self.files.language
            title = render(Phrase("lint.fix-all"), language)
            yield types.CodeAction(title, kind=_FIX_ALL, edit=_changes(document, every))

    def page(self, uri: str, at: types.Position) -> types.Hover | None:
        """The page of the rule that stands at a position."""
        shown = self._shown.get(uri)
        for finding, diagnostic in zip(*_both(shown), strict=True):
            if _touch(diagnostic.range, types.Range(at, at)):
                language = self.files.asked.language or self.files.language
                text = page_text(rule_of(finding.code), language)
                return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), diagnostic.range)
        return None


def _both(shown: _Shown | None) -> tuple[tuple[Finding[str], ...], tuple[types.Diagnostic, ...]]:
    return ((), ()) if shown is None else (shown.findings, shown.diagnostics)


def _path_of(uri: str) -> Path | None:
    """The Python file that an address means; None for cells of notebooks, texts without a file, others."""
    name = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(name) if name is not None and name.endswith(".py") else None


def _diagnostics(document: TextDocument, findings: tuple[Finding[str], ...]) -> Iterator[types.Diagnostic]:
    for finding in findings:
        assert finding.at is not None
        line = finding.at.line - 1
        text = document.lines[line] if line < len(document.lines) else ""
        start = len(text) - len(text.lstrip())
        code = types.Range(types.Position(line, start), types.Position(line, len(text.rstrip())))
        severity = types.DiagnosticSeverity
        yield types.Diagnostic(
            document.position_codec.range_to_client_units(document.lines, code),
            "\n".join([finding.title, *finding.reasons, *([finding.cure] if finding.cure else [])]),
            severity=severity.Information if finding.confidence == "guess" else severity.Warning,
            code=finding.code,
            source="samedevice",
        )


def _edits(diff: str) -> list[types.TextEdit]:
    """The changes of a diff; they begin and end at lines."""
    return [
        types.TextEdit(
            types.Range(types.Position(change.first, 0), types.Position(change.end, 0)),
            "".join(change.new),
        )
        for change in changes_of(diff)
    ]


def _changes(document: TextDocument, edits: list[types.TextEdit]) -> types.WorkspaceEdit:
    return types.WorkspaceEdit(changes={document.uri: edits})


def _touch(one: types.Range, other: types.Range) -> bool:
    return one.start <= other.end and other.start <= one.end


def serve_editor(asked: Asked) -> None:
    """Answer the editor that started this process, until it ends."""
    server = LanguageServer("samedevice", samedevice.__version__)
    editor = Editor(server, asked)

    @server.feature(types.INITIALIZE)
    def _(params: types.InitializeParams) -> None:
        editor.begin(params.locale)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def _(params: types.DidOpenTextDocumentParams) -> None:
        editor.read(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def _(params: types.DidChangeTextDocumentParams) -> None:
        editor.read(params.text_document.uri, _PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def _(params: types.DidSaveTextDocumentParams) -> None:
        editor.saved(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def _(params: types.DidCloseTextDocumentParams) -> None:
        editor.close(params.text_document.uri)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, _FIX_ALL]),
    )
    def _(params: types.CodeActionParams) -> list[types.CodeAction]:
        wanted = params.context.only
        return [
            action
            for action in editor.actions(params.text_document.uri, params.range)
            if wanted is None or any(_is_kind(action.kind, kind) for kind in wanted)
        ]

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def _(params: types.HoverParams) -> types.Hover | None:
        return editor.page(params.text_document.uri, params.position)

    output = sys.stdout.buffer
    sys.stdout = sys.stderr
    server.start_io(sys.stdin.buffer, output)


def _is_kind(kind: types.CodeActionKind | str | None, wanted: types.CodeActionKind | str) -> bool:
    """Whether a kind is a wanted one or part of it: `source.fixAll.samedevice` of `source.fixAll`."""
    return kind is not None and f"{_word(kind)}.".startswith(f"{_word(wanted)}.")


def _word(kind: types.CodeActionKind | str) -> str:
    return str(kind.value) if isinstance(kind, types.CodeActionKind) else kind
