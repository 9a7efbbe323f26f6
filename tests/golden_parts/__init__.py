"""Parts of what a device computes, for tests of devices in other languages: proto/golden/parts.

``python -m tests.golden_parts`` writes the files anew.
"""
