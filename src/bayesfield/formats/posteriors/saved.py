"""A posterior in one file: a zip archive of ``header.json`` and plain arrays, no pickle, with checksums.

    header.json      {"format": "bayesfield posterior", "version": 2, "written by": …, "arrays": […], "sha256": …,
                      "content": …}; content: formats.packed
    arrays/0.npy …   NumPy's own format; header.json has the type, shape and SHA-256 of each

The training data are not among it. A posterior made of draws has them, with their weights; that is what version 2 added
to version 1, with the certificate in the record. A precision is saved dense, by blocks, or, where it is sparse, as the
recipe that makes it again: the engine, the mode and the prior.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import platform
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import memory
from bayesfield.correction.cumulants import SkewedMarginals
from bayesfield.correction.marginals import DrawnMarginals, Marginals, ProfiledMarginals
from bayesfield.files import npy_array, unpacked
from bayesfield.fitting.planning.request import Request
from bayesfield.formats.posteriors.packed import Packer, unpack
from bayesfield.graph.compiled import compiled
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.learning.objective import GaussianPrior
from bayesfield.learning.phases.cases import CaseCounts, case_objective, counts_alone
from bayesfield.learning.precision.at import precision_at
from bayesfield.learning.precision.block import BlockPrecision
from bayesfield.learning.precision.dense import DensePrecision
from bayesfield.learning.precision.mean_field import DiagonalPrecision
from bayesfield.learning.precision.sparse import SparsePrecision
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior
from bayesfield.outputs import settle, write_bytes
from bayesfield.posterior.posterior import Posterior
from bayesfield.posterior.record import Certificate, FitRecord
from bayesfield.posterior.tempered import Tempered, checked_temperature
from bayesfield.types import BayesfieldError, FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.graph.structure import Graph
    from bayesfield.learning.precision.base import Precision

FORMAT, VERSION = "bayesfield posterior", 2
_REQUEST = (
    *("prior", "engine", "response", "method", "correction", "form"),
    *("starts", "tolerance", "max_iterations", "rng", "budget"),
)  # what is kept of it
_ENGINES = ("Auto", "Bethe", "Enumeration", "Exact", "Kikuchi")
_HEADER = "header.json"
_ENTRIES = 100_000  # of an archive, at most
_PREFACE = 1024  # bytes of an array before its numbers, at most
_SWEEPS = 100_000  # of an engine, at most; and so many that all their messages are
_UPDATES = 3e8  # at most, some seconds of work
_DIRECT = 10  # times as much work is a sweep of the direct minimisation
_PATIENCE = 2000  # sweeps that any file may ask for
_LOOP = 12  # variables of a loop, at most
_ROUNDING = 1e-9  # of weights that add up to one
_OBJECTS = 30  # bytes in memory for a byte of JSON, at most
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of all entries, so that equal posteriors have equal files


def save(posterior: Posterior, path: str | Path) -> None:
    """Write a posterior, without its data, to one file; all of it or nothing."""
    packer = Packer()
    content = packer.pack(
        {
            "field": posterior.field,
            "mean": posterior.mean,
            "mode": posterior.mode,
            "skewness": posterior.skewness,
            "record": replace(posterior.record, certificate=_certificate(posterior)),
            "prior": posterior.prior,
            "precision": _precision_parts(posterior.form),
            "marginals": _beyond_moments(posterior.marginals),
            "request": _request_parts(posterior.request),
            "case_counts": _counts_parts(posterior),
            **({} if posterior.cold is None else {"cold": tuple(posterior.cold)}),
        }
    )
    arrays = [_npy(a) for a in packer.arrays]
    listed = [
        {"type": a.dtype.str, "shape": list(a.shape), "sha256": hashlib.sha256(data).hexdigest()}
        for a, data in zip(packer.arrays, arrays, strict=True)
    ]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written by": {
            "bayesfield": version("bayesfield"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "arrays": listed,
        "sha256": _digest(content),
        "content": content,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        _put(archive, _HEADER, json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8"))
        for number, data in enumerate(arrays):
            _put(archive, f"arrays/{number}.npy", data)
    write_bytes(path, packed.getvalue())


def load(path: str | Path) -> Posterior:
    """The posterior that ``save`` wrote. A file that was cut, changed or made otherwise is refused."""
    settle(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _posterior(archive)
    except FileNotFoundError:
        raise InvalidInput(f"cannot read {path}: there is no such file") from None
    except zipfile.BadZipFile:
        raise InvalidInput(f"cannot read {path}: it is no saved posterior, or was cut short") from None
    except (BayesfieldError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None
    except MemoryError:
        raise InvalidInput(f"cannot read {path}: it would take more memory than there is") from None
    except Exception as error:  # whatever is raised by what ``save`` did not write
        raise InvalidInput(f"cannot read {path}: it was changed ({type(error).__name__})") from error


def _posterior(archive: zipfile.ZipFile) -> Posterior:
    sizes = [entry.file_size for entry in archive.infolist()]
    if {entry.compress_type for entry in archive.infolist()} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise InvalidInput("it was changed: it is packed in another way")
    if _HEADER not in archive.namelist():
        raise InvalidInput("it is no saved posterior: it has no header.json")
    needed = 2 * sum(sizes) + _OBJECTS * archive.getinfo(_HEADER).file_size
    if len(sizes) > _ENTRIES:
        raise InvalidInput(f"it was changed: it has {len(sizes):,} entries, and up to {_ENTRIES:,} are read")
    if needed > memory.usable_bytes():
        raise InvalidInput(f"it would take {needed / 2**30:.3g} GiB, more than may be used here")
    header = json.loads(unpacked(archive, _HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInput("it is no saved posterior")
    if header.get("version") not in range(1, VERSION + 1):
        raise InvalidInput(f"it is of version {header.get('version')!r}, and this library reads up to {VERSION}")
    if header.get("sha256") != _digest(header["content"]):
        raise InvalidInput("it was changed: its checksum does not fit")
    arrays = [_array(archive, number, told) for number, told in enumerate(header["arrays"])]
    return _made(unpack(header["content"], arrays))


def _array(archive: zipfile.ZipFile, number: int, told: dict[str, Any]) -> Any:
    name = f"arrays/{number}.npy"
    _refuse_size(archive.getinfo(name).file_size, number, told)
    data = unpacked(archive, name)
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise InvalidInput(f"it was changed: the checksum of array {number} does not fit")
    found = npy_array(data)
    if found.dtype.str != told["type"] or list(found.shape) != told["shape"]:
        raise InvalidInput(f"it was changed: array {number} is not what the header says")
    return found


def _refuse_size(size: int, number: int, told: dict[str, Any]) -> None:
    """Before it is unpacked: a thousandth of its size may be all that is stored of it."""
    dtype = np.dtype(str(told["type"]))
    numbers = dtype.itemsize * math.prod(int(length) for length in told["shape"])
    if dtype.kind not in "biuf" or not 0 < size - numbers <= _PREFACE:
        raise InvalidInput(f"it was changed: array {number} is not what the header says")


def _made(content: dict[str, Any]) -> Posterior:
    field, record, prior = content["field"], content["record"], content["prior"]
    if not hasattr(field, "parameter_names") or not isinstance(record, FitRecord):
        raise InvalidInput("it is not whole")
    if prior is not None and not isinstance(prior, Prior):
        raise InvalidInput("its prior is none")
    F = field.n_parameters
    mean, mode, skewness = (_numbers(content[name], (F,), name) for name in ("mean", "mode", "skewness"))
    precision = _precision(content["precision"], field)
    if precision.size != len(mean):
        raise InvalidInput("its precision is of another size than its mean")
    marginals = content.get("marginals")  # none before version 2
    if marginals is not None:
        _refuse_marginals(marginals, F)
    cold = _cold(content.get("cold"), record.temperature, precision)
    result = Posterior(field, mean, precision, record, mode, None, skewness, None, prior, marginals, cold)
    result.request, result.case_counts = _request_of(content.get("request")), _counts_of(content, field)
    return result


def _request_parts(asked: Request | None) -> dict[str, Any] | None:
    """What a further fit needs; None where it had a learner or chains, whose options no file holds."""
    if asked is None or not isinstance(asked.method, str):
        return None
    parts = {name: getattr(asked, name) for name in _REQUEST}
    engines = [asked.engine, asked.response]
    return parts if all(e is None or type(e).__name__ in _ENGINES for e in engines) else None


def _request_of(parts: Any) -> Request | None:
    if parts is None:
        return None
    if not isinstance(parts, dict) or set(parts) != set(_REQUEST) or not isinstance(parts["prior"], Prior):
        raise InvalidInput("it does not say what the fit was asked for")
    engines = [parts["engine"], parts["response"]]
    words = [parts[name] for name in ("method", "correction", "form")]
    numbers = [parts[name] for name in ("starts", "tolerance", "max_iterations", "rng", "budget")]
    whole = all(isinstance(n, int | float | None) and not isinstance(n, bool) for n in numbers)
    if not whole or not all(isinstance(word, str) for word in words) or parts["engine"] is None:
        raise InvalidInput("it does not say what the fit was asked for")
    if any(e is not None and type(e).__name__ not in _ENGINES for e in engines):
        raise InvalidInput("it does not say what the fit was asked for")
    return Request(**parts)


def _counts_parts(posterior: Posterior) -> dict[str, Any] | None:
    kept = posterior.case_counts if posterior.objective is None else counts_alone(posterior.objective.data)
    return None if kept is None else {"counts": kept.counts, "weight": float(kept.weight)}


def _counts_of(content: dict[str, Any], field: Any) -> CaseCounts | None:
    """How often the complete cases take every table entry: numbers not below zero, as many as there are entries."""
    parts = content.get("case_counts")
    if parts is None:
        return None
    if not isinstance(field, RandomField) or not isinstance(parts, dict) or set(parts) != {"counts", "weight"}:
        raise InvalidInput("its counts of cases are none")
    counts = _numbers(parts["counts"], (compiled(field).graph.n_entries,), "counts of cases")
    weight = float(_numbers(np.array(parts["weight"], dtype=np.float64), (), "weight"))
    if (counts < 0.0).any() or weight < 0.0:
        raise InvalidInput("its counts of cases are none")
    return CaseCounts(counts, weight)


def _cold(parts: Any, temperature: float, precision: Precision) -> Tempered | None:
    """What predictions average over at a temperature between 0 and 1, where the weights are independent; else None."""
    checked_temperature(temperature)
    if not (0.0 < temperature < 1.0 and precision.form == "mean-field"):
        if parts is not None:
            raise InvalidInput("it holds a cooled posterior that its temperature has no use for")
        return None
    mean, diagonal = parts
    cold = Tempered(*(_numbers(part, (precision.size,), "cooled posterior") for part in (mean, diagonal)))
    if not (cold.diagonal > 0.0).all():
        raise InvalidInput("a width of its cooled posterior is not above zero")
    return cold


def _certificate(posterior: Posterior) -> Certificate | None:
    """That of the fit, or one that was made from the data since; none is made now."""
    later: Certificate | None = vars(posterior).get("certificate") if posterior.objective is not None else None
    return posterior.record.certificate or later


def _beyond_moments(marginals: Marginals) -> Marginals | None:
    """What mean, widths and skewness do not tell already."""
    return None if isinstance(marginals, SkewedMarginals) else marginals


def _refuse_tables(marginals: ProfiledMarginals, size: int) -> None:
    """Profiles that cannot be densities of some of the parameters."""
    which, grid = np.asarray(marginals.which), marginals.grid
    for name in ("mean", "sd", "skewness"):
        _numbers(getattr(marginals.base, name), (size,), f"{name} of its marginals")
    if which.dtype.kind != "i" or which.ndim != 1 or len(np.unique(which)) < len(which):
        raise InvalidInput("its profiles do not name parameters once each")
    if len(which) and not (which.min() >= 0 and which.max() < size):
        raise InvalidInput("its profiles are of parameters that it does not have")
    if grid.ndim != 2 or grid.shape[1] < 2:
        raise InvalidInput("its profiles have no points")
    for name in ("grid", "log_densities"):
        _numbers(getattr(marginals, name), (len(which), grid.shape[1]), f"{name} of its profiles")
    if (np.diff(grid, axis=1) <= 0.0).any() or (marginals.base.sd <= 0.0).any():
        raise InvalidInput("the points of its profiles do not increase, or a width is not above zero")


def _refuse_marginals(marginals: Any, size: int) -> None:
    """Draws of every parameter, which vary, with weights that add up to one."""
    if isinstance(marginals, ProfiledMarginals):
        _refuse_tables(marginals, size)
        return
    if not isinstance(marginals, DrawnMarginals):
        raise InvalidInput("its marginals are none")
    weights = _numbers(marginals.weights, (len(marginals.weights),), "weights of draws")
    _numbers(marginals.points, (len(weights), size), "draws")
    if len(weights) < 2 or (weights < 0.0).any() or abs(float(weights.sum()) - 1.0) > _ROUNDING:
        raise InvalidInput("the weights of its draws are no probabilities of at least two draws")
    with np.errstate(all="ignore"):
        varied = (marginals.sd > 0.0) & np.isfinite(marginals.sd)
    if not varied.all():
        raise InvalidInput("its draws do not vary, or vary beyond all bounds")


def _precision_parts(form: Precision) -> dict[str, Any]:
    if isinstance(form, DensePrecision):
        return {"form": "dense", "matrix": form.matrix()}
    if isinstance(form, DiagonalPrecision):
        return {"form": "mean-field", "diagonal": form.diagonal}
    if isinstance(form, BlockPrecision):
        return {"form": "block", "blocks": form.blocks, "rest": form.rest, "order": form.order}
    if isinstance(form, SparsePrecision) and form.origin is not None:
        o = form.origin
        return {"form": "sparse", "engine": o.engine, "at": o.parameters, "weight": form.weight, "ridge": form.ridge}
    raise InvalidInput(
        f"a {form.form} precision is known by products with the data, which are not saved; keep draws "
        '(posterior.sample) instead, or fit with form="dense" or "sparse"'
    )


def _precision(parts: dict[str, Any], field: Any) -> Precision:
    F = field.n_parameters
    if parts["form"] == "dense":
        return DensePrecision(_numbers(parts["matrix"], (F, F), "precision"))
    if parts["form"] == "mean-field":
        return DiagonalPrecision(_numbers(parts["diagonal"], (F,), "precision"))
    if parts["form"] == "block":
        blocks, rest = parts["blocks"], parts["rest"]
        D, G = blocks.shape[:2]
        return BlockPrecision(
            _numbers(blocks, (D, G, G), "blocks"),
            _numbers(rest, (F - D * G,) * 2, "precision"),
            _order(parts.get("order"), F),
        )
    if parts["form"] != "sparse" or not isinstance(field, RandomField):
        raise InvalidInput(f"its precision has a form that is not known: {parts['form']!r}")
    return _made_again(parts, field)


def _order(order: Any, size: int) -> Any:
    """Every parameter once; files of before there was an order have none."""
    if order is not None and (order.dtype.kind != "i" or not np.array_equal(np.sort(order), np.arange(size))):
        raise InvalidInput("its blocks do not name every parameter once")
    return order


def _made_again(parts: dict[str, Any], field: RandomField) -> Precision:
    """A sparse precision from its recipe."""
    F, known = field.n_parameters, compiled(field)
    ridge, at = _numbers(parts["ridge"], (F,), "prior"), _numbers(parts["at"], (F,), "mode")
    weight = float(_numbers(np.array(parts["weight"], dtype=np.float64), (), "weight"))
    engine = _bounded(parts["engine"], known.graph)
    memory.require(engine.preview(known.graph), "its precision", "Read it where there is more.")
    codes = np.empty((0, field.n_variables), dtype=np.int64)
    empty = case_objective(known, codes, GaussianPrior(np.zeros_like(ridge), ridge), engine)
    objective = replace(empty, phases=(replace(empty.free, weight=weight),))
    point = objective.at(at)
    if engine != parts["engine"] and not point.status.converged:
        raise InvalidInput(
            f"its precision is not made again within {engine.max_sweeps:,} sweeps and {engine.max_direct:,} of direct "
            'minimisation; where it was fitted, keep draws (posterior.sample) instead, or fit with form="dense"'
        )
    return precision_at(objective, point, "sparse")


def _bounded(engine: Any, graph: Graph) -> Bethe | Kikuchi:
    """The engine, with a budget that ends in reasonable time whatever a file asks for."""
    if not isinstance(engine, Bethe | Kikuchi):
        raise InvalidInput(f"its precision was found by {str(engine)[:80]}, which does not make it again")
    if isinstance(engine, Kikuchi) and engine.max_length > _LOOP:
        raise InvalidInput(f"it asks for loops of {engine.max_length} variables")
    entries = max(engine.preview(graph).entries, float(graph.arrays.message_ptr[-1]), 1.0)
    most, direct = (min(max(int(_UPDATES / (cost * entries)), _PATIENCE), _SWEEPS) for cost in (1, _DIRECT))
    return replace(engine, max_sweeps=min(engine.max_sweeps, most), max_direct=min(engine.max_direct, direct))


def _numbers(found: Any, shape: tuple[int, ...], what: str) -> FloatArray:
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.shape != shape:
        raise InvalidInput(f"its {what} is no array of shape {shape}, but has another number or kind of entries")
    if not np.isfinite(found).all():
        raise InvalidInput(f"its {what} holds numbers that are not finite")
    return found


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def _digest(content: Any) -> str:
    plain = json.dumps(content, ensure_ascii=False, sort_keys=True, allow_nan=False)
    return hashlib.sha256(plain.encode("utf-8")).hexdigest()
