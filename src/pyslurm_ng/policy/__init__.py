"""A site's own policy: scripts that see requests for jobs and may change or refuse them.

What a script sees (`job_fields`), how scripts in Lua and Python are loaded and called, and the
process in which slurmctld runs them (`worker`). See ADR 0081.
"""
