"""A federation that is kept going for months: schedules, durable state, tokens, the audit log."""
