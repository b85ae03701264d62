"""Draws of the parameters by chains, with what a user asks of them first: summary, convergence, thinning."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayesfield import diagnostics
from bayesfield.files import write_npz
from bayesfield.model import Parametrised
from bayesfield.samplers.contract import Chain, Stats
from bayesfield.types import FloatArray, InvalidInput

_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of λ, values (chain, draw, parameter).

    stats: figures of each draw by name, (chain, draw): energy, acceptance, … as the sampler has them. chains: where
    they stand, to go on from (``sample_posterior(..., resume=draws)``). sampler, warmup, thin, seconds: how they came.
    """

    field: Parametrised
    values: FloatArray
    stats: Stats
    chains: list[Chain]
    sampler: str
    warmup: int
    thin: int
    seconds: float

    @property
    def flat(self) -> FloatArray:
        """All chains in one, (chain · draw, parameter)."""
        return self.values.reshape(-1, self.values.shape[2])

    @property
    def mpsrf(self) -> float:
        """Multivariate R-hat of the chains; below 1.1 they agree."""
        return diagnostics.multivariate_r_hat(self.values)

    def summary(self, level: float = 0.95) -> pd.DataFrame:
        """A row for each parameter: mean, sd, central interval, P(λ > 0), its Monte-Carlo error, and the judges."""
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level lies between 0 and 1; got {level}")
        flat = self.flat
        lower, upper = np.quantile(flat, [0.5 - level / 2, 0.5 + level / 2], axis=0)
        sd = flat.std(axis=0, ddof=1)
        return pd.DataFrame(
            {
                "mean": flat.mean(axis=0),
                "sd": sd,
                "lower": lower,
                "upper": upper,
                "p_positive": (flat > 0).mean(axis=0),
                "mcse": sd / np.sqrt(diagnostics.effective_size(self.values)),
                "ess_bulk": diagnostics.bulk_size(self.values),
                "ess_tail": diagnostics.tail_size(self.values),
                "r_hat": diagnostics.r_hat(self.values),
            },
            index=pd.Index(self.field.parameter_names, name="parameter"),
        )

    def thinned(self, interval: int | None = None) -> "Draws":
        """Every interval-th draw; by default so many that the rest are about independent."""
        if interval is None:
            times = diagnostics.autocorrelation_time(self.values)
            interval = int(np.ceil(np.nanmax(times, initial=1.0)))
        stats = {name: figures[:, interval - 1 :: interval] for name, figures in self.stats.items()}
        return replace(self, values=diagnostics.thinned(self.values, interval), stats=stats, thin=self.thin * interval)

    def save(self, path: str | Path) -> None:
        """Write all, and where the chains stand, to one .npz file."""
        header = {
            "format": _FORMAT,
            "parameters": list(self.field.parameter_names),
            "sampler": self.sampler,
            "warmup": self.warmup,
            "thin": self.thin,
            "seconds": self.seconds,
            "chains": [_chain_record(c) for c in self.chains],
        }
        arrays = {f"stat:{name}": figures for name, figures in self.stats.items()}
        for k, chain in enumerate(self.chains):
            arrays[f"position:{k}"] = chain.position
            if chain.memory is not None:
                arrays[f"memory:{k}"] = chain.memory
        write_npz(path, values=self.values, header=np.array(json.dumps(header)), **arrays)

    def __repr__(self) -> str:
        chains, draws, size = self.values.shape
        return f"Draws({chains} chains × {draws} draws × {size} parameters, {self.sampler})"


def load_draws(path: str | Path, field: Parametrised) -> Draws:
    """Draws that ``save`` wrote, of a field with the same parameters."""
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in file.files}
        header = json.loads(str(stored["header"]))
        names, records = header["parameters"], header["chains"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} holds no draws of bayesfield: {error}") from None
    if header["format"] != _FORMAT or names != list(field.parameter_names):
        raise InvalidInput(f"{path} holds draws of other parameters, or was written by another version")
    chains = []
    for k, r in enumerate(records):
        generators = _generator(r["normals"]), _generator(r["uniforms"])
        chains.append(Chain(stored[f"position:{k}"], *generators, r["scale"], stored.get(f"memory:{k}")))
    stats = {name.removeprefix("stat:"): a for name, a in stored.items() if name.startswith("stat:")}
    return Draws(
        field, stored["values"], stats, chains, header["sampler"], header["warmup"], header["thin"], header["seconds"]
    )


def _chain_record(chain: Chain) -> dict[str, Any]:
    return {
        "scale": chain.scale,
        "normals": chain.normals.bit_generator.state,
        "uniforms": chain.uniforms.bit_generator.state,
    }


def _generator(state: dict[str, Any]) -> np.random.Generator:
    rng = np.random.default_rng()
    rng.bit_generator.state = state
    return rng
