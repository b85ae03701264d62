"""The Laplace posterior, equation (7): a Gaussian at the most probable parameters, with precision P = N C + Λ⁻¹."""

from __future__ import annotations

import copy
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from bayesfield.correction.cumulants import Corrected, SkewedMarginals
from bayesfield.correction.marginals import DrawnMarginals, Marginals
from bayesfield.correction.profile import profiled
from bayesfield.graph.compiled import compiled
from bayesfield.inference.auto import Auto
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.learning.objective import GaussianPrior, Objective, gaussian
from bayesfield.learning.phases.cases import CaseCounts, counts_alone, field_objective
from bayesfield.learning.precision.base import Precision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.search.learner import LEARNERS
from bayesfield.model.field import RandomField
from bayesfield.posterior.certificate import certificate_later, certify
from bayesfield.posterior.check import check_fit
from bayesfield.posterior.edges import (
    Signs,
    edge_table,
    edges_of,
    log_density_at_zero,
    log_prior_at_zero,
    sure_signs,
    warn_of_draws,
    warn_of_tails,
    widest_at_once,
    without_draws_at_zero,
)
from bayesfield.posterior.evidence import LogEvidence, Peak, log_evidence
from bayesfield.posterior.imputation import Imputation, impute
from bayesfield.posterior.tempered import Tempered, checked_temperature, tempered
from bayesfield.posterior.views import Views
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, IndefiniteCurvature, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.inference.contract import Engine
    from bayesfield.model.prior import Parametrised, Prior
    from bayesfield.posterior.record import Certificate, Check, FitRecord

_WITHOUT_DATA = (
    "this posterior came without its data (a file and a pickle leave them out), so there is nothing to hold it "
    "against: posterior.with_data(X) gives them back"
)
_JOINT_DRAWS = 4000
_DENSE = 4000  # parameters up to which joint statements make the precision dense


