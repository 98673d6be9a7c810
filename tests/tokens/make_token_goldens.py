"""Ask the processors of transformers what stands in a prompt for images, and write ``goldens/``.

Run it as ``python tests/tokens/make_token_goldens.py`` where ``foveal[reference]`` is installed, or with the names of
some cases to write those alone. Models that bring their own code have no processor in transformers; what theirs write
is restated here, from the tensors of the image processors that ``tests/parity/restated.py`` restates.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import torch
import transformers as hf
from parity import restated
from PIL import Image
from token_cases import CASES, PAIRS, PROMPTS, SIZES, TokenCase, size_name, spec_of
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers
from toy_tokenizer import ToyTokenizer, toy_tokenizer

Size = tuple[int, int]
Span = tuple[int, int]
"""From which character to which."""

FOLDER = Path(__file__).parent / "goldens"
PACKAGES = ("pillow", "tokenizers", "torch", "torchvision", "transformers")
WHOLE_TEXTS = ((60, 60), (480, 640), (333, 1001))
"""Sizes of which the text is kept, as runs of tokens."""

GEMMA3 = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
GEMMA4 = {"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>"}
AUDIO = {"audio_token": "<audio>", "boa_token": "<boa>", "eoa_token": "<eoa>"}
INTERNVL = {
    "start_image_token": "<img>",
    "end_image_token": "</img>",
    "context_image_token": "<IMG_CONTEXT>",
    "video_token": "<video>",
}
COHERE = {
    "boi_token": "<|START_OF_IMG|>",
    "eoi_token": "<|END_OF_IMG|>",
    "image_token": "<|IMG_PATCH|>",
    "img_line_break_token": "<|IMG_LINE_BREAK|>",
}
JANUS = {"image_token": "<image_placeholder>", "boi_token": "<begin_of_image>", "eoi_token": "<end_of_image>"}
SQUARE_384 = {"height": 384, "width": 384}
LLAVA = {"patch_size": 14, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
ONEVISION = {"num_image_tokens": 729, "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_9"}
STEPS = range(384, 2305, 384)


class Phi3VText:
    """The text of Phi-3-vision: negative numbers of images among its token ids, written as image tokens.

    Source: microsoft/Phi-3.5-vision-instruct, processing_phi3_v.py.
    """

    image_token = "<|image|>"

    def __init__(self, **fields: Any) -> None:
        self.images = restated.Phi3V(image_mean=[0.5] * 3, image_std=[0.5] * 3, **{"num_crops": 16, **fields})

    def replacement(self, image: Image.Image) -> str:
        return self.image_token * int(self.images([image], return_tensors="pt")["num_img_tokens"][0])


class KimiVLText:
    """Source: moonshotai/Kimi-VL-A3B-Instruct, processing_kimi_vl.py."""

    image_token = "<|media_pad|>"

    def __init__(self) -> None:
        self.images = restated.KimiVL(
            patch_size=14,
            pad_input=True,
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
            in_token_limit=4096,
            merge_kernel_size=[2, 2],
        )

    def replacement(self, image: Image.Image) -> str:
        rows, columns = self.images([image], return_tensors="pt")["image_grid_hws"][0].tolist()
        return self.image_token * (rows * columns // 4)


class InternVLChatText:
    """Source: OpenGVLab/InternVL3-8B, modeling_internvl_chat.py."""

    image_token = "<IMG_CONTEXT>"

    def __init__(self) -> None:
        self.images = restated.InternVLChat(
            force_image_size=448, min_dynamic_patch=1, max_dynamic_patch=12, use_thumbnail=True
        )

    def replacement(self, image: Image.Image) -> str:
        tiles = len(self.images([image], return_tensors="pt")["pixel_values"])
        return "<img>" + self.image_token * int((448 // 14) ** 2 * 0.5**2) * tiles + "</img>"


Build = Callable[[Any, TokenCase], Any]
BUILDERS: dict[str, Build] = {
    "aya_vision": lambda tok, _: hf.AyaVisionProcessor(
        hf.GotOcr2ImageProcessor(size={"height": 364, "width": 364}), tok, patch_size=28, img_size=364
    ),
    "cohere2_vision": lambda tok, _: hf.Cohere2VisionProcessor(hf.Cohere2VisionImageProcessor(), tok),
    "deepseek_vl": lambda tok, _: hf.DeepseekVLProcessor(hf.DeepseekVLImageProcessor(size=SQUARE_384), tok),
    "gemma3": lambda tok, _: hf.Gemma3Processor(hf.Gemma3ImageProcessor(size={"height": 896, "width": 896}), tok),
    "gemma3n": lambda tok, _: hf.Gemma3nProcessor(
        hf.Gemma3nAudioFeatureExtractor(), hf.SiglipImageProcessor(size={"height": 768, "width": 768}), tok
    ),
    "gemma4": lambda tok, _: hf.Gemma4Processor(
        hf.Gemma4AudioFeatureExtractor(), hf.Gemma4ImageProcessor(), tok, hf.Gemma4VideoProcessor()
    ),
    "glm4v": lambda tok, _: hf.Glm4vProcessor(
        hf.Glm4vImageProcessor(size={"shortest_edge": 12_544, "longest_edge": 9_633_792}), tok, hf.Glm4vVideoProcessor()
    ),
    "idefics3": lambda tok, _: hf.Idefics3Processor(hf.Idefics3ImageProcessor(), tok),
    "internvl": lambda tok, _: hf.InternVLProcessor(
        hf.GotOcr2ImageProcessor(size={"height": 448, "width": 448}), tok, hf.InternVLVideoProcessor()
    ),
    "internvl_chat": lambda _, __: InternVLChatText(),
    "janus": lambda tok, _: hf.JanusProcessor(hf.JanusImageProcessor(size=SQUARE_384), tok),
    "kimi_k25": lambda tok, _: hf.Kimi_K25Processor(hf.Kimi_K25ImageProcessor(), tok, hf.Kimi_K25VideoProcessor()),
    "kimi_vl": lambda _, __: KimiVLText(),
    "llama4": lambda tok, _: hf.Llama4Processor(hf.Llama4ImageProcessor(), tok),
    "llava1_5": lambda tok, case: hf.LlavaProcessor(
        hf.CLIPImageProcessor(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}),
        tok,
        **LLAVA | case.processor,
    ),
    "llava_next": lambda tok, case: hf.LlavaNextProcessor(
        hf.LlavaNextImageProcessor(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336}),
        tok,
        **LLAVA | case.processor,
    ),
    "llava_onevision": lambda tok, case: hf.LlavaOnevisionProcessor(
        hf.LlavaOnevisionImageProcessor(size=SQUARE_384, image_grid_pinpoints=[[h, w] for h in STEPS for w in STEPS]),
        tok,
        hf.LlavaOnevisionVideoProcessor(),
        **ONEVISION | case.processor,
    ),
    "mistral3": lambda tok, _: hf.PixtralProcessor(
        hf.PixtralImageProcessor(size={"longest_edge": 1540}, patch_size=14), tok, patch_size=14, spatial_merge_size=2
    ),
    "mllama": lambda tok, _: hf.MllamaProcessor(hf.MllamaImageProcessor(size={"height": 560, "width": 560}), tok),
    "molmo2": lambda tok, case: hf.Molmo2Processor(
        hf.Molmo2ImageProcessor(),
        hf.Molmo2VideoProcessor(),
        tok,
        **{"use_single_crop_col_tokens": False, **case.processor},
    ),
    "ovis2": lambda tok, _: hf.Ovis2Processor(
        hf.Ovis2ImageProcessor(crop_to_patches=True, size={"height": 448, "width": 448}), tok
    ),
    "phi3_v": lambda _, case: Phi3VText(**case.overrides),
    "phi4mm": lambda tok, _: hf.Phi4MultimodalProcessor(
        hf.Phi4MultimodalImageProcessor(), hf.Phi4MultimodalFeatureExtractor(), tok
    ),
    "pixtral": lambda tok, _: hf.PixtralProcessor(hf.PixtralImageProcessor(), tok),
    "qwen2_5_vl": lambda tok, _: hf.Qwen2_5_VLProcessor(qwen(14, 3136, 12_845_056), tok, hf.Qwen2VLVideoProcessor()),
    "qwen2_vl": lambda tok, _: hf.Qwen2VLProcessor(qwen(14, 3136, 12_845_056), tok, hf.Qwen2VLVideoProcessor()),
    "qwen3_vl": lambda tok, _: hf.Qwen3VLProcessor(qwen(16, 65_536, 16_777_216), tok, hf.Qwen3VLVideoProcessor()),
    "smolvlm": lambda tok, case: hf.SmolVLMProcessor(
        hf.Idefics3ImageProcessor(size={"longest_edge": 2048}, max_image_size={"longest_edge": 512}),
        tok,
        hf.SmolVLMVideoProcessor(),
        **{"image_seq_len": 64, **case.processor},
    ),
}
NAMES = {
    "aya_vision": {},
    "cohere2_vision": COHERE,
    "deepseek_vl": {"image_token": "<image_placeholder>"},
    "gemma3": GEMMA3,
    "gemma3n": GEMMA3 | AUDIO,
    "gemma4": GEMMA4 | AUDIO,
    "internvl": INTERNVL,
    "janus": JANUS,
    "phi4mm": {"image_token": "<|endoftext10|>", "audio_token": "<audio>"},
}
"""What the families' processors ask of their tokenizers."""


