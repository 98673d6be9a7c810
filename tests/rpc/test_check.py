import handmade
import ml_dtypes
import numpy as np
import pytest
from handmade import RIGHT, fill_vllm, image_bytes, put, values

from foveal.backends.messages import common
from foveal.errors import RequestError
from foveal.grpc.checking import check, problems
from foveal.grpc.decoding import decode
from foveal.grpc.description import describe


def found(request, **options):
    return problems(decode(request), **options)


@pytest.mark.parametrize("name", list(RIGHT))
def test_right_requests(name):
    decoded = decode(RIGHT[name]())
    assert problems(decoded) == []
    assert problems(decoded, device_normalize=False) == []
    check(decoded, device_normalize=False)


@pytest.mark.parametrize("name", [name for name in RIGHT if name not in ("trtllm",)])
def test_right_requests_in_torch(name):
    pytest.importorskip("torch")
    assert problems(decode(RIGHT[name](), torch_dtype="bfloat16"), device_normalize=False) == []


def test_an_image_twice_has_one_hash():
    request = handmade.llava()
    put(request.mm_inputs.pixel_values, np.stack([values(3, 4, 4)] * 2))
    request.mm_inputs.mm_hashes[:] = ["same"] * 2
    assert found(request) == []


def test_not_a_number_equals_itself():
    request = handmade.llava()
    put(request.mm_inputs.pixel_values, np.full((2, 3, 4, 4), np.nan, ml_dtypes.bfloat16))
    request.mm_inputs.mm_hashes[:] = ["same"] * 2
    assert found(request) == []


# ---- one test a kind: name of a right request, how it is spoiled, what is said


def inputs(change):
    """A change of ``mm_inputs``."""
    return lambda request: change(request.mm_inputs)


def assign(**fields):
    def change(message):
        for field, value in fields.items():
            setattr(message, field, value)

    return inputs(change)


def first_item(**fields):
    def change(request):
        for field, value in fields.items():
            setattr(request.mm_inputs.items[0], field, value)

    return change


def clear(*fields):
    def change(message):
        for field in fields:
            message.ClearField(field)

    return inputs(change)


def keys(field, *names):
    return inputs(lambda message: getattr(message, field).__setitem__(slice(None), names))


def ranges(*places):
    def change(message):
        del message.mm_placeholders[:]
        for offset, length in places:
            message.mm_placeholders.add(offset=offset, length=length)

    return inputs(change)


def items_ranges(*places):
    def change(request):
        for item, these in zip(request.mm_inputs.items, places, strict=True):
            del item.placeholders[:]
            for offset, length in these:
                item.placeholders.add(offset=offset, length=length)

    return change


def tensor(key, array):
    return inputs(lambda message: put(message.model_specific_tensors[key], array))


def item_tensor(key, array):
    return lambda request: put(request.mm_inputs.items[0].model_specific_tensors[key], array)


def pixels(array):
    return inputs(lambda message: put(message.pixel_values, array))


def modality(name):
    return assign(modality=common().Modality.Value(name))


def all_of(*changes):
    return lambda request: [change(request) for change in changes]


def second_batch(name="VIDEO", place=(0, 1), **options):
    def change(request):
        fill_vllm(request.extra_mm_inputs.add(), [place], values(1, 3, 4, 4), {}, modality=name, **options)

    return change


