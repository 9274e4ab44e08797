"""What a prompt may be, and that everything else is refused by name and position."""

import array
import ctypes
import enum
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import prefixrouter

TOKEN = st.integers(0, 2**32 - 1)
INTEGER_TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


def cached(router, tokens, **keywords):
    """How many tokens of the prompt the instance "a" holds."""
    (row,) = [row for row in router.score(tokens, **keywords).rows if row.name == "a"]
    return row.cached_tokens


class OnlyDlpack:
    """A tensor as other libraries make it: __dlpack__ and no buffer."""

    def __init__(self, values, versions=(0, 1), device=(1, 0)):
        self.array = values
        self.versions = versions
        self.device = device
        self.exports = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        if "max_version" in keywords and 1 not in self.versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.exports += 1
        return self.array.__dlpack__(**keywords)


class Index:
    """An integer of another library."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Subclass(np.ndarray):
    """Arrays that are not exactly numpy's."""


def forms(values):
    """The same token ids in all the forms that can hold them."""
    yield "list", list(values)
    yield "tuple", tuple(values)
    yield "list of indexes", [Index(value) for value in values]
    yield "list of numpy scalars", list(np.array(values, dtype=np.int64))
    yield "array.array", array.array("Q", values)
    yield "memoryview", memoryview(array.array("I", values))
    yield "ctypes array", (ctypes.c_uint32 * len(values))(*values)
    yield "strided", np.repeat(np.array(values, dtype=np.uint32), 2)[::2]
    yield "reversed", np.array(values[::-1], dtype=np.uint32)[::-1]
    yield "subclass", np.array(values, dtype=np.uint32).view(Subclass)
    yield "field", np.array([(0, v, 0) for v in values], dtype="u2,u4,u2")["f1"]
    yield "read-only", read_only(np.array(values, dtype=np.uint32))
    yield "unaligned", unaligned(values)
    yield "dlpack 0", OnlyDlpack(np.array(values, dtype=np.int64), versions=(0,))
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # before, it spoke version 0 only
        yield "dlpack 1", OnlyDlpack(read_only(np.array(values, dtype=np.uint32)))
    yield "dlpack strided", OnlyDlpack(np.repeat(np.array(values, dtype=np.int64), 3)[::3])
    for dtype in INTEGER_TYPES:
        if all(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max for value in values):
            yield dtype, np.array(values, dtype=dtype)


def read_only(values):
    values.flags.writeable = False
    return values


def unaligned(values):
    memory = b"\0" + np.array(values, dtype=np.uint32).tobytes()
    return np.frombuffer(memory, dtype=np.uint32, offset=1)


@hypothesis.given(st.lists(TOKEN, max_size=100), st.booleans())
def test_all_forms_of_token_ids_are_the_same_prompt(values, small):
    if small:
        values = [value % 128 for value in values]
    for form, tokens in forms(values):
        router = prefixrouter.PrefixRouter(block_size=1)
        router.add_instance("a")
        router.route(values)
        assert cached(router, tokens) == len(values), form
        router.route(tokens)
        assert router.stats().index_blocks == len(values), form


def test_the_forms_are_read_and_not_mistaken(router):
    """The test above would pass if the content were ignored; this one would not."""
    values = list(range(1000, 1160))
    router.route(values, allowed=["a"])
    for position in range(0, 160, 16):
        other = list(values)
        other[position] += 1
        for form, tokens in forms(other):
            assert cached(router, tokens) == position // 16 * 16, form


