"""Every number, name, key and order in a spec matters: changed, it is refused with its place or does something else."""

import random
import re

import pytest
from mutants import mutants, survives
from situations import Original

from foveal.spec import names

EACH = 30
"""Mutants of each spec, drawn anew only when its tree changes."""

EQUIVALENT = {
    r"(aya_vision|cohere2_vision|idefics3|internvl|internvl_chat|smolvlm) image: without grid": (
        "what is cut is the first view, or a stage that it reads as it is"
    ),
    r"(idefics3|phi3_v|smolvlm) image\.grid: 'canvas' -> 'tiles'": "the tiles are the canvas as it is",
    r"(gemma3n|gemma4|janus) tokens\.expand\[\d\]\.times: 'features' -> 'features_per_tile'": (
        "an image is one tile, so that both are the same number"
    ),
    r"\w+ tokens\.ids: \d+ and \d+ swapped": "ids are looked up by their token",
    r"llava_(next|onevision) image\.views\[1\]\.canvas\.pinpoints\.default: \d+ and \d+ swapped": (
        "the order decides between sizes that keep and waste as much as each other: of two neighbours in the list one "
        "is larger, or a third is better than both"
    ),
    r"llava_onevision image\.views: 1 and 2 swapped": "no image has both: one is alone in its sample, the other is not",
    r"mistral3 constants\.patch\.from(: without 1|\[1\]: .*)": "where there is a file, the path before it has a value",
}
"""Changes that change nothing, and why."""

SILENT = {
    # The image processor's own patch size, or that of its class, goes before, and there is always one.
    "mistral3": ["processor.patch_size", "processor.patch_size for constants.patch"],
}
"""What a spec reads although nothing that is said there matters."""


@pytest.fixture(scope="module", params=names())
def original(request):
    return Original(request.param)


def test_whatever_a_spec_reads_matters_at_each_place_that_reads_it(original):
    assert original.silent == SILENT.get(original.name, [])


def test_a_mutant_is_refused_or_does_something_else(original):
    drawn = random.Random(original.name).sample(list(mutants(original.name)), EACH)
    survivors = [str(mutant) for mutant in drawn if survives(mutant, original)]
    assert [mutant for mutant in survivors if not any(re.fullmatch(pattern, mutant) for pattern in EQUIVALENT)] == []
