"""Who may read what a deployment leaves."""

from pathlib import Path

#: Made to be shown.
SHOWN = {".crt", ".pem", ".pub"}


def assert_private(folder: Path) -> None:
    """Nobody but the owner reads anything in `folder`, but for what is shown and the Flower app."""
    for path in (folder, *folder.rglob("*")):
        shown = path.suffix in SHOWN or path.is_relative_to(folder / "app")
        assert shown or path.is_symlink() or path.stat().st_mode & 0o077 == 0, path
