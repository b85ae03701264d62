"""Chains of labels, many of them end to end: log Z, marginals, derivatives, samples, best labellings.

The letters: positions 0 … P−1 of all sequences in one row, sequence s from ptr[s] to ptr[s+1]; K labels; log-potentials
node (P, K) and edge (Q, K, K), with which[t] the table between position t and the next. Few distinct edge tables serve
many edges, so their exponentials are taken once.

Forward: a_t(k) = p(y_t = k | inputs up to t), scaled to sum 1, with c_t the scale. Backward: b_t so that a_t·b_t is the
marginal. v_t(j) = ψ_t(j) b_t(j) / c_t makes the pair marginal a_t(i) M(i, j) v_{t+1}(j), with ψ and M the exponentials.
"""

from typing import NamedTuple

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import FloatArray, IntArray

TINY = 1e-300  # below it 1 / total may be infinite


class ChainArrays(NamedTuple):
    """The structure of the sequences."""

    ptr: IntArray  # (S+1,)
    which: IntArray  # (P,) the edge table between t and t+1; that of a sequence's last position is not used


class Messages(NamedTuple):
    """What the two passes leave; all further questions are answered from it."""

    psi: FloatArray  # (P, K) exp(node − its maximum)
    M: FloatArray  # (Q, K, K) exp(edge − its maximum)
    top: FloatArray  # (Q,) that maximum
    a: FloatArray  # (P, K)
    v: FloatArray  # (P, K)
    b: FloatArray  # (P, K)
    c: FloatArray  # (P,)


@jit
def exponentials(edge: FloatArray, M: FloatArray, top: FloatArray) -> None:
    K = edge.shape[1]
    for q in range(len(edge)):
        top[q] = -np.inf
        for i in range(K):
            for j in range(K):
                top[q] = max(top[q], edge[q, i, j])
        for i in range(K):
            for j in range(K):
                M[q, i, j] = np.exp(edge[q, i, j] - top[q]) if top[q] > -np.inf else 0.0


@jit
def forward(chains: ChainArrays, node: FloatArray, m: Messages, first: int, last: int, log_z: FloatArray) -> None:
    """log Z of the sequences first … last; NaN where plain numbers underflow, −∞ where no labelling is possible.

    Messages of two rows do where log Z is all that is asked for: each position then takes the row of the last but one.
    """
    K, keep = node.shape[1], -1 if len(m.a) >= len(node) else 1  # t & −1 = t, t & 1 = t mod 2
    for s in range(first, last):
        log_z[s] = 0.0
        if K == 2:
            log_z[s] = _forward_two(chains, node, m, chains.ptr[s], chains.ptr[s + 1], keep)
            continue
        for t in range(chains.ptr[s], chains.ptr[s + 1]):
            top = -np.inf
            for k in range(K):
                top = max(top, node[t, k])
            total = 0.0
            a, psi = m.a[t & keep], m.psi[t & keep]
            for k in range(K):
                psi[k] = np.exp(node[t, k] - top)
                a[k] = psi[k]
            log_z[s] += top
            if t > chains.ptr[s]:
                q = chains.which[t - 1]
                _step(m.a[(t - 1) & keep], m.M[q], a)
                log_z[s] += m.top[q]
                for k in range(K):
                    a[k] *= psi[k]
            for k in range(K):
                total += a[k]
            m.c[t & keep] = total
            if not total > TINY:
                log_z[s] = np.nan
                break
            log_z[s] += np.log(total)
            scale = 1.0 / total
            for k in range(K):
                a[k] *= scale


