"""Names of the detectors of tables, read from what the folder exports: help need not load any of them."""

from tellwhy import detectors

# LCCAD judges nodes of a graph, PatchModel pictures and series: no table uses them.
_OTHERS = ("LCCAD", "PatchModel")
DETECTORS = tuple(name for name in dir(detectors) if name[0].isupper() and name not in _OTHERS)
