"""What ``import fedsub`` offers, in the files of this folder; their names are not public."""
