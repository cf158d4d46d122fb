"""The service as an application: its endpoints, who may call them, and what is counted of each request."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tellwhy
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.kinds.table_model import TableModel
from tellwhy.views.server.http import LOOPBACK, Access, error_answer, error_handlers, guarded
from tellwhy.views.server.service import calls, described, protocols
from tellwhy.views.server.service.bodies import JSON, UNUSABLE, Body, frame_of_rows, read_body, read_bytes
from tellwhy.views.server.service.counts import Counts, log_request, now, spanned
from tellwhy.views.server.service.keys import Keys
from tellwhy.views.server.service.limits import Limits
from tellwhy.views.server.service.shelf import Served, Shelf
from tellwhy.views.server.service.work import Bench

OPEN = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})  # without a key
DEADLINE = "x-deadline-seconds"
BINARY = "application/octet-stream"
HEAD_BYTES = "inference-header-content-length"
WARMING = 20  # rows of each model that are judged before the service is ready
Answer = dict[str, Any]
Call = Callable[[Served, pd.DataFrame, Mapping[str, Any]], Answer]


class Service:
    """The endpoints of some models."""

    def __init__(self, shelf: Shelf, limits: Limits) -> None:
        self.shelf = shelf
        self.limits = limits
        self.bench = Bench(limits)
        self.counts = Counts()
        self.is_ready = False

    @asynccontextmanager
    async def life(self, _: FastAPI) -> AsyncIterator[None]:
        """Get ready; read the models again on SIGHUP; in the end finish what is there."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError, RuntimeError, ValueError):  # outside the main thread
            loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, self.reload))
        await asyncio.to_thread(self.warm_up)
        self.is_ready = True
        yield
        self.is_ready = False
        self.bench.close()

    def reload(self) -> None:
        """Read all models again."""
        for name in self.shelf.reload():
            log_request({"event": "reload", "model": name, "version": self.shelf.find(name).version})

    def warm_up(self) -> None:
        """Judge some rows that each model keeps; what this loads and learns serves every request."""
        for name in self.shelf.names:
            served = self.shelf.find(name)
            if not isinstance(served.model, TableModel):
                continue
            rows = served.model.reference.head(WARMING)
            if served.model.by_reference is not None:
                rows = rows.assign(**served.model.by_reference.head(WARMING))
            with suppress(InvalidInput, HTTPException):  # texts are not kept; requests bring theirs
                calls.result_of(served, rows, {})
                calls.scores_of(served, rows)

    async def work(self, request: Request, function: Callable[[bytes], Any]) -> Any:
        """Read a body, and work on it in a thread, within the time there is."""
        seconds = self._seconds(request)
        started = now()
        content = await read_bytes(request, self.limits)
        self.counts.working.set(self.bench.n_working + 1)
        try:
            left = max(seconds - (now() - started), 0.001)
            return await self.bench.do(partial(_told, function, content), left)
        finally:
            self.counts.working.set(self.bench.n_working)

    def _seconds(self, request: Request) -> float:
        told = request.headers.get(DEADLINE)
        if told is None:
            return self.limits.seconds
        try:
            seconds = float(told)
        except ValueError:
            seconds = np.nan
        if not seconds > 0:
            raise HTTPException(UNUSABLE, f"{DEADLINE} must be a number of seconds above 0.")
        return min(seconds, self.limits.seconds)

    async def table(self, request: Request, call: Call) -> Response:
        """Answer a request that brings rows and names a model."""

        def answer(content: bytes) -> Answer:
            body = read_body(content, request.headers.get("content-type", ""), self.limits)
            asked = {**dict(request.query_params), **body.asked}
            served = self.shelf.find(_text(asked.get("model")))
            self._count(request, served, len(body.frame))
            return call(served, body.frame, asked)

        made = await self.work(request, answer)
        if "model" in made:
            n_alarms = made.get("n_alarms", sum(made.get("is_alarm", ())))
            self.counts.alarms.labels(made["model"]).inc(n_alarms)
        return _json(made)

    def _count(self, request: Request, served: Served, n_rows: int) -> None:
        self.counts.rows.labels(request.scope["route"].path, served.name).inc(n_rows)
        request.scope["tellwhy.told"] = {"model": served.name, "n_rows": n_rows}

    async def score(self, request: Request) -> Response:
        """Scores of rows; cells are taken as they are."""
        return await self.table(request, calls.score)

    async def explain(self, request: Request) -> Response:
        """What each column contributes to the score of every row."""
        return await self.table(request, calls.explain)

    async def judge(self, request: Request) -> Response:
        """Findings, alarms and their reasons: the document of a result."""
        return await self.table(request, calls.judge_rows)

    async def diff(self, request: Request) -> Response:
        """What changed since the fitting, or since the rows in `old`."""

        def call(served: Served, frame: pd.DataFrame, asked: Mapping[str, Any]) -> Answer:
            rest = {name: value for name, value in asked.items() if name != "old"}
            return calls.diff(served, frame, rest, _old_rows(asked, self.limits))

        return await self.table(request, call)

    async def models(self, _: Request) -> Response:
        """Names of the models."""
        return _json({"models": self.shelf.names})

    async def model(self, request: Request) -> Response:
        """The card of a model."""
        return _json(self.shelf.find(request.path_params["name"]).card())

    async def predict(self, request: Request) -> Response:
        """KServe's version 1: a score for each instance."""
        served, frame = await self._instances(request)
        scores = await self.work(request, lambda _: calls.scores_of(served, frame))
        return _json({"predictions": [None if np.isnan(each) else float(each) for each in scores]})

    async def explanations(self, request: Request) -> Response:
        """KServe's version 1: what each column contributes, of each instance."""
        served, frame = await self._instances(request)
        found = await self.work(request, lambda _: calls.explain(served, frame, {}))
        told = [
            {"row": row, "score": score, "values": dict(zip(found["columns"], values, strict=True))}
            for row, score, values in zip(found["rows"], found["scores"], found["values"], strict=True)
        ]
        return _json({"explanations": told})

    async def _instances(self, request: Request) -> tuple[Served, pd.DataFrame]:
        served = self.shelf.find(request.path_params["name"])

        def read(content: bytes) -> pd.DataFrame:
            return protocols.instances_of(protocols.read_json(content), served, self.limits)

        frame = await self.work(request, read)
        self._count(request, served, len(frame))
        return served, frame

    async def server_metadata(self, _: Request) -> Response:
        """Version 2: what this server is."""
        told = {"name": "tellwhy", "version": tellwhy.__version__, "extensions": ["binary_tensor_data"]}
        return _json(told)

    async def model_metadata(self, request: Request) -> Response:
        """Version 2: the tensors that a model takes and gives."""
        return _json(protocols.describe_model(self._versioned(request)))

    async def model_ready(self, request: Request) -> Response:
        """Version 2: whether a model is there."""
        return _json({"name": self._versioned(request).name, "ready": True})

    def _versioned(self, request: Request) -> Served:
        served = self.shelf.find(request.path_params["name"])
        version = request.path_params.get("version")
        if version is not None and version != served.version:
            raise HTTPException(404, f"{served.name} is served in version {served.version} alone.")
        return served

    async def infer(self, request: Request) -> Response:
        """Version 2: scores and alarms of tensors."""
        served = self._versioned(request)

        def answer(content: bytes) -> tuple[bytes, dict[str, str]]:
            told, rest = protocols.split_binary(content, request.headers.get(HEAD_BYTES))
            frame = protocols.tensors_of(told, rest, served, self.limits)
            self._count(request, served, len(frame))
            scores = calls.scores_of(served, frame)
            return protocols.joined(*protocols.answer_infer(served, told, scores, served.table.threshold))

        body, headers = await self.work(request, answer)
        return Response(body, media_type=BINARY if headers else JSON, headers=headers)

    async def alive(self, _: Request) -> Response:
        """Whether the service runs."""
        return _json({"live": True})

    async def ready(self, _: Request) -> Response:
        """Whether it answers requests: models are read, and it is not about to stop."""
        return Response(json.dumps({"ready": self.is_ready}), 200 if self.is_ready else 503, media_type=JSON)

    async def metrics(self, _: Request) -> Response:
        """What was counted, for Prometheus."""
        text, form = self.counts.text()
        return Response(text, media_type=form)


