"""The commands and their options.

Option words stop at the script's name: everything behind it belongs to the script.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from samedevice.cli._completion import (
    complete_code,
    complete_format,
    complete_language,
    complete_launcher,
    complete_machine,
)
from samedevice.findings import OUTPUT_FORMATS
from samedevice.launchers import PYTHON, STARTED, begins_command
from samedevice.messages import Language, Phrase, language_of, languages

_INTERNAL_ERROR = 70
DEFAULT_MACHINE = "2x24GB"

app = typer.Typer(
    name="samedevice",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Lang = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(languages()),
        autocompletion=complete_language,
        help="Language of the messages; default: that of the locale.",
        show_default=False,
    ),
]

Form = Annotated[
    str | None,
    typer.Option(
        "--output-format",
        metavar="|".join(OUTPUT_FORMATS),
        autocompletion=complete_format,
        help="How findings are written: for people (text, the default), as the JSON document, as annotations "
        "of GitHub Actions, as SARIF.",
        show_default=False,
    ),
]
FormFile = Annotated[
    Path | None,
    typer.Option(
        "--output-file",
        metavar="FILE",
        help="Write --output-format there, and the text as well where it always goes.",
        show_default=False,
    ),
]
Known = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Leave out the findings that this file knows, so that only new ones count.",
        show_default=False,
    ),
]
WriteKnown = Annotated[
    bool, typer.Option("--write-baseline", help="Write what is found into the baseline instead.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Findings only, one line each.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also frames, versions, what was left out and why, and the settings."
    ),
]


def main() -> None:
    """Entry point of the `samedevice` command."""
    try:
        _command()
    except Exception as error:  # of ours: a script's own error never gets here
        if os.environ.get("SAMEDEVICE_DEBUG"):
            raise
        from samedevice.report import render

        reason = f"{type(error).__name__}: {error}"
        told = render(Phrase("internal-error", reason=reason), language_of(os.environ))
        print(f"samedevice: {told}", file=sys.stderr)
        raise SystemExit(_INTERNAL_ERROR) from None


def _command() -> None:
    # Not `app()`: calling a Typer object installs typer's own sys.excepthook, which the script would then
    # see.
    typer.main.get_command(app).main(prog_name="samedevice")


def _open_closed_output() -> None:
    """Python has None where the caller closed standard output; what is printed then goes nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 # as Python opens its own


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        import samedevice

        try:
            torch = f"torch {version('torch')}"
        except PackageNotFoundError:
            torch = "no torch"
        typer.echo(f"samedevice {samedevice.__version__} ({torch}, Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def samedevice(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the versions and exit."
        ),
    ] = False,
) -> None:
    """Run your real multi-GPU PyTorch program on a machine without a GPU and see every device bug."""


_Program = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT|COMMAND [ARGS]",
        help="The program and its own arguments, - for standard input, or the command as you type it: "
        "torchrun --nproc_per_node 2 train.py, python -m pkg.",
        show_default=False,
    ),
]
_Module = Annotated[
    str | None,
    typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does.", show_default=False),
]


class _StopsAtProgram(TyperCommand):
    """`-m MODULE` and `-` end our options just as SCRIPT does; click knows only the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _close_options(args, _taking_values(self)))

    def collect_usage_pieces(self, _: Any) -> list[str]:
        return ["[OPTIONS]", "SCRIPT|-m MODULE|COMMAND", "[ARGS]..."]


class _StopsAtCommand(TyperCommand):
    """A command ends our options: `preflight --machine 8x24GB torchrun --nproc_per_node 8 train.py`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = next(_positions(args, _taking_values(self)), len(args))
        if args[at : at + 1] != ["--"] and begins_command(args[at:]):
            args = [*args[:at], "--", *args[at:]]
        return super().parse_args(ctx, args)


def _positions(args: list[str], taking_values: set[str]) -> Iterator[int]:
    """Where words stand that are neither options nor values of options, and `--`."""
    index = 0
    while index < len(args):
        word = args[index]
        if word in ("-", "--") or not word.startswith("-"):
            yield index
        index += 2 if word in taking_values else 1


def _taking_values(command: TyperCommand) -> set[str]:
    """Options of a command that take a value."""
    return {
        spelled
        for each in command.params
        if not getattr(each, "is_flag", True) and each.name != "module"
        for spelled in each.opts
    }


