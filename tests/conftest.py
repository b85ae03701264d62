"""Where the real data is, if it is anywhere."""

import os
from pathlib import Path

import matplotlib as mpl
import pytest
from hypothesis import HealthCheck, settings

mpl.use("Agg")
settings.register_profile("bayesfield", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("bayesfield")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; tests that need it are skipped where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("BAYESFIELD_DATA", default))
    if not folder.is_dir():
        pytest.skip("no real data here: set BAYESFIELD_DATA to its folder")
    return folder
