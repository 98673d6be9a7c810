"""Every loop over pixels, as Numba nopython kernels.

Kernels take addresses, tables and scalars, write into memory that somebody else allocated, validate nothing and hold no
policy: `foveal.run` is their only caller. Read `view.py` first; it composes the rest.
"""
