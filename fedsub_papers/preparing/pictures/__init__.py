"""Sets of pictures that nobody knows the people of: their official parts are the clients."""
