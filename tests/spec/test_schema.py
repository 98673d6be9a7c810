"""What is wrong with a spec beyond its numbers: parts that do not go together, each refused with its path."""

import pytest
from trees import STEP, change

from foveal.errors import OptionError, SpecError
from foveal.spec import load, names, resolve

CROP = {"op": "center_crop", "enabled": True, "size": {"height": 9, "width": 9}, "odd_pad": "after"}
SQUARE = {"op": "pad_to_square", "enabled": True, "fill": [0, 0, 0]}
RESIZE = {"op": "resize", "enabled": True, "size": {"height": 9, "width": 9}, "filter": "bilinear"}
TAPS = {"op": "fixed_taps", "tile": 336}
PATCHES = {"as": "patches", "patch": 14, "channels": "first", "axes": 2}
VIEW = {"name": "more", "steps": [RESIZE]}


def tensor(name, **fields):
    """Return a tree with another tensor."""
    return change(name, "tensors", "more", value={"dtype": "int64", **fields})


def views(spec, *more, **changed):
    """Return a tree with more views, and values of its first view changed."""
    first, *others = load(spec)["image"]["views"]
    return change(spec, "image", "views", value=[{**first, **changed}, *others, *more])


def steps(*given):
    """Return a tree whose only view has these steps."""
    return change("clip", "image", "views", value=[{"name": "image", "steps": list(given)}])


