"""The console in a real browser: a whole job by three roles, and strangers that stay outside."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.console_process import Console, console_of
from support.live_servers import Live
from support.tiers import thorough

pytest.importorskip("playwright", reason="no Playwright: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402 - if it is there

pytestmark = [thorough, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

expect.set_options(timeout=120_000)  # a plan alone takes seconds where much else runs

TEACHERS = ["teacher-010", "teacher-011"]
TRUTH = np.arange(24) % 3

# What a page of another origin tries; each ends in a word that says how far it came.
ATTACK = """<!doctype html><title>attack</title><ul id="found"></ul><script>
const target = "%s";
const say = (text) => {
  const line = document.createElement("li");
  line.textContent = text;
  found.append(line);
};
const attempt = (name, promise) => promise.then((how) => say(`${name}: ${how}`), () => say(`${name}: failed`));
const call = (path, more) => fetch(target + path, {credentials: "include", ...more})
  .then((answer) => answer.type === "opaque" ? "opaque" : "read");
const load = (tag, path) => new Promise((good, bad) => {
  const part = document.createElement(tag);
  part.onload = () => good("loaded");
  part.onerror = bad;
  part.src = target + path;
  document.body.append(part);
});
(async () => {
  for (const path of ["/", "/api/who", "/api/jobs"]) {
    await attempt(`read ${path}`, call(path));
    await attempt(`blind read ${path}`, call(path, {mode: "no-cors"}));
  }
  await attempt("post", call("/api/jobs", {method: "POST", body: "{}"}));
  await attempt("blind post", call("/api/jobs", {method: "POST", mode: "no-cors", body: "{}"}));
  await attempt("delete", call("/api/jobs/x", {method: "DELETE"}));
  await attempt("script", load("script", "/static/dom.js"));
  await attempt("image", load("img", "/static/icon.svg"));
  const frame = document.createElement("iframe");
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = target + "/";
  document.body.append(frame);
  await loaded;
  say("frame: " + (frame.contentDocument ? "read" : "failed"));
  say("end");
})();
</script>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def opened(browser: Browser, console: Console) -> Iterator[Page]:
    """The console in a browser of its own; nothing of it may fail or be blocked."""
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None)
    page.goto(console.address)
    expect(page.locator("#tabs a").first).to_be_visible()
    assert page.url.startswith(f"{console.origin}/")
    assert "token" not in page.url
    yield page
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert complaints == []
    context.close()


def predictions(folder: Path, name: str) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(2 * (",".join(map(str, TRUTH)) + "\n"))
    return path


def test_a_whole_job_through_the_page(live: Live, browser: Browser, tmp_path: Path):
    np.save(tmp_path / "scans.npy", np.random.default_rng(5).random((24, 3)))
    with console_of(live.kits / "requester-1") as console, opened(browser, console) as page:
        job = create_in(page, tmp_path)
        for name in TEACHERS:
            with console_of(live.kits / name) as own, opened(browser, own) as ballot:
                vote_in(ballot, predictions(tmp_path, name))
        with ThreadPoolExecutor(1) as others:  # in this thread runs the browser's loop
            others.submit(live.vote, job, np.tile(TRUTH, (3, 1)), first=12).result()
        # The page sees the votes come in by itself.
        expect(page.locator(".facts").first).to_contain_text("5 organisations × 2 votes, at least 4 needed")
        expect(page.locator(".facts").first).to_contain_text("6 of 10 votes")
        page.get_by_role("button", name="End the vote and run").click()
        expect(page.locator("#consensus")).to_contain_text("of 24 samples have a consensus")
        expect(page.locator(".chart .bar")).to_have_count(3)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download .npy").click()
        labels = np.load(download.value.path())
        assert download.value.suggested_filename == f"labels-{job[:8]}.npy"
        assert labels.shape == (24,)
        expect(page.locator("#consensus")).to_contain_text(f"{(labels >= 0).sum()} of 24")

    with console_of(live.kits / "operator-s0") as console, opened(browser, console) as page:
        expect(page.locator(".tile").first).to_be_visible()
        page.get_by_role("link", name="Accounts").click()
        expect(page.get_by_role("cell", name="organisation: teacher-010")).to_be_visible()
        page.get_by_role("link", name="Budgets").click()
        expect(page.get_by_role("cell", name="protects each: patient").first).to_be_visible()
        page.get_by_role("link", name="Jobs", exact=True).click()
        page.get_by_role("link", name="Browser <i>scans</i>").click()
        history = page.locator(".card", has_text="History")
        for action in ("create", "vote", "close", "finish", "fetch"):
            expect(history.get_by_role("cell", name=f"did: {action}").first).to_be_visible()
        page.get_by_role("link", name="Audit log").click()
        page.get_by_role("button", name="Check every line").click()
        expect(page.get_by_text("lines that were read fit each other")).to_be_visible()


