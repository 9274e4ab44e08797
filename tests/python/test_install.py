"""The package as users get it: `pip install .`, and a wheel, each in a clean environment.

Run by `pytest -m slow`; the fast tests run against a build tree. PREFIX_ROUTER_SOURCE says where
the project is when the tests run from elsewhere.
"""

import os
import pathlib
import re
import subprocess
import sys
import venv
import zipfile

import pytest

pytestmark = pytest.mark.slow

PROJECT = pathlib.Path(
    os.environ.get("PREFIX_ROUTER_SOURCE", pathlib.Path(__file__).parent.parent.parent)
)
VERSION = re.findall(
    r'VERSION_STRING "(.*)"', (PROJECT / "include/prefixrouter/version.h").read_text()
)[0]

USE = """
import sys, prefixrouter
router = prefixrouter.PrefixRouter()
router.add_instance("a")
assert router.route([1] * 32) == "a"
with router.acquire([1] * 32) as lease:
    assert lease.decision.cached_tokens == 32
result = prefixrouter.simulate(prefixrouter.generate_trace("chat", requests=50))
assert result.summary.requests >= 50
decoder = prefixrouter.KvEventDecoder()
assert len(decoder.decode(prefixrouter.encode_kv_events(prefixrouter.KvEventBatch()))) == 0
with prefixrouter.KvEventSubscriber(router) as subscriber:  # scripts/setup.sh installs libzmq
    assert subscriber.stats().running
assert "numpy" not in sys.modules
print(prefixrouter.__version__, prefixrouter.__file__)
"""


def run(*command, **keywords):
    """Output of a command that must succeed, in an environment without our build tree."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV", "LD_PRELOAD")
    }
    result = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        check=False,
        **keywords,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


class Environment:
    """A virtual environment with nothing in it but pip."""

    def __init__(self, path):
        venv.create(path, with_pip=True)
        self.path = path

    def program(self, name):
        return self.path / "bin" / name

    def pip(self, *arguments):
        return run(
            self.program("python"), "-m", "pip", "--disable-pip-version-check", *arguments
        )

    def check(self, directory):
        """The package works, from another directory than the project's."""
        output = run(self.program("python"), "-I", "-c", USE, cwd=directory)
        version, file = output.split()
        assert version == VERSION
        assert pathlib.Path(file).is_relative_to(self.path)
        for command in (
            [self.program("prefixrouter"), "--version"],
            [self.program("python"), "-m", "prefixrouter", "--version"],
        ):
            assert run(*command, cwd=directory) == f"prefixrouter {VERSION}\n"
        assert "prefixrouter" in self.pip("list")
        assert "numpy" not in self.pip("list")


def test_pip_installs_the_source_tree(tmp_path):
    environment = Environment(tmp_path / "venv")
    environment.pip("install", PROJECT)
    environment.check(tmp_path)
    environment.pip("uninstall", "--yes", "prefixrouter")
    assert list((tmp_path / "venv").rglob("*prefixrouter*")) == []


def test_a_wheel_from_a_source_archive_installs_without_a_compiler(tmp_path):
    """The way of a release: archive, wheel built from the archive alone, installed elsewhere."""
    run(sys.executable, "-m", "build", "--outdir", tmp_path, PROJECT)
    (archive,) = tmp_path.glob("prefixrouter-*.tar.gz")
    (wheel,) = tmp_path.glob("prefixrouter-*.whl")
    assert archive.name == f"prefixrouter-{VERSION}.tar.gz"
    assert wheel.name.startswith(f"prefixrouter-{VERSION}-cp")

    names = zipfile.ZipFile(wheel).namelist()
    expected = {file.name for file in (PROJECT / "python/prefixrouter").glob("*.py*")}
    stubs = {f"_core/{file.name}" for file in (PROJECT / "python/prefixrouter/_core").iterdir()}
    expected |= stubs | {"py.typed"}
    inside = {name.partition("/")[2] for name in names if name.startswith("prefixrouter/")}
    (extension,) = inside - expected
    assert extension.startswith("_core.") and len(stubs) == 4 and expected <= inside
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".cc", ".h", ".a"))]

    listing = run("tar", "-tzf", archive).splitlines()
    for wanted in ("CMakeLists.txt", "include/prefixrouter/version.h", "python/src/module.cc",
                   "lib/router_core.cc", "cmake/FindxxHash.cmake", "LICENSE", "README.md"):
        assert f"prefixrouter-{VERSION}/{wanted}" in listing, wanted
    top = {name.split("/")[1] for name in listing}
    assert top.isdisjoint({"tests", "build", "benchmarks", ".git", ".ci"})
    assert not [name for name in listing if "__pycache__" in name]

    environment = Environment(tmp_path / "venv")
    environment.pip("install", "--no-index", "--only-binary", ":all:", wheel)
    environment.check(tmp_path)
