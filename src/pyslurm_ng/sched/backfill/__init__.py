"""The pass: the queue in its order, and the walk that starts jobs or keeps room for them."""
