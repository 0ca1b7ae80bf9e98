"""`samedevice plan`: where the blocks of a model go on a machine, with the proof."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from samedevice.cli._answering import answered, write_file
from samedevice.cli._train import TrainOptions, train_plan
from samedevice.errors import UsageError
from samedevice.machines import parse_machine, size_in_mib
from samedevice.messages import Language, Phrase, language_of
from samedevice.planner.inference import (
    OBJECTIVES,
    RESERVE,
    Axis,
    Objective,
    Offer,
    Proof,
    Workload,
    check_map,
    machines_for,
    place_model,
    prove_automatic,
    read_map,
    read_prices,
)
from samedevice.planner.pipelines import Picture, is_pipeline, machines_for_pipeline, place_pipeline
from samedevice.report import open_console, render
from samedevice.report.gpu_bars import CHARACTERS, labelled
from samedevice.report.plan import (
    CheckedMap,
    Plan,
    offers_document,
    picture_document,
    pipeline_document,
    pipeline_script,
    pipeline_shown,
    print_offers,
    workload_document,
)

FITS, UNFIT = 0, 1
BATCH, CONTEXT, NEW_TOKENS = "1", "2048", 128
"""Where none are asked for."""
METHOD, SHARDING = "full", "fsdp"
"""Of training, likewise."""

_MAX = "max"
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    model: str
    machine: str
    batch: str
    context: str | None
    images: int
    image_size: str | None
    seconds: int | None
    frames: int | None
    new_tokens: int | None
    concurrent: int | None
    which: bool
    check: Path | None
    objective: str | None
    prices: Path | None
    reserve: str | None
    dtype: str | None
    json: Path | None
    device_map: Path | None
    script: Path | None
    html: Path | None
    train: bool
    method: str | None
    mode: str | None
    sharding: str | None
    write: Path | None
    language: Language | None


def plan_model(options: Options) -> int:
    """Make the plan, print it, write what was asked for, and return the exit status."""
    with suppress(BrokenPipeError):
        return answered(options.language, partial(_answer, options))
    return FITS


def _answer(options: Options, language: Language) -> int:
    """Which machines there are, what a map is worth, or a plan."""
    if options.train:
        return _train(options, language)
    if options.write is not None:
        raise UsageError(Phrase("train.only-train"))
    if is_pipeline(options.model):
        return _pipeline(options, language)
    if options.frames is not None:
        raise UsageError(Phrase("pipeline.only-films"))
    workload, most = _workload(options)
    if (options.which and options.check is not None) or (most and (options.which or options.check)):
        raise UsageError(Phrase("place.mixed"))
    if options.html is not None and (options.which or options.check is not None):
        raise UsageError(Phrase("page.only-plan"))
    if options.which:
        return _which(options, workload, language)
    if options.check is not None:
        return _check(options, options.check, workload, language)
    return _plan(options, workload, most, language)


def _train(options: Options, language: Language) -> int:
    other = (options.check, options.device_map, options.script, options.prices)
    if options.which or any(each is not None for each in other):
        raise UsageError(Phrase("train.not-with"))
    context = options.context or CONTEXT
    if _MAX in (options.batch, context):
        raise UsageError(Phrase("train.no-max"))
    batch, length = _number("batch", options.batch), _number("context", context)
    asked = TrainOptions(
        options.model,
        options.machine,
        batch,
        length,
        options.method or METHOD,
        options.mode,
        options.sharding or SHARDING,
        options.write,
        options.json,
        options.html,
        _page_language(options),
    )
    with _progress(language) as tell:
        return train_plan(asked, language, tell)


def _pipeline(options: Options, language: Language) -> int:
    """A diffusion pipeline: whole components."""
    other = {
        "--check": options.check is not None,
        "--price": options.prices is not None and not options.which,
        "--concurrent": options.concurrent is not None,
        "--images": bool(options.images),
        "--seconds": options.seconds is not None,
        "--objective": options.objective is not None,
        "--context": options.context is not None,
        "--new-tokens": options.new_tokens is not None,
        "--method": options.method is not None,
        "--mode": options.mode is not None,
        "--sharding": options.sharding is not None,
        "--batch max": options.batch == _MAX,
    }
    for name, given in other.items():
        if given:
            raise UsageError(Phrase("pipeline.only", option=name))
    picture = Picture(_number("batch", options.batch), _image_size(options.image_size), options.frames)
    if options.which:
        return _which_for_pipeline(options, picture, language)
    with _progress(language) as tell:
        plan = place_pipeline(
            options.model,
            parse_machine(options.machine),
            picture,
            reserve=_reserve(options.reserve),
            dtype=options.dtype,
            tell=tell,
        )
    if options.json is not None:
        write_file(options.json, json.dumps(pipeline_document(plan, language), indent=1) + "\n")
    if options.html is not None:
        import samedevice
        from samedevice.report.web import pipeline_page  # jinja2: only who asks for a page imports it

        page = pipeline_page(plan, _page_language(options), version=samedevice.__version__)
        write_file(options.html, page)
    has_map = plan.proved and plan.fits
    if has_map and options.device_map is not None:
        write_file(options.device_map, json.dumps(dict(plan.placement.gpus), indent=1) + "\n")
    if plan.proved and options.script is not None:
        write_file(options.script, pipeline_script(plan))
    _show(pipeline_shown(plan, language, ascii_only=_plain()))
    if not plan.proved:
        _tell_unwritten(options, language)
    elif not has_map and options.device_map is not None:
        _show(labelled([_unwritten(options.device_map, Phrase("pipeline.no-map"))], language))
    return FITS if plan.proved and (has_map or options.device_map is None) else UNFIT


def _plan(options: Options, workload: Workload, most: Axis | None, language: Language) -> int:
    asked = options.objective or OBJECTIVES[0]
    objective: Objective | None = next((each for each in OBJECTIVES if each == asked), None)
    if objective is None:
        raise UsageError(Phrase("place.objective", given=asked, known=", ".join(OBJECTIVES)))
    machine = parse_machine(options.machine)
    prices = _prices(options)
    with _progress(language) as tell:
        placed = place_model(
            options.model,
            machine,
            workload,
            objective=objective,
            most=most,
            reserve=_reserve(options.reserve),
            dtype=options.dtype,
            prices=prices,
            tell=tell,
        )
        automatic = None
        if options.html is not None and placed.fits:
            tell(Phrase("place.step-auto"))
            automatic = prove_automatic(placed.profile.source, machine, placed.workload)
    plan = Plan(placed, language, options.concurrent)
    _write_files(options, plan, automatic)
    map_file = None if options.device_map is None else str(options.device_map)
    _show(plan.shown(language, ascii_only=_plain(), map_file=map_file))
    if not plan.proved:
        _tell_unwritten(options, language)
    return FITS if plan.proved else UNFIT


def _which(options: Options, workload: Workload, language: Language) -> int:
    prices, reserve = _prices(options), _reserve(options.reserve)
    with _progress(language) as tell:
        tell(Phrase("place.step-profile", model=options.model))
        profile, found = machines_for(
            options.model, workload, reserve=reserve, dtype=options.dtype, prices=prices
        )
    name, path = profile.source.name, profile.source.path
    return _offered(options, name, path, workload_document(profile.workload), found, language)


def _which_for_pipeline(options: Options, picture: Picture, language: Language) -> int:
    if options.html is not None:
        raise UsageError(Phrase("page.only-plan"))
    prices, reserve = _prices(options), _reserve(options.reserve)
    with _progress(language) as tell:
        tell(Phrase("place.step-profile", model=options.model))
        source, found = machines_for_pipeline(
            options.model, picture, reserve=reserve, dtype=options.dtype, prices=prices
        )
    return _offered(options, source.name, options.model, picture_document(picture), found, language)


def _offered(
    options: Options,
    name: str,
    path: str,
    asked: dict[str, Any],
    found: Sequence[Offer],
    language: Language,
) -> int:
    if options.json is not None:
        write_file(options.json, json.dumps(offers_document(name, asked, found), indent=1) + "\n")
    print_offers(open_console(sys.stdout), path, _given(options), found, language)
    sys.stdout.flush()
    return FITS if found else UNFIT


def _given(options: Options) -> str:
    """The options that say what a model is to do, as they were given."""
    values = {
        "--batch": options.batch if options.batch != BATCH else None,
        "--context": options.context,
        "--new-tokens": options.new_tokens,
        "--images": options.images or None,
        "--image-size": options.image_size,
        "--seconds": options.seconds,
        "--frames": options.frames,
        "--reserve": options.reserve,
        "--dtype": options.dtype,
    }
    return " ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def _check(options: Options, file: Path, workload: Workload, language: Language) -> int:
    machine, device_map = parse_machine(options.machine), read_map(file)
    with _progress(language) as tell:
        tell(Phrase("place.step-proof", number=1))
        checked = check_map(
            options.model,
            machine,
            device_map,
            workload,
            reserve=_reserve(options.reserve),
            dtype=options.dtype,
        )
    shown = CheckedMap(checked, language)
    if options.json is not None:
        write_file(options.json, json.dumps(shown.as_json(), indent=1) + "\n")
    _show(shown.shown(language, ascii_only=_plain()))
    return FITS if shown.holds else UNFIT


def _show(what: RenderableType) -> None:
    open_console(sys.stdout).print(what)
    sys.stdout.flush()


def _workload(options: Options) -> tuple[Workload, Axis | None]:
    """The numbers, and which of them is to be the largest that fits."""
    given: dict[Axis, str] = {"context": options.context or CONTEXT, "batch": options.batch}
    asked: list[Axis] = [axis for axis, text in given.items() if text == _MAX]
    if len(asked) > 1:
        raise UsageError(Phrase("place.both-most"))
    numbers = {axis: _number(axis, text) for axis, text in given.items()}
    workload = Workload(
        numbers["batch"],
        numbers["context"],
        NEW_TOKENS if options.new_tokens is None else options.new_tokens,
        options.images,
        _image_size(options.image_size),
        options.seconds,
    )
    return workload, next(iter(asked), None)


def _image_size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) != 2 or not all(side.isdecimal() and len(side) <= _DIGITS for side in sides):
        raise UsageError(Phrase("place.no-image-size", given=text[:80]))
    return int(sides[0]), int(sides[1])


def _number(axis: Axis, text: str) -> int:
    if text == _MAX:
        return 1
    if not text.isdecimal() or len(text) > _DIGITS or not int(text):
        raise UsageError(Phrase("place.no-number", option=f"--{axis}", given=text[:80]))
    return int(text)


def _prices(options: Options) -> dict[str, float]:
    return {} if options.prices is None else read_prices(options.prices)


def _reserve(text: str | None) -> int:
    if text is None:
        return RESERVE
    mib = 0 if text == "0" else size_in_mib(text)
    if mib is None:
        raise UsageError(Phrase("place.no-size", given=text))
    return mib << 20


def _progress(language: Language) -> AbstractContextManager[Callable[[Phrase], Any]]:
    """What tells each step on a terminal, in one line that goes away; elsewhere nothing is told."""
    if not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    return _Status(language)


class _Status:
    """A line with a moving sign."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._status = Console(stderr=True, highlight=False, markup=False, emoji=False).status("")

    def __enter__(self) -> Callable[[Phrase], Any]:
        self._status.start()
        return lambda step: self._status.update(render(step, self._language))

    def __exit__(self, *_: object) -> None:
        self._status.stop()


