"""The page that `serve` shows, in a real browser and on a real server."""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import bcrypt
import pytest
from playwright.sync_api import expect

from tests.support.browser import Visit, open_browser, visit
from tests.support.snapshots import begin_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

    from tests.support.command import Pglock
    from tests.support.servers import Connect, Connection

pytestmark = pytest.mark.requires("chromium")

TAKE_DIGEST = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
FREE_DIGEST = "SELECT pg_advisory_unlock(hashtext('send_daily_digest'))"
JOBS = """
[[jobs]]
name = "send_daily_digest"
max_held = "1s"

[[jobs]]
name = "nightly_backup"
max_held = "2h"
"""
NOWHERE = "host=127.0.0.1 port=1 connect_timeout=2"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


class Exporter:
    """`serve`, as a process."""

    def __init__(self, pglock: Pglock, listen: str, *options: str) -> None:
        self._process = pglock.start("serve", "--listen", listen, "--interval", "200ms", *options)
        assert self._process.stderr
        said = self._process.stderr.readline()
        found = re.search(r"http://(\S+)", said)
        assert found, said
        self.address = found[1]
        self.url = f"http://{self.address}/"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=30)


@contextmanager
def serving(
    pglock: Pglock, *options: str, jobs: str = JOBS, listen: str = "127.0.0.1:0"
) -> Iterator[Exporter]:
    (pglock.directory / "jobs.toml").write_text(jobs)
    exporter = Exporter(pglock, listen, "--config", str(pglock.directory / "jobs.toml"), *options)
    try:
        yield exporter
    finally:
        exporter.stop()


@pytest.fixture
def url(pglock: Pglock) -> Iterator[str]:
    with serving(pglock) as exporter:
        yield exporter.url


def row(page: Page, table: str, name: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has_text=name)


def refreshed(page: Page) -> None:
    """Wait until the page has fetched itself, once more, from now on."""
    with page.expect_response(lambda response: response.request.resource_type == "fetch") as response:
        pass
    response.value.finished()
    page.evaluate("new Promise(requestAnimationFrame)")


# --- What it shows ------------------------------------------------------------------------------------


def test_it_shows_who_holds_what_for_how_long_who_waits_and_what_to_do(
    browser: Browser, url: str, connect: Connect, janitor: Connection
) -> None:
    holder, waiter = connect("worker-3"), connect("worker-4")
    holder.execute(TAKE_DIGEST)
    begin_waiting(waiter, TAKE_DIGEST, janitor)
    with visit(browser, url) as seen:
        page, pid = seen.page, holder.info.backend_pid
        expect(page).to_have_title(re.compile("^✗ 1 critical"))
        expect(page.get_by_role("heading", level=1)).to_have_text("1 critical")
        job = row(page, "Jobs", "send_daily_digest")
        expect(job).to_contain_text("stale")
        expect(job.get_by_role("meter")).to_have_attribute("aria-label", re.compile("times its limit"))
        expect(row(page, "Jobs", "nightly_backup")).to_contain_text("free")
        held = row(page, "Locks", f"pid {pid}")
        expect(held).to_contain_text("worker-3")
        expect(held).to_contain_text("-1957215242")
        expect(row(page, "Locks", "worker-4")).to_contain_text(f"for {pid}")
        expect(page.locator("article code")).to_have_text([f"pglock-inspect kill {pid} --terminate"])
        expect(page.get_by_text(re.compile(r"^read \d{4}-\d\d-\d\d .* UTC"))).to_be_visible()
        assert "pg_advisory_lock" not in page.content()  # queries are not for everybody


def test_queries_are_shown_where_they_may_be(browser: Browser, pglock: Pglock, connect: Connect) -> None:
    connect().execute(TAKE_DIGEST)
    with serving(pglock, "--expose-queries") as exporter, visit(browser, exporter.url) as seen:
        expect(seen.page.get_by_role("table", name="Locks")).to_contain_text(TAKE_DIGEST)


def test_hostile_names_are_inert(browser: Browser, url: str, connect: Connect) -> None:
    name = "<script>document.title='x'</script>\u202e\x1b[2J\"'&amp;"
    holder = connect(name[:60])
    holder.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
    with visit(browser, url) as seen:
        locks = seen.page.get_by_role("table", name="Locks")
        expect(locks).to_contain_text("<script>document.title='x'</script>")
        refreshed(seen.page)
        assert seen.page.title() != "x"
        assert seen.page.locator("script").count() == 1
        assert "\u202e" not in seen.page.content()
        assert "\x1b" not in seen.page.content()


