"""The committed types and documentation are those of the compiled module."""

import importlib
import inspect
import pathlib
import pickle
import pydoc
import re
import shutil
import subprocess
import sys

import pytest

import prefixrouter
from prefixrouter import _core, _simulator

PACKAGE = pathlib.Path(prefixrouter.__file__).parent
PROJECT = pathlib.Path(__file__).parent.parent.parent
COMPILED_MODULES = (_core, _core.events, _core.metrics, _core.simulation)
COMPILED = {
    name: member
    for module in COMPILED_MODULES
    for name, member in vars(module).items()
    if (name[0] != "_" or name == "__version__") and not inspect.ismodule(member)
}

# What pybind11 adds to each class, and what is no module to import.
ALLOWED = r"""
prefixrouter\.__main__
prefixrouter\._core\.(StatusCode|InstanceState|simulation\.Outcome)\.__pybind11_native_enum__
prefixrouter\._core\.(CostParts|Decision|Instance|Lease|PolicyInput|ScoreRow|ScoreTable)(\.__init__)?
prefixrouter\._core\.PrefixRouter
prefixrouter\._core\.events\.(Kv(ApplyResult|StreamAction|EventStreamStats)(\.__init__)?)
prefixrouter\._core\.events\.(Kv(Frames|Topic|PublisherStats|EventSubscriberStats)(\.__init__)?)
prefixrouter\._core\.events\.KvEvent(Batch|Decoder|Stream|Subscriber)?
prefixrouter\._core\.metrics\.(DurationHistogram|InstanceStats|Stats)(\.__init__)?
prefixrouter\._core\.metrics\.(EngineMetrics|EngineRankMetrics)(\.__init__)?
prefixrouter\._core\.simulation\.(InstanceSeries|LoadLevels|Simulat\w+|Trace)(\.__init__)?
prefixrouter\._core\.simulation\.Workload
"""

PUBLIC_CLASSES = [
    getattr(prefixrouter, name)
    for name in prefixrouter.__all__
    if inspect.isclass(getattr(prefixrouter, name))
]
METHODS = [
    pytest.param(member, id=f"{cls.__name__}.{name}")
    for cls in PUBLIC_CLASSES
    if cls.__module__ == "prefixrouter" and COMPILED.get(cls.__name__) is cls
    for name, member in vars(cls).items()
    if not name.startswith("_") and callable(member)
]


def run_mypy(arguments, directory):
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(PACKAGE.parent), "PYTHONPATH": str(PACKAGE.parent)},
    )


def test_the_stub_names_what_the_module_has(tmp_path):
    pytest.importorskip("mypy")
    allowlist = tmp_path / "allowed"
    allowlist.write_text(ALLOWED)
    result = run_mypy(
        ["mypy.stubtest", "prefixrouter", "--allowlist", str(allowlist)]
        + ["--ignore-unused-allowlist"],
        tmp_path,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_check_of_the_stub_finds_differences(tmp_path):
    """A stub with another default and one method less must not pass."""
    pytest.importorskip("mypy")
    package = tmp_path / "prefixrouter"
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, package, ignore=unwanted, ignore_dangling_symlinks=True)
    for file, text, changed in (
        ("__init__.pyi", "block_size: SupportsIndex = 16", "block_size: SupportsIndex = 17"),
        ("__init__.pyi", "    def release(self) -> int: ...\n", ""),
        ("events.pyi", "bytes_ids: bool = False", "bytes_ids: bool = True"),
        ("metrics.pyi", "max_ranks: SupportsIndex = 1024", "max_ranks: SupportsIndex = 1"),
        ("simulation.pyi", "strict: bool = False", "strict: bool = True"),
    ):
        stub = package / "_core" / file
        assert stub.read_text().count(text) == 1
        stub.write_text(stub.read_text().replace(text, changed))
    result = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "prefixrouter"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"MYPYPATH": str(tmp_path), "PYTHONPATH": str(tmp_path)},
    )
    assert result.returncode == 1
    assert "PrefixRouter.__init__ is inconsistent" in result.stdout
    assert "Lease.release is not present in stub" in result.stdout
    assert "events.encode_kv_events is inconsistent" in result.stdout
    assert "metrics.parse_engine_metrics is inconsistent" in result.stdout
    assert "simulation.read_trace is inconsistent" in result.stdout


