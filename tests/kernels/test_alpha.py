"""Transparent pixels, composited before the resize and after it: against the plain twin and against Pillow itself."""

import dataclasses

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from views import guarded_pixels, pixels_of, run, view_of

from foveal.errors import OptionError
from foveal.media.pixels import Backdrop
from foveal.plan.plan import Pack
from foveal.run import execute, transparency
from foveal.run.reading import board_of
from foveal.run.transparency import composited
from foveal.types import Box
from foveal_kernels.alpha import composite_resized

WHITE, BLACK = (255, 255, 255), (0, 0, 0)
FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
sides = st.one_of(st.integers(1, 24), st.integers(1, 120))
colors = st.tuples(*[st.integers(0, 255)] * 3)
fixture = [HealthCheck.function_scoped_fixture]


def rgba_of(height, width, seed):
    """Noise whose alpha is often 0 or 255."""
    random = np.random.default_rng(seed)
    image = random.integers(0, 256, (height, width, 4), np.uint8)
    image[..., 3] = np.clip(random.integers(-100, 356, (height, width)), 0, 255)
    return image


FORMS = {
    "rgba": lambda image: image,
    "grey": lambda image: image[..., [0, 0, 0, 3]],
    "abgr": lambda image: np.ascontiguousarray(image[..., ::-1])[..., ::-1],
    "mirrored": lambda image: np.ascontiguousarray(image[:, ::-1])[:, ::-1],
    "upside down": lambda image: np.ascontiguousarray(image[::-1])[::-1],
    "planes": lambda image: np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0),
    "every other column": lambda image: np.repeat(image, 2, axis=1)[:, ::2],
}


def pixels_in(form, image, **backdrop):
    """The image in a memory form; the grey one reads its first channel three times, as Pillow's LA."""
    pixels = pixels_of(FORMS[form](image), **backdrop)
    return dataclasses.replace(pixels, channels=(0, 0, 0)) if form == "grey" else pixels


def board_as_image(size, backdrop):
    light = backdrop.get("background", WHITE)
    return naive.chessboard(size, backdrop.get("square", 1), light, backdrop.get("dark", light))


backdrops = st.fixed_dictionaries(
    {"background": colors, "dark": colors, "square": st.integers(1, 40), "rounds_down": st.booleans()}
)


@given(
    form=st.sampled_from(list(FORMS)),
    size=st.tuples(sides, sides),
    backdrop=backdrops,
    corner=st.tuples(st.integers(-40, 90), st.integers(-40, 90)),
    window=st.tuples(sides, sides),
    resize=st.sampled_from(["none", "horizontal first", "vertical first", "linear"]),
    resized=st.tuples(sides, sides),
    cut=st.integers(0, 100),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None, suppress_health_check=fixture)
def test_before_the_resize(level, form, size, backdrop, corner, window, resize, resized, cut, seed):
    """The chessboard is the image's, whichever window is read."""
    image = FORMS[form](rgba_of(*size, seed))
    flat = naive.composite(image, board_as_image(size, backdrop), backdrop["rounds_down"])
    picture = naive.window(flat, (*corner, *window), (9, 8, 7))
    resized = window if resize == "none" else resized
    if resize == "linear":
        want = naive.linear(picture, resized)
    else:
        want = naive.resize(picture, resized, "bicubic", "pillow", resize == "vertical first")
    view = view_of(
        resized,
        window=(*corner, *window),
        border=(9, 8, 7),
        method="linear" if resize == "linear" else "antialias",
        vertical_first=resize == "vertical first",
    )
    cut = min(cut, resized[0])
    pixels = pixels_in(form, rgba_of(*size, seed), **backdrop)
    got = run(view, pixels, bands=[(cut, resized[0]), (0, cut)]).reshape(3, *resized)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(
    size=st.tuples(sides, sides),
    backdrop=backdrops,
    resized=st.tuples(sides, sides),
    kind=st.sampled_from(["bilinear", "bicubic", "lanczos", "nearest"]),
    reference=st.sampled_from(["pillow", "torchvision"]),
    vertical_first=st.booleans(),
    data=st.data(),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None, suppress_health_check=fixture)
