"""The web page's server: the data that the page shows, who may see it, and the HTTP API for both."""