@jit
def _forward_two(chains: ChainArrays, node: FloatArray, m: Messages, begin: int, end: int, keep: int) -> float:
    """log Z of one sequence with two labels: in plain numbers, without loops over labels. keep: as in ``forward``."""
    log_z, scale, a0, a1 = 0.0, 1.0, 1.0, 1.0
    for t in range(begin, end):
        x, y = node[t, 0], node[t, 1]
        top = max(x, y)
        low = np.exp(min(x, y) - top) if x != y else 1.0
        p0, p1 = (1.0, low) if x >= y else (low, 1.0)
        log_z += top
        if t > begin:
            q = chains.which[t - 1]
            log_z += m.top[q]
            b0 = (a0 * m.M[q, 0, 0] + a1 * m.M[q, 1, 0]) * p0
            b1 = (a0 * m.M[q, 0, 1] + a1 * m.M[q, 1, 1]) * p1
        else:
            b0, b1 = p0, p1
        total = b0 + b1
        if not total > TINY:
            return np.nan
        scale *= total
        if not 1e-200 < scale < 1e200:
            log_z, scale = log_z + np.log(scale), 1.0
        inverse = 1.0 / total
        a0, a1 = b0 * inverse, b1 * inverse
        r = t & keep
        m.psi[r, 0], m.psi[r, 1], m.a[r, 0], m.a[r, 1], m.c[r] = p0, p1, a0, a1, total
    return log_z + np.log(scale)


@jit
def _backward_two(
    chains: ChainArrays, m: Messages, begin: int, end: int, marginal: FloatArray, pair: FloatArray
) -> None:
    b0, b1, v0, v1 = 1.0, 1.0, 0.0, 0.0
    for t in range(end - 1, begin - 1, -1):
        a0, a1 = m.a[t, 0], m.a[t, 1]
        if t < end - 1:
            q = chains.which[t]
            b0 = m.M[q, 0, 0] * v0 + m.M[q, 0, 1] * v1
            b1 = m.M[q, 1, 0] * v0 + m.M[q, 1, 1] * v1
            pair[q, 0, 0] += a0 * v0
            pair[q, 0, 1] += a0 * v1
            pair[q, 1, 0] += a1 * v0
            pair[q, 1, 1] += a1 * v1
        scale = 1.0 / m.c[t]
        v0, v1 = m.psi[t, 0] * b0 * scale, m.psi[t, 1] * b1 * scale
        m.b[t, 0], m.b[t, 1], m.v[t, 0], m.v[t, 1] = b0, b1, v0, v1
        marginal[t, 0], marginal[t, 1] = a0 * b0, a1 * b1


@jit
def _step(a: FloatArray, M: FloatArray, out: FloatArray) -> None:
    """out = aᵀM."""
    K = len(a)
    for j in range(K):
        out[j] = 0.0
    for i in range(K):
        w = a[i]
        for j in range(K):
            out[j] += w * M[i, j]


@jit
def backward(
    chains: ChainArrays, m: Messages, first: int, last: int, log_z: FloatArray, marginal: FloatArray, pair: FloatArray
) -> None:
    """Marginals (P, K) of the sequences first … last; adds to pair (Q, K, K) the sums of a_t(i) v_{t+1}(j).

    Times M, once all are summed, these are the expected numbers of transitions. Sequences without log Z are left out.
    """
    K = m.a.shape[1]
    for s in range(first, last):
        if not np.isfinite(log_z[s]):
            continue
        if K == 2:
            _backward_two(chains, m, chains.ptr[s], chains.ptr[s + 1], marginal, pair)
            continue
        end = chains.ptr[s + 1] - 1
        for t in range(end, chains.ptr[s] - 1, -1):
            a, b = m.a[t], m.b[t]
            if t == end:
                for k in range(K):
                    b[k] = 1.0
            else:
                q = chains.which[t]
                v, M, sums = m.v[t + 1], m.M[q], pair[q]
                for i in range(K):
                    total = 0.0
                    for j in range(K):
                        total += M[i, j] * v[j]
                    b[i] = total
                    w = a[i]
                    for j in range(K):
                        sums[i, j] += w * v[j]
            scale = 1.0 / m.c[t]
            for k in range(K):
                marginal[t, k] = a[k] * b[k]
                m.v[t, k] = m.psi[t, k] * b[k] * scale


