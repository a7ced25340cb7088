"""Usage by hour, day and month: what sreport adds up."""
