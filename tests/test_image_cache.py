import io
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import plain
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import foveal
from foveal.backends import ServerInfo, assemble
from foveal.backends.shm import namespace_id
from foveal.errors import OptionError
from foveal.image_cache import CacheStats, ImageCache, Key
from foveal.media.sources import Source

SIZES = [(60, 80), (90, 50), (48, 140)]
PLENTY = 1 << 30


def pictures(one_size=False):
    random = np.random.default_rng(7)
    return [random.integers(0, 256, (*size, 3), np.uint8) for size in (SIZES[:1] * 3 if one_size else SIZES)]


def png(array):
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def processed(preprocessor, images, cache=None, **options):
    tokens = preprocessor.spec.tokens
    ids = plain.prompt(tokens, len(images))
    return preprocessor.process(ids, images, encode=plain.encode(tokens), cache=cache, **options)


@pytest.fixture
def decodes(monkeypatch):
    """Return a list that grows with each image that is decoded."""
    seen, decode = [], Source.decode
    monkeypatch.setattr(Source, "decode", lambda self: (seen.append(self.size), decode(self))[1])
    return seen


@pytest.fixture(scope="module")
def qwen():
    return foveal.Preprocessor.from_spec("qwen2_5_vl")


@pytest.fixture(scope="module")
def plan(qwen):
    return qwen.plan(60, 80)


# ---- in requests


@pytest.mark.parametrize("threads", [1, 4])  # with more threads than images, all are decoded before any is written
@pytest.mark.parametrize("backend", ["vllm", "sglang", "tokenspeed"])
@pytest.mark.parametrize("name", ["qwen2_5_vl", "llama4", "idefics3", "llava_next", "pixtral", "phi4mm", "gemma4"])
def test_requests_have_the_bytes_of_those_without_a_cache(name, backend, threads, decodes):
    if backend == "sglang" and name not in plain.SGLANG:
        return
    preprocessor, cache = foveal.Preprocessor.from_spec(name), ImageCache(PLENTY)
    images, info = [png(array) for array in pictures(name in plain.ONE_SIZE)], ServerInfo(encoder_dtype="bfloat16")

    def message(images, cache=None):
        decodes.clear()
        ready = processed(preprocessor, images, cache)
        return assemble(ready, backend, info, request_id="r", threads=threads).message()

    expected = message(images)
    message(images[1:2], cache)
    for decoded in (2, 0):
        assert message(images, cache) == expected
        assert len(decodes) == decoded
    assert message(images[::-1], cache) == message(images[::-1])


def test_backends_share_what_they_send_alike(qwen, decodes):
    cache, images, info = ImageCache(PLENTY), [png(array) for array in pictures()], ServerInfo()
    for backend in ("vllm", "sglang", "tokenspeed"):
        assemble(processed(qwen, images, cache), backend, info)
    assert len(decodes) == 3
    assert cache.stats().hits == 6
    assemble(processed(qwen, images, cache), "vllm", ServerInfo(encoder_dtype="float16"))
    assemble(processed(qwen, images, cache), "vllm", ServerInfo(device_normalize=True))
    assert len(decodes) == 9


def test_images_of_every_kind_are_found_by_what_they_show(qwen, decodes):
    cache, array = ImageCache(PLENTY), pictures()[0]
    for _ in range(2):
        for image in (png(array), Image.fromarray(array), array.copy()):
            ready = processed(qwen, [image], cache)
            assert assemble(ready, "vllm", request_id="r").message() == plain.vllm(qwen, ready, [array], ServerInfo())
    assert cache.stats().misses == 3
    changed = array.copy()
    changed[5, 5, 1] ^= 1
    decodes.clear()
    assemble(processed(qwen, [changed], cache), "vllm")
    assert len(decodes) == 1


