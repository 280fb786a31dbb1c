"""A real browser that looks at a page, and notes whatever goes wrong there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.support.requirements import program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

_QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
_VIOLATIONS = """
addEventListener("securitypolicyviolation", event =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
# What of the text has too little contrast to its ground (WCAG 2.2, 1.4.3), as `ratio: text`.
_FAINT = """() => {
  const channels = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b]
    .map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = element => {
    for (; element; element = element.parentElement) {
      const [r, g, b, alpha = 1] = channels(getComputedStyle(element).backgroundColor);
      if (alpha === 1) return [r, g, b];
      if (alpha !== 0) throw new Error("a ground that shines through");
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = [];
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (Number(style.opacity) !== 1) throw new Error("text that shines through");
    seen += 1;
    const [one, other] = [channels(style.color), ground(element)].map(luminance);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim()}`);
  }
  return { seen, faint };
}"""


class Visit:
    """A page in a window of its own; ``problems`` are its errors, and what it asked of other hosts."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._note(request.url))
        page.goto(url)

    def _note(self, url: str) -> None:
        self.requests.append(url)
        if urlsplit(url).netloc != urlsplit(self.url).netloc:
            self.problems.append(f"it asks {url}")

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - innerWidth"))

    def faint_texts(self) -> list[str]:
        """The texts that are hard to read."""
        found = self.page.evaluate(_FAINT)
        assert found["seen"] > 10
        return list(found["faint"])


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a headless Chromium; skips the test where there is none."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - slow

    path = program("chromium")
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu", *_QUIET]
        )
        yield browser
        browser.close()


@contextmanager
def visit(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = (1440, 900),
    problems: bool = False,
    **context: Any,  # noqa: ANN401
) -> Iterator[Visit]:
    """Open a page in a window of ``size``; fail where it has problems that are not expected.

    Further keywords are Playwright's: ``color_scheme``, ``java_script_enabled``, ``http_credentials``.
    """
    width, height = size
    window = browser.new_context(viewport={"width": width, "height": height}, **context)
    try:
        window.add_init_script(_VIOLATIONS)
        opened = Visit(window.new_page(), url)
        yield opened
        assert problems or not opened.problems
    finally:
        window.close()
