"""slurmdbd: accounting in SQL, fed by the controllers' journals."""
