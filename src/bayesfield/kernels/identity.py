"""How alike the rows of a table of letters are."""

import numpy as np

from bayesfield.kernels.jit import jit
from bayesfield.types import IntArray


@jit
def count_alike(codes: np.ndarray, first: int, step: int, needed: int, counts: IntArray) -> None:
    """Add to counts, (N,), the pairs of rows that agree in at least ``needed`` columns; rows first, first + step, ….

    codes: (N, L) int8. A pair i < j is counted at its smaller row, for both.
    """
    N, L = codes.shape
    for i in range(first, N, step):
        a = codes[i]
        for j in range(i + 1, N):
            b = codes[j]
            same = np.int32(0)
            for k in range(L):
                same += np.int32(a[k] == b[k])
            if same >= needed:
                counts[i] += 1
                counts[j] += 1
