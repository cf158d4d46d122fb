"""The panels of a result of any kind, for whoever shows them: a file, or a server."""

from __future__ import annotations

from tellwhy.results.labelled_texts import read_labels
from tellwhy.results.network_run import read_network
from tellwhy.results.result import Result
from tellwhy.views.page import drift, events, insight, labels, media, network, page
from tellwhy.views.page.shell import Contents, Limits


def find_contents(result: Result, limits: Limits) -> Contents:
    """Return the panels of a result, each kind of data in its own form."""
    explained = read_network(result)
    if explained is not None:
        return network.make_contents(explained, limits)
    labelled = read_labels(result)
    if labelled is not None:
        return labels.make_contents(labelled, limits)
    return _find_own(result, limits)


def _find_own(result: Result, limits: Limits) -> Contents:
    """Those of a kind that a result tells by its name."""
    if result.kind == "drift":
        from tellwhy.kinds.two_tables import read_difference

        return drift.make_contents(read_difference(result))
    if result.kind == "insight":
        from tellwhy.kinds.insight import read_insights

        return insight.make_contents(read_insights(result))
    if result.kind == "events":
        return events.make_contents(result, limits)
    if result.kind in media.NAMES:
        return media.make_contents(result, limits)
    return page.make_contents(result, limits)
