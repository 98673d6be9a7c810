"""Ratios beside peers: measured where a peer is there, skipped where it is not."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "asv_benchmarks"
MISSING = {
    "torchvision": "torch",
    "opencv area": "cv2",
    "transformers torchvision": "transformers",
    "transformers pillow": "transformers",
    "hf-processors-rs torchvision": "hf_processors_rs",
    "hf-processors-rs pillow<13": "hf_processors_rs",
}


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("benchmarks.bench_peers")
    monkeypatch.setattr(module, "TURNS", module.Options([], [], budget=0.0, rounds=1))
    return module


def test_a_ratio_is_measured(peers):
    suite, parameters = peers.Resize(), ("pillow", "640x480->336x336")
    suite.setup(*parameters)
    assert suite.track_ratio(*parameters) > 0


@pytest.mark.parametrize(("peer", "module"), MISSING.items())
def test_a_peer_that_is_not_installed_is_skipped(peers, peer, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    suite = peers.Resize() if peer in peers.RESIZERS else peers.Model()
    parameters = ("640x480->336x336",) if peer in peers.RESIZERS else ("qwen3_vl", "640x480")
    with pytest.raises(NotImplementedError, match="is not installed"):
        suite.setup(peer, *parameters)


def test_a_peer_with_other_values_is_none(peers, monkeypatch):
    import numpy as np

    wrong = np.zeros((1200, 1536), np.float32)
    monkeypatch.setitem(peers.PEERS, "transformers pillow", lambda family: lambda image: wrong)
    with pytest.raises(AssertionError, match="values differ"):
        peers.Model().setup("transformers pillow", "qwen3_vl", "640x480")
