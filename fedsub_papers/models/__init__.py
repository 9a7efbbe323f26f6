"""Models with exits, pools of sub-models, and parts that messages name."""
