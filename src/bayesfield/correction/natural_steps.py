"""What natural-gradient steps need: draws in orthogonal frames, a rate that knows overshooting from noise, lengths."""

import numpy as np
from scipy import linalg

from bayesfield.learning.search.progress import Iteration, Progress
from bayesfield.types import FloatArray

MAX_STEPS = 40
MAX_DIRECTIONS = 160  # orthogonal directions in a frame
MIN_DIRECTIONS = 64  # directions in a block: several frames where there are few parameters
CURVATURES = 24  # directions at which the curvature, which costs most and moves least, is averaged
_LEAST_RATE = 0.1  # ρ at last where steps overshoot
_RECOVERY = 1.2  # growth of ρ with every step that goes on in the direction of the one before
_NOISY = 2.0  # times what noise alone takes back of the step before, on average


class Rate:
    """ρ, halved whenever a step turns back on the one before, for that has overshot; else it recovers.

    Noise turns back, too: after a whole step with noise ε the next one takes −ε back. What noise explains is no reason
    to take shorter steps: they would stop wherever they are.
    """

    def __init__(self, value: float, least: float = _LEAST_RATE) -> None:
        self.value, self._most, self._least, self._last = value, value, least, np.zeros(1)

    def after(self, step: FloatArray, noise: float = 0.0) -> None:
        """step: in posterior sd. noise: the root mean square of its error, in the same units."""
        turn = float(np.mean(step * self._last)) if len(step) else 0.0
        if turn < -_NOISY * noise**2:
            self.value = max(self.value / 2.0, self._least)
        elif turn > 0.0:
            self.value = min(_RECOVERY * self.value, self._most)
        self._last = step


def block(size: int, most: int, least: int = MIN_DIRECTIONS) -> tuple[int, int]:
    """Directions in a frame, at most the parameters, and frames in a block of draws."""
    count = min(size, most)
    return count, -(-least // max(count, 1))


def two_blocks(size: int, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    """Draws of two blocks, one below the other; each stands for itself and its mirror image."""
    return np.concatenate([orthogonal_draws(size, *shape, rng) for _ in range(2)])


def orthogonal_draws(size: int, count: int, frames: int, rng: np.random.Generator) -> FloatArray:
    """(frames · count, size): orthogonal frames with the lengths of standard normal vectors, scaled to their mean."""
    bases = [linalg.qr(rng.standard_normal((size, count)), mode="economic")[0].T for _ in range(frames)]
    lengths = np.sqrt(rng.chisquare(max(size, 1), frames * count))
    lengths *= np.sqrt(size / np.mean(lengths**2)) if size else 1.0
    result: FloatArray = np.concatenate(bases) * lengths[:, None]
    return result


def longest(step: FloatArray) -> float:
    return float(np.abs(step).max(initial=0.0))


def root_mean_square(step: FloatArray) -> float:
    return float(np.sqrt(np.mean(step**2))) if len(step) else 0.0


def standard_error(estimates: FloatArray, sd: FloatArray) -> float:
    """Of the mean of (k, F) estimates, root mean square in posterior sd."""
    return root_mean_square(estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)) / sd)


def tell(progress: Progress, step: int, distance: float, rate: float) -> None:
    progress.tell(Iteration(step, np.nan, np.nan, distance, rate))
