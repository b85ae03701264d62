"""Pictures of fitted lattices: an image beside its map p(site | rest) and simulated ones; hidden labels and doubt."""

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


def labels_and_doubt(image: FloatArray, labels: FloatArray, doubt: FloatArray) -> Figure:
    """Panels side by side, all (rows, columns): values, the likeliest label of every site, and 1 − its probability. NaN
    stays white."""
    if not np.shape(image) == np.shape(labels) == np.shape(doubt) or np.ndim(image) != 2:
        raise InvalidInput(
            f"an image, its labels and their doubt have the same rows and columns; got {np.shape(image)}, "
            f"{np.shape(labels)}, {np.shape(doubt)}"
        )
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 2.9), layout="constrained")
    several = int(np.nanmax(labels)) + 1
    kinds = (("gray", None, None), ("viridis", 0.0, several - 1.0), ("magma", 0.0, 1.0 - 1.0 / several))
    titles = ("image", "likeliest label", "doubt, 1 − p(label)")
    for one, picture, title, (colours, low, high) in zip(axes, (image, labels, doubt), titles, kinds, strict=True):
        shown = one.imshow(picture, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
        one.set(xticks=[], yticks=[])
        one.set_title(title, fontsize=9)
        figure.colorbar(shown, ax=one, shrink=0.7)
    return figure
