"""When passes run, in which thread, and what becomes of their plans."""
