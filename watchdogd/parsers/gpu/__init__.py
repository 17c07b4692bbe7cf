"""GPU tools and the kernel log as values, one file a tool."""