WRONG = {
    "sizes too small": (
        "qwen",
        tensor("patches_per_image", np.array([24, 7])),
        [
            "mm_inputs.pixel_values has 32 rows, but patches_per_image divides 31",
            "mm_inputs.image_grid_thw counts 8 patches of item 1, but pixel_values has 7 rows for it",
        ],
    ),
    "sizes too large": (
        "llama4",
        tensor("patches_per_image", np.array([3, 2])),
        ["mm_inputs.pixel_values has 4 rows, but patches_per_image divides 5"],
    ),
    "no flat key": (
        "llama4",
        inputs(lambda message: message.flat_keys.clear()),
        ["mm_inputs.pixel_values is in neither batched_keys nor flat_keys, so each item would get all of it"],
    ),
    "no batched key": (
        "llava",
        keys("batched_keys"),
        ["mm_inputs.pixel_values is in neither batched_keys nor flat_keys, so each item would get all of it"],
    ),
    "another key for the encoder's input": (
        "llava",
        assign(encoder_input_key="patches"),
        ["mm_inputs.patches is in neither batched_keys nor flat_keys, so each item would get all of it"],
    ),
    "a grid on the device": (
        "qwen",
        keys("keep_on_cpu_keys"),
        ["mm_inputs.image_grid_thw must be in keep_on_cpu_keys, and in batched_keys or flat_keys"],
    ),
    "a grid that is shared": (
        "qwen",
        all_of(keys("batched_keys", "patches_per_image"), tensor("image_grid_thw", np.array([[1, 4, 6]]))),
        [
            "mm_inputs.image_grid_thw must be in keep_on_cpu_keys, and in batched_keys or flat_keys",
            "mm_inputs.image_grid_thw counts 24 patches of item 1, but pixel_values has 8 rows for it",
        ],
    ),
    "a grid of another image": (
        "qwen",
        tensor("image_grid_thw", np.array([[1, 4, 8], [1, 2, 4]])),
        ["mm_inputs.image_grid_thw counts 32 patches of item 0, but pixel_values has 24 rows for it"],
    ),
    "a grid of sglang": (
        "sglang_qwen",
        tensor("image_grid_thw", np.array([[1, 4, 6]])),
        ["mm_inputs.image_grid_thw counts 24 patches of item 0, but pixel_values has 32 rows for it"],
    ),
    "a range behind the prompt": (
        "llava",
        ranges((1, 4), (6, 5)),
        ["mm_inputs.mm_placeholders[1] ends at 11, behind the prompt of 10 tokens"],
    ),
    "a range far behind the prompt": (
        "sglang_qwen",
        ranges((3, 6), (2**32 - 1, 2**32 - 1)),
        [f"mm_inputs.mm_placeholders[1] ends at {2**33 - 2}, behind the prompt of 16 tokens"],
    ),
    "ranges that overlap": (
        "llava",
        ranges((1, 4), (4, 4)),
        ["mm_inputs.mm_placeholders[1] starts at 4, and mm_placeholders[0] ends at 5; they must follow one another"],
    ),
    "ranges in another order": (
        "llava",
        ranges((6, 4), (1, 4)),
        ["mm_inputs.mm_placeholders[1] starts at 1, and mm_placeholders[0] ends at 10; they must follow one another"],
    ),
    "a range without tokens": ("llava", ranges((1, 4), (6, 0)), ["mm_inputs.mm_placeholders[1] has no tokens"]),
    "no id": (
        "llama4",
        clear("im_token_id"),
        ["mm_inputs.im_token_id is missing; the tokens that features replace must have an id"],
    ),
    "another id": (
        "llava",
        assign(im_token_id=5),
        [
            "mm_inputs.mm_placeholders[0] has no token that is im_token_id 5",
            "mm_inputs.mm_placeholders[1] has no token that is im_token_id 5",
        ],
    ),
    "a range elsewhere": (
        "llava",
        ranges((0, 1), (6, 4)),
        ["mm_inputs.mm_placeholders[0] has no token that is im_token_id 7"],
    ),
    "no hashes": ("llava", clear("mm_hashes"), ["mm_inputs.mm_hashes has 0 hashes, but there are 2 items"]),
    "too few hashes": ("llava", keys("mm_hashes", "a"), ["mm_inputs.mm_hashes has 1 hashes, but there are 2 items"]),
    "too many hashes": (
        "llava",
        keys("mm_hashes", "a", "b", "c"),
        ["mm_inputs.mm_hashes has 3 hashes, but there are 2 items"],
    ),
    "an empty hash": ("llava", keys("mm_hashes", "a", ""), ["mm_inputs.mm_hashes[1] is empty"]),
    "a hash for two images": (
        "llava",
        keys("mm_hashes", "\n" + "a" * 63, "\n" + "a" * 63),
        ["mm_inputs item 1 has the hash ?aaaaaaa...aaaaaaaa of mm_inputs item 0, but other tensors"],
    ),
    "audio": ("llava", modality("AUDIO"), ["mm_inputs.modality is AUDIO; it must be IMAGE or VIDEO"]),
    "no modality": (
        "llava",
        clear("modality"),
        ["mm_inputs.modality is MODALITY_UNSPECIFIED; it must be IMAGE or VIDEO"],
    ),
    "an unknown modality": ("llava", assign(modality=9), ["mm_inputs.modality is 9; it must be IMAGE or VIDEO"]),
    "pixels of whole numbers": (
        "llava",
        pixels(values(2, 3, 4, 4, dtype=np.int64)),
        ["mm_inputs.pixel_values is int64; it must be float32, bfloat16, float16 or uint8"],
    ),
    "no pixels": (
        "llava",
        clear("pixel_values", "mm_hashes", "mm_placeholders"),
        [
            "mm_inputs.pixel_values is missing, and no encoder would run",
            "mm_inputs.mm_placeholders is empty, so nothing would be placed in the prompt",
        ],
    ),
    "a second batch of images": (
        "llava",
        second_batch("IMAGE", batched=["pixel_values"]),
        [
            "extra_mm_inputs[0].mm_placeholders[0] has no token that is im_token_id 7",
            "extra_mm_inputs[0] is IMAGE, as is mm_inputs; each modality has one batch",
            "extra_mm_inputs[0].pixel_values is in mm_inputs too; batches must not have a tensor in common",
        ],
    ),
    "batches that overlap": (
        "llava",
        second_batch(place=(3, 1), batched=["pixel_values"]),
        [
            "extra_mm_inputs[0].mm_placeholders[0] starts at 3, and mm_inputs.mm_placeholders[0] ends at 5; they must "
            "follow one another"
        ],
    ),
    "no id for sglang": (
        "sglang_qwen",
        clear("im_token_id"),
        ["mm_inputs.im_token_id is missing; the tokens that features replace must have an id"],
    ),
    "no ranges for sglang": (
        "sglang_qwen",
        clear("mm_placeholders"),
        ["mm_inputs.mm_placeholders is empty, so nothing would be placed in the prompt"],
    ),
    "structural ranges for sglang": (
        "sglang_llama4",
        ranges(*handmade.LLAMA4_RANGES),
        [
            "mm_inputs.mm_placeholders[0] has 3 tokens that are not im_token_id 7; features would replace all of them",
            "mm_inputs.mm_placeholders[1] has 2 tokens that are not im_token_id 7; features would replace all of them",
        ],
    ),
    "nothing but files for sglang": (
        "sglang_qwen",
        clear("pixel_values"),
        ["mm_inputs.pixel_values is missing, and no encoder would run"],
    ),
    "no modality for tokenspeed": (
        "tokenspeed_llama4",
        first_item(modality=0),
        ["mm_inputs.items[0].modality is MODALITY_UNSPECIFIED; it must be IMAGE, VIDEO or AUDIO"],
    ),
    "a video's grid for an image": (
        "tokenspeed_llama4",
        item_tensor("video_grid_thw", np.array([[1, 1, 3]])),
        ["mm_inputs.items[0].video_grid_thw is of an item that is IMAGE; it must be VIDEO"],
    ),
    "an image's grid for a video": (
        "tokenspeed_qwen",
        first_item(modality=3),
        [
            "mm_inputs.items[0].image_grid_thw is of an item that is VIDEO; it must be IMAGE",
            "mm_inputs.items[0].video_grid_thw is missing; an item that is VIDEO must have it",
        ],
    ),
    "no ranges for tokenspeed": (
        "tokenspeed_qwen",
        items_ranges([], [(12, 2)]),
        ["mm_inputs.items[0].placeholders is empty, so nothing would be placed in the prompt"],
    ),
    "a range without tokens for tokenspeed": (
        "tokenspeed_qwen",
        items_ranges([(3, 0)], [(12, 2)]),
        ["mm_inputs.items[0].placeholders[0] has no tokens"],
    ),
    "a structural range for tokenspeed": (
        "tokenspeed_qwen",
        items_ranges([(2, 8)], [(12, 2)]),
        [
            "mm_inputs.items[0].placeholders[0] has 2 tokens that are not placeholder_token_id 7; features would "
            "replace all of them"
        ],
    ),
    "items in another order": (
        "tokenspeed_qwen",
        items_ranges([(12, 2)], [(3, 6)]),
        [
            "mm_inputs.items[1].placeholders[0] starts at 3, and mm_inputs.items[0].placeholders[0] ends at 14; they "
            "must follow one another"
        ],
    ),
    "no id for tokenspeed": (
        "tokenspeed_qwen",
        lambda request: request.mm_inputs.items[0].ClearField("placeholder_token_id"),
        ["mm_inputs.items[0].placeholder_token_id is missing; the tokens that features replace must have an id"],
    ),
    "two ids for tokenspeed": (
        "tokenspeed_qwen",
        first_item(placeholder_token_id=5),
        [
            "mm_inputs.items[0].placeholders[0] has no token that is placeholder_token_id 5",
            "mm_inputs.items[1].placeholder_token_id is 7, and that of mm_inputs.items[0] is 5; all that are IMAGE "
            "must have one",
        ],
    ),
    "no pixels for tokenspeed": (
        "tokenspeed_qwen",
        lambda request: request.mm_inputs.items[0].ClearField("encoder_input"),
        ["mm_inputs.items[0].encoder_input is missing, and no encoder would run"],
    ),
    "a hash for two items": (
        "tokenspeed_qwen",
        first_item(content_hash=bytes([1]) * 8 + b"other"),
        [
            "mm_inputs.items[1] has the hash 0101010101010101 of mm_inputs.items[0], but other tensors",
        ],
    ),
    "a file that is cut": (
        "trtllm",
        lambda request: request.multimodal_input.image_data.__setitem__(0, image_bytes()[:20]),
        ["multimodal_input.image_data[0]: the PNG header is truncated or corrupt"],
    ),
}


