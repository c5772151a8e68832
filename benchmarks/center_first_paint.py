"""The Decision Center's first paint in a real browser, with a thousand questions that wait.

``python -m benchmarks.center_first_paint [COUNT]`` seeds one data directory with 10 waiting runs and one with COUNT
(default 1,000), starts the real ``chaoscore serve --http`` on each, and opens the list of what waits in Chromium on
loopback, again and again, each time in a new tab without a cache, once the servers have put the seeded questions into
their folders. Prints the median of the first contentful paint of both and their ratio, and what the browser takes on
this machine for ``/health``, one line of text without style or script. The bar is 200 ms.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from benchmarks.waiting_runs import environment, seed, server_command, settled

FEW = 10
NAVIGATIONS = 11
BAR_MS = 200.0
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PAINT = """() => new Promise((done) => new PerformanceObserver((list, observer) => {
  const paint = list.getEntriesByName("first-contentful-paint")[0];
  if (!paint) return;
  observer.disconnect();
  done([paint.startTime, performance.getEntriesByType("navigation")[0].responseEnd]);
}).observe({ type: "paint", buffered: true }))"""


@contextmanager
def center(directory: Path) -> Iterator[str]:
    """A real server at rest; its one-time link."""
    process = subprocess.Popen(
        server_command(), env=environment(directory), cwd=directory, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        link = next(
            found[1] for line in process.stderr if (found := re.search(r"within 15 minutes: (\S+)", line)) is not None
        )
        threading.Thread(target=process.stderr.read, daemon=True).start()
        settled(process.pid)
        yield link
    finally:
        process.terminate()
        process.wait(60)


def signed_in(browser: Browser, link: str) -> tuple[BrowserContext, str]:
    """A browser that came in, and the address of the list."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    home = link.partition("enter?")[0]
    page.goto(link)
    page.wait_for_url(home)
    page.close()
    return context, home


def paint(context: BrowserContext, address: str) -> tuple[float, float]:
    """Milliseconds from the start of a navigation to the first contentful paint, and to the last byte of the page."""
    page = context.new_page()
    context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
    page.goto(address)
    first, received = page.evaluate(PAINT)
    page.close()
    return float(first), float(received)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    found = subprocess.run(["bash", "scripts/browser"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(found.stderr.strip())
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        directories = {FEW: Path(name) / "few", count: Path(name) / "many"}
        for number, directory in directories.items():
            directory.mkdir()
            seeding = threading.Thread(target=lambda n=number, d=directory: asyncio.run(seed(d, n)))
            seeding.start()
            seeding.join()
        browser = playwright.chromium.launch(executable_path=found.stdout.strip(), args=FLAGS)
        times: dict[int, list[tuple[float, float]]] = {FEW: [], count: []}
        bare: list[float] = []
        with center(directories[FEW]) as few, center(directories[count]) as many:
            opened = {FEW: signed_in(browser, few), count: signed_in(browser, many)}
            for number in opened:
                paint(*opened[number])  # what a first start of the browser's parts costs is not the page's
            for _ in range(NAVIGATIONS):
                for number in opened:
                    times[number].append(paint(*opened[number]))
                context, home = opened[count]
                bare.append(paint(context, home.replace("/center/", "/health"))[0])
            browser.close()
    medians = {number: statistics.median(first for first, _ in seen) for number, seen in times.items()}
    for number, seen in times.items():
        received = statistics.median(last for _, last in seen)
        spread = f"{min(seen)[0]:.0f}–{max(seen)[0]:.0f}"
        print(
            f"{number} waiting: first paint {medians[number]:.0f} ms ({spread}), page received after {received:.0f} ms"
        )
    print(f"/health, one line of text: first paint {statistics.median(bare):.0f} ms ({min(bare):.0f}–{max(bare):.0f})")
    met = "met" if medians[count] <= BAR_MS else "not met"
    print(f"ratio {medians[count] / medians[FEW]:.2f}; bar {BAR_MS:.0f} ms at {count}: {met}")


if __name__ == "__main__":
    main()
