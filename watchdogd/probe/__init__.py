"""Probe in a job script: it starts one sampler a node (`job`), which leaves samples in home (`node`).

Each of the two processes took 12 MB of memory and 0.7 % of a core at most in its first 70 s, start included
(a sample every 30 s; 145 processes on the node; a GPU tool's own cost comes on top).
"""
