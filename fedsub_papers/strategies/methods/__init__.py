"""The server halves of the methods: one short file a method."""
