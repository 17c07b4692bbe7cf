"""Parts that several built-in checks share."""
