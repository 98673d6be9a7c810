"""Numbers from a spec and overrides, and what is refused, word for word."""

import contextlib
import copy
from enum import IntEnum

import numpy as np
import pytest
from trees import STEP, change

from foveal.errors import OptionError, SpecError
from foveal.plan.views import normalization
from foveal.run.tables import values_of
from foveal.spec import Spec, load, names, resolve


class Resampling(IntEnum):
    LANCZOS = 1


class Secret:
    def __repr__(self):
        raise AssertionError("a message shows an object")


def test_a_spec_is_a_value():
    spec = resolve(load("qwen2_vl"))
    assert isinstance(spec, Spec)
    with pytest.raises(AttributeError):
        spec.name = "other"
    assert spec != resolve(load("qwen2_vl"), overrides={"patch_size": 16})
    assert spec != resolve(load("qwen2_vl"), reference="pillow")


@pytest.mark.parametrize("name", names())
def test_resolving_changes_nothing(name):
    tree = load(name)
    before = copy.deepcopy(tree)
    resolve(tree)
    with contextlib.suppress(OptionError):  # one family reads no field
        resolve(tree, overrides={"image_mean": [1, 2, 3]})
    assert tree == before


@pytest.mark.parametrize(
    ("name", "overrides", "read", "expected"),
    [
        ("qwen2_vl", {"min_pixels": 784}, lambda s: (s.min_pixels, s.max_pixels), (784, 12845056)),
        ("qwen2_vl", {"max_pixels": 7840}, lambda s: (s.min_pixels, s.max_pixels), (3136, 7840)),
        ("qwen2_vl", {"min_pixels": np.int64(784)}, lambda s: s.min_pixels, 784),
        ("qwen2_vl", {"resample": "lanczos"}, lambda s: s.filter, "lanczos"),
        ("qwen2_vl", {"resample": 2}, lambda s: s.filter, "bilinear"),
        ("qwen2_vl", {"resample": Resampling.LANCZOS}, lambda s: s.filter, "lanczos"),
        ("qwen2_vl", {"do_resize": np.False_}, lambda s: s.enabled, False),
        ("qwen2_vl", {"do_resize": None}, lambda s: s.enabled, False),
        ("qwen2_vl", {"min_pixels": None, "size": None}, lambda s: s.min_pixels, 3136),
        ("clip", {"size": 224}, lambda s: s.size.shortest_edge, 224),
        ("clip", {"size": (20, 30)}, lambda s: (s.size.height, s.size.width), (20, 30)),
        ("clip", {"size": {"height": 20, "width": 30}}, lambda s: (s.size.height, s.size.width), (20, 30)),
        ("clip", {"resample": 0}, lambda s: s.filter, "nearest"),
        ("gemma3", {"size": 224}, lambda s: (s.size.height, s.size.width), (224, 224)),
        ("llava1_5", {"do_pad": True}, lambda s: (s.enabled, s.fill), (True, (122, 116, 104))),
        ("llava1_5", {"image_mean": "half"}, lambda s: s.fill, (127, 127, 127)),
        ("llava1_5", {"image_mean": [0.1, 0.5, 0.999]}, lambda s: s.fill, (25, 127, 254)),
        ("pixtral", {"size": {"longest_edge": 512}}, lambda s: (s.bound.height, s.bound.width), (512, 512)),
        ("pixtral", {"size": {"height": 50, "width": 60}}, lambda s: (s.bound.height, s.bound.width), (50, 60)),
        ("pixtral", {"patch_size": {"height": 14, "width": 14}}, lambda s: s.patch, 14),
        ("kimi_k25", {"size": {"max_height": 64, "max_width": 64}}, lambda s: s.max_side, 64),
        ("deepseek_vl", {"size": {"height": 224, "width": 224}}, lambda s: s.side, 224),
        ("llama4", {"size": 224}, lambda s: s.grow_limit, 224),
        ("llama4", {"size": {"height": 224, "width": 224}}, lambda s: s.grow_limit, 224),
        ("llama4", {"resize_to_max_canvas": True}, lambda s: s.grow, True),
    ],
)
def test_overrides_of_the_first_step(name, overrides, read, expected):
    assert read(resolve(load(name), overrides=overrides).image.views[0].steps[0]) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"image_mean": "imagenet"}, (0.485, 0.456, 0.406)),
        ({"image_mean": 0.5}, (0.5, 0.5, 0.5)),
        ({"image_mean": np.array([0.0, 0.25, 0.5])}, (0.0, 0.25, 0.5)),
        ({"image_mean": (1, 2, 3)}, (1.0, 2.0, 3.0)),
    ],
)
def test_overrides_of_the_mean(overrides, expected):
    assert resolve(load("llama4"), overrides=overrides).image.normalize.mean == expected


