"""How a posterior was found: the plan that was followed, and what came of it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayesfield.correction.cumulants import CorrectionRecord
from bayesfield.learning.search.learner import LEARNERS
from bayesfield.learning.search.optimum import Iteration, Starts
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.types import FloatArray, Status

SAMPLED_NEWTON = "sampled newton"  # what a search by the sampled engine is called
SECOND_ORDER = "chains of labels know the posterior to second order about its mode"
_FORMS = {  # what a form leaves out, where it leaves anything out
    "block": "block: widths of each block given all other parameters; too narrow where blocks go together",
    "mean-field": "mean-field: widths of each parameter given all others, averaged over them; no correlations",
    "matrix-free": "matrix-free: widths are probed, with an error (posterior.form.sd_error)",
}

_COLD = "predictions average over the posterior cooled to it; 0 is the mode"
_GOOD, _FAIR = 0.1, 0.3  # root mean square bias in posterior sd
_WIDTHS = 0.1  # largest share by which the median width may be off


@dataclass(frozen=True)
class Plan:
    """What a fit does, decided from counts alone before it runs (fitting.plan).

    engine, response, method, form: as in ``bf.fit``, with "auto" decided. corrections: the kinds to try, in order,
    until one converges. starts: points to search from. checked: whether sampling checks the mode, and takes over
    where the check fails. certificate: draws whose importance weights judge the posterior; 0 for
    none. draws: evaluations that a posterior made of draws may take where that judgement is not good, 0 for never.
    profiles: how many parameters may be profiled there, where there are no draws. judged: whether the fit makes a
    certificate; else it is made when somebody asks. reasons: why. seconds: counted work of each part, in seconds on our
    machine; total: of all. bytes: held in memory at once.
    """

    engine: str
    response: str
    method: str
    form: str
    corrections: tuple[str, ...]
    starts: int
    checked: bool
    reasons: tuple[str, ...]
    seconds: tuple[tuple[str, float], ...]
    total: float
    bytes: float
    certificate: int = 0
    draws: int = 0
    profiles: int = 0
    judged: bool = False

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {taken:.2g} s" for name, taken in self.seconds if taken > 0.05 * self.total)
        lines = [
            f"engine      {self.engine}",
            *(f"            {reason}" for reason in self.reasons),
            f"response    {self.response}",
            f"search      {self.method}" + (f", from {self.starts} points" if self.starts > 1 else ""),
            f"precision   {self.form}",
            f"correction  {self.corrections[0]}"
            + (f"; where it does not converge {', then '.join(self.corrections[1:])}" if self.corrections[1:] else ""),
            *(["check       by sampling, which takes over where it fails"] if self.checked else []),
            *([f"certificate {self._judgement()}"] if self.certificate or self.draws or self.profiles else []),
            f"price       about {self.total:.2g} s of counted work: {parts}; {self.bytes / 2**20:,.0f} MiB",
        ]
        return "\n".join(lines)

    def _judgement(self) -> str:
        if not self.certificate:
            return "the posterior is made of draws" if self.draws else "the marginals that lean most are profiled"
        ways = ["the posterior is made of draws"] if self.draws else []
        ways += [f"up to {self.profiles:,} marginals are profiled"] if self.profiles else []
        return f"by {self.certificate:,} weighted draws" + (
            f"; where it is not good {', or '.join(ways)}" if ways else ""
        )


@dataclass(frozen=True, eq=False)
class Check:
    """What ``posterior.check`` found, parameter by parameter.

    bias: (mode − true mode) / sd. error: its Monte-Carlo error. sd_ratio: the fit's sd over the sampled. Each (F,).
    mixing: how far the chains that checked are from having forgotten where they began, over the most that is allowed:
    above 1 they have not mixed, and nothing passes (inference.sampling.mixing). It is the largest of their memory
    after a burn-in, of the differences between chains begun at the data, at random and at low temperature, and of
    these differences in posterior sd over 0.1. None where too few chains ran to tell; that does not pass, either.
    """

    names: list[str]
    bias: FloatArray
    error: FloatArray
    sd_ratio: FloatArray
    mixing: float | None = None

    @property
    def rms(self) -> float:
        """Root mean square bias, with what Monte-Carlo error adds to it taken off where chains know their error."""
        if not len(self.bias):
            return 0.0
        if not self.mixed:
            return float(np.sqrt(np.mean(self.bias**2)))
        return float(np.sqrt(np.clip(np.mean(self.bias**2) - np.mean(self.error**2), 0.0, None)))

    @property
    def mixed(self) -> bool:
        """Whether the chains that checked can tell anything."""
        return self.mixing is not None and self.mixing <= 1.0

    @property
    def passed(self) -> bool:
        return self.mixed and self.rms <= _GOOD and abs(self.width - 1.0) <= _WIDTHS

    @property
    def width(self) -> float:
        """The fit's widths over the sampled ones: the median."""
        return float(np.median(self.sd_ratio)) if len(self.sd_ratio) else 1.0

    @property
    def verdict(self) -> str:
        if self.passed:
            return "good: the mode and the widths are right"
        if self.mixing is None:
            return "not checked: so few chains cannot tell whether they mix; take more, check(engine=bf.Sampled())"
        if not self.mixed:
            return (
                "not checked: chains started apart have not met: they can tell neither the mode nor the widths; "
                "check(engine=bf.Sampled(burn_in=…)) with a longer burn-in, or fit by bf.Exact() or bf.Kikuchi()"
            )
        remedy = "polish it by fit(..., engine=bf.Sampled(), start=posterior.mode), or take larger regions (bf.Kikuchi)"
        grade = "fair" if self.rms <= _FAIR else "poor"
        return f"{grade}: {remedy}"

    def summary(self) -> pd.DataFrame:
        """A row for each parameter."""
        index = pd.Index(self.names, name="parameter")
        return pd.DataFrame({"bias": self.bias, "error": self.error, "sd_ratio": self.sd_ratio}, index=index)

    def __str__(self) -> str:
        if not self.mixed:
            return self.verdict
        noise = float(np.sqrt(np.mean(self.error**2))) if len(self.error) else 0.0
        return (
            f"the mode is within {self.rms:.2f} sd (rms; largest {np.abs(self.bias).max(initial=0.0):.2f}, "
            f"±{noise:.2f}) of the true one, widths are {self.width:.2f} of the sampled ones: {self.verdict}"
        )