def test_many_servers_are_a_line_each_the_worst_first(
    browser: Browser, pglock: Pglock, connect: Connect
) -> None:
    names = [f"db-{number}" for number in range(6)]
    targets = "".join(f'[[targets]]\nname = "{name}"\ndsn = "{pglock.dsn}"\n' for name in names)
    config = f'{JOBS}{targets}[[targets]]\nname = "gone"\ndsn = "{NOWHERE}"\n'
    connect().execute(TAKE_DIGEST)
    with (
        serving(pglock, "--target", "all", jobs=config) as exporter,
        visit(browser, exporter.url) as seen,
    ):
        page = seen.page
        expect(page.get_by_role("heading", level=1)).to_have_text("1 cannot be read, 6 critical")
        expect(page.locator("summary h2")).to_have_text(["gone", *names])
        page.locator("summary").first.click()
        expect(page.get_by_role("heading", name=re.compile("No answer since .* UTC"))).to_be_visible()
        page.locator("summary").nth(3).click()
        connect().execute("SELECT pg_advisory_lock(42)")
        expect(row(page, "Locks", "42")).to_be_visible()
        opened = page.locator("details[open] h2 bdi")
        expect(opened).to_have_text(["gone", "db-2"])
        kill = page.locator("details[open] article code").first
        expect(kill).to_have_text(re.compile("--terminate --target db-2$"))
        page.get_by_role("link", name="show it alone").last.click()
        expect(page.locator("header")).to_contain_text("db-2")
        expect(page.get_by_role("link", name="all 7 servers")).to_be_visible()
        expect(page.get_by_role("table", name="Jobs")).to_be_visible()


# --- How it follows -----------------------------------------------------------------------------------


def test_a_lock_comes_and_goes_without_a_reload(browser: Browser, url: str, connect: Connect) -> None:
    holder = connect("worker-3")
    with visit(browser, url) as seen:
        page = seen.page
        expect(page.get_by_role("heading", level=1)).to_have_text("all is well")
        page.evaluate("window.loaded = 'once'")
        holder.execute(TAKE_DIGEST)
        expect(row(page, "Locks", "worker-3")).to_be_visible()
        expect(row(page, "Jobs", "send_daily_digest")).to_contain_text("stale")
        expect(page).to_have_title(re.compile("^✗ 1 critical"))
        assert "favicon-critical" in str(page.locator("link[rel=icon]").get_attribute("href"))
        holder.execute(FREE_DIGEST)
        expect(row(page, "Locks", "worker-3")).to_have_count(0)
        expect(row(page, "Jobs", "send_daily_digest")).to_contain_text("free")
        expect(page.get_by_role("heading", level=1)).to_have_text("all is well")
        assert page.evaluate("window.loaded") == "once"


def test_what_stays_is_left_alone(browser: Browser, url: str, connect: Connect) -> None:
    holders = [connect(f"worker-{number}") for number in range(30)]
    for number, holder in enumerate(holders):
        holder.execute("SELECT pg_advisory_lock(%s)", [number])
    with visit(browser, url, size=(900, 500)) as seen:
        page = seen.page
        last = row(page, "Locks", "worker-29")
        expect(last).to_be_visible()
        last.locator(".process").scroll_into_view_if_needed()
        last.locator(".process").select_text()
        scrolled = page.evaluate("scrollY")
        page.evaluate("""() => {
            window.changed = [];
            new MutationObserver(changes => window.changed.push(...changes.flatMap(change =>
              [...change.addedNodes, ...change.removedNodes].map(node => node.textContent.trim()))))
              .observe(document.getElementById("page"), { childList: true, subtree: true });
        }""")
        for _ in range(3):
            refreshed(page)
        assert page.evaluate("window.changed.filter(text => text)") == []
        holders[7].execute("SELECT pg_advisory_unlock(7)")
        connect("newcomer").execute(TAKE_DIGEST)
        expect(row(page, "Locks", "worker-7 ")).to_have_count(0)
        expect(row(page, "Locks", "newcomer")).to_contain_text("send_daily_digest")
        assert scrolled > 0
        assert page.evaluate("getSelection().toString()") == last.locator(".process").text_content()
        # Other rows came and went in one piece; none was built anew.
        assert not [text for text in page.evaluate("window.changed") if "worker-29" in text]


