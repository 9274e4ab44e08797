"""The frames of live messages and replays, and topics, as tests/events/kv_event_frames_test.cc has them."""

import re

import pytest

import prefixrouter
from prefixrouter import (
    KV_END_OF_REPLAY,
    KvEventStream,
    KvFrames,
    KvTopic,
    kv_seq_frame,
    parse_kv_live_frames,
    parse_kv_replay_frames,
    parse_kv_topic,
)

SEVEN = kv_seq_frame(7)
END = b"\xff" * 8


def fields(frames):
    return frames.topic, frames.seq, frames.payload


def test_a_number_is_8_bytes_the_highest_first():
    assert kv_seq_frame(0) == bytes(8)
    assert kv_seq_frame(0x0102030405060708) == bytes([1, 2, 3, 4, 5, 6, 7, 8])
    assert KV_END_OF_REPLAY == 2**64 - 1 and kv_seq_frame(KV_END_OF_REPLAY) == END
    for seq in (0, 200, 2**63, KV_END_OF_REPLAY - 1):
        assert parse_kv_live_frames([b"", kv_seq_frame(seq), b"p"]).seq == seq


@pytest.mark.parametrize("wrong", [-1, 2**64, 10**30])
def test_a_number_out_of_range_is_refused(wrong):
    with pytest.raises(ValueError, match=f"seq.*{wrong}"):
        kv_seq_frame(wrong)


@pytest.mark.parametrize("wrong", [None, 1.0, "1", True, b"1"])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(TypeError, match=f"seq.*{re.escape(repr(wrong))}"):
        kv_seq_frame(wrong)


def test_a_live_message_has_a_topic_a_number_and_a_payload_or_no_number():
    assert fields(parse_kv_live_frames([b"kv@a@m", SEVEN, b"payload"])) == ("kv@a@m", 7, b"payload")
    assert fields(parse_kv_live_frames([b"", b"payload"])) == ("", None, b"payload")


def test_a_replayed_message_is_read_in_both_framings_and_so_is_its_end():
    for frames, expected in (
        ([b"", SEVEN, b"payload"], ("", 7, b"payload")),
        ([b"", b"kv@a@m", SEVEN, b"payload"], ("kv@a@m", 7, b"payload")),
        ([SEVEN, b"payload"], ("", 7, b"payload")),
        ([b"", END, b""], ("", KV_END_OF_REPLAY, b"")),
        ([b"", b"", END, b""], ("", KV_END_OF_REPLAY, b"")),
    ):
        assert fields(parse_kv_replay_frames(frames)) == expected


@pytest.mark.parametrize("parse", [parse_kv_live_frames, parse_kv_replay_frames])
def test_frames_are_bytes_of_any_kind_in_any_iterable(parse):
    payload = b"payload"
    assert parse([b"", SEVEN, payload]).payload is payload  # not copied
    assert parse((b"", SEVEN, payload)).payload is payload
    assert parse(iter([b"", SEVEN, payload])).payload is payload
    writable = bytearray(payload)
    frames = parse([memoryview(b""), bytearray(SEVEN), writable])
    writable[:] = b"changed"
    assert fields(frames) == ("", 7, payload)
    assert parse([b"", SEVEN, memoryview(b"p.a.y.l.o.a.d")[::2]]).payload == payload


@pytest.mark.parametrize(
    "parse, frames, message",
    [
        (parse_kv_live_frames, [], "a message of events has 0 frames instead of 2 or 3"),
        (parse_kv_live_frames, [b"p"], "a message of events has 1 frames instead of 2 or 3"),
        (parse_kv_live_frames, [b"", SEVEN, b"", b""], "has 4 frames instead of 2 or 3"),
        (parse_kv_live_frames, [b"", b"1234567", b"p"], "number's frame has 7 bytes instead of 8"),
        (parse_kv_live_frames, [b"", b"", b"p"], "number's frame has 0 bytes instead of 8"),
        (parse_kv_live_frames, [b"", END, b"p"], r"number 2\^64 - 1 ends replays"),
        (parse_kv_replay_frames, [], "a replayed message has 0 frames instead of 3 or 4"),
        (parse_kv_replay_frames, [b""], "a replayed message has 1 frames instead of 3 or 4"),
        (parse_kv_replay_frames, [b"", b"", SEVEN, b"", b""], "has 5 frames instead of 3 or 4"),
        (parse_kv_replay_frames, [b"topic", SEVEN, b"p"], "first frame .* has 5 bytes"),
        (parse_kv_replay_frames, [b"", b"123", b"p"], "number's frame has 3 bytes instead of 8"),
    ],
)
def test_a_message_of_a_wrong_form_is_refused_and_the_text_says_what_is_wrong(
    parse, frames, message
):
    with pytest.raises(ValueError, match=message):
        parse(frames)


