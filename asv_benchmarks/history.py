"""Measure commits, and publish what was measured as pages that need no network.

    python asv_benchmarks/history.py run RANGE [--commits N] [--bench REGEX ...] [--machine NAME] [--config FILE]
    python asv_benchmarks/history.py publish [--scripts FOLDER] [--config FILE]

``run`` measures up to N commits of a range such as ``v0.1..main``, evenly spaced, each benchmark once, in an
environment of its own; commits that have results are left alone. ``publish`` writes the graphs of all results to asv's
``html_dir``. asv's pages load their scripts from other servers; here these are copied beside the pages, from
FOLDER/node_modules, into which ``npm ci`` puts them as ``site/package.json`` names them.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = HERE / "site"
BENCHMARKS = (
    "bench_plan",
    r"bench_preprocess.Preprocess.time_reused_buffer.*640x480.*float32",
    "bench_preprocess.Output",
    "bench_resample.Resize.time_reused_buffer.*bicubic",
    "bench_peers",
)
LOCAL = {
    "jquery-3.3.1.min.js": "jquery/dist/jquery.min.js",
    "jquery.flot.min.js": "flot/jquery.flot.js",
    "jquery.flot.time.min.js": "flot/jquery.flot.time.js",
    "jquery.flot.selection.min.js": "flot/jquery.flot.selection.js",
    "jquery.flot.categories.min.js": "flot/jquery.flot.categories.js",
    "jquery.flot.orderBars.js": "flot-orderbars/js/jquery.flot.orderBars.js",
    "stupidtable.min.js": "stupid-table-plugin/stupidtable.min.js",
    "md5.min.js": "blueimp-md5/js/md5.min.js",
    "bootstrap.min.js": "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap.min.css": "bootstrap/dist/css/bootstrap.min.css",
}
"""Files that asv's page loads, by their last name, and where npm's packages have them."""
REMOTE = re.compile(r'(<(?:script|link)\b[^>]*\b(?:src|href)=")https://[^"]*/([^"/]+)"[^>]*>')


def asv(*arguments: str) -> int:
    """Run asv, and return its exit status: 2 where a benchmark failed, as those of things yet to come do."""
    done = subprocess.run([sys.executable, "-m", "asv", *arguments], cwd=HERE, check=False)
    if done.returncode not in (0, 2):
        raise SystemExit(done.returncode)
    return done.returncode


def run(arguments: argparse.Namespace) -> None:
    """Measure commits of a range."""
    machine = ["--machine", arguments.machine] if arguments.machine else []
    asv("machine", "--yes", "--config", arguments.config, *machine)
    benchmarks = [word for name in arguments.bench for word in ("--bench", name)]
    steps = ["--steps", str(arguments.commits), "--quick", "--skip-existing-successful"]
    asv("run", arguments.range, *steps, *machine, *benchmarks, "--config", arguments.config)


def publish(arguments: argparse.Namespace) -> None:
    """Write the site, and what it loads beside it."""
    settings = json.loads(Path(arguments.config).read_text())
    html = Path(arguments.config).parent / settings["html_dir"]
    asv("publish", "--config", arguments.config)
    make_local(html, arguments.scripts / "node_modules")
    print(html / "index.html")


def make_local(html: Path, packages: Path) -> None:
    """Let a page load its scripts and styles from beside it.

    Raises
    ------
    SystemExit
        If npm's packages are not there, or asv's page has come to load something else.
    """
    page = html / "index.html"
    text = page.read_text()
    names = [name for _, name in REMOTE.findall(text)]
    if unknown := sorted(set(names) - LOCAL.keys()):
        raise SystemExit(f"asv's page loads {', '.join(unknown)}: history.py does not know where to get that")
    if missing := [name for name in names if not (packages / LOCAL[name]).is_file()]:
        raise SystemExit(f"{', '.join(missing)}: run npm ci --ignore-scripts --prefix {packages.parent}")
    (html / "vendor").mkdir(exist_ok=True)
    for name in names:
        shutil.copyfile(packages / LOCAL[name], html / "vendor" / name)
    page.write_text(REMOTE.sub(lambda tag: f'{tag[1]}vendor/{tag[2]}">', text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(HERE / "asv.conf.json"))
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("run")
    measuring.add_argument("range", help="commits as git names them, for example v0.1..main")
    measuring.add_argument("--commits", type=int, default=6)
    measuring.add_argument("--bench", nargs="+", default=BENCHMARKS)
    measuring.add_argument("--machine", help="name of this machine in results; its host name by default")
    measuring.set_defaults(call=run)
    publishing = commands.add_parser("publish")
    publishing.add_argument("--scripts", type=Path, default=SCRIPTS)
    publishing.set_defaults(call=publish)
    arguments = parser.parse_args()
    arguments.call(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
