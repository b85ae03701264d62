"""Numbers and names as the page words them."""

import math
from typing import Any

_LONGEST = 300  # characters of a name


def number(value: float | None) -> str:
    """Three decimals, or an exponent where these would say nothing; page.js has the same rule."""
    if value is None or not math.isfinite(value):
        return "–"
    if value and not 5e-4 <= abs(value) < 1e5:
        return f"{value:.2e}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}"


def chance(value: float | None) -> str:
    """A probability; beside 0 and 1 it says only on which side."""
    if value is not None and value < 0.001:
        return "< 0.001"
    return "> 0.999" if value is not None and value > 0.999 else number(value)


def percent(level: float) -> str:
    return f"{100 * level:g} %"


def count(how_many: int, thing: str) -> str:
    """ "1 variable", "1,200 variables"."""
    return f"{how_many:,} {thing}{'' if how_many == 1 else 's'}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def short(name: str) -> str:
    """A name of bearable length."""
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def finite(value: Any) -> float | None:
    """A number to seven digits, as JSON can have it: None for what is not finite."""
    known = float(value)
    return float(f"{known:.7g}") if math.isfinite(known) else None
