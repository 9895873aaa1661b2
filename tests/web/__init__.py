"""The web page in a real browser: Debian's Chromium, driven by Playwright, against the real server."""
