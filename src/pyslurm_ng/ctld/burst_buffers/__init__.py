"""BurstBufferType=burst_buffer/lua: the site's functions, called beside the loop."""
