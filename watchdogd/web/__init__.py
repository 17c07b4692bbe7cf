"""The page: what a home knows as one HTML file that needs no network, and the same live on loopback."""
