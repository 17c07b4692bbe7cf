"""What the built-in checks share: the longer parts of them, one noun a file. Plugins alone use it."""
