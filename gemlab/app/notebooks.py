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
from ..agent.trial import Spec
from ..registry import BadInput, load_parts
from ..studies.base import STUDIES, check
from ..studies.session import folder
from . import costs
from .experiments import Experiment, checked, is_done

# A cell may run for a day; a kernel that is not up after two minutes will not come.
_CELL_TIMEOUT, _START_TIMEOUT = 24 * 3600, 120


class RunFailed(RuntimeError):
    """A run that started did not end; what it finished lies in its folder."""


def prepare(experiment: Experiment, given: Mapping[str, Any], yes: bool, out: str = "") -> dict[str, Any]:
    """Check everything that can be checked before a kernel starts; return the notebook's parameters.

    A folder `out` that holds trials of other settings is refused here, before anything in it is touched. Files are
    named by their whole paths from here on. On a backend that costs money: prints what the run will take, and raises
    BadInput unless `yes`. Raises BadInput and backends.NoKey.
    """
    parameters = checked({**experiment.parameters, **given}, experiment.notebook)
    load_parts(parameters.get("parts", []))
    specs: list[Spec] = []
    if experiment.study:
        study, _ = STUDIES.find(experiment.study)
        read = check(study, {**parameters, "out": out or parameters.get("out", "")})
        parameters |= {name: value for name, value in read.values().items() if name in parameters}
        specs = study.plan(read)
    way, _ = backends.find(parameters.get("backend", "sim"))
    if way.spends:
        _spend(specs, parameters, yes)
    return parameters


def _spend(specs: list[Spec], parameters: Mapping[str, Any], yes: bool) -> None:
    """Say what a run will take; raises BadInput unless that is agreed to and the API can be reached."""
    backend = backends.get(parameters["backend"])
    print(costs.estimate(specs) if specs else "cost unknown: the study does not tell its trials")
    if not yes:
        raise BadInput("this spends money on the real API: add --yes to go on")
    if isinstance(backend, backends.ClientBackend) and "model" in parameters:
        asyncio.run(backend.reachable(parameters["model"]))


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