def test_a_spec_may_name_its_mean():
    assert resolve(change("llama4", "image", "normalize", "mean", value="clip")).image.normalize.mean[1] == 0.4578275


@pytest.mark.parametrize(
    ("name", "overrides", "text"),
    [
        ("qwen2_vl", {"min_pixel": 3}, "'min_pixel' is not an option of qwen2_vl (nearest: min_pixels, max_pixels)"),
        (
            "qwen2_vl",
            {"do_centre_crop": None},
            "'do_centre_crop' is not an option of qwen2_vl (nearest: do_center_crop)",
        ),
        ("qwen2_vl", {"min_pixels": -5}, "min_pixels=-5: expected int >= 1 (qwen2_vl)"),
        ("qwen2_vl", {"min_pixels": True}, "min_pixels=True: expected int, got bool (qwen2_vl)"),
        ("qwen2_vl", {"min_pixels": 3.5}, "min_pixels=3.5: expected int, got float (qwen2_vl)"),
        ("qwen2_vl", {"min_pixels": "9"}, "min_pixels='9': expected int, got str (qwen2_vl)"),
        (
            "qwen2_vl",
            {"max_pixels": 10**5000},
            "max_pixels=a very large number: expected a number of at most 64 bits",
        ),
        ("qwen2_vl", {"patch_size": 0}, "patch_size=0: expected int >= 1 (qwen2_vl)"),
        ("qwen2_vl", {"patch_size": Secret()}, "patch_size=a Secret: expected plain values"),
        ("qwen2_vl", {"patch_size": None}, "patch_size=None: expected a value (qwen2_vl)"),
        ("qwen2_vl", {"size": 7}, "size=7: expected longest_edge and shortest_edge (qwen2_vl)"),
        (
            "qwen2_vl",
            {"size": {"shortest_edge": 3}},
            "size lacks 'longest_edge': expected longest_edge and shortest_edge (qwen2_vl)",
        ),
        (
            "qwen2_vl",
            {"size": {"shortest_edge": 3, "longest_edge": 9, "height": 1}},
            "size holds 'height': expected longest_edge and shortest_edge (qwen2_vl)",
        ),
        (
            "qwen2_vl",
            {"size": {"shortest_edge": Secret(), "longest_edge": 9}},
            "size=a dict: expected plain values",
        ),
        ("qwen2_vl", {"resample": 4}, "resample=4: box exists only for the reference pillow (qwen2_vl)"),
        (
            "qwen2_vl",
            {"resample": "hamming"},
            "resample='hamming': hamming exists only for the reference pillow (qwen2_vl)",
        ),
        (
            "qwen2_vl",
            {"resample": "cubic"},
            "resample='cubic': expected nearest (0), lanczos (1), bilinear (2), bicubic (3), box (4), hamming (5) "
            "(qwen2_vl)",
        ),
        ("molmo2", {"resample": 3}, "resample=3: only 2 can be honoured (molmo2)"),
        ("qwen2_vl", {"image_mean": [1, 2]}, "image_mean=[1, 2]: expected three numbers (qwen2_vl)"),
        ("qwen2_vl", {"image_mean": [[1], 2, 3]}, "image_mean=a list: expected three numbers (qwen2_vl)"),
        (
            "qwen2_vl",
            {"image_mean": "vit"},
            "image_mean='vit': expected three numbers or one of clip, half, imagenet (qwen2_vl)",
        ),
        (
            "qwen2_vl",
            {"image_mean": [1, 2, float("inf")]},
            "image_mean=[1, 2, inf]: expected finite numbers (qwen2_vl)",
        ),
        ("qwen2_vl", {"image_std": 0}, "image_std=0: expected numbers other than zero (qwen2_vl)"),
        ("qwen2_vl", {"rescale_factor": 0}, "rescale_factor must be of a size from 1e-18 to 1e+18, not 0.0 (qwen2_vl)"),
        ("qwen2_vl", {"rescale_factor": "a"}, "rescale_factor='a': expected float, got str (qwen2_vl)"),
        ("qwen2_vl", {"do_resize": 1}, "do_resize=1: expected bool, got int (qwen2_vl)"),
        ("qwen2_vl", {"do_convert_rgb": False}, "do_convert_rgb=False: only True can be honoured (qwen2_vl)"),
        ("qwen2_vl", {"do_center_crop": True}, "do_center_crop=True: only False can be honoured (qwen2_vl)"),
        (
            "qwen2_vl",
            {"data_format": "channels_last"},
            "data_format='channels_last': only 'channels_first' can be honoured (qwen2_vl)",
        ),
        (
            "llava1_5",
            {"size": {"longest_edge": 5}},
            "size={longest_edge: 5}: object contains unknown field longest_edge (llava1_5)",
        ),
        (
            "llava1_5",
            {"size": {"height": 5}},
            "size={height: 5}: keys must be shortest_edge, or height and width, not height (llava1_5)",
        ),
        ("llava1_5", {"size": {}}, "size={}: keys must be shortest_edge, or height and width, not none (llava1_5)"),
        (
            "llava1_5",
            {"crop_size": {"height": 5, "width": -1}},
            "crop_size={height: 5, width: -1}: expected int >= 1 (llava1_5)",
        ),
        ("clip", {"do_pad": True}, "do_pad=True: only False can be honoured (clip)"),
        (
            "kimi_k25",
            {"size": {"max_height": 5, "max_width": 6}},
            "size={max_height: 5, max_width: 6}: height and width must be equal (kimi_k25)",
        ),
        ("kimi_k25", {"size": 5}, "size=5: expected max_height and max_width (kimi_k25)"),
        ("pixtral", {"size": {"longest_edge": 0}}, "size={longest_edge: 0}: expected int >= 1 (pixtral)"),
        ("pixtral", {"size": {"height": 5}}, "size={height: 5}: object missing required field width (pixtral)"),
        ("molmo2", {"overlap_margins": [1]}, "overlap_margins=[1]: expected two numbers (molmo2)"),
        (
            "molmo2",
            {"overlap_margins": [20, 7]},
            "overlap_margins of 20 and 7 patches leave nothing of a tile (molmo2)",
        ),
        ("molmo2", {"patch_size": 13}, "tiles of 378 are not made of whole patches of 13 (molmo2)"),
        ("internvl", {"min_patches": 13}, "the fewest tiles, 13, are more than the most, 12 (internvl)"),
        (
            "llava_next",
            {"image_grid_pinpoints": []},
            "image_grid_pinpoints must hold at least one height and width (llava_next)",
        ),
        (
            "llava_next",
            {"image_grid_pinpoints": [[336, 300]]},
            "336x300 (height x width) is not made of whole tiles of 336 (llava_next)",
        ),
        (
            "phi4mm",
            {"size": {"height": 8, "width": 8}},
            "tiles of 8 are smaller than the encoder's patches of 14 (phi4mm)",
        ),
        ("internvl", {"image_meen": 0.5}, "'image_meen' is not an option of internvl (nearest: image_mean, image_std)"),
        ("molmo2", {"pooling_size": [2, 0]}, "pooling_size=[2, 0]: expected int >= 1 (molmo2)"),
        (
            "llama4",
            {"size": {"height": 3, "width": 4}},
            "size={height: 3, width: 4}: height and width must be equal (llama4)",
        ),
        (
            "llama4",
            {"size": {"shortest_edge": 3}},
            "size={shortest_edge: 3}: expected one number, or an equal height and width (llama4)",
        ),
        ("llama4", {"max_patches": 0}, "max_patches=0: expected int >= 1 (llama4)"),
        ("llama4", {"do_resize": False}, "do_resize=False: only True can be honoured (llama4)"),
        (
            "llama4",
            {"do_rescale": False},
            "do_normalize without do_rescale is not possible, the reference cannot normalize bytes (llama4)",
        ),
    ],
)
def test_an_override_that_cannot_be_honoured_is_named(name, overrides, text):
    with pytest.raises(OptionError) as caught:
        resolve(load(name), overrides=overrides)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "overrides", "limit"),
    [
        ("qwen2_vl", {"patch_size": 2**53}, 1024),
        ("qwen2_vl", {"merge_size": 2**53}, 1024),
        ("qwen2_vl", {"temporal_patch_size": 1025}, 1024),
        ("qwen2_vl", {"max_pixels": 2**53}, 2**40),
        ("llava1_5", {"size": 2**53}, 65536),
        ("llava1_5", {"crop_size": 65537}, 65536),
        ("llama4", {"size": 2**53}, 65536),
        ("llama4", {"max_patches": 2**53}, 1024),
    ],
)
def test_no_number_is_absurd(name, overrides, limit):
    with pytest.raises(OptionError, match=rf": expected int <= {limit} \({name}\)$"):
        resolve(load(name), overrides=overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        {"rescale_factor": 5e-324},
        {"rescale_factor": 1e300},
        {"image_mean": [1e300, 0, 0]},
        {"image_std": [1e-300, 1, 1]},
        {"image_std": 1e300},
    ],
)
def test_numbers_outside_of_float32_are_refused(overrides):
    with pytest.raises(OptionError, match="must be of a size "):
        resolve(load("qwen2_vl"), overrides=overrides)