@pytest.mark.parametrize("kind", list(WRONG))
def test_wrong_requests(kind):
    name, change, expected = WRONG[kind]
    request = RIGHT[name]()
    change(request)
    assert found(request) == expected


def test_files_that_are_no_images():
    (text,) = found(handmade.trtllm(image_bytes(), b"<html>"))
    assert text.startswith("multimodal_input.image_data[1]: not an image of a format that is read (JPEG, PNG, ")


@pytest.mark.parametrize("name", [name for name in RIGHT if name.startswith("text")])
def test_a_prompt_without_ids(name):
    request = RIGHT[name]()
    request.ClearField("tokenized")
    assert found(request) == ["input_ids is empty; the prompt must be token ids"]


def test_names_of_tensors_are_shown_in_one_line():
    request = handmade.llava()
    request.mm_inputs.encoder_input_key = "a\n\x1b[31m" + "b" * 1000
    (text,) = found(request)
    assert text.isprintable()
    assert len(text) < 500


def test_text_of_vllm_is_no_prompt():
    request = handmade.llava()
    request.text = "text beside images, which vLLM would drop"
    assert found(request)[0] == "input_ids is empty; the prompt must be token ids"


@pytest.mark.parametrize("name", ["qwen", "sglang_qwen", "tokenspeed_qwen"])
def test_bytes_for_an_engine_that_does_not_normalize(name):
    request = RIGHT[name]()
    tokenspeed = name.startswith("tokenspeed")
    where, rows = (request.mm_inputs.items[0].encoder_input, 24) if tokenspeed else (request.mm_inputs.pixel_values, 32)
    put(where, values(rows, 12, dtype=np.uint8))
    place = "mm_inputs.items[0].encoder_input" if tokenspeed else "mm_inputs.pixel_values"
    text = f"{place} is uint8, but the engine does not normalize; it must be float32, bfloat16 or float16"
    assert found(request, device_normalize=False) == [text]
    alone = [] if name == "qwen" else [text]
    assert found(request) == found(request, device_normalize=True) == alone


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_floats_for_an_engine_that_normalizes(dtype):
    text = (
        f"mm_inputs.pixel_values is {np.dtype(dtype).name}, but the engine normalizes (mm_device_do_normalize); it "
        "must be uint8"
    )
    assert found(handmade.qwen(dtype), device_normalize=True) == [text]


