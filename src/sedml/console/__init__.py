"""The console: a page on this machine for whoever has a kit, with the power of that kit and no other.

The pages are our own, a few files of HTML, CSS and JavaScript in `static/`. A toolkit such as NiceGUI was not taken: it
needs scripts within the page, `eval` and a WebSocket, all of which our content policy forbids.

In the order they depend on each other: `gate` decides who comes in, `replies` is what goes out, `uploads` what comes
in; `assets` are the files of the page, `session` is whose kit it is and what every role can ask, `job_documents` are
jobs as the page shows them; `live_plan` and `requester_routes` are for requesters, `teacher_routes` for teachers,
`operator_routes` for operators; `web_app` puts it together and `listening` serves it.
"""

from __future__ import annotations

from pathlib import Path

from sedml.extras import require_libraries

__all__ = ["serve"]


def serve(folder: Path, port: int, *, opened: bool) -> None:
    """Serve the console of a kit on this machine until it is told to stop; `opened` in a browser, if wanted."""
    require_libraries("starlette", "uvicorn")
    # Imported here, so that whoever lacks them is told which extra brings them.
    from sedml.console.listening import listen

    listen(folder, port, opened=opened)
