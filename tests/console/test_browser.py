"""The console in a real browser: a whole job by three roles, and strangers that stay outside."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from support.console_browser import CHROMIUM, WIDE, held, opened
from support.console_process import console_of
from support.live_servers import Live
from support.tiers import thorough

pytest.importorskip("playwright", reason="no Playwright: pip install playwright")

from playwright.sync_api import Browser, Page, expect

pytestmark = [thorough, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

expect.set_options(timeout=120_000)  # a plan alone takes seconds where much else runs

TEACHERS = ["teacher-010", "teacher-011"]
TRUTH = np.arange(24) % 3
NAMES = ("cold", "influenza", "no sign of either")
IDS = [f"S-{number:02}" for number in range(24)]

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


def predictions(folder: Path, name: str) -> Path:
    path = folder / f"{name}.csv"
    path.write_text(2 * (",".join(NAMES[label] for label in TRUTH) + "\n"))
    return path


def test_a_whole_job_through_the_page(live: Live, browser: Browser, tmp_path: Path):
    rows = [f"{name},{name[-1]}.5,0.25,x" for name in IDS]
    (tmp_path / "scans.csv").write_text("\n".join(["scan_id,age,crp,ward", *rows, ""]))
    with console_of(live.kits / "requester-1") as console, opened(browser, console) as page:
        job = create_in(page, tmp_path)
        for name in TEACHERS:
            with console_of(live.kits / name) as own, opened(browser, own) as ballot:
                vote_in(ballot, predictions(tmp_path, name))
        with ThreadPoolExecutor(1) as others:  # in this thread runs the browser's loop
            others.submit(live.vote, job, np.tile(TRUTH, (3, 1)), first=12).result()
        # The page sees the votes come in by itself.
        expect(page.locator(".facts").first).to_contain_text("5 organisations × 2 votes (at least 4 needed)")
        expect(page.get_by_role("progressbar", name="votes in")).to_have_attribute("value", "4")
        expect(page.locator(".facts").first).to_contain_text("6 of 10 votes")
        with held(page, "**/run"):
            page.get_by_role("button", name="End the vote and run").click()
            expect(page.get_by_role("button", name="Delete")).to_be_disabled()
        expect(page.locator("#consensus")).to_contain_text("of 24 samples have a consensus")
        expect(page.get_by_role("button", name="Delete")).to_be_enabled()
        check_labels(page, job)

    with console_of(live.kits / "operator-s0") as console, opened(browser, console, WIDE) as page:
        expect(page.locator(".tile").first).to_be_visible()
        page.get_by_role("link", name="Accounts").click()
        expect(page.get_by_role("cell", name="teacher-010").first).to_be_visible()
        page.get_by_role("link", name="Budgets").click()
        expect(page.get_by_role("cell", name="patient").first).to_be_visible()
        page.get_by_role("link", name="Jobs", exact=True).click()
        page.get_by_role("link", name="Browser <i>scans</i>").click()
        history = page.locator(".card", has_text="History")
        for action in ("create", "vote", "close", "finish", "fetch"):
            expect(history.get_by_role("cell", name=action, exact=True).first).to_be_visible()
        page.get_by_role("link", name="Log", exact=True).click()
        page.get_by_role("button", name="Check every entry").click()
        expect(page.get_by_text("entries are as S0 has signed them")).to_be_visible()


def check_labels(page: Page, job: str) -> None:
    """Each label is in the table, by its class too, and in the files."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download .npy").click()
    labels = np.load(download.value.path())
    assert download.value.suggested_filename == f"labels-{job[:8]}.npy"
    assert labels.shape == (24,)
    expect(page.locator("#consensus")).to_contain_text(f"{(labels >= 0).sum()} of 24")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download .csv").click()
    named = ["" if label < 0 else NAMES[label] for label in labels]
    written = Path(download.value.path()).read_text().splitlines()
    assert written == ["sample,label", *(f"{sample},{name}" for sample, name in zip(IDS, named, strict=True))]
    expect(page.locator(".chart .bar")).to_have_count(3)
    expect(page.locator(".chart text", has_text="influenza")).to_be_visible()
    page.get_by_label("Show", exact=True).select_option(f"influenza ({(labels == 1).sum()})")
    shown = page.get_by_role("table", name="Labels").locator("tbody tr")
    wanted = np.flatnonzero(labels == 1)[:8]  # a page, on a phone
    expect(shown).to_have_count(len(wanted))
    assert [row.split() for row in shown.all_inner_texts()] == [[IDS[sample], "influenza"] for sample in wanted]
    page.get_by_label("Find a sample").fill(IDS[wanted[0]].lower())
    expect(shown).to_have_count(1)


