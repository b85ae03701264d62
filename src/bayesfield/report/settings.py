"""What to write down of a fit so that another can repeat it: settings, versions, whom to cite."""

from __future__ import annotations

import platform
from dataclasses import fields, is_dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield.report.wording import short

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_PACKAGES = ("bayesfield", "numpy", "scipy", "numba")
_PAPER = """@inproceedings{welling2006bayesian,
  author    = {Welling, Max and Parise, Sridevi},
  title     = {Bayesian Random Fields: The {Bethe-Laplace} Approximation},
  booktitle = {Proceedings of the 22nd Conference on Uncertainty in Artificial Intelligence (UAI)},
  year      = {2006}
}"""


def settings_of(posterior: Posterior, now: datetime) -> list[tuple[str, str]]:
    """Label and value, in the order in which the page shows them."""
    record = posterior.record
    known = [
        ("Engine", record.engine),
        ("Response", record.response),
        ("Method", record.method),
        ("Correction", str(record.correction)),
        ("Precision", record.form),
        ("Prior", prior_text(posterior.prior)),
        *([("Prior chosen by the data", str(record.prior))] if record.prior is not None else []),
        ("Cases", f"{record.n_cases:,}"),
        ("Time of the fit", f"{record.seconds:.3g} s"),
    ]
    return [*known, *versions(), ("Platform", platform.platform()), ("Report written", f"{now:%Y-%m-%d %H:%M}")]


def versions() -> list[tuple[str, str]]:
    """Of what made the report, which need not be what made the fit."""
    found = [(name, _version(name)) for name in _PACKAGES]
    return [found[0], ("Python", platform.python_version()), *found[1:]]


def prior_text(prior: Any) -> str:
    """As ``repr``, with long arrays told in a few words."""
    if prior is None:
        return "not kept"
    if not is_dataclass(prior):
        return short(repr(prior))
    parts = [(f.name, getattr(prior, f.name)) for f in fields(prior)]
    told = [f"{name}={_brief(value)}" for name, value in parts if value is not None and not _is_zero(name, value)]
    return f"{type(prior).__name__}({', '.join(told)})"


def citation(now: datetime) -> str:
    own = f"""@software{{bayesfield,
  author  = {{{{The bayesfield founders}}}},
  title   = {{bayesfield: Bayesian learning of discrete random fields}},
  version = {{{_version("bayesfield")}}},
  year    = {{{now:%Y}}}
}}"""
    return f"{_PAPER}\n\n{own}\n"


def _is_zero(name: str, value: Any) -> bool:
    return name == "mean" and not np.any(np.asarray(value))


def _brief(value: Any) -> str:
    if not isinstance(value, np.ndarray) or not value.size:
        return short(repr(value))
    if value.ndim > 1:
        return f"a matrix of {' × '.join(str(n) for n in value.shape)}"
    different = np.unique(value)
    if len(different) == 1:
        return f"{different[0]:g}"
    return f"[{len(value):,} values from {different[0]:.3g} to {different[-1]:.3g}]"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"
