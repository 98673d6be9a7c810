"""Image processors that models publish as code of their own, restated: transformers has no class for them.

They follow the published code step by step, with the calls of Pillow, torchvision and torch that it makes, since these
decide the pixels. Written anew; the sources are named at each class.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv
from transformers.image_transforms import convert_to_rgb

__all__ = ["InternVLChat", "KimiVL", "Phi3V"]

Tensors = dict[str, torch.Tensor]
WHITE = (255, 255, 255)


class Restated:
    """What the classes below share: fields, of which a call may change some, and a call on a list of images."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def from_pretrained(cls, directory: Path) -> Self:
        return cls(**json.loads((directory / "preprocessor_config.json").read_text()))

    def to_json_string(self) -> str:
        return json.dumps(self.fields)

    def __call__(self, images: Any, return_tensors: str, **options: Any) -> Tensors:
        assert return_tensors == "pt"
        return self.preprocess(flat(images), **(self.fields | options))

    def preprocess(self, images: list[Image.Image], **fields: Any) -> Tensors:
        raise NotImplementedError


def flat(images: Any) -> list[Image.Image]:
    return [images] if isinstance(images, Image.Image) else [image for item in images for image in flat(item)]


def normalized(image: Image.Image, mean: Sequence[float], std: Sequence[float]) -> torch.Tensor:
    return tv.normalize(tv.to_tensor(image), mean, std)


