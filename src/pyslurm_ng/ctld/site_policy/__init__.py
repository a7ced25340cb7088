"""The site's scripts in the controller: their process, and the requests that wait for it."""
