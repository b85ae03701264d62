"""The small drawings of the page that need no script: interval bars, and the course of the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.report.wording import count

if TYPE_CHECKING:
    from bayesfield.learning.search.optimum import Iteration

_BAR, _HALF = 120.0, 8.0  # width and half height of a bar
_WIDE, _TALL, _LEFT, _FOOT = 520.0, 220.0, 52.0, 34.0
_POINTS = 400  # of a line, at most
_FLOOR = 1e-16


def bar(mean: float, lower: float, upper: float, limit: float) -> str:
    """An interval about zero on a scale from −limit to limit; page.js draws the same."""
    if not np.isfinite([mean, lower, upper]).all():
        return ""
    side = "pos" if lower > 0 else "neg" if upper < 0 else "open"
    left, middle, right = (_across(v, limit) for v in (lower, mean, upper))
    return (
        f'<svg class="bar {side}" viewBox="0 0 {_BAR:g} {2 * _HALF:g}" aria-hidden="true">'
        f'<path class="zero" d="M{_BAR / 2:g} 0V{2 * _HALF:g}"/><path class="range" d="M{left:g} {_HALF:g}H{right:g}"/>'
        f'<circle cx="{middle:g}" cy="{_HALF:g}" r="3.2"/></svg>'
    )


def _across(value: float, limit: float) -> float:
    return round(_BAR / 2 * (1 + float(np.clip(value / limit, -1.0, 1.0)) * 0.96), 2)


def convergence(iterations: Sequence[Iteration]) -> str:
    """The gradient's largest entry at every step, on a log scale, with the same in words."""
    steps = np.array([i.number for i in iterations], dtype=np.float64)
    gradient = np.array([i.gradient for i in iterations], dtype=np.float64)
    known = np.isfinite(gradient)
    if not known.any():
        return "<p>No steps of the search were recorded.</p>"
    steps, gradient = steps[known], np.maximum(gradient[known], _FLOOR)
    words = (
        f"In {count(len(steps), 'recorded step')} the largest entry of the gradient went from {gradient[0]:.2g} to "
        f"{gradient[-1]:.2g}."
    )
    return f"<figure>{_line(steps, np.log10(gradient), words)}<figcaption>{words}</figcaption></figure>"


def _line(steps: np.ndarray, height: np.ndarray, words: str) -> str:
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _POINTS)).astype(np.int64))
    low, high = np.floor(height.min()), np.ceil(height.max())
    high = high if high > low else low + 1.0
    x = _LEFT + (_WIDE - _LEFT - 12) * (steps - steps[0]) / max(float(steps[-1] - steps[0]), 1.0)
    y = 10 + (_TALL - _FOOT - 10) * (high - height) / (high - low)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[kept], y[kept], strict=True))
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in zip(x[kept], y[kept], strict=True))
    return (
        f'<svg class="line" viewBox="0 0 {_WIDE:g} {_TALL:g}" role="img" aria-label="{words}">{_scale(low, high)}'
        f'<polyline points="{points}"/>{dots if len(kept) <= 60 else ""}'
        f'<text x="{_LEFT:g}" y="{_TALL - 14:g}">{steps[0]:g}</text>'
        f'<text x="{_WIDE - 12:g}" y="{_TALL - 14:g}" text-anchor="end">{steps[-1]:g}</text>'
        f'<text x="{(_WIDE + _LEFT) / 2:g}" y="{_TALL - 14:g}" text-anchor="middle">step</text></svg>'
    )


def _scale(low: float, high: float) -> str:
    """Lines at powers of ten, some five of them."""
    every = max(1, int(np.ceil((high - low) / 5)))
    marks = []
    for power in range(int(low), int(high) + 1, every):
        at = 10 + (_TALL - _FOOT - 10) * (high - power) / (high - low)
        marks.append(f'<path d="M{_LEFT:g} {at:.1f}H{_WIDE - 12:g}"/>')
        marks.append(f'<text x="{_LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">1e{power:d}</text>')
    return f'<g class="scale">{"".join(marks)}</g>'
