#!/usr/bin/env python3
"""Opens reports in headless Chromium, and looks for what a reader would stumble over.

    report_page_test.py RETORT

Makes a run and a sweep of the quick start, writes their reports, and opens them at three widths, in light and dark:
no message on the console, no request, nothing wider than the page, every chart there, and no finding of axe-core.
Skipped (77) without Chromium, or without playwright and axe-playwright-python in this Python.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: this Python has no playwright and axe-playwright-python")
    sys.exit(77)
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
if not CHROMIUM:
    print("skipped: there is no Chromium")
    sys.exit(77)

failures = []


def look_at(browser, path, width, scheme, charts):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    place = f"{path.parent.name}, {width} px, {scheme}"
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    failures.extend(f"{place}: console: {text}" for text in messages)
    failures.extend(f"{place}: request: {url}" for url in requests if not url.startswith(("file:", "data:")))
    scrolled = page.evaluate("document.documentElement.scrollWidth")
    if scrolled > width:
        failures.append(f"{place}: the page is {scrolled} px wide")
    drawn = page.evaluate("[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().width > 100).length")
    if drawn < charts:
        failures.append(f"{place}: {drawn} charts, not {charts}")
    empty = page.evaluate("[...document.images].filter(one => one.naturalWidth == 0).length")
    if empty:
        failures.append(f"{place}: {empty} images do not load")
    for found in Axe().run(page).response["violations"]:
        failures.append(f"{place}: axe: {found['id']}: {found['nodes'][0]['html'][:100]}")
    page.close()


def main(retort):
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        def run(*words):
            subprocess.run([retort, *words], cwd=folder, check=True, capture_output=True)

        run("run", "quickstart", "--smoke", "run.dir=run")
        run("sweep", "quickstart", "--smoke", "seed=1,2", "sweep.dir=sweep")
        run("report", "run")
        run("report", "sweep")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, charts in (("run", 5), ("sweep", 1)):
            for width in (400, 800, 1600):
                for scheme in ("light", "dark"):
                    look_at(browser, pathlib.Path(folder, name, "report.html"), width, scheme, charts)
        browser.close()
    print("\n".join(failures) or "reports are in order")
    return 1 if failures else 0


sys.exit(main(sys.argv[1]))
