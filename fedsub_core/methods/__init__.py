"""The table of methods: one card a method."""
