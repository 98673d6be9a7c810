"""What the ``wire`` section of a spec is: how engines take the tensors in a gRPC request."""

from foveal.spec.steps import Dtype, Name, Strict

__all__ = ["ArchitecturePrimary", "EngineWire", "Wire", "WireTensor"]


class WireTensor(Strict, frozen=True):
    """A small tensor that an engine takes, and what is other there than in the reference's result.

    Attributes
    ----------
    tensor : str
        Its name among the spec's tensors.
    name : str, optional
        The engine's own name for it.
    dtype : str, optional
        The engine's own dtype for it.
    """

    tensor: Name
    name: Name | None = None
    dtype: Dtype | None = None


class ArchitecturePrimary(Strict, frozen=True):
    """An engine's name for the primary tensor of one of its model classes.

    Attributes
    ----------
    architecture : str
        As the worker names it: ``PixtralForConditionalGeneration``.
    primary : str
    """

    architecture: Name
    primary: Name


class EngineWire(Strict, frozen=True):
    """How an engine takes the tensors in a gRPC request, as far as its receiving code was run or read.

    Attributes
    ----------
    tensors : tuple of WireTensor
        All that it takes beside the primary tensor.
    primary : str
        The engine's own name for the primary tensor.
    architectures : tuple of ArchitecturePrimary
        Other names of it, for other model classes of the engine that serve the same models.
    device_normalize : bool
        Whether it takes bytes and normalizes them itself, where its server says so.
    token_id : str, optional
        The engine's name for the id of the feature token, where its model takes that as a tensor of one number.
    refusal : str, optional
        Why the engine cannot serve the model over gRPC; nothing else is given then.
    """

    tensors: tuple[WireTensor, ...] = ()
    primary: Name = "pixel_values"
    architectures: tuple[ArchitecturePrimary, ...] = ()
    device_normalize: bool = False
    token_id: Name | None = None
    refusal: str | None = None


class Wire(Strict, frozen=True):
    """How engines take these tensors in a gRPC request; None where that is not known.

    TokenSpeed takes those of every model and TensorRT-LLM those of none, so neither has a name here.
    """

    vllm: EngineWire | None = None
    sglang: EngineWire | None = None

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that take them."""
        named = (("vllm", self.vllm), ("sglang", self.sglang))
        return tuple(name for name, engine in named if engine is not None and engine.refusal is None)
