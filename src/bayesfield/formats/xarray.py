"""Posteriors and draws as labelled arrays of xarray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.posterior.posterior import Posterior
from bayesfield.response.base import fits_dense
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.samplers.draws import Draws


def to_xarray(posterior: Posterior | Draws, n: int = 1000, rng: np.random.Generator | int | None = 0) -> Any:
    """A Dataset by ``parameter``: mean, sd, lower and upper (95 %), p_positive, skewness; covariance; draws.

    The covariance, by parameter and ``other``, is left out where it does not fit in memory. Of a posterior, n draws by
    ``draw`` and parameter, none for n = 0; of draws of ``bf.sample_posterior``, all of them, by ``chain`` too. The
    attributes tell how it was found, and how far it may be trusted. A posterior made of draws gives n of them, by their
    weights.
    """
    try:
        import xarray
    except ImportError:
        raise InvalidInput("to_xarray needs xarray: pip install xarray") from None
    if n < 0:
        raise InvalidInput(f"the number of draws must not be negative; got {n}")
    table = posterior.summary()
    columns = [c for c in ("mean", "sd", "lower", "upper", "p_positive") if c in table]
    arrays: dict[str, Any] = {c: (("parameter",), table[c].to_numpy(dtype=np.float64)) for c in columns}
    names = list(posterior.field.parameter_names)
    labels: dict[str, Any] = {"parameter": names}
    if isinstance(posterior, Posterior):
        more, attributes = _of_posterior(posterior, n, rng), _told(posterior)
    else:
        more, attributes = _of_draws(posterior), {"made_by": posterior.sampler, "seconds": posterior.seconds}
    if "covariance" in more:
        labels["other"] = names
    return xarray.Dataset(arrays | more, labels, {"inference_library": "bayesfield"} | attributes)


def _of_posterior(posterior: Posterior, n: int, rng: np.random.Generator | int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"skewness": (("parameter",), posterior.skewness)}
    if fits_dense(len(posterior.mean)):
        found["covariance"] = (("parameter", "other"), posterior.covariance())
    if n:
        found["draws"] = (("draw", "parameter"), posterior.sample(n, rng))
    return found


def _of_draws(draws: Draws) -> dict[str, Any]:
    flat = draws.flat
    away = flat - flat.mean(axis=0)
    spread = np.maximum((away**2).mean(axis=0), np.finfo(float).tiny)
    found: dict[str, Any] = {"skewness": (("parameter",), (away**3).mean(axis=0) / spread**1.5)}
    if fits_dense(flat.shape[1]):
        found["covariance"] = (("parameter", "other"), np.atleast_2d(np.cov(flat.T)))
    return found | {"draws": (("chain", "draw", "parameter"), draws.values)}


def _told(posterior: Posterior) -> dict[str, Any]:
    """What netCDF can keep: text and numbers."""
    record, certificate = posterior.record, posterior.record.certificate
    judged = {} if certificate is None else {"certificate": certificate.verdict, "advice": certificate.advice}
    return {
        "made_by": made_by(posterior),
        "engine": record.engine,
        "response": record.response,
        "method": record.method,
        "status": str(record.status),
        "inference": str(record.inference),
        "correction": str(record.correction),
        "precision": record.form,
        "cases": record.n_cases,
        "log_likelihood": record.log_likelihood,
        "seconds": record.seconds,
        **judged,
    }


def made_by(posterior: Posterior) -> str:
    """What the posterior is, and whose log Z it has."""
    drawn = isinstance(posterior.marginals, DrawnMarginals)
    kind = f"posterior made of draws, {posterior.record.correction.reason}" if drawn else "Gaussian posterior"
    return f"{kind}, {posterior.record.engine}"
