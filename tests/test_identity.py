"""Identities of what encoders get: whatever differs in their input differs in them."""

import io
import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from media.reading import encoded, exif, noise, picture
from PIL import Image

from foveal import Preprocessor
from foveal.errors import MediaError, OptionError
from foveal.media.policy import DEFAULT, PRESETS, DecodePolicy
from foveal.media.sources import open_source
from foveal.request import CLIENT_ID_BYTES, Basis, identity, open_items

CLIP = Preprocessor.from_spec("clip").spec
QWEN = Preprocessor.from_spec("qwen2_5_vl").spec
KINDS = ("encoded", "pillow", "array")


def identities(*images, spec=CLIP, policy=DEFAULT, dtype=None, sample=False, **options):
    """Return the identity of each image, alone in its sample or together with the others."""
    samples = [list(images)] if sample else [[image] for image in images]
    items = open_items(samples, lambda height, width, sample: None, policy=policy, spec=spec, dtype=dtype, **options)
    return [item.identity for item in items]


def all_differ(*found):
    assert len(set(found)) == len(found)


def test_an_identity_is_the_same_each_time_and_in_each_process():
    data = encoded(Image.new("L", (3, 2)), "BMP")
    basis = Basis(CLIP)
    (found,) = identities(data)
    assert found == identity(open_source(data).digest(), "encoded", basis)
    assert len(found) == 64
    assert int(found, 16)
    assert identities(data, data) == [found, found]


def test_items_make_it_once(monkeypatch):
    (item,) = open_items([[noise(4, 5)]], lambda height, width, sample: None, spec=CLIP)
    assert item.digest == item.digest == open_source(noise(4, 5)).digest()
    first = item.identity
    monkeypatch.setattr(type(item.source), "digest", None)
    assert item.identity == first
    (without,) = open_items([[noise(4, 5)]], lambda height, width, sample: None)
    with pytest.raises(OptionError, match="an identity needs a spec"):
        _ = without.identity


def test_an_error_names_the_image(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(encoded(picture("RGB"), "PNG"))
    items = open_items([[noise(4, 5)], [path]], lambda height, width, sample: None, spec=CLIP)
    path.unlink()
    for name in ("digest", "identity"):
        with pytest.raises(MediaError, match=r"^image 1: image.png: cannot be opened: no such file or directory$"):
            getattr(items[1], name)


# ---- content


def test_same_bytes_of_another_shape():
    for one, other in (((30, 150), (150, 30)), ((6, 4), (4, 6))):
        arrays = [np.full((*size, 3), 7, np.uint8) for size in (one, other)]
        all_differ(*identities(*arrays), *identities(*map(Image.fromarray, arrays)))
    values = np.zeros((4, 6, 1), np.float32)
    as_bytes = values.view(np.uint8).reshape(4, 6, 4)
    all_differ(
        *identities(values, value_range=(0, 1)), *identities(values, value_range=(0, 255)), *identities(as_bytes)
    )


def test_same_bytes_of_another_mode_or_palette():
    grey = noise(7, 11, None, seed=1)
    images = [Image.fromarray(grey)]
    for first in range(3):
        image = Image.new("P", (11, 7))
        image.frombytes(grey.tobytes())
        image.putpalette([(first + value) % 256 for value in range(256) for _ in range(3)])
        images.append(image)
    all_differ(*identities(*images))


def test_kinds_of_the_same_picture():
    array = noise(8, 9)
    image = Image.fromarray(array)
    all_differ(*identities(array, image, encoded(image, "PNG"), encoded(image, "BMP")))
    digest = "0" * 64
    all_differ(*(identity(digest, kind, Basis(CLIP)) for kind in KINDS))


def test_bytes_after_the_end_marker():
    for format in ("JPEG", "PNG"):
        data = encoded(picture("RGB", 8, 9), format)
        all_differ(*identities(data, data + b"\0", data + b"suffix", data + data))


def test_ids_in_metadata_are_content_like_all_else():
    same_id = []
    for seed in range(2):
        tags = Image.Exif()
        tags[0x8769] = {0xA420: "0123456789abcdef0123456789abcdef"}
        same_id.append(encoded(Image.fromarray(noise(8, 9, seed=seed)), "JPEG", exif=tags))
    all_differ(*identities(*same_id))
    lazy = [Image.open(io.BytesIO(data)) for data in same_id]
    all_differ(*identities(*lazy))


# ---- policy, spec, overrides, dtype


def test_policies():
    policies = [
        DEFAULT,
        DecodePolicy(background=(0, 0, 0)),
        DecodePolicy(background=(0, 0, 1)),
        DecodePolicy(orientation="ignore"),
        DecodePolicy(transparency="drop"),
        DecodePolicy(transparency="chessboard"),
        DecodePolicy(stage="after_resize"),
        DecodePolicy(depth="high_byte"),
        DecodePolicy(truncated="accept"),
        DecodePolicy(frame=1),
    ]
    image = Image.new("RGBA", (4, 4), (200, 100, 50, 0))
    all_differ(*(identities(image, policy=policy)[0] for policy in policies))
    assert len({identity("0" * 64, "encoded", Basis(CLIP, policy)) for policy in PRESETS.values()}) > 1


def test_frames_of_one_animation():
    frames = [Image.fromarray(noise(8, 9, seed=seed)) for seed in range(3)]
    data = encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])
    all_differ(*(identities(data, policy=DecodePolicy(frame=frame))[0] for frame in range(3)))