def _close_options(args: list[str], taking_values: set[str]) -> list[str]:
    end = next(_positions(args, taking_values), len(args))
    for index, word in enumerate(args[:end]):
        if word.startswith("-m") and args[index - 1] not in taking_values:  # also -mMODULE, as Python allows
            behind = index + (2 if word == "-m" else 1)
            return [*args[:behind], "--", *args[behind:]]
    return [*args[:end], "--", *args[end:]] if args[end : end + 1] == ["-"] else args


@app.command(
    cls=_StopsAtProgram,
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: 0 nothing found, 1 findings, 2 wrong usage, 3 the script itself failed, 130 "
    "interrupted.",
)
def run(
    # Long: a parameter for each option, with its help.
    *,
    program: _Program = None,
    module: _Module = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="GPUs to pretend: 2x24GB, 8xA100-80G, 4xRTX4090, a + of those, or a TOML file.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: memory of each GPU and all findings, in one file.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write memory, operators and copies of each device for chrome://tracing and Perfetto.",
            show_default=False,
        ),
    ] = None,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast", help="Raise at the first mismatch, as real hardware does, instead of going on."
        ),
    ] = False,
    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="|".join((PYTHON.name, *STARTED)),
            autocompletion=complete_launcher,
            help="Start the script through this launcher, one process for each rank, all on the same virtual "
            "machine; python starts none.",
            show_default=False,
        ),
    ] = None,
    nproc: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes to launch; default: one for each GPU.", show_default=False
        ),
    ] = None,
    launcher_args: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="More options for the launcher, as one quoted text.", show_default=False
        ),
    ] = None,
    ranks: Annotated[
        str,
        typer.Option(
            metavar="all|one",
            help="one: run rank 0 alone, the other ranks assumed equal; for models too large for many "
            "processes.",
        ),
    ] = "all",
    output_format: Form = None,
    output_file: FormFile = None,
    baseline: Known = None,
    write_baseline: WriteKnown = False,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Write the safe fixes that ran clean into the files of the project; a library gets a patch "
            "in samedevice-patches.",
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            help="Print what --fix would write, for git apply; the script's own output goes to standard "
            "error.",
        ),
    ] = False,
    try_fixes: Annotated[
        bool,
        typer.Option(
            "--try-fixes",
            help="Run the script again with the safe fixes, changed on no disk, and say what came out.",
        ),
    ] = False,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="With --fix or --diff: do not run the script again.")
    ] = False,
    try_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Try fixes on this machine as well; may be given several times.",
            show_default=False,
            autocompletion=complete_machine,
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Run a script on a virtual multi-GPU machine and list its device bugs.

    The script runs as Python would run it, and its standard output is its own; everything that samedevice
    says goes to standard error. A device mismatch is noted, the operand is moved, and the script goes on, so
    one run shows all bugs.

    With findings the status is 1 however the script ended. Without findings, a script that ends by an
    exception or by sys.exit with anything but 0 gives 3. A script that calls os._exit ends at once, with its
    own status and no report. After --fix the status is that of the script as it is now: 0 where nothing was
    found with the fixes.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._run import Request, run_program

    chosen = _language(lang)
    settings = settings_here(chosen)
    settled = None if PYTHON.name in (launcher, settings.launcher) else settings.launcher
    request = Request(
        program=tuple(program or ()),
        module=module,
        machine=machine or settings.machine or DEFAULT_MACHINE,
        json=json,
        html=html,
        trace=trace,
        fail_fast=fail_fast,
        language=chosen or settings.language,
        launcher=_launcher(launcher, settled, nproc, launcher_args, ranks),
        processes=nproc or settings.nproc,
        launcher_options=tuple(shlex.split(launcher_args or "")),
        one_rank=ranks == "one",
        settled_launcher=settled,
        reporting=reporting_of(
            settings, output_format, output_file, baseline, write_baseline, quiet=quiet, verbose=verbose
        ),
        fixing=_fixing(fix, diff, try_fixes, no_try, try_on),
    )
    raise typer.Exit(run_program(request))