def tiles(canvas: torch.Tensor, side: int) -> torch.Tensor:
    """Return the square tiles of a (3, height, width) canvas, row by row."""
    _, height, width = canvas.shape
    grid = canvas.reshape(3, height // side, side, width // side, side)
    return grid.permute(1, 3, 0, 2, 4).reshape(-1, 3, side, side)


class Phi3V(Restated):
    """Phi-3-vision and Phi-3.5-vision: as large as ``num_crops`` tiles of 336 allow, then the tiles and an overview.

    Source: microsoft/Phi-3.5-vision-instruct, processing_phi3_v.py.
    """

    SIDE = 336
    TOKENS = 144

    def preprocess(
        self, images: list[Image.Image], num_crops: int, image_mean: list[float], image_std: list[float], **other: Any
    ) -> Tensors:
        canvases = [
            normalized(self.canvas(convert_to_rgb(image), num_crops), image_mean, image_std) for image in images
        ]
        pixels = torch.zeros(len(images), num_crops + 1, 3, self.SIDE, self.SIDE)
        for place, canvas in zip(pixels, canvases, strict=True):
            views = torch.cat([self.overview(canvas), tiles(canvas, self.SIDE)])
            place[: len(views)] = views
        sizes = torch.tensor([canvas.shape[1:] for canvas in canvases])
        return {
            "pixel_values": pixels,
            "image_sizes": sizes,
            "num_img_tokens": torch.tensor([self.tokens(*(size // self.SIDE).tolist()) for size in sizes]),
        }

    def canvas(self, image: Image.Image, num_crops: int) -> Image.Image:
        """Return the image on white; an upright one is handled lying, so that its passes and margins are swapped."""
        upright = image.width < image.height
        if upright:
            image = image.transpose(Image.Transpose.TRANSPOSE)
        ratio = image.width / image.height
        columns = 1
        while (columns + 1) * math.ceil((columns + 1) / ratio) <= num_crops:
            columns += 1
        width = columns * self.SIDE
        image = tv.resize(image, [int(width / ratio), width])
        height = math.ceil(image.height / self.SIDE) * self.SIDE
        canvas = Image.new("RGB", (width, height), WHITE)
        canvas.paste(image, (0, (height - image.height) // 2))
        return canvas.transpose(Image.Transpose.TRANSPOSE) if upright else canvas

    def overview(self, canvas: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(canvas[None], size=(self.SIDE, self.SIDE), mode="bicubic")

    def tokens(self, rows: int, columns: int) -> int:
        """Count the features of all tiles and the overview, a separator between them, and one at each row's end."""
        return (rows * columns + 1) * self.TOKENS + 1 + (rows + 1) * math.isqrt(self.TOKENS)


class KimiVL(Restated):
    """Kimi-VL: below a number of patches, then padded or cropped to whole ones; patches row by row.

    Source: moonshotai/Kimi-VL-A3B-Instruct, image_processing_kimi_vl.py.
    """

    LONGEST = 512
    """Patches of a side that the position embedding does not reach any more."""

    def preprocess(
        self,
        images: list[Image.Image],
        patch_size: int,
        image_mean: list[float],
        image_std: list[float],
        **fields: Any,
    ) -> Tensors:
        patches, grids = [], []
        for image in images:
            fitted = self.fitted(image, patch_size, **fields).convert("RGB")
            patches.append(tiles(normalized(fitted, image_mean, image_std), patch_size))
            grids.append([fitted.height // patch_size, fitted.width // patch_size])
        return {"pixel_values": torch.cat(patches), "image_grid_hws": torch.tensor(grids)}

    def fitted(
        self,
        image: Image.Image,
        patch: int,
        in_token_limit: int,
        pad_input: bool,
        merge_kernel_size: list[int],
        **other: Any,
    ) -> Image.Image:
        count = (image.width // patch) * (image.height // patch)
        if count > in_token_limit:
            scale = math.sqrt(in_token_limit / count)
            image = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BICUBIC)
        if pad_input:
            below, right = (
                -side % (merge * patch)
                for side, merge in zip((image.height, image.width), merge_kernel_size, strict=True)
            )
            image = tv.pad(image, [0, 0, right, below])
        else:
            image = tv.center_crop(image, [image.height // patch * patch, image.width // patch * patch])
        if max(image.size) // patch >= self.LONGEST:
            raise ValueError(f"{max(image.size) // patch} patches on a side")
        return image


class InternVLChat(Restated):
    """InternVL 2, 2.5 and 3 as published by OpenGVLab: the tiles of the grid of nearest shape, then a thumbnail.

    ``config.json`` has the numbers; mean, std and filter are ImageNet's and bicubic, whatever the checkpoint says.
    Source: OpenGVLab/InternVL2_5-8B, README.md (``dynamic_preprocess``) and configuration_internvl_chat.py.
    """

    MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    CONFIGURED = ("force_image_size", "min_dynamic_patch", "max_dynamic_patch", "use_thumbnail")

    @classmethod
    def from_pretrained(cls, directory: Path) -> Self:
        config = json.loads((directory / "config.json").read_text())
        return cls(**{name: config[name] for name in cls.CONFIGURED})

    def preprocess(self, images: list[Image.Image], **fields: Any) -> Tensors:
        views = [self.views(image.convert("RGB"), **fields) for image in images]
        return {
            "pixel_values": torch.stack([normalized(view, self.MEAN, self.STD) for each in views for view in each]),
            "num_patches_list": torch.tensor([len(each) for each in views]),
        }

    def views(
        self,
        image: Image.Image,
        force_image_size: int,
        min_dynamic_patch: int,
        max_dynamic_patch: int,
        use_thumbnail: bool,
        **other: Any,
    ) -> list[Image.Image]:
        side = force_image_size
        rows, columns = self.grid(image.height, image.width, side, min_dynamic_patch, max_dynamic_patch)
        canvas = image.resize((columns * side, rows * side), Image.Resampling.BICUBIC)
        views = [
            canvas.crop((column * side, row * side, (column + 1) * side, (row + 1) * side))
            for row in range(rows)
            for column in range(columns)
        ]
        if use_thumbnail and len(views) > 1:
            views.append(image.resize((side, side), Image.Resampling.BICUBIC))
        return [tv.resize(view, [side, side], InterpolationMode.BICUBIC) for view in views]

    def grid(self, height: int, width: int, side: int, fewest: int, most: int) -> tuple[int, int]:
        """Return rows and columns whose ratio is nearest to the image's.

        Grids are tried by their number of tiles. Of two equally near, the later one wins if the image has more than
        half of its pixels. Two grids of one number are never both the nearest, so their order is free.
        """
        shapes = {
            (columns, rows)
            for columns in range(1, most + 1)
            for rows in range(1, most + 1)
            if fewest <= columns * rows <= most
        }
        best, least = (1, 1), math.inf
        for columns, rows in sorted(shapes, key=math.prod):
            off = abs(width / height - columns / rows)
            enough = height * width > 0.5 * side * side * columns * rows
            if off < least or (off == least and enough):
                best, least = (rows, columns), off
        return best
