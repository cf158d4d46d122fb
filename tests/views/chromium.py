"""A headless Chromium driven through its DevTools pipe: what a page requests, logs and does."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)

# Chromium reads commands from descriptor 3 and answers on 4.
PLACE_PIPES = """
import os, sys
commands, answers = os.dup2(int(sys.argv[1]), 103), os.dup2(int(sys.argv[2]), 104)
os.dup2(commands, 3), os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page of a headless browser; every call is bounded in time."""

    def __init__(self, seconds: float = 20.0):
        self.seconds = seconds
        self.events: list[dict[str, Any]] = []
        self._n = 0
        self._buffer = b""
        self._profile = tempfile.mkdtemp()
        child_in, self._write = os.pipe()
        self._read, child_out = os.pipe()
        self._process = self._start(child_in, child_out)
        os.close(child_in)
        os.close(child_out)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _start(self, child_in: int, child_out: int) -> subprocess.Popen[bytes]:
        command = [str(chromium()), *FLAGS, f"--user-data-dir={self._profile}"]
        return subprocess.Popen(
            [sys.executable, "-c", PLACE_PIPES, str(child_in), str(child_out), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(child_in, child_out),
        )

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._n += 1
        message = {"id": self._n, "method": method, "params": params}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.seconds
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != self._n:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer.get("result", {})

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("Chromium did not answer in time.")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def open(self, path: Path, *, width: int = 1280, height: int = 900, fragment: str = "") -> None:
        """Load a page at a window size and wait until it is complete."""
        self.events.clear()
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.resolve().as_uri() + fragment)
        deadline = time.monotonic() + self.seconds
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} did not load in time.")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def requests(self) -> list[str]:
        """Return every address that the page asked for."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [str(p["request"]["url"]) for p in sent]

    def blocked(self) -> list[str]:
        """Return why requests of the page were refused."""
        failed = [e["params"] for e in self.events if e.get("method") == "Network.loadingFailed"]
        return [str(p.get("blockedReason", p.get("errorText"))) for p in failed]

    def complaints(self) -> list[str]:
        """Return errors, warnings and exceptions that the console showed."""
        names = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(e["params"]) for e in self.events if e.get("method") in names]

    def screenshot(self, path: Path, *, dark: bool = False) -> None:
        """Save what the window shows as a PNG, in the light or the dark theme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser and remove its profile."""
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)
