"""Requests as each engine's gRPC server takes them: what it needs, where it needs it, and nothing else."""
