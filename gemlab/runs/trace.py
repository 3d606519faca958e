"""Traces: what a trial leaves behind, and its file, one JSON line a trial, never with a key or a header.

In a line contents are kept once each in a pool and named by index, since every request repeats the last one's; the
settings of the first request stand in `config`, of the others what differs.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import tasks
from ..agent import step as views
from ..agent.arm import Arm
from ..agent.step import Step
from ..agent.trial import Trial
from ..backends import Source
from ..guards.fingerprints import Identity
from ..guards.rounds import Verdict
from ..registry import BadInput
from ..tasks import Task
from ..wire import contents as wire
from ..wire import interaction_steps
from ..wire.contents import Content
from . import trace_v1

VERSION = 2


class TraceError(BadInput):
    """A trace file that cannot be used, with where and why in one line."""


@dataclass(frozen=True)
class Tools:
    """What measuring needs of a task: the name of its first tool (None: unknown), what tools declare of their calls."""

    first: str | None = None
    identities: Mapping[str, Identity] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task) -> Tools:
        """Return those of a task; what its tools declare by functions of their own is left out."""
        plain = {name: replace(i, of_args=None, of_result=None) for name, i in task.identities.items()}
        return cls(task.first_tool, plain)


@dataclass(frozen=True)
class Trace:
    """A finished trial: its setting, how it ended, and its steps; everything else is a view of these.

    `trial`: its id. `backend`: the name, `source`: who answered. `ended`: UTC, ISO 8601. `seconds`: of the clock.
    `gemlab`: the version of this package that wrote it.
    """

    trial: str
    arm: Arm
    task: str
    instance: int
    repeat: int
    seed: int
    backend: str
    source: Source
    model: str
    outcome: str
    reason: str | None
    detail: str | None
    answer: str | None
    ended: str
    seconds: float
    gemlab: str
    tools: Tools
    steps: list[Step]

    @functools.cached_property
    def served(self) -> list[str]:
        """The models that answered, as far as the answers say."""
        return sorted({s.pin.served for s in self.steps if s.pin and s.pin.served})

    @property
    def warnings(self) -> list[str]:
        """What has to be said of the models that answered."""
        return sorted({s.pin.warning for s in self.steps if s.pin and s.pin.warning})

    @property
    def forced(self) -> bool:
        """Tell whether a final answer was forced."""
        return views.is_forced(self.steps)

    @property
    def received(self) -> list[Content]:
        """The whole history as it came: messages, answers, the responses to their calls, nudges."""
        return views.received(self.steps)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The request bodies as they were sent, in order."""
        return [s.request for s in self.steps if s.request is not None]

    @property
    def config(self) -> dict[str, Any]:
        """The settings of the first request that went out."""
        return _settings(self.requests[0]) if self.requests else {}


def of(trial: Trial, backend: str, source: Source) -> Trace:
    """Return the trace of a finished trial; equal contents of its requests are shared from here on."""
    spec, pool = trial.spec, _Pool()
    return Trace(
        spec.id,
        replace(spec.arm),
        spec.task,
        spec.instance,
        spec.repeat,
        spec.seed,
        backend,
        source,
        spec.model,
        trial.outcome,
        trial.reason,
        trial.detail,
        trial.answer,
        datetime.now(UTC).isoformat(timespec="seconds"),
        round(trial.seconds, 6),
        _version(),
        Tools.of(tasks.get(spec.task)),
        [_shared(step, pool) for step in trial.steps],
    )


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("gemlab")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _shared(step: Step, pool: _Pool) -> Step:
    contents = [pool.shared(c) for c in step.contents]
    request = step.request
    if request is not None:
        key = _carrier(request)
        request = {**request, key: [pool.shared(c) for c in request[key]] if key == "input" else contents}
    return replace(step, contents=contents, request=request, seconds=round(step.seconds, 6))


def _carrier(request: Mapping[str, Any]) -> str:
    """Return the key under which a request carries its history: contents, or the steps of an interaction."""
    return "input" if "input" in request else "contents"


def _settings(request: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in request.items() if k != _carrier(request)}


class _Pool:
    """Contents by equality, in order of first appearance."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._by_value: dict[str, int] = {}
        self._by_id: dict[int, tuple[int, dict[str, Any]]] = {}

    def index(self, content: dict[str, Any]) -> int:
        seen = self._by_id.get(id(content))
        if seen is None:
            at = self._by_value.setdefault(wire.canonical(content), len(self.items))
            self.items += [content] if at == len(self.items) else []
            # With the content itself, so that no other can get its id.
            seen = self._by_id[id(content)] = at, content
        return seen[0]

    def shared(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the first content that was equal."""
        return self.items[self.index(content)]


# --- one line -----------------------------------------------------------------------------------------------


