"""How long Flower's processes take to notice that another has died: a minute, here 30 s.

``FEDSUB_FLOWER_PATIENCE=1`` leaves them their minute, which docs/deployment.md's figures are of.
"""

import os
from pathlib import Path

#: Whether they take as long as Flower's do.
PATIENT = os.environ.get("FEDSUB_FLOWER_PATIENCE", "0") != "0"
#: What stands on the PYTHONPATH of those that shall not.
PATH = () if PATIENT else (str(Path(__file__).with_name("quick_heartbeats")),)
