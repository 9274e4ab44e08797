"""KV events: messages of engines read, applied to a router, written again, and put in order."""

import array
import json
import math
import threading
import time

import pytest

import prefixrouter
from prefixrouter import KvEvent, KvEventBatch, KvEventDecoder, KvEventStream

# Whole payloads, as engines of several ages send them.
VLLM_SHORT = bytes.fromhex(
    "93cb3ff80000000000009397ab426c6f636b53746f7265649201cf8000000000000005c0980102030405"
    "06070804c0a347505593ac426c6f636b52656d6f7665649107a347505591b0416c6c426c6f636b73436c"
    "656172656400"
)
VLLM_FULL = bytes.fromhex(
    "93cb4004000000000000939cab426c6f636b53746f72656491c420000102030405060708090a0b0c0d0e"
    "0f101112131415161718191a1b1c1d1e1fc095010203cd012cce000111700507a3435055a26164919"
    "3a2616492a46d6d6964fea473616c7401ae736c6964696e675f77696e646f77cd020094ac426c6f636b"
    "52656d6f76656491c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "a34350550192ab4675747572654576656e740103"
)
MAPS = bytes.fromhex(
    "93cb40040000000000009189a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573"
    "91cf8000000000000005b1706172656e745f626c6f636b5f6861736805a9746f6b656e5f696473920102"
    "aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65"
    "c0a37a7a7a81a1610100"
)
SGLANG = bytes.fromhex(
    "93cb40040000000000009298ab426c6f636b53746f72656491d3ce1927ef9251a63fcf77d735ce838418"
    "aa910101c0a347505581aa63616368655f73616c74a17493ac426c6f636b52656d6f76656491ffaa4350"
    "555f50494e4e454400"
)
EMPTY = bytes.fromhex("93cb000000000000000090c0")
EMPTY_OLD = bytes.fromhex("92cb000000000000000090")

FIELDS = (
    "kind block_ids parent_id block_size tokens tier group attention adapter salt multimodal"
).split()


def fields(event):
    return {name: getattr(event, name) for name in FIELDS}


def nonzero(counts):
    return {name: count for name, count in counts.items() if count}


def stored(ids, tokens, *, parent=None, **more):
    return KvEvent(
        "stored", ids, parent_id=parent, block_size=len(tokens) // len(ids), tokens=tokens, **more
    )


CLEARED = KvEventBatch([KvEvent("cleared")])


def cached(router, tokens, **more):
    """Cached tokens of the prompt, by the name of the instance."""
    return {row.name: row.cached_tokens for row in router.score(tokens, **more).rows}


def test_a_message_of_an_early_vllm_is_read():
    batch = KvEventDecoder().decode(VLLM_SHORT)
    assert (batch.timestamp_s, batch.rank, len(batch)) == (1.5, 0, 3)
    assert nonzero(batch.skipped) == {}
    store, remove, clear = batch
    assert fields(store) == {
        "kind": "stored",
        "block_ids": (1, 2**63 + 5),
        "parent_id": None,
        "block_size": 4,
        "tokens": (1, 2, 3, 4, 5, 6, 7, 8),
        "tier": "gpu",
        "group": 0,
        "attention": "full",
        "adapter": "",
        "salt": "",
        "multimodal": (),
    }
    assert (remove.kind, remove.block_ids, remove.tier) == ("removed", (7,), "gpu")
    assert clear.kind == "cleared"
    assert repr(store) == "<KvEvent stored: 2 blocks of 4 tokens, gpu>"


def test_a_message_with_all_fields_is_read_and_what_is_unknown_is_counted():
    batch = KvEventDecoder().decode(VLLM_FULL)
    assert (batch.timestamp_s, batch.rank) == (2.5, 3)
    store, remove = batch.events
    assert fields(store) == {
        "kind": "stored",
        "block_ids": (1736447835066146335,),
        "parent_id": None,
        "block_size": 5,
        "tokens": (1, 2, 3, 300, 70000),
        "tier": "cpu",
        "group": 1,
        "attention": "partial",
        "adapter": "ad",
        "salt": "salt",
        "multimodal": ((0, "mmid", -2),),
    }
    assert (remove.block_ids, remove.group) == ((1736447835066146335,), 1)
    assert nonzero(batch.skipped) == {"unknown_event": 1}


