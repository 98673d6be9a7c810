"""Requests over gRPC: what a receiver makes of one, and a worker on the loopback interface that receives them."""
