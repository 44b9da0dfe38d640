#!/bin/sh
# golden.sh FOLDER: the checksums that are expected: of every operation, and of the models that the folder's index names.
cat "${GOLDEN:-tests/golden/reference-checksums.txt}" &&
    awk -F '\t' 'NR == FNR { named["model:" $1] = 1; next } { split($0, w, " ") } w[1] in named' "$1/index.tsv" tests/golden/model-checksums.txt
