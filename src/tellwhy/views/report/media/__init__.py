"""The page on pictures, series and texts."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names

if TYPE_CHECKING:
    from tellwhy.views.report.media.page import (
        render_media as render_media,
        write_media_report as write_media_report,
    )

_PLACES = {"render_media": "page", "write_media_report": "page"}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