def test_focus_stays_where_it_is(browser: Browser, pglock: Pglock, connect: Connect) -> None:
    targets = "".join(f'[[targets]]\nname = "{n}"\ndsn = "{pglock.dsn}"\n' for n in ("one", "two"))
    with (
        serving(pglock, "--target", "all", jobs=JOBS + targets) as exporter,
        visit(browser, exporter.url) as seen,
    ):
        summary = seen.page.locator("summary").filter(has_text="two")
        summary.focus()
        connect().execute(TAKE_DIGEST)
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("2 critical")
        expect(summary).to_be_focused()


def test_it_says_when_the_exporter_is_away_and_goes_on_when_it_is_back(
    browser: Browser, pglock: Pglock
) -> None:
    with serving(pglock) as exporter, visit(browser, exporter.url, problems=True) as seen:
        alert = seen.page.get_by_role("alert")
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("all is well")
        expect(alert).to_be_hidden()
        exporter.stop()
        expect(alert).to_have_text(
            re.compile(r"What is shown is \d+ s old: the exporter cannot be reached\.")
        )
        with serving(pglock, listen=exporter.address):
            expect(alert).to_be_hidden(timeout=40_000)


def test_it_rests_in_a_tab_that_nobody_sees(browser: Browser, url: str) -> None:
    turn = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with visit(browser, url) as seen:
        refreshed(seen.page)
        seen.page.evaluate(turn, True)  # noqa: FBT003
        before = len(seen.requests)
        seen.page.wait_for_timeout(2_500)
        assert len(seen.requests) <= before + 1  # one may have been under way
        with seen.page.expect_response(url):
            seen.page.evaluate(turn, False)  # noqa: FBT003


def test_a_password_is_enough_once(browser: Browser, pglock: Pglock, connect: Connect) -> None:
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    holder = connect("worker-3")
    with serving(pglock, jobs=f'{JOBS}[serve.users]\nalice = "{hashed}"\n') as exporter:
        login = {"username": "alice", "password": "secret"}
        with visit(browser, exporter.url, http_credentials=login) as seen:
            holder.execute(TAKE_DIGEST)
            expect(row(seen.page, "Locks", "worker-3")).to_be_visible()


def test_it_works_without_a_script(browser: Browser, url: str, connect: Connect) -> None:
    with visit(browser, url, java_script_enabled=False) as seen:
        expect(seen.page.get_by_role("heading", level=1)).to_have_text("all is well")
        connect("worker-3").execute(TAKE_DIGEST)
        expect(row(seen.page, "Locks", "worker-3")).to_be_visible()


# --- For everybody, everywhere ------------------------------------------------------------------------


@contextmanager
def busy(browser: Browser, url: str, connect: Connect, **window: object) -> Iterator[Visit]:
    """A visit to a page that has everything on it."""
    connect("worker-3").execute(TAKE_DIGEST)
    connect("x" * 60).execute("SELECT pg_advisory_lock(hashtext(%s))", ["long_" * 60])
    connect("a-pool").execute("SELECT pg_advisory_lock(1), pg_advisory_lock_shared(2)")
    with visit(browser, url, **window) as seen:  # type: ignore[arg-type]
        expect(seen.page.get_by_role("heading", level=1)).to_contain_text("critical")
        expect(row(seen.page, "Locks", "a-pool")).to_have_count(2)
        yield seen


@pytest.mark.parametrize("width", [320, 360, 390, 768, 1440, 2560])
def test_nothing_is_wider_than_the_screen(browser: Browser, url: str, connect: Connect, width: int) -> None:
    with busy(browser, url, connect, size=(width, 800)) as seen:
        assert seen.overflow <= 0


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["wide", "narrow"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(
    browser: Browser, url: str, connect: Connect, scheme: str, size: tuple[int, int]
) -> None:
    with busy(browser, url, connect, size=size, color_scheme=scheme) as seen:
        assert seen.faint_texts() == []
        ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 150) == (scheme == "dark")


def test_it_prints_what_is_folded(browser: Browser, pglock: Pglock) -> None:
    targets = "".join(f'[[targets]]\nname = "{n}"\ndsn = "{pglock.dsn}"\n' for n in ("one", "two"))
    with (
        serving(pglock, "--target", "all", jobs=JOBS + targets) as exporter,
        visit(browser, exporter.url) as seen,
    ):
        jobs = seen.page.get_by_text("nightly_backup").first
        expect(seen.page.locator("summary")).to_have_count(2)
        expect(jobs).to_be_hidden()
        seen.page.emulate_media(media="print")
        expect(jobs).to_be_visible()
