import asyncio
import io
import pickle
from base64 import b64encode

import numpy as np
import pytest
from PIL import Image
from serving import Threaded, response

import foveal
from foveal.media.fetch import Fetcher
from foveal.media.sources import Source
from foveal.media.urls import FetchSettings

PAD = 151655


def png(height=60, width=80, color=(255, 0, 0), **options):
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, "PNG", **options)
    return file.getvalue()


def data_url(data):
    return f"data:image/png;base64,{b64encode(data).decode()}"


def part(url):
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.fixture
def qwen():
    return foveal.Preprocessor.from_spec("qwen2_5_vl")


def test_a_prompt_and_its_images(qwen, monkeypatch):
    monkeypatch.setattr(Source, "decode", lambda self: pytest.fail("decoded"))
    ready = qwen.process([1, PAD, 2, PAD, 3], [png(), png(120, 200)])
    counts = [qwen.plan(60, 80).features, qwen.plan(120, 200).features]
    assert ready.expanded.ids.tolist() == [1, *[PAD] * counts[0], 2, *[PAD] * counts[1], 3]
    assert ready.input_ids.tolist() == [1, PAD, 2, PAD, 3]
    assert ready.feature_id == PAD
    assert [plan.height for plan in ready.plans] == [60, 120]
    assert ready.expanded.structural == ((1, counts[0]), (2 + counts[0], counts[1]))


def test_identities_are_those_of_the_images_policy_and_overrides(qwen):
    first, second = png(), png(color=(0, 0, 255))
    plain = qwen.process([PAD, PAD], [first, second]).identities
    assert plain == qwen.process([PAD, PAD], [first, second]).identities
    assert len({*plain, *qwen.process([PAD], first, policy="sglang").identities}) == 3
    assert qwen.process([PAD], first, max_pixels=3136).identities != plain[:1]
    array = np.zeros((60, 80, 3), np.uint8)
    assert qwen.process([PAD], array).identities == qwen.process([PAD], array.copy()).identities


def test_policies_and_overrides_change_the_plan(qwen):
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = png(exif=exif)
    assert [plan.height for plan in qwen.process([PAD], turned).plans] == [80]
    assert [plan.height for plan in qwen.process([PAD], turned, policy="sglang").plans] == [60]
    small, usual = (qwen.process([PAD], png(400, 400), **options) for options in ({"max_pixels": 3136}, {}))
    assert len(small.expanded.ids) < len(usual.expanded.ids)
    with pytest.raises(foveal.OptionError, match="sharpen"):
        qwen.process([PAD], png(), sharpen=True)
    with pytest.raises(foveal.OptionError, match="policy"):
        qwen.process([PAD], png(), policy="blurred")


def test_chat_content(qwen):
    files = [png(), png(120, 200)]
    messages = [
        {"role": "system", "content": "Answer."},
        {"role": "user", "content": [{"type": "text", "text": "Compare"}, *(part(data_url(file)) for file in files)]},
    ]
    expected = qwen.process([PAD, PAD], files)
    for given in (messages, messages[1]["content"]):
        ready = qwen.process([PAD, PAD], given)
        assert ready.identities == expected.identities
        assert ready.expanded.ids.tolist() == expected.expanded.ids.tolist()
    with pytest.raises(foveal.RequestError, match="video"):
        qwen.process([PAD], [{"type": "video_url", "video_url": {"url": "data:,"}}])


def test_more_images_than_engines_take_by_default(qwen):
    with pytest.raises(foveal.MediaTooLarge, match=r"^there are 11 images, more than the limit of 10 \(qwen2_5_vl\)$"):
        qwen.process([PAD] * 11, [png()] * 11)
    assert len(qwen.process([PAD] * 11, [png()] * 11, max_images=11).items) == 11
    with pytest.raises(foveal.MediaTooLarge, match="limit of 1 "):
        qwen.process([PAD] * 2, [png()] * 2, max_images=1)


def test_ids_that_are_no_row(qwen):
    for ids in ([[1], [1, 2]], [1, [2]], "text", [1.5], [[1, 2]]):
        with pytest.raises(foveal.OptionError, match="input_ids must be a row of integers"):
            qwen.process(ids)


def test_counts_must_agree(qwen):
    for ids, images in (([1], [png()]), ([PAD, PAD], [png()]), ([PAD], [])):
        with pytest.raises(foveal.PlaceholderError, match=r"^the prompt has \d placeholders? .*, for \d images?$"):
            qwen.process(ids, images)


