"""The device halves of the methods: one short file a method."""
