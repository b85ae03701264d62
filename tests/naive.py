"""The naive oracle: loops over joint states and factors as the user wrote them. Shares no code with the engines."""

import itertools
import math

import numpy as np

import bayesfield as bf


class Naive:
    """p(x|λ) by brute force, with evidence as {variable number: state number}."""

    def __init__(self, field: bf.RandomField, parameters, evidence=None):
        value = dict(zip(field.parameter_names, parameters, strict=True))
        position = {name: i for i, name in enumerate(field.names)}
        factors = [([position[v] for v in f.variables], f) for f in field.factors]
        ranges = [range(len(s)) if i not in (evidence or {}) else [evidence[i]] for i, s in enumerate(field.states)]
        self.field = field
        self.scopes = [scope for scope, _ in factors]
        self.states = list(itertools.product(*ranges))
        energies = []
        for x in self.states:
            total = 0.0
            for scope, factor in factors:
                at = tuple(x[i] for i in scope)
                if factor.log_table is not None:
                    total += float(np.asarray(factor.log_table)[at])
                total += sum(value[p] * float(np.asarray(t)[at]) for p, t in factor.features.items())
            energies.append(total)
        top = max(energies)
        self.best = top
        self.energies = energies
        if top == -math.inf:
            self.log_z, self.p = -math.inf, None
            return
        weights = [math.exp(e - top) for e in energies]
        self.log_z = top + math.log(math.fsum(weights))
        self.p = np.array(weights) / math.fsum(weights)

    def variables(self):
        result = [np.zeros(len(s)) for s in self.field.states]
        for x, p in zip(self.states, self.p, strict=True):
            for i, state in enumerate(x):
                result[i][state] += p
        return result

    def factors(self):
        result = []
        for scope in self.scopes:
            table = np.zeros([len(self.field.states[i]) for i in scope])
            for x, p in zip(self.states, self.p, strict=True):
                table[tuple(x[i] for i in scope)] += p
            result.append(table)
        return result

    def feature_matrix(self):
        X = self.field.decode(np.array(self.states, dtype=np.int64).reshape(len(self.states), -1))
        return self.field.features(X)

    def mean(self):
        return self.p @ self.feature_matrix()

    def covariance(self):
        f = self.feature_matrix()
        centred = f - self.p @ f
        return centred.T @ (centred * self.p[:, None])


def differences(value, here, step=1e-4):
    """The gradient by central differences of fourth order."""
    unit = step * np.eye(len(here))
    near = [value(here + u) - value(here - u) for u in unit]
    far = [value(here + 2 * u) - value(here - 2 * u) for u in unit]
    return (8 * np.array(near) - np.array(far)) / (12 * step)


def written_out(q, labels, distance):
    """Terms of one and two labels of θᵀs − (Mb)ᵀs + ½ sᵀMs, from the definition: s is a sum of one-hot vectors, each of
    one label or of a pair of labels."""
    labels, (T, K) = np.asarray(labels, dtype=np.int64), q.node.shape
    linear = q.M @ q._mean()
    atoms = [({t}, t * K + labels[t]) for t in range(T)]
    for (i, j), w in zip(q.pairs, q.which, strict=True):
        atoms.append(({int(i), int(j)}, T * K + (w * K + labels[i]) * K + labels[j]))
    steps = apart(q)
    total = q.score(labels) - sum(linear[place] for _, place in atoms)
    for one, a in atoms:
        for other, b in atoms:
            both = sorted(one | other)
            if len(both) == 1 or (len(both) == 2 and steps[both[0], both[1]] <= distance):
                total += 0.5 * q.M[a, b]
    return total


def apart(q):
    """Edges between any two positions, by Floyd and Warshall."""
    T = len(q.node)
    steps = np.where(np.eye(T) > 0, 0.0, np.inf)
    for i, j in q.pairs:
        steps[i, j] = steps[j, i] = 1.0
    for k in range(T):
        steps = np.minimum(steps, steps[:, [k]] + steps[[k], :])
    return steps
