"""A slow, obvious NumPy twin of every kernel: the oracle of the tests. Nothing here imports the package."""

import math

import numpy as np

SUPPORT = {"box": 0.5, "bilinear": 1.0, "hamming": 1.0, "bicubic": 2.0, "lanczos": 3.0}


# ---- weights


def filter_value(kind, x):
    """One filter at one place, in float64."""
    if kind == "box":
        return 1.0 if -0.5 < x <= 0.5 else 0.0
    if kind == "hamming":
        window = float(np.float32(0.54)) + float(np.float32(0.46)) * math.cos(x * math.pi)
        return sinc(abs(x)) * window if abs(x) < 1 and x else float(x == 0)
    if kind == "lanczos":
        return sinc(x) * sinc(x / 3) if -3 <= x < 3 else 0.0
    x = abs(x)
    if kind == "bilinear":
        return 1 - x if x < 1 else 0.0
    if x < 1:
        return ((-0.5 + 2) * x - (-0.5 + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * -0.5 if x < 2 else 0.0


def sinc(x):
    return 1.0 if x == 0 else math.sin(x * math.pi) / (x * math.pi)


def float_weights(length, size, kind):
    """For each output sample: the first source sample, and the float64 weights of it and the following ones."""
    scale = length / size
    stretch = max(scale, 1.0)
    support = SUPPORT[kind] * stretch
    rows = []
    for i in range(size):
        center = (i + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        end = min(int(center + support + 0.5), length)
        weights = [filter_value(kind, (j - center + 0.5) * (1 / stretch)) for j in range(first, end)]
        total = 0.0
        for weight in weights:
            total += weight
        rows.append((first, [weight / total for weight in weights]))
    return rows


def fixed_weights(length, size, kind, reference):
    """The same as integers, and the shift that they need."""
    rows = float_weights(length, size, kind)
    shift = 22
    if reference == "torchvision":
        largest = max(max(weights) for _, weights in rows)
        shift = max(p for p in range(23) if p == 0 or int(0.5 + largest * (1 << p)) < (1 << 15))
    fixed = [(first, [int(w * (1 << shift) + (0.5 if w >= 0 else -0.5)) for w in weights]) for first, weights in rows]
    return fixed, shift


# ---- resampling


def resample_axis(image, size, kind, reference, axis):
    """Resize one axis of a uint8 image; integer sums, half a unit added, clipped."""
    image = np.moveaxis(image, axis, 0).astype(np.int64)
    rows, shift = fixed_weights(image.shape[0], size, kind, reference)
    out = np.empty((size, *image.shape[1:]), np.uint8)
    for i, (first, weights) in enumerate(rows):
        taps = image[first : first + len(weights)]
        total = np.tensordot(np.array(weights, np.int64), taps, axes=1) + (1 << (shift - 1))
        out[i] = np.clip(total >> shift, 0, 255)
    return np.moveaxis(out, 0, axis)


def resize(image, size, kind, reference="pillow", vertical_first=False):
    """Resize a (height, width, channels) uint8 image; a pass that changes nothing is left out."""
    height, width = size
    for axis in (0, 1) if vertical_first else (1, 0):
        length = (height, width)[axis]
        if image.shape[axis] != length:
            image = resample_axis(image, length, kind, reference, axis)
    return image


# ---- sources


def composite(rgba, background=(255, 255, 255), rounds_down=False):
    """Straight alpha over an opaque colour or picture, with the rounding of Pillow's alpha_composite or of Kimi-K3."""
    if rounds_down:
        share = rgba[..., 3:].astype(np.float32) / 255.0
        return (share * rgba[..., :3] + (1 - share) * np.array(background, np.uint8)).astype(np.uint8)
    color, alpha = rgba[..., :3].astype(np.int64), rgba[..., 3:].astype(np.int64)
    mixed = (color * alpha + np.array(background) * (255 - alpha)) * 128 + 128 * 128
    return ((((mixed >> 8) + mixed) >> 8) >> 7).astype(np.uint8)


def chessboard(size, square, light, dark):
    """Two colours in turns, the first in the top left corner."""
    rows, columns = np.arange(size[0])[:, None] // square, np.arange(size[1]) // square
    return np.where(((rows + columns) % 2)[..., None] == 0, np.array(light, np.uint8), np.array(dark, np.uint8))


def weighted(rgba):
    """Colours multiplied by their alpha."""
    return np.concatenate([composite(rgba, (0, 0, 0)), rgba[..., 3:]], axis=2)


def straight(rgba):
    """Undo it, as Pillow does: cut off, and not where alpha is 0 or 255."""
    color, alpha = rgba[..., :3].astype(np.int64), rgba[..., 3:].astype(np.int64)
    color = np.where((alpha == 0) | (alpha == 255), color, np.minimum(255 * color // np.maximum(alpha, 1), 255))
    return np.concatenate([color.astype(np.uint8), rgba[..., 3:]], axis=2)


# ---- canvas and layouts


def canvas(image, size, place=(0, 0), fill=(0, 0, 0)):
    """Put an image on a canvas of one colour."""
    out = np.empty((*size, 3), np.uint8)
    out[:] = fill
    top, left = place
    out[top : top + image.shape[0], left : left + image.shape[1]] = image
    return out


def look_up(image, values):
    """(height, width, 3) bytes -> (3, height, width) of the value of each byte of each channel."""
    return np.stack([values[channel][image[..., channel]] for channel in range(3)])


def planar(x):
    return x


def tiles(x, side):
    """(3, H, W) -> (tiles, 3, side, side), raster order."""
    _, height, width = x.shape
    x = x.reshape(3, height // side, side, width // side, side)
    return x.transpose(1, 3, 0, 2, 4).reshape(-1, 3, side, side)


def patches(x, side):
    """(3, H, W) -> (patches, 3 * side * side), raster order."""
    return tiles(x, side).reshape(-1, 3 * side * side)


def merge_patches(x, side, merge, temporal):
    """(3, H, W) -> (patches, 3 * temporal * side * side), blocks of merge x merge patches one after another."""
    _, height, width = x.shape
    down, across = height // (side * merge), width // (side * merge)
    x = x.reshape(3, down, merge, side, across, merge, side).transpose(1, 4, 2, 5, 0, 3, 6)
    x = np.repeat(x[:, :, :, :, :, None], temporal, axis=5)
    return x.reshape(down * across * merge * merge, -1)


def allotted(x, size, around):
    """(3, H, W) in the top left corner of (3, *size)."""
    out = np.full((3, *size), around, x.dtype)
    out[:, : x.shape[1], : x.shape[2]] = x
    return out


def pixels(x):
    """(3, H, W) -> (H, W, 3)."""
    return x.transpose(1, 2, 0)


def channels_last_patches(x, side):
    """(3, H, W) -> (patches, side * side * 3), raster order."""
    return tiles(x, side).transpose(0, 2, 3, 1).reshape(-1, 3 * side * side)


# ---- windows


def window(image, box, border=(0, 0, 0)):
    """Cut (top, left, height, width) out of an image; a border of one colour where it reaches over the edges."""
    top, left, height, width = box
    rows, columns = np.arange(top, top + height), np.arange(left, left + width)
    inside = (rows >= 0) & (rows < image.shape[0]), (columns >= 0) & (columns < image.shape[1])
    out = np.empty((height, width, 3), np.uint8)
    out[:] = border
    out[np.ix_(*inside)] = image[np.ix_(rows[inside[0]], columns[inside[1]])]
    return out


# ---- nearest, and torch's float32 interpolation


def nearest_samples(length, size, reference, is_small):
    """Return the source sample of each output sample; small are results of height and width up to 128 together."""
    if reference == "torchvision" and not is_small:  # torch's other kernel fuses a multiplication and an addition
        scale, half = float(np.float32(length) / np.float32(size)), np.float32(0.5)
        return [min(int(np.float32((i + 0.5) * scale - 0.5) + half), length - 1) for i in range(size)]
    if reference == "torchvision":
        scale = np.float32(length) / np.float32(size)
        return [min(int(np.float32(i + 0.5) * scale), length - 1) for i in range(size)]
    samples, place = [], length / size * 0.5
    for _ in range(size):
        samples.append(int(place))
        place += length / size
    return samples


def fused(x, y, z):
    """x * y + z in float32, rounded once: float64 holds the product, and the sum is rounded to odd before the end."""
    product, z = np.multiply(x, y, dtype=np.float64), np.asarray(z, np.float64)
    total = product + z
    part = total - product
    rest = (product - (total - part)) + (z - part)
    even = total.view(np.int64) % 2 == 0
    total = np.where(even & (rest != 0), np.nextafter(total, np.copysign(np.inf, rest)), total)
    return total.astype(np.float32)


def linear_axis(length, size):
    """Return first and second samples, and the float32 weights of both."""
    scale = np.float32(length) / np.float32(size)
    places = np.maximum(fused(scale, np.arange(size, dtype=np.float32) + np.float32(0.5), np.float32(-0.5)), 0)
    first = np.minimum(np.floor(places).astype(int), length - 1)
    weights = np.clip(places - first.astype(np.float32), 0, 1).astype(np.float32)
    return first, np.minimum(first + 1, length - 1), np.float32(1) - weights, weights


def linear(image, size):
    """Interpolate with two taps an axis in float32, as torch does on one thread, and round to bytes."""
    pixels = image.astype(np.float32)
    above, below, top, bottom = (x[:, None] for x in linear_axis(image.shape[0], size[0]))
    before, behind, left, right = (x[None, :] for x in linear_axis(image.shape[1], size[1]))
    value = pixels[above, behind] * (top * right)[..., None]
    value = fused(pixels[above, before], (top * left)[..., None], value)
    value = fused(pixels[below, before], (bottom * left)[..., None], value)
    value = fused(pixels[below, behind], (bottom * right)[..., None], value)
    return np.clip(np.rint(value), 0, 255).astype(np.uint8)


def fixed_taps_axis(values, size, axis):
    """One axis of a cubic at a whole ratio: the sample in the middle, or the four around it."""
    values = np.moveaxis(values, axis, 0)
    length = values.shape[0]
    ratio = length // size
    middle = np.arange(size) * ratio + (ratio - 1) // 2
    if ratio % 2:
        out = values[middle]
    else:
        outer, inner = np.float32(-0.09375), np.float32(0.59375)
        first, second, third, fourth = (values[np.clip(middle + tap, 0, length - 1)] for tap in (-1, 0, 1, 2))
        out = fused(fourth, outer, fused(third, inner, fused(first, outer, second * inner)))
    return np.moveaxis(out, 0, axis)


def fixed_taps(values, size):
    """(3, height, width) float32 -> (3, *size), width first, as torch's bicubic without antialias."""
    return fixed_taps_axis(fixed_taps_axis(values, size[1], 2), size[0], 1)
