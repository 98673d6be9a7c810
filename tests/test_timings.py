import asyncio
import io
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal import timings
from foveal.timings import PARTS, STAGES, Timings, bound_stage, collected, stage, timed

PAD = 151655
VLLM = {
    "get_mm_hashes_secs",
    "get_cache_missing_items_secs",
    "apply_hf_processor_secs",
    "merge_mm_kwargs_secs",
    "apply_prompt_updates_secs",
    "preprocessor_total_secs",
}
"""Source: vllm 0.33.0, multimodal/processing/processor.py."""


def png(height=60, width=80):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def qwen():
    return foveal.Preprocessor.from_spec("qwen2_5_vl")


def test_every_stage_of_a_request(qwen):
    cache = foveal.ImageCache(1 << 30)
    with collected() as calls:
        for _ in range(2):
            foveal.assemble(qwen.process([PAD, PAD], [png(), png(90, 50)], cache=cache), "vllm")
    process, miss, _, hit = calls
    assert [call.call for call in calls] == ["process", "assemble vllm"] * 2
    assert {call.images for call in calls} == {2}
    assert set(process.seconds) == {"get_mm_hashes", "apply_hf_processor", "plan", "apply_prompt_updates"}
    common = {"get_cache_missing_items", "apply_hf_processor", "merge_mm_kwargs", "small_tensors"}
    assert set(miss.seconds) == common | {"decode", "resize"}
    assert set(hit.seconds) == common | {"copy"}
    for call in calls:
        assert min(call.seconds.values()) >= 0
        assert 0 < sum(call.seconds.get(name, 0) for name in STAGES) <= call.total
    assert set(process.stats()) | set(miss.stats()) == VLLM
    assert process.stats()["preprocessor_total_secs"] == pytest.approx(
        sum(process.seconds[name] for name in STAGES[1:] if name in process.seconds)
    )


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_every_stage_of_a_call(qwen, threads, on_error):
    with collected() as calls:
        qwen([png(), png(700, 900)], threads=threads, on_error=on_error)
        qwen(png(), max_pixels=3136)
    assert [(call.call, call.images) for call in calls] == [("preprocess", 2), ("preprocess", 1)]
    expected = {"apply_hf_processor", "plan", "decode", "resize", "small_tensors"}
    assert [set(call.seconds) for call in calls] == [expected] * 2


def test_files_that_are_fetched(qwen, tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    fetching = foveal.Preprocessor.from_spec("qwen2_5_vl", fetch=foveal.FetchSettings(file_root=str(tmp_path)))
    with collected() as calls:
        url = (tmp_path / "a.png").as_uri()
        fetching(url)
        fetching.process([PAD], url)
        asyncio.run(fetching.process_async([PAD], url))
    assert [call.seconds["fetch"] > 0 for call in calls] == [True] * 3
    stats = calls[1].stats()
    assert stats["preprocessor_total_secs"] == pytest.approx(
        sum(seconds for name, seconds in stats.items() if name in VLLM and name != "preprocessor_total_secs")
    )


def test_a_request_for_trtllm_has_no_stages(qwen):
    ready = qwen.process([PAD], png())
    with collected() as calls:
        foveal.assemble(ready, "trtllm")
    assert calls[0].seconds == {}
    assert calls[0].rest == calls[0].total > 0


def test_images_that_are_hashed_late_are_counted(qwen):
    ready = qwen.process([PAD], np.zeros((60, 80, 3), np.uint8))
    with collected() as calls:
        foveal.assemble(ready, "tokenspeed")
    assert "get_mm_hashes" in calls[0].seconds


def test_within_an_event_loop(qwen):
    async def main():
        return await asyncio.gather(*[qwen.process_async([PAD] * count, [png()] * count) for count in (1, 2, 3)])

    with collected() as calls:
        asyncio.run(main())
    assert sorted(call.images for call in calls) == [1, 2, 3]
    assert all("apply_prompt_updates" in call.seconds for call in calls)


def test_calls_at_the_same_time_do_not_mix():
    def work(name):
        with timed("call", 1):
            measured = bound_stage()
            for _ in range(100):
                with measured(name), stage("fetch"):
                    pass

    names = [f"stage {number}" for number in range(8)]
    with collected() as calls, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, names))
    assert sorted(tuple(sorted(call.seconds)) for call in calls) == [("fetch", name) for name in names]


def test_parts_on_other_threads_are_added():
    with collected() as calls, ThreadPoolExecutor(4) as pool, timed("call", 1):
        measured = bound_stage()

        def work(_):
            with measured("decode"):
                pass

        list(pool.map(work, range(200)))
    assert list(calls[0].seconds) == ["decode"]
    assert calls[0].stats() == {"preprocessor_total_secs": 0}


def test_a_call_that_fails_says_nothing(qwen):
    with collected() as calls, pytest.raises(foveal.MediaError):
        qwen(b"no image")
    assert calls == []
    assert timings._current.get() is None


def test_off_nothing_is_measured(qwen, caplog, monkeypatch):
    monkeypatch.setattr(timings, "_Clock", None)
    with caplog.at_level(logging.INFO, "foveal.timings"):
        qwen(png())
        assert timed("call", 1) is stage("decode") is bound_stage()("decode")
    assert caplog.records == []


def test_nothing_is_formatted_that_nobody_reads(qwen, monkeypatch):
    monkeypatch.setattr(logging.getLogger("foveal.timings"), "propagate", False)  # pytest's own handler reads all
    monkeypatch.setattr(Timings, "__str__", lambda self: pytest.fail("formatted"))
    with collected() as calls:
        qwen(png())
    assert len(calls) == 1


def test_the_switch_is_as_it_was():
    logger = logging.getLogger("foveal.timings")
    before = logger.level, list(logger.handlers)
    with collected(), collected():
        assert logger.level == logging.DEBUG
    assert (logger.level, logger.handlers) == before


def test_blocks_that_overlap():
    """As those of several threads do: the first to begin is the first to end."""
    logger = logging.getLogger("foveal.timings")
    before = logger.level, list(logger.handlers)
    first, second = collected(), collected()
    first.__enter__()
    calls = second.__enter__()
    first.__exit__(None, None, None)
    with timed("call", 1):
        pass
    second.__exit__(None, None, None)
    assert len(calls) == 1
    assert (logger.level, logger.handlers) == before


def test_the_line_of_the_log(qwen, caplog):
    with caplog.at_level(logging.DEBUG, "foveal.timings"):
        qwen(png(), threads=1)
    (record,) = caplog.records
    assert record.name == "foveal.timings"
    line = record.getMessage()
    assert line.startswith("preprocess: 1 image, ")
    assert [word for word in (*STAGES, *PARTS) if f" {word} " in line.replace("(", " ")] == [
        "apply_hf_processor",
        "plan",
        "decode",
        "resize",
        "small_tensors",
    ]
    seconds = {"fetch": 0.001, "apply_hf_processor": 0.25, "decode": 0.2, "resize": 0.01}
    shown = str(Timings("assemble vllm", 2, seconds, 0.3))
    expected = "fetch 1.000, apply_hf_processor 250.000 (decode 200.000, resize 10.000), rest 49.000"
    assert shown == f"assemble vllm: 2 images, 300.000 ms: {expected}"
