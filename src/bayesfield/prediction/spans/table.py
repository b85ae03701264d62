"""Spans as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.prediction.spans.predict import Span


def span_table(spans: Sequence[Sequence[Span]], words: Sequence[Sequence[Any]] | None = None) -> pd.DataFrame:
    """A row for each span: sequence, first, end, label, probability; and its text, where words of all sequences are
    given."""
    rows = [(s, *span) for s, of_sequence in enumerate(spans) for span in of_sequence]
    table = pd.DataFrame(rows, columns=["sequence", "first", "end", "label", "probability"])
    if words is None:
        return table
    if len(words) != len(spans):
        raise InvalidInput(f"words are of the same sequences as spans; got {len(words)} and {len(spans)} of them")
    short = next((s for s, first, end, *_ in rows if end > len(words[s])), None)
    if short is not None:
        raise InvalidInput(f"words[{short}] has {len(words[short])} words, and a span that ends later")
    table["words"] = [" ".join(str(word) for word in words[s][first:end]) for s, first, end, *_ in rows]
    return table
