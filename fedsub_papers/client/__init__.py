"""What runs on devices: halves of the methods, and what several of them share."""
