"""What a spec does, in many situations: whatever it reads is said, and every way to say it.

Two trees that plan, join and expand the same in all of them are the same to a user.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from foveal.errors import FovealError, SpecError
from foveal.plan import Plan, make_batch_plan, make_plan, normalization
from foveal.plan.tensors import batch_tensors
from foveal.spec import Checkpoint, Spec, load, resolve
from foveal.spec.tokens import Tokens
from foveal.tokens import expand_ids, expand_text

__all__ = ["SECTIONS", "Original", "Path", "at", "replaced", "text"]

SECTIONS = ("constants", "image", "tokens", "tensors")
FEW = 8_000_000
"""Numbers of a primary tensor up to which a mask as large is made."""

SIZES = [
    (480, 640), (300, 290), (1500, 30), (1, 1), (336, 336), (1100, 2900), (13, 700), (2, 900), (1, 300), (5000, 5200),
    (700, 700), (1344, 1344), (100, 100), (250, 560), (800, 1000), (300, 2900),
    (600, 300), (20, 7130), (20, 9000), (20, 16000), (400, 1000), (400, 16500), (2454, 1636), (1530, 1377),
    (34829401, 46439201), (31708649, 63417296),
]  # fmt: skip
"""Pictures in each of which some rule takes another way than in the others."""

TOGETHER = (
    {"preprocessor.min_patches": 4, "preprocessor.max_patches": 4},
    {"preprocessor.min_dynamic_patch": 4, "preprocessor.max_dynamic_patch": 4},
    {"preprocessor.size.longest_edge": 9000},
)
"""What matters only together, or in one amount: of four tiles, 2x2 and 1x4 are as close to a picture of 400x1000."""

Path = tuple[str | int, ...]


class Situation(NamedTuple):
    """What a checkpoint or a caller says, by path; the reference; and heights and widths of pictures."""

    said: dict[str, Any]
    reference: str | None
    sizes: list[tuple[int, int]]

    def at_a_call(self) -> "Situation":
        """Return the situation in which a call says what the constructor said."""
        return self._replace(said=dict(map(_at_a_call, self.said.items())))


class Node(NamedTuple):
    """A value of a tree that a checkpoint or a caller may say, and where it stands."""

    place: Path
    paths: list[str]
    default: Any
    kind: str | None


def at(tree: Any, path: Path) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def replaced(tree: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of a tree with another value at a path."""
    tree = copy.deepcopy(tree)
    at(tree, path[:-1])[path[-1]] = value
    return tree


