"""Which preprocessing a model needs: YAML specs, checkpoints' configuration, and numbers made of both."""

from foveal.spec.checkpoint import Checkpoint, read_checkpoint
from foveal.spec.find import load, match, names
from foveal.spec.resolve import resolve
from foveal.spec.schema import Spec
from foveal.spec.values import plain_layer

__all__ = ["Checkpoint", "Spec", "load", "match", "names", "plain_layer", "read_checkpoint", "resolve"]