def create_in(page: Page, folder: Path) -> str:
    page.get_by_role("link", name="New job").click()
    expect(page.locator(".headline")).to_contain_text("labels")
    before = page.locator(".headline").text_content()
    page.get_by_role("slider", name="Epsilon").press("End")
    expect(page.locator(".headline")).not_to_have_text(before or "")
    expect(page.locator(".chart .line")).to_have_count(2)

    # Nothing can be created by a plan of other numbers than the form shows.
    expect(page.get_by_role("button", name="Create the job")).to_be_enabled()
    page.get_by_role("spinbutton", name="Epsilon").fill("31")
    expect(page.get_by_role("button", name="Create the job")).to_be_disabled()

    page.get_by_label("The samples to be labelled").set_input_files(folder / "scans.npy")
    expect(page.get_by_text("scans.npy: 24 samples")).to_be_visible()
    page.get_by_text("Threshold and noise").click()
    page.get_by_label("Follow the plan").uncheck()
    values = {
        "Title": "Browser <i>scans</i>",
        "Classes": "3",
        "Organisations you expect": "4",
        "Votes of each": "2",
        "Delta": "0.09",
    }
    values |= {"Ask about the first": "24", "Threshold": "0.6", "sigma": "1.8", "Voting ends": "soon"}
    for label, value in values.items():
        page.get_by_label(label, exact=label == "Threshold").fill(value)
    page.get_by_role("spinbutton", name="Epsilon").fill("60")
    expect(page.get_by_label("may be in")).to_be_hidden()
    page.get_by_label("Who is protected").select_option("each patient (cohort wards)")
    page.get_by_label("that one patient may be in").fill("1")
    page.get_by_role("button", name="Create the job").click()
    expect(page.get_by_role("alert")).to_contain_text("The deadline 'soon' cannot be read. Use 45m")
    page.get_by_label("Voting ends").fill("1h")
    page.get_by_role("button", name="Create the job").click()
    # What a requester writes is text, whatever it looks like.
    expect(page.get_by_role("heading", name="Browser <i>scans</i>")).to_be_visible()
    return page.url.rpartition("/")[2]


def vote_in(page: Page, file: Path) -> None:
    mine = page.locator(".card", has_text="Browser <i>scans</i>")
    expect(mine).to_contain_text("Protects each patient, whose data is in at most 1 of your 2 parts")
    mine.get_by_label("Vote with a file").set_input_files(file)
    expect(mine.get_by_text("your vote counts")).to_be_visible()
    page.get_by_role("link", name="Receipts").click()
    row = page.get_by_role("row").filter(has_text="Browser <i>scans</i>")
    expect(row).to_contain_text("your vote counts")


def test_a_page_of_another_origin_gets_nothing(live: Live, browser: Browser):
    with console_of(live.kits / "requester-1") as console, opened(browser, console) as page:
        before = live.rows()
        with elsewhere((ATTACK % console.origin).encode()) as address:
            for place in (address, address.replace("127.0.0.1", "localhost")):
                stranger = page.context.new_page()
                answers: dict[str, list[int]] = {}
                stranger.on("response", lambda answer: answers.setdefault(answer.url, []).append(answer.status))  # noqa: B023
                stranger.goto(place)
                expect(stranger.locator("#found")).to_contain_text("end")
                said = dict(
                    line.split(": ") for line in stranger.locator("#found li").all_text_contents() if ": " in line
                )
                assert {name for name, how in said.items() if how not in ("failed", "opaque")} == set()
                assert len(said) == 12
                # Also what a page may send without seeing the answer was refused at the gate.
                asked = [
                    status for url, statuses in answers.items() if url.startswith(console.origin) for status in statuses
                ]
                assert asked
                assert set(asked) == {403}
                stranger.close()
        assert live.rows() == before
        # The owner goes on undisturbed.
        page.get_by_role("link", name="Servers").click()
        expect(page.get_by_text("readable by their owner only")).to_be_visible()


@contextmanager
def elsewhere(content: bytes) -> Iterator[str]:
    """A web server of somebody else on this machine."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