def test_the_package_passes_strict_type_checks(tmp_path):
    pytest.importorskip("mypy")
    result = run_mypy(["mypy", "--strict", "-p", "prefixrouter"], tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_code_of_users_is_checked_by_the_types(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "good.py").write_text(
        "import array\n"
        "from typing import List, Optional\n"
        "import prefixrouter\n"
        "def cost(fleet: prefixrouter.PolicyInput) -> List[float]:\n"
        "    home: Optional[int] = fleet.home\n"
        "    return [float(n) for n in fleet.requests]\n"
        "router = prefixrouter.PrefixRouter(block_size=16, policy=cost, routers=2, key_seed=1)\n"
        "instance: prefixrouter.Instance = router.add_instance('a', 1, weight=2)\n"
        "name: str = router.route([1, 2], model='m', allowed=['a', instance])\n"
        "name = router.route(array.array('I', [1]), multimodal=[(0, 1)])\n"
        "name = router.route('text')\n"
        "numbers: prefixrouter.PolicyOptions = {'weight_kv': 1, 'hash_ring_points': 64}\n"
        "router = prefixrouter.PrefixRouter(policy='weighted', policy_options=numbers)\n"
        "metrics = prefixrouter.parse_engine_metrics(b'', model='m')\n"
        "reported: int = router.report_engine_metrics('a', metrics, age_s=1)\n"
        "decoder = prefixrouter.KvEventDecoder('trtllm_json', tokens_per_block=32)\n"
        "lost: int = router.apply_kv_events('a', '[]', decoder).counts['unknown_parent']\n"
        "event = prefixrouter.KvEvent('stored', [1], block_size=2, tokens=[1, 2], tier='cpu')\n"
        "payload: bytes = prefixrouter.encode_kv_events(prefixrouter.KvEventBatch([event]))\n"
        "for action in prefixrouter.KvEventStream(instance).push_live(0, payload):\n"
        "    assert action.kind == 'fetch' or action.payload is not None\n"
        "message = prefixrouter.parse_kv_live_frames([b'', memoryview(b'8 bytes.'), payload])\n"
        "port: Optional[int] = prefixrouter.parse_kv_topic(message.topic).port\n"
        "request: List[bytes] = [b'', prefixrouter.kv_seq_frame(message.seq or 0)]\n"
        "with prefixrouter.KvEventSubscriber(router) as subscriber:\n"
        "    source: int = subscriber.add('tcp://127.0.0.1:5557', ['a', instance])\n"
        "page: str = prefixrouter.render_metrics([(router.stats(), {'model': 'm'})])\n"
        "async def send() -> None:\n"
        "    async with router.acquire((1, 2)) as lease:\n"
        "        lease.finish(output_tokens=5)\n"
    )
    (tmp_path / "bad.py").write_text(
        "import prefixrouter\n"
        "router = prefixrouter.PrefixRouter(block='x')\n"
        "name: int = router.route([1])\n"
        "router.route(None)\n"
        "router.route([1.5])\n"
        "router.finish(1, tokens=3)\n"
        "prefixrouter.PrefixRouter(policy_options={'weight': 1})\n"
        "router.report_engine_metrics('a', 5)\n"
        "prefixrouter.KvEventDecoder('json')\n"
        "prefixrouter.KvEvent('stored', tier='GPU')\n"
        "prefixrouter.parse_kv_live_frames(['topic', 'payload'])\n"
        "seq: int = prefixrouter.parse_kv_replay_frames([]).seq\n"
    )
    good = run_mypy(["mypy", "--strict", "good.py"], tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = run_mypy(["mypy", "--strict", "bad.py"], tmp_path)
    lines = {int(line.split(":")[1]) for line in bad.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(2, 13)), bad.stdout


def test_everything_public_is_exported_under_the_name_of_the_package():
    assert prefixrouter.__all__ == sorted(prefixrouter.__all__, key=str)
    written = {
        name
        for name, member in vars(_simulator).items()
        if getattr(member, "__module__", "") == "prefixrouter" and name[0] != "_"
    }
    assert set(prefixrouter.__all__) == set(COMPILED) | written | {"PolicyOptions"}
    for cls in PUBLIC_CLASSES:
        assert cls.__module__ == "prefixrouter", cls
    for name, member in COMPILED.items():
        assert getattr(prefixrouter, name) is member
        assert getattr(member, "__module__", "prefixrouter") == "prefixrouter", name


def test_every_compiled_module_has_a_stub_of_its_name():
    inside = {module.__name__ for module in vars(_core).values() if inspect.ismodule(module)}
    assert inside | {_core.__name__} == {module.__name__ for module in COMPILED_MODULES}
    stubs = {file.stem for file in (PACKAGE / "_core").iterdir()}
    assert stubs == {name.rpartition(".")[2] for name in inside} | {"__init__"}
    for module in COMPILED_MODULES:
        assert importlib.import_module(module.__name__) is module and module.__doc__


@pytest.mark.parametrize(
    "member",
    [prefixrouter.StatusCode.NOT_FOUND, prefixrouter.InstanceState.DOWN, prefixrouter.Outcome.DONE]
    + [prefixrouter.Error, prefixrouter.Stats, prefixrouter.KvEvent, prefixrouter.Workload],
    ids=repr,
)
def test_pickles_name_the_public_package(member):
    pickled = pickle.dumps(member)
    assert pickle.loads(pickled) is member
    assert b"prefixrouter" in pickled and b"_core" not in pickled


def test_the_version_is_that_of_the_header():
    header = (PROJECT / "include/prefixrouter/version.h").read_text()
    (version,) = re.findall(r'VERSION_STRING "(.*)"', header)
    assert prefixrouter.__version__ == version


def test_defaults_in_signatures_are_those_of_the_library():
    options = prefixrouter.PrefixRouter().options
    parameters = inspect.signature(prefixrouter.PrefixRouter).parameters
    assert list(options) != [] and set(options) == set(parameters)
    for name, parameter in parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if name in ("key_seed", "random_seed", "policy_options"):
            assert parameter.default is None and options[name] is not None
        else:
            assert options[name] == parameter.default
            assert type(options[name]) is type(parameter.default), name

    parameters = inspect.signature(prefixrouter.parse_engine_metrics).parameters
    page = "vllm:num_requests_running 1\n"
    most = parameters["max_bytes"].default
    longest = page + "\n" * (most - len(page))
    prefixrouter.parse_engine_metrics(longest)
    with pytest.raises(ValueError, match=f"max_bytes is {most}"):
        prefixrouter.parse_engine_metrics(longest + "\n")
    for excess in (0, 1):
        line = "x" + "1\n".rjust(parameters["max_line_bytes"].default + excess)
        assert prefixrouter.parse_engine_metrics(page + line).malformed_lines == excess
    ranks = "".join(
        f'vllm:num_requests_running{{engine="{rank}"}} 1\n'
        for rank in range(parameters["max_ranks"].default + 1)
    )
    with pytest.raises(ValueError, match=f"max_ranks is {parameters['max_ranks'].default}"):
        prefixrouter.parse_engine_metrics(ranks)

    router = prefixrouter.PrefixRouter()
    parameters = inspect.signature(router.add_instance).parameters
    router.add_instance("a")
    (stats,) = router.stats().instances
    assert stats.capacity_blocks == parameters["capacity_blocks"].default
    assert stats.rank == parameters["rank"].default


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_signature_and_google_sections(method):
    signature = inspect.signature(method)
    assert next(iter(signature.parameters)) == "self"
    doc = inspect.getdoc(method)
    assert "(self" not in doc and "pybind11" not in doc
    arguments = [name for name in signature.parameters if name not in ("self", "tokens")]
    if len(signature.parameters) > 1:
        section = doc.split("Args:\n")[1].split("\n\n")[0]
        for name in arguments:
            assert re.search(rf"^    {name} \(.+\): ", section, re.MULTILINE), name


@pytest.mark.parametrize("cls", [c for c in PUBLIC_CLASSES if COMPILED.get(c.__name__) is c])
def test_an_object_that_init_has_not_made_is_refused(cls):
    try:
        empty = cls.__new__(cls)
    except TypeError:
        return
    for name, member in vars(cls).items():
        if isinstance(member, property):
            with pytest.raises(TypeError, match="__init__"):
                getattr(empty, name)


@pytest.mark.parametrize("cls", PUBLIC_CLASSES, ids=lambda cls: cls.__name__)
def test_help_is_readable(cls):
    text = pydoc.plain(pydoc.render_doc(cls))
    assert "0x" not in text, "an address says nothing to a reader"
    assert "_core" not in text
    for name, member in vars(cls).items():
        if isinstance(member, property):
            assert member.__doc__, name
    assert inspect.getdoc(cls)
