"""Questions to a field at given parameters: infer, covariance, sample, most_probable."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.graph.compiled import compiled, potentials_at
from bayesfield.graph.condition import condition
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.sampling.sampled import Sampled, sampling_error
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.types import Cost, FitWarning, FloatArray, IntArray, InvalidInput, Marginals, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.model.field import RandomField

Evidence = Mapping[str, Hashable] | Mapping[int, Hashable]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The answer to ``infer``: log Z, E[f], marginals of variables and factors, and how they were found."""

    field: RandomField
    marginals: Marginals

    @property
    def log_z(self) -> float:
        """log Σ_x exp(θ₀(x) + λᵀf(x)), given the evidence."""
        return self.marginals.log_z

    @property
    def status(self) -> Status:
        return self.marginals.status

    @cached_property
    def mean(self) -> FloatArray:
        """E[f], (F,)."""
        return compiled(self.field).design.expectations(self.marginals.tables)

    @cached_property
    def _sampling(self) -> tuple[FloatArray, FloatArray] | None:
        compiled_field = compiled(self.field)
        if self.status.outcome not in (Outcome.SAMPLED, Outcome.SLOW) or self.marginals.state is None:
            return None
        return sampling_error(compiled_field.graph, compiled_field.design, self.marginals)

    @property
    def error(self) -> FloatArray | None:
        """Standard error of every mean, (F,), with what chains that did not mix do not know; None if none were run."""
        return None if self._sampling is None else self._sampling[0]

    @property
    def mixing(self) -> float | None:
        """How far sampled chains are from having mixed: above 1 they have not (sampling.mixing); None if not told."""
        return self.status.mixing

    @property
    def effective_samples(self) -> FloatArray | None:
        """For every mean, (F,): how many independent draws would have its error; None if nothing was sampled."""
        return None if self._sampling is None else self._sampling[1]

    @cached_property
    def variables(self) -> list[FloatArray]:
        """For every variable the probability of each of its states."""
        g = compiled(self.field).graph.arrays
        return np.split(self.marginals.tables[: g.node_ptr[-1]], g.node_ptr[1:-1]) if len(g.cardinality) else []

    @cached_property
    def factors(self) -> list[FloatArray]:
        """For every factor, in the order of ``field.factors``, the joint table of its variables in its own order."""
        compiled_field = compiled(self.field)
        g = compiled_field.graph.arrays
        tables = self.marginals.tables
        result = []
        of_factor = iter(compiled_field.factor_table.tolist())
        for block in self.field.blocks:
            shape, axes = block.features.shape[1:], np.argsort(block.axes)
            for _ in range(len(block.scopes)):
                where = next(of_factor)
                if not shape:
                    result.append(np.array(1.0))
                elif where < 0:
                    result.append(tables[g.node_ptr[-1 - where] : g.node_ptr[-where]])
                else:
                    part = tables[g.table_ptr[where] : g.table_ptr[where + 1]]
                    result.append(part.reshape(shape).transpose(axes))
        return result

    def __getitem__(self, variable: str | int) -> FloatArray:
        """The probabilities of one variable's states, by name or number."""
        return self.variables[self.field.number(variable)]


def infer(
    field: RandomField, parameters: Any = (), engine: Engine | str = "auto", evidence: Evidence | None = None
) -> Beliefs:
    """log Z, expectations and marginals of a field at given parameters.

    engine: bf.Exact(), bf.Bethe(), bf.Enumeration(); by default bf.Auto(). evidence: variables (name or number) fixed
    to one of their states; log Z is then that of the rest, and the marginals are conditional.
    """
    chosen = as_engine(engine)
    compiled_field = compiled(field)
    theta = potentials_at(field, parameters)
    if not evidence:
        marginals = chosen.infer(compiled_field.graph, theta)
    else:
        fixed = condition(compiled_field.graph, _codes(field, evidence))
        inner = chosen.infer(fixed.graph, theta[fixed.entries])
        marginals = replace(inner, tables=fixed.restore(inner.tables, len(theta)), state=None)
    if compiled_field.design.constant:
        marginals = replace(marginals, log_z=marginals.log_z + compiled_field.design.constant)
    return Beliefs(field, marginals)


