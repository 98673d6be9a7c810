"""Foveal beside the installed transformers, on the same images: the parity certificate."""

from foveal.verification.certify import verify
from foveal.verification.report import ImageReport, Report, TensorReport

__all__ = ["ImageReport", "Report", "TensorReport", "verify"]
