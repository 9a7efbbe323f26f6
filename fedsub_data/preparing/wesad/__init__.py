"""WESAD: stress and affect, from the chest or the wrist."""