@app.command(
    cls=_StopsAtProgram,
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: the program's own; 2 for wrong usage.",
)
def guard(
    *,
    program: _Program = None,
    module: _Module = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="After a device error, make the failing call again on a virtual machine, for birthplaces.",
        ),
    ] = False,
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Move the operand that is in the wrong place, say so once, and go on; costs time in each "
            "call.",
        ),
    ] = False,
    lang: Lang = None,
) -> None:
    """Run a program on the real machine; a device error that it does not catch is explained below its
    traceback.

    Until then nothing is watched and nothing costs time, unless it is to be healed. Behind a launcher
    (`samedevice guard torchrun train.py`) each of its processes is guarded.
    """
    from samedevice.cli._choices import settings_here
    from samedevice.cli._guard import guard_program

    chosen = _language(lang)
    language = chosen or settings_here(chosen).language
    status = guard_program(tuple(program or ()), module, language, heal=heal, replay=replay)
    raise typer.Exit(status)


@app.command(epilog="Exit status: 0 explained, 2 wrong usage.")
def explain(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-|CODE",
            autocompletion=complete_code,
            help="A file with the error, - for standard input, or a code such as SD111.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --output-format json.")] = False,
    output_format: Form = None,
    output_file: FormFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Explain a pasted error, or the page of a code.

    Reads tracebacks, notebooks and logs as people paste them: with ranks, dates and colours, cut off, or the
    last line alone.
    Names the cause with its reasons, or the likeliest ones. Needs neither a GPU nor torch.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._explain import explain as explain_source

    _open_closed_output()
    chosen = _language(lang)
    settings = settings_here(chosen)
    form = output_format or ("json" if json else None)
    reporting = reporting_of(settings, form, output_file, quiet=quiet, verbose=verbose)
    raise typer.Exit(explain_source(source, reporting, chosen or settings.language))


def _launcher(
    launcher: str | None, settled: str | None, nproc: int | None, words: str | None, ranks: str
) -> str | None:
    if ranks not in ("all", "one"):
        raise typer.BadParameter(f"{ranks!r} is not one of 'all', 'one'.", param_hint="'--ranks'")
    if launcher is None and settled is None:
        given = {"--nproc": nproc is not None, "--launcher-args": words is not None}
        for option in (name for name, there in given.items() if there):
            raise typer.BadParameter("needs --launcher.", param_hint=f"'{option}'")
    elif launcher is not None and launcher not in (PYTHON.name, *STARTED):
        known = ", ".join(map(repr, (PYTHON.name, *STARTED)))
        raise typer.BadParameter(f"{launcher!r} is not one of {known}.", param_hint="'--launcher'")
    return None if launcher == PYTHON.name else launcher


@app.command(
    cls=_StopsAtCommand,
    context_settings={"allow_interspersed_args": True},
    epilog="Exit status: 0 nothing speaks against it, 1 refused, 2 wrong usage.",
)
def preflight(
    # Long: a parameter for each option, with its help.
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT|CONFIG|COMMAND",
            help="A Python or shell script, a configuration in YAML or JSON, or a command as you type it: "
            "torchrun --nproc_per_node 2 train.py.",
            show_default=False,
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- ARGS]", help="The script's own arguments, behind `--`.", show_default=False
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="The machine it is meant for: 8xA100-80G, 2x24GB, or a TOML file.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join((PYTHON.name, *STARTED))}; a shell script says so itself.",
            show_default=False,
        ),
    ] = None,
    nproc: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Processes per machine; default: one for each visible GPU.", show_default=False
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write the files of a launch that fits the machine.", show_default=False
        ),
    ] = None,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="Also show what a training step needs of each GPU, and the largest micro-batch that fits.",
        ),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="For --write and --memory: the model's folder, with its config.json.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="For both: samples of one step over all GPUs.")] = 1,
    context: Annotated[int, typer.Option(metavar="N", help="For both: tokens of one sample.")] = 2048,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For both: ddp, fsdp, zero2 or zero3 instead of a choice.",
            show_default=False,
        ),
    ] = None,
    sharding: Annotated[
        str, typer.Option(metavar="NAME", help="For both: fsdp or deepspeed where replicas do not fit.")
    ] = "fsdp",
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="For both: full, lora or qlora; what is trained, 16 as the rank of adapters."
        ),
    ] = "full",
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="accelerate's or DeepSpeed's configuration of the launch.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as JSON.", show_default=False)
    ] = None,
    output_format: Form = None,
    output_file: FormFile = None,
    baseline: Known = None,
    write_baseline: WriteKnown = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Judge a launch before it starts, from source and configuration alone.

    Says which kind of parallelism will result, and refuses what would fail once the GPUs are there: a
    device_map under a launcher, ranks
    that share a GPU, a configuration that contradicts its command. Nothing is run, no weight is read, and
    torch is not imported.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._preflight import Asked, Options, judge_launch

    chosen = _language(lang)
    settings = settings_here(chosen)
    if config is None and target.endswith(".py"):  # what else is named says itself how it is started
        launcher, nproc = launcher or settings.launcher, nproc or settings.nproc
    asked = Asked(model, batch, context, mode, sharding, method)
    options = Options(
        target,
        tuple(arguments or ()),
        machine or settings.machine or DEFAULT_MACHINE,
        launcher,
        nproc,
        config,
        json,
        chosen or settings.language,
        asked,
        write,
        memory,
        reporting_of(
            settings, output_format, output_file, baseline, write_baseline, quiet=quiet, verbose=verbose
        ),
    )
    _open_closed_output()
    raise typer.Exit(judge_launch(options))


