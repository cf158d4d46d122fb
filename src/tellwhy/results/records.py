"""What was found as plain values, for files, and back; also of files that hold sentences alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from tellwhy.results.result import AlarmRule, Anomaly, Finding, Headline, Notice, Reason, Typical

Record = dict[str, Any]
WRITTEN = "as_written"  # form and kind of what an earlier version saved as a sentence


def finding_record(found: Finding) -> Record:
    """A finding as files hold it: its fields, and its sentence for who reads the file."""
    return {**vars(found), "text": found.text, "example": found.example}


def finding_of(record: Mapping[str, Any]) -> Finding:
    """A finding as a file holds it."""
    if "facts" not in record:
        record = {**record, "form": WRITTEN, "facts": {"text": record["text"]}}
    return Finding(**_fields(Finding, record))


def reason_record(reason: Reason) -> Record:
    """A reason as files hold it: its fields, and its sentence."""
    return {**asdict(reason), "text": reason.text}


def reason_of(record: Mapping[str, Any]) -> Reason:
    """A reason as a file holds it."""
    if "facts" not in record:
        text = str(record["text"])
        before_share = text.rpartition(" · ")[0]
        told = {"kind": WRITTEN, "facts": {"text": before_share or text}, "is_share": bool(before_share)}
        return Reason(**_fields(Reason, {**record, **told}))
    found = record.get("finding")
    finding = None if found is None else finding_of(found)
    return Reason(**_fields(Reason, {**record, "finding": finding}))


def anomaly_record(anomaly: Anomaly) -> Record:
    """An anomaly as files hold it: its fields, and its sentences."""
    reasons = [reason_record(reason) for reason in anomaly.reasons]
    return {**asdict(anomaly), "reasons": reasons, "note": anomaly.note}


def anomaly_of(record: Mapping[str, Any]) -> Anomaly:
    """An anomaly as a file holds it."""
    usual = {name: Typical(**each) for name, each in record.get("usual", {}).items()}
    reasons = [reason_of(each) for each in record["reasons"]]
    doubt = record.get("doubt")
    if doubt is not None:
        doubt = Notice(**doubt)
    elif "doubt" not in record and record.get("note"):
        doubt = Notice(WRITTEN, {"text": record["note"]})
    return Anomaly(**{**_fields(Anomaly, record), "reasons": reasons, "usual": usual, "doubt": doubt})


def headline_from(record: Mapping[str, Any]) -> Headline:
    """A headline as a file holds it."""
    reason = None if record["reason"] is None else reason_of(record["reason"])
    more = [Notice(**each) for each in record["more"]]
    alarms = AlarmRule(**record["alarms"])
    return Headline(**{**record, "alarms": alarms, "reason": reason, "more": more})


def _fields(kind: type, record: Mapping[str, Any]) -> Record:
    """What the class has; files hold sentences besides, for who reads them."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in record.items() if name in names}