def make_service(
    shelf: Shelf, limits: Limits | None = None, keys: Keys | None = None, *, host: str = "127.0.0.1"
) -> ASGIApp:
    """Return the application that serves some models.

    Parameters
    ----------
    shelf
        The models.
    limits
        Of every request.
    keys
        Who may call; anybody without.
    host
        Where it will listen: at this machine's own address, pages from elsewhere may not call it.
    """
    service = Service(shelf, limits or Limits())
    handlers: Any = error_handlers()
    app = FastAPI(
        title="tellwhy",
        version=tellwhy.__version__,
        description="Finds what is odd in rows, and tells why, by models that were fitted before.",
        docs_url=None,  # its pages would load programs from elsewhere
        redoc_url=None,
        lifespan=service.life,
        exception_handlers=handlers,
    )
    _add_endpoints(app, service)
    is_own = f"[{host}]" in LOOPBACK or host in LOOPBACK
    access = Access(hosts=LOOPBACK if is_own else None, most_bytes=service.limits.most_bytes)
    return guarded(_counted(_keyed(app, keys), service), access)


def _add_endpoints(app: FastAPI, service: Service) -> None:
    """Say which endpoint is where, and what it takes."""
    request = described.table_request
    for name, settings in (("score", ()), ("explain", ("method",)), ("diff", ("old",))):
        extra = request(*settings)
        app.post(f"/v1/{name}", openapi_extra=extra)(getattr(service, name))
    judged = request("top", "method", "id_column", "first", "most")
    app.post("/v1/judge", openapi_extra=judged)(service.judge)
    app.get("/v1/models")(service.models)
    told = {"responses": described.refusals()}
    of_model = "/v1/models/{name}"
    app.get(of_model, openapi_extra=described.in_path(of_model, told))(service.model)
    instances = described.in_path(of_model, described.INSTANCES)
    app.post(f"{of_model}:predict", openapi_extra=instances)(service.predict)
    app.post(f"{of_model}:explain", openapi_extra=instances)(service.explanations)
    app.get("/v2")(service.server_metadata)
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        about = described.in_path(path, told)
        app.get(path, openapi_extra=about)(service.model_metadata)
        app.get(f"{path}/ready", openapi_extra=about)(service.model_ready)
        app.post(f"{path}/infer", openapi_extra=described.in_path(path, described.TENSORS))(service.infer)
    for path in ("/healthz", "/v2/health/live"):
        app.get(path)(service.alive)
    for path in ("/readyz", "/v2/health/ready"):
        app.get(path)(service.ready)
    app.get("/metrics")(service.metrics)


