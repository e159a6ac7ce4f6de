"""Give memory that is free back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return the free pages of the heap to the system, where the C library is glibc.

    Programming an array works with several float64 copies of it. glibc keeps what they leave for
    later, and small things that stay among them pin it: a chip of 60 arrays held half as much
    memory again, for nothing.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library, which has no such thing
        return
    trim(0)
