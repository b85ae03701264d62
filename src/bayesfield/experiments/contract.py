"""What every experiment can do: name its tasks, run one, draw its picture, and say what it found in a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pandas as pd

from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store
    from bayesfield.plots.style import Figure


class Task(Protocol):
    """What one process does at a time. Its cells are written one by one."""

    @property
    def name(self) -> str: ...


class Experiment(ABC):
    """name: as the command line knows it. title: of the picture. scales: "quick" and "paper", by name."""

    name: str
    title: str
    scales: ClassVar[Mapping[str, Any]]

    @property
    def source(self) -> dict[str, Any]:
        """What the run depends on besides its scale and seed."""
        return {}

    @abstractmethod
    def tasks(self, scale: Any) -> Sequence[Task]:
        """The dearest first, so that no core is left with a long one at the end."""

    def only(self, methods: Sequence[str]) -> None:
        """Leave out all but these methods; none: all."""
        if methods:
            raise InvalidInput(f"{self.name} is run whole: it has no choice of methods")

    @abstractmethod
    def methods(self, task: Any) -> Sequence[str]:
        """The cells of a task: what is run, and kept, by itself."""

    @abstractmethod
    def run(self, task: Any, scale: Any, store: Store, seed: int) -> None:
        """All cells of a task that the store has not yet."""

    @abstractmethod
    def draw(self, table: pd.DataFrame, store: Store) -> Figure:
        """The picture."""

    @abstractmethod
    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        """What the command line shows: a row for each method, a column of text for each condition."""


def cell(task: Task, method: str) -> str:
    """The name under which a method's rows are kept."""
    return f"{task.name}-{method}"
