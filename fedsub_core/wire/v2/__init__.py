"""Generated from proto/fedsub/v2 by proto/generate.sh; do not edit."""
