"""The command ``relay-gateway``: one thin module for each command or group of commands.

Modules load what they need inside their functions, so that ``--help`` answers at once.
"""
