"""A real browser, driven through a pipe by the DevTools protocol: no driver, no port, no download.

Chromium reads commands from descriptor 3 and answers on descriptor 4, each a JSON text that ends in
a zero byte (`--remote-debugging-pipe`).
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
BECOME = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Puts the pipes where Chromium expects them, then becomes it."""

PATIENCE = 60.0
"""Seconds until a command has failed; a busy machine needs some."""


def find_chromium() -> str | None:
    """The program, where one is installed."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are clear of the numbers that Chromium wants."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


class Chromium:
    """One browser without a window; its pages are `Page`."""

    def __init__(self, program: str, profile: Path) -> None:
        hears, self._says = _pipe()
        self._hears, says = _pipe()
        words = [sys.executable, "-S", "-c", BECOME, str(hears), str(says), program]
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        flags += ["--no-first-run", "--disable-extensions", "--disable-dev-shm-usage"]
        flags += ["--disable-background-networking", "--disable-component-update"]
        flags += ["--hide-scrollbars", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            [*words, *flags],
            pass_fds=(hears, says),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(hears)
        os.close(says)
        self._numbers = itertools.count(1)
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser and wait for its end."""
        try:
            self.send("Browser.close")
        except (OSError, RuntimeError):
            self._process.kill()  # it is gone already, or does not answer
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._says)
        os.close(self._hears)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """A command and its answer; what happens meanwhile is kept in `events`."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._says, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.read(end - time.monotonic())
            if answer is None:
                raise RuntimeError(f"{method} had no answer within {PATIENCE:.0f} s")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def read(self, seconds: float) -> dict[str, Any] | None:
        """The next message, kept if it is an event; None when there was none in time."""
        while b"\0" not in self._rest:
            if not select.select([self._hears], [], [], max(0.0, seconds))[0]:
                return None
            piece = os.read(self._hears, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has ended")
            self._rest += piece
        text, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def wait_for(self, event: str, session: str) -> dict[str, Any]:
        """The first such event of a page, also one that has already come."""
        end = time.monotonic() + PATIENCE
        while True:
            for message in self.events:
                if message["method"] == event and message.get("sessionId") == session:
                    return message
            if self.read(end - time.monotonic()) is None:
                raise RuntimeError(f"{event} did not happen within {PATIENCE:.0f} s")


class Page:
    """One tab: opens files, acts like a reader, and remembers what went wrong."""

    def __init__(self, browser: Chromium) -> None:
        self.browser = browser
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        answer = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = str(answer["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")

    def close(self) -> None:
        """Close the tab."""
        self.browser.send("Target.closeTarget", targetId=self._target)

    def open(self, place: Path | str, *, width: int = 1280, scheme: str = "light") -> None:
        """Load a file or an address in a window of that width and scheme, and wait for it."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", features=media)
        self.browser.events.clear()
        url = place if isinstance(place, str) else place.resolve().as_uri()
        self._send("Page.navigate", url=url)
        self.browser.wait_for("Page.loadEventFired", self._session)

    def without_script(self) -> None:
        """From the next page on, run no script of its own."""
        self._send("Emulation.setScriptExecutionDisabled", value=True)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self._send(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            userGesture=True,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise AssertionError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Press the mouse on the middle of an element."""
        self.mouse(selector)
        x, y = self._at
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def mouse(self, selector: str) -> None:
        """Move the mouse to the middle of an element, which is scrolled into sight."""
        x, y = self.run(
            "(() => { const own = document.querySelector(" + json.dumps(selector) + ");"
            "own.scrollIntoView({block: 'center'}); const box = own.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self._at = (x, y)
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab or ArrowRight."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39}
        code = codes.get(key, 40)
        text = {"text": "\r"} if key == "Enter" else {}
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self._send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **more,
            )

    def troubles(self) -> list[str]:
        """Errors and warnings of the console since the page was opened."""
        self.run("0")  # whatever was on its way has arrived now
        found = []
        for message in self._own_events():
            params = message["params"]
            if message["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(str(details.get("exception", {}).get("description", details["text"])))
            elif message["method"] == "Runtime.consoleAPICalled":
                found.append(str(params["args"]))
            elif message["method"] == "Log.entryAdded":
                found.append(str(params["entry"]["text"]))
        return found

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        self.run("0")
        sent = [m for m in self._own_events() if m["method"] == "Network.requestWillBeSent"]
        return [str(message["params"]["request"]["url"]) for message in sent]

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        size = self._send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self._send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self._send("Page.printToPDF", printBackground=True)["data"])

    def _own_events(self) -> list[dict[str, Any]]:
        return [own for own in self.browser.events if own.get("sessionId") == self._session]

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.send(method, self._session, **params)