def test_a_message_of_maps_is_read():
    (event,) = KvEventDecoder().decode(MAPS)
    assert (event.block_ids, event.parent_id, event.tokens) == ((2**63 + 5,), 5, (1, 2))


def test_a_message_of_sglang_is_read():
    store, remove = KvEventDecoder().decode(SGLANG)
    assert store.block_ids == (2**64 - 3595798917573138881,)
    assert (store.parent_id, store.salt) == (8635429971592222890, "t")
    assert (remove.block_ids, remove.tier) == ((2**64 - 1,), "cpu")


@pytest.mark.parametrize("payload", [EMPTY, EMPTY_OLD])
def test_an_empty_message_is_a_batch_without_events(payload):
    batch = KvEventDecoder().decode(payload)
    assert (batch.events, batch.rank, batch.timestamp_s) == ((), None, 0.0)


@pytest.mark.parametrize("payload", [VLLM_SHORT, VLLM_FULL, MAPS, SGLANG])
def test_a_truncated_message_is_refused_with_the_place(payload):
    decoder = KvEventDecoder()
    for size in range(len(payload)):
        with pytest.raises(ValueError, match="byte"):
            decoder.decode(payload[:size])
    assert len(decoder.decode(payload)) > 0, "the decoder still works"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_payloads_are_bytes_of_any_kind(kind):
    assert len(KvEventDecoder().decode(kind(VLLM_SHORT))) == 3


def test_a_batch_outlives_the_next_message_and_its_decoder():
    decoder = KvEventDecoder()
    first = decoder.decode(VLLM_SHORT)
    event = first.events[0]
    decoder.decode(MAPS)
    del decoder, first
    assert event.tokens == (1, 2, 3, 4, 5, 6, 7, 8)


TRT_STORED = {
    "event_id": 7,
    "data": {
        "type": "stored",
        "parent_hash": None,
        "blocks": [
            {
                "type": "stored_block",
                "block_hash": 11,
                "tokens": [{"token_id": token, "token_extra_id": 0} for token in range(32)],
                "cache_level": 0,
                "priority": 35,
            }
        ],
    },
    "window_size": 1024,
}


def test_json_of_tensorrt_llm_is_read_as_bytes_and_as_text():
    decoder = KvEventDecoder("trtllm_json", tokens_per_block=32)
    assert decoder.last_event_id is None
    (event,) = decoder.decode(json.dumps([TRT_STORED]))
    assert (event.kind, event.block_ids, event.tokens) == ("stored", (11,), tuple(range(32)))
    later = {**TRT_STORED, "event_id": 10}
    decoder.decode(json.dumps(later).encode())
    assert (decoder.last_event_id, decoder.lost_events) == (10, 2)
    again = decoder.decode(json.dumps({**TRT_STORED, "event_id": 0}))
    assert [event.kind for event in again] == ["cleared", "stored"], "the engine has restarted"


def test_json_of_several_ranks_needs_a_decoder_for_each():
    both = json.dumps([{**TRT_STORED, "attention_dp_rank": rank} for rank in (0, 1)])
    with pytest.raises(ValueError, match="rank"):
        KvEventDecoder("trtllm_json").decode(both)
    (event,) = KvEventDecoder("trtllm_json", rank=1).decode(both)
    assert event.block_ids == (11,)


@pytest.mark.parametrize(
    "arguments, keywords, message",
    [
        (["msgpak"], {}, "format must be one of msgpack, trtllm_json; got 'msgpak'"),
        ([None], {}, "format must be a str, got None"),
        ([], {"tokens_per_block": 2**20 + 1}, "tokens_per_block must be at most 1048576"),
        ([], {"tokens_per_block": 1.0}, "tokens_per_block must be an int, got 1.0"),
        ([], {"rank": -1}, "rank must be at least 0, got -1"),
    ],
)
def test_wrong_arguments_of_a_decoder_are_named(arguments, keywords, message):
    with pytest.raises((TypeError, ValueError), match=message):
        KvEventDecoder(*arguments, **keywords)