@jit
def tangent(
    chains: ChainArrays,
    m: Messages,
    first: int,
    last: int,
    node: FloatArray,
    edge: FloatArray,
    moved: FloatArray,
    pair: FloatArray,
) -> None:
    """Derivatives along D directions, node (P, K, D) and edge (Q, K, K, D): of the marginals into moved (P, K, D), and
    of the expected transitions, added to pair (Q, K, K, D).

    With ȧ = d log a (unscaled) and ḃ = d log b: ȧ_{t+1}(j) = ṅ(j) + Σ_i p(i | j, past) (ȧ_t(i) + Ṫ(i, j)), ḃ_t(i) =
    Σ_j p(j | i, future) (Ṫ(i, j) + ṅ(j) + ḃ_{t+1}(j)); a probability's log moves by the sum of its parts minus d log Z.
    """
    K, D = m.a.shape[1], node.shape[2]
    up = np.empty((0, K, D))
    for s in range(first, last):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        if end == begin:
            continue
        if len(up) < end - begin:
            up = np.empty((end - begin, K, D))
        _tangent_forward(chains, m, begin, end, node, edge, up)
        _tangent_backward(chains, m, begin, end, node, edge, up, moved, pair)


@jit
def _tangent_forward(
    chains: ChainArrays, m: Messages, begin: int, end: int, node: FloatArray, edge: FloatArray, up: FloatArray
) -> None:
    K, D = up.shape[1], up.shape[2]
    up[0] = node[begin]
    for t in range(begin + 1, end):
        q, here = chains.which[t - 1], up[t - begin]
        for j in range(K):
            out, total = here[j], 0.0
            for i in range(K):
                total += m.a[t - 1, i] * m.M[q, i, j]
            scale = 1.0 / total if total > TINY else 0.0
            for d in range(D):
                out[d] = node[t, j, d]
            for i in range(K):
                p = m.a[t - 1, i] * m.M[q, i, j] * scale
                before, along = up[t - 1 - begin, i], edge[q, i, j]
                for d in range(D):
                    out[d] += p * (before[d] + along[d])


@jit
def _tangent_backward(
    chains: ChainArrays,
    m: Messages,
    begin: int,
    end: int,
    node: FloatArray,
    edge: FloatArray,
    up: FloatArray,
    moved: FloatArray,
    pair: FloatArray,
) -> None:
    K, D = up.shape[1], up.shape[2]
    down, next_down, total = np.zeros((K, D)), np.zeros((K, D)), np.zeros(D)
    for k in range(K):
        for d in range(D):
            total[d] += m.a[end - 1, k] * up[end - 1 - begin, k, d]  # d log Z: b is 1 at the end
    for t in range(end - 1, begin - 1, -1):
        if t < end - 1:
            q = chains.which[t]
            next_down[:] = down
            for i in range(K):
                out = down[i]
                out[:] = 0.0
                scale = 1.0 / m.b[t, i] if m.b[t, i] > TINY else 0.0
                for j in range(K):
                    weight = m.M[q, i, j] * m.v[t + 1, j]
                    joint, p = m.a[t, i] * weight, weight * scale
                    before, along, other, later = up[t - begin, i], edge[q, i, j], node[t + 1, j], next_down[j]
                    sums = pair[q, i, j]
                    for d in range(D):
                        rest = along[d] + other[d] + later[d]
                        out[d] += p * rest
                        sums[d] += joint * (before[d] + rest - total[d])
        for k in range(K):
            p = m.a[t, k] * m.b[t, k]
            for d in range(D):
                moved[t, k, d] = p * (up[t - begin, k, d] + down[k, d] - total[d])


