"""`sedml bench`: measurements that check their own answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, answer, duration, show, size, stages
from sedml.protocol.task import Protocol

if TYPE_CHECKING:
    from sedml.lab.bench import Report
    from sedml.lab.bench.deployment import DeploymentReport

__all__ = ["bench"]

bench = typer.Typer(help="Measure time, traffic and memory; every result is checked.", no_args_is_help=True)

_WRONG = 3
_THRESHOLD, _SIGMA = 0.6, 40.0  # of every job that is measured


@bench.command()
def aggregate(
    *,
    samples: Annotated[int, typer.Option(help="Samples Q.")] = 1000,
    classes: Annotated[int, typer.Option(help="Classes N.")] = 10,
    teachers: Annotated[int, typer.Option(help="Teachers K.")] = 250,
    votes: Annotated[
        Literal["ballots", "onehot", "counts"],
        typer.Option(
            help="What the servers start from: a deployment's ballots, the paper's one-hot ballots, or counts that are "
            "already shared."
        ),
    ] = "ballots",
    protocol: Annotated[
        Literal["fused", "garbled", "paper"],
        typer.Option(
            help="'fused' and 'garbled' as in a deployment; 'paper' runs the paper's three phases as written, "
            "with a dealer."
        ),
    ] = "fused",
    randomness: Annotated[
        Literal["servers", "dealer"],
        typer.Option(help="Who makes the one-use randomness: the two 'servers', as in a deployment, or a 'dealer'."),
    ] = "servers",
    transport: Annotated[
        Literal["memory", "tcp"], typer.Option(help="'tcp': two processes over TLS on loopback; 'memory': two threads.")
    ] = "tcp",
    latency_ms: Annotated[float, typer.Option(help="Delay to add between the servers, one way.")] = 0.0,
    under_way: Annotated[
        int | None,
        typer.Option(help="Blocks to work on at the same time; unless given, what suits the latency.", min=1),
    ] = None,
    repeat: Annotated[int, typer.Option(help="How often to repeat it; times are medians.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Measure an aggregation of random votes between two servers; exit code 3 if any label is wrong.

    Example: sedml bench aggregate --samples 1000 --classes 10 --teachers 250 --votes counts --repeat 21 --json
    """
    from sedml.lab.bench import bench_aggregate
    from sedml.lab.paper.lab_task import LabTask
    from sedml.protocol.thresholds import threshold_count

    dealt: Literal["fused", "paper"] | None = "fused" if randomness == "dealer" else None
    task = LabTask(
        classes=classes,
        samples=samples,
        teachers=teachers,
        threshold=threshold_count(_THRESHOLD, teachers),
        sigma1=_SIGMA,
        sigma2=_SIGMA,
        protocol="fused" if protocol == "paper" else protocol,
        dealt="paper" if protocol == "paper" else dealt,
        votes=votes,
    )
    with stages() as progress:
        report = bench_aggregate(
            task, transport=transport, latency_ms=latency_ms, repeat=repeat, under_way=under_way, progress=progress
        )
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
    protocol: Annotated[
        Protocol, typer.Option(help="How the servers run the job: little in many rounds, or much in few.")
    ] = "fused",
    prepared: Annotated[
        bool, typer.Option("--prepared", help="Send ballots that were cast beforehand, to measure the servers alone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a whole deployment on this machine: both servers as processes, teachers over HTTPS.

    Exit code 3 if any label is wrong.

    Example: sedml bench deployment --teachers 250 --samples 1000 --json
    """
    from stamina.instrumentation import set_on_retry_hooks

    from sedml.lab.bench.deployment import bench_deployment

    set_on_retry_hooks([])  # the servers are waited for until they listen; that is nothing to report

    with stages() as progress:
        report = bench_deployment(
            teachers,
            samples,
            classes,
            epsilon=epsilon,
            protocol=protocol,
            prepared=prepared,
            progress=progress,
        )
    answer(as_json, asdict(report), _deployment_table(report))
    if not report.matches_ideal:
        show(Text("Labels differ from the ideal functionality.", style="bold red"))
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


def _table(report: Report) -> Table:
    title = (
        f"{report.samples:,} samples x {report.classes} classes x {report.teachers} teachers, "
        f"{report.votes} votes, {report.protocol}, {report.transport}"
    )
    table = Table(title=title, title_justify="left", show_footer=True)
    table.add_column("phase", footer="total")
    table.add_column("time", justify="right", footer=duration(report.seconds["total"]))
    table.add_column("rounds", justify="right", footer=str(report.rounds["total"]))
    for phase in ("count", "highest", "threshold", "label"):
        table.add_row(phase, duration(report.seconds[phase]), str(report.rounds[phase]))
    table.add_section()
    if report.randomness == "dealer":
        table.add_row("dealing, before", duration(report.seconds["deal"]), "")
        table.add_row("unpacking, before", duration(report.seconds["prepare"]), "")
    else:
        table.add_row("making randomness, before", duration(report.seconds["offline"]), str(report.rounds["offline"]))
    if report.under_way > 1:
        together = f"in all, {report.under_way} of {report.blocks} blocks at a time"
        table.add_row(together, duration(report.seconds["in_all"]), "")
    figures = (
        f"between the servers {size(report.bytes['servers'])} and {size(report.bytes['offline'])} before, "
        f"dealer {size(report.bytes['dealer'])}, "
        f"a teacher {report.bytes['teacher_s0']} B to S0 and {report.bytes['teacher_s1']:,} B to S1\n"
        f"{report.answered:,} samples answered, {report.peak_rss_mb:.0f} MB resident a server, on {report.kernel}, "
    )
    right = Text("every label as the ideal functionality says")
    table.caption = Text.assemble(figures, right if report.matches_ideal else ("WRONG LABELS", "bold red"))
    table.caption_justify = "left"
    return table