@pytest.mark.parametrize("payload", ["text", 5, None, [1]])
def test_what_is_no_payload_is_named(payload, router):
    decoder = KvEventDecoder()
    with pytest.raises(TypeError, match="payload must be bytes, a bytearray or a memoryview"):
        decoder.decode(payload)
    with pytest.raises(TypeError, match="events must be a KvEventBatch, bytes, a bytearray or a"):
        router.apply_kv_events("a", payload)


@pytest.mark.parametrize("cls", [KvEvent, KvEventBatch, KvEventDecoder, KvEventStream])
def test_an_object_without_init_is_refused(cls):
    empty = cls.__new__(cls)
    name = next(name for name, member in vars(cls).items() if isinstance(member, property))
    with pytest.raises(TypeError, match="__init__"):
        getattr(empty, name)


def test_a_router_believes_what_an_engine_has_stored_and_removed(router, clock):
    tokens = list(range(64))
    result = router.apply_kv_events("a", KvEventBatch([stored([1, 2, 3, 4], tokens)]))
    assert nonzero(result.counts) == {"stored": 4}
    assert not result.needs_replay
    assert cached(router, tokens) == {"a": 64, "b": 0}
    assert router.decide(tokens).name == "a"

    result = router.apply_kv_events("a", KvEventBatch([KvEvent("removed", [3, 9])]))
    assert nonzero(result.counts) == {"removed": 1, "already_gone": 1}
    clock.advance(10)  # what was routed and not confirmed is forgotten
    assert cached(router, tokens) == {"a": 32, "b": 0}

    stats = router.stats()
    assert stats.kv_event_batches == 2
    assert nonzero(stats.kv_events) == {"stored": 4, "removed": 1, "already_gone": 1}
    a, b = stats.instances
    assert a.event_driven and not b.event_driven
    assert (a.last_event_age_s, b.last_event_age_s) == (10.0, None)
    assert a.engine_blocks == 3
    assert nonzero(a.kv_events) == nonzero(stats.kv_events)
    assert a.confirmed_blocks == {"gpu": 3, "cpu": 0, "disk": 0, "external": 0}

    assert nonzero(router.apply_kv_events("a", CLEARED).counts) == {"cleared": 1}
    assert cached(router, tokens) == {"a": 0, "b": 0}


def test_a_payload_does_the_same_as_its_batch(router):
    payload = prefixrouter.encode_kv_events(
        KvEventBatch([stored([5, 6], array.array("I", range(32)))])
    )
    decoder = KvEventDecoder()
    by_payload = router.apply_kv_events("a", payload, decoder)
    by_batch = router.apply_kv_events("b", decoder.decode(payload))
    assert by_payload.counts == by_batch.counts
    assert cached(router, list(range(32))) == {"a": 32, "b": 32}
    assert nonzero(router.apply_kv_events("a", memoryview(payload)).counts) == {"stored": 2}
    assert repr(by_payload) == "<KvApplyResult: stored 2>"


def test_other_threads_run_while_a_large_payload_is_applied(router):
    blocks = 20000
    large = stored(range(1, blocks + 1), array.array("I", range(16 * blocks)))
    payload = prefixrouter.encode_kv_events(KvEventBatch([large]))
    turns = 0
    done = threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.0001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        during = []
        while len(during) < 100 and max(during, default=0) <= 3:  # the machine may be busy
            before = turns
            result = router.apply_kv_events("a", payload)
            during.append(turns - before)
            assert result.counts["stored"] == blocks
    finally:
        done.set()
        thread.join()
    assert max(during) > 3, "with the GIL held there is at most one turn a call"


def test_a_block_without_its_parent_asks_for_a_replay(router):
    lost = KvEventBatch([stored([8], list(range(16)), parent=7)])
    result = router.apply_kv_events("a", lost)
    assert nonzero(result.counts) == {"unknown_parent": 1}
    assert result.needs_replay
    assert repr(result) == "<KvApplyResult: unknown_parent 1; needs a replay>"


def test_what_the_decoder_leaves_out_is_counted_by_the_router(router):
    assert router.apply_kv_events("a", VLLM_FULL).counts["unknown_event"] == 1
    assert router.stats().kv_events["unknown_event"] == 1


