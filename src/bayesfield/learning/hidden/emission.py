"""A graph whose unary tables come from an emission: log Z(λ, y) of hidden labels given what is observed of them.

θ = θ₀ + A λ_law + U(η; y) on the variables' own tables. With J = ∂U/∂η

    ∇ log Z = (Aᵀb, Jᵀb),    ∇² log Z = (A, J)ᵀ Cov(b) (A, J) + Σ b ∂²U                    (Louis 1982)

so that any engine's covariance, asked with the design (A, J), gives the observed information.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from bayesfield.graph.compiled import Design
from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.learning.phases.base import Answer, Phase
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.model.emissions.emitted import Views
from bayesfield.response.base import MatrixResponse, Response
from bayesfield.types import FloatArray


@dataclass(frozen=True, eq=False)
class EmissionPhase(Phase):
    """w log Z(λ, y). inner: the graph with the law's own design, (T, m). views: of y, a row for each variable."""

    inner: GraphPhase
    views: Views
    weight: float = -1.0

    @property
    def engine(self) -> Engine:
        return self.inner.engine

    @property
    def traits(self) -> Traits:
        own = self.engine.traits
        return Traits(exact=own.exact, has_log_z=own.has_log_z)

    @property
    def contrasts(self) -> bool:
        return True

    def with_engine(self, engine: Engine) -> EmissionPhase:
        if engine.traits.streams:  # the search puts a phase made of chains in its place
            return replace(self, inner=replace(self.inner, engine=engine))
        return replace(self, inner=self.inner.with_engine(engine))

    def choose(self, engine: Any) -> tuple[Engine, str]:
        return self.inner.choose(engine)

    def price(self, size: int) -> Price:
        return self.engine.price(self.inner.graph, size)._replace(each=0.0, value=0.0, summed=0.0)

    def bytes(self) -> float:
        return self.inner.bytes() + 8.0 * 4 * self.inner.graph.n_entries

    def split(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        m = self.inner.design.matrix.shape[1]
        return parameters[:m], parameters[m:]

    def at(self, parameters: FloatArray, start: Any = None) -> Answer:
        law, eta = self.split(parameters)
        theta = self.inner.design.potentials(law)
        own = self.views.tables(eta)
        theta[: own.size] += own.ravel()
        marginals = self.engine.infer(self.inner.graph, theta, start)
        beliefs = marginals.tables[: own.size].reshape(own.shape)
        sums = self.views.under(beliefs)
        mean = np.concatenate([self.inner.design.expectations(marginals.tables), sums.slopes(eta)])
        return Answer(marginals.log_z, mean, marginals.status, marginals.state, (parameters, theta, marginals, sums))

    def beliefs(self, answer: Answer) -> FloatArray:
        """p(z_i = k | y), (n, K)."""
        _, _, marginals, _ = answer.found
        n, K = len(self.inner.graph.arrays.cardinality), self.views.emitted.labels
        result: FloatArray = marginals.tables[: n * K].reshape(n, K)
        return result

    def response(self, answer: Answer) -> Response:
        parameters, theta, marginals, sums = answer.found
        design = self._linearised(parameters)
        matrix = self.engine.response(self.inner.graph, design, theta, marginals).covariance()
        m = self.inner.design.matrix.shape[1]
        matrix[m:, m:] += sums.curvature(parameters[m:])
        return MatrixResponse(matrix)

    def variances(self, answer: Answer) -> FloatArray:
        return np.abs(np.diag(self.response(answer).covariance()))

    def _linearised(self, parameters: FloatArray) -> Design:
        """(A, J) at λ."""
        _, eta = self.split(parameters)
        J = self.views.along(eta, np.arange(len(eta)))
        n, K, R = J.shape
        below = sparse.csr_array((self.inner.graph.n_entries - n * K, R))
        matrix = sparse.csr_array(
            sparse.hstack([self.inner.design.matrix, sparse.vstack([sparse.csr_array(J.reshape(n * K, R)), below])])
        )
        return Design(matrix, sparse.csr_array(matrix.T), self.inner.design.offset)
