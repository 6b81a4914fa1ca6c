"""`sedml bench`: measurements that check their own answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, answer, duration, show, size, stages

if TYPE_CHECKING:
    from sedml.lab.bench.deployment import DeploymentReport
    from sedml.lab.bench.protocol import StageReport

bench = typer.Typer(
    name="bench", help="Measure time, traffic and memory; every result is checked.", no_args_is_help=True
)

_WRONG = 3
_THRESHOLD, _SIGMA = 0.6, 40.0  # of every job that is measured
_NAMES = {
    "set_up": "set-up, once a connection",
    "prepare": "preparation, which needs no vote",
    "votes": "with the votes",
    "total": "in all after the set-up",
}


@bench.command()
def aggregate(
    *,
    samples: Annotated[int, typer.Option(help="Samples Q.")] = 1000,
    classes: Annotated[int, typer.Option(help="Classes N.")] = 10,
    teachers: Annotated[int, typer.Option(help="Teachers K; their votes are counted before the clock starts.")] = 250,
    transport: Annotated[
        Literal["memory", "tcp"], typer.Option(help="'tcp': two processes over TLS on loopback; 'memory': two threads.")
    ] = "tcp",
    latency_ms: Annotated[float, typer.Option(help="Delay to add between the servers, one way.")] = 0.0,
    repeat: Annotated[int, typer.Option(help="How often to repeat it; times are medians.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure two servers from shares of random counts to shares of labels; exit code 3 if any label is wrong.

    Example: sedml bench aggregate --samples 1000 --classes 10 --repeat 21 --json
    """
    from sedml.lab.bench.protocol import bench_protocol
    from sedml.protocol.task import Task
    from sedml.protocol.thresholds import threshold_count

    task = Task(classes, samples, teachers, threshold_count(_THRESHOLD, teachers), _SIGMA)
    with stages() as progress:
        report = bench_protocol(task, transport=transport, latency_ms=latency_ms, repeat=repeat, progress=progress)
    answer(as_json, asdict(report), _table(report))
    if not report.matches_ideal:
        raise typer.Exit(_WRONG)


@bench.command()
def deployment(
    *,
    teachers: Annotated[int, typer.Option(help="Teachers K; each votes over its own connections.")] = 250,
    samples: Annotated[int, typer.Option(help="Samples Q.")] = 1000,
    classes: Annotated[int, typer.Option(help="Classes N.")] = 10,
    epsilon: Annotated[
        float, typer.Option(help="The most privacy (epsilon) that the job may cost; the noise follows from it.")
    ] = 8.0,
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Send ballots that were cast beforehand, to measure the servers alone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a whole deployment on this machine: both servers as processes, teachers over HTTPS.

    Exit code 3 if the labels are not what the votes and noise can give.

    Example: sedml bench deployment --teachers 250 --samples 1000 --json
    """
    from stamina.instrumentation import set_on_retry_hooks

    from sedml.lab.bench.deployment import bench_deployment

    set_on_retry_hooks([])  # the servers are waited for until they listen; that is nothing to report

    with stages() as progress:
        report = bench_deployment(teachers, samples, classes, epsilon=epsilon, prepared=prepared, progress=progress)
    answer(as_json, asdict(report), _deployment_table(report))
    if not report.plausible:
        show(Text("The labels are not those of the votes.", style="bold red"))
        raise typer.Exit(_WRONG)


def _deployment_table(report: DeploymentReport) -> Table:
    table = Table(title="Deployment on this machine", title_justify="left", show_header=False)
    table.add_row("votes in", f"{duration(report.vote_seconds)}, {report.votes_per_second:.0f} a second")
    if report.receipt_ms is not None:
        p50, p99 = report.receipt_ms
        table.add_row("receipts at half that rate", f"half within {p50:.0f} ms, 99 of 100 within {p99:.0f} ms")
    at_s0, at_s1, here = (f"{one:.1f} ms" for one in report.vote_cpu_ms)
    table.add_row("processor time of a vote", f"{at_s0} at S0, {at_s1} at S1, {here} for the teacher")
    table.add_row("from the close to the labels", duration(report.run_seconds))
    table.add_row("  the protocol itself", duration(report.protocol_seconds))
    table.add_row("  beyond that", duration(report.beyond_seconds))
    table.add_row("memory of S0, S1 idle", " and ".join(f"{one:.0f} MB" for one in report.idle_rss_mb))
    table.add_row("memory of S0, S1 at most", " and ".join(f"{one:.0f} MB" for one in report.peak_rss_mb))
    table.add_row("answered", f"{report.answered:,} of {report.samples:,}")
    return table


def _table(report: StageReport) -> Table:
    title = (
        f"{report.samples:,} samples x {report.classes} classes, {report.latency_ms:g} ms one way, "
        f"median of {report.repeat}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("stage")
    for heading in ("time", "rounds", "between the servers"):
        table.add_column(heading, justify="right")
    for stage, cost in report.stages.items():
        if stage == "total":
            table.add_section()
        table.add_row(_NAMES[stage], duration(cost.seconds), str(cost.rounds), size(cost.bytes))
    figures = f"buckets of {report.bucket}, {report.peak_rss_mb:.0f} MB resident a server, on {report.kernel}, "
    right = Text("every label as the ideal functionality says")
    table.caption = Text.assemble(figures, right if report.matches_ideal else ("WRONG LABELS", "bold red"))
    table.caption_justify = "left"
    return table
