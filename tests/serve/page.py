"""tests/serve/page.py PROGRAM CHROMIUM FOLDER - the page of build/serve in a headless browser, by its debugging
protocol; screenshots go to FOLDER"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

import websocket
from served import Checks, Served


class Browser:
    def __init__(self, program):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
             "--remote-allow-origins=*", "--user-data-dir=" + self.folder.name, "--window-size=1100,760",
             "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        place = os.path.join(self.folder.name, "DevToolsActivePort")
        self.wait(lambda: os.path.exists(place) and open(place).read().strip())
        port = open(place).read().split()[0]
        tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        self.socket = websocket.create_connection(
            [t for t in tabs if t["type"] == "page"][0]["webSocketDebuggerUrl"], timeout=60)
        self.n = 0
        self.faults = []
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    @staticmethod
    def wait(test, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            if test():
                return
            time.sleep(0.1)
        raise AssertionError("it did not happen")

    def call(self, method, **params):
        self.n += 1
        self.socket.send(json.dumps({"id": self.n, "method": method, "params": params}))
        while True:
            said = json.loads(self.socket.recv())
            if said.get("method") == "Runtime.exceptionThrown":
                self.faults.append(said["params"]["exceptionDetails"]["text"])
            if said.get("method") == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                self.faults.append(said["params"]["entry"]["text"])
            if said.get("id") == self.n:
                return said["result"]

    def js(self, text):
        result = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        return None if "exceptionDetails" in result else result["result"].get("value")

    def until(self, text):
        self.wait(lambda: self.js(text))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            more = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **more)

    def shot(self, name):
        time.sleep(0.3)
        with open(os.path.join(sys.argv[3], name + ".png"), "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


def main():
    checks = Checks()
    with Served(sys.argv[1], "examples/models/story.gguf", "--name", "tale", "--no-template") as served:
        browser = Browser(sys.argv[2])
        js, until = browser.js, browser.until

        def load():
            browser.call("Page.navigate", url=served.url)
            until("typeof model === 'string' && model === 'tale'")
            assert js("document.activeElement.id") == "say"
            browser.shot("1-loaded")

        def send():
            browser.type("one day , Ella")
            browser.key("Enter", 13)
            until("!running && talk().turns.length === 2 && talk().turns[1].content.length > 20")
            assert "tokens/s" in js("talk().turns[1].about")
            browser.shot("2-answer")

        def stop():
            # the model is fast and its stories end: 100 long answers under way at once are slow enough to be stopped
            js("""{ const was = window.fetch; window.fetch = (url, o) => {
                if (o && o.body) o.body = JSON.stringify({ ...JSON.parse(o.body), ignore_eos: true, n: 100 });
                return was(url, o) } }""")
            browser.type("in the end")
            browser.key("Enter", 13)
            until("talk().turns.length === 4 && talk().turns[3].content.length > 0")
            assert js("!!running"), "the answer has ended before it could be stopped"
            browser.key("Escape", 27)
            until("!running")
            assert js("talk().turns[3].about") == "stopped", js("talk().turns[3].about")
            assert js("document.getElementById('stop').hidden") and not js("document.getElementById('send').hidden")

        def plain():
            js("document.getElementById('new').click()")
            browser.type("<img src=x onerror=alert(1)> `code`\n```\nint x;\n```\n")
            js("document.getElementById('form').requestSubmit()")
            until("!running && talk().turns.length === 2")
            assert js("document.querySelectorAll('#turns img').length") == 0
            assert js("document.querySelectorAll('#turns pre').length") == 1

        def reload():
            browser.call("Page.reload")
            until("typeof model === 'string' && model === 'tale'")
            assert js("talks.length") == 2 and js("talks.map(t => t.turns.length).join()") == "2,4"
            js("document.querySelectorAll('#talks button')[2].click()")
            until("talk().turns.length === 4")
            js("document.getElementById('theme').click()")
            browser.shot("3-other-theme")

        def phone():
            browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
            browser.shot("4-phone")
            assert js("document.documentElement.scrollWidth") == 390
            js("document.getElementById('menu').click()")
            assert js("getComputedStyle(document.getElementById('side')).visibility") == "visible"
            browser.shot("5-phone-menu")

        def quiet():
            assert not browser.faults, browser.faults

        for test in (load, send, stop, plain, reload, phone, quiet):
            checks.run(test.__name__, test)
        browser.process.terminate()
    checks.end()


main()
