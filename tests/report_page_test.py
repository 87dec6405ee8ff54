#!/usr/bin/env python3
"""Opens reports and the pages of `retort serve` in headless Chromium, and checks them for problems.

    report_page_test.py RETORT [END_TO_END_TESTS]

Makes runs and a sweep of the quick start, writes their reports, and opens these and the served pages at three widths, in
light and dark mode: there must be no console messages, no external requests, nothing wider than the page, no missing charts,
no text in a chart that is cut or overlaps another, and no findings of axe-core. On paper, folded blocks must be open, and all
text must have one size. With END_TO_END_TESTS, also opens the report of each shipped recipe.
Skipped (77) without Chromium, or if this Python lacks playwright and axe-playwright-python.
"""

import contextlib
import os
import pathlib
import re
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

WIDTHS, SCHEMES = (400, 800, 1600), ("light", "dark")
failures = []

# Returns the chart labels that are cut off at an edge or overlap another label. The bounding boxes of slanted labels are
# meaningless.
MISPLACED_TEXTS = """() => {
  const found = [];
  for (const chart of document.querySelectorAll('figure svg')) {
    const title = chart.querySelector('title').textContent, edge = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].filter(one => one.textContent.trim());
    const boxes = texts.map(one => one.getBoundingClientRect());
    const isSlanted = texts.map(one => /rotate\\(-(45|35)/.test(one.getAttribute('transform') || ''));
    texts.forEach((text, i) => {
      const box = boxes[i];
      if (box.left < edge.left - 0.5 || box.right > edge.right + 0.5 || box.top < edge.top - 0.5 || box.bottom > edge.bottom + 0.5)
        found.push(`${title}: '${text.textContent}' is cut`);
      for (let j = i + 1; j < texts.length && !isSlanted[i]; ++j) {
        const other = boxes[j];
        const width = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        const height = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
        if (width > 1 && height > 2 && !isSlanted[j])
          found.push(`${title}: '${text.textContent}' is on '${texts[j].textContent}'`);
      }
    });
  }
  return found;
}"""


