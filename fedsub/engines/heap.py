"""The C library's heap, so that a step's tensors take the pages that the step before has freed.

glibc hands large blocks back to the system as they are freed. A training step frees and takes the
same sizes again and again, and every page that comes anew is a fault: a good part of the CNN's
epoch (``benchmarks/training.py``).
"""

import ctypes

#: Of malloc.h. A larger threshold for mmap than 32 MiB is refused.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MMAP_FROM, _TRIM_FROM = 2**25, 2**30


def keep_freed_pages() -> None:
    """Let this process keep up to a gigabyte of what it frees; nothing where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _MMAP_FROM)
    mallopt(_M_TRIM_THRESHOLD, _TRIM_FROM)
