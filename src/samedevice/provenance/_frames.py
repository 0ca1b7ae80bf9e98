"""Where in a program something was called: sites, taken from frames.

Must guarantee: taking a site keeps no frame and no local variable alive, only the code object.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

from samedevice.events import Place

Site = tuple[CodeType, int]
"""A code object and the offset of the instruction in it (`f_lasti`)."""

_STANDARD_LIBRARY_PLUMBING = ("contextlib.py", "functools.py", "threading.py", "runpy.py")
_PACKAGES = ("site-packages", "dist-packages")
_WRAPPERS = ("accelerate/hooks.py", "accelerate/utils/operations.py", "/typing_extensions.py")
"""Of other packages; typing_extensions wraps what is deprecated."""


class FrameFilter:
    """Tells frames that a person wrote from those of torch, accelerate's hooks and samedevice."""

    def __init__(self, internal_folders: tuple[str, ...], script: str | None) -> None:
        self._folders = internal_folders
        self._script = script
        self._script_folder = str(Path(script).resolve().parent) + "/" if script else None
        self._internal: dict[str, bool] = {}
        self._of_user: dict[str, bool] = {}
        self._own: dict[str, bool] = {}

    def internal(self, file: str) -> bool:
        """Whether frames of this file are skipped when the failing statement is looked for."""
        known = self._internal.get(file)
        if known is None:
            known = self._internal[file] = (
                file.startswith(self._folders)
                or file.startswith("<frozen ")
                or file.endswith(_WRAPPERS)
                or (file.endswith(_STANDARD_LIBRARY_PLUMBING) and "site-packages" not in file)
            )
        return known

    def of_user(self, file: str) -> bool:
        """Whether the file belongs to the user's script: the script itself or a module beside or below it."""
        known = self._of_user.get(file)
        if known is None:
            resolved = file if file.startswith("<") else str(Path(file).resolve())
            if self._script_folder is None:
                known = self.own(file)
            else:
                known = resolved.startswith(self._script_folder) and not _installed(resolved)
            self._of_user[file] = known
        return known

    def own(self, file: str) -> bool:
        """Whether the file is neither skipped nor part of an installed package: its author may change it."""
        known = self._own.get(file)
        if known is None:
            known = self._own[file] = not self.internal(file) and not _installed(file)
        return known

    def site(self, frame: FrameType | None) -> Site | None:
        """Innermost site outside torch, accelerate's hooks and samedevice, from `frame` outwards."""
        internal = self._internal
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            known = internal.get(file)
            if known is None:
                known = self.internal(file)
            if not known:
                return (code, frame.f_lasti)
            frame = frame.f_back
        return None

    def user_site(self, frame: FrameType | None) -> Site | None:
        """Innermost site of the user's script, from `frame` outwards."""
        of_user = self._of_user
        while frame is not None:
            file = frame.f_code.co_filename
            known = of_user.get(file)
            if known is None:
                known = self.of_user(file)
            if known:
                return (frame.f_code, frame.f_lasti)
            frame = frame.f_back
        return None

    def frames(self, frame: FrameType | None, end: str = "\0") -> Iterator[FrameType]:
        """Frames outside torch, accelerate's hooks and samedevice, innermost first, up to one of a file that
        begins with `end`.
        """
        while frame is not None and not frame.f_code.co_filename.startswith(end):
            if not self.internal(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back


def _installed(file: str) -> bool:
    return any(folder in file for folder in _PACKAGES) or "/lib/python3" in file


def installed_path(file: str) -> str | None:
    """A file of an installed package from that package's name on: `transformers/cache_utils.py`; None for
    another file.
    """
    if not any(folder in file for folder in _PACKAGES):
        return None  # most files: no path has to be made of them
    parts = Path(file).parts
    for folder in _PACKAGES:
        if folder in parts:
            last = len(parts) - 1 - parts[::-1].index(folder)
            return "/".join(parts[last + 1 :])
    return None


def site_of(frame: FrameType) -> Site:
    """The site where a frame stands."""
    return (frame.f_code, frame.f_lasti)


_INLINE = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>"))
"""Code that is a part of the function around it, and from Python 3.12 on has no frame of its own."""


def function_name(code: CodeType) -> str:
    """The function that code belongs to: of a comprehension that around it."""
    if code.co_name not in _INLINE:
        return code.co_name
    around = [each for each in code.co_qualname.split(".") if each not in ("<locals>", "<genexpr>", *_INLINE)]
    return around[-1] if around else "<module>"


def resolve(site: Site | None) -> Place | None:
    """File, line, function and source text of a site."""
    if site is None:
        return None
    code, offset = site
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= offset < end and number is not None:
            line = number
            break
    text = linecache.getline(code.co_filename, line).strip()
    return Place(code.co_filename, line, function_name(code), text, call_at(code, offset, text))


_LONGEST_CALL = 30
"""Lines; a longer expression is not kept."""


def call_at(code: CodeType, offset: int, text: str) -> str:
    """The expression that the instruction at `offset` computes, in one line.

    Empty when unknown or no more than `text`.
    """
    position = next(islice(code.co_positions(), offset // 2, None), None)
    if position is None or None in position:
        return ""
    first, last, start, end = position
    if first is None or last is None or start is None or end is None or last - first > _LONGEST_CALL:
        return ""
    lines = [linecache.getline(code.co_filename, number).encode() for number in range(first, last + 1)]
    if not all(lines):
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    call = " ".join(b" ".join(lines).decode("utf-8", "replace").split())
    return "" if call == text else call
