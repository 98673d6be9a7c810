"""The call that people make: inputs, overrides, errors that name the image."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

import foveal
from foveal import FovealError, ImageSizeError, MediaError, OptionError, Preprocessor, UnknownModelError

IMAGE = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
PICTURE = Image.fromarray(IMAGE)


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


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
    assert steps[0] == "emit float32"
    assert steps[-1] == "resize, vertical pass first"
    with pytest.raises(OptionError, match=r"^dtype is 'float16'"):
        Preprocessor.from_spec("llava1_5").warmup("float16")


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
