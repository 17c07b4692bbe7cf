"""The GPUs of a run: looked at on all its nodes (look), judged singly (faults) and together (together)."""
