"""libDAI's .fg files, for tests only: number of factors; for each: size, labels, cardinalities, non-zeros, entries."""

import numpy as np

import bayesfield as bf


def read_fg(path):
    lines = [line.split("#")[0] for line in path.read_text().splitlines()]
    words = iter(" ".join(lines).split())

    def number():
        return int(next(words))

    cardinality, factors = {}, []
    for _ in range(number()):
        d = number()
        labels = [number() for _ in range(d)]
        sizes = [number() for _ in range(d)]
        cardinality.update(zip(labels, sizes, strict=True))
        flat = np.zeros(int(np.prod(sizes)))
        for _ in range(number()):
            index = number()
            flat[index] = float(next(words))
        table = flat.reshape(sizes[::-1]).T if d else flat[0]  # libDAI's first label runs fastest
        factors.append(bf.Factor.from_potential([f"x{v}" for v in labels], table))
    return bf.RandomField({f"x{v}": cardinality[v] for v in sorted(cardinality)}, factors)
