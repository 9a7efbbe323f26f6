"""``python -m fedsub``: the command line, where its program is not on the path."""

from fedsub.cli import main

main()
