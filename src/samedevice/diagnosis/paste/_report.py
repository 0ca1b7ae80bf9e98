"""What a paste says, as a record without judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from samedevice.diagnosis.paste._elsewhere import Memory
from samedevice.diagnosis.paste._pattern import Pattern
from samedevice.diagnosis.paste._told import Told
from samedevice.diagnosis.paste._tried import without_attempts

_PLUMBING = Pattern(
    r"^(torch/(?!optim/|distributed/(?:fsdp|algorithms)|nn/parallel|_inductor|utils/data)|accelerate/hooks\.py|accelerate/utils/operations\.py"
    r"|(?:starlette|fastapi|uvicorn|flask|werkzeug|gradio|anyio|asyncio|aiohttp|tornado|gunicorn|click|ray/_private|multiprocessing)/"
    r"|(?:.{0,400}/)?samedevice/(?:runtime|cli|_api)|contextlib\.py|functools\.py|threading\.py|concurrent/)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a traceback."""

    file: str | None
    """Relative to the installed package where that can be told, else as pasted; None when the paste does not
    say.
    """
    line: int | None
    function: str | None
    code: str
    """The printed line of source; empty when none is printed."""
    marked: str = ""
    """The part of it that marks below point to; empty without marks."""
    above: tuple[str, ...] = ()
    """The lines that are printed above it, as notebooks do."""
    installed: bool = False
    """Whether its path is that of an installed package, of the standard library or of a checkpoint."""

    @property
    def by_user(self) -> bool:
        """Whether it is of a script, a notebook or a project."""
        return self.file is not None and not self.installed

    @property
    def plumbing(self) -> bool:
        """Whether the frame belongs to torch, a hook or the standard library: it says where, hardly why."""
        return self.file is not None and _PLUMBING.match(self.file) is not None


@dataclass(frozen=True)
class Report:
    """One error of a paste."""

    kind: str
    """Kind of message, as in the closed list of the corpus; `unknown-message` when none is recognised."""
    message: str | None
    """The error as it would be printed, without ranks, dates, colours and the exception's name."""
    exception: str | None = None
    devices: tuple[str, ...] = ()
    """In printed order."""
    op: str | None = None
    """Wrapper or operator, as printed."""
    argument: str | None = None
    frames: tuple[Frame, ...] = ()
    """Oldest first."""
    versions: dict[str, str] = field(default_factory=dict)
    ranks: tuple[int, ...] = ()
    """Ranks that show this error."""
    pairs: tuple[tuple[str, ...], ...] = ()
    """The devices that each of the messages alike names, as several processes print them."""
    earlier: tuple[str, ...] = ()
    """Kinds of other errors that stand before this one in the paste."""
    words: str = ""
    """The whole paste, cleaned."""
    topic: str | None = None
    """What an error is about that is not about devices, such as `shape`; None for one that is, or may be."""
    whole: bool = True
    """Whether a wording says what it is about; False where only its words speak of no device."""
    operands: tuple[tuple[str, str], ...] = ()
    """Names and devices of the operands that the message places, in printed order."""
    pieces: tuple[str, ...] = ()
    """Code that the paste shows between fences."""
    told: Told | None = None
    """What the prose around the error states; None where the paste is a traceback alone."""
    beside: Told | None = None
    """What the prose around a traceback states."""
    memory: Memory | None = None
    """The amounts that an error about memory names."""

    @cached_property
    def evidence(self) -> str:
        """The paste without what it says was tried in vain."""
        return without_attempts(self.words)

    @cached_property
    def own_frames(self) -> tuple[Frame, ...]:
        """Frames that a person wrote for this purpose, oldest first."""
        return tuple(frame for frame in self.frames if not frame.plumbing)

    @cached_property
    def at(self) -> Frame | None:
        """The failing statement: the innermost frame that is not plumbing.

        The innermost of all when there is no other.
        """
        return self.own_frames[-1] if self.own_frames else (self.frames[-1] if self.frames else None)

    @cached_property
    def below(self) -> tuple[Frame, ...]:
        """The frames of what the failing statement called: torch, mostly."""
        return () if self.at is None else self.frames[self.frames.index(self.at) + 1 :]

    @cached_property
    def statement(self) -> str:
        """Source of the failing statement and of what it called."""
        frames = () if self.at is None else (self.at, *self.below)
        return "\n".join(frame.code for frame in frames if frame.code)

    @cached_property
    def code(self) -> str:
        """All source lines that the paste shows."""
        return "\n".join(frame.code for frame in self.frames if frame.code)
