"""A fleet in virtual time: people with habits, devices and a server that are real."""
