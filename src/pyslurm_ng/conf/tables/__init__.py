"""Generated tables of keys; see tools/generate_conf_tables.py."""