@jit
def draw(chains: ChainArrays, m: Messages, uniforms: FloatArray, labels: IntArray) -> None:
    """Labellings drawn exactly, last to first, from the forward pass: uniforms and labels (N, P)."""
    K = m.a.shape[1]
    p = np.empty(K)
    for n in range(len(labels)):
        for s in range(len(chains.ptr) - 1):
            for t in range(chains.ptr[s + 1] - 1, chains.ptr[s] - 1, -1):
                total = 0.0
                for k in range(K):
                    p[k] = m.a[t, k]
                    if t < chains.ptr[s + 1] - 1:
                        p[k] *= m.M[chains.which[t], k, labels[n, t + 1]]
                    total += p[k]
                left, label = uniforms[n, t] * total, 0
                while label < K - 1 and (left >= p[label] or p[label] == 0.0):
                    left -= p[label]
                    label += 1
                labels[n, t] = label


@jit
def best(
    chains: ChainArrays, node: FloatArray, edge: FloatArray, count: int, labels: IntArray, scores: FloatArray
) -> None:
    """The ``count`` best labellings of every sequence: labels (count, P), scores (S, count), best first.

    Each label of a position keeps the best partial labellings that end in it, with where they came from. Fewer than
    count labellings leave scores of −∞.
    """
    P, K = node.shape
    score, origin = np.empty((P, K, count)), np.zeros((P, K, count), dtype=np.int64)
    for s in range(len(chains.ptr) - 1):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        for t in range(begin, end):
            for k in range(K):
                own, source = score[t, k], origin[t, k]
                own[:] = -np.inf
                if t == begin:
                    own[0] = node[t, k]
                    continue
                for i in range(K):
                    for r in range(count):
                        value = score[t - 1, i, r] + edge[chains.which[t - 1], i, k] + node[t, k]
                        _insert(own, source, value, i * count + r)
        final, where = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)
        for k in range(K if end > begin else 0):
            for r in range(count):
                _insert(final, where, score[end - 1, k, r], k * count + r)
        if end == begin:
            final[0] = 0.0
        scores[s] = final
        for r in range(count):
            at = where[r]
            for t in range(end - 1, begin - 1, -1):
                labels[r, t] = at // count
                at = origin[t, at // count, at % count]


@jit
def best_one(chains: ChainArrays, node: FloatArray, edge: FloatArray, labels: IntArray, scores: FloatArray) -> None:
    """``best`` with a count of one: labels (P,), scores (S,). A third of its time."""
    P, K = node.shape
    score, now, origin = np.empty(K), np.empty(K), np.zeros((P, K), dtype=np.int64)
    for s in range(len(chains.ptr) - 1):
        begin, end = chains.ptr[s], chains.ptr[s + 1]
        scores[s] = 0.0
        if end == begin:
            continue
        score[:] = node[begin]
        for t in range(begin + 1, end):
            table, source = edge[chains.which[t - 1]], origin[t]
            _largest_sums(score, table, now, source)
            for k in range(K):
                score[k] = now[k] + node[t, k]
        scores[s] = traced(score, origin, begin, end, labels)


@jit
def _largest_sums(score: FloatArray, table: FloatArray, out: FloatArray, source: IntArray) -> None:
    """out[k] = max_i score[i] + table[i, k], and the first i where it is."""
    K = len(score)
    for k in range(K):
        out[k], source[k] = score[0] + table[0, k], 0
    for i in range(1, K):
        for k in range(K):
            value = score[i] + table[i, k]
            better = value > out[k]
            out[k] = value if better else out[k]
            source[k] = i if better else source[k]


@jit
def traced(score: FloatArray, origin: IntArray, begin: int, end: int, labels: IntArray) -> float:
    """The labels of the best end, back from it, and its score."""
    at = 0
    for k in range(len(score)):
        if score[k] > score[at]:
            at = k
    top = score[at]
    for t in range(end - 1, begin - 1, -1):
        labels[t] = at
        at = origin[t, at]
    return top


@jit
def _insert(values: FloatArray, tags: IntArray, value: float, tag: int) -> None:
    """Keep the values descending, dropping the least; of equals the earlier stays ahead."""
    r = len(values) - 1
    if not value > values[r]:
        return
    while r > 0 and value > values[r - 1]:
        values[r], tags[r] = values[r - 1], tags[r - 1]
        r -= 1
    values[r], tags[r] = value, tag
