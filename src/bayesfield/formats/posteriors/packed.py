"""Values of a few known kinds as JSON beside arrays, and back. Nothing but these kinds is ever made from a file."""

import dataclasses
import math
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from bayesfield import memory
from bayesfield.correction.cumulants import CorrectionRecord, SkewedMarginals
from bayesfield.correction.marginals import DrawnMarginals, ProfiledMarginals
from bayesfield.inference.auto import Auto
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.learning.search.optimum import Iteration, Start, Starts
from bayesfield.model.adaptive_prior import ARD, Cauchy, Templates
from bayesfield.model.conditional import CRF, Seen
from bayesfield.model.emissions.emitted import Emitted
from bayesfield.model.emissions.families import CategoricalEmission, GaussianEmission, PoissonEmission, StudentEmission
from bayesfield.model.emissions.hidden import HiddenModel
from bayesfield.model.emissions.laws import FieldLaw, MarkovChain
from bayesfield.model.field import FactorBlock, RandomField, as_states
from bayesfield.model.prior import Normal, Prior
from bayesfield.model.smooth.prior import Smooth
from bayesfield.posterior.prior_record import PriorRecord
from bayesfield.posterior.record import Certificate, Check, FitRecord, Plan
from bayesfield.types import Cost, IntArray, InvalidInput, Outcome, Status

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Auto, Bethe, Enumeration, Exact, Kikuchi, Sampled),
        *(ARD, Cauchy, Normal, Smooth, Templates),
        *(Certificate, Check, CorrectionRecord, FitRecord, Iteration, Plan, PriorRecord, Start, Starts, Status),
        *(DrawnMarginals, FactorBlock, ProfiledMarginals, SkewedMarginals),
        *(CategoricalEmission, GaussianEmission, PoissonEmission, StudentEmission),
        *(Emitted, FieldLaw, HiddenModel, MarkovChain),
    )
}
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LARGEST = 2**63  # whole numbers of a file are smaller
_DEEPEST = 40  # levels of a file's values