def create_in(page: Page, folder: Path) -> str:
    page.locator("main").get_by_role("link", name="New job").click()
    expect(page.locator(".headline")).to_contain_text("labels")
    before = page.locator(".headline").text_content()
    page.get_by_role("slider", name="Epsilon").press("End")
    expect(page.locator(".headline")).not_to_have_text(before or "")
    expect(page.locator(".chart .line")).to_have_count(2)

    # Nothing can be created by a plan of other numbers than the form shows.
    expect(page.get_by_role("button", name="Create the job")).to_be_enabled()
    page.get_by_role("spinbutton", name="Epsilon").fill("31")
    expect(page.get_by_role("button", name="Create the job")).to_be_disabled()

    page.get_by_label("The samples to be labelled").set_input_files(folder / "scans.csv")
    expect(page.get_by_text("scans.csv: 24 samples")).to_be_visible()
    expect(page.get_by_label("Column with the ids")).to_have_value("scan_id")
    # A name that would be a formula in a spreadsheet is refused at its field.
    page.get_by_label("Classes").fill("cold, =influenza")
    expect(page.get_by_label("Classes")).to_have_accessible_description(re.compile("Class name 2 of 2 has a character"))
    page.get_by_text("Threshold and noise").click()
    page.get_by_label("Follow the plan").uncheck()
    values = {
        "Title": "Browser <i>scans</i>",
        "Classes": "\n".join(NAMES),
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
    ends = page.get_by_label("Voting ends")
    expect(ends).to_have_attribute("aria-invalid", "true")
    expect(ends).to_be_focused()
    expect(ends).to_have_accessible_description(re.compile("The deadline 'soon' cannot be read. Use 45m"))
    page.get_by_label("Voting ends").fill("1h")
    page.get_by_role("button", name="Create the job").click()
    # What a requester writes is text, whatever it looks like.
    expect(page.get_by_role("heading", name="Browser <i>scans</i>")).to_be_visible()
    return page.url.rpartition("/")[2]


def vote_in(page: Page, file: Path) -> None:
    mine = page.locator(".card", has_text="Browser <i>scans</i>")
    expect(mine).to_contain_text(", ".join(NAMES))
    expect(mine).to_contain_text("Protects each patient, whose data is in at most 1 of your 2 parts")
    votes_in = mine.locator(".facts").first
    before = int(votes_in.inner_text().partition("votes in\n")[2].split()[0])
    mine.get_by_label("A file of your predictions").set_input_files(file)
    # Nothing is sent before it was looked at.
    preview = mine.locator(".preview")
    expect(preview.get_by_role("row").nth(2)).to_contain_text("influenza, influenza")
    expect(preview).to_contain_text("48 votes, 0 abstentions")
    expect(preview).to_contain_text(
        re.compile("it can be neither changed nor taken back. It costs up to epsilon .+ for each patient")
    )
    expect(preview.locator(".bar")).to_have_count(3)
    expect(mine.get_by_text("your vote counts")).to_be_hidden()
    preview.get_by_role("button", name="Cast this vote").click()
    expect(mine.get_by_text("your vote counts")).to_be_visible()
    expect(votes_in).to_contain_text(re.compile(rf"{before + 1} organisation{'s' if before else ''} × 2 votes"))
    expect(mine.get_by_label("A file of your predictions")).to_be_hidden()
    evidence, samples = (mine.get_by_role("button", name=name).bounding_box() for name in ("Evidence", "Download"))
    assert samples["y"] - evidence["y"] - evidence["height"] >= 10
    page.get_by_role("link", name="Receipts").click()
    row = page.get_by_role("row").filter(has_text="Browser <i>scans</i>")
    expect(row).to_contain_text("your vote counts")
    job = row.locator("code").inner_text()
    page.get_by_label("Job").fill("x")
    page.get_by_role("button", name="Look it up").click()
    expect(page.get_by_label("Job")).to_have_accessible_description(re.compile("No id in this list begins like this"))
    page.get_by_label("Job").fill(job[:10].upper())
    page.get_by_role("button", name="Look it up").click()
    expect(page.locator(".receipt")).to_contain_text("S1\non disk since", use_inner_text=True)


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
