"""Every built-in spec plans every named picture as plans.json says; no kernel is needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from make_plans import NAMED, make_plans

from foveal.errors import ImageSizeError
from foveal.plan import make_batch_plan, make_plan
from foveal.spec import load, names, resolve

TABLE = json.loads(Path(__file__).with_name("plans.json").read_text())


def test_every_spec_plans_the_table():
    made = make_plans()
    changed = {
        name: {
            label: (row, TABLE.get(name, {}).get(label))
            for label, row in rows.items()
            if row != TABLE.get(name, {}).get(label)
        }
        for name, rows in made.items()
    }
    assert {name: rows for name, rows in changed.items() if rows} == {}
    assert made.keys() == TABLE.keys()


@pytest.mark.parametrize("name", names())
def test_a_refusal_names_the_size_and_the_rule(name):
    spec = resolve(load(name))
    for height, width in NAMED.values():
        size = f"{height}x{width} (height x width): "
        try:
            make_batch_plan(spec, [make_plan(spec, height, width)])
        except ImageSizeError as error:
            check_line(str(error).removeprefix("image 0 is "), size, f"({name}")


def check_line(text, start, rule):
    assert text.startswith(start)
    assert rule in text
    assert text.isprintable()
    assert len(text) < 200


def test_plans_need_no_kernels():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from make_plans import make_plans; make_plans(); "
        "print(*sorted({'numba', 'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
