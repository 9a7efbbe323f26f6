"""The seam to Flower's private parts: no other room imports, replaces or names them.

Public are `flwr.app`, `flwr.clientapp`, `flwr.serverapp` and, for `NumPyClient`, `flwr.client`:
they are the same in 1.39 and in 1.42. What moves between releases stands here, by process.
"""