@pytest.mark.parametrize("reference", ["torchvision", "pillow"])
@pytest.mark.parametrize("factor", [1e-18, 1 / 255, -1e18])
def test_numbers_at_the_limits_give_finite_values(factor, reference):
    for mean in (1e18, -1e18):
        for std in (1e-18, 1e18):
            overrides = {"rescale_factor": factor, "image_mean": mean, "image_std": std}
            spec = resolve(load("qwen2_vl"), overrides=overrides, reference=reference)
            assert np.isfinite(values_of(normalization(spec), reference)).all()


def test_what_only_a_file_may_hold_is_no_option():
    for field in ("device", "return_tensors", "image_processor_type", "default_to_square"):
        with pytest.raises(OptionError, match=f"^'{field}' is not an option of qwen2_vl "):
            resolve(load("qwen2_vl"), overrides={field: "cpu"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "torchvision"),
        ("torchvision", "torchvision"),
        ("pillow", "pillow"),
        ("pil", "pillow"),
        ("pillow>=13", "pillow"),
        ("pillow<13", "pillow<13"),
    ],
)
def test_reference(given, expected):
    assert resolve(load("llava1_5"), reference=given).reference == expected


@pytest.mark.parametrize(
    ("name", "reference", "text"),
    [
        ("qwen2_vl", "cv2", "reference='cv2': expected torchvision, pillow or pillow<13 (qwen2_vl)"),
        ("qwen2_vl", Secret(), "reference=a Secret: expected torchvision, pillow or pillow<13 (qwen2_vl)"),
        ("llama4", "pil", "reference='pil': llama4 exists only for torchvision"),
        ("llama4", "pillow<13", "reference='pillow<13': llama4 exists only for torchvision"),
    ],
)
def test_a_reference_that_does_not_exist(name, reference, text):
    with pytest.raises(OptionError) as caught:
        resolve(load(name), reference=reference)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        # unknown fields
        (change("qwen2_vl", "limit", value={}), "qwen2_vl: Object contains unknown field `limit` - at `$`"),
        (
            change("qwen2_vl", "reference", value="pillow"),
            "qwen2_vl: Object contains unknown field `reference` - at `$`",
        ),
        (
            change("qwen2_vl", *STEP, "anchr", value=1),
            "qwen2_vl: Object contains unknown field `anchr` - at `$.image.views[0].steps[0]`",
        ),
        (
            change("qwen2_vl", *STEP, "filter", "dflt", value=1),
            "qwen2_vl: Object contains unknown field `dflt` - at `$.image.views[0].steps[0].filter`",
        ),
        (change("qwen2_vl", "fields", "x", value=1), "qwen2_vl: Object contains unknown field `x` - at `$.fields`"),
        # missing fields
        (
            change("qwen2_vl", *STEP, "max_aspect", drop=True),
            "qwen2_vl: Object missing required field `max_aspect` - at `$.image.views[0].steps[0]`",
        ),
        (change("qwen2_vl", "match", drop=True), "qwen2_vl: Object missing required field `match` - at `$`"),
        (change("qwen2_vl", "name", drop=True), "spec: Object missing required field `name` - at `$`"),
        (
            change("qwen2_vl", "image", drop=True),
            "qwen2_vl: Object missing required field `references` - at `$.image`",
        ),
        (
            change("qwen2_vl", *STEP, "filter", "default", drop=True),
            "qwen2_vl: no value and no default for preprocessor.resample - at `$.image.views[0].steps[0].filter`",
        ),
        # wrong values
        (change("qwen2_vl", "schema", value=2), "qwen2_vl: Invalid enum value 2 - at `$.schema`"),
        (
            change("qwen2_vl", *STEP, "op", value="smart"),
            "qwen2_vl: Invalid value 'smart' - at `$.image.views[0].steps[0].op`",
        ),
        (
            change("qwen2_vl", *STEP, "max_aspect", value=0),
            "qwen2_vl: Expected `int` >= 1 - at `$.image.views[0].steps[0].max_aspect`",
        ),
        (
            change("qwen2_vl", "constants", "patch", value=0),
            "qwen2_vl: Expected `int` >= 1 - at `$.image.views[0].steps[0].patch`",
        ),
        (
            change("qwen2_vl", *STEP, "patch", value="$ptch"),
            "qwen2_vl: no constant is named 'ptch' - at `$.image.views[0].steps[0].patch`",
        ),
        (
            change("qwen2_vl", *STEP, "filter", "from", value=["prep.resample"]),
            "qwen2_vl: 'prep.resample' is not a path of a configuration - at `$.image.views[0].steps[0].filter`",
        ),
        (
            change("qwen2_vl", *STEP, "filter", "as", value="colour"),
            "qwen2_vl: as: colour is not one of side, edge, most, bound, background, first, second, shortest_edge, "
            "square, filter, mean, std, inverse - at `$.image.views[0].steps[0].filter`",
        ),
        (
            change("qwen2_vl", "image", "references", value=["cv2"]),
            "qwen2_vl: Invalid enum value 'cv2' - at `$.image.references[0]`",
        ),
        (
            change("qwen2_vl", "image", "references", value=[]),
            "qwen2_vl: Object missing required field `references` - at `$.image`",
        ),
        (
            change("qwen2_vl", "image", "normalize", "mean", value="vit"),
            "qwen2_vl: expected three numbers or one of clip, half, imagenet - at `$.image.normalize.mean`",
        ),
        (
            change("qwen2_vl", "image", "normalize", "untouched", "by_reference", "pillow", drop=True),
            "qwen2_vl: by_reference lacks pillow - at `$.image.normalize.untouched`",
        ),
        (
            change("qwen2_vl", "tensors", "image_grid_thw", "value", value="primary"),
            "qwen2_vl: tensors must hold exactly one whose value is primary - at `$`",
        ),
        (change("qwen2_vl", "tensors", "x", value=3), "qwen2_vl: Expected `object`, got `int` - at `$.tensors.x`"),
        (
            change("qwen2_vl", "fields", "folded", "min_pixels", value="size.x"),
            "qwen2_vl: min_pixels folds into size.x, which is not read - at `$.fields`",
        ),
        (
            change("qwen2_vl", "fields", "unset", "x", value=1),
            "qwen2_vl: x is unset but not read - at `$.fields`",
        ),
        (
            change("llava1_5", "fields", "fixed", "model.x", value=1),
            "llava1_5: model.x names no file - at `$.fields`",
        ),
        (
            change("qwen2_vl", "constants", "size", value={"from": ["preprocessor.size"], "default": 1}),
            "qwen2_vl: size is read both whole and in parts - at `$.fields`",
        ),
        (
            change("llama4", "image", "views", 0, "canvas", "choose", value="bestfit"),
            "llama4: Invalid value 'bestfit' - at `$.image.views[0].canvas.choose`",
        ),
        (
            change("llama4", "image", "views", 0, "canvas", drop=True),
            "llama4: 'tiles' has steps that need a canvas, but no canvas - at `$.image.views[0]`",
        ),
        (
            change("llama4", "image", "views", 0, drop=True),
            "llama4: no view is there for every image, with one_image in the sample - at `$.image`",
        ),
    ],
)
def test_a_wrong_spec_is_refused_with_its_path(tree, text):
    with pytest.raises(SpecError) as caught:
        resolve(tree, reference="pillow" if "lacks pillow" in text else None)
    assert str(caught.value) == text


