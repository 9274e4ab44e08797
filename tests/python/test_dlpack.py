"""DLPack tensors down to their bytes, as libraries of all kinds make them, or make them wrongly."""

import ctypes

import pytest

TOKENS = list(range(500, 660))


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", DELETER)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Made:
    """A tensor with every field as the test wants it."""

    def __init__(self, ctype=ctypes.c_int64, values=TOKENS, version=None, shape=None,
                 strides=None, **fields):
        self.values = (ctype * len(values))(*values)
        self.shape = (ctypes.c_int64 * 4)(*(shape or [len(values)]))
        self.strides = (ctypes.c_int64 * 4)(*strides) if strides else None
        self.deleted = 0
        self.deleter = DELETER(self.delete)
        signed = ctype(-1).value == -1
        tensor = Tensor(
            ctypes.addressof(self.values), 1, 0, 1, 0 if signed else 1,
            8 * ctypes.sizeof(ctype), 1, self.shape, self.strides, 0,
        )
        for name, value in fields.items():
            setattr(tensor, name, value)
        if version is None:
            self.managed, self.name = Managed(tensor, None, self.deleter), b"dltensor"
        else:
            self.managed = Versioned(*version, None, self.deleter, 0, tensor)
            self.name = b"dltensor_versioned"

    def delete(self, managed):
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def __dlpack__(self, max_version=None):
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 7)])
@pytest.mark.parametrize("ctype", [ctypes.c_int64, ctypes.c_uint64, ctypes.c_int32,
                                   ctypes.c_uint32, ctypes.c_int16, ctypes.c_uint16])
def test_a_tensor_is_read_and_freed_once(router, ctype, version):
    router.route(TOKENS, allowed=["a"])
    tensor = Made(ctype, version=version)
    assert router.score(tensor).rows[0].cached_tokens == len(TOKENS)
    assert tensor.deleted == 1


def test_strides_and_offsets_are_followed(router):
    router.route(TOKENS, allowed=["a"])
    spread = [0] + [number for token in TOKENS for number in (token, 0)]
    tensor = Made(values=spread, shape=[len(TOKENS)], strides=[2], byte_offset=8)
    assert router.score(tensor).rows[0].cached_tokens == len(TOKENS)
    backwards = Made(values=TOKENS[::-1], strides=[-1], byte_offset=8 * (len(TOKENS) - 1))
    assert router.score(backwards).rows[0].cached_tokens == len(TOKENS)


def test_an_empty_tensor_is_an_empty_prompt(router):
    assert router.decide(Made(values=[])).prompt_tokens == 0
    assert router.decide(Made(values=[], data=None)).prompt_tokens == 0


@pytest.mark.parametrize(
    "fields, exception, message",
    [
        ({"version": (2, 0)}, TypeError, "DLPack version 2, not 1"),
        ({"device_type": 2}, TypeError, "CPU memory, got a tensor on DLPack device type 2"),
        ({"device_type": 13}, TypeError, "DLPack device type 13"),
        ({"code": 2}, TypeError, "type code 2, 64 bits, 1 lanes"),
        ({"code": 6, "bits": 8}, TypeError, "type code 6, 8 bits"),
        ({"bits": 4}, TypeError, "type code 0, 4 bits"),
        ({"lanes": 2}, TypeError, "64 bits, 2 lanes"),
        ({"lanes": 0}, TypeError, "64 bits, 0 lanes"),
        ({"bits": 128}, ValueError, "items of 1, 2, 4 or 8 bytes, got 16"),
        ({"bits": 24}, ValueError, "items of 1, 2, 4 or 8 bytes, got 3"),
        ({"dimensions": 0}, ValueError, r"one dimension, got shape \(\)"),
        ({"dimensions": 2, "shape": [8, 20]}, ValueError, r"one dimension, got shape \(8, 20\)"),
        ({"shape": [-1]}, ValueError, "tokens has a negative size"),
        ({"values": [1, 2, -3]}, ValueError, r"tokens\[2\] is -3"),
    ],
)
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_wrong_tensor_is_refused_by_name(router, fields, exception, message, version):
    tensor = Made(**{"version": version, **fields})
    before = repr(router.stats())
    with pytest.raises(exception, match=message):
        router.route(tensor)
    assert repr(router.stats()) == before
    # What was not taken out of its capsule stays the capsule's to free.
    assert tensor.deleted == (1 if exception is ValueError and "items" in message
                              or "tokens\\[2" in message else 0)


def test_a_tensor_without_a_deleter_is_left_alone(router):
    router.route(TOKENS, allowed=["a"])
    for version in (None, (1, 0)):
        tensor = Made(version=version)
        tensor.managed.deleter = DELETER()
        assert router.score(tensor).rows[0].cached_tokens == len(TOKENS)
