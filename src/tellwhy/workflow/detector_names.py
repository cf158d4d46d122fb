"""Names of the detectors of tables, read from what the folder exports: help need not load any of them."""

from tellwhy import detectors

# LCCAD judges nodes of a graph: `explain_graph` uses it, no table does.
DETECTORS = tuple(name for name in dir(detectors) if name[0].isupper() and name != "LCCAD")
