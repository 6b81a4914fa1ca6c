"""Single screens in a real browser: forms that do what they say, and pages that people can read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from support.console_browser import CHROMIUM, PHONE, WIDE, held, opened
from support.console_process import console_of
from support.live_servers import Live
from support.tiers import thorough

pytest.importorskip("playwright", reason="no Playwright: pip install playwright")

from playwright.sync_api import Browser, Locator, Page, expect

pytestmark = [thorough, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]

expect.set_options(timeout=120_000)  # a plan alone takes seconds where much else runs

# The contrast of a border with what is inside of it and around it, as WCAG has it.
CONTRAST = """(input) => {
  const light = (colour) => {
    const [red, green, blue] = colour.match(/\\d+/g).map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const style = getComputedStyle(input), around = getComputedStyle(input.closest(".card")).backgroundColor;
  const border = light(style.borderTopColor), others = [style.backgroundColor, around].map(light);
  return Math.min(...others.map((other) => Math.max(border / other, other / border)));
}"""


def spinner(page: Page, name: str) -> Locator:
    return page.get_by_role("spinbutton", name=name)


def test_a_job_is_what_the_form_says_whenever_create_is_clicked(live: Live, browser: Browser, tmp_path: Path):
    np.save(tmp_path / "scans.npy", np.random.default_rng(5).random((100, 3)))
    with console_of(live.kits / "requester-1") as console, opened(browser, console, WIDE) as page:
        page.locator("main").get_by_role("link", name="New job").click()
        expect(page.locator(".headline")).to_contain_text("About")
        create = page.get_by_role("button", name="Create the job")
        create.click()
        expect(page.get_by_role("alert").filter(has_text="You have not chosen a file of samples")).to_be_visible()

        page.get_by_label("The samples to be labelled").set_input_files(tmp_path / "scans.npy")
        at_hand = spinner(page, "Samples at hand")
        expect(at_hand).to_have_value("100")
        # More than the file has: said at the field, and nothing can be created.
        at_hand.fill("1000")
        expect(at_hand).to_have_accessible_description(re.compile("The file holds 100 samples. Ask about 100 at most."))
        expect(at_hand).to_have_attribute("aria-invalid", "true")
        expect(create).to_be_disabled()
        at_hand.fill("100")
        expect(at_hand).to_have_attribute("aria-invalid", "false")

        page.get_by_label("Classes").fill("3")
        for name, value in {"Organisations you expect": "40", "Epsilon": "3"}.items():
            spinner(page, name).fill(value)
        page.get_by_text("Threshold and noise").click()
        expect(create).to_be_enabled()
        old = spinner(page, "sigma").input_value()
        # Typed and clicked at once, while the plan of the old number is on the screen.
        with held(page, "**/api/plan"):
            spinner(page, "Epsilon").fill("5.7")
            expect(create).to_be_disabled()
            expect(page.locator(".plan").get_by_role("progressbar")).to_be_visible()
        create.click()
        facts = page.locator(".facts").first
        expect(facts).to_contain_text("epsilon 5.7 at delta 1e-5")
        job = page.url.rpartition("/")[2]
        shown = page.evaluate("(job) => fetch(`/api/jobs/${job}`).then((answer) => answer.json())", job)
        assert shown["epsilon"] == 5.7
        assert shown["sigma"] != float(old)
        made = page.evaluate(
            """async (asked) => {
              const lines = await (await fetch("/api/plan", {method: "POST", body: JSON.stringify(asked)})).text();
              return JSON.parse(lines.trim().split("\\n").pop()).result.chosen;
            }""",
            {"epsilon": 5.7, "delta": 1e-5, "samples": 100, "teachers": 40, "classes": 3},
        )
        assert (shown["sigma"], shown["samples"]) == (made["sigma"], made["asked"])
        assert shown["consensus"] == {"votes": made["threshold"], "of": 40}


def test_what_is_wrong_is_said_at_its_field_and_not_longer_than_it_is(live: Live, browser: Browser, tmp_path: Path):
    rows = "".join(f"S-{at:02},P-{at:02},{at}.5\n" for at in range(30))
    (tmp_path / "scans.csv").write_text(f"scan_id,patient,crp\n{rows}")
    for name in ("one.npy", "two.npy"):
        (tmp_path / name).write_text("junk")
    with console_of(live.kits / "requester-1") as console, opened(browser, console, WIDE) as page:
        with held(page, "**/api/plan"):
            page.locator("main").get_by_role("link", name="New job").click()
            page.get_by_text("Threshold and noise").click()
            page.get_by_label("Follow the plan").uncheck()
            expect(spinner(page, "Ask about the first")).to_have_value("1000")
        expect(page.locator(".headline")).to_contain_text("About")

        file = page.get_by_label("The samples to be labelled")
        for name in ("one.npy", "two.npy"):
            file.set_input_files(tmp_path / name)
            expect(page.locator("main .notice")).to_contain_text(name)
            expect(page.locator("main .notice")).to_have_count(1)
        file.set_input_files(tmp_path / "scans.csv")
        expect(page.get_by_text("scans.csv: 30 samples")).to_be_visible()
        expect(page.locator("main .notice")).to_have_count(0)

        classes = page.get_by_label("Classes")
        classes.fill("1")
        expect(classes).to_have_accessible_description(re.compile("A job cannot have this number of classes"))
        expect(page.locator(".plan .bad")).to_be_visible()
        with held(page, "**/api/plan"):
            classes.fill("3")
            expect(page.locator(".plan").get_by_role("progressbar")).to_be_visible()
            expect(page.locator(".plan .bad")).to_have_count(0)
        # As many votes as a plan for patients needs, until somebody says how many.
        for whom, votes in (("organisation (cohort sure)", "1"), ("patient (cohort wards)", "6")):
            page.get_by_label("Who is protected").select_option(f"each {whom}")
            expect(spinner(page, "Votes of each")).to_have_value(votes)
        values = {"Organisations you expect": "4", "Votes of each": "3", "Delta": "0.09", "Epsilon": "60"}
        for label, value in (values | {"Ask about the first": "24", "sigma": "1.8"}).items():
            spinner(page, label).fill(value)

        expect(page.get_by_label("that one patient may be in")).to_be_visible()
        page.get_by_label("Column with the ids").select_option("scan_id")
        create = page.get_by_role("button", name="Create the job")
        for label, wrong, right, what in (
            ("Threshold", "1.6", "0.6", "The threshold 1.6 is neither a fraction nor a whole number of votes."),
            ("Voting ends", "9000d", "1h", "The deadline of the job is more than 366 days away."),
        ):
            field = page.get_by_label(label, exact=True)
            field.fill(wrong)
            create.click()
            expect(field).to_have_attribute("aria-invalid", "true")
            expect(field).to_have_accessible_description(re.compile(re.escape(what)))
            field.fill(right)
        page.get_by_label("Column with the ids").select_option("patient")
        create.click()
        expect(page.get_by_role("heading", name="What to do")).to_be_visible()
        evidence, row = page.get_by_role("button", name="Evidence for an auditor"), page.locator("tr").last
        assert evidence.bounding_box()["y"] - row.bounding_box()["y"] - row.bounding_box()["height"] >= 10


def test_checks_that_pass_are_read_on_a_phone(live: Live, browser: Browser):
    with console_of(live.kits / "requester-1") as console, opened(browser, console) as page:
        page.get_by_role("link", name="Servers").click()
        expect(page.get_by_text("readable by their owner only")).to_be_visible()
        assert page.locator(".scroll").evaluate("(table) => table.scrollWidth <= table.clientWidth")


def test_charts_are_readable_for_few_labels_and_at_every_width(live: Live, browser: Browser):
    with console_of(live.kits / "requester-1") as console, opened(browser, console, WIDE) as page:
        page.locator("main").get_by_role("link", name="New job").click()
        expect(page.locator(".headline")).to_contain_text("About")
        wide = page.locator(".chart").bounding_box()
        page.set_viewport_size(PHONE)
        page.wait_for_function("(before) => document.querySelector('.chart').clientWidth < before", arg=wide["width"])
        text = page.evaluate(
            """async () => {
              const { curve } = await import("/static/chart.js"), host = document.createElement("div");
              document.querySelector("main").append(host);
              curve(host, [1, 2, 3].map((epsilon) => ({ epsilon, answered: epsilon / 2, right: epsilon / 3 })),
                { epsilon: 2, answered: 1, right: 0.9 });
              await new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame));
              return [...host.querySelectorAll("text[text-anchor=end]")].map((one) => one.textContent);
            }"""
        )
        assert text == ["0", "1"]
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for field in ("Samples at hand", "Title, for teachers to see", "Who is protected"):
                assert page.get_by_label(field).evaluate(CONTRAST) >= 3, (scheme, field)


def test_an_operator_reads_long_lists_and_figures_on_a_phone(live: Live, browser: Browser):
    with console_of(live.kits / "operator-s0") as console, opened(browser, console) as page:
        page.get_by_role("link", name="Accounts").click()
        accounts = page.get_by_role("table", name="Accounts").locator("tbody tr")
        expect(accounts).to_have_count(8)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text(re.compile(r"9 to 16 of \d+"))).to_be_visible()
        page.get_by_role("searchbox").fill("Teacher-018")
        expect(accounts).to_have_count(1)
        expect(accounts).to_contain_text("teacher-018")

        page.get_by_role("link", name="Log", exact=True).click()
        expect(page.get_by_role("table", name="Log").locator("tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollHeight") < 3_000

        page.get_by_role("link", name="Load").click()
        expect(page.get_by_text(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC \(\d+ days left\)")).first).to_be_visible()
        figures = page.locator("main").inner_text()
        assert not re.search(r"\d,\d{3},\d{3},\d{3}|_seconds|expires seconds", figures)
        stranger = page.context.browser.new_page()
        stranger.goto(console.origin)
        expect(stranger.get_by_role("heading")).to_have_text("This browser has no session with the console.")
        assert stranger.evaluate("document.styleSheets[0].cssRules.length") > 50
        stranger.close()
