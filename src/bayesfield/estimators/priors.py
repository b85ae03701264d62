"""What users of estimators leave to the data: a prior, by a name or a variance, and the temperature of predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bayesfield.analysis.validation.cross_validation import cross_validated_variance
from bayesfield.analysis.validation.temperature import TEMPERATURES, cross_validated_temperature
from bayesfield.analysis.validation.template_variances import cross_validated_templates
from bayesfield.correction.cumulants import TIME_UP
from bayesfield.model.adaptive_prior import Templates, prior_from
from bayesfield.model.conditional import Sequences
from bayesfield.model.prior import Normal, Prior
from bayesfield.posterior.tempered import checked_temperature
from bayesfield.types import InvalidInput, Outcome

if TYPE_CHECKING:
    from bayesfield.estimators.shapes import Data
    from bayesfield.inference.contract import Engine
    from bayesfield.model.conditional import CRF
    from bayesfield.posterior.posterior import Posterior

_VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0)  # tried with every temperature
_FOLDS, _MANY = 4, 40  # parts, all of which "cv" leaves out in turn, and "auto" one; sequences for that, at least


@dataclass(frozen=True)
class Chosen:
    """prior, temperature, engine: as in ``bf.BayesianCRF``. seed: of all draws."""

    prior: Any
    temperature: Any
    engine: Engine | str
    seed: int | None

    def __post_init__(self) -> None:
        if isinstance(self.temperature, str) and self.temperature not in ("auto", "cv"):
            raise InvalidInput(f'temperature is a number from 0 to 1, "auto" or "cv"; got {self.temperature!r}')
        if not isinstance(self.temperature, str):
            checked_temperature(self.temperature)

    def prior_of(self, crf: CRF, data: Data) -> tuple[Prior, Chosen]:
        """The prior to fit with; with the temperature, where they are chosen together."""
        if isinstance(self.prior, float):
            return Normal(variance=self.prior), self
        if isinstance(self.prior, str) and self.prior == "templates-cv":
            if not isinstance(data, Sequences):
                raise InvalidInput('"templates-cv" is for sequences; graphs take prior="templates"')
            return Templates(cross_validated_templates(crf, data, rng=self.seed).variances), self
        if isinstance(self.prior, str) and self.prior == "cv" and self.temperature == "cv":
            both = cross_validated_temperature(
                crf, data, folds=_FOLDS, variances=_VARIANCES, engine=self.engine, rng=self.seed
            )
            return Normal(variance=both.variance), replace(self, temperature=both.temperature)

        def best() -> float:
            return cross_validated_variance(crf, data, engine=self.engine, rng=self.seed).variance

        return prior_from(self.prior, best, groups="inputs"), self

    def cooled(self, posterior: Posterior, data: Data, predictor: str) -> Posterior:
        """The posterior with the temperature of its predictions."""
        if not isinstance(self.temperature, str):
            return posterior.at_temperature(self.temperature)
        independent = posterior.form.form == "mean-field"
        if self.temperature == "auto" and (predictor == "map" or not independent or not posterior.record.n_cases):
            return posterior
        record = posterior.record
        if record.status.outcome is Outcome.TIME_UP or record.correction.reason == TIME_UP or len(data) < 2:
            return posterior.at_temperature(0.0)  # there is no time, or nothing, to choose by
        splits = 1 if self.temperature == "auto" and len(data) >= _MANY else None
        prior = posterior.prior_in_force()
        assert prior is not None
        # widths that were not corrected are too wide at the mode: they are cooled, or left
        tried: tuple[float, ...] = (
            TEMPERATURES[:-1] if independent and record.correction.kind == "none" else TEMPERATURES
        )
        if independent and posterior.laplace_precision is None:  # a learner's, which is not found anew
            tried = (0.0, 1.0)
        crf: Any = posterior.field
        choice = cross_validated_temperature(
            crf, data, None, prior.scaled(1.0), tried, _FOLDS, splits=splits, engine=self.engine, rng=self.seed
        )
        return posterior.at_temperature(choice.temperature)
