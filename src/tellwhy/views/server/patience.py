"""Connections that send nothing whole are closed: whoever sends a request letter by letter blocks nobody."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # that the first lines of a request may take


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a limit on how long the head of a request may take to come in."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:  # the head has come in; who reads bodies watches them
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
