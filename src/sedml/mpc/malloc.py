"""Memory that a server frees stays with its process: fresh memory comes in pages that are slow to get.

A block of a job takes and gives back tens of megabytes, and the next one takes the same again. By default the C library
returns large pieces to the system at once. Only for the processes of servers; elsewhere, or with another C library,
nothing happens.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)
_MB = 1 << 20


def keep_freed_memory() -> bool:
    """Whether the C library has agreed."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wishes = ((_MMAP_THRESHOLD, 32 * _MB), (_TRIM_THRESHOLD, 1024 * _MB), (_TOP_PAD, 16 * _MB))
    return all(mallopt(what, size) == 1 for what, size in wishes)
