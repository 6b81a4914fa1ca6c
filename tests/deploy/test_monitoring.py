"""Alerts and dashboard name only figures, labels and values that a real server shows, and go off when they must.

Where `promtool` is installed it also reads every file, and plays each alert on figures made up for it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sedml import errors
from sedml.errors import SedmlError
from sedml.service.problems import code_of
from sedml.service.server.settings import Settings
from sedml.service.states import JobState
from support.live_servers import Live, make_kits, settings_of
from support.server_process import until
from support.tiers import thorough

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
DASHBOARD = DEPLOY / "grafana" / "sedml.json"

OF_PROMETHEUS = {"up": {"job", "instance"}}
"""What Prometheus itself says of whatever it asks."""
TARGET = {"job", "instance"}
KEYWORDS = {"and", "or", "unless", "by", "on", "bool", "offset", "without", "ignoring"}


class Use(NamedTuple):
    """A figure in an expression, and the labels that are asked of it: (name, operator, value)."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]


def uses(expression: str) -> tuple[list[Use], set[str]]:
    """Figures with their matchers, and the labels that are grouped by."""
    found: list[Use] = []
    named = re.compile(r'([a-zA-Z_:][\w:]*)\s*\{((?:[^{}"]|"[^"]*")*)\}')
    for one in named.finditer(expression):
        matchers = re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', one[2])
        assert len(matchers) == one[2].count('"') // 2, f"cannot read {one[0]}"
        found.append(Use(one[1], tuple(matchers)))
    rest = named.sub(" ", expression)
    groups = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
    labels = {label.strip() for one in groups.finditer(rest) for label in one[1].split(",")}
    rest = re.sub(r"\[[^\]]*\]|\boffset\s+\w+|\"[^\"]*\"", " ", groups.sub(" ", rest))
    for one in re.finditer(r"(?<![\w.])([a-zA-Z_:][\w:]*)(?!\w)(?!\s*\()", rest):
        if one[1] not in KEYWORDS:
            found.append(Use(one[1], ()))
    return found, labels


def complaints(expression: str, shown: dict[str, dict[str, set[str]]]) -> Iterator[str]:
    """What an expression names and no server shows."""
    found, groups = uses(expression)
    if not found:
        yield f"no figure in {expression!r}"
    known = set(TARGET)
    for metric, matchers in found:
        if metric not in shown:
            yield f"no server shows {metric}"
            continue
        labels = shown[metric]
        known |= labels.keys()
        for name, operator, value in matchers:
            if name not in labels.keys() | TARGET:
                yield f"{metric} has no label {name}"
            elif name in VALUES and operator in ("=", "=~"):
                pattern = re.escape(value) if operator == "=" else value
                if not any(re.fullmatch(pattern, one) for one in VALUES[name](labels[name])):
                    yield f"{metric} never has {name}{operator}{value!r}"
    yield from (f"nothing in {expression!r} has the label {name}" for name in sorted(groups - known))


CODES = {code_of(kind) for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SedmlError)} | {
    "internal"
}
VALUES = {
    "state": lambda _: {state.value for state in JobState},
    "code": lambda _: CODES,
    "route": lambda seen: seen,
    "status": lambda seen: seen | {"503", "500"},
}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def figures(live: Live) -> str | None:
    """What S0 shows, once there is all of it: the link is measured last, at the first greeting."""
    answer = live.s0.ask("GET", "/metrics", live.token("operator-s0", "s0"))
    assert answer.status == 200
    text = answer.body.decode()
    return text if "\nsedml_link_delay_seconds " in text else None


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """By figure and label: the values that a real server shows after a few requests."""
    live = Live(make_kits(tmp_path_factory.mktemp("monitoring") / "kits", settings_of(), teachers=1, requesters=1))
    with live.running():
        live.s0.ask("GET", "/v1/jobs")
        live.s0.ask("GET", "/readyz")
        text = until(lambda: figures(live), "the two servers have met and measured the link")
    found: dict[str, dict[str, set[str]]] = {
        name: {label: set() for label in labels} for name, labels in OF_PROMETHEUS.items()
    }
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