def test_overrides_that_are_no_fields():
    for overrides in (5, None, "size", [3]):
        with pytest.raises(OptionError, match=r"^overrides must be fields by name, not "):
            resolve(load("qwen2_vl"), overrides=overrides)


def nested(depth):
    tree = 1
    for _ in range(depth):
        tree = {"a": tree}
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        None,
        5,
        [],
        {},
        {"name": "a\nb"},
        {"name": "a" * 100_000},
        change("qwen2_vl", "name", value="a\n"),
        change("qwen2_vl", "tensors", "a" * 70, value={"value": "grid_thw", "dtype": "int64"}),
        change("qwen2_vl", "a\nb", value=1),
        change("qwen2_vl", "a" * 100_000, value=1),
        change("qwen2_vl", "constants", value=nested(2000)),
        change("qwen2_vl", "constants", "patch", value=10**400),
        change("qwen2_vl", "constants", "patch", value=range(3)),
        change("qwen2_vl", "schema", value="\ud800"),
        change("qwen2_vl", *STEP, "filter", value="x\n" * 100_000),
        change("qwen2_vl", *STEP, "filter", value={"from": ["preprocessor." + "x" * 100_000]}),
        change("qwen2_vl", *STEP, "filter", value={"from": ["config." + "x\n" * 100_000]}),
        change("qwen2_vl", *STEP, "max_aspect", value=[[0] * 1000] * 1000),
    ],
)
def test_a_tree_that_is_no_spec_gives_one_short_line(tree):
    with pytest.raises(SpecError) as caught:
        resolve(tree)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
