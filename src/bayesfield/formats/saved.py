"""A posterior in one file: a zip archive of ``header.json`` and plain arrays, no pickle, with checksums.

    header.json      {"format": "bayesfield posterior", "version": 1, "written by": …, "arrays": […], "sha256": …,
                      "content": …}; content: formats.packed
    arrays/0.npy …   NumPy's own format; header.json has the type, shape and SHA-256 of each

The training data are not among it. A precision is saved dense, by blocks, or, where it is sparse, as the recipe that
makes it again: the engine, the mode and the prior.
"""

import hashlib
import io
import json
import platform
import zipfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from bayesfield import memory
from bayesfield.files import write_bytes
from bayesfield.formats.packed import Packer, unpack
from bayesfield.graph import compiled
from bayesfield.learning.block_precision import BlockPrecision
from bayesfield.learning.objective import observed_objective
from bayesfield.learning.precision import DensePrecision, Precision, SparsePrecision
from bayesfield.model import Prior, RandomField
from bayesfield.posterior import FitRecord, Posterior
from bayesfield.types import BayesfieldError, InvalidInput

FORMAT, VERSION = "bayesfield posterior", 1
_HEADER = "header.json"
_ENTRIES = 100_000  # of an archive, at most
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
            "record": posterior.record,
            "prior": posterior.prior,
            "precision": _precision_parts(posterior.form),
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
    try:
        with zipfile.ZipFile(path) as archive:
            return _posterior(archive)
    except FileNotFoundError:
        raise InvalidInput(f"cannot read {path}: there is no such file") from None
    except zipfile.BadZipFile:
        raise InvalidInput(f"cannot read {path}: it is no saved posterior, or was cut short") from None
    except (BayesfieldError, OSError) as error:
        raise InvalidInput(f"cannot read {path}: {error}") from None
    except (EOFError, ValueError, TypeError, KeyError, IndexError, RecursionError, NotImplementedError) as error:
        raise InvalidInput(f"cannot read {path}: it was changed ({type(error).__name__})") from None
    except Exception as error:
        if type(error).__module__ in ("zlib", "zipfile", "lzma", "struct"):
            raise InvalidInput(f"cannot read {path}: it was changed ({type(error).__name__})") from None
        raise


def _posterior(archive: zipfile.ZipFile) -> Posterior:
    sizes = [entry.file_size for entry in archive.infolist()]
    if len(sizes) > _ENTRIES or sum(sizes) > memory.usable_bytes():
        raise InvalidInput(f"it would take {sum(sizes) / 2**30:.3g} GiB, more than may be used here")
    if _HEADER not in archive.namelist():
        raise InvalidInput("it is no saved posterior: it has no header.json")
    header = json.loads(archive.read(_HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInput("it is no saved posterior")
    if header.get("version") not in range(1, VERSION + 1):
        raise InvalidInput(f"it is of version {header.get('version')!r}, and this library reads up to {VERSION}")
    if header.get("sha256") != _digest(header["content"]):
        raise InvalidInput("it was changed: its checksum does not fit")
    arrays = [_array(archive, number, told) for number, told in enumerate(header["arrays"])]
    return _made(unpack(header["content"], arrays))


def _array(archive: zipfile.ZipFile, number: int, told: dict[str, Any]) -> Any:
    data = archive.read(f"arrays/{number}.npy")
    if hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise InvalidInput(f"it was changed: the checksum of array {number} does not fit")
    found = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    if found.dtype.str != told["type"] or list(found.shape) != told["shape"] or found.dtype.kind not in "biuf":
        raise InvalidInput(f"it was changed: array {number} is not what the header says")
    return found


def _made(content: dict[str, Any]) -> Posterior:
    field, record, prior = content["field"], content["record"], content["prior"]
    if not hasattr(field, "parameter_names") or not isinstance(record, FitRecord):
        raise InvalidInput("it is not whole")
    if prior is not None and not isinstance(prior, Prior):
        raise InvalidInput("its prior is none")
    mean, mode, skewness = content["mean"], content["mode"], content["skewness"]
    if {getattr(a, "shape", None) for a in (mean, mode, skewness)} != {(field.n_parameters,)}:
        raise InvalidInput(f"its field has {field.n_parameters} parameters, and its mean another number")
    precision = _precision(content["precision"], field)
    if precision.size != len(mean):
        raise InvalidInput("its precision is of another size than its mean")
    return Posterior(field, mean, precision, record, mode, None, skewness, None, prior)


def _precision_parts(form: Precision) -> dict[str, Any]:
    if isinstance(form, DensePrecision):
        return {"form": "dense", "matrix": form.matrix()}
    if isinstance(form, BlockPrecision):
        return {"form": "block", "blocks": form.blocks, "rest": form.rest}
    if isinstance(form, SparsePrecision) and form.origin is not None:
        o = form.origin
        return {"form": "sparse", "engine": o.engine, "at": o.parameters, "weight": form.weight, "ridge": form.ridge}
    raise InvalidInput(
        f"a {form.form} precision is known by products with the data, which are not saved; keep draws "
        '(posterior.sample) instead, or fit with form="dense" or "sparse"'
    )


def _precision(parts: dict[str, Any], field: Any) -> Precision:
    if parts["form"] == "dense":
        return DensePrecision(parts["matrix"])
    if parts["form"] == "block":
        return BlockPrecision(parts["blocks"], parts["rest"])
    if parts["form"] != "sparse" or not isinstance(field, RandomField):
        raise InvalidInput(f"its precision has a form that is not known: {parts['form']!r}")
    ridge = parts["ridge"]
    codes = np.empty((0, field.n_variables), dtype=np.int64)
    empty = observed_objective(compiled(field), codes, ridge, np.zeros_like(ridge), parts["engine"])
    objective = replace(empty, weight=float(parts["weight"]), form="sparse")
    return objective.posterior_precision(objective.at(parts["at"]))


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
