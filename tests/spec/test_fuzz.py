"""Whatever a checkpoint's files or a caller say: a spec, or one typed line; and a plan, or a refusal of the size."""

import math
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.errors import FovealError, ImageSizeError, OptionError, SpecError, UnknownModelError
from foveal.plan import make_batch_plan, make_plan
from foveal.plan.tensors import batch_tensors
from foveal.spec import Checkpoint, load, match, names, resolve
from foveal.tokens import expand

SIZES = ((480, 640), (1, 1), (336, 336), (20000, 30), (3, 2000))
FEW = 10**6

numbers = st.one_of(
    st.sampled_from([0, 1, 2, 3, 7, 14, 16, 28, 336, 378, 448, 1024, 1025, 65536, 65537, 2**40, 2**53, 2**64, 10**400]),
    st.sampled_from([-1, 0.25, 0.5, 1 / 3, 1e-9, 1e18, 1e300, -1e300, 5e-324, math.inf, math.nan]),
    st.integers(-5, 2000),
)
texts = st.sampled_from(
    ["", "x", "a\nb", "\ud800", "é" * 90, "bicubic", "box", "clip", "full", "anyres_max_9", "anyres_max_0"]
)
scalars = st.one_of(numbers, numbers, st.booleans(), st.none(), texts)
KEYS = (
    ("height", "width"),
    ("shortest_edge",),
    ("longest_edge",),
    ("max_height", "max_width"),
    ("a\nb",),
    ("mean", "x"),
)
sizes = st.sampled_from(KEYS).flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, numbers)))
values = st.one_of(scalars, st.lists(numbers, max_size=4), sizes, st.lists(st.lists(numbers, max_size=3), max_size=3))


@lru_cache
def said(name):
    """Return paths of a checkpoint's files that a spec reads, and some that it does not."""
    tree = load(name)
    fields = tree.get("fields", {})
    others = [*fields.get("fixed", {}), *fields.get("folded", {}), *fields.get("same", {}), *fields.get("ignored", [])]
    return sorted({*read(tree), *(f"preprocessor.{field}" for field in (*others, "device", "unknown"))})


def read(node):
    if isinstance(node, dict) and "from" in node:
        yield from node["from"]
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from read(value)


def laid_out(given_values):
    """Return the files in which values stand at their paths."""
    files = {"config": {}, "preprocessor": {}, "processor": {}}
    for path, value in given_values.items():
        *way, last = path.split(".")
        node = files
        for key in way:
            node = node[key] if isinstance(node.setdefault(key, {}), dict) else {}
        node[last] = value
    return files


def check_line(error, *parts):
    """Require one line, not long, that holds some parts."""
    text = str(error)
    assert text
    assert text.isprintable(), text
    assert len(text) < 900, text
    assert all(part in text for part in parts), text


def use(spec):
    """Plan with whatever came out; nothing but a refusal of the size may be raised."""
    for height, width in SIZES:
        for sample in ("one_image", "many_images"):
            try:
                plan = make_plan(spec, height, width, sample)
                batch = make_batch_plan(spec, [plan])
            except ImageSizeError as error:
                check_line(error)
                continue
            assert plan.features >= 0
            assert all(length >= 1 for length in plan.shape)
            if batch.plans[0].elements < FEW and math.prod(batch.shape) < FEW:
                batch_tensors(spec, batch, hf=False)
            if spec.tokens is not None and plan.features < FEW:
                expand(spec.tokens, plan)


unhurried = settings(deadline=None, max_examples=40)


@pytest.mark.parametrize("name", names())
@unhurried
@given(data=st.data())
def test_any_checkpoint_gives_a_spec_or_one_typed_line(name, data):
    paths = data.draw(st.lists(st.sampled_from(said(name)), min_size=1, max_size=3, unique=True))
    files = laid_out({path: data.draw(values, label=path) for path in paths})
    checkpoint = Checkpoint(name, files["config"], files["preprocessor"], files["processor"])
    try:
        spec = resolve(load(name), checkpoint, reference=data.draw(st.sampled_from([None, "pillow", "torchvision"])))
    except (SpecError, OptionError) as error:
        check_line(error)
    else:
        use(spec)


@pytest.mark.parametrize("name", names())
@unhurried
@given(data=st.data())
def test_any_override_gives_a_spec_or_one_typed_line(name, data):
    fields = sorted({path.split(".")[1] for path in said(name) if path.startswith("preprocessor.")})
    chosen = data.draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique=True))
    overrides = {field: data.draw(values, label=field) for field in chosen}
    try:
        spec = resolve(load(name), overrides=overrides)
    except OptionError as error:
        check_line(error)
    else:
        use(spec)


kinds = st.one_of(values, st.sampled_from(["CLIPImageProcessor", "Qwen2VLImageProcessor", "PixtralImageProcessorFast"]))
models = st.one_of(values, st.sampled_from(["clip", "llava", "qwen2_vl", "internvl"]), st.lists(texts, max_size=3))


@unhurried
@given(kinds, models, models, values)
def test_any_names_lead_to_a_spec_or_one_typed_line(kind, model_type, architectures, origin):
    config = {"model_type": model_type, "architectures": architectures, "_name_or_path": origin}
    try:
        name = match(Checkpoint("m", config, {"image_processor_type": kind}))
    except UnknownModelError as error:
        check_line(error)
    else:
        assert name in names()


# ---- trees that are no specs


SECTIONS = ("schema", "name", "source", "match", "fields", "constants", "image", "tokens", "tensors", "limits", "wire")


def places(node, path):
    yield path
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from places(value, (*path, key))


@lru_cache
def all_places(name):
    return [path for section in SECTIONS if section in load(name) for path in places(load(name)[section], (section,))]


@pytest.mark.parametrize("name", names())
@unhurried
@given(data=st.data())
def test_any_value_anywhere_in_a_spec_is_refused_with_its_place_or_used(name, data):
    tree = load(name)
    *way, last = data.draw(st.sampled_from(all_places(name)))
    node = tree
    for key in way:
        node = node[key]
    node[last] = data.draw(values)
    try:
        spec = resolve(tree)
    except SpecError as error:
        check_line(error, " - at `$")
    else:
        try:
            use(spec)
        except FovealError as error:
            check_line(error, "the template writes")
