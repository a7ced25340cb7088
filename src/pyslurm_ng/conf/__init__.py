"""Configuration files: text in, checked and typed values out, every error with its line."""
