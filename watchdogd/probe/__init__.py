"""The probe in a job script: it starts one sampler a node (job), which leaves samples in home (node).

Each of the two processes held 12 MB of its own and took at most 0.7 % of a core in its first 70 s, start
included (every 30 s; 145 processes on the node, no GPU tool, whose own cost comes on top).
"""