def test_events_for_an_instance_that_was_removed_change_nothing(router):
    gone = router.find_instance("a")
    router.remove_instance(gone)
    result = router.apply_kv_events(gone, KvEventBatch([stored([1], list(range(16)))]))
    assert nonzero(result.counts) == {"old_generation": 1}
    with pytest.raises(KeyError, match='no instance "a" of rank 0'):
        router.apply_kv_events("a", EMPTY)


def test_wrong_arguments_of_apply_are_named(router):
    with pytest.raises(ValueError, match="byte"):
        router.apply_kv_events("a", b"\xc1")
    with pytest.raises(TypeError, match="decoder must be a KvEventDecoder or None, got 'msgpack'"):
        router.apply_kv_events("a", EMPTY, "msgpack")
    with pytest.raises(TypeError, match="instance must be an Instance or the name of one, got 5"):
        router.apply_kv_events(5, EMPTY)
    router.close()
    with pytest.raises(prefixrouter.Error, match="closed"):
        router.apply_kv_events("a", EMPTY)


def test_models_adapters_salts_and_images_of_events_are_those_of_requests():
    router = prefixrouter.PrefixRouter(key_seed=1)
    router.add_instance("a", model="m")
    tokens = list(range(32))
    event = stored(
        [1, 2], tokens, adapter="lora", salt="tenant", multimodal=[(1, "picture", 3)]
    )
    router.apply_kv_events("a", KvEventBatch([event]))
    image = [(19, prefixrouter.multimodal_hash("picture"))]
    space = {"model": "m", "adapter": "lora", "salt": "tenant"}
    assert cached(router, tokens, multimodal=image, **space) == {"a": 32}
    assert cached(router, tokens, **space) == {"a": 16}, "the second block holds the image"
    for name in space:
        assert cached(router, tokens, multimodal=image, **{**space, name: ""}) == {"a": 0}


def test_identifiers_need_not_be_utf_8():
    event = stored([1], [1] * 16, multimodal=[(0, b"\xff\x00", None)])
    (payload,) = [prefixrouter.encode_kv_events(KvEventBatch([event]))]
    (again,) = KvEventDecoder().decode(payload)
    ((_, identifier, _),) = again.multimodal
    assert identifier == "\udcff\x00"
    assert prefixrouter.multimodal_hash(identifier) == prefixrouter.multimodal_hash(b"\xff\x00")


def test_tiers_below_the_gpu_count_at_their_weight():
    router = prefixrouter.PrefixRouter(cpu_tier_weight=0.25, disk_tier_weight=0)
    for name in ("cpu", "disk", "external"):
        router.add_instance(name)
        tokens = list(range(64))
        batch = KvEventBatch([stored([1, 2, 3, 4], tokens, tier=name)])
        router.apply_kv_events(name, batch)
    rows = {row.name: row for row in router.score(tokens).rows}
    assert [rows[name].cached_tokens for name in rows] == [64, 0, 64]
    assert [rows[name].cached_credit_tokens for name in rows] == [16, 0, 32]
    decision = router.decide(tokens, allowed=["external"])
    assert (decision.cached_tokens, decision.cached_credit_tokens) == (64, 32)
    with pytest.raises(ValueError, match="external_tier_weight.*1.5"):
        prefixrouter.PrefixRouter(external_tier_weight=1.5)


EVENTS = [
    stored([1, 2**64 - 1], list(range(8)), adapter="lora", tier="disk"),
    stored([3], [4, 2**32 - 1], parent=2**63, group=2),
    KvEvent("removed", [1, 2], tier="cpu"),
    KvEvent("cleared"),
]


@pytest.mark.parametrize("encoding", ["arrays", "maps"])
@pytest.mark.parametrize("bytes_ids", [False, True])
def test_what_is_encoded_is_decoded_as_it_was(encoding, bytes_ids):
    batch = KvEventBatch(EVENTS, timestamp_s=1e9, rank=2)
    payload = prefixrouter.encode_kv_events(batch, encoding, bytes_ids=bytes_ids)
    again = KvEventDecoder().decode(payload)
    assert (again.timestamp_s, again.rank) == (1e9, 2)
    assert [fields(event) for event in again] == [fields(event) for event in EVENTS]


