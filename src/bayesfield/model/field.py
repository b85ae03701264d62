"""The random field p(x|λ) = exp(θ₀(x) + λᵀf(x)) / Z(λ), equation (1): its variables, factors, features and ties.

A field keeps its factors in blocks that share their tables, so that a lattice of a million variables is two blocks
and not three million objects.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesfield import memory
from bayesfield.model.states import decode, encode
from bayesfield.tabular import cells_of, columns_named
from bayesfield.types import LARGEST, Cost, FloatArray, IntArray, InvalidInput

States = tuple[Hashable, ...]
_STATE = 150.0  # bytes for a state: a number of its own, its places in a tuple and in a set


@dataclass(frozen=True)
class Variable:
    """A discrete variable: its name and its states, in order. ``states`` may be a number: then 0, 1, …

    hidden: whether no case observes it.
    """

    name: str
    states: States
    hidden: bool

    def __init__(self, name: str, states: int | Sequence[Hashable] = 2, hidden: bool = False) -> None:
        object.__setattr__(self, "name", str(name))
        object.__setattr__(self, "states", as_states(states, f"variable {name!r}"))
        object.__setattr__(self, "hidden", bool(hidden))


@dataclass(frozen=True, eq=False)
class Factor:
    """A term of the energy over some variables: log_table + Σ_k λ_k · features[k].

    variables: names of its scope. features: for each parameter's name a table over the scope's states, in the scope's
    order; factors that name the same parameter are tied. log_table: a fixed term; −∞ forbids a state.
    """

    variables: tuple[str, ...]
    features: Mapping[str, ArrayLike]
    log_table: ArrayLike | None

    def __init__(
        self,
        variables: str | Sequence[str],
        features: Mapping[str, ArrayLike] | None = None,
        log_table: ArrayLike | None = None,
    ) -> None:
        object.__setattr__(self, "variables", (variables,) if isinstance(variables, str) else tuple(variables))
        object.__setattr__(self, "features", dict(features or {}))
        object.__setattr__(self, "log_table", log_table)

    @classmethod
    def from_potential(cls, variables: Sequence[str], potential: ArrayLike) -> Factor:
        """A fixed factor from a table of non-negative potentials."""
        table = np.asarray(potential, dtype=np.float64)
        if np.isnan(table).any() or (table < 0).any():
            raise InvalidInput(f"the potentials of factor {tuple(variables)} must be ≥ 0; got {table.min()}")
        with np.errstate(divide="ignore"):
            return cls(tuple(variables), log_table=np.log(table))


class FactorBlock(NamedTuple):
    """m factors of d variables that share their tables.

    scopes: (m, d) variables, ascending in each row. features: (k, *cardinalities) tables. parameters: (m, k) which
    parameter multiplies each. log_table: (*cardinalities) or None. axes: position of each canonical axis in the user's
    own order of the scope.
    """

    scopes: IntArray
    features: FloatArray
    parameters: IntArray
    log_table: FloatArray | None
    axes: tuple[int, ...]


class RandomField:
    """A discrete random field: ``RandomField(variables, factors)``, or one of the builders.

    variables: Variable objects, or a mapping from name to states (a number or labels). factors: Factor objects. The
    parameters are those that the factors name, in the order of first appearance. groups: optional, from a parameter's
    name to the name of its group, for priors by group. columns: what the variables are called in tables, where a table
    has told a field without names of its own.
    """

    columns: tuple[str, ...] = ()

    def __init__(
        self,
        variables: Sequence[Variable] | Mapping[str, int | Sequence[Hashable]],
        factors: Sequence[Factor] = (),
        groups: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(variables, Mapping):
            variables = [Variable(name, states) for name, states in variables.items()]
        if not all(isinstance(v, Variable) for v in variables):
            raise InvalidInput("variables are bf.Variable objects, or a mapping from names to states")
        if not all(isinstance(f, Factor) for f in factors):
            raise InvalidInput("factors are bf.Factor objects")
        self._names: Sequence[str] = [v.name for v in variables]
        self._states: list[States] = [v.states for v in variables]
        self.hidden: tuple[int, ...] = tuple(i for i, v in enumerate(variables) if v.hidden)
        position = positions(self._names)
        parameters: dict[str, int] = {}
        self.blocks: list[FactorBlock] = [_block_of(f, position, self._states, parameters) for f in factors]
        self.cardinalities = _sizes(self._states)
        self._parameter_names: Sequence[str] = list(parameters)
        self.n_parameters = len(parameters)
        wanted = groups or {}
        strange = [name for name in wanted if name not in parameters]
        if strange:
            raise InvalidInput(f"groups names {strange[0]!r}, which is not a parameter of this field")
        self.groups: Sequence[str] = [wanted.get(name, "parameters") for name in parameters]

    @classmethod
    def from_blocks(
        cls,
        states: Sequence[States],
        blocks: Sequence[FactorBlock],
        names: Sequence[str],
        parameter_names: Sequence[str],
        groups: Sequence[str],
    ) -> RandomField:
        """What the builders call: blocks as they are, names possibly lazy."""
        if any(not (np.abs(block.features) <= LARGEST).all() for block in blocks):
            raise InvalidInput(f"features of states go up to ±{LARGEST:g}; recode the states to smaller numbers")
        self = cls.__new__(cls)
        self._names = names
        self._states = list(states)
        self.blocks = list(blocks)
        self.cardinalities = _sizes(states)
        self._parameter_names = parameter_names
        self.n_parameters = len(parameter_names)
        self.groups = groups
        self.hidden = ()
        return self

    def relabelled(self, states: Sequence[Sequence[Hashable]]) -> RandomField:
        """The same field with other names for the states, a list for each variable; tables stay as they are."""
        own = [as_states(given, f"variable {name!r}") for name, given in zip(self.names, states, strict=True)]
        for name, old, new in zip(self.names, self.states, own, strict=True):
            if len(old) != len(new):
                raise InvalidInput(f"variable {name!r} has {len(old)} states; got {len(new)} names: {new}")
        result = copy.copy(self)
        result._states = own
        return result

    def with_hidden(self, variables: Iterable[str | int]) -> RandomField:
        """The same field, with these variables hidden in all cases: by name, or by number, from 0."""
        numbers = sorted({self.number(v) if isinstance(v, str) else self._at(v) for v in variables})
        result = copy.copy(self)
        result.hidden = tuple(numbers)
        return result

    # --- what is there ------------------------------------------------------------------------------------------

    @property
    def n_variables(self) -> int:
        return len(self._states)

    @property
    def states(self) -> Sequence[States]:
        """The states of every variable."""
        return self._states

    @cached_property
    def names(self) -> list[str]:
        """Names of the variables."""
        return list(self._names)

    @cached_property
    def parameter_names(self) -> list[str]:
        return list(self._parameter_names)

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Pairs of variables that share a factor: i < j, sorted."""
        pairs = [
            block.scopes[:, [s, t]] for block in self.blocks for t in range(block.scopes.shape[1]) for s in range(t)
        ]
        if not pairs:
            return []
        keys = np.unique(np.concatenate([p[:, 0] * self.n_variables + p[:, 1] for p in pairs]))
        return list(zip((keys // self.n_variables).tolist(), (keys % self.n_variables).tolist(), strict=True))

    @property
    def n_factors(self) -> int:
        return sum(len(block.scopes) for block in self.blocks)

    @cached_property
    def factors(self) -> list[Factor]:
        """Every factor, in order, as an object of its own."""
        return list(self._each_factor())

    def _each_factor(self) -> Iterator[Factor]:
        for block in self.blocks:
            tables = {k: _user_axes(block.features[k], block.axes) for k in range(len(block.features))}
            fixed = None if block.log_table is None else _user_axes(block.log_table, block.axes)
            for scope, parameters in zip(block.scopes, block.parameters, strict=True):
                variables = tuple(self.names[scope[block.axes.index(a)]] for a in range(len(scope)))
                features = {self.parameter_names[p]: tables[k] for k, p in enumerate(parameters)}
                yield Factor(variables, features, fixed)

    # --- data ---------------------------------------------------------------------------------------------------

    def number(self, variable: str | int) -> int:
        """A variable's number, from its name or itself.

        Names win: where variables are called 2, 1 and 0, as graphs of other tools have them, 2 is the first.
        """
        place = self._places.get(str(variable))
        return self._at(variable) if place is None else place

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._names)}

    def _at(self, variable: Any) -> int:
        """A number, if there is such a variable."""
        if isinstance(variable, int | np.integer) and 0 <= variable < self.n_variables:
            return int(variable)
        raise InvalidInput(
            f"the field has no variable {variable!r}; it has {self.n_variables}, such as {self.names[:3]}"
        )

    def encode(self, X: Any, holes: bool = False) -> IntArray:
        """(N, n) states' own values, array or DataFrame, to positions in the states; refuses what does not fit.

        holes: whether cells may be missing (NaN, None, pd.NA) or hidden; they are −1. Columns of hidden variables may
        then be left out.
        """
        plain = type(X) is np.ndarray and X.ndim == 2 and X.dtype.names is None and X.shape[1] == len(self._states)
        if plain:
            return encode(X, self._names, self._states, holes)
        return encode(*cells_of(X, self._names, self.hidden if holes else (), self.columns), self._states, holes)

    def naming(self, X: Any) -> RandomField:
        """This field; one that knows X's columns where it has default names, x0, x1, …, and X is a table with others.

        Its further tables are then matched by these names. The parameters keep theirs.
        """
        columns = () if self.columns else columns_named(X, self._names, self.hidden)
        if not columns:
            return self
        result = copy.copy(self)
        result.columns = columns
        return result

    def decode(self, codes: IntArray) -> Any:
        """The inverse of ``encode``: (N, n) array of the states' own values."""
        return decode(codes, self._states)

    def features(self, X: Any) -> FloatArray:
        """f(x) for every case: (N, F)."""
        codes = self.encode(X)
        result = np.zeros((len(codes), self.n_parameters))
        for block in self.blocks:
            index = block_entries(block, codes)
            for k, table in enumerate(block.features):
                np.add.at(result.T, block.parameters[:, k], table.ravel()[index].T)
        return result

    def __repr__(self) -> str:
        return f"RandomField({self.n_variables} variables, {self.n_factors} factors, {self.n_parameters} parameters)"


def _sizes(states: Sequence[States]) -> IntArray:
    """(n,) how many states every variable has."""
    return np.fromiter(map(len, states), dtype=np.int64, count=len(states))


def block_entries(block: FactorBlock, codes: IntArray) -> IntArray:
    """(N, m) position in the block's table that each case takes in each factor."""
    index = np.zeros((len(codes), len(block.scopes)), dtype=np.int64)
    for axis in range(block.scopes.shape[1]):
        index = index * block_shape(block)[axis] + codes[:, block.scopes[:, axis]]
    return index


def block_shape(block: FactorBlock) -> tuple[int, ...]:
    """Cardinalities of the block's tables."""
    return block.features.shape[1:]


def as_states(states: int | Sequence[Hashable], who: str) -> States:
    """A number of states, or labels, as a tuple of distinct labels."""
    if isinstance(states, int | np.integer):
        needed = Cost(float(states), _STATE * float(states), f"{states:,} states")
        memory.require(needed, who, "Give it fewer states: cut numbers into ranges, or put rare states together.")
    result = tuple(range(states)) if isinstance(states, int | np.integer) else tuple(states)
    if not result:
        raise InvalidInput(f"{who} needs at least one state; got none")
    if len(set(result)) != len(result):
        raise InvalidInput(f"the states of {who} must differ from one another; got {result}")
    return result


def positions(names: Sequence[str]) -> dict[str, int]:
    """Where each name stands; refuses a name given twice."""
    position = {name: i for i, name in enumerate(names)}
    if len(position) != len(names):
        twice = next(name for i, name in enumerate(names) if position[name] != i)
        raise InvalidInput(f"every variable needs a name of its own; {twice!r} is given twice")
    return position


def _block_of(
    factor: Factor, position: dict[str, int], states: Sequence[States], parameters: dict[str, int]
) -> FactorBlock:
    """One factor as a block, its axes sorted by variable; new parameters are numbered as they come."""
    names = factor.variables
    unknown = [name for name in names if name not in position]
    if unknown:
        raise InvalidInput(f"factor {names} names {unknown[0]!r}, which is not a variable of this field")
    if len(set(names)) != len(names):
        raise InvalidInput(f"factor {names} names a variable twice; each may stand once in a scope")
    if not names and factor.features:
        raise InvalidInput("a factor without variables is a constant: it may have a log_table but no features")
    scope = [position[name] for name in names]
    order = sorted(range(len(scope)), key=scope.__getitem__)
    shape = tuple(len(states[i]) for i in scope)
    tables = [_table(t, shape, names, f"feature {p!r}").transpose(order) for p, t in factor.features.items()]
    if any(not (np.abs(t) <= LARGEST).all() for t in tables):
        raise InvalidInput(
            f"factor {names} has a feature that is not finite, or beyond ±{LARGEST:g}; put −inf in log_table to forbid "
            "a state, and scale features to about 1"
        )
    fixed = None
    if factor.log_table is not None:
        fixed = _table(factor.log_table, shape, names, "log_table").transpose(order)
        if np.isnan(fixed).any() or np.isposinf(fixed).any():
            raise InvalidInput(
                f"the log_table of factor {names} may hold finite numbers and −inf; it holds NaN or +inf"
            )
        refuse_beyond(fixed, f"the log_table of factor {names}")
    sorted_shape = tuple(shape[a] for a in order)
    return FactorBlock(
        scopes=np.array([[scope[a] for a in order]], dtype=np.int64).reshape(1, len(scope)),
        features=np.array(tables).reshape(len(tables), *sorted_shape),
        parameters=np.array(
            [[parameters.setdefault(str(p), len(parameters)) for p in factor.features]], dtype=np.int64
        ),
        log_table=fixed,
        axes=tuple(order),
    )


def refuse_beyond(log_potentials: FloatArray, what: str) -> None:
    """Refuse finite log-potentials that would drown all others (types.LARGEST)."""
    if (np.abs(log_potentials) <= LARGEST).all():
        return
    beyond = log_potentials[np.isfinite(log_potentials) & (np.abs(log_potentials) > LARGEST)]
    if len(beyond):
        raise InvalidInput(
            f"{what} holds {beyond[0]:g}; finite log-potentials go up to ±{LARGEST:g}, for in sums with larger ones "
            "all others are lost to rounding. Write −inf for a state that cannot be (-np.inf, or a potential of 0)"
        )


def _table(values: ArrayLike, shape: tuple[int, ...], names: tuple[str, ...], what: str) -> FloatArray:
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} of factor {names} must be a table of numbers of shape {shape}") from None
    if table.shape != shape:
        raise InvalidInput(
            f"{what} of factor {names} needs shape {shape}, one axis for each variable; got {table.shape}"
        )
    return table


def _user_axes(table: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    """A table with canonical (sorted) axes, back in the user's order."""
    result: FloatArray = table.transpose(np.argsort(axes)) if axes else table
    return result
