"""What rocm-smi, amd-smi, nvidia-smi and the kernel say of GPUs, as values; one file a tool."""
