"""Logs on standard error, for machines or people, from which secrets have been removed.

Nothing is written that could hold a share, a vote, a seed, a noise value or a token. What may pass is listed, not what
must not: numbers, times, names and short texts, unless their key sounds like a secret or they look like one. Bytes and
arrays are written as their length. Of an exception that is not SEDML's own only the type and the places in the code
are written: a message made elsewhere may quote what it choked on.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, timedelta
from enum import Enum
from pathlib import PurePath
from types import TracebackType
from typing import Any, Literal, cast
from uuid import UUID

import structlog
from structlog.typing import EventDict, Processor

from sedml.errors import SedmlError
from sedml.service.server.ops.log_limits import Sparing

_REDACTED = "<redacted>"
_SECRET_KEY = re.compile(
    "token|authoriz|secret|seed|share|ballot|body|key|password|passphrase|cookie|credential|vote|noise|correction",
    re.IGNORECASE,
)
# Numbers about a secret are none: ballot_count, body_bytes.
_MEASURE = re.compile("_(count|bytes|total|seconds|rounds)$")
_SECRET_TEXT = re.compile(
    r"sedml_[A-Za-z0-9_-]+"  # a token, or what is left of one
    r"|(?<=bearer )\S+"
    r"|(?<=basic )\S+"
    r"|(?<=://)[^\s/@]*:[^\s/@]*(?=@)"  # name and password of a database
    r"|\b[0-9a-f]{64,}\b"  # 32 bytes or more in hexadecimal: a key, a seed, the hash of a token
    r"|\bb'(?:[^'\\]|\\.)*'|\bb\"(?:[^\"\\]|\\.)*\""  # bytes as Python writes them
    r"|\b(?:array|bytearray|memoryview)\(.*",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_TEXT = 2_000
_MOST_ITEMS = 32
_DEEPEST = 6
_LARGEST = 2**63
_WEB_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


def _says_something(record: logging.LogRecord) -> bool:
    """Not what uvicorn calls an error where the last clients did not hang up in time: it has cancelled nothing."""
    return not (record.args == (0,) and str(record.msg).startswith("Cancel %s running task"))


def configure(
    level: Literal["debug", "info", "warning", "error"] = "info", log_format: Literal["json", "console"] = "json"
) -> None:
    """Send whatever is logged in this process, by anyone, to standard error by way of `clean_event`.

    Start uvicorn with log_config=None, or it puts its own handlers back.
    """
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        clean_event,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _CleanFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *before],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(Sparing())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _WEB_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        logger.addFilter(_says_something)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    # What nobody caught would be printed with its message, past all of this.
    sys.excepthook = _log_crash
    threading.excepthook = _log_thread_crash
    logging.captureWarnings(True)
    # Nor shall a record that cannot be written, as on a full disk, be printed as it is.
    logging.raiseExceptions = False


def clean_event(_logger: Any, _method: str, event_dict: EventDict) -> EventDict:  # noqa: ANN401 - structlog's form
    """The processor that every event passes: the same event without secrets."""
    error = _exception_of(event_dict.pop("exc_info", None))
    event_dict.pop("stack_info", None)
    meta = {key: event_dict.pop(key) for key in ("_record", "_from_structlog") if key in event_dict}
    cleaned = cast("dict[str, Any]", clean(event_dict, most=len(event_dict)))
    if error is not None:
        cleaned["exception"] = describe_exception(error)
    return cleaned | meta


def clean(value: object, *, most: int = _MOST_ITEMS, depth: int = 0) -> object:
    """A value that may be logged: itself, or what can be said of it without giving it away."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return clean(value.value, depth=depth)
    if isinstance(value, int | float):
        return value if type(value) in (int, float) and abs(value) < _LARGEST else _REDACTED
    if isinstance(value, str):
        return clean_text(value)
    if (length := _bytes_in(value)) is not None:
        return f"<{length} bytes>"
    if isinstance(value, date | timedelta | PurePath | UUID):
        return clean_text(str(value))
    if isinstance(value, BaseException):
        return _headline(value)
    if depth < _DEEPEST and isinstance(value, Mapping) and len(value) <= most:
        return {clean_text(str(key)): _clean_item(str(key), item, depth + 1) for key, item in value.items()}
    if depth < _DEEPEST and isinstance(value, Sequence | AbstractSet) and len(value) <= most:
        return [clean(item, depth=depth + 1) for item in value]
    if isinstance(value, Mapping | Sequence | AbstractSet):
        return f"<{len(value)} items>"
    # Its repr could hold anything.
    return f"<{type(value).__name__}>"


