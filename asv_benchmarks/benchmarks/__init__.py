"""Benchmarks of Foveal, for asv."""