# ---- Names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_a_server_shows(rule, shown):
    assert list(complaints(rule["expr"], shown)) == []


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_a_server_shows(panel, shown):
    for target in panel["targets"]:
        assert list(complaints(target["expr"], shown)) == []
        asked = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        found, groups = uses(target["expr"])
        kept = groups or TARGET.union(*(shown.get(use.metric, {}).keys() for use in found))
        assert asked <= kept, "the legend names a label that is left"


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("increase(sedml_alarm_total[1h]) > 0", "no server shows sedml_alarm_total"),
        ("sum by (colour) (rate(sedml_http_refused_total[5m]))", "has the label colour"),
        ('sedml_jobs{colour="red"}', "sedml_jobs has no label colour"),
        ('sedml_jobs{state="stuck"}', "never has state='stuck'"),
        ('sedml_http_refused_total{code="budget"}', "never has code='budget'"),
        ('sedml_http_requests_total{route="/ready"}', "never has route='/ready'"),
        ("up == 0 or sedml_up", "no server shows sedml_up"),
        ("1 > 0", "no figure"),
    ],
)
def test_a_wrong_name_is_noticed(expression, complaint, shown):
    assert complaint in "; ".join(complaints(expression, shown))


def test_every_figure_of_a_server_is_on_the_dashboard(shown):
    """But for those that a library adds: when a counter was made, and the sums behind an average."""
    asked = {use.metric for panel in panels() for target in panel["targets"] for use in uses(target["expr"])[0]}
    left = {name for name in shown if not name.endswith(("_created", "_sum", "_count"))} - asked
    assert left == set()


# ---- Words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_what_to_do(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("page", "ticket")
    said = rule["annotations"]
    assert set(said) == {"summary", "description"}
    assert 10 < len(said["summary"]) < 120
    assert len(said["description"]) > 80
    for setting in re.findall(r"`((?:max|min|rate|link|keep)_\w+)`", said["description"]):
        assert setting in Settings.model_fields


def test_the_manual_names_the_same_alerts():
    page = (ROOT / "docs" / "how-to" / "operate" / "monitoring.md").read_text()
    assert set(re.findall(r"\bSedml[A-Z]\w+", page)) == {rule["alert"] for rule in rules()}


def test_the_dashboard_names_alerts_that_exist():
    named = {name for panel in panels() for name in re.findall(r"\bSedml[A-Z]\w+", panel["description"])}
    assert named <= {rule["alert"] for rule in rules()}
    assert len(named) > 8


def test_prometheus_shows_its_token_to_the_right_server_only():
    (job,) = yaml.safe_load(CONFIG.read_text())["scrape_configs"]
    assert job["job_name"] == "sedml", "the alerts ask for this name"
    assert (job["scheme"], job["metrics_path"]) == ("https", "/metrics")
    assert job["authorization"].keys() == {"type", "credentials_file"}
    assert job["tls_config"]["ca_file"]
    assert "insecure_skip_verify" not in job["tls_config"]


# ---- Where npm can install the types that Grafana publishes ---------------------------------------------------------

