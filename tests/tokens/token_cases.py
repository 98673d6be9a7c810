"""What is compared with the processors of transformers: families and variants of them, sizes, and prompts."""

import random
from dataclasses import dataclass, field
from typing import Any

from foveal.plan import make_plan
from foveal.plan.plan import Plan
from foveal.spec import Checkpoint, Spec, load, resolve

__all__ = ["CASES", "PAIRS", "PROMPTS", "SIZES", "TokenCase", "plan_of", "random_sizes", "size_name", "spec_of"]

Size = tuple[int, int]

PROMPTS = ("user\n{}\n\nWhat is this?{}Answer.", "{}{}", "{}\n{}\n")
"""Of two images; newlines beside an image, and images beside each other, are where tokens could join."""


@dataclass(frozen=True, kw_only=True)
class TokenCase:
    """A family with the published arguments, or a variant of it.

    Attributes
    ----------
    spec : str
    overrides : dict
        Options of the image processor.
    processor : dict
        What ``processor_config.json`` says.
    many : bool
        Whether the images of a prompt are one sample of several, as the reference's nested lists make them.
    """

    spec: str
    overrides: dict[str, Any] = field(default_factory=dict)
    processor: dict[str, Any] = field(default_factory=dict)
    many: bool = False


PUBLISHED = (
    "aya_vision",
    "cohere2_vision",
    "deepseek_vl",
    "gemma3",
    "gemma3n",
    "gemma4",
    "glm4v",
    "idefics3",
    "internvl",
    "internvl_chat",
    "janus",
    "kimi_k25",
    "kimi_vl",
    "llama4",
    "llava1_5",
    "llava_next",
    "llava_onevision",
    "mistral3",
    "mllama",
    "molmo2",
    "ovis2",
    "phi3_v",
    "phi4mm",
    "pixtral",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3_vl",
    "smolvlm",
)
FULL = {"vision_feature_select_strategy": "full", "num_additional_image_tokens": 1}
VARIANTS = {
    "gemma3-crops": TokenCase(spec="gemma3", overrides={"do_pan_and_scan": True}),
    "idefics3-whole": TokenCase(spec="idefics3", overrides={"do_image_splitting": False}),
    "llava1_5-full": TokenCase(spec="llava1_5", processor=FULL),
    "llava_next-full": TokenCase(spec="llava_next", processor=FULL),
    "llava_onevision-many": TokenCase(spec="llava_onevision", many=True),
    "llava_onevision-two": TokenCase(spec="llava_onevision", processor={"vision_aspect_ratio": "anyres_max_2"}),
    "molmo2-columns": TokenCase(
        spec="molmo2", processor={"use_single_crop_col_tokens": True, "use_single_crop_start_token": False}
    ),
    "molmo2-no_columns": TokenCase(spec="molmo2", processor={"image_use_col_tokens": False}),
    "phi3_v-4": TokenCase(spec="phi3_v", overrides={"num_crops": 4}),
    "smolvlm-81": TokenCase(
        spec="smolvlm", overrides={"max_image_size": {"longest_edge": 384}}, processor={"image_seq_len": 81}
    ),
}
CASES = {name: TokenCase(spec=name) for name in PUBLISHED} | VARIANTS


def spec_of(case: TokenCase) -> Spec:
    """Return the published spec, but for what the case says."""
    raw = load(case.spec)
    raw.get("fields", {}).pop("unset", None)
    return resolve(raw, Checkpoint(case.spec, {}, {}, case.processor), case.overrides)


def plan_of(case: TokenCase, spec: Spec, size: Size) -> Plan:
    return make_plan(spec, *size, sample="many_images" if case.many else "one_image")


def size_name(*sizes: Size) -> str:
    return " ".join(f"{height}x{width}" for height, width in sizes)


EDGES = [(1, 1), (3, 5), (1, 300), (300, 1), (28, 5600), (2000, 17), (336, 336), (337, 335), (384, 768), (1024, 1024)]
ORDINARY = [(480, 640), (640, 480), (768, 1024), (1080, 1920), (1001, 333), (333, 1001), (900, 1440)]


def random_sizes(count: int, seed: int | str = 20) -> list[Size]:
    """Return sizes whose area and aspect ratio are logarithmically uniform, most of them of ordinary images."""
    draw = random.Random(seed)
    sizes = []
    for number in range(count):
        area, ratio = 2 ** draw.uniform(9, 20.4), 2 ** draw.uniform(-2, 2) ** (1 if number % 5 else 3)
        height = max(1, round((area * ratio) ** 0.5))
        sizes.append((height, max(1, round(area / height))))
    return sizes


SIZES = list(dict.fromkeys([*EDGES, *ORDINARY, *random_sizes(103)]))
PAIRS = [((480, 640), (333, 1001)), ((700, 500), (60, 60)), ((256, 300), (1000, 900))]
"""Sizes of the two images of a prompt."""