WRONG = [
    # steps of a view
    (steps(RESIZE, RESIZE), "'image' is resized twice, or after a crop or a canvas: that needs a stage", "views[0]"),
    (steps(CROP, RESIZE), "'image' is resized twice, or after a crop or a canvas: that needs a stage", "views[0]"),
    (steps(RESIZE, CROP, CROP), "'image' is cropped or put on a canvas twice: that needs a stage", "views[0]"),
    (steps(SQUARE, CROP, SQUARE), "'image' is cropped or put on a canvas twice: that needs a stage", "views[0]"),
    (steps(RESIZE, CROP, SQUARE), "'image' is cropped or put on a canvas twice: that needs a stage", "views[0]"),
    (
        steps({"op": "pad_to_canvas", "anchor": "center", "fill": [0, 0, 0]}),
        "'image' has steps that need a canvas, but no canvas",
        "views[0]",
    ),
    (steps(TAPS), "'image' has fixed_taps, which read a stage, and all of it", ""),
    (steps(SQUARE, TAPS), "'image' has steps beside fixed_taps", "views[0]"),
    (
        change("phi3_v", "image", "stages", 0, "steps", value=[TAPS]),
        "fixed_taps are of a view, a stage holds bytes",
        "",
    ),
    (
        steps({**RESIZE, "method": "linear", "filter": "bicubic"}),
        "method: linear has filter: bilinear alone, not bicubic",
        "views[0].steps[0]",
    ),
    (steps({**RESIZE, "method": "fixed_taps"}), "Invalid enum value 'fixed_taps'", "views[0].steps[0].method"),
    (
        steps({**RESIZE, "size": {"height": 9}}),
        "keys must be shortest_edge, or height and width, not height",
        "views[0].steps[0].size",
    ),
    (steps({**RESIZE, "filter": "cubic"}), "Invalid enum value 'cubic'", "views[0].steps[0].filter"),
    (steps({**CROP, "odd_pad": "left"}), "Invalid enum value 'left'", "views[0].steps[0].odd_pad"),
    (steps({"op": "blur"}), "Invalid value 'blur'", "views[0].steps[0].op"),
    (steps({"enabled": True}), "Object missing required field `op`", "views[0].steps[0]"),
    # canvases
    (
        change("internvl", "image", "views", 0, "canvas", "order", value="rows"),
        "Invalid enum value 'rows'",
        "views[0].canvas.order",
    ),
    (
        change("llama4", "constants", "tile", value=0),
        "Expected `int` >= 1",
        "views[0].canvas.tile",
    ),
    (
        change("mllama", "image", "views", 0, "canvas", "precision", value="float16"),
        "Invalid enum value 'float16'",
        "views[0].canvas.precision",
    ),
    (
        change("llava_next", "image", "views", 1, "steps", 0, "round", value="even"),
        "Invalid enum value 'even'",
        "views[1].steps[0].round",
    ),
    (
        change("llava_next", "image", "views", 1, "steps", 1, "anchor", value="left"),
        "Invalid enum value 'left'",
        "views[1].steps[1].anchor",
    ),
    (
        change("phi4mm", "image", "stages", 0, "steps", 1, "fill", value=[256, 0, 0]),
        "Expected `int` <= 255",
        "stages[0].steps[1].fill[0]",
    ),
    (
        change("phi4mm", "image", "stages", 0, "canvas", drop=True),
        "'canvas' has steps that need a canvas, but no canvas",
        "stages[0]",
    ),
    # windows
    (
        change("gemma3", "image", "views", 1, "windows", "cut", value="scan"),
        "Invalid value 'scan'",
        "views[1].windows.cut",
    ),
    (
        change("gemma3", "image", "views", 1, "steps", value=[SQUARE]),
        "'crop' has windows, and a canvas or padding: that needs a stage",
        "views[1]",
    ),
    (
        change("molmo2", "image", "views", 1, "windows", "patch", value=7),
        "'crop' has overlapping_crops, which are not those of the canvas that it reads",
        "",
    ),
    (
        views("clip", windows={"cut": "overlapping_crops", "tile": 9, "patch": 1, "before": 1, "after": 1}, steps=[]),
        "no view is there for every image, with one_image in the sample",
        "",
    ),
    (change("molmo2", "image", "pack", "patch", value=7), "'crop' has patches of 14, and the pack of 7", ""),
    # names
    (views("clip", reads="canvas"), "'canvas' is not one of image", ""),
    (views("clip", {**VIEW, "name": "image"}), "two views have one name, or that of a stage", ""),
    (views("molmo2", {**VIEW, "name": "canvas"}), "two views have one name, or that of a stage", ""),
    (
        change("idefics3", "image", "stages", 1, "name", value="image"),
        "two stages have one name, or one is named image",
        "",
    ),
    (
        change("idefics3", "image", "stages", 1, "name", value="resized"),
        "two stages have one name, or one is named image",
        "",
    ),
    (change("idefics3", "image", "stages", 0, "reads", value="canvas"), "'canvas' is not one of image", ""),
    (views("clip", name="a b"), "Expected `str` matching regex '^[\\\\w.-]{1,64}\\\\Z'", "views[0].name"),
    # what is there, and what is cut
    (change("clip", "image", "views", value=[]), "no view is there for every image, with one_image in the sample", ""),
    (
        change("gemma3", "image", "views", 0, drop=True),
        "no view is there for every image, with one_image in the sample",
        "",
    ),
    (
        change("llava_onevision", "image", "views", 2, drop=True),
        "no view is there for every image, with many_images in the sample",
        "",
    ),
    (views("clip", enabled=False), "no view is there for every image, with one_image in the sample", ""),
    (change("internvl", "image", "grid", value="thumbnail"), "'thumbnail' is not one of tiles", ""),
    (change("molmo2", "image", "grid", value="crop"), "'crop' is not one of canvas, image", ""),
    (change("molmo2", "image", "grid", value="x"), "'x' is not one of canvas, image", ""),
    (change("ovis2", "image", "grid", drop=True), "'thumbnail' is not one of tiles", ""),
    # packs and batches
    (change("pixtral", "image", "pack", value=PATCHES), "join: largest needs pack: planar", ""),
    (
        change("clip", "image", "pack", value={**PATCHES, "axes": 4, "channels": "last"}),
        "patches of four axes have their channels first",
        "pack",
    ),
    (change("clip", "image", "pack", value={"as": "rows"}), "Invalid value 'rows'", "pack.as"),
    (
        change("clip", "image", "batch", value={"join": "room"}),
        "count is needed with join: room, and only there",
        "batch",
    ),
    (change("clip", "image", "batch", value={"count": 3}), "count is needed with join: room, and only there", "batch"),
    (
        change("clip", "image", "batch", value={"by_sample": True}),
        "by_sample needs join: longest or join: room",
        "batch",
    ),
    (change("clip", "image", "batch", value={"flat_list": "one"}), "Invalid enum value 'one'", "batch.flat_list"),
]