def clean_text(text: str) -> str:
    """A text without anything in it that looks like a secret, and not too long."""
    # Redacted before it is cut, so that no cut hides what a secret looks like.
    # Line breaks go too: whoever chooses a part of a message shall not write lines of the log.
    cleaned = _CONTROL.sub(" ", _SECRET_TEXT.sub(_REDACTED, str(text)))
    return cleaned if len(cleaned) <= _LONGEST_TEXT else f"{cleaned[:_LONGEST_TEXT]}… ({len(cleaned)} characters)"


def describe_exception(error: BaseException) -> str:
    """Type and places of an exception and of those behind it; messages of SEDML's own only."""
    parts = []
    for link in _chain(error):
        frames = [
            f'  File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_name}'
            for frame, line in traceback.walk_tb(link.__traceback__)
        ]
        parts.append("\n".join([_headline(link), *frames[-_MOST_ITEMS:]]))
    return "\nwhile handling, or because of:\n".join(parts)


class _CleanFormatter(structlog.stdlib.ProcessorFormatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever happens."""
        try:
            return super().format(record if hasattr(record, "_logger") else _clean_record(record))
        except Exception as error:
            # logging's own words for such a failure have all arguments of the message in them.
            return f'{{"event": "a log message could not be written", "reason": "{type(error).__name__}"}}'


def _clean_item(key: str, item: object, depth: int) -> object:
    if _SECRET_KEY.search(key) is None or item is None:
        return clean(item, depth=depth)
    if (length := _bytes_in(item)) is not None:
        return f"<{length} bytes>"
    is_measure = type(item) in (int, float) and _MEASURE.search(key) is not None
    return clean(item) if is_measure else _REDACTED


def _bytes_in(value: object) -> int | None:
    if isinstance(value, bytes | bytearray):
        return len(value)
    # memoryview, ndarray, NumPy's scalars, tensors; not imported here for a mere question.
    length = getattr(value, "nbytes", None)
    return length if isinstance(length, int) else None


def _headline(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, SedmlError):
        return f"{name}: {clean_text(str(error))}"
    # The system's own words for an error number, never the rest of the arguments.
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name}: {clean_text(str(error.strerror))}"
    return name


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _MOST_ITEMS:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions)
        behind = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if behind is not None:
            waiting.append(behind)


def _exception_of(info: object) -> BaseException | None:
    """The exception that `exc_info` means, in any of the ways to say it."""
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple) and len(info) == 3 and isinstance(info[1], BaseException):
        return info[1]
    return sys.exc_info()[1] if info else None


def _clean_record(record: logging.LogRecord) -> logging.LogRecord:
    """Clean the arguments of a message before they become part of its text."""
    cleaned = logging.makeLogRecord(record.__dict__)
    if not isinstance(record.msg, str):
        cleaned.msg = str(clean(record.msg))
    if isinstance(record.args, Mapping):
        cleaned.args = {key: _clean_item(str(key), item, 0) for key, item in record.args.items()}
    elif record.args:
        cleaned.args = tuple(clean(item) for item in record.args)
    cleaned.__dict__.pop("color_message", None)  # uvicorn's, the same again
    return cleaned


def _log_crash(kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    structlog.get_logger("sedml").critical("crashed", exc_info=error)


def _log_thread_crash(crash: threading.ExceptHookArgs) -> None:
    if crash.exc_value is not None and not isinstance(crash.exc_value, SystemExit):
        structlog.get_logger("sedml").critical("thread crashed", exc_info=crash.exc_value)
