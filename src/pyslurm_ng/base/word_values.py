"""The words of slurm.conf for yes and no, in small letters."""

TRUE_WORDS = ("yes", "true", "1", "up", "on")
FALSE_WORDS = ("no", "false", "0", "down", "off")
