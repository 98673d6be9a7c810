"""The only caller of kernels: tables, layouts, buffers, threads.

Importing it does not import Numba; the functions below import what they need when they are called.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveal.run.environment import info
    from foveal.run.resizing import resize

__all__ = ["info", "resize"]


def __getattr__(name: str) -> Any:
    if name == "info":
        from foveal.run.environment import info

        return info
    if name == "resize":
        from foveal.run.resizing import resize

        return resize
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
