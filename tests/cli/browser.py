"""Headless Chromium, driven over a pipe by its DevTools protocol: for tests of pages."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from harness import Skip

PATIENCE = 30  # seconds for one answer

# The protocol's pipe has descriptors 3 and 4; what stands there now may be in use.
LAUNCH = """import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def chromium():
    """Its path, or a skip."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise Skip("no Chromium here (.ci/setup test installs it on Debian)")


class Browser:
    """`with Browser() as browser`: one page, what it asks of the network and what it complains of."""

    def __enter__(self):
        path = chromium()
        self.home = tempfile.mkdtemp(prefix="kpack-browser-")
        words = [path, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self.home}/profile"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        to_browser, self.send_end = os.pipe()
        self.receive_end, from_browser = os.pipe()
        with open(f"{self.home}/log", "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), *words],
                pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "HOME": self.home})
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self.receive_end, False)
        self.received, self.last, self.session = b"", 0, None
        self.requests, self.complaints, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_):
        os.close(self.send_end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.receive_end)
        shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def message(self):
        """The next message; an event is kept as well."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.received:
            try:
                more = os.read(self.receive_end, 1 << 20)
            except BlockingIOError:
                more = None
                time.sleep(0.002)
            if more == b"" or time.monotonic() > deadline:
                with open(f"{self.home}/log", encoding="utf-8", errors="replace") as log:
                    raise AssertionError("Chromium does not answer:\n" + log.read()[-2000:])
            self.received += more or b""
        text, _, self.received = self.received.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.note(message["method"], message["params"])
        return message

    def note(self, method, params):
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])

    def open(self, path, width=1280, height=900, dark=False, script=True, mobile=False):
        self.requests, self.complaints, self.events = [], [], []
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=mobile,
                  deviceScaleFactor=1)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.load("about:blank")
        self.load("file://" + os.path.abspath(path))
        self.requests = [r for r in self.requests if r != "about:blank"]

    def load(self, url):
        self.events = []
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.message()

    def value(self, expression):
        """What an expression gives in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression):
        """Waits for what the page does in its own time, such as after a change of the fragment."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not come to pass: {expression}")
            time.sleep(0.01)

    def click(self, selector):
        """A click where the element shows, after it was scrolled into view."""
        x, y = self.value(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center", inline: "center"}});
            const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=None):
        code = {"Tab": 9, "Enter": 13, "Backspace": 8}.get(key, 0)
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text):
        for letter in text:
            self.call("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=letter)

    def screenshot(self, path, whole=False):
        more = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **more)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=False, landscape=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