def _told(function: Callable[[bytes], Any], content: bytes) -> Any:
    """Errors of data are refusals: the rows do not fit the model."""
    try:
        return function(content)
    except (InvalidInput, UnsupportedModel) as error:
        raise calls.told_unusable(error) from None


def _old_rows(asked: Mapping[str, Any], limits: Limits) -> pd.DataFrame | None:
    old = asked.get("old")
    if old is None:
        return None
    if not isinstance(old, dict) or set(old) - {"rows", "columns"} or "rows" not in old:
        raise HTTPException(UNUSABLE, "'old' must be an object with 'rows'.")
    return Body(frame_of_rows(old["rows"], old.get("columns"), limits)).frame


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise HTTPException(UNUSABLE, "'model' must be a name.")
    return value


def _json(document: Mapping[str, Any]) -> Response:
    return Response(json.dumps(document, allow_nan=False, ensure_ascii=False).encode(), media_type=JSON)


def _keyed(app: ASGIApp, keys: Keys | None) -> ASGIApp:
    """Ask for a key everywhere but where only the health is told."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if keys is not None and scope["type"] == "http" and scope["path"] not in OPEN:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            owner = keys.owner(headers)
            if owner is None:
                refusal = error_answer(401, "A key is needed: Authorization: Bearer KEY, or X-API-Key: KEY.")
                refusal.headers["www-authenticate"] = "Bearer"
                refusal.headers["connection"] = "close"  # its body is not read
                await refusal(scope, receive, send)
                return
            scope["tellwhy.caller"] = owner
        await app(scope, receive, send)

    return call


def _counted(app: ASGIApp, service: Service) -> ASGIApp:
    """Count and log every request, and make a span of it."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        started = now()
        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            with spanned(scope["method"], headers) as tell:
                await app(scope, receive, note)
                tell(_name_endpoint(scope), status)
        finally:
            _write_down(scope, service, status, now() - started)

    return call


def _name_endpoint(scope: Scope) -> str:
    """The endpoint as it is written here; a path that nobody serves may hold anything."""
    return str(getattr(scope.get("route"), "path", "other"))


def _write_down(scope: Scope, service: Service, status: int, seconds: float) -> None:
    endpoint = _name_endpoint(scope)
    service.counts.requests.labels(endpoint, str(status)).inc()
    service.counts.seconds.labels(endpoint).observe(seconds)
    told = {"method": scope["method"], "endpoint": endpoint, "status": status, "ms": round(1000 * seconds, 2)}
    caller = {"caller": scope["tellwhy.caller"]} if "tellwhy.caller" in scope else {}
    log_request({"event": "request", **told, **caller, **scope.get("tellwhy.told", {})})