def opened(browser, address, width=1600, scheme="light"):
    """Returns a page that records its messages and requests; images of a report must be embedded."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.place = f"{re.sub('token=.*', 'token', address)}, {width} px, {scheme}"
    own = "file:" if address.startswith("file:") else "/".join(address.split("/")[:3])
    page.on("console", lambda message: failures.append(f"{page.place}: console: {message.text}"))
    page.on("pageerror", lambda error: failures.append(f"{page.place}: error: {error}"))
    page.on("request", lambda request: request.url.startswith((own, "data:")) or failures.append(f"{page.place}: request: {request.url}"))
    page.goto(address)
    return page


def look_at(browser, address, width, scheme, charts):
    page = opened(browser, address, width, scheme)
    scrolled = page.evaluate("document.documentElement.scrollWidth")
    if scrolled > width:
        failures.append(f"{page.place}: the page is {scrolled} px wide")
    drawn = page.evaluate("[...document.querySelectorAll('svg')].filter(one => one.getBoundingClientRect().width > 100).length")
    if drawn < charts:
        failures.append(f"{page.place}: {drawn} charts, not {charts}")
    empty = page.evaluate("[...document.images].filter(one => one.naturalWidth == 0).length")
    if empty:
        failures.append(f"{page.place}: {empty} images do not load")
    for found in page.evaluate(MISPLACED_TEXTS):
        failures.append(f"{page.place}: {found}")
    for found in Axe().run(page).response["violations"]:
        failures.append(f"{page.place}: axe: {found['id']}: {found['nodes'][0]['html'][:100]}")
    page.close()


def look_everywhere(browser, address, charts):
    for width in WIDTHS:
        for scheme in SCHEMES:
            look_at(browser, address, width, scheme, charts)


def look_at_paper(browser, address):
    """Blocks that are folded on the screen must be open on paper, with and without the script, and folded again afterward."""
    page = opened(browser, address, 800, "dark")
    closed = "document.querySelectorAll('details:not([open])').length"
    folded = page.evaluate(closed)
    page.evaluate(f"addEventListener('beforeprint', () => window.closedOnPaper = {closed})")
    page.pdf(format="A4")
    if folded == 0 or page.evaluate("window.closedOnPaper") != 0 or page.evaluate(closed) != folded:
        failures.append(f"{page.place}: of {folded} folded blocks, {page.evaluate('window.closedOnPaper')} are closed on paper, {page.evaluate(closed)} afterward")
    page.emulate_media(media="print")
    sizes = page.evaluate("[...new Set([...document.querySelectorAll('p, td, th, caption, summary, pre, figcaption')].map(one => getComputedStyle(one).fontSize))]")
    if sizes != ["11px"]:
        failures.append(f"{page.place}: the sizes of text on paper are {sizes}")
    if page.evaluate("CSS.supports('selector(::details-content)')"):
        hidden = page.evaluate("[...document.querySelectorAll('details')].filter(one => !one.lastElementChild.checkVisibility()).length")
        if hidden:
            failures.append(f"{page.place}: {hidden} folded blocks are not shown on paper without a script")
    if page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)":
        failures.append(f"{page.place}: the paper is not white")
    page.close()


def touch_curve(browser, address):
    """The script must show the values of a curve under the pointer."""
    page = opened(browser, address)
    chart = page.locator("svg[data-scale]").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    text = page.locator(".tip").text_content()
    if not re.search(r"^training.*: [-0-9.e]+ at step \d+$", text, re.M):
        failures.append(f"{page.place}: the curve shows {text!r}")
    page.close()


@contextlib.contextmanager
def started(*command, **options):
    """Starts a program, and always stops it."""
    program = subprocess.Popen(command, **options)
    try:
        yield program
    finally:
        program.terminate()
        program.wait()


@contextlib.contextmanager
def served(retort, folder):
    """Serves a folder, and yields the address to open first."""
    with started(retort, "serve", ".", "--port", "0", cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()


def look_at_served(browser, address):
    origin, token = address.split("/?")
    page = opened(browser, address)
    if "token" in page.url:
        failures.append("the token stays in the address")
    addresses = page.evaluate("[...document.querySelectorAll('td a')].map(one => one.href)")
    runs = [one for one in addresses if "/run/" in one]
    sweeps = [one for one in addresses if "/sweep/" in one]
    page.close()
    ids = [one.rsplit("/", 1)[1] for one in runs]
    compare = f"{origin}/compare?a={ids[0]}&b={ids[1]}"
    for one, charts in ((origin + "/", 0), (runs[0], 5), (sweeps[0], 1), (compare, 3), (origin + "/?text=a%3E", 0)):
        look_everywhere(browser, one + ("&" if "?" in one else "?") + token, charts)


def follow_run(browser, address, run):
    """An open list must show that a run starts and ends, and keep what was typed; the run's page must show its progress."""
    origin, token = address.split("/?")
    listed = opened(browser, address)
    typed = listed.locator("input[name=text]")
    typed.fill("half a na")
    link = listed.locator("tr:has-text('running') td a")
    link.first.wait_for(timeout=120_000)
    page = opened(browser, f"{origin}{link.first.get_attribute('href')}?{token}")
    page.locator("#progress", has_text="train").wait_for()
    page.locator("svg[data-scale]").first.wait_for(timeout=120_000)
    run.terminate()
    page.locator("#progress", has_text="interrupted").wait_for()
    page.close()
    listed.locator("tr:has-text('interrupted')").first.wait_for()
    if typed.input_value() != "half a na":
        failures.append(f"{listed.place}: an update replaces the filter by {typed.input_value()!r}")
    listed.close()


def main(retort, tests=None):
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        def does(*words):
            subprocess.run([retort, *words], cwd=folder, check=True, capture_output=True)

        does("run", "quickstart", "--smoke", "run.dir=run")
        does("run", "quickstart", "--smoke", "seed=9", "run.dir=other")
        does("sweep", "quickstart", "train.epochs=2", "seed=1,2", "sweep.dir=sweep")
        does("report", "run")
        does("report", "sweep")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, charts in (("run", 5), ("sweep", 1)):
            look_everywhere(browser, pathlib.Path(folder, name, "report.html").as_uri(), charts)
        touch_curve(browser, pathlib.Path(folder, "run", "report.html").as_uri())
        look_at_paper(browser, pathlib.Path(folder, "run", "report.html").as_uri())
        with served(retort, folder) as address:
            look_at_served(browser, address)
            with started(retort, "run", "quickstart", "train.epochs=100000", "run.dir=live", cwd=folder, stderr=subprocess.DEVNULL) as run:
                follow_run(browser, address, run)
        if tests:
            reports = pathlib.Path(folder, "reports")
            reports.mkdir()
            subprocess.run([tests, "--gtest_filter=*/ShippedRun.*", "--gtest_brief=1"], env={**os.environ, "RETORT_REPORTS": reports}, check=True, capture_output=True)
            for report in sorted(reports.iterdir()):
                look_everywhere(browser, report.as_uri(), 1)
        browser.close()
    print("\n".join(failures) or "reports are in order")
    return 1 if failures else 0


sys.exit(main(*map(os.path.abspath, sys.argv[1:])))
