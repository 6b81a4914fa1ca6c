"""The page of an evidence document: one file without scripts or links to anywhere, for a screen and for paper."""

from __future__ import annotations

import json
import re
from html import escape

from sedml.service.client.evidence_document import Evidence

_STYLE = """
:root { color-scheme: light dark; color: CanvasText; background: Canvas; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 0 auto; padding: 1.5rem 1rem; }
h1 { font-size: min(1.4rem, 4.2vw); overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
.quiet { opacity: .75; } .paper { display: none; } .whole { white-space: nowrap; }
code { font-size: .8em; display: inline-block; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-top: 1px solid #8886;
  overflow-wrap: anywhere; } th { width: 30%; font-weight: 600; } td { padding-right: 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
@media (max-width: 40rem) { th, td { display: block; width: auto; border: 0; padding: 0; } code { font-size: .9em; }
  th { border-top: 1px solid #8886; padding-top: .4rem; } td { padding-bottom: .4rem; } h2 { font-size: 1rem; } }
@page { margin: 16mm 18mm 20mm; @bottom-left { content: "TITLE"; font: 8pt sans-serif; }
  @bottom-right { content: counter(page) " of " counter(pages); font: 8pt sans-serif; } }
@media print { :root { color-scheme: light; background: none; } body { font-size: 10pt; max-width: none; padding: 0; }
  h1 { font-size: 15pt; margin-top: 0; } h2 { margin-top: 1.1rem; } .quiet { opacity: 1; } .paper { display: block; }
  th, td { padding-top: .2rem; padding-bottom: .2rem; } p { margin: .5rem 0; }
  h2, h2 + .quiet, tr:first-child, tr:nth-last-child(2) { break-after: avoid; } tr { break-inside: avoid; }
  details { display: none; } }
"""
_WHOLE = re.compile(r"\b((?:S[01]: entry [\d,]+, )?\d{4}-\d\d-\d\d \d\d:\d\d UTC|\d+e-\d+|[A-Z]{3}-\d+(?:-GCM)?)\b")
_HASH = re.compile(r"\b((?:[0-9a-f]{32}){1,2})\b([,;:]?)")
_PAPER = "The file that this was printed from also has these facts in a form for programs."


def page(evidence: Evidence) -> str:
    """The document as HTML."""
    parts = []
    for section in evidence.sections:
        rows = "".join(
            f'<tr><th scope="row">{_marked(what)}</th><td>{_marked(answer)}</td></tr>\n'
            for what, answer in section.rows
        )
        note = f'<p class="quiet">{escape(section.note)}</p>\n' if section.note else ""
        parts.append(f"<h2>{escape(section.title)}</h2>\n{note}<table>\n{rows}</table>\n")
    made = f"Evidence, made {evidence.made_at:%Y-%m-%d %H:%M} UTC with the kit of {evidence.made_by}. "
    made += "Answers come from the terms, from this kit, and from the servers' logs, checked from their first entry on."
    # As numbers, since whatever is in a title must neither end the string of the style nor the style.
    title = "".join(letter if letter.isalnum() else f"\\{ord(letter):x} " for letter in evidence.title)
    facts = escape(json.dumps(evidence.facts, indent=1, ensure_ascii=False))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(evidence.title)}</title><style>{_STYLE.replace('TITLE', title)}</style></head>\n<body><main>\n"
        f'<h1>{escape(evidence.title)}</h1>\n<p class="quiet">{_marked(made)}</p>\n{"".join(parts)}'
        f'<p class="paper">{_PAPER}</p>\n'
        f"<details><summary>Facts for programs (JSON)</summary><pre>{facts}</pre></details>\n</main></body></html>\n"
    )


def _marked(text: str) -> str:
    """Text as HTML: a hash breaks in its middle, if at all, and a time nowhere."""
    return _WHOLE.sub(r'<span class="whole">\1</span>', _HASH.sub(_halves, escape(text)))


def _halves(hit: re.Match[str]) -> str:
    half = len(hit[1]) // 2
    return f"<code>{hit[1][:half]}<wbr>{hit[1][half:]}{hit[2]}</code>"
