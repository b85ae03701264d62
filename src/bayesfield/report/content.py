"""What the page shows, as plain records: collected here, laid out in page.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pandas as pd

from bayesfield.model.conditional import CRF
from bayesfield.model.field import RandomField
from bayesfield.posterior.edges import VERDICTS
from bayesfield.posterior.posterior import Posterior
from bayesfield.posterior.record import Certificate, Check
from bayesfield.posterior.views import certificate_of
from bayesfield.report.findings import Checked, Remark, Weighed, alarm, checked, ended, remarks, weighed
from bayesfield.report.network import MOST_EDGES, Known, Network, known_edges, network_of
from bayesfield.report.rows import MOST_ROWS, Rows, rows_of
from bayesfield.report.settings import citation, settings_of
from bayesfield.report.wording import count, sentence
from bayesfield.types import InvalidInput


@dataclass(frozen=True, eq=False)
class Content:
    """Everything on the page. posterior: whose page it is; known: what is known of its edges; certificate: None where
    nothing can tell; the rest as shown."""

    posterior: Posterior
    title: str
    level: float
    written: datetime
    check: Checked
    evidence: Weighed
    known: Known
    summary: pd.DataFrame
    rows: Rows
    network: Network | None
    certificate: Certificate | None = None

    @property
    def alarm(self) -> str:
        return alarm(self.posterior.record)

    @property
    def sentence(self) -> str:
        """The fit in a few words."""
        cases = count(self.posterior.record.n_cases, "case")
        grade = f" The check of its mode says: {self.check.grade}." if self.check.check is not None else ""
        return f"{_described(self.posterior)}, with {cases}. {ended(self.posterior.record)}.{grade}"

    @property
    def remarks(self) -> list[Remark]:
        found = remarks(self.posterior, self.check)
        rough = self.known.table is not None and self.known.note
        return [*found, Remark("care", "The edges", sentence(self.known.note))] if rough else found

    @property
    def scope(self) -> str:
        """What the remarks are not about."""
        about = "This is about the computation. Whether the model fits the data is another question: "
        if isinstance(self.posterior.field, RandomField):
            return f"{about}bf.predictive_check(posterior) or posterior.plot_predictive() holds it against them."
        return f"{about}hold its predictions against labels that it has not seen."

    @property
    def figures(self) -> list[tuple[int, str]]:
        """The numbers in large print, with what they count."""
        field, edges = self.posterior.field, len(self.known.edges)
        counts = [
            (field.n_variables if isinstance(field, RandomField) else 0, "variable"),
            (self.posterior.record.n_cases, "case"),
            (edges, "edge"),
            (self.rows.total, "parameter"),
        ]
        named = [(n, thing if n == 1 else f"{thing}s") for n, thing in counts if n]
        return [*named, (self.rows.sure, f"interval{'' if self.rows.sure == 1 else 's'} without zero")]

    @property
    def settings(self) -> list[tuple[str, str]]:
        return settings_of(self.posterior, self.written)

    @property
    def citation(self) -> str:
        return citation(self.written)

    def verdicts(self, threshold: int) -> dict[str, int] | None:
        """How many edges are included, inconclusive and excluded at a Bayes factor of 10 or 3."""
        if self.known.table is None:
            return None
        found = self.known.table[f"at_{threshold}"].value_counts()
        return {name: int(found.get(name, 0)) for name in reversed(VERDICTS)}

    def data(self) -> dict[str, Any]:
        """What page.js reads."""
        return {
            "level": self.level,
            "rows": self.rows.data(),
            "network": None if self.network is None else self.network.data(),
        }

    def smaller(self) -> Content:
        """The same with half as many rows and edges."""
        drawn = len(self.network.edges) if self.network is not None else 0
        return _shown(self, len(self.rows.numbers) // 2, drawn // 2)


def collect(posterior: Posterior, title: str | None, check: bool | Check | None, level: float) -> Content:
    """All that the page needs; what takes long (the check, the evidence) is done here, once."""
    if not isinstance(posterior, Posterior):
        raise InvalidInput(f"a report is that of a posterior, such as bf.fit returns; got {type(posterior).__name__}")
    if not (check is None or isinstance(check, bool | Check)):
        raise InvalidInput(f"check is True, False, None or what posterior.check() returned; got {check!r}")
    summary = posterior.summary(level)
    known = known_edges(posterior)
    empty = rows_of(posterior, level, {}, 0)
    begun = Content(
        posterior,
        title or "A fitted random field",
        level,
        datetime.now().astimezone(),
        checked(posterior, check),
        weighed(posterior),
        known,
        summary,
        empty,
        None,
        certificate_of(posterior),
    )
    return _shown(begun, MOST_ROWS, MOST_EDGES)


def _shown(content: Content, most_rows: int, most_edges: int) -> Content:
    posterior, known = content.posterior, content.known
    rows = rows_of(posterior, content.level, known.by_parameter(len(posterior.mean)), most_rows)
    network = network_of(posterior, known, rows, content.summary, most_edges)
    return replace(content, rows=rows, network=network)


def _described(posterior: Posterior) -> str:
    field, parameters = posterior.field, count(len(posterior.mean), "parameter")
    if isinstance(field, RandomField):
        hidden = f" ({len(field.hidden)} hidden)" if field.hidden else ""
        return f"A field of {count(field.n_variables, 'variable')}{hidden} and {parameters}"
    if isinstance(field, CRF):
        sizes = f"{count(len(field.visible), 'label')}, {count(len(field.inputs), 'input')}"
        return f"A conditional field of {sizes} and {parameters}"
    return f"A model of {parameters}"
