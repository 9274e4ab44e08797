"""What all tests of the Python package share.

The tests run against the package of a build tree, which has the oracle beside it:

    PYTHONPATH=build/release/python build/venv/bin/python -m pytest tests/python

Where the package is installed instead, PREFIX_ROUTER_ORACLE says where the oracle is; without it
the tests that need the oracle are skipped.
"""

import os
import pathlib
import signal

import hypothesis
import hypothesis.configuration
import pytest

import prefixrouter

hypothesis.configuration.set_hypothesis_home_dir("build/hypothesis")
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell starts what runs in its background with Ctrl-C ignored, and so it would be in the programs
# that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class ManualClock:
    """A clock that a test sets, in nanoseconds."""

    def __init__(self):
        self.nanos = 0

    def __call__(self):
        return self.nanos

    def advance(self, seconds):
        self.nanos += int(seconds * 1e9)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def router(clock):
    """A router with fixed seeds and the instances "a" and "b"."""
    router = prefixrouter.PrefixRouter(key_seed=1, random_seed=2, clock=clock)
    router.add_instance("a")
    router.add_instance("b")
    return router


@pytest.fixture(scope="session")
def oracle_program():
    """The program prefix_router_python_oracle."""
    beside = pathlib.Path(prefixrouter.__file__).parent.parent / "prefix_router_python_oracle"
    path = pathlib.Path(os.environ.get("PREFIX_ROUTER_ORACLE", beside))
    if not path.exists():
        pytest.skip(f"there is no oracle at {path}")
    return path


@pytest.fixture(scope="session")
def simulate_program():
    """The program prefix-router-simulate."""
    built = pathlib.Path(prefixrouter.__file__).parent.parent.parent
    beside = built / "benchmarks" / "simulate" / "prefix-router-simulate"
    path = pathlib.Path(os.environ.get("PREFIX_ROUTER_SIMULATE", beside))
    if not path.exists():
        pytest.skip(f"there is no program at {path}")
    return path
