"""Unit tests need neither ROS nor torch: importing one, in a test or in what it calls, fails."""

import sys
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

import pytest

BLOCKED = {"launch", "ray", "rclpy", "torch"}


class _Blocker(MetaPathFinder):
    def find_spec(self, fullname, path=None, target=None):
        top = fullname.partition(".")[0]
        if top in BLOCKED or top.endswith("_msgs"):
            raise ModuleNotFoundError(f"{fullname} is blocked in tests/unit", name=fullname)


@contextmanager
def _blocked():
    blocker = _Blocker()
    sys.meta_path.insert(0, blocker)
    try:
        yield
    finally:
        sys.meta_path.remove(blocker)


# Both hooks act on this folder only, so the other folders' tests can share the process.
@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    with _blocked():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    with _blocked():
        return (yield)