def _plain() -> bool:
    """Whether standard output cannot carry the drawing's characters."""
    try:
        CHARACTERS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def _tell_unwritten(options: Options, language: Language) -> None:
    """Which files that were asked for are not there, since nothing was proved."""
    asked = [file for file in (options.device_map, options.script) if file is not None]
    if asked:
        _show(labelled([_unwritten(file, Phrase("place.unproved")) for file in asked], language))


def _unwritten(file: Path, why: Phrase) -> tuple[Phrase, Phrase]:
    return Phrase("place.unwritten"), Phrase("place.unwritten-line", path=str(file), why=why)


def _write_files(options: Options, plan: Plan, automatic: Proof | None) -> None:
    if options.json is not None:
        write_file(options.json, json.dumps(plan.as_json(), indent=1) + "\n")
    if options.html is not None:
        write_file(options.html, _page(options, plan, automatic))
    if not plan.proved:
        return
    if options.device_map is not None:
        write_file(options.device_map, json.dumps(plan.device_map, indent=1) + "\n")
    if options.script is not None:
        write_file(options.script, plan.script())


def _page_language(options: Options) -> Language:
    return options.language or language_of(os.environ)


def _page(options: Options, plan: Plan, automatic: Proof | None) -> str:
    """The page in the reader's own language, also where the terminal cannot carry it."""
    import samedevice
    from samedevice.report.web import plan_page  # jinja2: only who asks for a page imports it

    language = _page_language(options)
    shown = Plan(plan.placed, language, options.concurrent)
    map_file = None if options.device_map is None else str(options.device_map)
    return plan_page(shown, language, version=samedevice.__version__, map_file=map_file, automatic=automatic)
