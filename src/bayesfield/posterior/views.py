"""What a posterior shows of itself, pictures, a report, a file; and how it goes on with new data.

The one place that imports upwards, by name: users ask a posterior for its pictures, and the rooms that make them need
posteriors; so does the fit that goes on. matplotlib takes a second to import, so it is not before a picture is asked
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from bayesfield.model.field import RandomField
from bayesfield.posterior.edges import edges_of
from bayesfield.types import BoolArray, InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayesfield.model.prior import Parametrised
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.posterior.record import Certificate


class _Shown(Protocol):
    """What the pictures need of a posterior."""

    record: Any
    field: Any

    def edges(self, probability: float = 0.5) -> pd.DataFrame: ...


class Views:
    """The ``plot_…`` methods of a posterior: matplotlib axes in, axes (or a figure) out; ``report``, ``save``; and
    ``update``."""

    def plot_forest(
        self, parameters: Sequence[str] | str | None = None, level: float = 0.95, ax: Axes | None = None
    ) -> Axes:
        """Mean and central interval of each parameter; those that exclude zero in colour.

        parameters: a list of names, "couplings", "thresholds", or a text that is in the names. By default all, and of
        more than 40 the surest couplings; the title says which.
        """
        drawn: Axes = _plots().forest(self, parameters, level, ax)
        return drawn

    def plot_marginals(self, parameters: Sequence[str] | str | None = None, level: float = 0.95) -> Figure:
        """The posterior density of each parameter. parameters: as in ``plot_forest``, but up to 12 by default."""
        drawn: Figure = _plots().marginals(self, parameters, level)
        return drawn

    def plot_network(
        self: _Shown,
        threshold: float = 0.5,
        probability: float = 0.5,
        ax: Axes | None = None,
        *,
        most: int = 200,
    ) -> Axes:
        """Edges that are there with more than ``threshold``: width by effect, colour by sign, opacity by certainty.

        probability: of an edge before the data. most: edges beyond which the inconclusive ones are left out.
        """
        require_untied(self.field)
        drawn: Axes = _plots().network(self.edges(probability), ax, threshold, most=most)
        return drawn

    def plot_edge_evidence(self: _Shown, threshold: int = 10, ax: Axes | None = None, *, most: int = 200) -> Axes:
        """What the data say of every edge, there, not there, or not enough to tell, at a Bayes factor of 10 or 3.

        most: how many inconclusive or excluded edges are drawn; where there are more, the legend counts them.
        """
        require_untied(self.field)
        drawn: Axes = _plots().edge_evidence(self.edges(), ax, threshold, most=most)
        return drawn

    def plot_inclusion(self: _Shown, probability: float = 0.5, ax: Axes | None = None) -> Axes:
        """The inclusion probability of every edge as a matrix."""
        require_untied(self.field)
        drawn: Axes = _plots().inclusion(self.edges(probability), ax)
        return drawn

    def plot_lattice(self, rows: int | None = None, columns: int | None = None, ax: Axes | None = None) -> Axes:
        """A lattice's parameters in place: couplings as bonds, fields as sites.

        rows, columns: by default those that names such as x[2,3] tell, which bf.grid gives.
        """
        drawn: Axes = _plots().lattice(self, rows, columns, ax)
        return drawn

    def plot_centrality(self, measures: Sequence[str] | None = None, **options: Any) -> Figure:
        """How central each variable is, with intervals. options: as in ``bf.centrality``."""
        made = import_module("bayesfield.analysis.centrality")
        drawn: Figure = _plots().centrality(made.centrality(self, measures or made.USUAL, **options))
        return drawn

    def plot_sensitivity(
        self, parameters: Sequence[str] | str | None = None, ax: Axes | None = None, **options: Any
    ) -> Axes:
        """How parameters move with the prior's variance. options: as in ``bf.prior_sensitivity``.

        parameters: a list of names, or a text that is in the names; by default the 12 that move the most.
        """
        made = import_module("bayesfield.analysis.sensitivity")
        drawn: Axes = _plots().sensitivity(made.prior_sensitivity(self, **options), parameters, ax)
        return drawn

    def plot_calibration(self, X: Any = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Predicted probabilities of cells against how often they came true. options: as in ``bf.reliability``."""
        made = import_module("bayesfield.analysis.reliability")
        drawn: Axes = _plots().reliability(made.reliability(self, X, **options), ax)
        return drawn

    def plot_convergence(self: _Shown, ax: Axes | None = None) -> Axes:
        """The search for the mode, step by step."""
        drawn: Axes = _plots().convergence(self.record, ax)
        return drawn

    def plot_messages(self: _Shown, ax: Axes | None = None) -> Axes:
        """How the messages of belief propagation, plain or generalized, settled at the mode."""
        drawn: Axes = _plots().messages(self.record.inference, ax)
        return drawn

    def plot_predictive(self, X: Any = None, **options: Any) -> Figure:
        """Data against data that the posterior would give. options: as in ``bf.predictive_check``."""
        made = import_module("bayesfield.analysis.predictive_check")
        drawn: Figure = _plots().predictive(made.predictive_check(self, X, **options))
        return drawn

    def report(self, path: str | Path, **options: Any) -> None:
        """Write one self-contained HTML page: network, parameters, evidence, check, settings (bayesfield.report)."""
        import_module("bayesfield.report").write_report(self, path, **options)

    def methods_text(self) -> str:
        """A paragraph for a paper's methods: model, prior, engine, correction, certificate, version, citation."""
        text: str = import_module("bayesfield.formats.manuscript").methods_text(self)
        return text

    def update(self, X: Any, y: Any = None, **options: Any) -> Posterior:
        """The posterior with further cases, or labelled sequences or graphs, X and y (fitting.update)."""
        made: Posterior = import_module("bayesfield.fitting.update").updated(self, X, y, **options)
        return made

    def save(self, path: str | Path) -> None:
        """Write it, without its data, to one file that ``bf.load`` reads (formats.posteriors.saved)."""
        import_module("bayesfield.formats.posteriors.saved").save(self, path)


def certificate_of(posterior: Posterior) -> Certificate | None:
    """That of the fit, or one that the data allow to make now; None where there is neither."""
    if posterior.record.certificate is None and posterior.objective is None:
        return None
    return posterior.certificate


def couplings_of(field: Parametrised) -> BoolArray:
    """(F,) which parameters are those of factors over two variables or more; none where the model has no factors."""
    result = np.zeros(field.n_parameters, dtype=np.bool_)
    for block in field.blocks if isinstance(field, RandomField) else ():
        if block.scopes.shape[1] > 1:
            result[block.parameters.ravel()] = True
    return result


def require_untied(field: Parametrised) -> None:
    """Refuses fields whose edges share parameters: there is no picture of edges that are all the same."""
    own = np.concatenate([edge.parameters for edge in edges_of(field)])
    if len(np.unique(own)) < len(own):
        raise InvalidInput(
            "the parameters are tied: fit with tied=False (bf.LatticeField) or an untied grid (bf.grid) to have a map. "
            "posterior.summary() and posterior.plot_forest() show what all edges share"
        )


def _plots() -> Any:
    return import_module("bayesfield.plots")