def qwen(patch: int, fewest: int, most: int) -> Any:
    return hf.Qwen2VLImageProcessor(size={"shortest_edge": fewest, "longest_edge": most}, patch_size=patch)


def hf_tokenizer(toy: ToyTokenizer, names: dict[str, str]) -> Any:
    """Return the toy tokenizer as one of transformers."""
    unknown = {token: max(toy.words.values()) + number for number, token in enumerate(names.values(), 1000)}
    special = toy.special | {token: id for token, id in unknown.items() if token not in toy.special}
    backend = Tokenizer(models.WordLevel(toy.words | special, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(toy.word), "isolated")
    backend.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="<s>",
        pad_token="<s>",
        extra_special_tokens=names,
    )


class Reference:
    """A family's processor with the toy tokenizer.

    Attributes
    ----------
    image_token : str
        What it looks for in a prompt.
    """

    def __init__(self, case: TokenCase) -> None:
        tokens = spec_of(case).tokens
        assert tokens is not None
        self._case = case
        self._feature = tokens.feature
        self._tokenizer = hf_tokenizer(toy_tokenizer(tokens), NAMES.get(case.spec, {}))
        with mock.patch("transformers.models.smolvlm.processing_smolvlm.num2words", str):
            self._processor = BUILDERS[case.spec](self._tokenizer, case)
        self.image_token = self._processor.image_token

    def text(self, prompt: str, sizes: Sequence[Size]) -> tuple[str, list[Span]]:
        """Return an expanded prompt, and from where to where each image's part of it goes."""
        images = [Image.new("RGB", size[::-1]) for size in sizes]
        if not isinstance(self._processor, hf.ProcessorMixin):
            replacements = [self._processor.replacement(image) for image in images]
            return splice(prompt, self.image_token, replacements)
        written: list[tuple[str, list[Span]]] = []
        replace = self._processor.get_text_with_replacements

        def replace_and_tell(*args: Any, **options: Any) -> Any:
            texts, offsets = replace(*args, **options)
            written.append((texts[0], [offset["new_span"] for offset in offsets[0]]))
            return texts, offsets

        options = (
            {**self._case.overrides, "return_tensors": "pt"} if self._case.spec == "ovis2" else self._case.overrides
        )
        with mock.patch.object(self._processor, "get_text_with_replacements", replace_and_tell):
            nested = [images] if self._case.spec in NESTED or self._case.many else images
            answered = self._processor(text=[prompt], images=nested, **options)
        if not written:  # nothing is replaced where the model reads images by cross-attention
            return splice(prompt, self.image_token, [self.image_token] * len(images))
        text, spans = written[-1]
        assert torch.as_tensor(answered["input_ids"]).flatten().tolist() == self.ids(text)[0]
        return text, spans

    def image_text(self, size: Size) -> str:
        """Return what stands for an image; where a sample must have several, for the first of two."""
        images = 2 if self._case.many else 1
        text, spans = self.text(self.image_token * images, [size] * images)
        return text[slice(*spans[0])]

    def features(self, text: str) -> int:
        """Return the number of feature tokens in a text."""
        return text.count(self._feature) if self._feature else 0

    def ids(self, text: str) -> tuple[list[int], list[Span]]:
        """Return the ids of a text, and from where to where each goes."""
        encoded = self._tokenizer(text, return_offsets_mapping=True)
        return encoded["input_ids"], encoded["offset_mapping"]


