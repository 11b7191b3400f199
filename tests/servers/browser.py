"""A headless Chromium, driven over WebDriver's HTTP protocol by the standard library alone."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers.tools import MissingToolError

_STARTED = re.compile(r"successfully on port (\d+)")
_FETCHED = "Network.requestWillBeSent"


def programs() -> tuple[str, str]:
    """Return Chromium and its driver. Raises MissingToolError."""
    found = [
        next((path for name in names if (path := shutil.which(name))), None)
        for names in (("chromium", "chromium-browser", "google-chrome"), ("chromedriver",))
    ]
    if found[0] is None or found[1] is None:
        msg = "chromium and chromedriver are not on PATH (on Debian the packages chromium and chromium-driver)"
        raise MissingToolError(msg)
    return found[0], found[1]


class Browser:
    """One page in a headless browser of its own."""

    def __init__(self, port: int, chromium: str, scratch: Path) -> None:
        self._port = port
        options = {
            "binary": chromium,
            "args": [
                "--headless=new",
                "--no-sandbox",  # which root may not use
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={scratch}",
            ],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"
        self._ask("POST", f"{self._session}/url", {"url": "about:blank"})  # a new tab has a page of its own

    def look_as(self, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Make the page that wide, with light or dark colours, on screen or for print."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, page: Path) -> None:
        """Open a page and forget what earlier ones printed and fetched."""
        self.said()
        self.fetched()
        self._ask("POST", f"{self._session}/url", {"url": page.as_uri()})

    def value(self, expression: str) -> Any:  # noqa: ANN401 - whatever the expression is
        return self._ask("POST", f"{self._session}/execute/sync", {"script": f"return ({expression})", "args": []})

    def devtools(self, command: str, **parameters: object) -> Any:  # noqa: ANN401 - each command has its answer
        return self._ask("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, *, height: int | None = None, of: str = "html") -> bytes:
        """Return the first element that a selector finds, or its first ``height`` pixels, as PNG."""
        box = self.value(f"document.querySelector({json.dumps(of)}).getBoundingClientRect().toJSON()")
        clip = {**{key: box[key] for key in ("x", "y", "width")}, "height": height or box["height"], "scale": 1}
        shot = self.devtools("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """Return the page as it is printed on A4."""
        return base64.b64decode(
            self.devtools("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)["data"]
        )

    def said(self) -> list[str]:
        """Return what the console printed since the page was opened: errors, warnings, refusals of its policy."""
        return [f"{entry['level']}: {entry['message']}" for entry in self._log("browser")]

    def fetched(self) -> list[str]:
        """Return the addresses that were requested since the page was opened."""
        events = (json.loads(entry["message"])["message"] for entry in self._log("performance"))
        return [event["params"]["request"]["url"] for event in events if event["method"] == _FETCHED]

    def close(self) -> None:
        self._ask("DELETE", self._session)

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._ask("POST", f"{self._session}/se/log", {"type": kind})
        return entries

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - JSON
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        assert not (isinstance(answer, dict) and answer.get("error")), answer
        return answer


@contextmanager
def browser(scratch: Path) -> Iterator[Browser]:
    """Start a browser whose files lie in ``scratch``; ends it and all its processes."""
    chromium, driver = programs()
    scratch.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [driver, "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "HOME": str(scratch), "LANGUAGE": "en", "TZ": "UTC"},
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        port = next((int(found[1]) for line in process.stdout if (found := _STARTED.search(line))), None)
        assert port is not None, f"{driver} did not start"
        page = Browser(port, chromium, scratch / "profile")
        try:
            yield page
        finally:
            page.close()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate()
