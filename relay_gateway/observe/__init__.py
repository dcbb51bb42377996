"""What the gateway counts and measures, and how Prometheus gets to see it.

Requests are counted in plain integers; samples are made of them only when somebody asks.
"""