@pytest.mark.parametrize("options", [{"max_pixels": 3136}, {"image_mean": [0.1, 0.2, 0.3]}, {"policy": "sglang"}])
def test_other_pixels_are_not_taken(options, qwen):
    rgba = np.dstack([pictures()[0], np.full((60, 80), 100, np.uint8)])
    cache = ImageCache(PLENTY)
    assemble(processed(qwen, [png(rgba)], cache), "vllm")
    expected = assemble(processed(qwen, [png(rgba)], **options), "vllm", request_id="r")
    assert (
        assemble(processed(qwen, [png(rgba)], cache, **options), "vllm", request_id="r").message() == expected.message()
    )
    assert cache.stats().misses == 2


def test_shared_memory_holds_the_same(qwen):
    cache, images, info = ImageCache(PLENTY), pictures(), ServerInfo(shm_namespace=namespace_id())
    expected = assemble(processed(qwen, images), "vllm", info).message().mm_inputs.pixel_values.inline
    for _ in range(2):
        request = assemble(processed(qwen, images, cache), "vllm", info, transport="shm")
        name = request.message().mm_inputs.pixel_values.shm.name
        assert Path("/dev/shm", name).read_bytes() == expected
        request.discard()
    assert cache.stats().hits == 3


def test_trtllm_asks_for_nothing(qwen):
    cache, images = ImageCache(PLENTY), [png(array) for array in pictures()]
    request = assemble(processed(qwen, images, cache), "trtllm", request_id="r")
    assert request.message() == assemble(processed(qwen, images), "trtllm", request_id="r").message()
    assert cache.stats() == CacheStats(0, 0, 0, 0, 0, PLENTY)


def test_an_image_that_cannot_be_decoded_is_not_kept(qwen):
    cache, images = ImageCache(PLENTY), [png(pictures()[0]), png(pictures()[1])[:-60]]
    for _ in range(2):
        with pytest.raises(foveal.CorruptImage, match=r"^image 1: "):
            assemble(processed(qwen, images, cache), "vllm")
    assert cache.stats().images == 0


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_array_that_changes_is_neither_found_nor_kept(qwen, when, monkeypatch):
    cache, array, info = ImageCache(PLENTY), pictures()[0], ServerInfo()
    kept = array.copy()
    if when == "meanwhile":
        decode = Source.decode
        monkeypatch.setattr(Source, "decode", lambda self: (array.__setitem__((0, 0), 7), decode(self))[1])
    else:
        assemble(processed(qwen, [array], cache), "vllm", info)
    ready = processed(qwen, [array], cache)
    assert len(ready.identities) == 1
    if when == "before":
        array[0, 0] = 7
    with pytest.raises(foveal.MediaError, match=r"^image 0: it was changed after it had been hashed$"):
        assemble(ready, "sglang", info)
    monkeypatch.undo()
    found = assemble(processed(qwen, [kept], cache), "sglang", info, request_id="r")
    assert found.message() == assemble(processed(qwen, [kept]), "sglang", info, request_id="r").message()


def test_images_that_are_padded_to_the_largest():
    """Other images decide how much; no engine takes them so, but the tensor that a caller writes may be."""
    pixtral, cache, images = foveal.Preprocessor.from_spec("pixtral"), ImageCache(PLENTY), pictures()
    tokens = pixtral.spec.tokens
    for chosen, hits in ((images, 0), (images, 3), (images[:2], 3), (images[1:], 5)):
        ids = plain.prompt(tokens, len(chosen))
        ready = pixtral.process(ids, chosen, encode=plain.encode(tokens), cache=cache)
        out = np.full(pixtral.plan(chosen).shape, np.nan, np.float32)
        ready.write(pixtral.plan(chosen), "float32", out)
        np.testing.assert_array_equal(out, pixtral(chosen)["pixel_values"])
        assert cache.stats().hits == hits


def test_what_is_sent_may_be_changed_afterwards(qwen):
    cache, images = ImageCache(PLENTY), pictures()
    ready = processed(qwen, images, cache)
    batch = qwen.plan(images)
    first, second = (np.empty(batch.shape, np.float32) for _ in range(2))
    ready.write(batch, "float32", first)
    kept = first.copy()
    first.fill(0)
    ready.write(batch, "float32", second)
    assert np.array_equal(second, kept)
    assert cache.stats().hits == 3