def test_after_the_resize(level, size, backdrop, resized, kind, reference, vertical_first, data, seed):
    """A part of the resized picture, on a canvas, in bands: the chessboard is that of the whole resized picture."""
    image, resized = rgba_of(*size, seed), data.draw(st.sampled_from([size, resized]))
    if kind == "nearest":
        rows, columns = (
            naive.nearest_samples(*axis, reference, sum(resized) <= 128) for axis in zip(size, resized, strict=True)
        )
        small = image[rows][:, columns]
    elif size == resized:
        small = image
    else:
        small = naive.straight(naive.resize(naive.weighted(image), resized, kind, reference, vertical_first))
    flat = naive.composite(small, board_as_image(resized, backdrop), backdrop["rounds_down"])
    top, left = data.draw(st.integers(0, resized[0] - 1)), data.draw(st.integers(0, resized[1] - 1))
    height, width = data.draw(st.integers(1, resized[0] - top)), data.draw(st.integers(1, resized[1] - left))
    place = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 20)))
    canvas = (height + place[0] + 3, width + place[1] + 2)
    view = view_of(
        resized,
        filter=kind,
        vertical_first=vertical_first,
        crop=Box(top, left, height, width),
        canvas=canvas,
        place=place,
        fill=(1, 2, 3),
    )
    cut = data.draw(st.integers(0, canvas[0]))
    pixels = pixels_of(image, after_resize=True, **backdrop)
    got = run(view, pixels, reference=reference, bands=[(cut, canvas[0]), (0, cut)]).reshape(3, *canvas)
    want = naive.canvas(flat[top : top + height, left : left + width], canvas, place, (1, 2, 3))
    np.testing.assert_array_equal(got.transpose(1, 2, 0), want)


@given(
    size=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    resized=st.tuples(st.integers(1, 150), st.integers(1, 150)),
    kind=st.sampled_from(list(FILTERS)),
    mode=st.sampled_from(["RGBA", "LA"]),
    background=colors,
    seed=st.integers(0, 1000),
)
@settings(max_examples=50, deadline=None, suppress_health_check=fixture)
def test_after_the_resize_of_the_installed_pillow(level, size, resized, kind, mode, background, seed):
    image = rgba_of(*size, seed)
    picture = Image.fromarray(image if mode == "RGBA" else np.ascontiguousarray(image[..., [0, 3]]))
    small = picture.resize(resized[::-1], FILTERS[kind]).convert("RGBA")
    want = Image.alpha_composite(Image.new("RGBA", small.size, (*background, 255)), small).convert("RGB")
    shorter, narrower = size[0] - resized[0], size[1] - resized[1]
    view = view_of(resized, filter=kind, vertical_first=shorter > 0 and shorter > 2 * narrower)
    form = "rgba" if mode == "RGBA" else "grey"
    got = run(view, pixels_in(form, image, background=background, after_resize=True)).reshape(3, *resized)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), np.asarray(want))


def kimi_k3(image, size):
    """Restates how Kimi-K3's processor fills a transparent RGBA image: moonshotai/Kimi-K3, media_utils.py."""
    small = np.array(Image.fromarray(image).resize(size[::-1], Image.BICUBIC))
    board = naive.chessboard(size, 8, WHITE, (180,) * 3)
    share = np.stack([small[..., 3].astype(np.float32) / 255.0] * 3, axis=2)
    return (share * small[..., :3] + (1 - share) * board).astype(np.uint8)


@pytest.mark.parametrize("size", [(90, 120), (60, 77), (31, 120), (90, 9)])
def test_the_chessboard_of_kimi_k3(level, size):
    image = rgba_of(90, 120, 3)
    pixels = pixels_of(image, dark=(180,) * 3, square=8, after_resize=True, rounds_down=True)
    vertical_first = 90 - size[0] > 0 and 90 - size[0] > 2 * (120 - size[1])
    got = run(view_of(size, vertical_first=vertical_first), pixels).reshape(3, *size)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), kimi_k3(image, size))


