"""What nodes say: registrations, reports, silence."""