def text(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


class Original:
    """A spec that stands in the repository, and what it does in many situations.

    Attributes
    ----------
    name : str
    silent : list of str
        Paths that the spec reads although nothing that is said there changes anything.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree = load(name)
        self.silent: list[str] = []
        self._nodes = [node for section in SECTIONS for node in _nodes(self.tree.get(section), (section,))]
        self._flags = {
            path: not node.default for node in self._nodes if isinstance(node.default, bool) for path in node.paths
        }
        self._published = self._published_fields()
        placeholder = self.tree["tokens"]["placeholder"] if "tokens" in self.tree else ""
        self._prompt = "".join(f"\n{placeholder.replace('{number}', str(number))}\n\n" for number in (1, 2))
        tokens = resolve(self.tree).tokens
        self._ids = _input_ids(tokens) if tokens else ([], 0)
        self._does: dict[int, list[object]] = {}
        bytes_alone = {path: False for path in self._flags if path.endswith((".do_rescale", ".do_normalize"))}
        sizes = SIZES + [tuple(pair) for node in self._nodes for pair in _pairs(node.default)]
        references = (None, "pillow", "torchvision")
        self._situations = [Situation(said, name, sizes) for said in ({}, bytes_alone) for name in references]
        self._plain = len(self._situations)
        self._situations += [Situation({flag: value}, None, SIZES) for flag, value in self._flags.items()]
        reads = {path for node in self._nodes for path in node.paths}
        self._situations += [Situation(said, None, SIZES) for said in TOGETHER if said.keys() <= reads]
        for node in self._nodes:
            self._add_situations(node)
        for node in self._nodes:
            self._add_situation_of_place(node)

    def does_the_same(self, tree: dict[str, Any], changed: str) -> bool:
        """Return whether a tree with a change at a place does the same in every situation.

        Raises
        ------
        SpecError
            If it is no spec.
        """
        paths = {path for node in self._nodes if changed.startswith(text(node.place)) for path in node.paths}
        paths |= {_at_a_call((path, None))[0] for path in paths}
        near = [number for number, situation in enumerate(self._situations) if paths & situation.said.keys()]
        order = dict.fromkeys([*range(self._plain), *near, *range(self._plain, len(self._situations))])
        return all(self._does_the_same_in(number, tree) for number in order)

    def _does_the_same_in(self, number: int, tree: dict[str, Any]) -> bool:
        situation = self._situations[number]
        if number not in self._does:
            self._does[number] = list(self._in(situation, self.tree))
        return all(mine == other for mine, other in zip_longest(self._does[number], self._in(situation, tree)))

    def _in(self, situation: Situation, tree: dict[str, Any]) -> Iterator[object]:
        """Yield what a spec does in a situation; an error is what it does, too, unless nothing is said."""
        try:
            spec = self._resolved(situation, tree)
        except SpecError as error:
            if not situation.said:
                raise
            yield str(error)
            return
        except FovealError as error:
            yield str(error)
            return
        yield normalization(spec)
        yield spec.image.batch.flat_list
        yield [(tensor.name, tensor.hf, tensor.split, tensor.keep_on_cpu) for tensor in spec.tensors]
        plans = []
        for height, width in situation.sizes:
            for sample in ("one_image", "many_images"):
                try:
                    plans.append(make_plan(spec, height, width, sample))
                    yield plans[-1]
                except FovealError as error:
                    yield str(error)
        yield from _joined(spec, plans)
        if spec.tokens is not None:
            yield from _expanded(spec.tokens, plans, self._prompt, self._ids)

    def _resolved(self, situation: Situation, tree: dict[str, Any]) -> Spec:
        files: dict[str, Any] = {"config": {}, "preprocessor": {}, "processor": {}, "call": {}}
        for path, value in situation.said.items():
            root, *keys = path.split(".")
            node = files["preprocessor" if root == "constructed" else root]
            for key in keys[:-1]:
                node = node.setdefault(key, {})
            if root in ("preprocessor", "call") and len(keys) > 1:  # such a field is given whole
                node |= self._siblings(f"preprocessor.{'.'.join(keys[:-1])}.")
            node[keys[-1]] = value
        for field, other in self.tree.get("fields", {}).get("same", {}).items():
            for file in (files["preprocessor"], files["call"]):
                file |= {field: file[other]} if other in file else {}
        needed = files["config"] or files["processor"]
        checkpoint = Checkpoint("probe", files["config"], self._published, files["processor"]) if needed else None
        return resolve(tree, checkpoint, files["preprocessor"], situation.reference, files["call"])

    def _siblings(self, parent: str) -> dict[str, Any]:
        siblings = {path: node.default for node in self._nodes for path in node.paths if path.startswith(parent)}
        return {path.removeprefix(parent): default for path, default in siblings.items()}

    def _published_fields(self) -> dict[str, Any]:
        """Return the published values of what a class assumes otherwise, for a checkpoint's file."""
        published: dict[str, Any] = dict(self.tree.get("fields", {}).get("published", {}))
        for path, default in ((path, node.default) for node in self._nodes for path in node.paths):
            root, field, *child = path.split(".")
            if root == "preprocessor" and field in self.tree.get("fields", {}).get("unset", {}):
                published |= {field: {**published.get(field, {}), child[0]: default} if child else default}
        return published

    # ---- what a checkpoint or a caller may say

    def _add_situations(self, node: Node) -> None:
        """Add for each path a situation in which it matters, and more ways to say it; note the paths that never do."""
        for path in node.paths:
            found = next((each for each in self._telling(path, node) if self._matters(each, path)), None)
            self._situations += [found] if found else []
            self.silent += [] if found else [path]
            if found and path.startswith(("preprocessor.", "constructed.")):
                self._situations.append(found.at_a_call())
            if type(node.default) is int:
                self._situations.append(Situation({path: node.default * 3 // 2}, None, SIZES[:4]))
        first = next(iter(_others(node.default)), None)
        for pair in pairwise(node.paths):
            self._situations.append(Situation(dict(zip(pair, (first, node.default), strict=True)), None, SIZES[:3]))
        if node.kind is not None:
            self._situations += [Situation({node.paths[0]: value}, None, SIZES[:1]) for value in _SPELLINGS]
            self._situations.append(Situation({node.paths[0]: [3, 5]}, None, SIZES[:1]).at_a_call())

    def _telling(self, path: str, node: Node) -> Iterator[Situation]:
        """Yield situations in which a path alone, or with a flag, has another value than the default."""
        for flag in ({}, *({flag: value} for flag, value in self._flags.items() if flag != path)):
            for value in _others(node.default):
                yield Situation({**flag, path: value}, None, SIZES[:7])

    def _matters(self, situation: Situation, path: str) -> bool:
        """Return whether the path changes something beside what else is said."""
        try:
            self._resolved(situation, self.tree)
        except FovealError:
            return False
        said = {other: value for other, value in situation.said.items() if other != path}
        without = Situation(said, None, situation.sizes)
        return any(
            one != other for one, other in zip_longest(self._in(situation, self.tree), self._in(without, self.tree))
        )

    def _add_situation_of_place(self, node: Node) -> None:
        """Add a situation in which it matters what is said for this place, where another place takes the same path."""
        for path in node.paths:
            tree = replaced(self.tree, (*node.place, "from"), [other for other in node.paths if other != path])
            if "default" in at(tree, node.place) and self._is_as_before(tree, path):
                found = next((each for each in self._telling(path, node) if self._differ(each, tree)), None)
                self._situations += [found, found.at_a_call()] if found else []
                self.silent += [] if found else [f"{path} for {text(node.place)}"]

    def _is_as_before(self, tree: dict[str, Any], path: str) -> bool:
        numbers = [number for number, situation in enumerate(self._situations) if path in situation.said]
        try:
            resolve(tree)
        except FovealError:
            return False
        return all(self._does_the_same_in(number, tree) for number in numbers)

    def _differ(self, situation: Situation, tree: dict[str, Any]) -> bool:
        return list(self._in(situation, tree)) != list(self._in(situation, self.tree))


def _at_a_call(said: tuple[str, Any]) -> tuple[str, Any]:
    path, value = said
    root, _, field = path.partition(".")
    return (f"call.{field}" if root in ("preprocessor", "constructed") else path), value


def _pairs(value: Any) -> list[list[int]]:
    """Return a list of heights and widths, if it is that."""
    return value if isinstance(value, list) and value and isinstance(value[0], list) else []


def _joined(spec: Spec, plans: list[Plan]) -> Iterator[object]:
    """Yield what three images become, of which two share a length and the third has another."""
    by_size = {(plan.height, plan.width): plan for plan in reversed(plans)}
    first, *others = sorted(by_size.values(), key=lambda plan: plan.elements) or [None]
    alike = [plan for plan in others if plan.shape[0] == first.shape[0]]
    few = [plan for plan in (first, *alike[:1], *(plan for plan in others if plan not in alike), *alike[1:]) if plan][
        :3
    ]
    for samples in ((1,) * len(few), (2,) + (1,) * (len(few) - 2)) if len(few) > 1 else ((1,),):
        try:
            batch = make_batch_plan(spec, few, samples)
        except FovealError as error:
            yield str(error)
            continue
        yield batch
        if math.prod(batch.shape) <= FEW or all(tensor.value != "pixel_mask" for tensor in spec.tensors):
            tensors = batch_tensors(spec, batch, hf=False)
            yield [(name, str(array.dtype), array.shape, array.tobytes()) for name, array in tensors.items()]


def _input_ids(tokens: Tokens) -> tuple[list[int], int]:
    """Return ids in which an image follows each id that is published, and goes before it; and how many images."""
    published = {entry.token: entry.id for entry in tokens.ids}
    anchor = published[tokens.anchor or tokens.placeholder]
    ids = [token_id for near in published.values() if near != anchor for token_id in (near, anchor, near)] or [anchor]
    return ids, ids.count(anchor)


def _expanded(tokens: Tokens, plans: list[Plan], prompt: str, input_ids: tuple[list[int], int]) -> Iterator[object]:
    published = {entry.token: [entry.id] for entry in tokens.ids}
    ids, images = input_ids

    def encode(text: str) -> Sequence[int]:
        return published.get(text) or [10**6 + ord(character) for character in text]

    for action in (
        lambda: [expand_text(tokens, prompt, pair) for pair in zip(plans[::2], plans[1::2], strict=False)],
        lambda: _listed(expand_ids(tokens, ids, (plans * images)[:images], encode)),
        lambda: _listed(expand_ids(tokens, ids, (plans * images)[:images])),
    ):
        try:
            yield action()
        except FovealError as error:
            yield str(error)


def _listed(expanded: Any) -> tuple[object, ...]:
    return expanded.ids.tobytes(), expanded.structural, expanded.features


_SPELLINGS = (
    28, 0.25, 3, 4, "imagenet", "lanczos", [28, 28], [20, 28], [0.1, 0.2, 0.3],
    {"height": 28, "width": 28}, {"height": 20, "width": 28}, {"shortest_edge": 28}, {"longest_edge": 28},
    {"max_height": 28, "max_width": 28},
)  # fmt: skip
"""Ways in which files write the values that specs read with ``as``."""


def _others(value: Any) -> Iterator[Any]:
    """Yield values of the same kind, among which one is likely to be taken and to matter."""
    match value:
        case bool():
            yield not value
        case int() | float():
            yield from (
                value * 2,
                value // 2,
                value // 4,
                value + 1,
                value + 2,
                value * 3,
                value // 16,
                value / 2,
                value + 0.25,
            )
        case str():
            yield from ("nearest", "lanczos", "full", "default", "anyres_max_1", [0.25, 0.5, 0.75])
        case dict():
            for other in zip(*(list(_others(item)) for item in value.values()), strict=True):
                yield dict(zip(value, other, strict=True))
        case [int(), int()]:
            yield from ([value[0] - 1, value[1]], [value[0], value[1] - 1], [value[0] // 2, value[1] // 2], [3, 3])
        case list():
            yield value[1:]
        case None:
            yield 7


def _nodes(node: Any, place: Path) -> Iterator[Node]:
    if isinstance(node, dict) and "from" in node:
        yield Node(place, node["from"], node.get("default"), node.get("as"))
    elif isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _nodes(value, (*place, key))