TYPES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
TYPED = """import type {{ Dashboard }} from '@grafana/schema';
type Plain<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
export const dashboard: Plain<Partial<Dashboard>> = {};
"""
"""In JSON a value of an enumeration is its text."""


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What the compiler says of a dashboard."""
    folder = tmp_path_factory.mktemp("grafana")
    npm = shutil.which("npm")
    install = [npm, "install", "--ignore-scripts", "--fetch-retries=0", *TYPES]
    if npm is None or subprocess.run(install, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("npm is not installed, or reaches no registry")
    options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]

    def check(dashboard: str) -> str:
        (folder / "dashboard.ts").write_text(TYPED.format(dashboard))
        compiler = [folder / "node_modules" / ".bin" / "tsc", *options, "dashboard.ts"]
        return subprocess.run(compiler, cwd=folder, capture_output=True, text=True, check=False).stdout

    return check


@thorough
def test_the_dashboard_fits_the_types_that_grafana_publishes(typed):
    assert typed(DASHBOARD.read_text()) == ""


@thorough
@pytest.mark.parametrize(("right", "wrong"), [("absolute", "absolutely"), ("gridPos", "gridPoz")])
def test_a_dashboard_that_does_not_fit_is_noticed(typed, right, wrong):
    assert wrong in typed(DASHBOARD.read_text().replace(f'"{right}"', f'"{wrong}"'))


# ---- Where promtool is installed -----------------------------------------------------------------------------------


def promtool(*words: object) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool (of Prometheus) is not installed")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_reads_the_rules_and_the_configuration():
    promtool("check", "rules", ALERTS)
    promtool("check", "config", "--syntax-only", CONFIG)


def test_promtool_reads_every_panel(tmp_path: Path):
    expressions = [target["expr"].replace("$instance", ".+") for panel in panels() for target in panel["targets"]]
    recorded = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions)]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    promtool("check", "rules", tmp_path / "panels.yml")


WELL = {
    'up{job="sedml", instance="s0"}': "1x1600",
    'sedml_peer_seen_seconds{instance="s0"}': "5x1600",
    'sedml_alarms_total{instance="s0"}': "0x1600",
    'sedml_clock_doubted{instance="s0"}': "0x1600",
    'sedml_jobs{instance="s0", state="failed"}': "2x1600",
    'sedml_jobs{instance="s0", state="running"}': "1x1600",
    'sedml_blocks_total{instance="s0"}': "0+1x1600",
    'sedml_log_entries_total{instance="s0"}': "0+3x1600",
    'sedml_certificate_expires_seconds{instance="s0"}': "8640000x1600",
    'sedml_http_requests_total{instance="s0", route="/readyz", status="200"}': "0+2x1600",
    'sedml_http_refused_total{instance="s0", code="missing-token"}': "0+60x1600",
    'sedml_http_connections_refused_total{instance="s0"}': "0x1600",
    'sedml_disk_free_bytes{instance="s0"}': "50000000000-1000000x1600",
    'sedml_budget_used_ratio{instance="s0", cohort="teachers"}': "0.5x1600",
}
"""A figure a minute, for more than a day."""

AFTER = "1500m"
CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "all is well": ({}, set()),
    "the server is down": ({'up{job="sedml", instance="s0"}': "1x1490 0x20"}, {"SedmlServerDown"}),
    "nobody is watched": ({'up{job="sedml", instance="s0"}': "1x1400 stale"}, {"SedmlScrapeMissing"}),
    "the other server went away": ({'sedml_peer_seen_seconds{instance="s0"}': "5x1400 9+60x200"}, {"SedmlPeerNotSeen"}),
    "the other server never came": ({'sedml_peer_seen_seconds{instance="s0"}': "0+60x1600"}, {"SedmlPeerNotSeen"}),
    "the other server was caught": ({'sedml_alarms_total{instance="s0"}': "0x1450 1x200"}, {"SedmlAlarm"}),
    "an alarm of last year": ({'sedml_alarms_total{instance="s0"}': "1x1600"}, set()),
    "blocks break off": (
        {'sedml_attempts_total{instance="s0"}': "0+1x1480 1490+2x200"},
        {"SedmlManyAttempts"},
    ),
    "a job failed": ({'sedml_jobs{instance="s0", state="failed"}': "2x1480 3x200"}, {"SedmlJobFailed"}),
    "an old store": ({'sedml_log_entries_total{instance="s0"}': "0+3x1000 5+3x700"}, {"SedmlLogWentBack"}),
    "the clock is wrong": ({'sedml_clock_doubted{instance="s0"}': "0x1400 1x200"}, {"SedmlClockDoubted"}),
    "the clock is doubted after a start": ({'sedml_clock_doubted{instance="s0"}': "0x1495 1x200"}, set()),
    "four weeks": (
        {'sedml_certificate_expires_seconds{instance="s0"}': "2500000x1600"},
        {"SedmlCertificateExpiresSoon"},
    ),
    "two days": (
        {'sedml_certificate_expires_seconds{instance="s0"}': "262800x1600"},
        {"SedmlCertificateExpiresSoon", "SedmlCertificateExpires"},
    ),
    "not ready": (
        {'sedml_http_requests_total{instance="s0", route="/readyz", status="503"}': "0x1480 1+2x200"},
        {"SedmlNotReady"},
    ),
    "a disk that is full tomorrow": (
        {'sedml_disk_free_bytes{instance="s0"}': "50000000000x1000 50000000000-50000000x600"},
        {"SedmlDiskFillsUp"},
    ),
    "a disk with little left": ({'sedml_disk_free_bytes{instance="s0"}': "1900000000x1600"}, {"SedmlDiskFillsUp"}),
    "a large job on a large disk": (
        {'sedml_disk_free_bytes{instance="s0"}': "50000000000x1300 49000000000x300"},
        set(),
    ),
    "a budget that is gone next week": (
        {'sedml_budget_used_ratio{instance="s0", cohort="teachers"}': "0.3+0.0001x1600"},
        {"SedmlBudgetRunsOut"},
    ),
    "a budget that is nearly gone": (
        {'sedml_budget_used_ratio{instance="s0", cohort="teachers"}': "0.93x1600"},
        {"SedmlBudgetRunsOut"},
    ),
    "a budget that lasts": (
        {'sedml_budget_used_ratio{instance="s0", cohort="teachers"}': "0.3+0.00001x1600"},
        set(),
    ),
    "errors of its own": (
        {'sedml_http_requests_total{instance="s0", route="/v1/jobs", status="503"}': "0x1480 1+2x200"},
        {"SedmlServerErrors"},
    ),
    "a flood": (
        {'sedml_http_refused_total{instance="s0", code="invalid-token"}': "0x1470 0+600x200"},
        {"SedmlRefusedFlood"},
    ),
    "too many connections": (
        {'sedml_http_connections_refused_total{instance="s0"}': "0x1470 0+600x200"},
        {"SedmlConnectionsRefused"},
    ),
    "jobs wait": ({'sedml_blocks_total{instance="s0"}': "0+1x1300 1300x300"}, {"SedmlJobsStuck"}),
    "no jobs, no blocks": (
        {'sedml_blocks_total{instance="s0"}': "7x1600", 'sedml_jobs{instance="s0", state="running"}': "0x1600"},
        set(),
    ),
    "the first job without a budget": (
        {'sedml_http_refused_total{instance="s0", code="budget-exceeded"}': "_x1490 1x200"},
        {"SedmlBudgetUsedUp"},
    ),
    "another job without a budget": (
        {'sedml_http_refused_total{instance="s0", code="budget-exceeded"}': "1x1490 2x200"},
        {"SedmlBudgetUsedUp"},
    ),
}  # fmt: skip


def test_there_is_a_case_for_every_alert():
    assert set().union(*(fires for _, fires in CASES.values())) == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("case", CASES)
def test_these_alerts_go_off_and_no_others(case: str, tmp_path: Path):
    figures, fires = CASES[case]
    shutil.copy(ALERTS, tmp_path / ALERTS.name)
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(fires)]
    question = 'group by (alertname) (ALERTS{alertstate="firing"})'
    played = {
        "rule_files": [ALERTS.name],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in (WELL | figures).items()],
                "promql_expr_test": [{"expr": question, "eval_time": AFTER, "exp_samples": expected}],
            }
        ],
    }
    (tmp_path / "case.yml").write_text(yaml.safe_dump(played))
    promtool("test", "rules", tmp_path / "case.yml")
