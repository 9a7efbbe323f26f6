"""Models as papers and their code have them, each checked for its number of parameters."""
