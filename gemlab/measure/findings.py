"""What a study found: tables, figures, sentences, and the one summary of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..registry import BadInput
from . import style
from . import summary as summaries
from . import tables as texts
from .subject import Note, Subject
from .tables import Cells

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Sentences(list[str]):
    """Sentences, which a notebook shows as a list."""

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {line}" for line in self)


@dataclass(frozen=True)
class Table:
    """Numbers, and the cells in which people read them; without these the numbers as they are.

    `is_of_arms`: its numbers stand in the summary's arms or comparisons.
    """

    rows: pd.DataFrame | None = None
    cells: Sequence[Cells] = ()
    is_of_arms: bool = False

    def records(self) -> list[dict[str, Any]]:
        """Return one object a row."""
        if self.rows is None:
            return [dict(row) for row in self.cells]
        return [{str(k): v for k, v in row.items()} for row in self.rows.to_dict(orient="records")]

    def shown(self) -> list[Cells]:
        """Return one row of cells a row."""
        return list(self.cells) or texts.records(summaries.json_value(self.records()))

    def frame(self) -> pd.DataFrame:
        """Return the cells as a table for a notebook, named by the first column."""
        import pandas as pd

        shown = pd.DataFrame(self.shown())
        return shown.set_index(shown.columns[0]) if len(shown.columns) else shown


@dataclass
class Findings:
    """What a study found; shows itself as its first table in a notebook.

    `rows`: the numbers behind it all, one row a trial or a run. `figures` are drawn when they are asked for, the first
    answers the question. `sentences` answer it in words, `remarks` stand beside it. `arms`, `comparisons`: as
    `Results` has them, empty where a study compares none. `folder`: where `save` writes.
    """

    experiment: str
    study: str
    question: str
    subject: Subject
    parameters: Mapping[str, Any]
    rows: pd.DataFrame
    tables: Mapping[str, Table]
    figures: Mapping[str, Callable[[], Figure]]
    sentences: Sequence[str]
    remarks: Sequence[Note]
    arms: Mapping[str, Any] = field(default_factory=dict)
    comparisons: Sequence[Mapping[str, Any]] = ()
    folder: Path | None = None

    def __post_init__(self) -> None:
        self._drawn: dict[str, Figure] = {}

    def table(self, name: str = "") -> pd.DataFrame:
        """Return a table for people, the first if none is named; raises BadInput for an unknown name."""
        return self.tables[self._known(name, self.tables, "table")].frame()

    def shown(self) -> list[Cells]:
        """Return the first table as rows of cells."""
        return next(iter(self.tables.values())).shown()

    def figure(self, name: str = "") -> Figure:
        """Return a figure, the first, which answers the question, if none is named; raises BadInput."""
        known = self._known(name, self.figures, "figure")
        if known not in self._drawn:
            self._drawn[known] = self.figures[known]()
        return self._drawn[known]

    def _known(self, name: str, there: Mapping[str, Any], word: str) -> str:
        if name and name not in there:
            raise BadInput(f"{self.study} has no {word} {name!r}; it has {', '.join(there)}")
        return name or next(iter(there))

    def frame(self) -> pd.DataFrame:
        """Return the numbers behind it all, for one's own analysis."""
        return self.rows

    def reading(self) -> Sentences:
        """Return the answer in sentences, with every caveat without which it would mislead."""
        return Sentences([*self.sentences, *(note.text for note in self.remarks if note.is_caveat)])

    def notes(self) -> list[Note]:
        """Return all that has to be read beside the numbers."""
        return list(self.remarks)

    def summary(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return summaries.of(self)

    def save(self, folder: Path | str = "") -> Path:
        """Write figures as PNG, the tables in Markdown, and at last summary.json; return its path.

        Raises BadInput without a folder, OSError where it cannot be written.
        """
        where = Path(folder) if folder else self.folder
        if where is None:
            raise BadInput("save needs a folder")
        where.mkdir(parents=True, exist_ok=True)
        for name in self.figures:
            style.save(self.figure(name), where / f"{name}.png")
        (where / "tables.md").write_text(self._markdown(), "utf-8")
        summaries.write(where / "summary.json", self.summary())
        return where / "summary.json"

    def _markdown(self) -> str:
        parts = [f"## {name}\n\n{texts.markdown(table.shown())}\n" for name, table in self.tables.items()]
        return "\n".join([f"# {self.question}\n\n{self.subject.source.label}; {self.subject.line}\n", *parts])

    def _repr_html_(self) -> str:
        return str(self.table().to_html())

    def __repr__(self) -> str:
        return texts.text(self.shown())
