"""Limits: counting what requests use, in this process, on this machine or in a shared store."""
