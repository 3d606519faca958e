"""The command line: a thin shell over functions with the same arguments."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Measure what an agent on Gemini loses with its thought signatures, and which guards stop its loops.",
)


@app.callback()
def _commands() -> None:
    """Keep `run` a subcommand however few there are."""


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="experiment by name (experiments/NAME.toml) or the path of a TOML file")],
    parameter: Annotated[
        list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="set a parameter of the notebook")
    ] = None,
    backend: Annotated[
        str,
        typer.Option(
            help="sim (the embedded emulator), gemini (needs a key), gguf:FILE or openai:URL#MODEL (a language model)"
        ),
    ] = "",
    out: Annotated[str, typer.Option(help="folder for the results; one of an interrupted run resumes it")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="spend what the estimate says")] = False,
) -> None:
    """Run an experiment and leave its table, figures, traces and report in one folder."""
    from ..measure import summary
    from . import experiments, notebooks

    chosen = experiments.load(name)
    known = experiments.defaults(chosen.notebook)
    given = dict(experiments.override(text, known) for text in parameter or [])
    if backend:
        given["backend"] = backend
    parameters = notebooks.prepare(chosen, given, yes, out)
    where = notebooks.run(chosen, parameters, out)
    print(f"\n{summary.text(json.loads((where / 'summary.json').read_text('utf-8')))}")
    traces = "\n         ".join(str(path) for path in sorted(where.rglob("*.jsonl")))
    print(f"\nreport   {where / 'report.html'}\nsummary  {where / 'summary.json'}\ntraces   {traces}")


@app.command("list")
def list_(
    kind: Annotated[
        str, typer.Argument(help="studies, tasks, strategies, prunings, guards, rules, …; all if left out")
    ] = "",
    parts: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="a Python file with parts of your own")
    ] = None,
) -> None:
    """List what experiments and commands know by name, with a line on each."""
    from .. import registry
    from . import listing

    registry.load_parts(parts or [])
    print(listing.text(kind))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def notebook(
    context: typer.Context,
    folder: Annotated[str, typer.Option(metavar="DIR", help="where the copies go that you work with")] = "workbench",
    fresh: Annotated[bool, typer.Option("--fresh", help="replace copies that you have changed")] = False,
    copy_only: Annotated[bool, typer.Option("--copy-only", help="do not start JupyterLab")] = False,
) -> None:
    """Copy the notebooks into a working folder and open JupyterLab there, reachable from this computer only.

    Further options go to JupyterLab.
    """
    import os
    from pathlib import Path

    from . import shipped

    where = Path(folder).expanduser().resolve()
    copied, left = shipped.copy_notebooks(where, fresh)
    print(
        f"{len(copied)} notebooks copied to {where}"
        + (f"; left as you changed them: {', '.join(left)}" if left else "")
    )
    if not copy_only:
        options = ["--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={where}", *context.args]
        os.execv(sys.executable, [sys.executable, "-m", "jupyterlab", *options])


@app.command()
def serve(
    port: Annotated[int, typer.Option(help="port on 127.0.0.1; 0 takes a free one")] = 8787,
    model: Annotated[
        str, typer.Option(help="scripted (the tour for unknown tools), tour, gguf:FILE or openai:URL#MODEL")
    ] = "scripted",
    profile: Annotated[
        list[str] | None, typer.Option(metavar="MODEL|FIELD=VALUE", help="serve all as MODEL, or switch a rule")
    ] = None,
    faults: Annotated[str, typer.Option(metavar="FILE", help="TOML with a [[fault]] table for each fault")] = "",
    record: Annotated[str, typer.Option(metavar="DIR", help="keep each exchange there, bodies only")] = "",
) -> None:
    """Serve the emulator over HTTP on this machine until Ctrl-C, for any client in any language."""
    from . import serving

    serving.serve(port, model, profile or [], faults, record)


@app.command()
def show(
    traces: Annotated[str, typer.Argument(help="a trials.jsonl")],
    trial: Annotated[str, typer.Argument(help="id of a trial, or the beginning of some; all if left out")] = "",
    png: Annotated[str, typer.Option(metavar="FILE", help="also draw the first of them there")] = "",
) -> None:
    """Show trials step by step: calls, signatures sent back, guards, refusals."""
    from pathlib import Path

    from ..measure import timeline
    from ..runs import trace
    from . import experiments

    found = [t for t in trace.read(Path(traces)) if t.trial.startswith(trial)]
    if not found:
        raise experiments.BadInput(f"{traces}: no trial that begins with {trial!r}")
    print("\n\n".join(timeline.text(one) for one in found))
    if png:
        from ..measure import figures, style

        style.save(figures.timeline(found[0]), Path(png))


@app.command()
def sweep(
    traces: Annotated[list[str], typer.Argument(help="recorded runs: files or folders, in any form that is known")],
    rule: Annotated[list[str] | None, typer.Option(help="rule to sweep; again for several")] = None,
    tolerance: Annotated[float, typer.Option(help="share of healthy runs that may be stopped")] = 0.01,
    out: Annotated[str, typer.Option(help="folder for sweep.csv and sweep.png")] = "",
) -> None:
    """Replay guards over recorded runs: what each threshold would catch, stop and save."""
    from . import sweeping

    print(sweeping.sweep(traces, rule or [], tolerance, out))


@app.command()
def model(
    name: Annotated[str, typer.Argument(help="fetch this one, accepting its licence; all are listed if left out")] = "",
) -> None:
    """List the small language models that are known, or fetch one for `--backend gguf:FILE`."""
    import shlex
    import signal

    from ..backends import weights

    if not name:
        print(f"{weights.listing()}\n\nAny other GGUF file serves as well: --backend gguf:FILE")
        return
    chosen = weights.known(name)
    if weights.is_right(chosen):
        print(f"{name} is here already")
    else:
        print(f"fetching {name}: {chosen.bytes / 1e6:.0f} MB, licence {chosen.licence}", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the installer ends and its files go
        weights.fetch(chosen)
        print(f"licence  {weights.terms(chosen)}")
    quoted = shlex.quote(str(weights.place(chosen)))
    print(f"model    {weights.place(chosen)}\nuse it   --backend gguf:{quoted}, or export GEMLAB_GGUF={quoted}")


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    print(installed("gemlab"))


def main() -> None:
    """Run the command line: bad input ends with one line and exit code 2, a failed run with 1."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        print(f"gemlab: {error}", file=sys.stderr)
        sys.exit(code)


def _exit_code(error: Exception) -> int | None:
    """Return the exit code of an error that is the user's or the run's, None for one that is ours."""
    from .. import backends
    from ..backends import weights
    from ..runs import trace
    from . import experiments, notebooks

    if isinstance(error, experiments.BadInput | backends.NoKey | trace.TraceError):
        return 2
    return 1 if isinstance(error, notebooks.RunFailed | weights.FetchFailed | OSError) else None
