"""Compile-time constants that travel as one argument of a kernel.

``Dot(level=VNNI, digits=2)`` is an ordinary Python value whose Numba *type* carries the numbers, so ``dot.level`` is a
constant for LLVM and each value gets its own machine code, while kernels stay module-level functions, which the on-disk
cache finds again. (A closure over numbers works too, but one over another kernel never hits the cache; nor does a type
class made inside a function, because it is pickled by value.)
"""

from functools import cache

from numba.core import types
from numba.core.extending import NativeValue, models, overload_attribute, register_model, typeof_impl, unbox
from numba.core.imputils import lower_constant

__all__ = ["Static", "StaticType", "static"]


class StaticType(types.Type):
    """Numba type of a :class:`Static`."""

    def __init__(self, name, fields, values):
        self.fields, self.values = fields, values
        super().__init__(f"{name}({', '.join(f'{f}={v}' for f, v in zip(fields, values, strict=True))})")

    def __getattr__(self, field):
        """Let code that runs at compile time read a number."""
        if field.startswith("_") or field not in self.__dict__.get("fields", ()):
            raise AttributeError(field)
        return self.values[self.fields.index(field)]


class Static:
    """A bundle of integers, each known when the kernel is compiled; ``values`` in the order of the fields."""

    def __init__(self, name, fields, values):
        self._definition = (name, fields, values)
        self.values = values
        self._numba_type_ = StaticType(name, fields, values)

    def __reduce__(self):
        return Static, self._definition

    def __repr__(self):
        return self._numba_type_.name


register_model(StaticType)(models.OpaqueModel)
typeof_impl.register(Static)(lambda value, context: value._numba_type_)
unbox(StaticType)(lambda kind, value, c: NativeValue(c.context.get_dummy_value()))
lower_constant(StaticType)(lambda context, builder, kind, value: context.get_dummy_value())


@cache
def _readable(field):
    """Let kernels read a field of any bundle."""

    @overload_attribute(StaticType, field)
    def get(bundle):
        number = bundle.values[bundle.fields.index(field)]
        return lambda bundle: number


def static(name, *fields):
    """Return a function that makes bundles with these integer fields; equal numbers give the same object."""
    for field in fields:
        _readable(field)

    @cache
    def make(**values):
        return Static(name, fields, tuple(int(values[field]) for field in fields))

    return make
