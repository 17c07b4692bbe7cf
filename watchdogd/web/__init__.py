"""The page: what a home knows, as one HTML file that needs no network, or live on loopback."""