class Packer:
    """Values to JSON; arrays are put aside, by number."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []

    def pack(self, value: Any) -> Any:
        if isinstance(value, Outcome):
            return {"outcome": value.name}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, pd.DataFrame):
            columns = [[str(c), self.pack(value[c].tolist())] for c in value.columns]
            return {"table": columns, "index": self.pack(value.index.tolist()), "name": self.pack(value.index.name)}
        if type(value).__name__ in KINDS:
            return {"kind": type(value).__name__, "has": {n: self.pack(v) for n, v in _fields(value).items()}}
        if isinstance(value, RandomField | CRF):
            own = _field_parts(value) if isinstance(value, RandomField) else _crf_parts(value)
            return {"kind": type(value).__name__, "has": {n: self.pack(v) for n, v in own.items()}}
        if isinstance(value, tuple):
            return {"tuple": [self.pack(v) for v in value]}
        if isinstance(value, Mapping):
            return {"map": [[self.pack(k), self.pack(v)] for k, v in value.items()]}
        if isinstance(value, list):
            return [self.pack(v) for v in value]
        raise InvalidInput(f"a saved file holds numbers, text and tables; {type(value).__name__} is none of these")

    def _array(self, value: Any) -> Any:
        if value.dtype.kind not in "biuf":
            return {"tuple": [self.pack(v) for v in value.tolist()]}
        self.arrays.append(np.ascontiguousarray(value))
        return {"array": len(self.arrays) - 1}


def unpack(value: Any, arrays: list[Any], depth: int = 0) -> Any:
    """The value that ``Packer.pack`` was given. Raises InvalidInput for anything that it would not have written."""
    if depth > _DEEPEST:
        raise InvalidInput("its values are nested too deeply")
    if value is None or isinstance(value, bool | int | float | str):
        return value

    def inside(v: Any) -> Any:
        return unpack(v, arrays, depth + 1)

    if isinstance(value, list):
        return [inside(v) for v in value]
    try:
        return _tagged(value, arrays, inside)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"it holds a value that is none: {str(error)[:80]}") from None


def _tagged(value: dict[str, Any], arrays: list[Any], inside: Any) -> Any:
    if "array" in value:
        number = value["array"]
        if not isinstance(number, int) or not 0 <= number < len(arrays):
            raise InvalidInput(f"it names an array that is not there: {number!r}")
        return arrays[number]
    if "number" in value:
        return _NUMBERS[value["number"]]
    if "outcome" in value:
        return Outcome[value["outcome"]]
    if "tuple" in value:
        return tuple(inside(v) for v in value["tuple"])
    if "map" in value:
        return {inside(k): inside(v) for k, v in value["map"]}
    if "table" in value:
        index = pd.Index(inside(value["index"]), name=inside(value["name"]))
        return pd.DataFrame({name: inside(column) for name, column in value["table"]}, index=index)
    own = {name: inside(v) for name, v in value["has"].items()}
    if value["kind"] == "RandomField":
        return _field_of(own)
    if value["kind"] == "CRF":
        return _crf_of(own)
    made = _record_of(KINDS[value["kind"]], own)
    if isinstance(made, HiddenModel):
        _check_hidden(made)
    return made


def _check_hidden(model: HiddenModel) -> None:
    """Labels of one number, an emission for each column with a name, and no more parameters than fit in memory."""
    law, emitted = model.law, model.emitted
    K, columns = float(law.labels), len(emitted.families)
    if K < 2 or emitted.labels != law.labels or not 0 < columns == len(emitted.names):
        raise InvalidInput("its hidden field is not whole")
    if isinstance(law, FieldLaw) and ({len(s) for s in law.field.states} != {law.labels} or law.field.hidden):
        raise InvalidInput("its hidden field has variables that are none of its labels")
    if any(isinstance(f, CategoricalEmission) and not 0 < (f.states or 0) < _LARGEST for f in emitted.families):
        raise InvalidInput("its hidden field has an emission of no categories")
    each = [float(f.states or 0) if isinstance(f, CategoricalEmission) else 2.0 for f in emitted.families]
    size = K * (K + sum(each))
    memory.require(
        Cost(size, 200 * size, f"a hidden field of {K:.3g} labels"), "its field", "Read it where there is more."
    )


def _record_of(kind: Any, own: dict[str, Any]) -> Any:
    """A record whose values are of the types that it declares; a prior looks at its own."""
    declared = {} if issubclass(kind, Prior) else get_type_hints(kind)
    for name, value in own.items():
        if name in declared and not _fits(value, declared[name]):
            raise InvalidInput(f"it holds a value that is none: {name} of {kind.__name__}")
    return kind(**own)


def _fits(value: Any, declared: Any) -> bool:
    origin, inner = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == get_args(inner[1])[0]
    if origin is list or (origin is tuple and inner[1:] == (Ellipsis,)):
        return isinstance(value, origin) and all(_fits(v, inner[0]) for v in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if declared in (int, float):
        whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST
        return whole or (declared is float and isinstance(value, float))
    return isinstance(value, declared)


def _fields(value: Any) -> dict[str, Any]:
    """Its fields by name; what it derives from others is made anew."""
    if hasattr(value, "_asdict"):
        return {name: getattr(value, name) for name in value._fields}
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if "derived" not in f.metadata}


def _field_parts(field: RandomField) -> dict[str, Any]:
    return {
        "states": [tuple(s) for s in field.states],
        "blocks": list(field.blocks),
        "names": list(field.names),
        "parameter_names": list(field.parameter_names),
        "groups": list(field.groups),
        "hidden": list(field.hidden),
        "columns": list(field.columns),
    }


def _field_of(own: dict[str, Any]) -> RandomField:
    """A field from a file, checked: blocks name variables and parameters that are there, tables have their shapes."""
    n, F = len(own["names"]), len(own["parameter_names"])
    words = [*own["names"], *own["parameter_names"], *own["groups"]]
    states = [as_states(s if isinstance(s, tuple) else (), "a variable") for s in own["states"]]
    sizes = np.array([len(s) for s in states], dtype=np.int64)
    blocks = own["blocks"]
    if len(sizes) != n or len(own["groups"]) != F or not all(isinstance(b, FactorBlock) for b in blocks):
        raise InvalidInput("its field is not whole")
    if not all(isinstance(word, str) for word in words) or len(set(own["names"])) != n:
        raise InvalidInput("its field has a name that is none")
    for block in blocks:
        _check_block(block, sizes, F)
    entries = float(sizes.sum()) + sum(float(len(b.scopes)) * b.features.size for b in blocks)
    memory.require(
        Cost(entries, 48 * entries, f"{entries:.3g} entries of tables"), "its field", "Read it where there is more."
    )
    made = RandomField.from_blocks(states, blocks, own["names"], own["parameter_names"], own["groups"])
    made.columns = _columns_of(own.get("columns", []), n, len(own["hidden"]))
    return made.with_hidden(own["hidden"]) if own["hidden"] else made


def _columns_of(columns: Any, n: int, hidden: int) -> tuple[str, ...]:
    """What tables call the variables; files before 0.2 do not say."""
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise InvalidInput("its field has a column's name that is none")
    if len(columns) not in (0, n, n - hidden) or len(set(columns)) != len(columns):
        raise InvalidInput("its field's columns are not its variables")
    return tuple(columns)


def _check_block(block: FactorBlock, sizes: IntArray, F: int) -> None:
    scopes, parameters, shape = block.scopes, block.parameters, block.features.shape[1:]
    inside = scopes.ndim == 2 and (scopes >= 0).all() and (scopes < len(sizes)).all()
    known = parameters.shape == (len(scopes), len(block.features)) and (parameters >= 0).all()
    if not inside or not known or (parameters >= F).any() or len(shape) != scopes.shape[1]:
        raise InvalidInput("its field has a factor that does not fit")
    if (np.diff(scopes, axis=1) <= 0).any() or sorted(block.axes) != list(range(len(shape))):
        raise InvalidInput("its field has a factor whose variables are not in order")
    if not (sizes[scopes] == np.array(shape, dtype=np.int64)).all() or not np.isfinite(block.features).all():
        raise InvalidInput("its field has a table of another shape than its variables")
    fixed = block.log_table
    if fixed is not None and (fixed.shape != shape or not (fixed < np.inf).all()):
        raise InvalidInput("its field has a fixed table of another shape than its variables")


def _crf_of(own: dict[str, Any]) -> CRF:
    """A conditional field from a file; what it makes of its labels must fit in memory."""
    labels, latent = own["labels"], own.get("latent", 1)
    names = [own["inputs"], own.get("edge_inputs") or []]
    if not isinstance(labels, list) or not all(isinstance(n, list) for n in names) or not isinstance(latent, int):
        raise InvalidInput("its field is not whole")
    if not all(isinstance(name, str) for some in names for name in some):
        raise InvalidInput("its field has a name that is none")
    K = float(len(labels)) * min(max(latent, 1), 10**9)
    size = K**4 if own.get("symmetric") else K**2
    memory.require(Cost(size, 8 * size, f"tables of {K:.3g} labels"), "its field", "Read it where there is more.")
    if own.get("seen") is not None:
        seen = own["seen"]
        whole = isinstance(seen, tuple) and len(seen) == 3 and all(isinstance(part, np.ndarray) for part in seen)
        if not whole or not all(part.dtype == np.int64 and part.ndim == 1 and len(part) for part in seen[:1]):
            raise InvalidInput("its field is not whole")
        own = {**own, "seen": Seen(*(part.astype(np.int64) for part in seen))}
    return CRF(**own)


def _crf_parts(crf: CRF) -> dict[str, Any]:
    latent = len(crf.labels) // max(len(crf.visible), 1)
    return {
        "labels": list(crf.visible),
        "inputs": list(crf.inputs),
        "edge_inputs": None if crf.constant_edges else list(crf.edge_inputs),
        "node_tables": None if crf.plain_nodes else crf.node_tables,
        "edge_tables": None if crf.plain_edges or crf.symmetric else crf.edge_tables,
        "symmetric": crf.symmetric,
        "latent": latent,
        **({} if crf.seen is None else {"seen": tuple(crf.seen)}),
    }