@app.command(epilog="Exit status: 0 nothing found, 1 findings, 2 wrong usage.")
def lint(
    # Long: a parameter for each option, with its help.
    *,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...", help="Python files, notebooks, and folders with them.", show_default=False
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Only these rules, by code, by the beginning of a code (SD20), or by name, with commas; ALL "
            "also turns on those that are off by default.",
            show_default=False,
            autocompletion=complete_code,
        ),
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(metavar="CODES", help="Leave these rules out.", show_default=False)
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERNS",
            help="Leave out files and folders below PATH by such names, with commas: tests,*_pb2.py.",
            show_default=False,
        ),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write the safe fixes into the files.")] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="Print what --fix would write, for git apply; the rest goes to standard error."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that read; default: one for each core.", show_default=False
        ),
    ] = None,
    lsp: Annotated[
        bool,
        typer.Option(
            "--lsp",
            help="Serve an editor over standard input and output, by the Language Server Protocol; needs "
            'pip install "samedevice[lsp]".',
        ),
    ] = False,
    output_format: Form = None,
    output_file: FormFile = None,
    baseline: Known = None,
    write_baseline: WriteKnown = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Find device bugs in Python sources and notebooks, without running them.

    Follows where each tensor is made, moved and used, through assignments, calls within the project and
    classes. Neither the files nor torch are imported.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._lint import Asked, lint_paths, serve_lint

    if fix and diff:
        raise typer.BadParameter("does not go with --diff.", param_hint="'--fix'")
    _open_closed_output()
    chosen = _language(lang)
    settings = settings_here(chosen)
    asked = Asked(
        tuple(paths or ()),
        _listed(select),
        _listed(ignore),
        _listed(exclude),
        fix,
        diff,
        jobs,
        chosen if lsp else chosen or settings.language,
        reporting_of(
            settings, output_format, output_file, baseline, write_baseline, quiet=quiet, verbose=verbose
        ),
    )
    raise typer.Exit(serve_lint(asked) if lsp else lint_paths(asked))


def _listed(words: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (words or "").split(",") if word.strip())


