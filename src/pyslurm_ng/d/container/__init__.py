"""Containers of tasks: what stands between a task's process and its program, as the task's user."""
