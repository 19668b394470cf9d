"""Settings for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Small nets on few cores: a second OpenMP thread spins and slows both down.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# No deadline: a busy machine is no fault. In CI the same examples each time.
settings.register_profile("rlinf_ros", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rlinf_ros")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Top folder of the checkout."""
    return Path(__file__).resolve().parent.parent
