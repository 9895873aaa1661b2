"""The web page's server: what the page shows as data, who may see it, and the HTTP API around both."""
