"""The console: a page on this machine for whoever has a kit, with the power of that kit and no other.

The pages are our own, a few files of HTML, CSS and JavaScript in `static/`. A toolkit such as NiceGUI was not taken: it
needs scripts within the page, `eval` and a WebSocket, all of which our content policy forbids.

In the order they depend on each other: `gate` decides who comes in, `replies` is what goes out, `uploads` what comes
in; `assets` are the files of the page, `session` is whose kit it is and what every role can ask, `job_documents` are
jobs as the page shows them; `live_plan` and `requester_routes` are for requesters, `teacher_routes` for teachers,
`operator_routes` for operators; `web_app` puts it together and `listening` serves it.
"""