def inference_cost(field: RandomField, engine: Engine | str = "auto") -> Cost:
    """What inference with an engine would take, found before anything is allocated."""
    return as_engine(engine).preview(compiled(field).graph)


def covariance(field: RandomField, parameters: Any = (), engine: Engine | str = "auto") -> FloatArray:
    """Covariance of the features under p(x|λ), (F, F): exact, or by linear response, as the engine goes."""
    chosen = as_engine(engine)
    compiled_field = compiled(field)
    theta = potentials_at(field, parameters)
    marginals = chosen.infer(compiled_field.graph, theta)
    if marginals.status.outcome is Outcome.IMPOSSIBLE:
        raise InvalidInput(f"there is no covariance: {marginals.status}")
    return chosen.response(compiled_field.graph, compiled_field.design, theta, marginals).covariance()


def sample(
    field: RandomField,
    parameters: Any,
    n: int,
    rng: np.random.Generator | int | None = None,
    engine: Engine | str = "auto",
) -> Any:
    """n independent joint states from p(x|λ): (n, variables), states' own values.

    engine: "auto" and bf.Exact() draw exactly through the junction tree; bf.Sampled(burn_in=…) takes the ends of n
    Gibbs chains of burn_in + sweeps sweeps each, for fields too dense for that, and warns where chains that began apart
    have not met (from 16 draws on).
    """
    if not isinstance(n, int | np.integer) or n < 0:
        raise InvalidInput(f"the number of samples must be a whole number ≥ 0; got {n!r}")
    compiled_field = compiled(field)
    theta = potentials_at(field, parameters)
    generator = np.random.default_rng(rng)
    chosen: Any = as_engine(engine)
    if isinstance(chosen, Sampled):
        seed = int(generator.integers(2**31))
        drawn, mixing = chosen.draws(compiled_field.graph, theta, n, seed)
        if mixing is not None and not mixing.mixed:
            text = f"these draws are not from the field: {Outcome.SLOW.value}; {mixing}"
            warnings.warn(text, FitWarning, stacklevel=2)
        return field.decode(drawn)
    chosen = Exact() if chosen.traits.chooses else chosen
    if not chosen.traits.exact:
        raise InvalidInput(f"sample draws with bf.Exact() or bf.Sampled(); got {engine!r}")
    return field.decode(chosen.sample(compiled_field.graph, theta, n, generator))


def most_probable(
    field: RandomField, parameters: Any = (), engine: Engine | str = "auto", evidence: Evidence | None = None
) -> tuple[Any, Status]:
    """The most probable joint state, in the states' own values, and how it was found (max-product with bf.Bethe())."""
    codes, status = most_probable_codes(field, parameters, engine, evidence)
    return field.decode(codes[None, :])[0], status


def most_probable_codes(
    field: RandomField, parameters: Any = (), engine: Engine | str = "auto", evidence: Evidence | None = None
) -> tuple[IntArray, Status]:
    """``most_probable`` as positions in the states."""
    chosen = as_engine(engine)
    compiled_field = compiled(field)
    theta = potentials_at(field, parameters)
    given = _codes(field, evidence or {})
    fixed = condition(compiled_field.graph, given)
    codes, status = chosen.maximise(fixed.graph, theta[fixed.entries])
    for variable, state in given.items():
        codes[variable] = state
    return codes, status


def _codes(field: RandomField, evidence: Evidence) -> dict[int, int]:
    """Evidence in names and values as evidence in numbers."""
    result = {}
    for variable, value in evidence.items():
        i = field.number(variable)
        if value not in field.states[i]:
            raise InvalidInput(
                f"variable {field.names[i]!r} has the states {field.states[i]}; evidence gives {value!r}"
            )
        result[i] = field.states[i].index(value)
    return result
