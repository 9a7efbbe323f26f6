"""The wire: messages as bytes, after the schema in proto/."""
