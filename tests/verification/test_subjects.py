import numpy as np
import pytest
from PIL import Image

from foveal.errors import MediaError, OptionError
from foveal.verification.images import MODE_SIZE, MODES, SIZES, drawn, given


def save(path, size=(5, 4), **options):
    Image.new("RGB", size, (1, 2, 3)).save(path, **options)
    return path


def names(images):
    return [subject.name for subject in given(images)]


def test_the_built_in_set():
    images = [subject.load() for subject in drawn(modes=True)]
    assert [image.size for image in images] == [(w, h) for h, w in (*SIZES, *[MODE_SIZE] * len(MODES))]
    assert [image.mode for image in images] == ["RGB"] * len(SIZES) + [mode.split()[0] for mode in MODES]
    assert "transparency" in images[len(SIZES) + MODES.index("P with transparency")].info
    assert {subject.load().mode for subject in drawn(modes=False)} == {"RGB"}


def test_the_built_in_set_is_the_same_each_time():
    for first, second in zip(drawn(modes=True), drawn(modes=True), strict=True):
        np.testing.assert_array_equal(np.asarray(first.load()), np.asarray(second.load()))


def test_files_folders_and_pillow_images(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deeper.png").mkdir(parents=True)
    (folder / "notes.txt").write_text("no image")
    save(folder / "b.JPG")
    save(folder / "a.png")
    alone = save(tmp_path / "alone.webp")
    picture = Image.new("L", (3, 2))
    assert names([alone, str(folder), picture]) == [
        str(alone),
        str(folder / "a.png"),
        str(folder / "b.JPG"),
        "image 2",
    ]
    assert names(alone) == [str(alone)]
    assert given(picture)[0].load() is picture


def test_files_are_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (subject,) = given(save(tmp_path / "turned.jpg", exif=exif))
    assert subject.load().size == (4, 5)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(MediaError, match=r"image 1 \(.*none\.png\): no such file or folder"):
        given([save(tmp_path / "there.png"), tmp_path / "none.png"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(MediaError, match=r"image 0 \(.*empty\): the folder holds no image"):
        given(empty)
    with pytest.raises(MediaError, match="there is no image"):
        given([])
    with pytest.raises(OptionError, match="image 0 is of type int"):
        given([3])


def test_a_file_that_cannot_be_decoded(tmp_path):
    whole = save(tmp_path / "whole.png", (50, 40)).read_bytes()
    (tmp_path / "half.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("no image")
    for subject in given([tmp_path / "half.png", tmp_path / "text.png"]):
        with pytest.raises(MediaError, match="cannot be read: ") as error:
            subject.load()
        assert str(tmp_path) not in str(error.value)
