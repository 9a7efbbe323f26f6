"""Generated from proto/fedsub/v1 by proto/generate.sh; do not edit."""
