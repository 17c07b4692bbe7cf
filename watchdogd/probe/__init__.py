"""The probe in a job script: it starts one sampler a node (job), which leaves samples in home (node).

Measured: two processes a job, 12 MB each, with 0.2 to 0.6 % of a core, beside what the GPU tool itself costs.
"""
