"""Executing an experiment: checks first, then one notebook by papermill, then the report."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import backends
from ..backends import language
from ..runs import trials
from ..wire import families
from . import costs
from .experiments import BadInput, Experiment, checked, folder, is_done

# A cell may run for a day; a kernel that is not up after two minutes will not come.
_CELL_TIMEOUT, _START_TIMEOUT = 24 * 3600, 120


class RunFailed(RuntimeError):
    """A run that started did not end; what it finished lies in its folder."""


def prepare(experiment: Experiment, given: Mapping[str, Any], yes: bool, out: str = "") -> dict[str, Any]:
    """Check everything that can be checked before a kernel starts; return the notebook's parameters.

    A folder `out` that holds trials of other settings is refused here, before anything in it is touched.

    A language model's file is named by its whole path from here on. On the real API: prints what the run will take,
    and raises BadInput unless `yes`. Raises BadInput and backends.NoKey.
    """
    parameters = _absolute(checked({**experiment.parameters, **given}, experiment.notebook))
    names = ("arms", "task", "model", "instances", "repeats", "seed")
    try:
        specs = trials.plan(**{n: parameters[n] for n in names}) if set(names) <= set(parameters) else []
        chosen = parameters.get("backend", "sim")
        own = language.is_language(chosen) or "setups" in parameters
        if own:
            chosen = parameters["backend"] = language.absolute(chosen)
            _check_setups(parameters, out)
            language.check(chosen)
        if out and specs:
            name = language.label(chosen) if own else chosen
            trials.finished(specs, name, Path(out).expanduser() / "trials.jsonl")
        if chosen == "sim" or own:
            # Building the backend would import the SDK, a second, for a process that sends nothing.
            if not families.is_known(families.serve(parameters.get("model", families.known_models()[0]))):
                known = ", ".join(families.known_models())
                raise BadInput(f"unknown model {parameters['model']!r}; the emulator knows {known}")
            return parameters
        backend = backends.get(chosen)
    except ValueError as error:
        raise BadInput(str(error)) from None
    print(costs.estimate(specs) if specs else "cost unknown: the notebook has no trial parameters")
    if not yes:
        raise BadInput("this spends money on the real API: add --yes to go on")
    asyncio.run(backend.reachable(parameters["model"]))
    return parameters


def _check_setups(parameters: Mapping[str, Any], out: str) -> None:
    """Check what a language model will be asked, where a notebook has set-ups; raises ValueError."""
    from ..studies.signature_lm import language_runs

    if "setups" in parameters:
        names = ("arms", "model", "instances", "seed", "pilot", "alpha", "block")
        wanted, given = language_runs.setups(parameters["setups"]), {n: parameters[n] for n in names}
        language_runs.check(parameters["backend"], wanted, folder=Path(out).expanduser() if out else None, **given)


def _absolute(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with the paths of files made absolute: the notebook works in the run's folder.

    A path is what `traces` lists and what a name that ends in `_file` holds. Raises BadInput for one that is not
    there.
    """

    def path(text: str) -> str:
        found = Path(text).expanduser().resolve()
        if not found.exists():
            raise BadInput(f"no file or folder {text}")
        return str(found)

    made = dict(parameters)
    for name, value in parameters.items():
        if name == "traces":
            made[name] = [path(str(v)) for v in value]
        elif name.endswith("_file") and value:
            made[name] = path(value)
    return made


def run(experiment: Experiment, parameters: Mapping[str, Any], out: str = "") -> Path:
    """Execute the notebook with the parameters; return the run's folder with all of its files.

    A folder with an interrupted run of the same settings goes on where that one stopped. Raises RunFailed,
    BadInput.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    where = folder(out, experiment.name)
    (where / "summary.json").unlink(missing_ok=True)  # of an earlier run: it must not speak for this one
    executed = where / "notebook.ipynb"
    try:
        with tempfile.TemporaryDirectory(prefix="gemlab-") as sockets:
            papermill.execute_notebook(
                str(experiment.notebook),
                str(executed),
                parameters={**parameters, "out": str(where)},
                kernel_name="python3",
                language="python",
                kernel_manager_class=_ipc_manager(sockets),
                progress_bar=False,
                stdout_file=sys.stdout,
                stderr_file=sys.stderr,
                cwd=str(where),
                start_timeout=_START_TIMEOUT,
                execution_timeout=_CELL_TIMEOUT,
            )
    except PapermillExecutionError as error:
        raise RunFailed(f"{error.ename}: {error.evalue} ({_resumable(where)})") from None
    except (DeadKernelError, TimeoutError, RuntimeError) as error:
        raise RunFailed(f"{type(error).__name__}: {error} ({_resumable(where)})") from None
    except KeyboardInterrupt:
        logging.getLogger("asyncio").disabled = True  # that the kernel died of it is no news
        raise RunFailed(f"interrupted ({_resumable(where)})") from None
    if not is_done(where):
        raise RunFailed(f"the notebook ended before its last cell ({_resumable(where)})")
    html(executed, where / "report.html")
    return where


def _ipc_manager(folder: str) -> Any:
    """Return a kernel manager class that talks over sockets in `folder`.

    No port is opened: nothing on the network can listen in, and kernels started together cannot clash.
    """
    from jupyter_client.manager import AsyncKernelManager

    class IpcKernelManager(AsyncKernelManager):
        def __init__(self, **options: Any):
            super().__init__(**{**options, "transport": "ipc", "connection_file": f"{folder}/kernel.json"})

    return IpcKernelManager


def _resumable(where: Path) -> str:
    return f"finished trials are kept; go on with --out {where}"


def html(notebook: Path, report: Path) -> None:
    """Write the executed notebook as one HTML page, figures inside."""
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_filename(str(notebook))
    report.write_text(body, "utf-8")