WRONG_BEYOND_THE_IMAGE = [
    # tensors
    (tensor("clip", value="grid_thw"), "'more' is grid_thw, which needs one view that is packed as patches", "$"),
    (tensor("llama4", value="grid_hw"), "'more' is grid_hw, which needs one view that is packed as patches", "$"),
    (tensor("molmo2", value="patch_positions"), "'more' is patch_positions, which needs one view", "$"),
    (tensor("clip", value="tile_mask"), "'more' is tile_mask, which needs a batch with join: room", "$"),
    (tensor("llama4", value="tile_grid_id"), "'more' is tile_grid_id, which needs a batch with join: room", "$"),
    (tensor("qwen2_vl", value="pixel_mask"), "'more' is pixel_mask, which needs a pack of planar images or tiles", "$"),
    (
        tensor("llama4", value="patch_mask", patch=14),
        "'more' is patch_mask, which needs a patch, and a first stage",
        "$",
    ),
    (tensor("phi4mm", value="patch_mask"), "'more' is patch_mask, which needs a patch, and a first stage", "$"),
    (tensor("qwen2_vl", value="pooling"), "'more' is pooling, which needs overlapping_crops", "$"),
    (tensor("gemma3", value="pooled_grids"), "'more' is pooled_grids, which needs overlapping_crops", "$"),
    (tensor("llama4", value="blocks", join="blocks"), "'more' has join: blocks, which is not for blocks", "$"),
    (
        tensor("idefics3", value="pixel_mask", join="images"),
        "'more' has join: images, which is not for pixel_mask",
        "$",
    ),
    (tensor("llama4", value="blocks", pad=1), "'more' has pad, which is not for blocks joined as rows", "$"),
    (tensor("llama4", value="blocks", patch=14), "'more' has patch, which is not for blocks joined as rows", "$"),
    (tensor("llama4", value="blocks", pool=[2, 2]), "'more' has pool, which is not for blocks joined as rows", "$"),
    (tensor("llama4", value="blocks", split="rows"), "'rows' is not one of images, more", "$"),
    (tensor("llama4", value="blocks", split="pixel_values"), "'pixel_values' is not one of images, more", "$"),
    (tensor("llama4", value="tiles"), "Invalid enum value 'tiles'", "$.tensors.more.value"),
    (tensor("llama4", value="blocks", join="all"), "Invalid enum value 'all'", "$.tensors.more.join"),
    (
        change("llama4", "tensors", "pixel_values", drop=True),
        "tensors must hold exactly one whose value is primary",
        "$",
    ),
    (change("llama4", "tensors", value=[]), "tensors must hold exactly one whose value is primary", "$"),
    (change("llama4", "tensors", value=3), "Expected `array`, got `int`", "$.tensors"),
    # tokens
    (
        change("llama4", "tokens", "features", "count", value="each"),
        "Invalid value 'each'",
        "$.tokens.features.count",
    ),
    (change("llama4", "tokens", "feature", drop=True), "feature is needed unless count is uncounted", "$.tokens"),
    (
        change("mllama", "tokens", "feature", value="<|image|>"),
        "feature is needed unless count is uncounted",
        "$.tokens",
    ),
    (change("llama4", "tokens", "feature", value="<|no|>"), "ids lacks '<|no|>'", "$.tokens"),
    (change("llama4", "tokens", "placeholder", value="<|no|>"), "ids lacks '<|no|>'", "$.tokens"),
    (
        change("phi3_v", "tokens", "placeholder", value="<{n}>"),
        "placeholder: only {number} can stand in braces, not '<{n}>'",
        "$.tokens",
    ),
    (change("phi3_v", "tokens", "placeholder", value="<{number>"), "text has a single brace: '<{number>'", "$.tokens"),
    (
        change("llama4", "tokens", "ids", 1, "token", value="<|image|>"),
        "ids names a token twice",
        "$.tokens",
    ),
    (
        change("llama4", "tokens", "expand", 0, value={"text": "{row}"}),
        "expand[0].text: {row} stands outside of its loop",
        "$.tokens",
    ),
    (
        change("llama4", "tokens", "expand", 0, value={"text": "a", "times": "rows"}),
        "a node with text cannot have times",
        "$.tokens.expand[0]",
    ),
    (
        change("llama4", "tokens", "expand", 0, value={"repeat": "a"}),
        "a node with repeat needs times",
        "$.tokens.expand[0]",
    ),
    (
        change("llama4", "tokens", "expand", 0, value={"times": "rows"}),
        "a node has one of repeat, text, each, when, not none",
        "$.tokens.expand[0]",
    ),
    (
        change("phi3_v", "tokens", "features", "tokens", value=143),
        "tokens must be a square, not 143",
        "$.tokens.features",
    ),
    # engines
    (
        change("llava1_5", "wire", "sglang", value={"refusal": "no", "device_normalize": True}),
        "wire.sglang: refusal stands alone",
        "$",
    ),
    (
        change("llava1_5", "wire", "vllm", value={"tensors": [{"tensor": "pixel_values"}]}),
        "wire.vllm: no small tensor is named pixel_values",
        "$",
    ),
    (
        change("llama4", "wire", "vllm", value={"tensors": [{"tensor": "aspect_ratios"}]}),
        "wire.vllm: patches_per_image is needed to split others",
        "$",
    ),
    (change("clip", "wire", value={"vllm": {}}), "wire.vllm: a spec without tokens cannot be sent", "$"),
    # the whole
    (
        change("internvl", "tokens", "features", value={"count": "per_tile", "patch": 449}),
        "tiles of 448 are smaller than the encoder's patches of 449",
        "$",
    ),
    (change("clip", *STEP, "filter", value="hamming"), "'image': hamming exists only for the reference pillow", "$"),
    (
        change("llava1_5", *STEP, "fill", "default", value="half"),
        "image_mean has two defaults",
        "$",
    ),
    (change("clip", "fields", "same", value={"crop_size": 3}), "Expected `str`, got `int`", "$.fields.same[...]"),
    (change("clip", "match", "architectures", value="A"), "Expected `array`, got `str`", "$.match.architectures"),
]


