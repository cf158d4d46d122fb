"""What a saved committee is made of, and how its parts must fit together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.detectors.committee.column_law import ColumnLaw
from tellwhy.detectors.committee.dependence import Dependence
from tellwhy.detectors.committee.gaussian import Gaussian
from tellwhy.detectors.committee.member import ColumnScales, Units
from tellwhy.detectors.committee.neighbours import Neighbours
from tellwhy.detectors.committee.pairs import RarePairs
from tellwhy.detectors.committee.panel import Panel
from tellwhy.detectors.committee.spiked import SpikedLaw
from tellwhy.detectors.committee.straight import Straight
from tellwhy.detectors.committee.surprise import Surprise
from tellwhy.detectors.committee.tails import Tails
from tellwhy.storage.codec import Fit, Part, by_name


def _is_increasing(values: Floats) -> bool:
    return bool(np.isfinite(values).all() and (np.diff(values) >= 0).all())


def _surprise(law: Surprise) -> Iterator[Fit]:
    yield "knots", law.knots.ndim == 1 and len(law.knots) > 0 and _is_increasing(law.knots), True
    yield "levels", law.levels.shape, law.knots.shape
    yield "levels", _is_increasing(law.levels), True
    yield "scale", bool(np.isfinite(law.scale) and law.scale > 0), True
    yield "shape", bool(-1 < law.shape <= 1), True


def _spiked_law(law: SpikedLaw) -> Iterator[Fit]:
    yield "spike", isinstance(law.spike, float) and bool(np.isfinite(law.spike)), True
    yield "sides", len(law.sides) == 2 and all(isinstance(side, Surprise) for side in law.sides), True


def _column_law(law: ColumnLaw) -> Iterator[Fit]:
    yield "values", law.values.ndim == 1 and len(law.values) > 0 and _is_increasing(law.values), True
    yield "surprises", len(law.surprises) in (0, len(law.values)), True
    for name, array in (("starts", law.starts), ("scales", law.scales), ("shapes", law.shapes)):
        yield name, array.shape, (2,)
    yield "scales", bool((law.scales > 0).all()), True
    yield "shapes", bool((law.shapes > -1).all()), True


def _scales(scales: ColumnScales | Units) -> Iterator[Fit]:
    yield "scale", scales.scale.shape, scales.centre.shape
    yield "scale", bool((scales.scale > 0).all()), True


def _straight(straight: Straight) -> Iterator[Fit]:
    yield "starts", straight.starts.ndim == 2 and len(straight.starts) == 2, True
    yield "scales", straight.scales.shape, straight.starts.shape
    yield "scales", bool((straight.scales > 0).all()), True
    yield "shapes", straight.shapes.shape, straight.starts.shape
    yield "shapes", bool((straight.shapes > -1).all()), True
    n_columns = straight.starts.shape[1]
    yield "spiked", all(isinstance(j, int) and 0 <= j < n_columns for j in straight.spiked), True
    yield "spikes", len(straight.spikes), len(straight.spiked)
    yield "spikes", all(isinstance(law, SpikedLaw) for law in straight.spikes), True


def _units(units: Units) -> Iterator[Fit]:
    yield from _scales(units)
    yield "straight", isinstance(units.straight, Straight), True
    yield "straight", units.straight.starts.shape[1:], units.centre.shape
    yield "has_two_values", units.has_two_values.shape, units.centre.shape


def _laws(member: Tails | Dependence) -> Iterator[Fit]:
    yield "laws", all(isinstance(law, (ColumnLaw, SpikedLaw)) for law in member.laws), True


def _tails(member: Tails) -> Iterator[Fit]:
    yield from _laws(member)
    yield "alike", member.alike.shape, (len(member.laws), len(member.laws))
    yield "alike", bool(((member.alike >= 0) & (member.alike <= 1)).all()), True


def _neighbours(member: Neighbours) -> Iterator[Fit]:
    yield "expansion", member.expansion.points.shape[1:], member.units.centre.shape


def _gaussian(member: Gaussian) -> Iterator[Fit]:
    d = len(member.units.centre)
    yield "precision", member.precision.shape in ((d, d), (d,)), True


def _dependence(member: Dependence) -> Iterator[Fit]:
    d = len(member.units.centre)
    yield "weights", member.weights.shape, (d, len(member.judged))
    yield "judged", bool(((member.judged >= 0) & (member.judged < d)).all()), True
    yield from _laws(member)
    yield "laws", len(member.laws), len(member.judged)


def _pairs(member: RarePairs) -> Iterator[Fit]:
    n = len(member.labels)
    yield "high", member.high.shape, (n,)
    yield "labels", bool((member.labels >= 0).all()), True
    yield "surprises", member.surprises.shape, (n, n)


def _panel(panel: Panel) -> Iterator[Fit]:
    yield "weights", len(panel.weights), len(panel.members)
    yield "surprises", len(panel.surprises), len(panel.members)
    yield "voices", len(panel.voices), len(panel.members)
    yield "voices", all(isinstance(voice, float) and 0 < voice < 1 for voice in panel.voices), True
    laws = (*panel.surprises, panel.summed, panel.together)
    yield "surprises", all(isinstance(law, Surprise) for law in laws), True
    yield "weights", all(isinstance(weight, float) and weight > 0 for weight in panel.weights), True


COMMITTEE_PARTS = by_name(
    Part(Surprise, _surprise),
    Part(ColumnLaw, _column_law),
    Part(SpikedLaw, _spiked_law),
    Part(ColumnScales, _scales),
    Part(Units, _units),
    Part(Straight, _straight),
    Part(Tails, _tails),
    Part(Neighbours, _neighbours),
    Part(Gaussian, _gaussian),
    Part(Dependence, _dependence),
    Part(RarePairs, _pairs),
    Part(Panel, _panel),
)
