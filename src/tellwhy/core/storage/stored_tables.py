"""Tables beside arrays and heads: Parquet files whose pages carry checksums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.storage.array_files import check_regular


def write_stored_table(frame: Any, path: Path, **settings: Any) -> None:
    """Write a pandas frame with a checksum for each page: a bit that flips on the disk is noticed."""
    frame.to_parquet(path, write_page_checksum=True, **settings)


def read_stored_table(path: Path) -> Any:
    """Read a pandas frame, or raise `UnreadableFile` with the file's name."""
    import pandas as pd
    import pyarrow as pa

    try:
        check_regular(path)
        return pd.read_parquet(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError) as error:
        # What the file says of its columns goes through pandas, which trusts it.
        raise UnreadableFile(f"{path} is missing or damaged: {error}.") from error