def test_orientation():
    data = encoded(picture("RGB", 8, 9), "JPEG", exif=exif(6))
    all_differ(*identities(data), *identities(data, policy=PRESETS["huggingface"]))


def test_specs_references_and_overrides():
    specs = [
        CLIP,
        QWEN,
        Preprocessor.from_spec("qwen3_vl").spec,
        Preprocessor.from_spec("qwen2_5_vl", "pillow").spec,
        Preprocessor.from_spec("qwen2_5_vl", "pillow<13").spec,
        Preprocessor.from_spec("qwen2_5_vl", min_pixels=3137).spec,
        Preprocessor.from_spec("qwen2_5_vl", min_pixels=3138).spec,
        Preprocessor.from_spec("clip", do_rescale=False, do_normalize=False).spec,
        Preprocessor.from_spec("clip", image_mean=[0.5, 0.5, 0.5]).spec,
        Preprocessor.from_spec("clip", image_mean=[0.5, 0.5, 0.5000000000000001]).spec,
        msgspec.structs.replace(CLIP, name="clip2"),
    ]
    assert len(set(specs)) == len(specs)
    all_differ(*(identities(noise(8, 9), spec=spec)[0] for spec in specs))


def test_an_override_that_changes_nothing_keeps_the_identity():
    same = Preprocessor.from_spec("clip", do_resize=True).spec
    assert identities(noise(8, 9), spec=same) == identities(noise(8, 9))


def test_dtypes():
    found = {dtype: identities(noise(8, 9), dtype=dtype)[0] for dtype in ("float32", "bfloat16", "float16", "uint8")}
    all_differ(*found.values())
    assert identities(noise(8, 9)) == [found["float32"]]


def test_others_in_the_sample_count_where_views_depend_on_them():
    images = noise(8, 9, seed=1), noise(8, 9, seed=2)
    assert identities(*images, sample=True) == identities(*images)
    spec = Preprocessor.from_spec("llava_onevision").spec
    all_differ(*identities(*images, sample=True, spec=spec), *identities(*images, spec=spec))


@pytest.mark.parametrize(
    "change",
    [
        {"factor": 0.5},
        {"mean": (0.1, 0.2, 0.3)},
        {"std": (1.0, 1.0, 2.0)},
        {"normalize": False},
        {"untouched": "float32"},
    ],
)
def test_every_number_of_a_spec_counts(change):
    image = msgspec.structs.replace(CLIP.image, normalize=msgspec.structs.replace(CLIP.image.normalize, **change))
    other = msgspec.structs.replace(CLIP, image=image)
    assert identity("0" * 64, "encoded", Basis(other)) != identity("0" * 64, "encoded", Basis(CLIP))


# ---- clients


def test_an_id_of_a_client_narrows_down_and_never_replaces():
    digest, other = "0" * 64, "1" * 64
    basis = Basis(CLIP)
    all_differ(
        identity(digest, "encoded", basis),
        identity(digest, "encoded", basis, salt=b"a"),
        identity(digest, "encoded", basis, client_id="x", salt=b"a"),
        identity(digest, "encoded", basis, client_id="x", salt=b"b"),
        identity(digest, "encoded", basis, client_id="", salt=b"a"),
        identity(other, "encoded", basis, client_id="x", salt=b"a"),
        identity(digest, "encoded", basis, client_id="ax", salt=b"a"),
        identity(digest, "encoded", basis, client_id="x", salt=b"aa"),
    )