def test_one_problem_is_the_error():
    request = handmade.llava()
    request.mm_inputs.ClearField("mm_hashes")
    with pytest.raises(RequestError, match=r"^mm_inputs.mm_hashes has 0 hashes, but there are 2 items$"):
        check(decode(request))


def test_more_problems_are_counted():
    request = handmade.llava()
    request.mm_inputs.ClearField("mm_hashes")
    request.mm_inputs.ClearField("modality")
    with pytest.raises(RequestError, match=r"^mm_inputs.modality is MODALITY_UNSPECIFIED; .* \(and 1 more\)$"):
        check(decode(request))


# ---- what is printed of a request


def test_description():
    described = describe(decode(handmade.llama4()))
    assert {key: described[key] for key in ("backend", "request_id", "prompt_tokens")} == {
        "backend": "vllm",
        "request_id": "r",
        "prompt_tokens": 15,
    }
    assert described["items"][0] == {
        "name": "mm_inputs 0",
        "modality": "IMAGE",
        "ranges": [[1, 9]],
        "feature_tokens": 6,
        "hash": "IMAGE0" * 8,
        "tensors": [
            {"name": "pixel_values", "dtype": "bfloat16", "shape": [3, 3, 4, 4], "bytes": 288},
            {"name": "aspect_ratios", "dtype": "int64", "shape": [2], "bytes": 16},
            {"name": "patches_per_image", "dtype": "int64", "shape": [], "bytes": 8},
        ],
    }


def test_description_of_files():
    png = image_bytes()
    described = describe(decode(handmade.trtllm(png, b"<html>")))
    assert described["items"] == [
        {"name": "image_data 0", "modality": "IMAGE", "format": "PNG", "size": [20, 30], "bytes": len(png)},
        {"name": "image_data 1", "modality": "IMAGE", "format": None, "size": None, "bytes": 6},
    ]


def test_description_in_torch():
    pytest.importorskip("torch")
    request = handmade.llama4()
    assert describe(decode(request, torch_dtype="bfloat16")) == describe(decode(request))
