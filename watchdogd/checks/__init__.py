"""Parts that several built-in checks share, one noun a file."""