@app.command(epilog="Exit status: 0 fits and proved, 1 does not fit or failed its proof, 2 wrong usage.")
def plan(
    # Long: a parameter for each option, with its help.
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model's folder, its config.json, or its name on the hub (owner/name).",
            show_default=False,
        ),
    ],
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="The machine it is to run on: 8xA100-80G, 2xRTX4090+1xA100-40G, or a TOML file.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    batch: Annotated[
        str,
        typer.Option(
            metavar="N|max", help="Sequences of one call of generate; max: the most of them that fit."
        ),
    ] = "1",
    context: Annotated[
        str, typer.Option(metavar="N|max", help="Tokens of a prompt; max: the longest one that fits.")
    ] = "2048",
    images: Annotated[
        int,
        typer.Option(metavar="N", help="Pictures in each prompt; --context counts their tokens."),
    ] = 0,
    image_size: Annotated[
        str | None,
        typer.Option(
            metavar="WxH",
            help="Pixels of each picture; a model that scales every picture to one size keeps its own.",
            show_default="1024x1024",
        ),
    ] = None,
    new_tokens: Annotated[
        int, typer.Option("--new-tokens", metavar="N", help="Tokens that are made behind it.")
    ] = 128,
    concurrent: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Also tell how many such sequences vLLM and SGLang can serve at once, with their commands.",
            show_default=False,
        ),
    ] = None,
    which: Annotated[
        bool, typer.Option("--which", help="List the machines of the table on which it fits, instead.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="MAP.json",
            help="Try a device map that is there already on this machine, instead.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What is best: room (most memory left on the fullest GPU), stage (the slowest GPU as fast "
            "as can be), gpus (the fewest), or price (the cheapest; needs --price).",
        ),
    ] = "room",
    price: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Prices of GPUs, in TOML: a line such as H100-80G = 2.5 for each.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="float32, float16 or bfloat16; default: what configuration or weights say.",
            show_default=False,
        ),
    ] = None,
    reserve: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of each GPU that is left alone, for the CUDA context and fragmentation.",
            show_default="1GiB",
        ),
    ] = None,
    device_map: Annotated[
        Path | None,
        typer.Option(
            "--device-map", metavar="FILE", help="Write the device map as JSON.", show_default=False
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a script that loads the model by this plan.", show_default=False
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the plan as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: what each GPU holds, block by block, in one file.",
            show_default=False,
        ),
    ] = None,
    lang: Lang = None,
) -> None:
    """Place a model on the GPUs of a machine, and prove on a virtual one that it loads and runs.

    Prints what each GPU holds, the device map for from_pretrained, and what makes sure that no better one
    exists. No weight is read and no code of the model's folder is run.
    """
    from samedevice.cli._choices import settings_here
    from samedevice.cli._plan import Options, plan_model

    _open_closed_output()
    chosen = _language(lang)
    settings = settings_here(chosen)
    options = Options(
        model=model,
        machine=machine or settings.machine or DEFAULT_MACHINE,
        batch=batch,
        context=context,
        images=images,
        image_size=image_size,
        new_tokens=new_tokens,
        concurrent=concurrent,
        which=which,
        check=check,
        objective=objective,
        prices=price,
        reserve=reserve,
        dtype=dtype,
        json=json,
        device_map=device_map,
        script=script,
        html=html,
        language=chosen or settings.language,
    )
    raise typer.Exit(plan_model(options))


