"""The simulator: the real writer, rules and scheduler under a virtual clock, with pretend nodes."""
