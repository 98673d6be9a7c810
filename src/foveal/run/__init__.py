"""The only caller of kernels: tables, layouts, buffers, threads. Importing it does not import Numba."""
