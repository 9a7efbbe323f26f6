"""What a call of the command line gives, and what a refusal of it looks like."""

from collections.abc import Callable

#: Call `fedsub` with these arguments; exit code, standard output, standard error.
Call = Callable[..., tuple[int, str, str]]


def assert_refused(result: tuple[int, str, str], *words: str) -> None:
    """Exit code 2 and one line that holds `words`, whatever else."""
    code, out, err = result
    assert code == 2 and out.strip() == ""
    assert err.startswith("fedsub: ") and err.count("\n") == 1 and "Traceback" not in err
    for word in words:
        assert word in err, err
