"""What the cards of several methods declare alike; a method is a file in `methods/`."""
