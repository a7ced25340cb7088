"""Compiled parts beside `_select`: packed records, process start, and the pieces of the grid."""