NESTED = ("gemma3", "gemma3n", "gemma4", "idefics3", "mllama", "smolvlm")


def splice(prompt: str, token: str, replacements: list[str]) -> tuple[str, list[Span]]:
    text, spans = "", []
    for part, replacement in zip(prompt.split(token), [*replacements, ""], strict=True):
        text += part
        spans.append((len(text), len(text) + len(replacement)))
        text += replacement
    return text, spans[:-1]


def digest(data: str | list[int]) -> str:
    return blake2b(repr(data).encode(), digest_size=8).hexdigest()


def runs(reference: Reference, text: str) -> list[list[Any]]:
    """Return a text as tokens and how often each stands in a row."""
    parts = [text[start:end] for start, end in reference.ids(text)[1]]
    return [[part, len(list(run))] for part, run in groupby(parts)]


def sizes_answer(reference: Reference, sizes: Sequence[Size]) -> dict[str, Any]:
    """Return number of features, number of tokens and digest of the text for an image of each size, or its refusal."""
    answered: dict[str, Any] = {}
    for size in sizes:
        try:
            text = reference.image_text(size)
        except (ValueError, RuntimeError, ZeroDivisionError) as error:
            answered[size_name(size)] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
        else:
            answered[size_name(size)] = [reference.features(text), len(reference.ids(text)[0]), digest(text)]
    return answered


