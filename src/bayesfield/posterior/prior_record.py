"""What became of a prior that the data chose."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, eq=False)
class PriorRecord:
    """What became of a prior that the data chose.

    table: a row for each group: variance (0 where it was dropped), log_bayes_factor of its best variance against none
    (where it was dropped, the last), dropped, and the round of that; of a smooth prior length and nugget, too. rounds:
    searches for the mode. settled: whether the last round changed nothing.
    """

    kind: str
    table: pd.DataFrame
    rounds: int
    settled: bool

    @property
    def dropped(self) -> pd.DataFrame:
        """The groups that were dropped."""
        return self.table[self.table["dropped"]]

    def __str__(self) -> str:
        ended = "settled" if self.settled else "did not settle"
        if not len(self.table):
            return f"{self.kind}, {ended} in {self.rounds} rounds"
        gone = int(self.table["dropped"].sum())
        if "length" in self.table:
            smooth = self.table.iloc[0]
            numbers = ", ".join(f"{name} {value:.3g}" for name, value in self.table["variance"].items())
            reach = f"length {smooth['length']:.3g}, nugget {smooth['nugget']:.2g}"
            return f"{self.kind}: {reach}, variance {numbers}; {ended} in {self.rounds} rounds"
        kept = self.table[~self.table["dropped"]]["variance"]
        few = ", ".join(f"{name} {value:.3g}" for name, value in kept.items()) if len(kept) <= 4 else ""
        spread = f"{kept.min():.2g} to {kept.max():.2g}" if len(kept) else "none left"
        lost = f", {gone} of {len(self.table)} groups dropped" if gone else ""
        return f"{self.kind}: variance {few or spread}{lost}; {ended} in {self.rounds} rounds"
