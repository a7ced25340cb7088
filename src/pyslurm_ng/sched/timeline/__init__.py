"""Free resources over time, by counts or node by node, and room for jobs in them."""