def test_a_prompt_without_images(qwen):
    ready = qwen.process([1, 2])
    assert (ready.items, ready.expanded.ids.tolist()) == ((), [1, 2])


def test_a_prompt_has_one_list_of_images(qwen):
    with pytest.raises(foveal.OptionError, match="not lists of them"):
        qwen.process([PAD], [[png()]])


def test_models_whose_features_stand_in_no_prompt():
    with pytest.raises(foveal.OptionError, match=r"^clip does not say what an image becomes in a prompt$"):
        foveal.Preprocessor.from_spec("clip").process([1], png())


def test_an_image_that_is_bad_is_named(qwen):
    with pytest.raises(foveal.UnsupportedFormat, match=r"^image 1: "):
        qwen.process([PAD, PAD], [png(), b"text"])
    with pytest.raises(foveal.ImageSizeError, match=r"^image 0 is 1x1000 "):
        qwen.process([PAD], png(1, 1000))


def test_urls_while_the_loop_goes_on(qwen):
    with Threaded({"/a": response(body=png()), "/b": response(404)}) as site:
        settings = FetchSettings(allow_private_hosts=True)

        async def main():
            async with Fetcher(settings) as fetcher:
                ready = await qwen.process_async([PAD, PAD], [site.url("/a"), png(120, 200)], fetcher=fetcher)
                with pytest.raises(foveal.FetchFailed, match=r"^image 1: the http URL: the server answered 404$"):
                    await qwen.process_async([PAD, PAD], [png(), site.url("/b")], fetcher=fetcher)
                return ready

        ready = asyncio.run(main())
    assert ready.identities == qwen.process([PAD, PAD], [png(), png(120, 200)]).identities


def test_urls_without_a_loop(qwen, monkeypatch):
    monkeypatch.setenv("FOVEAL_FETCH_ALLOW_PRIVATE_HOSTS", "1")
    with Threaded({"/a": response(body=png())}) as site:
        assert qwen.process([PAD], [part(site.url("/a"))]).identities == qwen.process([PAD], png()).identities


def test_too_many_images_are_refused_before_one_is_fetched(monkeypatch):
    monkeypatch.setenv("FOVEAL_FETCH_ALLOW_PRIVATE_HOSTS", "true")
    few = foveal.Preprocessor.from_spec("qwen2_5_vl", limits=foveal.Limits(images=2))
    with Threaded({"/a": response(body=png())}) as site:
        urls = [site.url("/a")] * 3

        def in_a_loop(images):
            return asyncio.run(few.process_async([PAD] * 3, images))

        calls = few, few.plan, lambda images: few(images, on_error="return"), lambda images: few.process([PAD], images)
        for call in (*calls, in_a_loop):
            with pytest.raises(foveal.MediaTooLarge, match=r"^there are 3 images, more than the limit of 2 "):
                call(urls)
        assert not site.requests
        few(urls[:2])
        assert len(site.requests) == 2


def test_async_without_urls_and_with_options(qwen):
    async def main():
        return await qwen.process_async([PAD], png(400, 400), policy="sglang", max_pixels=3136)

    expected = qwen.process([PAD], png(400, 400), policy="sglang", max_pixels=3136)
    assert asyncio.run(main()).identities == expected.identities


def test_settings_of_urls_belong_to_the_preprocessor(monkeypatch):
    monkeypatch.delenv("FOVEAL_FETCH_ALLOW_PRIVATE_HOSTS", raising=False)
    settings = FetchSettings(allow_private_hosts=True)
    allowed = foveal.Preprocessor.from_spec("qwen2_5_vl", fetch=settings)
    refused = foveal.Preprocessor.from_spec("qwen2_5_vl")
    with Threaded({"/a": response(body=png())}) as site:
        url = site.url("/a")
        assert allowed(url)["image_grid_thw"].tolist() == refused(png())["image_grid_thw"].tolist()
        copied = pickle.loads(pickle.dumps(allowed))
        assert copied.process([PAD], url, max_pixels=3136).plans == copied.process([PAD], png(), max_pixels=3136).plans
        assert asyncio.run(allowed.process_async([PAD], url)).identities == allowed.process([PAD], png()).identities
        for call in (refused, refused.plan):
            with pytest.raises(foveal.HostNotAllowed, match=r"^image 0: "):
                call(url)
    with pytest.raises(foveal.OptionError, match=r"^fetch must be a FetchSettings$"):
        foveal.Preprocessor.from_spec("qwen2_5_vl", fetch={"allow_private_hosts": True})
    with pytest.raises(foveal.OptionError, match="'fetch' belongs to the preprocessor"):
        refused(png(), fetch=settings)
