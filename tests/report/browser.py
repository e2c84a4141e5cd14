"""A real browser without a screen, spoken to by the protocol that all browsers know (W3C WebDriver)."""

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "needs chromium and chromedriver (Debian's packages chromium and chromium-driver)"
KEYS = {"right": "\ue014", "left": "\ue012", "home": "\ue011", "end": "\ue010", "space": " "}


class Page:
    """A page that is open in a browser."""

    def __init__(self, address):
        self._address = address

    def call(self, method, path, **body):
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self._address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", script=script, args=list(arguments))

    def press(self, key):
        keys = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", actions=[{"type": "key", "id": "keys", "actions": keys}])

    def tap(self, selector):
        """Click in the middle of an element, as a finger or a mouse does."""
        element = self.call("POST", "/element", using="css selector", value=selector)
        self.call("POST", f"/element/{next(iter(element.values()))}/click")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, script, seconds=120.0):
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never came true: {script}"
            time.sleep(0.05)

    def log(self):
        """Everything that the browser complained about."""
        return [entry for entry in self.call("POST", "/se/log", type="browser") if entry["level"] != "INFO"]

    def requests(self):
        """Every address that the page asked for."""
        return self.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))


@contextmanager
def opened(path, folder, *, width=1200, height=900, mobile=False):
    """Open a file in a browser of its own, as wide as a desktop or as a phone."""
    driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = next(line.rstrip(".\n").rsplit(" ", 1)[1] for line in driver.stdout if "started successfully on port" in line)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}"]
        options = {"binary": CHROMIUM, "args": [*arguments, f"--window-size={width},{height}"]}
        if mobile:
            options["mobileEmulation"] = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2, "touch": True}}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        root = f"http://127.0.0.1:{port}"
        session = Page(root).call("POST", "/session", capabilities={"alwaysMatch": wanted})["sessionId"]
        page = Page(f"{root}/session/{session}")
        try:
            page.call("POST", "/url", url=path.resolve().as_uri())
            yield page
        finally:
            page.call("DELETE", "")
    finally:
        driver.terminate()
        driver.wait(10)
        driver.stdout.close()
