"""Draws of the parameters by chains, with what a user asks of them first: summary, convergence, thinning."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield import diagnostics, memory
from bayesfield.files import npy_array, unpacked
from bayesfield.outputs import settle, write_npz
from bayesfield.samplers.contract import Chain, Stats
from bayesfield.types import BayesfieldError, FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.prior import Parametrised

_FORMAT = 1
_ENTRIES = 100_000  # of an archive, at most


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of λ, values (chain, draw, parameter).

    stats: figures of each draw by name, (chain, draw): energy, acceptance, … as the sampler has them. chains: where
    they stand, to go on from (``sample_posterior(..., resume=draws)``). sampler, warmup, thin, seconds: how they came.
    target: fingerprint of data and prior; empty where that is not known.
    """

    field: Parametrised
    values: FloatArray
    stats: Stats
    chains: list[Chain]
    sampler: str
    warmup: int
    thin: int
    seconds: float
    target: str = ""

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

    def thinned(self, interval: int | None = None) -> Draws:
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
            "target": self.target,
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
    """Draws that ``save`` wrote, of a field with the same parameters. What was cut or made otherwise is refused."""
    settle(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _draws(_stored(archive), field)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}") from None
    except BayesfieldError as error:
        raise InvalidInput(f"{path} holds no draws of bayesfield: {error}") from None
    except MemoryError:
        raise InvalidInput(f"cannot read {path}: it would take more memory than there is") from None
    except Exception as error:  # whatever is raised by what ``save`` did not write
        raise InvalidInput(f"{path} holds no draws of bayesfield, or was changed ({type(error).__name__})") from None


def _stored(archive: zipfile.ZipFile) -> dict[str, Any]:
    """The arrays by name, looked at before they are unpacked."""
    entries = archive.infolist()
    if {entry.compress_type for entry in entries} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise InvalidInput("it is packed in another way")
    if len(entries) > _ENTRIES:
        raise InvalidInput(f"it has {len(entries):,} entries, and up to {_ENTRIES:,} are read")
    needed = 3 * sum(entry.file_size for entry in entries)
    if needed > memory.usable_bytes():
        raise InvalidInput(f"it would take {needed / 2**30:.3g} GiB, more than may be used here")
    return {e.filename.removesuffix(".npy"): npy_array(unpacked(archive, e.filename)) for e in entries}


def _draws(stored: dict[str, Any], field: Parametrised) -> Draws:
    header = json.loads(str(stored["header"]))
    if header["format"] != _FORMAT or header["parameters"] != list(field.parameter_names):
        raise InvalidInput("they are of other parameters, or were written by another version")
    F, values = len(field.parameter_names), stored["values"]
    _check(values, (*values.shape[:2], F), "values")
    stats = {name.removeprefix("stat:"): a for name, a in stored.items() if name.startswith("stat:")}
    for name, figures in stats.items():
        if figures.shape != values.shape[:2] or figures.dtype.kind not in "biuf":
            raise InvalidInput(f"its {name[:40]!r} needs a number for each draw")
    own = {name: header[name] for name in ("sampler", "warmup", "thin", "seconds")}
    if not isinstance(own["sampler"], str) or not all(_number(own[name]) for name in ("warmup", "thin", "seconds")):
        raise InvalidInput("its header does not say how the draws were made")
    if not isinstance(own["warmup"], int) or not isinstance(own["thin"], int) or own["thin"] < 1:
        raise InvalidInput("its header does not count steps")
    if not isinstance(header["chains"], list) or len(header["chains"]) != len(values):
        raise InvalidInput("it needs a record for each chain")
    chains = [_chain(record, k, stored, F) for k, record in enumerate(header["chains"])]
    return Draws(field, values, stats, chains, **own, target=str(header.get("target", "")))


def _chain(record: dict[str, Any], k: int, stored: dict[str, Any], size: int) -> Chain:
    position, own = stored[f"position:{k}"], stored.get(f"memory:{k}")
    _check(position, (size,), "positions")
    if not _number(record["scale"]) or (own is not None and own.dtype.kind not in "iuf"):
        raise InvalidInput(f"it does not say where chain {k} stands")
    return Chain(position, _generator(record["normals"]), _generator(record["uniforms"]), record["scale"], own)


def _check(found: Any, shape: tuple[int, ...], what: str) -> None:
    if found.dtype != np.float64 or found.shape != shape or not np.isfinite(found).all():
        raise InvalidInput(f"its {what} are no finite numbers of shape {shape}")


def _number(value: Any) -> bool:
    """Whether it is a finite number not below zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


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
