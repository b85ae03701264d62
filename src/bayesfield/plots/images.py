"""Pictures of a fitted lattice: the image, the map of p(site | rest), and images that the fit would give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from bayesfield.types import FloatArray, InvalidInput


def image_fit(image: Any, probabilities: FloatArray, simulated: Sequence[Any]) -> Figure:
    """Panels side by side. image: (rows, columns) states. probabilities: (rows, columns), of the second state, or
    (rows, columns, K), of which the largest is shown. simulated: images like the first. Sites that are missing or
    outside the mask stay white."""
    shape = np.shape(image)
    if len(shape) != 2 or np.shape(probabilities)[:2] != shape:
        raise InvalidInput(
            f"an image and its map have the same rows and columns; got {shape}, {np.shape(probabilities)}"
        )
    levels = sorted({v for one in (image, *simulated) for v in np.ravel(one).tolist() if v is not None and v == v})
    number = {v: k for k, v in enumerate(levels)}
    states = [np.array([[number.get(v, np.nan) for v in row] for row in np.asarray(one).tolist()], float)
              for one in (image, *simulated)]  # fmt: skip
    several = np.ndim(probabilities) == 3
    chance = np.max(probabilities, axis=2) if several else probabilities
    figure, axes = plt.subplots(1, 2 + len(simulated), figsize=(2.2 * (2 + len(simulated)), 2.5), layout="constrained")
    titles = ["image", "largest p(site | rest)" if several else f"p(site = {levels[-1]} | rest)"]
    titles += [f"simulated {k + 1}" for k in range(len(simulated))]
    for one, picture, title in zip(axes, [states[0], chance, *states[1:]], titles, strict=True):
        top = 1.0 if picture is chance else max(len(levels) - 1, 1)
        shown = one.imshow(np.asarray(picture, float), cmap="viridis" if picture is chance else "gray_r", vmin=0.0,
                           vmax=top, interpolation="nearest")  # fmt: skip
        one.set(xticks=[], yticks=[])
        one.set_title(title, fontsize=9)
        if picture is chance:
            figure.colorbar(shown, ax=one, shrink=0.7)
    return figure