@pytest.mark.parametrize(("tree", "reason", "place"), WRONG)
def test_parts_of_an_image_that_do_not_go_together(tree, reason, place):
    with pytest.raises(SpecError) as caught:
        resolve(tree)
    place = f"$.image.{place}".removesuffix(".")
    assert str(caught.value) == f"{tree['name']}: {reason} - at `{place}`"


@pytest.mark.parametrize(("tree", "reason", "place"), WRONG_BEYOND_THE_IMAGE)
def test_parts_that_do_not_go_together(tree, reason, place):
    with pytest.raises(SpecError) as caught:
        resolve(tree)
    assert str(caught.value).startswith(f"{tree['name']}: {reason}")
    assert str(caught.value).endswith(f" - at `{place}`")


def test_what_goes_together():
    for tree in (
        steps(),
        steps(SQUARE),
        steps(SQUARE, CROP),
        steps(SQUARE, SQUARE, RESIZE, SQUARE),
        steps(RESIZE, CROP),
        steps({**RESIZE, "method": "linear"}),
        views("clip", VIEW),
        tensor("llama4", value="blocks", split="more"),
    ):
        assert resolve(tree).name == tree["name"]


def test_filters_that_pillow_alone_has():
    tree = change("clip", *STEP, "filter", value="hamming")
    assert resolve(tree, reference="pillow").image.views[0].steps[0].filter == "hamming"
    assert (
        resolve(load("clip"), overrides={"resample": 4}, reference="pillow<13").image.views[0].steps[0].filter == "box"
    )
    with pytest.raises(OptionError, match=r"^resample=4: box exists only for the reference pillow \(clip\)$"):
        resolve(load("clip"), overrides={"resample": 4})


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("section", ["schema", "source", "match", "image", "tensors", "name"])
def test_every_section_is_needed(name, section):
    tree = load(name)
    del tree[section]
    with pytest.raises(SpecError, match=r" - at `\$(\.image)?`$"):
        resolve(tree)


@pytest.mark.parametrize("name", names())
def test_every_struct_refuses_a_key_that_it_does_not_know(name):
    for path in mappings(load(name)):
        with pytest.raises(SpecError, match=r" - at `\$"):
            resolve(change(name, *path, "more", value=1))


def mappings(node, path=()):
    """Yield where mappings of fixed keys stand."""
    if isinstance(node, dict):
        free = path in {("constants",), ("tensors",), ("fields", "unset"), ("fields", "fixed")} or "default" in path
        if not free and path[:2] not in {("fields", key) for key in ("unset", "published", "same", "folded")}:
            yield path
        for key, value in node.items():
            yield from mappings(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from mappings(value, (*path, index))
