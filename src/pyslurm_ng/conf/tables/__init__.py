"""Generated tables of keys; see tools/conf_tables.py."""
