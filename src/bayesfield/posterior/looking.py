"""What a posterior shows of itself: pictures and a report. Each calls the room above that makes it."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class _Shown(Protocol):
    """What the pictures need of a posterior."""

    record: Any

    def edges(self, probability: float = 0.5) -> pd.DataFrame: ...


class Pictures:
    """The ``plot_…`` methods of a posterior: matplotlib axes in, axes (or a figure of several) out."""

    def plot_forest(
        self, parameters: Sequence[str] | None = None, level: float = 0.95, ax: "Axes | None" = None
    ) -> "Axes":
        """Mean and central interval of each parameter; those that exclude zero in colour."""
        drawn: Axes = _plots().forest(self, parameters, level, ax)
        return drawn

    def plot_marginals(self, parameters: Sequence[str] | None = None, level: float = 0.95) -> "Figure":
        """The posterior density of each parameter, by default of the 12 surest."""
        drawn: Figure = _plots().marginals(self, parameters, level)
        return drawn

    def plot_network(
        self: _Shown, threshold: float = 0.5, probability: float = 0.5, ax: "Axes | None" = None
    ) -> "Axes":
        """Edges that are there with more than ``threshold``: width by effect, colour by sign, opacity by certainty.

        probability: of an edge before the data.
        """
        drawn: Axes = _plots().network(self.edges(probability), ax, threshold)
        return drawn

    def plot_edge_evidence(self: _Shown, threshold: int = 10, ax: "Axes | None" = None) -> "Axes":
        """What the data say of every edge, there, not there, or not enough to tell, at a Bayes factor of 10 or 3."""
        drawn: Axes = _plots().edge_evidence(self.edges(), ax, threshold)
        return drawn

    def plot_inclusion(self: _Shown, probability: float = 0.5, ax: "Axes | None" = None) -> "Axes":
        """The inclusion probability of every edge as a matrix."""
        drawn: Axes = _plots().inclusion(self.edges(probability), ax)
        return drawn

    def plot_lattice(self, rows: int, columns: int, ax: "Axes | None" = None) -> "Axes":
        """A lattice's parameters in place: couplings as bonds, fields as sites."""
        drawn: Axes = _plots().lattice(self, rows, columns, ax)
        return drawn

    def plot_centrality(self, measures: Sequence[str] | None = None, **options: Any) -> "Figure":
        """How central each variable is, with intervals. options: as in ``bf.centrality``."""
        made = import_module("bayesfield.posterior.centrality")
        drawn: Figure = _plots().centrality(made.centrality(self, measures or made.USUAL, **options))
        return drawn

    def plot_sensitivity(
        self, parameters: Sequence[str] | None = None, ax: "Axes | None" = None, **options: Any
    ) -> "Axes":
        """How parameters move with the prior's variance. options: as in ``bf.prior_sensitivity``."""
        made = import_module("bayesfield.posterior.sensitivity")
        drawn: Axes = _plots().sensitivity(made.prior_sensitivity(self, **options), parameters, ax)
        return drawn

    def plot_calibration(self, X: Any = None, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """Predicted probabilities of cells against how often they came true. options: as in ``bf.reliability``."""
        made = import_module("bayesfield.prediction.reliability")
        drawn: Axes = _plots().reliability(made.reliability(self, X, **options), ax)
        return drawn

    def plot_convergence(self: _Shown, ax: "Axes | None" = None) -> "Axes":
        """The search for the mode, step by step."""
        drawn: Axes = _plots().convergence(self.record, ax)
        return drawn

    def plot_messages(self: _Shown, ax: "Axes | None" = None) -> "Axes":
        """How the messages of belief propagation, plain or generalized, settled at the mode."""
        drawn: Axes = _plots().messages(self.record.inference, ax)
        return drawn

    def plot_predictive(self, X: Any = None, **options: Any) -> "Figure":
        """Data against data that the posterior would give. options: as in ``bf.predictive_check``."""
        made = import_module("bayesfield.prediction")
        drawn: Figure = _plots().predictive(made.predictive_check(self, X, **options))
        return drawn

    def report(self, path: str | Path, **options: Any) -> None:
        """Write one self-contained HTML page: network, parameters, evidence, check, settings (bayesfield.report)."""
        import_module("bayesfield.report").write_report(self, path, **options)


def _plots() -> Any:
    """matplotlib takes a second to import, so it is not before a picture is asked for."""
    return import_module("bayesfield.plots")
