"""What sreport asks for: usage that is stored by period, job sizes and reservations."""