@pytest.mark.parametrize("parse", [parse_kv_live_frames, parse_kv_replay_frames])
@pytest.mark.parametrize(
    "frames, message",
    [
        (None, "frames must be a list of bytes, got None"),
        (7, r"frames must be a list of bytes, got 7 \(int\)"),
        (b"bytes", r"frames must be a list of bytes, got b'bytes' \(bytes\)"),
        ("text", r"frames must be a list of bytes, got 'text' \(str\)"),
        (bytearray(b"\x01"), r"frames\[0\] must be bytes, .*, got 1 \(int\)"),
        (["", SEVEN, b""], r"frames\[0\] must be bytes, a bytearray or a memoryview, got '' \(str\)"),
        ([b"", 7, b""], r"frames\[1\] must be bytes, .*, got 7 \(int\)"),
        ([b"", SEVEN, None], r"frames\[2\] must be bytes, .*, got None"),
    ],
)
def test_what_is_no_list_of_bytes_is_named(parse, frames, message):
    with pytest.raises(TypeError, match=message):
        parse(frames)


def test_what_an_iterable_of_frames_raises_comes_out():
    def failing():
        yield b""
        raise LookupError("from the iterable")

    with pytest.raises(LookupError, match="from the iterable"):
        parse_kv_live_frames(failing())


@pytest.mark.parametrize(
    "topic, address, host, port, model",
    [
        ("kv@10.0.0.7:8000@org/model", "10.0.0.7:8000", "10.0.0.7", 8000, "org/model"),
        ("kv@10.0.0.7@org/model", "10.0.0.7", "10.0.0.7", None, "org/model"),
        ("kv@pod-1:65535@a@b/c@d", "pod-1:65535", "pod-1", 65535, "a@b/c@d"),
        ("kv@pod-1@", "pod-1", "pod-1", None, ""),
        ("kv@[::1]:8000@m", "[::1]:8000", "::1", 8000, "m"),
        ("kv@[fe80::1]@m", "[fe80::1]", "fe80::1", None, "m"),
        ("kv@fe80::1@m", "fe80::1", "fe80::1", None, "m"),
        ("", "", "", None, ""),
    ],
)
def test_a_topic_names_address_and_model(topic, address, host, port, model):
    for form in (topic, topic.encode()):
        said = parse_kv_topic(form)
        assert (said.address, said.host, said.port, said.model) == (address, host, port, model)


@pytest.mark.parametrize(
    "topic",
    ["kv-events", "kv@", "kv@a", "kv@@m", "kv@:8000@m", "kv@a:@m", "kv@a:0@m", "kv@a:65536@m"]
    + ["kv@a:80x@m", "kv@[::1@m", "kv@[::1]8000@m", "kv@[]:1@m", "KV@a@m", "load"],
)
def test_topics_of_other_forms_are_refused_by_name(topic):
    with pytest.raises(ValueError, match=re.escape(topic)):
        parse_kv_topic(topic)


@pytest.mark.parametrize("wrong", [None, 7, bytearray(b"kv@a@m"), ["kv@a@m"]])
def test_what_is_no_topic_is_named(wrong):
    with pytest.raises(TypeError, match=f"topic must be a str or bytes, got {re.escape(repr(wrong))}"):
        parse_kv_topic(wrong)


def test_topics_need_not_be_utf_8():
    frames = parse_kv_live_frames([b"kv@a@\xff\xfe", SEVEN, b""])
    assert frames.topic.encode("utf-8", "surrogateescape") == b"kv@a@\xff\xfe"
    assert parse_kv_topic(frames.topic).model == "\udcff\udcfe"


@pytest.mark.parametrize("cls", [KvFrames, KvTopic])
def test_what_is_parsed_is_made_by_the_parsers_alone_and_read_only(cls):
    for make in (cls, lambda: cls.__new__(cls), lambda: object.__new__(cls)):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(TypeError):
        type("Derived", (cls,), {})
    made = parse_kv_topic("kv@a@m") if cls is KvTopic else parse_kv_live_frames([b"", b"p"])
    for name in ("model", "payload", "new"):
        with pytest.raises(AttributeError):
            setattr(made, name, "x")


def test_what_is_parsed_says_what_it_is():
    assert repr(parse_kv_live_frames([b"", SEVEN, b"abc"])) == "<KvFrames: seq 7, 3 bytes>"
    assert repr(parse_kv_live_frames([b"", b"abc"])) == "<KvFrames: seq None, 3 bytes>"
    assert repr(parse_kv_topic("kv@a:1@m")) == "<KvTopic of 'a:1', model 'm'>"


def test_a_stream_takes_what_the_frames_say(router):
    payload = prefixrouter.encode_kv_events(prefixrouter.KvEventBatch())
    stream = KvEventStream(router.find_instance("a"))
    live = parse_kv_live_frames([b"", kv_seq_frame(1), payload])
    (fetch,) = stream.push_live(live.seq, live.payload)
    assert (fetch.kind, fetch.seq) == ("fetch", 0)
    replies = ([b"", kv_seq_frame(0), payload], [b"", END, b""])
    first, end = map(parse_kv_replay_frames, replies)
    stream.push_replayed(fetch.fetch, first.seq, first.payload)
    assert end.seq == KV_END_OF_REPLAY
    stream.replay_ended(fetch.fetch)
    assert stream.stats().complete and stream.stats().last_applied == 1
