#!/bin/sh
# run.sh test|bench|sanitize: see run.py beside it.
exec python3 -B "$(dirname "$0")/run.py" "$@"
