"""How the server takes what a round's people send: as it is, as a sum, or as a mean with noise."""
