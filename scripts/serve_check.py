#!/usr/bin/env python3
"""Opens the page of `pktgen serve` in a headless browser and looks at it: browser-check calls it.

usage: serve_check.py PKTGEN FOLDER [PICTURES]   FOLDER: empty, for runs; PICTURES: a folder for screenshots

At 1400 and 390 pixels, light and dark: by keyboard only from the list to a run in progress, whose charts get points; contrasts, sizes, widths;
no error in the console, no request to elsewhere. Then a run of an hour: the memory of the page, and of the server, stays flat.
"""

import base64
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

EXPERIMENT = """name = "watched"
[workload]
clusters = 3
workers_per_cluster = 6
updates = 300000
bytes = "256B"
[schedule]
kind = "poisson"
offered = "9.2Mbps"
[topology]
rate = "5Mbps"
[target]
program = "olaf"
queue = "olaf"
[transport]
kind = "ring"
wait = "block"
"""
# Names that must stay text.
TRAP = "<img src=x onerror=alert(1)>"
HANG = 300
HOUR = 36_000


def fail(text):
    sys.exit(f"browser-check: serve: {text}")


class Browser:
    """Chromium, spoken to over a pair of pipes."""

    def __init__(self, profile):
        to_browser, from_browser = os.pipe(), os.pipe()
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip

        def pipes():
            # The browser reads 3 and writes 4; both ends are moved out of the way first.
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser[0], from_browser[1])]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(command, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(to_browser[0])
        os.close(from_browser[1])
        self.out, self.input = to_browser[1], from_browser[0]
        self.buffer, self.count, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Performance"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            got = os.read(self.input, 1 << 20)
            if not got:
                fail("the browser ended")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            answer = self.read()
            if answer.get("id") == self.count:
                if "error" in answer:
                    fail(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            fail(f"{script[:80]}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, what, script):
        end = time.monotonic() + HANG
        while time.monotonic() < end:
            value = self.value(script)
            if value:
                return value
            time.sleep(0.1)
        fail(f"{what} never came; the page says: {' '.join(self.value('document.body.innerText')[:2000].split())}")

    def key(self, key):
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "Home": 36, "End": 35, "Escape": 27, "ArrowDown": 40, "Space": 32}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=codes[key], **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes[key])

    def screen(self, width, height, scheme):
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def heap(self):
        self.call("HeapProfiler.collectGarbage")
        metrics = {metric["name"]: metric["value"] for metric in self.call("Performance.getMetrics")["metrics"]}
        return metrics["JSHeapUsedSize"], metrics["Nodes"]

    def wrong(self, origin):
        """Errors that were said, and requests that left."""
        said = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(f"exception: {params['exceptionDetails'].get('exception', {}).get('description')}")
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                said.append(f"console: {params['args']}")
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                said.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith((origin, "data:", "about:")):
                said.append(f"fetched: {params['request']['url']}")
        self.events = []
        return said


# Widths, contrasts and sizes of what is shown; the last value is what is wrong.
LOOK = r"""(() => {
  const wrong = [], all = (what, where = document) => [...where.querySelectorAll(what)];
  const luminance = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => { const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y); return (light + 0.05) / (dark + 0.05); };
  const ground = element => { for (let e = element; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\)$|transparent/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  const seen = element => element.getClientRects().length > 0 && element.textContent.trim();
  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} pixels wide on ${innerWidth}`);
  for (const element of all('p, a, h1, h2, li, th, td, summary, label, button, .badge, figcaption, strong, pre').filter(seen))
    if (contrast(getComputedStyle(element).color, ground(element)) < 4.5) wrong.push(`"${element.textContent.slice(0, 40)}" has a contrast below 4.5`);
  for (const text of all('.plot text')) if (contrast(getComputedStyle(text).fill, ground(text.closest('figure'))) < 4.5) { wrong.push('ticks have a contrast below 4.5'); break; }
  for (const line of all('path.line')) if (contrast(getComputedStyle(line).stroke, ground(line.closest('figure'))) < 3) wrong.push(`a line has a contrast below 3: ${line.getAttribute('class')}`);
  for (const element of all('input, select, button, summary, .name, .home, .tools a')) if (element.getClientRects().length > 0 && element.getBoundingClientRect().height < 43.5) wrong.push(`"${element.textContent.slice(0, 40)}" is too low for a finger`);
  for (const plot of all('.plot svg')) {
    const box = plot.getBoundingClientRect(), texts = all('text', plot).map(text => [text.textContent, text.getBoundingClientRect()]);
    for (const [text, b] of texts) if (b.left < box.left - 1 || b.right > box.right + 1) wrong.push(`"${text}" leaves its chart`);
    for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
      const [a, b] = [texts[i][1], texts[j][1]];
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.4 * a.height) wrong.push(`"${texts[i][0]}" and "${texts[j][0]}" overlap`);
    }
  }
  for (const plot of all('.plot')) if (!plot.getAttribute('aria-label') || !plot.getAttribute('aria-valuetext')) wrong.push('a chart without words');
  const ids = all('img'); if (ids.length > 0) wrong.push('a name became markup');
  return wrong;
})()"""
FOCUS = "document.activeElement === document.body ? '' : `${document.activeElement.tagName} ${document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim().slice(0, 60)}`"


def make_runs(pktgen, folder):
    """A valid run, an invalid one with a hostile name, and one in progress."""
    (folder / "x.toml").write_text(EXPERIMENT)
    runs = folder / "runs"
    runs.mkdir()
    short = ["--set", "workload.updates=300", "--stats", "100ms", "--stats-to", "run", "-q"]
    for out in ("first", "second"):
        subprocess.run([pktgen, "replay", folder / "x.toml", "--out", runs / out, *short], check=True, stdout=subprocess.DEVNULL)
    bad = runs / f"bad {TRAP.replace('/', '')}"
    bad.mkdir()
    manifest = json.loads((runs / "first/manifest.json").read_text())
    manifest["validity"] = {"valid": False, "notes": [], "faults": [{"code": "told", "said": f"3 packets carried a wrong sum {TRAP}"}]}
    manifest["experiment"] = TRAP
    (bad / "manifest.json").write_text(json.dumps(manifest))
    live = [pktgen, "replay", folder / "x.toml", "--out", runs / "live", "--no-report", "-q", "--stats", "200ms", "--stats-to", "run"]
    with open(folder / "live.err", "w") as said:
        return runs, subprocess.Popen(live, stdout=subprocess.DEVNULL, stderr=said)


def tab_to(browser, wanted):
    """Presses Tab until the focus is there."""
    for _ in range(80):
        if re.search(wanted, browser.value(FOCUS)):
            return
        browser.key("Tab")
    fail(f"Tab never reaches {wanted}; it is at {browser.value(FOCUS)}")


def visit(browser, url, size, scheme, pictures):
    """By keyboard from the list to the run in progress and back."""
    (width, height), name = size, f"{size[0]}-{scheme}"
    wrong = []

    def look(part):
        wrong.extend(f"{part}: {text}" for text in browser.value(LOOK))
        if pictures:
            browser.picture(f"{pictures}/serve-{part}-{name}.png")

    browser.screen(width, height, scheme)
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=url)
    browser.until("the list", "document.querySelectorAll('.runs > li').length >= 4")
    first = browser.value("document.querySelector('.verdict').innerText")
    if not first.startswith("INVALID: 1 of 4"):
        fail(f"the list does not begin with what is invalid: {first}")
    if browser.value("document.querySelector('.runs .badge').textContent") != "INVALID":
        fail("the first run is not the invalid one")
    dark = browser.value("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    if dark != (scheme == "dark"):
        wrong.append(f"the background is that of another scheme than {scheme}")
    look("list")
    tab_to(browser, "^A All runs")
    tab_to(browser, "^INPUT")
    tab_to(browser, "^A live")
    browser.key("Enter")
    browser.until("points", "document.querySelector('h1').textContent === 'live' && document.querySelector('[data-chart=Rates] path.line')?.getAttribute('d').split('L').length > 4")
    if not browser.value(FOCUS).startswith("H1 live"):
        wrong.append(f"after a link the focus is at {browser.value(FOCUS)}")
    if "IN PROGRESS" not in browser.value("document.querySelector('.verdict').textContent"):
        wrong.append("a run in progress is not called so")
    charts = browser.until("charts", "document.querySelectorAll('figure').length >= 5 && [...document.querySelectorAll('figure')].map(figure => figure.dataset.chart).join()")
    tab_to(browser, "^DIV Rates: moment")
    words = "document.querySelector('[data-chart=Rates] .plot').getAttribute('aria-valuetext')"
    browser.key("Home")
    begin = browser.value(words)
    browser.key("End")
    browser.key("ArrowLeft")
    moved = browser.value(words)
    browser.key("Escape")
    latest = browser.value(words)
    if begin == moved or not begin.startswith("0.00 s to") or not latest.startswith("Latest, ") or " sent " not in f" {moved}":
        wrong.append(f"keys do not move through a chart: {begin} | {moved} | {latest}")
    tab_to(browser, "^SUMMARY Values")
    browser.key("Enter")
    browser.until("a table", "document.querySelectorAll('[data-chart=Rates] tbody tr').length > 3")
    look("live")
    browser.call("Page.navigate", url=f"{url}#run=first")
    browser.until("a finished run", "document.querySelector('h1').textContent === 'first' && document.querySelector('.verdict')?.textContent.startsWith('VALID') && document.querySelectorAll('table').length >= 2")
    look("finished")
    browser.call("Page.navigate", url=f"{url}#run={json.dumps(TRAP.replace('/', ''))[1:-1]}")
    browser.until("what is not there", "document.querySelector('main').textContent.includes('There is no such run')")
    wrong.extend(browser.wrong(url))
    if wrong:
        fail(f"at {width} pixels, {scheme}: " + " | ".join(dict.fromkeys(wrong)))
    print(f"browser-check: serve at {width} pixels, {scheme}: FINE: {charts}")


def gaps(browser, url, runs):
    """A device's counter that is missing for a time, and another that comes later, leave all points in their chart."""
    shutil.copytree(runs / "first", runs / "device")
    path = runs / "device/stats.jsonl"
    row = json.loads(path.read_text().splitlines()[-1])
    counted = [{"a": 10 * i, "b": 20 * i, "c": 30 * i} for i in range(12)]
    for i in (0, 1, 2, 6):
        del counted[i]["c"]
    for i in (6, 7):
        del counted[i]["b"]
    counted[9] = None
    rows = [{**row, "begin_s": i, "end_s": i + 1, "last": i == 11, "device": own, "device_s": own and i + 1} for i, own in enumerate(counted)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # The list of runs is of some moments ago, and a page asks for it once.
    browser.until("the copied run", "fetch('/api/runs').then(answer => answer.json()).then(all => all.runs.some(run => run.path === 'device'))")
    browser.call("Page.navigate", url="about:blank")
    browser.call("Page.navigate", url=f"{url}#run=device")
    lines = "[...document.querySelectorAll('[data-chart=\"Device counters\"] path.line')].map(line => line.getAttribute('d').replace(/[^ML]/g, '')).join()"
    browser.until("three counters", f"document.querySelectorAll('[data-chart=Rates] path.line').length > 0 && {lines}.split(',').length === 3")
    found = browser.value(lines)
    # A rate needs two readings in a row, and a line begins anew after a gap.
    if found != "MLLLLLLLM,MLLLLM,MLMM":
        fail(f"points of counters that were missing for a time: {found}")


def hours(browser, server, url, live):
    """Rows of an hour, ten a second, come in pieces; as of a run in progress, since this process holds the file."""
    rows = [json.loads(line) for line in (live / "stats.jsonl").read_text().splitlines()]
    row, dt = rows[-1], 0.1
    resident = lambda: int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{server.pid}/status").read_text())[1])  # noqa: E731
    browser.screen(1400, 1000, "light")
    sizes = []
    with open(live / "stats.jsonl", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        browser.call("Page.navigate", url="about:blank")
        browser.call("Page.navigate", url=f"{url}#run=live")
        done, begin = 0, row["end_s"]
        for goal in (HOUR // 6, HOUR // 2, HOUR):
            for i in range(done, goal):
                # Of four rows one is not known; the mean of the others is 333 packets per second.
                row.update(begin_s=begin + i * dt, end_s=begin + (i + 1) * dt, last=False, received=(100, None, 0, 0)[i % 4])
                # One packet of ten updates, then a thousand of one.
                packets, updates = ((1, 10), (1000, 1000))[i % 2]
                for cluster in row["clusters"]:
                    cluster["received_total"] += packets
                    cluster["represented_total"] += updates
                file.write(json.dumps(row) + "\n")
            file.flush()
            done, end = goal, begin + goal * dt
            browser.until(f"{goal} rows", f"parseFloat(document.querySelector('.far')?.textContent) > {end - 1}")
            points = browser.value("document.querySelector('[data-chart=Rates] .plot').getAttribute('aria-valuemax')")
            heap, nodes = browser.heap()
            sizes.append((goal, int(points), heap, nodes, resident()))
            print(f"browser-check: serve: {goal} rows: {points} points, heap {heap / 1e6:.1f} MB, {nodes:.0f} nodes, server {sizes[-1][4]} KiB")
    (_, _, heap, nodes, server_kib), (_, points, last_heap, last_nodes, last_kib) = sizes[0], sizes[-1]
    if points > 600 or last_heap > 1.5 * heap + 2e6 or last_nodes > 1.5 * nodes + 500 or last_kib > server_kib + 10_000:
        fail(f"memory grows with the run: {sizes}")
    # The point before the latest is complete.
    for chart, value, why in (
        ("Aggregation", "cluster 0 1.01,", "1010 updates in 1001 packets are 1.01 per packet"),
        ("Rates", "received 333/s,", "100 packets in three known rows of 0.1 s are 333/s"),
    ):
        browser.value(f"document.querySelector('[data-chart={chart}] .plot').dispatchEvent(new KeyboardEvent('keydown', {{key: 'ArrowLeft'}}))")
        words = browser.value(f"document.querySelector('[data-chart={chart}] .plot').getAttribute('aria-valuetext')")
        if value not in words:
            fail(f"{why}, also where points are joined: {words}")
    wrong = browser.wrong(url)
    if wrong:
        fail(f"after hours: {wrong}")


def main():
    pktgen, folder = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).absolute()
    pictures = sys.argv[3] if len(sys.argv) > 3 else None
    if pictures:
        pathlib.Path(pictures).mkdir(parents=True, exist_ok=True)
    runs, run = make_runs(pktgen, folder)
    server = subprocess.Popen([pktgen, "serve", "--json", "-q", runs], stdout=subprocess.PIPE, text=True)
    browser = None
    try:
        url = json.loads(server.stdout.readline())["url"]
        browser = Browser(folder / "profile")
        for size in ((1400, 1000), (390, 844)):
            for scheme in ("light", "dark"):
                visit(browser, url, size, scheme, pictures)
        gaps(browser, url, runs)
        run.kill()
        run.wait()
        hours(browser, server, url, runs / "live")
        server.terminate()
        if server.wait(HANG) != 0:
            fail(f"the server ended with {server.returncode}")
    except SystemExit:
        rows = (runs / "live/stats.jsonl").read_text().count("\n") if (runs / "live/stats.jsonl").exists() else "no file of"
        print(f"browser-check: serve: the run: code {run.poll()}, {rows} rows; it said: {(folder / 'live.err').read_text()!r}", file=sys.stderr)
        raise
    finally:
        for process in (run, server, browser and browser.process):
            if process:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