def test_what_an_encoding_cannot_say_is_named():
    for encoding in ("arrays_short", "sglang_arrays"):
        with pytest.raises(ValueError, match="event 1: .*group"):
            prefixrouter.encode_kv_events(
                KvEventBatch([EVENTS[3], EVENTS[1]]), encoding
            )
    with pytest.raises(ValueError, match="encoding must be one of .*; got 'json'"):
        prefixrouter.encode_kv_events(CLEARED, "json")
    with pytest.raises(TypeError, match="batch must be a KvEventBatch, got"):
        prefixrouter.encode_kv_events([KvEvent("cleared")])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"kind": "kept"}, "kind must be one of stored, removed, cleared; got 'kept'"),
        ({"block_ids": [1, -1]}, r"block_ids\[1\] must be at least 0, got -1"),
        ({"block_ids": [2**64]}, r"block_ids\[0\] must be at most 18446744073709551615"),
        ({"block_ids": "12"}, "block_ids must be a list of ints, got '12'"),
        ({"parent_id": "1"}, "parent_id must be an int, got '1'"),
        ({"block_size": 2**32}, "block_size must be at most 4294967295"),
        ({"tokens": [1, -2]}, r"tokens\[1\] is -2"),
        ({"tokens": "text"}, "tokens must be token ids, got 'text'"),
        ({"tier": "GPU"}, "tier must be one of gpu, cpu, disk, external; got 'GPU'"),
        ({"attention": 1}, "attention must be a str, got 1"),
        ({"adapter": 3}, "adapter must be a str or bytes, got 3"),
        ({"multimodal": [(0, "x")]}, r"multimodal\[0\] must be \(block, identifier, offset\)"),
        ({"multimodal": [(0, "x", 0.5)]}, r"multimodal\[0\] offset must be an int, got 0.5"),
    ],
)
def test_wrong_fields_of_an_event_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        KvEvent(**{"kind": "stored", **arguments})


def test_wrong_parts_of_a_batch_are_named():
    with pytest.raises(TypeError, match=r"events\[1\] must be a KvEvent, got 5"):
        KvEventBatch([KvEvent("cleared"), 5])
    with pytest.raises(TypeError, match="timestamp_s must be a number, got 'now'"):
        KvEventBatch(timestamp_s="now")
    assert KvEventBatch(timestamp_s=math.nan).timestamp_s is None


def actions(some):
    """Actions as short as they can be told."""
    told = []
    for action in some:
        if action.kind == "apply":
            told.append(("apply", action.seq, action.payload))
        elif action.kind == "fetch":
            told.append(("fetch", action.fetch, action.seq, action.delay_s))
        else:
            told.append("clear")
    return told


def test_a_stream_fetches_what_is_missing_and_holds_what_comes_meanwhile(router):
    stream = KvEventStream(router.find_instance("a"))
    assert stream.instance is router.find_instance("a")
    assert actions(stream.push_live(0, b"0", 1.0)) == ["clear", ("apply", 0, b"0")]
    assert actions(stream.push_live(3, b"3", 2.0)) == [("fetch", 1, 0, 0.0)]
    assert stream.fetch == 1
    assert actions(stream.push_live(4, b"4", 2.5)) == []
    stats = stream.stats()
    assert (stats.state, stats.gaps, stats.held, stats.last_applied) == ("replaying", 1, 2, 0)
    assert actions(stream.push_replayed(1, 0, b"0", 3.0)) == []
    assert actions(stream.push_replayed(1, 1, bytearray(b"1"), 3.0)) == [("apply", 1, b"1")]
    assert actions(stream.push_replayed(9, 2, b"x", 3.0)) == [], "of another replay"
    assert actions(stream.push_replayed(1, 2, b"2", 3.0)) == [("apply", 2, b"2")]
    ended = stream.replay_ended(1, 3.5)
    assert actions(ended) == [("apply", 3, b"3"), ("apply", 4, b"4")]
    stats = stream.stats()
    assert (stats.state, stats.complete, stats.applied, stats.applied_replay) == (
        "live", True, 5, 2,
    )
    assert (stats.ignored, stats.lost, stats.last_live_s) == (1, 0, 2.5)
    assert stream.fetch is None
    assert repr(stream) == "<KvEventStream of <Instance 'a' rank 0>: live>"


