"""`samedevice preflight`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._completion import complete_machine
from samedevice.cli._options import (
    DEFAULT_MACHINE,
    Form,
    FormFile,
    Known,
    Lang,
    Quiet,
    Verbose,
    WriteKnown,
    chosen_language,
    command_alone,
    open_closed_output,
)
from samedevice.cli._stopping import StopsAtCommand
from samedevice.launchers import PYTHON, STARTED

app = command_alone()


@app.command(
    cls=StopsAtCommand,
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

    chosen = chosen_language(lang)
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
    open_closed_output()
    raise typer.Exit(judge_launch(options))