class Posterior(Views):
    """λ | D ≈ N(mean, P⁻¹), with skewed marginals where the correction found that they are; or draws, where no Gaussian
    fits.

    mean: (F,), λ_MP or its correction. mode: λ_MP. skewness: (F,) of each marginal (zero in a plain Laplace posterior);
    draws and intervals have it, by shifted log-normal marginals with the Gaussian's rank correlations. marginals: that
    of every parameter (correction.marginals); those of draws, where it is made of them. field: what the
    parameters belong to. record: how it was found. form: P as an object that solves, draws and tells widths
    (learning.precision). objective: what was minimised, with the data, for ``check``, ``evidence``,
    ``bf.predictive_check`` and ``bf.loo``. laplace_precision: P at the mode, where it is the posterior's own and not a
    learner's. prior: that of the parameters; where the data chose it, what they chose. cold: what predictions average
    over at another temperature (``at_temperature``), where the rest does not tell. request: what the fit was asked for,
    and case_counts: what complete cases show, kept where they are left out; both for ``update``.
    """

    request: Request | None = None
    case_counts: CaseCounts | None = None

    def __init__(
        self,
        field: Parametrised,
        mean: FloatArray,
        precision: FloatArray | Precision,
        record: FitRecord,
        mode: FloatArray | None = None,
        objective: Objective | None = None,
        skewness: FloatArray | None = None,
        laplace_precision: Precision | None = None,
        prior: Prior | None = None,
        marginals: Marginals | None = None,
        cold: Tempered | None = None,
    ) -> None:
        self.field = field
        self.objective = objective
        self.laplace_precision = laplace_precision
        self.prior = prior
        self.mean = mean
        self.mode = mean if mode is None else mode
        self.record = record
        self.skewness = np.zeros(len(mean)) if skewness is None else skewness
        try:
            self.form = precision if isinstance(precision, Precision) else DensePrecision(precision)
        except IndefiniteCurvature as error:
            matrix = precision if isinstance(precision, np.ndarray) else None
            raise IndefiniteCurvature(f"no posterior: {reason_for_refusal(field, matrix, str(error))}") from None
        self._marginals = marginals
        self.cold = cold

    @property
    def marginals(self) -> Marginals:
        """Quantiles, probabilities and densities of every parameter."""
        if self._marginals is None:
            self._marginals = SkewedMarginals(self.mean, self.form.sd, self.skewness)
        return self._marginals

    @property
    def precision(self) -> FloatArray:
        """P, (F, F)."""
        require_dense(len(self.mean), "the full precision", "Ask posterior.form for products, solves or draws.")
        return self.form.matrix()

    @property
    def sd(self) -> FloatArray:
        """Posterior standard deviation of every parameter, (F,)."""
        return self.form.sd if self._marginals is None else self._marginals.sd

    def covariance(self) -> FloatArray:
        """P⁻¹, (F, F)."""
        require_dense(len(self.mean), "the full covariance", "Ask posterior.form for products, solves or draws.")
        inverse = self.form.solve(np.eye(len(self.mean)))
        result: FloatArray = (inverse + inverse.T) / 2
        return result

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> FloatArray:
        """n draws of the parameters, (n, F)."""
        if n < 0:
            raise InvalidInput(f"the number of draws must not be negative; got {n}")
        generator, marginals = np.random.default_rng(rng), self.marginals
        if isinstance(marginals, DrawnMarginals):
            return marginals.sample(n, generator)
        return marginals.from_normal(self.form.sample(generator, n).T / self.form.sd)

    @property
    def temperature(self) -> float:
        """That of predictions: 1 averages over the posterior, 0 plugs the mode in."""
        return self.record.temperature

    def at_temperature(self, temperature: float) -> Posterior:
        """The same, whose predictions average over the power posterior of this temperature (posterior.tempered).

        The parameters' own means, widths and intervals stay those of the posterior. 0: predictions by the mode; 1: the
        posterior. Between them a mean-field posterior is found anew, which takes its data.
        """
        T = checked_temperature(temperature)
        if self.temperature == T:
            return self
        result = copy.copy(self)
        result.record, result.cold = replace(self.record, temperature=T), None
        if 0.0 < T < 1.0 and self.form.form == "mean-field":
            if self.objective is None or self.laplace_precision is None:
                raise InvalidInput(
                    "another temperature between 0 and 1 takes the data, which this posterior came without (a file and "
                    "a pickle leave them out): set it where the posterior is fitted, or fit anew"
                )
            hot = self.mean, self.form.sd**-2.0
            result.cold = tempered(self.objective, self.mode, self.laplace_precision, hot, T)
        return result

    def sample_predictive(self, n: int, rng: np.random.Generator | int | None = None) -> FloatArray:
        """n draws of the parameters for predictions, at their temperature, (n, F); at 0 the mode alone, (1, F)."""
        T = self.temperature
        if T == 0.0:
            return self.mode[None].copy()
        if self.cold is not None:
            noise = np.random.default_rng(rng).standard_normal((n, len(self.mean)))
            result: FloatArray = self.cold.mean + self.cold.sd * noise
            return result
        draws = self.sample(n, rng)
        if T == 1.0:
            return draws
        centre = self.marginals.mean
        cooled: FloatArray = self.mode + T * (centre - self.mode) + np.sqrt(T) * (draws - centre)
        return cooled

    @property
    def predictive_moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and sd, (F,) each, of what predictions average over."""
        T = self.temperature
        if T == 0.0:
            return self.mode, np.zeros_like(self.mode)
        if self.cold is not None:
            return self.cold.mean, self.cold.sd
        return self.mode + T * (self.mean - self.mode), np.sqrt(T) * self.form.sd

    def check(self, rng: np.random.Generator | int | None = 0, engine: Sampled | None = None) -> Check:
        """How far the mode is from the true one, and the widths from the true ones, by sampling at the mode.

        engine: chains to use; by default as many as make the Monte-Carlo error some hundredths of a standard deviation.
        """
        if self.objective is None:
            raise InvalidInput(_WITHOUT_DATA)
        if not self.objective.free.samples:
            raise InvalidInput("there is nothing to check: inference on sequences is exact")
        if engine is None:
            seed = int(np.random.default_rng(rng).integers(2**31))
            engine = Sampled(seed=seed).enough_for(self.record.n_cases)
        return check_fit(self.objective, self.field.parameter_names, self.mode, self.sd, engine)

    def evidence(self, n_draws: int | None = None, rng: np.random.Generator | int | None = 0) -> LogEvidence:
        """log p(D), with its Monte-Carlo error and how it was found (posterior.evidence).

        n_draws: for importance sampling, by default as many as make the error small; 0 is Laplace alone, whose error is
        what the next order would change.
        """
        if self.objective is None:
            raise InvalidInput(_WITHOUT_DATA)
        if not self.record.status.converged or not self.record.inference.converged:
            failed = self.record.inference if self.record.status.converged else self.record.status
            raise InvalidInput(f"no log evidence: the fit did not end at a mode ({failed})")
        if self.laplace_precision is None:
            raise InvalidInput(
                f"{self.record.response} has no evidence: its curvature is not the posterior's at the mode; fit with "
                'an engine and method="auto"'
            )
        effective = self.record.correction.effective
        peak = Peak(self.objective, self.mode, self.laplace_precision, self.marginals, self.form, effective)
        found, modes = log_evidence(peak, n_draws, rng), getattr(self.field, "equivalent_modes", 1)
        return found if modes == 1 else found.times(modes)

    @cached_property
    def certificate(self) -> Certificate:
        """How far it may be trusted: as the fit judged it, or judged now (posterior.certificate)."""
        if self.record.certificate is not None:
            return self.record.certificate
        if self.objective is None or isinstance(self.marginals, DrawnMarginals) or self.record.method in LEARNERS:
            return certify(self.field, self.record, None)
        marginals = SkewedMarginals(self.mean, self.form.sd, self.skewness)
        return certificate_later(self.field, self.record, self.objective, marginals, self.form)

    @cached_property
    def log_evidence(self) -> float:
        """log p(D) in nats; ``evidence()`` also tells its error."""
        return self.evidence().value

    def edges(self, probability: float = 0.5) -> pd.DataFrame:
        """A row for each edge of the field: is it there? In the model that has all others (posterior.edges).

        log_bayes_factor: for the edge against none, by Savage and Dickey; inclusion: its probability, when it had the
        given one before the data; mean, sd and p_positive of an edge's parameter, where it has one; at_10 and at_3:
        "included", "inconclusive" or "excluded" at these Bayes factors. ``bf.search_structure`` averages over the
        presence of the other edges.
        """
        if not 0.0 < probability < 1.0:
            raise InvalidInput(f"the prior probability of an edge lies between 0 and 1; got {probability}")
        found = edges_of(self.field)
        before = log_prior_at_zero(self.prior_in_force(), found)
        warn_of_tails(self.record, depth=3)
        own = [edge.parameters for edge in found]
        single = self._log_densities_at_zero(without_draws_at_zero(self.marginals, found))
        factor = np.array([before[k].sum() - self._log_density_at_zero(k, single) for k in own])
        columns: dict[str, FloatArray] = {"log_bayes_factor": factor}
        if all(len(k) == 1 for k in own):
            one = np.concatenate(own)
            positive = 1.0 - self.marginals.below(np.zeros(len(self.mean)))
            columns |= {"mean": self.mean[one], "sd": self.sd[one], "p_positive": positive[one]}
        return edge_table(self.field, found, columns, probability / (1.0 - probability))

    def prior_in_force(self) -> GaussianPrior | None:
        """The prior as the fit had it; None where the posterior came without one."""
        if self.objective is not None:
            return self.objective.prior
        return None if self.prior is None else gaussian(self.prior, self.field)

    def _log_densities_at_zero(self, profile: IntArray) -> FloatArray:
        """log p(λ_k = 0|D) of every parameter, (F,). profile: those whose draws say nothing of it; they are profiled
        where the data are here, and else said to be guessed."""
        zeros = np.zeros(len(self.mean))
        densities = self.marginals.log_density(zeros)
        if not len(profile):
            return densities
        if self.objective is None or self.laplace_precision is None or self.objective.prior.tails is not None:
            warn_of_draws(self.field.parameter_names, profile, depth=4)
            return densities
        start = Corrected(self.mean, self.form, self.record.correction, np.zeros_like(self.mean))
        for k in profile:  # one by one: together they would end where the last ones are right
            made = profiled(self.objective, self.mode, self.laplace_precision, start, np.array([k]))
            if made.marginals is not None and made.record.settled:
                densities[k] = made.marginals.log_density(zeros)[k]
            else:
                warn_of_draws(self.field.parameter_names, np.array([k]), depth=4)
        return densities

    def _log_density_at_zero(self, parameters: IntArray, single: FloatArray) -> float:
        """log p(λ_k = 0|D) of some parameters together; of a single one, by its marginal."""
        if len(parameters) == 1:
            return float(single[parameters[0]])
        unit = np.zeros((len(self.mean), len(parameters)))
        unit[parameters, np.arange(len(parameters))] = 1.0
        return log_density_at_zero(self.mean[parameters], self.form.solve(unit)[parameters])

    def sure_signs(self, level: float = 0.95, n_draws: int = 4000, rng: np.random.Generator | int | None = 0) -> Signs:
        """As many parameters as possible whose signs, all at once, are right with probability ``level``."""
        if n_draws < 1:
            raise InvalidInput(f"n_draws must be above zero; got {n_draws}")
        return sure_signs(self.field.parameter_names, self._densely().sample(n_draws, rng), level)

    def _densely(self) -> Posterior:
        """The same with a dense precision, where that fits: thousands of draws by a sparse one take long."""
        if self.form.form == "dense" or len(self.mean) > _DENSE:
            return self
        result = copy.copy(self)
        result.form = DensePrecision(self.form.matrix())
        return result

    def impute(
        self,
        X: Any,
        n_draws: int = 100,
        completions: int = 10,
        rng: np.random.Generator | int | None = 0,
        engine: Engine | str = "auto",
    ) -> Imputation:
        """What stands in the holes of X: marginals averaged over draws of the parameters, and completed data.

        X: cases with missing cells (NaN, None, pd.NA); hidden variables are holes in all of them. engine: of the
        inference given what is observed; by default exact where it is affordable.
        """
        if not isinstance(self.field, RandomField):
            raise InvalidInput(
                "impute is for fields; labels of sequences and graphs come from bf.predict(posterior, X, y=…)"
            )
        if n_draws < 1:
            raise InvalidInput(f"n_draws must be above zero; got {n_draws}")
        generator = np.random.default_rng(rng)
        points = self.sample(n_draws, generator)
        return impute(self.field, points, X, completions, as_engine(engine), generator)

    def summary(self, level: float = 0.95, joint: bool = False) -> pd.DataFrame:
        """A row for each parameter: mean, sd, the central interval of that level, and P(λ > 0).

        joint: intervals so wide that all of them hold at once with that probability.
        """
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level lies between 0 and 1; got {level}")
        z, marginals = special.ndtri(0.5 + level / 2), self.marginals
        if joint:
            noise = np.random.default_rng(0).standard_normal((len(self.mean), _JOINT_DRAWS))
            z = widest_at_once(self._densely().form.draws(noise).T / self.form.sd, level)
        table = pd.DataFrame(
            {
                "mean": self.mean,
                "sd": self.sd,
                "lower": marginals.from_normal(np.full_like(self.mean, -z)),
                "upper": marginals.from_normal(np.full_like(self.mean, z)),
                "p_positive": 1.0 - marginals.below(np.zeros_like(self.mean)),
            },
            index=pd.Index(self.field.parameter_names, name="parameter"),
        )
        if self.record.certificate is not None:
            table.attrs["certificate"] = asdict(self.record.certificate)
        return table

    def without_data(self) -> Posterior:
        """The same, without the cases that it came from: small to keep, but with nothing to check it against."""
        result = copy.copy(self)
        if self.objective is not None:
            result.case_counts = counts_alone(self.objective.data)
        result.objective = result.laplace_precision = None
        return result

    def with_data(self, X: Any) -> Posterior:
        """The same with the cases that it was fitted on, where it came without: for ``check``, ``bf.loo`` and pictures.

        X: as in ``bf.fit``.
        """
        prior = self.prior_in_force()
        if not isinstance(self.field, RandomField) or prior is None:
            raise InvalidInput("data go back to posteriors of fields, with their prior; fit sequences and graphs anew")
        engine = Auto().choose(compiled(self.field).graph)[0]
        read = field_objective(self.field, X, prior.scaled(1.0), engine)
        if read.data.n_cases != self.record.n_cases:
            raise InvalidInput(
                f"this posterior was fitted on {self.record.n_cases} cases, and X has {read.data.n_cases}: give the "
                "same ones"
            )
        result = copy.copy(self)
        result.objective = objective = replace(read, prior=prior)
        by_same = self.record.engine == self.record.response == repr(engine) and self.record.method not in LEARNERS
        if self.laplace_precision is None and by_same and self.form.form == "dense":
            result.laplace_precision = DensePrecision(objective.curvature(objective.at(self.mode)))
        return result

    def __repr__(self) -> str:
        judged = self.record.certificate
        return (
            f"Posterior({len(self.mean)} parameters, {self.record.n_cases} cases, {self.record.engine}: "
            f"{self.record.status}"
            + ("" if judged is None else f"; {judged.verdict}: {judged.advice}")
            + ("" if self.temperature == 1.0 else f"; predictions at temperature {self.temperature:g}")
            + ")"
        )


def require_posterior(given: Any) -> None:
    """Refuse what is no posterior, and say where an estimator has its own."""
    if not isinstance(given, Posterior):
        where = "; an estimator has one: network.posterior_" if hasattr(given, "posterior_") else ""
        raise InvalidInput(f"this takes a posterior, as bf.fit returns it; got {type(given).__name__}{where}")


def reason_for_refusal(field: Parametrised, matrix: FloatArray | None, reason: str) -> str:
    """Why: the parameters in the directions along which the curvature is not positive, where it is known."""
    if matrix is None:
        return reason
    if not np.isfinite(matrix).all():
        return "its precision holds numbers that are not finite: take a narrower prior or another engine"
    values, vectors = np.linalg.eigh(matrix)
    names = ", ".join(field.parameter_names[k] for k in np.argsort(-np.abs(vectors[:, 0]))[:5])
    return (
        f"its precision is not positive definite; smallest eigenvalue {values[0]:.3g} ({int((values <= 0).sum())} not "
        f"above zero), along: {names}. Take a narrower prior, an engine that is exact on this field, or drop or tie "
        "these parameters"
    )
