"""KvEventSubscriber against engines of pyzmq and msgpack, which share no code with it.

The engine publishes what an LRU cache of blocks does. The oracle is that cache: once the stream is
quiet, each prompt must match exactly as many tokens as the engine holds of it.
"""

import collections
import gc
import random
import threading
import time
import weakref

import pytest

import prefixrouter

msgpack = pytest.importorskip("msgpack")
zmq = pytest.importorskip("zmq")

BLOCK = 16
END_OF_REPLAY = b"\xff" * 8


def made_without_libzmq():
    try:
        prefixrouter.KvEventSubscriber(prefixrouter.PrefixRouter())
    except prefixrouter.Error as error:
        return error
    return None


needs_libzmq = pytest.mark.skipif(
    made_without_libzmq() is not None, reason="the package is built without libzmq"
)


@pytest.mark.skipif(made_without_libzmq() is None, reason="the package is built with libzmq")
def test_a_package_without_libzmq_says_what_is_missing():
    error = made_without_libzmq()
    assert error.code == prefixrouter.StatusCode.UNIMPLEMENTED
    assert "libzmq" in str(error) and "PREFIX_ROUTER_WITH_ZMQ" in str(error)


def eventually(check, seconds=10):
    """Waits until check() is true."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it has not come true"
        time.sleep(0.005)


class Engine:
    """One rank of an engine: a cache of blocks, a live socket, a replay socket.

    Prompts are tuples of block numbers; a block's tokens are its number, 16 times.
    """

    def __init__(self, endpoint="tcp://127.0.0.1:0", *, replay="tcp://127.0.0.1:0", connect=False,
                 maps=True, new_framing=True, topic=b"", capacity=64, history=10000, seed=1):
        self.maps, self.new_framing, self.topic = maps, new_framing, topic
        self.capacity = capacity
        self.random = random.Random(seed)
        self.history = collections.deque(maxlen=history)
        self.held = {}  # prompt up to and with the block -> its hash; least recently used first
        self.seq = 0
        self.lock = threading.Lock()
        self.context = zmq.Context()
        self.live = self.context.socket(zmq.XPUB)  # as PUB, and tells who has subscribed
        self.replay = self.context.socket(zmq.ROUTER)
        try:
            if connect:
                self.live.connect(endpoint)
            else:
                self.live.bind(endpoint)
            self.replay.bind(replay)
        except zmq.ZMQError:
            self.context.destroy(linger=0)
            raise
        self.endpoint = self.live.last_endpoint.decode().rstrip("\0")
        self.replay_endpoint = self.replay.last_endpoint.decode().rstrip("\0")
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.serve_replays)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.closing.set()
        self.thread.join()
        self.context.destroy(linger=0)

    def serve_replays(self):
        while not self.closing.is_set():
            if not self.replay.poll(20):
                continue
            client, empty, start = self.replay.recv_multipart()
            assert empty == b""
            with self.lock:
                kept = list(self.history)
            topic = [self.topic] if self.new_framing else []
            for seq, payload in kept:
                if seq >= int.from_bytes(start, "big"):
                    self.replay.send_multipart(
                        [client, b"", *topic, seq.to_bytes(8, "big"), payload]
                    )
            no_topic = [b""] if self.new_framing else []
            self.replay.send_multipart([client, b"", *no_topic, END_OF_REPLAY, b""])

    def wait_for_subscriber(self):
        assert self.live.poll(10000), "nobody has subscribed"
        assert self.live.recv()[:1] == b"\x01"

    def publish(self, events, drop=False):
        """Sends a batch; with `drop` it is lost on the way, as beyond a high-water mark."""
        payload = msgpack.packb([time.time(), events, None])
        with self.lock:
            self.history.append((self.seq, payload))
        if not drop:
            self.live.send_multipart([self.topic, self.seq.to_bytes(8, "big"), payload])
        self.seq += 1

    def event(self, tag, **fields):
        return {"type": tag, **fields} if self.maps else [tag, *fields.values()]

    def stored(self, prompt, hashes):
        parent = prompt[: len(prompt) - len(hashes)]
        return self.event(
            "BlockStored",
            block_hashes=hashes,
            parent_block_hash=self.held[parent] if parent else None,
            token_ids=[block for block in prompt[len(parent) :] for _ in range(BLOCK)],
            block_size=BLOCK,
            lora_id=None,
            medium="GPU",
            lora_name=None,
        )

    def prefill(self, prompt, drop=False):
        """Caches a prompt, and evicts the ends of others: one batch."""
        known = 0
        while known < len(prompt) and prompt[: known + 1] in self.held:
            known += 1
            self.held[prompt[:known]] = self.held.pop(prompt[:known])
        events = []
        if known < len(prompt):
            hashes = [self.random.getrandbits(64) for _ in prompt[known:]]
            events.append(self.stored(prompt, hashes))
            for i, number in enumerate(hashes):
                self.held[prompt[: known + i + 1]] = number
        parents = {chain[:-1] for chain in self.held}
        for chain in list(self.held):
            if len(self.held) <= self.capacity:
                break
            if chain in parents or chain == prompt:
                continue
            removed = self.held.pop(chain)
            parents = {chain[:-1] for chain in self.held}
            events.append(self.event("BlockRemoved", block_hashes=[removed], medium="GPU"))
        self.publish(events, drop)

    def cached_tokens(self, prompt):
        known = 0
        while known < len(prompt) and prompt[: known + 1] in self.held:
            known += 1
        return known * BLOCK


def make_prompts(seed, count=40):
    """Prompts that share beginnings."""
    source = random.Random(seed)
    return [
        (source.randrange(3), *(source.randrange(4) for _ in range(source.randrange(1, 8))))
        for _ in range(count)
    ]


PROMPTS = make_prompts(7)


def tokens(prompt):
    return [block for block in prompt for _ in range(BLOCK)]


def exact(router, engine, instance):
    """Whether the router knows of each prompt what the engine holds, no less and no more."""
    return all(
        row.cached_tokens == engine.cached_tokens(prompt)
        for prompt in PROMPTS
        for row in router.score(tokens(prompt)).rows
        if row.instance is instance
    )


@pytest.fixture
def router():
    router = prefixrouter.PrefixRouter(block_size=BLOCK)
    yield router
    router.close()


def subscribe(router, **keywords):
    return prefixrouter.KvEventSubscriber(
        router, reconnect_s=0.01, max_reconnect_s=0.05, replay_timeout_s=2, **keywords
    )


def only(subscriber):
    (publisher,) = subscriber.stats().publishers
    return publisher


def in_order(subscriber, engine):
    """The last message is applied, and nothing is missing."""
    stream = only(subscriber).stream
    return stream.state == "live" and stream.last_applied == engine.seq - 1


@needs_libzmq
@pytest.mark.parametrize("maps", [False, True])
def test_matches_are_exact_after_live_messages(router, maps):
    a, b = router.add_instance("a"), router.add_instance("b")
    with Engine(maps=maps) as engine, subscribe(router) as subscriber:
        source = subscriber.add(engine.endpoint, a, replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        for prompt in PROMPTS:
            engine.prefill(prompt)
        eventually(lambda: in_order(subscriber, engine))
        engine.prefill(PROMPTS[0])  # with nothing to be replayed
        eventually(lambda: in_order(subscriber, engine))
        assert any(engine.cached_tokens(prompt) for prompt in PROMPTS)
        assert len(engine.held) == engine.capacity, "something was evicted"
        assert exact(router, engine, a)
        assert router.score(tokens(PROMPTS[0])).rows[1].cached_tokens == 0, b

        stats = subscriber.stats()
        assert stats.running
        (publisher,) = stats.publishers
        assert (publisher.source, publisher.rank) == (source, 0)
        assert publisher.endpoint == engine.endpoint
        assert publisher.connects == 1 and publisher.disconnects == 0
        assert publisher.messages >= len(PROMPTS) and publisher.bytes > 0
        assert (publisher.bad_frames, publisher.undecodable, publisher.refused) == (0, 0, 0)
        assert publisher.last_error == ""
        assert publisher.stream.complete and publisher.stream.lost == 0
        assert 0 <= publisher.lag_s < 10 and 0 <= publisher.silent_s < 10
        instance = next(s for s in router.stats().instances if s.instance is a)
        assert instance.event_driven and instance.engine_blocks == len(engine.held)
    assert not subscriber.stats().running


@needs_libzmq
@pytest.mark.parametrize("new_framing", [False, True])
def test_what_is_dropped_is_fetched_from_the_replay_socket(router, new_framing):
    a = router.add_instance("a")
    with Engine(new_framing=new_framing) as engine, subscribe(router) as subscriber:
        for prompt in PROMPTS[:5]:
            engine.prefill(prompt)  # before anyone listens: known by a replay alone
        subscriber.add(engine.endpoint, a, replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        eventually(lambda: in_order(subscriber, engine))
        assert exact(router, engine, a)
        for i, prompt in enumerate(PROMPTS[5:]):
            engine.prefill(prompt, drop=i % 3 == 0)
        engine.prefill(PROMPTS[0])
        eventually(lambda: in_order(subscriber, engine))
        assert exact(router, engine, a)
        stream = only(subscriber).stream
        assert stream.gaps >= 1 and stream.replays >= 2 and stream.lost == 0
        assert stream.applied_replay >= 5 and stream.complete


@needs_libzmq
def test_an_engine_that_has_restarted_is_known_anew(router):
    a = router.add_instance("a")
    subscriber = subscribe(router)
    with subscriber:
        with Engine() as engine:
            subscriber.add(engine.endpoint, a, replay_endpoint=engine.replay_endpoint)
            engine.wait_for_subscriber()
            for prompt in PROMPTS:
                engine.prefill(prompt)
            eventually(lambda: in_order(subscriber, engine))
        with Engine(engine.endpoint, replay=engine.replay_endpoint, seed=2) as fresh:
            fresh.wait_for_subscriber()
            for prompt in PROMPTS[:3]:
                fresh.prefill(prompt)
            eventually(lambda: exact(router, fresh, a))
            eventually(lambda: in_order(subscriber, fresh))
            assert exact(router, fresh, a)
            publisher = only(subscriber)
            assert publisher.stream.restarts == 1
            assert (publisher.connects, publisher.disconnects) == (2, 1)


@needs_libzmq
def test_what_no_replay_can_bring_is_lost_and_leaves_no_false_match(router):
    a = router.add_instance("a")
    with Engine(history=2) as engine, subscribe(router) as subscriber:
        subscriber.add(engine.endpoint, a, replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        for prompt in PROMPTS[:10]:
            engine.prefill(prompt)
        eventually(lambda: in_order(subscriber, engine))
        for prompt in PROMPTS[10:]:
            engine.prefill(prompt, drop=True)
        engine.prefill(PROMPTS[0])
        eventually(lambda: in_order(subscriber, engine))
        assert only(subscriber).stream.lost > 0
        for prompt in PROMPTS:
            (row,) = router.score(tokens(prompt)).rows
            assert row.cached_tokens <= engine.cached_tokens(prompt)


@needs_libzmq
def test_engines_that_connect_to_a_subscriber_are_told_apart_by_topics(router, tmp_path):
    endpoint = f"ipc://{tmp_path}/events"
    instances = [router.add_instance(name) for name in "ab"]
    with subscribe(router) as subscriber:
        for instance in instances:
            subscriber.add(endpoint, instance, bind=True, topic=f"kv@{instance.name}@")
        topics = [b"kv@a@m", b"kv@b@m"]
        with Engine(endpoint, connect=True, topic=topics[0], seed=1) as a:
            with Engine(endpoint, connect=True, topic=topics[1], seed=2) as b:
                for engine in (a, b):
                    engine.wait_for_subscriber()
                for i, prompt in enumerate(PROMPTS):
                    (a if i % 2 else b).prefill(prompt)
                eventually(
                    lambda: [p.stream.last_applied for p in subscriber.stats().publishers]
                    == [a.seq - 1, b.seq - 1]
                )
                assert exact(router, a, instances[0]) and exact(router, b, instances[1])


@needs_libzmq
def test_each_rank_publishes_at_a_port_of_its_own(router):
    ranks = [router.add_instance("a", rank) for rank in range(2)]
    with Engine(seed=1) as first:
        port = int(first.endpoint.rsplit(":", 1)[1])
        try:
            second = Engine(f"tcp://127.0.0.1:{port + 1}", seed=2)
        except zmq.ZMQError:
            pytest.skip(f"port {port + 1} is in use")
        with second, subscribe(router) as subscriber:
            subscriber.add(first.endpoint, ranks)
            for engine in (first, second):
                engine.wait_for_subscriber()
            for i, prompt in enumerate(PROMPTS):
                (first if i % 2 else second).prefill(prompt)
            eventually(
                lambda: [p.stream.last_applied for p in subscriber.stats().publishers]
                == [first.seq - 1, second.seq - 1]
            )
            assert exact(router, first, ranks[0]) and exact(router, second, ranks[1])


@needs_libzmq
def test_bad_messages_cost_themselves_alone(router):
    a = router.add_instance("a")
    with Engine() as engine, subscribe(router) as subscriber:
        subscriber.add(engine.endpoint, a, replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        engine.live.send_multipart([b"", b"short", b"payload"])
        engine.publish("no events")
        engine.publish([{"type": "Later"}])
        for prompt in PROMPTS:
            engine.prefill(prompt)
        eventually(lambda: in_order(subscriber, engine))
        assert exact(router, engine, a)
        publisher = only(subscriber)
        assert (publisher.bad_frames, publisher.undecodable) == (1, 1)
        assert publisher.skipped["unknown_event"] == 1
        assert publisher.last_error != ""


@needs_libzmq
def test_an_instance_that_is_removed_and_a_router_that_is_closed_end_the_stream(router):
    a = router.add_instance("a")
    with Engine() as engine, subscribe(router) as subscriber:
        subscriber.add(engine.endpoint, "a", replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        engine.prefill(PROMPTS[0])
        eventually(lambda: in_order(subscriber, engine))
        router.remove_instance(a)
        engine.prefill(PROMPTS[1])
        eventually(lambda: only(subscriber).stream.state == "retired")
    b = router.add_instance("b")
    with Engine() as engine, subscribe(router) as subscriber:
        subscriber.add(engine.endpoint, b, replay_endpoint=engine.replay_endpoint)
        engine.wait_for_subscriber()
        engine.prefill(PROMPTS[0])
        eventually(lambda: in_order(subscriber, engine))
        router.close()
        engine.prefill(PROMPTS[1])
        eventually(lambda: only(subscriber).stream.state == "retired")
        with pytest.raises(prefixrouter.Error, match="closed"):
            subscriber.add("tcp://127.0.0.1:1", b)


@needs_libzmq
def test_a_stopped_subscriber_fetches_what_it_missed_when_it_starts_again(router):
    a = router.add_instance("a")
    subscriber = subscribe(router)
    subscriber.stop()
    with Engine() as engine:
        source = subscriber.add(engine.endpoint, [a], replay_endpoint=engine.replay_endpoint)
        subscriber.start()
        with pytest.raises(prefixrouter.Error) as caught:
            subscriber.start()
        assert caught.value.code == prefixrouter.StatusCode.FAILED_PRECONDITION
        engine.wait_for_subscriber()
        for prompt in PROMPTS[:20]:
            engine.prefill(prompt)
        eventually(lambda: in_order(subscriber, engine))
        subscriber.stop()
        subscriber.stop()
        for prompt in PROMPTS[20:]:
            engine.prefill(prompt)
        assert not exact(router, engine, a)
        subscriber.start()
        eventually(lambda: in_order(subscriber, engine))
        assert exact(router, engine, a)
        subscriber.remove(source)
        assert subscriber.stats().publishers == ()
        subscriber.stop()


@needs_libzmq
def test_a_subscriber_that_is_dropped_while_it_runs_ends(router):
    subscriber = subscribe(router)
    subscriber.add("tcp://127.0.0.1:9", router.add_instance("a"))
    before = threading.active_count()
    subscriber.start()
    assert threading.active_count() == before, "its thread is none of Python's"
    del subscriber
    router.close()


@needs_libzmq
def test_a_gateway_whose_policy_knows_the_subscriber_is_collected():
    class Gateway:
        def __init__(self):
            self.router = prefixrouter.PrefixRouter(policy=self.cost)
            self.subscriber = subscribe(self.router)

        def cost(self, fleet):
            return [0.0] * fleet.size

    gateway = Gateway()
    gateway.subscriber.start()
    gone = weakref.ref(gateway)
    del gateway
    gc.collect()
    assert gone() is None


@needs_libzmq
@pytest.mark.parametrize(
    "arguments, keywords, exception, message",
    [
        (["here", "a"], {}, ValueError, "here"),
        (["tcp://127.0.0.1:70000", "a"], {}, ValueError, "70000"),
        (["tcp://127.0.0.1:5557", []], {}, ValueError, "instance"),
        (["tcp://127.0.0.1:5557", 5], {}, TypeError, "instances must be an Instance, .* got 5"),
        (["tcp://127.0.0.1:5557", ["a", 5]], {}, TypeError, r"instances\[1\] must be an Instance"),
        (["tcp://127.0.0.1:5557", "x"], {}, KeyError, "x"),
        ([5, "a"], {}, TypeError, "endpoint must be a str, got 5"),
        (["tcp://127.0.0.1:5557", "a"], {"bind": 1}, TypeError, "bind must be True or False"),
        (["tcp://127.0.0.1:5557", "a"], {"replay_endpoint": "x"}, ValueError, "x"),
        (["tcp://127.0.0.1:5557", "a"], {"topic": 1}, TypeError, "topic must be a str or bytes"),
    ],
)
def test_wrong_sources_are_named(router, arguments, keywords, exception, message):
    router.add_instance("a")
    with pytest.raises(exception, match=message):
        subscribe(router).add(*arguments, **keywords)


@needs_libzmq
def test_wrong_arguments_of_a_subscriber_are_named(router):
    router.add_instance("a")
    with pytest.raises(TypeError, match="router must be a PrefixRouter, got None"):
        prefixrouter.KvEventSubscriber(None)
    for name, value in (
        ("replay_timeout_s", 0),
        ("max_reconnect_s", 4000),
        ("receive_high_water_mark", 0),
        ("max_message_bytes", 2**41),
        ("max_held_messages", 0),
    ):
        with pytest.raises(ValueError, match=name):
            prefixrouter.KvEventSubscriber(router, **{name: value})
    subscriber = subscribe(router)
    with pytest.raises(KeyError, match="7"):
        subscriber.remove(7)
    subscriber.add("tcp://127.0.0.1:5557", "a")
    with pytest.raises(prefixrouter.Error) as caught:
        subscriber.add("tcp://127.0.0.1:5557", "a")
    assert caught.value.code == prefixrouter.StatusCode.ALREADY_EXISTS
    with pytest.raises(TypeError, match="__init__"):
        prefixrouter.KvEventSubscriber.__new__(prefixrouter.KvEventSubscriber).stop()
    router.close()
    with pytest.raises(prefixrouter.Error, match="closed"):
        prefixrouter.KvEventSubscriber(router)