def answer(case: TokenCase, sizes: Sequence[Size] = SIZES) -> dict[str, Any]:
    """Return what stands for an image of each size, whole texts of a few, and what prompts with two images become."""
    reference = Reference(case)
    return {
        "sizes": sizes_answer(reference, sizes),
        "texts": {size_name(size): runs(reference, reference.image_text(size)) for size in WHOLE_TEXTS},
        "prompts": {
            f"{number} {size_name(*pair)}": prompt_answer(reference, template, pair)
            for pair in PAIRS
            for number, template in enumerate(PROMPTS)
        },
    }


def prompt_answer(reference: Reference, template: str, sizes: Sequence[Size]) -> dict[str, Any]:
    prompt = template.format(*[reference.image_token] * len(sizes))
    text, spans = reference.text(prompt, sizes)
    begin = "<s>" if text.startswith("<s>") else ""  # some processors write it, which is not the image's part
    ids, offsets = reference.ids(text.removeprefix(begin))
    ranges = []
    for start, end in spans:
        inside = [
            place
            for place, (left, right) in enumerate(offsets)
            if left < end - len(begin) and right > start - len(begin)
        ]
        ranges.append([inside[0], len(inside)])
    return {"text": digest(text.removeprefix(begin)), "ids": digest(ids), "length": len(ids), "ranges": ranges}


def versions() -> dict[str, str]:
    return {package: version(package) for package in PACKAGES}


def write(name: str, described: dict[str, Any]) -> None:
    """Write one size a line, so that a change shows as the sizes that it touches."""
    sections = [f'"versions": {json.dumps(versions(), sort_keys=True)}']
    for section, content in described.items():
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
        sections.append(f'"{section}": {{\n{lines}\n}}')
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text("{" + ",\n".join(sections) + "}\n")


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in names or CASES:
        write(name, answer(CASES[name]))
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
