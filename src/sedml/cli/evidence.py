"""`sedml evidence`: what an auditor asks about a job or a cohort, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sedml.cli.clients import KitOption, find_kit, full_id
from sedml.cli.output import AsJson, print_json
from sedml.errors import InputError


def evidence(
    job: Annotated[str | None, typer.Option(metavar="ID", help="The job, by the first digits of its id.")] = None,
    cohort: Annotated[str | None, typer.Option(help="Instead of a job: all jobs of this cohort.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("evidence.html"),
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a page about a job, or about all jobs of a cohort, to be kept on file.

    Terms, guarantee, software, charges, proofs from both servers' logs,
    retention: what a data protection officer asks. The page needs nothing but
    a browser. With --json, print the document instead.

    Example: sedml evidence --kit kits/teacher-007 --cohort teachers --out file.html
    """
    import anyio

    from sedml import Requester, Teacher
    from sedml.files import replace_file
    from sedml.service.client.evidence_document import evidence as gathered
    from sedml.service.client.evidence_page import page
    from sedml.service.kits import ClientKit

    if (job is None) == (cohort is None):
        raise typer.BadParameter("give one of the two.", param_hint="--job, --cohort")
    known = ClientKit.load(find_kit(kit, "teacher"))
    if known.role == "operator":
        raise InputError("An operator's kit reaches one server only.", "Use the kit of a teacher or a requester.")
    party = Teacher(known) if known.role == "teacher" else Requester(known)
    found = anyio.run(gathered, party.asynchronous, job and full_id(party, job), cohort or "")
    if as_json:
        print_json(found.document())
        return
    replace_file(out, page(found).encode())
    typer.echo(f"{found.title}: written to {out}.")