@pytest.mark.parametrize("rows", [1, 7, 32])
@pytest.mark.parametrize("pack", [Pack("planar"), Pack("merge_patches", block=4, merge=2, temporal=2)])
def test_pieces_of_a_canvas_make_the_whole(pack, rows, monkeypatch):
    view = view_of((48, 40), pack=pack)
    pixels = pixels_of(rgba_of(90, 120, 3), after_resize=True)
    whole = run(view, pixels)
    monkeypatch.setattr(transparency, "PIECE", rows * 40)
    drawn = []
    monkeypatch.setattr(execute, "composited", lambda *given: (drawn.append(given[2:4]), composited(*given))[1])
    np.testing.assert_array_equal(run(view, pixels), whole)
    assert len(drawn) > 1


def test_a_border_is_opaque():
    image = rgba_of(20, 30, 1)
    opaque = np.dstack([naive.window(image[..., :3], (-4, -3, 33, 40), (9, 8, 7)), np.full((33, 40, 1), 255, np.uint8)])
    opaque[4:24, 3:33, 3] = image[..., 3]
    view = view_of((21, 50), window=(-4, -3, 33, 40), border=(9, 8, 7))
    got = run(view, pixels_of(image, (1, 200, 3), after_resize=True)).reshape(3, 21, 50)
    small = naive.straight(naive.resize(naive.weighted(opaque), (21, 50), "bicubic", "pillow"))
    np.testing.assert_array_equal(got.transpose(1, 2, 0), naive.composite(small, (1, 200, 3)))


def test_no_alpha_is_left_of_normalized_values():
    view = view_of((10, 10), window=(0, 0, 20, 20), method="fixed_taps")
    with pytest.raises(OptionError, match=r"^view is interpolated after normalization: transparency cannot be "):
        run(view, pixels_of(rgba_of(20, 20, 1), after_resize=True))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rounds_down", [False, True])
def test_every_value_and_alpha(weighted, rounds_down):
    values, alpha = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    rgba = np.stack([values, 255 - values, values, alpha], axis=2)
    for backdrop in (Backdrop(WHITE, WHITE), Backdrop((3, 90, 201), (250, 40, 1), 5), Backdrop(BLACK, WHITE, 1)):
        drawn, shares = np.ascontiguousarray(rgba[..., :3]), np.repeat(alpha[..., None], 3, axis=2)
        board = board_of(backdrop, 7, 256)
        composite_resized(shares, board, backdrop.square, 11, weighted, rounds_down, drawn)
        behind = naive.chessboard((267, 263), backdrop.square, backdrop.light, backdrop.dark)[11:, 7:]
        want = naive.composite(naive.straight(rgba) if weighted else rgba, behind, rounds_down)
        np.testing.assert_array_equal(drawn, want)


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 31, 64, 65])
@pytest.mark.parametrize("after_resize", [False, True])
def test_nothing_beyond_a_row_is_read(width, at_end, after_resize):
    image = rgba_of(9, width, width)
    backdrop = Backdrop(WHITE, (9, 9, 9), 3, after_resize)
    pixels = guarded_pixels(image, 4, at_end, backdrop)
    board = naive.chessboard((9, width), 3, WHITE, (9, 9, 9))
    got = run(view_of((9, width)), pixels).reshape(3, 9, width)
    np.testing.assert_array_equal(got.transpose(1, 2, 0), naive.composite(image, board))
    for grey in (pixels, dataclasses.replace(pixels, channels=(0, 0, 0)), dataclasses.replace(pixels, alpha=None)):
        for vertical_first in (False, True):
            run(view_of((5, 40), vertical_first=vertical_first), grey)
            run(view_of((5, 40), window=(-2, -3, 14, width + 5), vertical_first=vertical_first), grey)
