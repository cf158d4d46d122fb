"""What views draw besides runs and explanations: views look no further down than here."""

from tellwhy.data.graphs.kinds import Grid
from tellwhy.evaluation import Flipping, Randomisation, RegionFlipping

__all__ = ["Flipping", "Grid", "Randomisation", "RegionFlipping"]