def dumps(trace: Trace) -> str:
    """Return the trace as one line."""
    pool, config = _Pool(), trace.config
    steps = [_packed(step, pool, config) for step in trace.steps]
    record = {
        "version": VERSION,
        "gemlab": trace.gemlab,
        "trial": trace.trial,
        "arm": asdict(trace.arm),
        "task": trace.task,
        "instance": trace.instance,
        "repeat": trace.repeat,
        "seed": trace.seed,
        "backend": trace.backend,
        "source": asdict(trace.source),
        "model": trace.model,
        # For readers of the file: these three follow from the steps.
        "served": trace.served,
        "warnings": trace.warnings,
        "forced": trace.forced,
        "outcome": trace.outcome,
        "reason": trace.reason,
        "detail": trace.detail,
        "answer": trace.answer,
        "ended": trace.ended,
        "seconds": trace.seconds,
        "tools": {
            "first": trace.tools.first,
            "identities": {n: _declared(i) for n, i in trace.tools.identities.items()},
        },
        "config": config,
        "steps": steps,
        "contents": pool.items,
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _declared(identity: Identity) -> dict[str, Any]:
    plain = {k: v for k, v in vars(identity).items() if not k.startswith("of_")}
    return {k: v for k, v in plain.items() if v}


def _packed(step: Step, pool: _Pool, config: dict[str, Any]) -> dict[str, Any]:
    """Return a step's JSON; what is as usual is left out."""
    record: dict[str, Any] = {"model": step.model, "contents": [pool.index(c) for c in step.contents]}
    if step.request is not None:
        settings = _settings(step.request)
        record["changed"] = {k: v for k, v in settings.items() if k not in config or config[k] != v}
        record["without"] = [k for k in config if k not in settings]
        if "input" in step.request:
            record["input"] = [pool.index(s) for s in step.request["input"]]
    optional = {
        "messages": [pool.index(c) for c in step.messages],
        "anew": step.anew,
        "failures": list(step.failures),
        "covers": step.covers,
        "final": step.final,
        "kept": step.kept,
        "responses": [pool.index(c) for c in step.responses],
        "verdicts": [dict(vars(v)) for v in step.verdicts],
    }
    kept = {k: v for k, v in (record | optional).items() if v or k in ("contents", "changed", "model")}
    return {**kept, "response": step.response, "seconds": step.seconds}


def load(record: Any) -> Trace:
    """Return the trace that a line's JSON value holds, of this version or of version 1; raises TraceError."""
    try:
        version = record["version"]
        if version == 1:
            return _trace(
                record, trace_v1.source(record["backend"]), _known(record["task"]), trace_v1.steps(record), ""
            )
        if version == VERSION:
            source, tools = record["source"], record["tools"]
            return _trace(
                record,
                Source(source["kind"], source["label"], source["settings"]),
                Tools(tools["first"], {name: _identity(i) for name, i in tools["identities"].items()}),
                [_unpacked(step, record["contents"], record["config"]) for step in record["steps"]],
                record["gemlab"],
            )
    except TraceError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"no trace ({type(error).__name__}: {error})") from None
    raise TraceError(f"a trace of version {version!r}, and this gemlab reads 1 and {VERSION}")


def _trace(record: Mapping[str, Any], source: Source, tools: Tools, steps: list[Step], version: str) -> Trace:
    header = {name: record[name] for name in _HEADER}
    return Trace(**header, arm=_arm(record["arm"]), source=source, tools=tools, steps=steps, gemlab=version)


def _arm(record: Any) -> Arm:
    """Return an arm; what was no field yet when it was written is as by default."""
    try:
        return Arm(**record)
    except TypeError:
        raise TraceError(f"a trial of another arm than this gemlab can run: {record!r}") from None


# The header's fields that are JSON values as they are.
_HEADER = (
    "trial", "task", "instance", "repeat", "seed", "backend", "model", "outcome", "reason", "detail", "answer", "ended",
    "seconds",
)  # fmt: skip


def _known(task: str) -> Tools:
    """Return what a task declares now, for a line that does not hold it; nothing where the task is not here."""
    try:
        return Tools.of(tasks.get(task))
    except ValueError:
        return Tools()


def _identity(record: Mapping[str, Any]) -> Identity:
    return Identity(
        tuple(record.get("volatile_args", ())),
        tuple(record.get("volatile_results", ())),
        record.get("polling", False),
        record.get("acknowledges", False),
    )


def _unpacked(record: Mapping[str, Any], pool: Sequence[Content], config: Mapping[str, Any]) -> Step:
    contents, request = [pool[i] for i in record["contents"]], None
    if "changed" in record:
        left = {k: v for k, v in config.items() if k not in record.get("without", ())}
        carried = {"contents": contents}
        if "input" in record:
            carried = {"input": [pool[i] for i in record["input"]]}
            contents = interaction_steps.contents_of(carried)
        request = {**left, **record["changed"], **carried}
    responses = [r for i in record.get("responses", ()) for r in wire.responses(pool[i])]
    return Step(
        record["model"],
        tuple(pool[i] for i in record.get("messages", ())),
        record.get("anew", False),
        contents,
        request,
        record["response"],
        record.get("failures", []),
        record["seconds"],
        record.get("covers", 0),
        record.get("final", False),
        record.get("kept", False),
        tuple(r["response"] for r in responses),
        tuple(Verdict(**v) for v in record.get("verdicts", ())),
    )


# --- files --------------------------------------------------------------------------------------------------


def read(path: Path) -> list[Trace]:
    """Return the traces of a file, for a trial written twice the later one; a cut last line is left out.

    Raises TraceError for any other line that is no trace.
    """
    traces: dict[str, Trace] = {}
    raw = path.read_bytes()
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), 1):
        try:
            trace = load(json.loads(line))
        except TraceError as error:
            raise TraceError(f"{path}, line {number}: {error}") from None
        except ValueError as error:
            raise TraceError(f"{path}, line {number}: no trace ({type(error).__name__})") from None
        traces[trace.trial] = trace
    return list(traces.values())


def mend(path: Path) -> None:
    """Cut a file back to its last whole line, so that appending cannot glue two traces together."""
    if not path.exists():
        return
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    if whole < len(raw):
        with path.open("r+b") as file:
            file.truncate(whole)
