"""Streams: events as they come, judged by a model, with alarms that are told exactly once."""
