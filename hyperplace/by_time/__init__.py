"""The plan that takes least time on a cluster: candidates, judged by simulation, changed as long as they get faster."""
