"""The project around the code: versions, names, entry points, what import costs, and that tests need no network."""

import ast
import doctest
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import foveal

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NETWORK = {"aiohttp", "ftplib", "http", "httpx", "huggingface_hub", "requests", "socket", "urllib", "urllib3"}
SET_UP = (
    "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/foveal demo",
    'python3 -m venv .venv-test && .venv-test/bin/pip install -q -e ".[test]" && .venv-test/bin/pytest',
)


def test_versions_agree():
    assert foveal.__version__ == PYPROJECT["project"]["version"] == importlib.metadata.version("foveal")
    assert f"## [{foveal.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_import_loads_neither_numba_nor_torch():
    code = "import sys, foveal; print(*sorted({'numba', 'llvmlite', 'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_public_names_exist_and_are_documented():
    assert sorted(set(foveal.__all__)) == sorted(foveal.__all__)
    for name in foveal.__all__:
        assert getattr(foveal, name).__doc__ or name == "__version__", f"foveal.{name} has no docstring"


def test_all_names_what_a_user_can_see():
    modules = {path.stem for path in Path(foveal.__file__).parent.iterdir()}
    public = {name for name in vars(foveal) if not name.startswith("_")} - modules
    assert public <= set(foveal.__all__)


def test_what_is_imported_later_is_there_and_listed():
    code = "import foveal; foveal.chat.tokenizer, foveal.grpc.Client, foveal.backends.shm.sweep; print(*dir(foveal))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {*foveal.__all__, "chat", "grpc", "backends"} <= set(done.stdout.split())


def test_console_script_is_installed():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="foveal")
    assert callable(script.load())


def test_readme_names_the_set_up_lines():
    readme = (ROOT / "README.md").read_text()
    assert [line for line in SET_UP if line not in readme] == []


def test_contributing_describes_every_module():
    described = set(re.findall(r"\w+\.py", (ROOT / "CONTRIBUTING.md").read_text()))
    modules = {path.name for folder in ("src", "kernels") for path in (ROOT / folder).rglob("*.py")}
    assert {name for name in modules if not name.startswith("__")} - described == set()


def test_readme_example_prints_what_it_says(monkeypatch):
    monkeypatch.chdir(ROOT)
    results = doctest.testfile("README.md", module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8")
    assert results.attempted
    assert results.failed == 0


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_tests_need_no_network(path):
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    assert {name.partition(".")[0] for name in imported} & NETWORK == set()
