"""Lines of the standard library as labelled sequences."""

import numpy as np

from bayesfield.experiments.paper.lines import FEATURES, line_features, line_labels, standard_library

SOURCE = '''"""A module.

Second line.
"""
import os

x = "no docstring"


def f(a):
    """One line."""
    return os.getcwd() + """not
    alone"""
'''


def test_labels_are_those_of_strings_that_stand_alone():
    found = line_labels(SOURCE)
    marked = [k for k, label in enumerate(found) if label == "docstring"]
    assert marked == [0, 1, 2, 3, 10]
    assert len(found) == len(SOURCE.splitlines())


def test_features_by_name():
    lines = ["", "    Returns 3 things.", "x = f(1)"]
    table = line_features(lines)
    assert table.shape == (3, 24) == (3, len(FEATURES))
    named = [{name for name, value in zip(FEATURES, row, strict=True) if value} for row in table]
    assert named[0] == {"blank"}
    assert {"previous-is-blank", "indented-1-to-4", "ends-with-period", "begins-with-capital"} <= named[1]
    assert {"contains-assignment", "contains-call"} <= named[2]
    assert "previous-is-blank" not in named[2]
    assert line_features([]).shape == (0, 24)


def test_the_standard_library_has_enough():
    files = standard_library(20, 100)
    assert len({f.name for f in files}) == 20
    for file in files:
        assert file.features.shape == (len(file.labels), 24)
        assert 0.1 <= np.mean([label == "docstring" for label in file.labels]) <= 0.9
    again = standard_library(20, 100)
    assert [f.name for f in files] == [f.name for f in again]