@pytest.mark.parametrize("text", ["x" * 1000, "\N{GREEK SMALL LETTER ALPHA}" * 500, ""])
def test_text_is_its_bytes(router, text):
    router.route(text, allowed=["a"])
    whole_blocks = len(text.encode()) // 64 * 64
    for form in (text, text.encode(), bytearray(text.encode())):
        assert cached(router, form) == whole_blocks // 4
        assert router.score(form).prompt_tokens == -(-len(text.encode()) // 4)


@pytest.mark.parametrize(
    "change",
    [
        "",
        "sys.modules['numpy'] = types.ModuleType('numpy')",
        "del sys.modules['numpy'].ndarray",
        "sys.modules['numpy'].ndarray = 5",
        "sys.modules['numpy'].ndarray = type('ndarray', (), {})",
        "sys.modules['numpy'].dtype = lambda name: name",
        "sys.modules['numpy'].arange = lambda *a, **k: [1, 2, 3]",
    ],
)
def test_arrays_are_read_although_somebody_has_changed_numpy(change):
    """Their own members are looked at only if they are where numpy says they are."""
    program = f"""
import sys, types, numpy, prefixrouter
arrays = [numpy.arange(64, dtype=t) for t in ("uint32", "int64")] + [numpy.zeros((2, 2), "u4")]
{change}
router = prefixrouter.PrefixRouter()
router.add_instance("a")
for i in range(3):
    router.route(arrays[i % 2])
    assert router.score(arrays[0]).rows[0].cached_tokens == 64
    try:
        router.route(arrays[2])
    except ValueError as error:
        assert "(2, 2)" in str(error)
    else:
        raise AssertionError
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_program_without_numpy_does_not_load_it():
    program = """
import sys, array, prefixrouter
router = prefixrouter.PrefixRouter()
router.add_instance("a")
class ndarray: pass
for tokens in (array.array("I", [1]), memoryview(array.array("I", [1])), [1], b"1", "1"):
    router.route(tokens)
try:
    router.route(ndarray())
except TypeError:
    pass
assert "numpy" not in sys.modules
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_text_and_tokens_are_never_the_same_prompt(router):
    router.route(b"\1\0\0\0" * 64, allowed=["a"])
    assert cached(router, [1] * 64) == 0


@pytest.mark.parametrize("empty", [[], (), "", b"", np.array([], dtype=np.uint32), array.array("q")])
def test_an_empty_prompt_is_routed_by_load(router, empty):
    decision = router.decide(empty)
    assert (decision.prompt_tokens, decision.cached_tokens) == (0, 0)
    assert decision.name in ("a", "b")


def test_a_uint32_array_is_read_in_place(router):
    """No copy: what is changed in another view of the memory is seen, and nothing is kept."""
    memory = bytearray(4 * 8192)
    tokens = np.frombuffer(memory, dtype=np.uint32)
    router.route(tokens, allowed=["a"])
    assert cached(router, tokens) == 8192
    tokens[0] = 1
    assert cached(router, tokens) == 0
    del tokens
    memory.extend(b"x")  # BufferError if a view were left


def test_dlpack_tensors_are_freed():
    router = prefixrouter.PrefixRouter()
    router.add_instance("a")
    values = np.arange(100)
    references = sys.getrefcount(values)
    tensor = OnlyDlpack(values)
    for _ in range(10):
        router.route(tensor)
    with pytest.raises(TypeError):
        router.route(OnlyDlpack(values.astype(float)))
    del tensor
    assert sys.getrefcount(values) == references


BAD_TOKENS = [
    (None, TypeError, "got None"),
    (1, TypeError, r"got 1 \(int\)"),
    (1.5, TypeError, r"got 1\.5 \(float\)"),
    ({1, 2}, TypeError, r"\(set\)"),
    ({1: 2}, TypeError, r"\(dict\)"),
    (range(5), TypeError, r"\(range\)"),
    (iter([1]), TypeError, r"list_iterator"),
    (object(), TypeError, r"\(object\)"),
    ([1, None], TypeError, r"tokens\[1\] must be an int, got None"),
    ([1, 2, 2.0], TypeError, r"tokens\[2\] must be an int, got 2\.0 \(float\)"),
    ((1, "2"), TypeError, r"tokens\[1\] must be an int, got '2' \(str\)"),
    ([True], TypeError, r"tokens\[0\] must be an int, got True \(bool\)"),
    ([[1], [2]], TypeError, r"tokens\[0\] must be an int, got \[1\] \(list\)"),
    ([5, -1], ValueError, r"tokens\[1\] is -1; token ids are 0 to 4294967295"),
    ([2**32], ValueError, r"tokens\[0\] is 4294967296"),
    ([0, 2**64], ValueError, r"tokens\[1\] is 18446744073709551616"),
    ([-(2**64)], ValueError, r"tokens\[0\] is -18446744073709551616"),
    ([10**5000], ValueError, r"tokens\[0\] is "),
    ([Index(-3)], ValueError, r"tokens\[0\] is -3"),
    (np.array([1, 2, -7]), ValueError, r"tokens\[2\] is -7"),
    (np.array([1, -2], dtype=np.int8), ValueError, r"tokens\[1\] is -2"),
    (np.array([2**32, 1], dtype=np.int64)[::-1], ValueError, r"tokens\[1\] is 4294967296"),
    (np.array([2**63], dtype=np.uint64), ValueError, r"tokens\[0\] is 9223372036854775808"),
    (array.array("q", [0] * 100 + [-1]), ValueError, r"tokens\[100\] is -1"),
    (np.zeros((2, 8), dtype=np.uint32), ValueError, r"one dimension, got shape \(2, 8\)"),
    (np.zeros((0, 8), dtype=np.uint32), ValueError, r"shape \(0, 8\)"),
    (np.array(5), ValueError, r"shape \(\)"),
    (np.array([1.0, 2.0]), TypeError, "format 'd'"),
    (np.array([1.0], dtype=np.float16), TypeError, "format 'e'"),
    (np.array([1j]), TypeError, "format 'Zd'"),
    (np.array([True]), TypeError, r"format '\?'"),
    (np.array(["a"]), TypeError, "format '1w'"),
    (np.array([1], dtype=object), TypeError, "format 'O'"),
    (np.array([(1, 2)], dtype="u4,u4"), TypeError, "format 'T"),
    (np.array([1], dtype="M8[s]"), TypeError, "cannot be read"),
    (np.array([1], dtype=np.dtype("u4").newbyteorder()), TypeError, "native byte order"),
    (memoryview(b"text"), TypeError, "memoryview of bytes"),
    (memoryview(b"12345678").cast("d"), TypeError, "format 'd'"),
    (OnlyDlpack(np.array([1.0])), TypeError, "DLPack type code 2, 64 bits"),
    (OnlyDlpack(np.array([True])), TypeError, "DLPack type code 6"),
    (OnlyDlpack(np.zeros((3, 4), dtype=int)), ValueError, r"shape \(3, 4\)"),
    (OnlyDlpack(np.array([3, -4])), ValueError, r"tokens\[1\] is -4"),
    (OnlyDlpack(np.array([3]), device=(2, 0)), TypeError, "DLPack device type 2"),
    (OnlyDlpack(np.array([3]), device="cpu"), TypeError, "__dlpack_device__ must return"),
]


@pytest.mark.parametrize("method", ["route", "decide", "acquire", "score"])
@pytest.mark.parametrize("tokens, exception, message", BAD_TOKENS)
def test_what_is_no_prompt_is_refused_and_changes_nothing(
    router, method, tokens, exception, message
):
    before = repr(router.stats())
    with pytest.raises(exception, match=message):
        getattr(router, method)(tokens)
    assert repr(router.stats()) == before
    assert router.decide([1]).candidates == 2


class Color(enum.IntEnum):
    RED = 1


def test_subclasses_of_int_list_and_tuple_are_what_they_are(router):
    class Tokens(list):
        pass

    router.route([1] * 16, allowed=["a"])
    assert cached(router, Tokens([Color.RED] * 16)) == 16


def test_tensors_that_lie_about_themselves_are_refused(router):
    class NoCapsule:
        def __dlpack__(self, **keywords):
            return 5

    class Raises:
        def __dlpack__(self, **keywords):
            raise RuntimeError("the device is lost")

    with pytest.raises(TypeError, match="must return a capsule with a tensor, got 5"):
        router.route(NoCapsule())
    with pytest.raises(RuntimeError, match="the device is lost"):
        router.route(Raises())


def test_a_capsule_is_used_once(router):
    class Reused:
        def __init__(self):
            self.capsule = np.arange(16).__dlpack__()

        def __dlpack__(self, **keywords):
            return self.capsule

    reused = Reused()
    router.route(reused)
    with pytest.raises(TypeError, match="capsule"):
        router.route(reused)


def test_a_list_that_shrinks_while_it_is_read_is_refused(router):
    tokens = []

    class Shrinks:
        def __index__(self):
            tokens.clear()
            return 1

    tokens += [Shrinks()] + [2] * 100_000
    with pytest.raises(ValueError, match="changed its size from 100001 to 0"):
        router.route(tokens)


def test_a_token_that_raises_lets_its_exception_out(router):
    class Raises:
        def __index__(self):
            raise OSError("no token today")

        def __repr__(self):
            raise OSError("no text either")

    class NoText:
        def __repr__(self):
            raise OSError("no text")

    with pytest.raises(OSError, match="no token today"):
        router.route([1, Raises()])
    with pytest.raises(TypeError, match=r"tokens\[0\] must be an int, got an object of type NoText"):
        router.route([NoText()])


def test_a_prompt_longer_than_the_limit_is_refused():
    router = prefixrouter.PrefixRouter(max_prompt_tokens=100)
    router.add_instance("a")
    router.route([0] * 100)
    with pytest.raises(ValueError, match="the prompt has 101 tokens, max_prompt_tokens is 100"):
        router.route([0] * 101)


@hypothesis.given(st.data())
def test_the_first_bad_token_of_an_array_is_named(data):
    dtype = np.dtype(data.draw(st.sampled_from(["i1", "i2", "i4", "i8", "u8"])))
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    values = data.draw(st.lists(st.integers(low, high), min_size=1, max_size=300))
    bad = [i for i, value in enumerate(values) if not 0 <= value < 2**32]
    router = prefixrouter.PrefixRouter()
    router.add_instance("a")
    for tokens in (np.array(values, dtype=dtype), np.repeat(np.array(values, dtype=dtype), 2)[::2],
                   values):
        if not bad:
            assert router.route(tokens) == "a"
            continue
        with pytest.raises(ValueError) as caught:
            router.route(tokens)
        assert str(caught.value).startswith(f"tokens[{bad[0]}] is {values[bad[0]]};")
