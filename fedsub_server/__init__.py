"""The server process: ServerApp and the database of a run."""
