"""Row bands on Numba's threads instead of the pool's, where ``FOVEAL_PARALLEL=numba`` asks for it.

For programs that run Numba's own parallel code and want one set of threads. The bits are the same.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from foveal.errors import OptionError, TargetError
from foveal.run.buffers import scratch
from foveal.run.schedule import with_helpers
from foveal_kernels.view import Scratch

__all__ = ["chosen", "is_asked_for", "run_bands"]

_started: str | None = None
_tried = _forked = False


def is_asked_for() -> bool:
    """Whether ``FOVEAL_PARALLEL`` asks for Numba's threads.

    Raises
    ------
    OptionError
        If it has another value than pool and numba.
    """
    text = os.environ.get("FOVEAL_PARALLEL", "").strip().lower()
    if text not in ("", "pool", "numba"):
        raise OptionError(f"FOVEAL_PARALLEL is {text[:20]!r}: it must be pool or numba")
    return text == "numba"


def chosen() -> bool:
    """Whether bands run on Numba's threads.

    Never in a child that was forked after its parent had begun to start them: OpenMP ends such a child, and TBB may
    hang in one that was forked from a thread. It has Foveal's pool.

    Raises
    ------
    OptionError
        If ``FOVEAL_PARALLEL`` has another value than pool and numba.
    TargetError
        If Numba has no layer that several threads may enter.
    """
    if not is_asked_for() or _forked:
        return False
    global _started, _tried
    if _started is None:
        _tried = True
        from foveal_kernels import layer

        try:
            _started = layer.start()
        except ValueError as error:
            raise TargetError(f"FOVEAL_PARALLEL is 'numba': {error}") from None
    return True


def run_bands(
    name: str,
    inputs: tuple[Any, ...],
    needed: tuple[int, int],
    outputs: tuple[int, ...],
    rows: Sequence[tuple[int, int]],
) -> None:
    """Run a kernel of `foveal_kernels.view` on bands of rows.

    Parameters
    ----------
    name : str
        Of the kernel.
    inputs, outputs : tuple
        Its arguments before and behind the scratch memory.
    needed : tuple of int
        Bytes and row addresses that a thread needs.
    rows : sequence of pairs
        First row of each band, and the row behind its last; each begins where the one before it ends.
    """
    from foveal_kernels import layer, parallel

    count, (size, addresses) = len(rows), needed
    memory, places = scratch(count * size, count * addresses)
    memory, places = memory[: count * size], places[: count * addresses]
    own = Scratch(memory.reshape(count, size), places.reshape(count, addresses))
    edges = np.array([rows[0][0], *(stop for _, stop in rows)], np.intp)
    kernel, arguments = getattr(parallel, f"{name}_bands"), (*inputs, own, *outputs, edges)
    with_helpers(lambda threads: layer.run(kernel, threads, *arguments), count)


def _note_fork() -> None:
    global _forked
    _forked = _forked or _tried


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