def test_a_stream_sees_a_restart_and_a_replay_that_fails(router):
    stream = KvEventStream(router.find_instance("a"), replay_attempts=2, retry_delay_s=0.5)
    for seq in range(3):
        stream.push_live(seq, b"%d" % seq)
    assert actions(stream.push_live(0, b"new")) == ["clear", ("apply", 0, b"new")]
    assert stream.stats().restarts == 1
    (fetch,) = stream.push_live(2, b"2")
    assert repr(fetch) == "<KvStreamAction fetch 1 from 0>"
    (again,) = stream.replay_failed(fetch.fetch)
    assert (again.kind, again.fetch, again.delay_s) == ("fetch", 2, 0.5)
    assert actions(stream.replay_failed(again.fetch)) == ["clear", ("apply", 2, b"2")]
    assert stream.stats().lost == 1


def test_a_stream_without_replay_without_numbers_and_without_an_instance(router):
    stream = KvEventStream(router.find_instance("a"), has_replay=False, clear_on_loss=False)
    stream.push_live(0, b"0")
    assert actions(stream.push_live(2, b"2")) == [("apply", 2, b"2")]
    assert actions(stream.push_live(None, b"x")) == ["clear", ("apply", None, b"x")]
    assert actions(stream.push_live(None, b"y")) == [("apply", None, b"y")]
    stream.count_malformed()
    stats = stream.stats()
    assert (stats.lost, stats.unnumbered, stats.malformed) == (1, 2, 1)
    stream.retire()
    assert actions(stream.push_live(3, b"3")) == []
    assert stream.stats().state == "retired"
    stream.bind(router.find_instance("b"))
    assert stream.instance.name == "b" and stream.stats().state == "waiting"
    stream.connected()
    assert stream.stats().connected
    stream.disconnected()
    assert not stream.stats().connected


def test_a_payload_that_is_applied_at_once_is_not_copied(router):
    stream = KvEventStream(router.find_instance("a"))
    payload = bytes(1000)
    _, apply = stream.push_live(0, payload)
    assert apply.payload is payload


def test_a_stream_checks_for_what_no_later_message_has_shown(router):
    stream = KvEventStream(router.find_instance("a"))
    stream.push_live(0, b"0")
    assert actions(stream.check()) == [("fetch", 1, 0, 0.0)]
    assert actions(stream.push_replayed(1, 0, b"0")) == []
    assert actions(stream.push_replayed(1, 1, b"1")) == [("apply", 1, b"1")]
    assert actions(stream.replay_ended(1)) == []
    assert stream.stats().complete


@pytest.mark.parametrize(
    "keywords, message",
    [
        ({"max_held_messages": 0}, "max_held_messages"),
        ({"max_held_bytes": -1}, "max_held_bytes must be at least 0, got -1"),
        ({"replay_attempts": 0}, "replay_attempts"),
        ({"retry_delay_s": 4000}, "retry_delay_s.*4000"),
        ({"has_replay": 1}, "has_replay must be True or False, got 1"),
    ],
)
def test_wrong_arguments_of_a_stream_are_named(router, keywords, message):
    with pytest.raises((TypeError, ValueError), match=message):
        KvEventStream(router.find_instance("a"), **keywords)


def test_wrong_input_of_a_stream_is_named(router):
    with pytest.raises(TypeError, match="instance must be an Instance, got 'a'"):
        KvEventStream("a")
    stream = KvEventStream(router.find_instance("a"))
    with pytest.raises(ValueError, match="seq must be at least 0, got -1"):
        stream.push_live(-1, b"")
    with pytest.raises(TypeError, match="payload must be bytes"):
        stream.push_live(0, None)
    with pytest.raises(TypeError, match="now_s must be a number, got 'x'"):
        stream.push_live(0, b"", "x")
    assert actions(stream.push_live(2**64 - 1, b"")) == []
    assert stream.stats().malformed == 1, "the number that ends replays"
