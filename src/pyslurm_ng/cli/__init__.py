"""The commands. Start-up is part of their interface: imports on demand, as few as possible."""