@dataclass(frozen=True)
class Certificate:
    """How far a posterior may be trusted.

    verdict: "good" (means within 0.1 sd, widths within 10 %, probabilities within 0.01 of the engine's posterior,
    beyond Monte-Carlo error), "fair" (0.3 sd, 25 %, 0.05) or "poor". advice: one sentence. pareto_k: shape of the tail
    of the importance weights, NaN where none were used; above 0.7 they tell nothing but that. shift, width,
    probability: largest distances of a mean (sd), of a log sd and of a probability P(λ < x), at zero and at the ends
    of the 95 % intervals, as estimated; error: the Monte-Carlo errors of these three; distance: the largest of the
    three beyond its error, in units of what a good posterior may have. n_draws, effective: how many draws, and what
    they were worth. spread: log(n_draws / effective) for each parameter that varied, about twice its share of the
    Kullback-Leibler divergence. space: what varied. skewness: the largest. monte_carlo: error of the means (sd).
    mixing: how far apart chains were that began apart (NaN where there were none). checked: what the check by
    sampling said, where there was one.
    """

    verdict: str
    advice: str
    pareto_k: float = float("nan")
    shift: float = float("nan")
    width: float = float("nan")
    probability: float = float("nan")
    error: tuple[float, float, float] = (0.0, 0.0, 0.0)
    n_draws: int = 0
    effective: float = 0.0
    distance: float = float("nan")
    spread: float = float("nan")
    space: str = ""
    skewness: float = 0.0
    monte_carlo: float = 0.0
    mixing: float = float("nan")
    checked: str = ""

    def __str__(self) -> str:
        parts = [f"{self.verdict}: {self.advice}"]
        if self.n_draws:
            tail = "" if np.isnan(self.pareto_k) else f"k = {self.pareto_k:.2f} of "
            parts.append(
                f"{tail}{self.n_draws:,} draws over {self.space} (worth {self.effective:,.0f}); "
                f"means within {self.shift:.2f} sd, widths within {np.expm1(self.width):.0%}"
            )
        return "; ".join(parts)


@dataclass(frozen=True)
class FitRecord:
    """How a posterior was found.

    engine: what found the parameters, an engine or a learner; response: what gave the curvature there. status: of the
    optimisation. inference: of the engine at the optimum. distance: √(gᵀP⁻¹g), how far the optimum may still be, in
    posterior standard deviations; after a learner, how far the responding engine's own optimum is.
    log_likelihood: Σ log p(x_n|λ_MP) by the engine, NaN where there was none. form: of the precision.
    choice: why this engine, step by step, where ``fit`` chose it; check: the check that it made then. starts: how the
    searches ended (learning.search.starts), where there were several. prior: what the data chose
    (fitting.priors.learned), where they did. plan: what was decided before the fit ran. certificate: how far the
    posterior may be trusted, where the fit judged it (posterior.certificate). temperature: of predictions
    (posterior.tempered).
    """

    engine: str
    response: str
    method: str
    status: Status
    inference: Status
    iterations: tuple[Iteration, ...]
    gradient_norm: float
    distance: float
    log_likelihood: float
    n_cases: int
    correction: CorrectionRecord
    seconds: float
    form: str = "dense"
    choice: tuple[str, ...] = ()
    check: Check | None = None
    starts: Starts | None = None
    prior: PriorRecord | None = None
    plan: Plan | None = None
    certificate: Certificate | None = None
    temperature: float = 1.0

    def __str__(self) -> str:
        value = self.log_likelihood
        return "\n".join(
            [
                *([f"method      {self.method}"] if self.method in (*LEARNERS, "elastic_net") else []),
                f"engine      {self.engine}",
                *(f"            {reason}" for reason in self.choice),
                f"response    {self.response}",
                *([f"precision   {_FORMS[self.form]}"] if self.form in _FORMS else []),
                f"inference   {self.inference}",
                f"optimum     {self.status}",
                *([f"starts      {self.starts}"] if self.starts is not None else []),
                *([f"prior       {self.prior}"] if self.prior is not None else []),
                f"correction  {self.correction}",
                *([f"certificate {self.certificate}"] if self.certificate is not None else []),
                *([f"temperature {self.temperature:g}: {_COLD}"] if self.temperature != 1.0 else []),
                f"cases       {self.n_cases}" + (f", log-likelihood {value:.6g}" if np.isfinite(value) else ""),
                self._ending(),
            ]
        )

    def _ending(self) -> str:
        took = f"{self.seconds:.3g} s"
        if self.method == SAMPLED_NEWTON or not np.isfinite(self.distance):
            return took
        if self.engine != self.response and self.method in LEARNERS:
            return f"by {self.response} the optimum is {self.distance:.2g} posterior sd away in all; {took}"
        return f"optimum within {self.distance:.1g} posterior sd; {took}"
