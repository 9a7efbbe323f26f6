"""UCI HAR: smartphones on the waist."""
