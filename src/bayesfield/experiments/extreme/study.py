"""``bayesfield calibrate --extreme``: default fits of many random tiny models against exact integration.

Seeds are those of the models: a study of 50 models from seed 200 on judges ``extreme_model(200)`` to (249).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from bayesfield import plots
from bayesfield.experiments.contract import Experiment, cell
from bayesfield.experiments.extreme.judge import judged, verdicts
from bayesfield.experiments.extreme.models import extreme_model
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.experiments.store import Store

_TOGETHER = 10  # models of a task


@dataclass(frozen=True)
class Models:
    """How many."""

    count: int = 1000

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"the study of extreme models takes at least one model; got {self.count}")


@dataclass(frozen=True)
class Block:
    """Some models, as numbers from the first seed on."""

    numbers: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"extreme-{self.numbers[0]:05d}"


class Extreme(Experiment):
    """references: the folder of reference answers, which several studies may share; by default within the run's."""

    name = "extreme"
    title = "Default fits of tiny extreme models against exact integration"
    scales: ClassVar[Mapping[str, Any]] = {"full": Models()}

    def __init__(self, references: Path | None = None) -> None:
        self.references = references

    def tasks(self, scale: Models) -> list[Block]:
        return [Block(tuple(range(k, min(k + _TOGETHER, scale.count)))) for k in range(0, scale.count, _TOGETHER)]

    def methods(self, task: Block) -> list[str]:
        return ["fits"]

    def run(self, task: Block, scale: Models, store: Store, seed: int) -> None:
        folder = self.references or store.folder / "references"
        rows = [judged(extreme_model(seed + k), folder) for k in task.numbers]
        store.put(cell(task, "fits"), rows)

    def draw(self, table: pd.DataFrame, store: Store) -> plots.Figure:
        return plots.extreme_errors(table)

    def shown(self, table: pd.DataFrame) -> pd.DataFrame:
        result = verdicts(table)
        result.attrs["title"] = f"{self.title}: {len(table)} models"
        return result