@app.command(epilog="Exit status: 0 listed, 2 no GPU of that name.")
def machines(
    *,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="A part of a name (h100, rtx 40), a pattern with * and ?, or a machine (2x24GB).",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the GPUs as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """List the GPUs that --machine knows by name, with their memory and compute capability.

    The memory is what torch reports on a real GPU. Where it is from is shown when a PATTERN leaves ten GPUs
    or fewer, and in the JSON.
    """
    from samedevice.cli._machines import list_machines

    _open_closed_output()
    raise typer.Exit(list_machines(pattern, json, _language(lang)))


@app.command(epilog="Exit status: 0 nothing found, 1 something found, 2 wrong usage.")
def doctor(
    *,
    project: Annotated[
        Path,
        typer.Option(
            "--project",
            metavar="FOLDER",
            help="The folder whose sources and scripts say what is used.",
        ),
    ] = Path(),
    gpu_test: Annotated[
        bool,
        typer.Option(
            "--gpu-test",
            help="Also copy patterns between all GPUs and the host, and compare every byte.",
        ),
    ] = False,
    gpu_test_seconds: Annotated[
        float,
        typer.Option(min=1, metavar="SECONDS", help="Time for --gpu-test; pairs that are left are told."),
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print what was found and read as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Say what is wrong with this machine and this environment, and what repairs it.

    Reads the driver, the GPUs and what joins them, the installed packages, the variables and what the files
    of the project use. Nothing is imported into this process and nothing is changed; what cannot be read is
    said. Needs neither a GPU nor torch nor a network.
    """
    from samedevice.cli._doctor import judge_environment

    _open_closed_output()
    seconds = gpu_test_seconds if gpu_test else None
    raise typer.Exit(judge_environment(project, seconds, json, _language(lang)))


@app.command(epilog="Exit status: 0 nothing found, 1 something found, 2 wrong usage, 130 interrupted.")
def sweep(
    # Long: a parameter for each option, with its help.
    *,
    package: Annotated[
        str,
        typer.Argument(
            metavar="PACKAGE|FOLDER",
            help="The library whose models are tried: transformers, diffusers, peft, timm or torchvision. "
            "Or a folder of checkpoints, whose code is run as trust_remote_code does; weights are not "
            "needed.",
            show_default=False,
        ),
    ],
    models: Annotated[
        str, typer.Option(metavar="GLOB", help="Only classes of these names: 'Qwen2*', '*ForCausalLM'.")
    ] = "*",
    machine: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Machine to split over; may be given several times.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    actions: Annotated[
        str,
        typer.Option(
            metavar="LIST",
            help="What is done with each model: loss, greedy, beam, sample, static-cache, assisted, batch, "
            "train, checkpointing, lora, offload.",
        ),
    ] = "loss,greedy",
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Processes at a time.")] = 1,
    cuts: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most places at which one model is cut for two GPUs.")
    ] = 16,
    seconds: Annotated[
        float, typer.Option(min=1, metavar="N", help="Time for one class, after which it is ended.")
    ] = 120.0,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Memory for one class, after which it is ended.")
    ] = "6GiB",
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where results are kept; what is there and did not change is not tried again.",
            show_default="in the cache folder of the user",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write everything as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: models by actions and machines, with all findings.",
            show_default=False,
        ),
    ] = None,
    scripts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write the smallest script of each root cause there, and run it to confirm the finding.",
            show_default=False,
        ),
    ] = None,
    versions: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Sweep two releases of the package, installed in the cache folder, and compare them.",
            show_default=False,
        ),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="With --versions: find the release that brought or repaired each."),
    ] = False,
    lang: Lang = None,
) -> None:
    """Try every model of a library on several virtual GPUs, and list its device bugs by root cause.

    Each class is built in a small size from its own default configuration, run on one GPU, and then cut at
    every place that automatic placement (`device_map="auto"`) may choose. What fails on one GPU is no device
    bug and is left out. What is found is loaded again through `from_pretrained`. A sweep that was stopped
    goes on where it was.
    """
    from samedevice.cli._sweep import Options, sweep_package
    from samedevice.machines import size_in_mib

    most = size_in_mib(memory)
    if not most:
        raise typer.BadParameter(f"{memory!r} is no size.", param_hint="'--memory'")
    _open_closed_output()
    asked = Options(
        package,
        models,
        tuple(machine or (DEFAULT_MACHINE,)),
        tuple(dict.fromkeys(word.strip() for word in actions.split(",") if word.strip())),
        jobs,
        cuts,
        seconds,
        most << 20,
        store,
        json,
        html,
        scripts,
        tuple(word.strip() for word in (versions or "").split(",") if word.strip()),
        bisect,
        _language(lang),
    )
    raise typer.Exit(sweep_package(asked))


env = typer.Typer(
    help="Write down an environment, and compare two.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(env, name="env")


@env.command(epilog="Exit status: 0 written, 2 wrong usage.")
def lock(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it, as JSON; - for standard output.")
    ],
    *,
    lang: Lang = None,
) -> None:
    """Write what matters of this environment into a file.

    The packages that decide devices, the driver, the GPUs and what joins them, and variables of an
    allow-list: no other variable, no name, nothing secret.
    """
    from samedevice.cli._environment import lock_environment

    _open_closed_output()
    raise typer.Exit(lock_environment(file, _language(lang)))


@env.command(epilog="Exit status: 0 nothing differs, 1 something differs, 2 wrong usage.")
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A file of env lock.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Say what differs between two environments, and what of it may explain a device error.

    For a program that works on one machine and fails on another.
    """
    from samedevice.cli._environment import compare_environments

    _open_closed_output()
    raise typer.Exit(compare_environments(first, second, json, _language(lang)))


def _fixing(fix: bool, diff: bool, try_fixes: bool, no_try: bool, machines: list[str] | None) -> Any:
    from samedevice.cli._run import Fixing

    if fix and diff:
        raise typer.BadParameter("does not go with --diff.", param_hint="'--fix'")
    if no_try and (try_fixes or not (fix or diff)):
        raise typer.BadParameter("goes with --fix or --diff alone.", param_hint="'--no-try'")
    if machines and (no_try or not (fix or diff or try_fixes)):
        raise typer.BadParameter("needs --fix, --diff or --try-fixes.", param_hint="'--try-on'")
    if not (fix or diff or try_fixes):
        return None
    return Fixing(fix, diff, not no_try, tuple(machines or ()))


def _language(lang: str | None) -> Language | None:
    if lang is None or lang in languages():
        return lang
    known = ", ".join(map(repr, languages()))
    raise typer.BadParameter(f"{lang!r} is not one of {known}.", param_hint="'--lang'")