def test_an_id_of_a_client_is_bounded_and_salted():
    longest = "é" * (CLIENT_ID_BYTES // 2)
    assert identity("0" * 64, "encoded", Basis(CLIP), client_id=longest, salt=b"s")
    with pytest.raises(OptionError, match=r"^client_id has 257 bytes, more than the limit of 256$"):
        identity("0" * 64, "encoded", Basis(CLIP), client_id=longest + "x", salt=b"s")
    with pytest.raises(OptionError, match="10485760 bytes") as caught:
        identity("0" * 64, "encoded", Basis(CLIP), client_id="x" * (10 << 20), salt=b"s")
    assert len(str(caught.value)) < 100
    with pytest.raises(OptionError, match="client_id needs a salt"):
        identity("0" * 64, "encoded", Basis(CLIP), client_id="x")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *(
            ({"digest": digest}, "digest must be 64 hexa")
            for digest in ("", "0" * 63, "G" * 64, b"0" * 64, "0" * 64 + "\n")
        ),
        *(({"kind": kind}, "kind must be 'encoded' or 'pillow' or 'array'") for kind in ("jpeg", None, ["array"])),
        *(({"basis": basis}, "basis must be a Basis") for basis in (CLIP, None, Basis("clip"), Basis(CLIP, "vllm"))),
        ({"basis": Basis(CLIP, DEFAULT, "float64")}, "dtype must be one of float32, "),
        ({"sample": "one"}, "sample must be 'one_image' or 'many_images'"),
        ({"salt": "text"}, "salt must be bytes"),
        ({"client_id": 7, "salt": b"s"}, "client_id must be a str"),
    ],
)
def test_arguments_of_an_identity(wrong, said):
    right = {"digest": "0" * 64, "kind": "encoded", "basis": Basis(CLIP)}
    assert identity(**right)
    with pytest.raises(OptionError, match=f"^{said}"):
        identity(**{**right, **wrong})


def test_an_item_takes_an_id_too():
    (item,) = open_items([[noise(4, 5)]], lambda height, width, sample: None, spec=CLIP)
    all_differ(item.identity, item.identify("x", b"s"), item.identify("y", b"s"), item.identify(salt=b"s"))


texts = st.text(max_size=4)
policies = st.builds(
    DecodePolicy,
    orientation=st.sampled_from(("apply", "ignore")),
    background=st.tuples(*[st.integers(0, 2)] * 3),
    frame=st.integers(0, 2),
)
inputs = st.tuples(
    st.text("01", min_size=1, max_size=3).map(lambda text: text.ljust(64, "f")),
    st.sampled_from(KINDS),
    st.sampled_from((CLIP, QWEN)),
    policies,
    st.sampled_from(("float32", "bfloat16")),
    st.none() | texts,
    st.binary(min_size=1, max_size=3),
)


@given(inputs, inputs)
@settings(max_examples=200, deadline=None)
def test_two_inputs_share_an_identity_only_if_they_are_one(one, other):
    found = [
        identity(digest, kind, Basis(spec, policy, dtype), client_id=client, salt=salt)
        for digest, kind, spec, policy, dtype, client, salt in (one, other)
    ]
    assert (found[0] == found[1]) == (one == other)


@given(texts, texts, texts, texts)
def test_salt_and_id_are_framed(salt, client, other_salt, other_client):
    one, other = [
        identity("0" * 64, "array", Basis(CLIP), client_id=name, salt=b"s" + secret.encode(errors="replace"))
        for secret, name in ((salt, client), (other_salt, other_client))
    ]
    same = (salt.encode(errors="replace"), client) == (other_salt.encode(errors="replace"), other_client)
    assert (one == other) == same


def test_all_pairs_of_small_arrays():
    shapes = itertools.product((1, 2, 3, 4), repeat=2)
    arrays = [np.zeros((*shape, channels), np.uint8) for shape in shapes for channels in (1, 3, 4)]
    all_differ(*identities(*arrays))
