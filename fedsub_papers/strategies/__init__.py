"""What runs on the server: halves of the methods, and what several of them share."""
