"""The call that people make: inputs, overrides, errors that name the image."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal import (
    FovealError,
    ImageSizeError,
    MediaError,
    OptionError,
    Preprocessor,
    UnknownModelError,
    UnsupportedFormat,
    request,
)
from foveal.spec.find import spec_path

IMAGE = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
PICTURE = Image.fromarray(IMAGE)


def saved(image, format="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def png(image):
    return saved(image)


@pytest.fixture(scope="module")
def pre():
    return Preprocessor.from_spec("qwen2_vl")


def test_every_kind_of_image_gives_the_same(pre, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(png(PICTURE))
    planes = np.ascontiguousarray(IMAGE.transpose(2, 0, 1))
    want = pre(PICTURE)["pixel_values"]
    for image in (IMAGE, path, str(path), path.read_bytes(), bytearray(path.read_bytes()), IMAGE[::-1][::-1]):
        np.testing.assert_array_equal(pre(image)["pixel_values"], want)
    np.testing.assert_array_equal(pre(planes, input_data_format="channels_first")["pixel_values"], want)
    np.testing.assert_array_equal(pre(IMAGE / 255, value_range=(0, 1))["pixel_values"], want)


def test_lists_follow_one_another_and_lists_of_lists_are_flattened(pre):
    images = [PICTURE, IMAGE[:30], PICTURE.convert("L")]
    each = [pre(image) for image in images]
    for call in (images, tuple(images), [images[:1], images[1:]], [images, []]):
        got = pre(call)
        assert got["pixel_values"].tobytes() == b"".join(one["pixel_values"].tobytes() for one in each)
        assert got["image_grid_thw"].tolist() == [one["image_grid_thw"][0].tolist() for one in each]
        assert got.plans == tuple(one.plans[0] for one in each)


def test_the_result_is_a_dict_with_the_primary_tensor_first(pre):
    result = pre(IMAGE)
    assert isinstance(result, dict)
    assert list(result) == ["pixel_values", "image_grid_thw"]
    assert result.batch.features == result.plans[0].features == 6


def test_plans_from_numbers_and_from_images_agree(pre):
    batch = pre.plan([png(PICTURE), IMAGE])
    assert batch.plans == (pre.plan(60, 90),) * 2
    assert batch.shape == (48, 1176)
    assert pre.plan(np.int64(60), np.int32(90)) is pre.plan(60, 90)


def test_orientation_of_encoded_images_is_applied(pre):
    exif = Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    PICTURE.save(buffer, "PNG", exif=exif)
    turned = pre(buffer.getvalue())
    np.testing.assert_array_equal(turned["pixel_values"], pre(PICTURE.transpose(Image.ROTATE_270))["pixel_values"])
    assert (turned.plans[0].height, turned.plans[0].width) == (90, 60)
    opened = Image.open(io.BytesIO(buffer.getvalue()))
    np.testing.assert_array_equal(pre(opened)["pixel_values"], pre(PICTURE)["pixel_values"])


def test_overrides_of_a_call_equal_those_of_the_constructor(pre):
    for overrides in (
        {"max_pixels": 4000, "min_pixels": 800},
        {"do_normalize": False},
        {"image_mean": np.array([0.1, 0.2, 0.3]), "image_std": (1, 2, 3)},
        {"resample": 2},
    ):
        at_call = pre(IMAGE, **overrides)
        made = Preprocessor.from_spec("qwen2_vl", **overrides)(IMAGE)
        for name, array in made.items():
            assert at_call[name].dtype == array.dtype
            np.testing.assert_array_equal(at_call[name], array)
    np.testing.assert_array_equal(pre(IMAGE)["pixel_values"], pre(PICTURE)["pixel_values"])


def test_a_list_that_is_changed_later_changes_nothing():
    mean = [0.5, 0.5, 0.5]
    pre = Preprocessor.from_spec("llava1_5", image_mean=mean)
    mean[0] = 0.25
    assert pre.spec.image.normalize.mean == (0.5, 0.5, 0.5)
    same = pre(IMAGE, do_center_crop=True)["pixel_values"]
    np.testing.assert_array_equal(same, pre(IMAGE)["pixel_values"])


@pytest.mark.parametrize("size", [(480.0, 640.0), ("a", 1), ([1], 2), (None, 3)])
def test_sizes_are_whole_numbers(pre, size):
    with pytest.raises(OptionError, match=r"^plan takes a height and a width as whole numbers, or images$"):
        pre.plan(*size)


def test_what_a_call_takes_can_be_planned(pre):
    planes = IMAGE.transpose(2, 0, 1) / 255
    options = {"input_data_format": "channels_first", "value_range": (0, 1)}
    assert pre.plan([planes], **options) == pre.plan([IMAGE])
    assert pre.plan([planes], **options, max_pixels=800, min_pixels=784).features == 1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda pre: pre([]), MediaError, "there is no image"),
        (lambda pre: pre([[], []]), MediaError, "there is no image"),
        (
            lambda pre: pre([IMAGE, [IMAGE]]),
            MediaError,
            "images are a mix of images and lists; pass a list of images, or a list of lists",
        ),
        (
            lambda pre: pre([IMAGE, IMAGE[:1, :1].repeat(500, 1)]),
            ImageSizeError,
            "image 1 is 1x500 (height x width): aspect ratio 500 exceeds 200 (qwen2_vl, smart_resize)",
        ),
        (lambda pre: pre(IMAGE, sizes=3), OptionError, None),
        (lambda pre: pre(IMAGE, image_mean=object()), OptionError, None),
    ],
)
def test_bad_input_is_one_line(pre, call, error, text):
    with pytest.raises(error) as caught:
        call(pre)
    assert isinstance(caught.value, ValueError)
    if text:
        assert str(caught.value) == text
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("image", [None, 3, object(), {"url": "x"}, b"not an image", "no/such/file.png", np.zeros(3)])
def test_what_is_no_image_is_named_by_its_place(pre, image):
    for threads in (1, 2):
        with pytest.raises(MediaError, match=r"^image 1: "):
            pre([IMAGE, image], threads=threads)


def test_a_truncated_file_is_named_by_its_place(pre):
    data = png(Image.fromarray(np.random.default_rng(1).integers(0, 256, (200, 200, 3), dtype=np.uint8)))
    for threads in (1, 4):
        with pytest.raises(MediaError, match=r"^image 2: "):
            pre([IMAGE, IMAGE, data[: len(data) // 2], IMAGE], threads=threads)


def test_unequal_canvases_do_not_stack():
    pre = Preprocessor.from_spec("llava1_5", do_center_crop=False)
    with pytest.raises(
        ImageSizeError, match=r"^image 1 is 90x60 \(height x width\): it becomes 3x504x336, and image 0"
    ):
        pre([IMAGE, IMAGE.transpose(1, 0, 2)])


def test_unknown_models():
    with pytest.raises(UnknownModelError, match=r"^no spec is named 'qwen2_5_v'; nearest: qwen2_5_vl"):
        Preprocessor.from_spec("qwen2_5_v")
    assert issubclass(UnknownModelError, LookupError)
    assert issubclass(foveal.SpecError, FovealError)


def test_warmup_names_what_it_compiles():
    steps = []
    Preprocessor.from_spec("llava1_5", reference="pillow").warmup(progress=steps.append)
    assert steps[0] == "emit float32 as planar, without resizing"
    assert steps[-1].startswith("resize, vertical pass first")
    with pytest.raises(OptionError, match=r"^dtype is 'float64'"):
        Preprocessor.from_spec("llava1_5").warmup("float64")


def test_plans_take_overrides(pre):
    assert pre.plan(60, 90, max_pixels=800, min_pixels=784).features == 1
    assert pre.plan([IMAGE], max_pixels=800, min_pixels=784).features == 1
    with pytest.raises(OptionError, match=r"^'pixels' is not an option of qwen2_vl"):
        pre.plan(60, 90, pixels=3)


def test_it_can_be_sent_to_a_process():
    pre = Preprocessor.from_spec("qwen2_vl", reference="pillow", max_pixels=4000, min_pixels=784)
    copy = pickle.loads(pickle.dumps(pre))
    assert copy.spec == pre.spec
    assert copy(IMAGE)["pixel_values"].tobytes() == pre(IMAGE)["pixel_values"].tobytes()
    assert repr(copy) == "<Preprocessor qwen2_vl, pillow, float32>"


# ---- images that cannot be read, policies, limits


def test_images_that_cannot_be_read_are_returned(pre):
    good = saved(PICTURE)
    cut = saved(PICTURE, "JPEG")[:-200]
    result = pre([good, b"junk", cut, PICTURE, good[:50]], on_error="return")
    assert {index: type(error).__name__ for index, error in result.errors.items()} == {
        1: "UnsupportedFormat",
        2: "CorruptImage",
        4: "CorruptImage",
    }
    assert all(str(error).startswith(f"image {index}: ") for index, error in result.errors.items())
    alone = pre([good, PICTURE])
    assert len(result.plans) == 2
    assert all(np.array_equal(result[name], alone[name]) for name in alone)


def test_pixels_are_kept_of_the_first_images_alone(pre, monkeypatch):
    """Of those that a call leaves in; the others are decoded again, to the same."""
    files = [saved(PICTURE), b"junk", saved(PICTURE, "BMP"), saved(PICTURE)[:-60], saved(PICTURE.convert("L"))]
    whole = pre(files, on_error="return")
    samples = [[file] for file in files]
    failed = {}
    items = request.open_items(samples, pre._plan, failed=failed)
    monkeypatch.setattr(request, "DECODED_BYTES_KEPT", 2 * 4 * 60 * 90)
    assert [one.held is not None for one in request.decoded(items, failed)] == [True, True, False]
    assert list(failed) == [1, 3]
    again = pre(files, on_error="return")
    assert list(again.errors) == [1, 3]
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


def test_images_that_fit_no_tensor_together_are_named_by_their_place_in_the_call():
    bare = Preprocessor.from_spec("clip", do_resize=False, do_center_crop=False)
    small, large = (Image.new("RGB", (side, side)) for side in (224, 300))
    text = r"^image 2 is 300x300 .* and image 1 becomes 3x224x224, which do not fit into one tensor"
    with pytest.raises(ImageSizeError, match=text):
        bare([b"junk", small, large], on_error="return")
    with pytest.raises(ImageSizeError, match=text.replace("image 1", "image 0")):
        bare([small, small, large])


def test_samples_keep_their_images_where_others_are_left_out():
    idefics = Preprocessor.from_spec("idefics3", size={"longest_edge": 364})
    result = idefics([[PICTURE, b"junk"], [b"junk"], [PICTURE]], on_error="return")
    assert result.batch.samples == (1, 0, 1)
    assert list(result.errors) == [1, 2]
    assert not result["pixel_attention_mask"][1].any()


def test_nothing_is_left(pre):
    with pytest.raises(UnsupportedFormat, match=r"^image 0: "):
        pre([b"junk", b"more"], on_error="return")
    with pytest.raises(OptionError, match=r"^on_error must be 'raise' or 'return'$"):
        pre([PICTURE], on_error="ignore")


def test_a_model_that_refuses_a_size_counts_too(pre):
    result = pre([Image.new("RGB", (2000, 2)), PICTURE], on_error="return")
    assert str(result.errors[0]).startswith("image 0 is 2x2000 (height x width): aspect ratio 1000 exceeds 200")


def test_a_policy_decides_about_orientation_and_transparency():
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = saved(PICTURE.convert("RGB"), "JPEG", exif=exif)
    upright, ignoring = Preprocessor.from_spec("qwen2_vl"), Preprocessor.from_spec("qwen2_vl", policy="huggingface")
    assert upright.plan(turned).plans[0].height == ignoring.plan(turned).plans[0].width
    clear = Image.new("RGBA", (64, 64), (10, 20, 30, 0))
    white = Preprocessor.from_spec("clip", do_normalize=False)(clear)["pixel_values"]
    dropped = Preprocessor.from_spec("clip", do_normalize=False, policy="sglang")(clear)["pixel_values"]
    assert np.unique(white).tolist() == [1.0]
    assert np.allclose(dropped[0, :, 0, 0] * 255, (10, 20, 30))
    with pytest.raises(OptionError, match=r"^policy must be one of huggingface, .*, not 'opencv'$"):
        Preprocessor.from_spec("clip", policy="opencv")


def test_limits_hold_before_anything_is_decoded(pre):
    small = Preprocessor.from_spec("qwen2_vl", limits=foveal.Limits(images=2, pixels=10_000))
    with pytest.raises(foveal.MediaTooLarge, match=r"3 images"):
        small([PICTURE] * 3)
    with pytest.raises(foveal.MediaTooLarge, match=r"^image 1: the image has 40000 pixels"):
        small.plan([PICTURE, saved(Image.new("RGB", (200, 200)))])


def test_a_copy_keeps_policy_and_limits():
    made = Preprocessor.from_spec("clip", policy="vllm", limits=foveal.Limits(images=3))
    copied = pickle.loads(pickle.dumps(made))
    assert (copied.policy, copied.limits) == (made.policy, made.limits)
    assert made._changed(None, {"do_normalize": False}).policy == made.policy


# ---- models by id, and what a sample's other images change


def test_the_id_of_a_model_is_enough():
    assert Preprocessor.from_spec("Qwen/Qwen2.5-VL-7B-Instruct").name == "qwen2_5_vl"
    with pytest.raises(UnknownModelError, match=r"^no spec fits model 'org/unknown'; known: "):
        Preprocessor.from_spec("org/unknown")


def test_own_specs_are_found_where_they_are_kept(tmp_path, monkeypatch):
    text = spec_path("clip").read_text().replace("name: clip", "name: own", 1)
    (tmp_path / "own.yaml").write_text(text)
    monkeypatch.setenv("FOVEAL_SPECS", str(tmp_path))
    assert Preprocessor.from_spec("own", size=10, crop_size=10).plan([IMAGE]).shape == (1, 3, 10, 10)


@pytest.mark.parametrize(
    ("name", "flat", "nested"),
    [
        ("qwen2_vl", (1, 1, 1), (2, 1)),
        ("idefics3", (3,), (2, 1)),
        ("mllama", (3,), (2, 1)),
        ("llava_onevision", (1, 1, 1), (2, 1)),
    ],
)
def test_a_flat_list_is_what_the_model_takes_it_for(name, flat, nested):
    made = Preprocessor.from_spec(name)
    assert made.plan([IMAGE, IMAGE, PICTURE]).samples == flat
    assert made.plan([[IMAGE, IMAGE], [PICTURE]]).samples == nested
    assert made.plan(IMAGE).samples == (1,)


def test_an_image_of_several_is_read_in_another_way():
    made = Preprocessor.from_spec("llava_onevision")
    several, alone = made.plan([[IMAGE, IMAGE], [IMAGE]]).plans[1:]
    assert [view.name for view in several.views] == ["square"]
    assert [view.name for view in alone.views] == ["base", "tiles"]
    assert alone == made.plan(60, 90)


def test_plans_say_what_is_cut_and_what_is_computed_first():
    made = Preprocessor.from_spec("idefics3").plan(480, 640)
    assert made.grid == (3, 4)
    assert [stage.name for stage in made.stages] == ["resized", "canvas"]


def test_what_the_constructor_alone_decides():
    """The reference takes the colour of the padding from the mean that its class is made with."""
    image = np.zeros((8, 4, 3), np.uint8)
    mean = {"image_mean": [0.2, 0.4, 0.8]}
    made = Preprocessor.from_spec("deepseek_vl", **mean).plan([image])
    called = Preprocessor.from_spec("deepseek_vl").plan([image], **mean)
    assert (made.plans[0].views[0].fill, called.plans[0].views[0].fill) == ((51, 102, 204), (127, 127, 127))


@pytest.mark.parametrize(("name", "value"), [("limits", foveal.Limits()), ("policy", "vllm"), ("reference", "pillow")])
def test_what_a_call_cannot_change_says_where_it_belongs(pre, name, value):
    for use in (pre, pre.plan):
        with pytest.raises(OptionError) as caught:
            use(np.zeros((64, 64, 3), np.uint8), **{name: value})
        assert str(caught.value) == (f"{name!r} belongs to the preprocessor, not to a call: from_spec(..., {name}=)")