def test_requests_at_the_same_time(qwen):
    images = [png(array) for array in pictures()]
    size = len(assemble(processed(qwen, images[:1]), "vllm").message().mm_inputs.pixel_values.inline)
    cache = ImageCache(3 * size)  # of the three images not all fit, so that entries come and go all the time
    expected = [assemble(processed(qwen, [image]), "vllm", request_id="r").message() for image in images]
    barrier = threading.Barrier(6)

    def work(number):
        barrier.wait()
        turns = [(number + turn) % 3 for turn in range(20)]
        found = [assemble(processed(qwen, [images[turn]], cache), "vllm", request_id="r") for turn in turns]
        return all(one.message() == expected[turn] for one, turn in zip(found, turns, strict=True))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
    stats = cache.stats()
    assert stats.hits + stats.misses == 120
    assert 0 < stats.bytes <= stats.max_bytes


def test_a_bound_may_be_a_number_of_numpys():
    assert type(ImageCache(np.int64(5)).stats().max_bytes) is int


def test_only_a_cache_is_one(qwen):
    with pytest.raises(OptionError, match=r"^cache must be an ImageCache$"):
        processed(qwen, [], cache={})
    for wrong in (-1, 1.5, True, "1GB", None):
        with pytest.raises(OptionError, match=r"^max_bytes must be a whole number of at least 0$"):
            ImageCache(wrong)


# ---- the cache alone


@given(
    limit=st.integers(0, 40),
    steps=st.lists(
        st.tuples(st.sampled_from(["get", "put", "clear"]), st.integers(0, 5), st.integers(0, 20)), max_size=60
    ),
)
def test_it_does_what_a_list_does(limit, steps, plan):
    cache, model, counts = ImageCache(limit), [], [0, 0, 0]
    for step, (kind, number, size) in enumerate(steps):
        key = Key(f"{number:064}", plan, "uint8")
        place = next((index for index, (known, _) in enumerate(model) if known == key), None)
        if kind == "put":
            part = np.full(size, step, np.uint8)
            cache.put(key, part)
            if size <= limit:
                model = [entry for entry in model if entry[0] != key] + [(key, part.copy())]
            part.fill(255)
            while sum(held.nbytes for _, held in model) > limit:
                del model[0]
                counts[2] += 1
        elif kind == "clear":
            cache.clear()
            model.clear()
        else:
            found = cache.get(key)
            counts[0 if place is not None else 1] += 1
            if place is None:
                assert found is None
            else:
                model.append(model.pop(place))
                assert np.array_equal(found, model[-1][1])
        held = sum(part.nbytes for _, part in model)
        assert cache.stats() == CacheStats(*counts, len(model), held, limit)


def test_parts_cannot_be_written(plan):
    cache = ImageCache(100)
    key = Key("a" * 64, plan, "uint8")
    cache.put(key, np.zeros(5, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        cache.get(key)[0] = 1


def test_memory_that_cannot_be_had_fails_nothing(plan, monkeypatch):
    def refuse(*arguments):
        raise MemoryError

    monkeypatch.setattr("foveal.image_cache.aligned_empty", refuse)
    cache = ImageCache(100)
    cache.put(Key("a" * 64, plan, "uint8"), np.zeros(5, np.uint8))
    assert cache.stats().images == 0


def in_child(cache, key, answers):
    cache.put(key, np.ones(3, np.uint8))
    answers.put(cache.stats().images)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_begins_with_nothing_and_does_not_wait(plan):
    cache, context = ImageCache(100), multiprocessing.get_context("fork")
    cache.put(Key("a" * 64, plan, "uint8"), np.zeros(5, np.uint8))
    answers = context.SimpleQueue()
    with cache._lock:  # as another thread may hold it
        child = context.Process(target=in_child, args=(cache, Key("b" * 64, plan, "uint8"), answers))
        child.start()
    child.join(60)
    assert (child.exitcode, answers.get()) == (0, 1)
    assert cache.stats().images == 1
