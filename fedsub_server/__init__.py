"""The server process: ServerApp, the database of a run, its results."""
