"""How a run, a deployment or a study is doing, read from its folder alone."""
