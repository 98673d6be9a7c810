"""The published graphs: they load nothing from elsewhere, and a browser draws the results that are stored.

The tests that open a browser want Chromium, as CHROMIUM or in the path, and npm's packages below FOVEAL_SITE_SCRIPTS or
where ``npm ci --prefix asv_benchmarks/site`` puts them.
"""

import html
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BENCHMARKS = ROOT / "asv_benchmarks"
RESULTS = BENCHMARKS / "results"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
SCRIPTS = Path(os.environ.get("FOVEAL_SITE_SCRIPTS", BENCHMARKS / "site"))
PROBE = """
<script>
setInterval(function () {
  function colored(canvas) {
    var bytes = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, count = 0;
    for (var i = 0; i < bytes.length; i += 4) {
      var most = Math.max(bytes[i], bytes[i + 1], bytes[i + 2]), least = Math.min(bytes[i], bytes[i + 1], bytes[i + 2]);
      count += bytes[i + 3] > 100 && most - least > 60;
    }
    return count;
  }
  var plot = $("#main-graph").data("plot");
  document.body.setAttribute("data-seen", JSON.stringify({
    benchmarks: $(".benchmark-container .benchmark-text").length,
    colored: $("canvas.flot-base:visible").map(function () { return colored(this); }).get(),
    points: plot ? plot.getData().map(function (series) { return series.data.length; }) : []
  }));
}, 100);
</script>
</body>
"""


@pytest.fixture(scope="module")
def history():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("history")


def measured():
    """Return the commits that have results."""
    return {json.loads(file.read_text())["commit_hash"] for file in RESULTS.glob("*/*-*.json")}


def known(commit):
    command = ["git", "-C", str(ROOT), "cat-file", "-e", f"{commit}^{{commit}}"]
    return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the published site, and how a browser shows one of its pages."""
    if CHROMIUM is None:
        pytest.skip("no Chromium: install it, or set CHROMIUM to it")
    if not (SCRIPTS / "node_modules").is_dir():
        pytest.skip("no scripts of the pages: npm ci --ignore-scripts --prefix asv_benchmarks/site")
    if not all(map(known, measured())):
        pytest.skip("this copy has no git history, to which the results belong")
    folder = tmp_path_factory.mktemp("site")
    config = json.loads((BENCHMARKS / "asv.conf.json").read_text())
    config |= {"repo": str(ROOT), "branches": ["HEAD"], "benchmark_dir": str(BENCHMARKS / "benchmarks")}
    config |= {"results_dir": str(RESULTS), "env_dir": str(folder / "env"), "html_dir": str(folder / "html")}
    (folder / "asv.conf.json").write_text(json.dumps(config))
    command = [sys.executable, str(BENCHMARKS / "history.py"), "--config", str(folder / "asv.conf.json"), "publish"]
    done = subprocess.run([*command, "--scripts", str(SCRIPTS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    page = folder / "html" / "index.html"
    page.write_text(page.read_text().replace("</body>", PROBE))
    return folder


def seen(site, address):
    """Return what the probe saw on a page, opened in a browser that reaches no other machine."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=20000", "--window-size=1280,900"]
    page = (site / "html" / "index.html").as_uri() + address
    command = [CHROMIUM, *options, f"--user-data-dir={site / 'profile'}", page]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stderr
    return json.loads(html.unescape(found[1]))


@pytest.mark.site
def test_the_grid_lists_every_benchmark(site):
    listed = json.loads((RESULTS / "benchmarks.json").read_text())
    del listed["version"]
    assert seen(site, "")["benchmarks"] == len(listed)


@pytest.mark.site
@pytest.mark.parametrize("benchmark", ["bench_plan.Plan.time_new_size", "bench_peers.Resize.track_ratio"])
def test_a_graph_is_drawn_with_a_point_for_each_commit(site, benchmark):
    found = seen(site, f"#{benchmark}")
    assert max(found["points"]) >= 3
    assert len(found["colored"]) >= 2
    assert min(found["colored"]) > 50


def test_stored_results_are_those_of_several_commits():
    assert len(measured()) >= 3


# ---- without a browser


@pytest.fixture
def page(tmp_path):
    """Return a folder with the page that asv brings."""
    import asv

    shutil.copyfile(Path(asv.__file__).parent / "www" / "index.html", tmp_path / "index.html")
    return tmp_path


@pytest.fixture
def packages(tmp_path, history):
    for name in history.LOCAL.values():
        file = tmp_path / "node_modules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "node_modules"


def test_a_local_page_loads_nothing_from_elsewhere(history, page, packages):
    history.make_local(page, packages)
    loaded = re.findall(r'<(?:script|link)\b[^>]*\b(?:src|href)="([^"]*)"', (page / "index.html").read_text())
    assert not [address for address in loaded if "//" in address]
    assert {Path(address).name for address in loaded if address.startswith("vendor/")} == history.LOCAL.keys()
    assert {file.name for file in (page / "vendor").iterdir()} == history.LOCAL.keys()


def test_packages_that_are_not_there_are_named(history, page, packages):
    shutil.rmtree(packages / "flot")
    with pytest.raises(SystemExit, match=r"jquery\.flot\.min\.js.*npm ci"):
        history.make_local(page, packages)


def test_a_script_that_is_not_known_is_named(history, page, packages):
    text = (page / "index.html").read_text()
    (page / "index.html").write_text(text.replace("md5.min.js", "sha1.min.js"))
    with pytest.raises(SystemExit, match=r"sha1\.min\.js"):
        history.make_local(page, packages)


def test_packages_are_those_that_are_listed(history):
    listed = json.loads((BENCHMARKS / "site" / "package.json").read_text())["dependencies"]
    assert {name.partition("/")[0] for name in history.LOCAL.values()} == listed.keys()
