"""Headless Chromium, driven over a pipe by the DevTools protocol: a page is opened, read, typed into and clicked.

Everything a page asks for is kept in `requests`. Only loopback is ever reached: other names are resolved to nothing.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import services

OPTIONS = [
    "--no-sandbox",  # CI is root; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]


def binary():
    for name in ("chromium-headless-shell", "chromium"):
        path = shutil.which(name)
        if path:
            return [path] if name.endswith("shell") else [path, "--headless=new"]
    raise FileNotFoundError("no chromium-headless-shell: run make deps")


class Failed(Exception):
    """What the page or the browser says against a command."""


class Browser:
    """One browser with one page."""

    def __init__(self, width=1280, height=1000, dark=False, insecure=False):
        self.folder = tempfile.mkdtemp(prefix="openduck-browser-")
        self.requests, self.errors = [], []
        self._number, self._answers, self._events = 0, {}, threading.Condition()
        self._size, self._dark, self._insecure = (width, height), dark, insecure
        self._session = None

    def __enter__(self):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        options = [*OPTIONS, "--user-data-dir=" + self.folder, *(["--ignore-certificate-errors"] * self._insecure)]
        # It reads commands from descriptor 3 and writes to 4.
        script = 'exec "$@" 3<&%d 4>&%d' % (to_read, to_write)
        self._process = subprocess.Popen(
            ["bash", "-c", script, "browser", *binary(), *options, "about:blank"],
            pass_fds=(to_read, to_write),
            env=services.server_env(),  # without what an instrumented interpreter is given
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read), os.close(to_write)
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self._attach()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self._to)  # it ends at the end of its commands
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _attach(self):
        pages = [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self._session = self.send("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(domain + ".enable")
        self.resize(*self._size)
        if self._dark:
            self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    # ---- the protocol ----

    def _read(self):
        with os.fdopen(self._from, "rb") as pipe:
            rest = b""
            while data := pipe.read1(1 << 16):
                *whole, rest = (rest + data).split(b"\0")
                for message in whole:
                    self._take(json.loads(message))

    def _take(self, message):
        with self._events:
            if "id" in message:
                self._answers[message["id"]] = message
            elif message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"])
            elif message["method"] == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["source"] == "security":
                self.errors.append(message["params"]["entry"])
            self._events.notify_all()

    def send(self, method, **params):
        with self._events:
            self._number += 1
            number = self._number
            message = {"id": number, "method": method, "params": params}
            if self._session:
                message["sessionId"] = self._session
            os.write(self._to, json.dumps(message).encode() + b"\0")
            if not self._events.wait_for(lambda: number in self._answers, 30 * services.SLOW):
                raise TimeoutError("the browser does not answer %s" % method)
            answer = self._answers.pop(number)
        if "error" in answer:
            raise Failed("%s: %s" % (method, answer["error"]["message"]))
        return answer["result"]

    # ---- the page ----

    def open(self, url):
        if text := self.send("Page.navigate", url=url).get("errorText"):
            raise Failed("%s: %s" % (url, text))

    def eval(self, script):
        """The value of an expression; of a promise, what it gives."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failed(answer["exceptionDetails"].get("exception", {}).get("description", "the script failed"))
        return answer["result"].get("value")

    def wait(self, script, seconds=15, what=None):
        """Waits until the expression is true, also while the page is being loaded."""

        def holds():
            try:
                return self.eval(script)
            except Failed:
                return False

        return services.wait_until(holds, seconds, what or script)

    def text(self, selector):
        return self.eval("document.querySelector(%s)?.innerText ?? null" % json.dumps(selector))

    def visible(self, selector):
        return self.eval(
            "(n => !!n && n.checkVisibility() && n.getClientRects().length > 0)(document.querySelector(%s))"
            % json.dumps(selector)
        )

    def click(self, selector):
        """With the mouse, where the element is."""
        at = self.eval(
            "(n => { n.scrollIntoView({block: 'center'}); const r = n.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })(document.querySelector(%s))" % json.dumps(selector)
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def type(self, text):
        """Into what has the focus."""
        self.send("Input.insertText", text=text)

    def press(self, key, code=None):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        about = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes[key]}
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def resize(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path, whole=False):
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))

    def settle(self, seconds):
        """Lets the page go on for a while; for pictures, not for tests."""
        time.sleep(seconds)
