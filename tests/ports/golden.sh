#!/bin/sh
# golden.sh FOLDER: the checksums that are expected: of every operation, and of the models that the index of the folder or that of tests/golden names.
cat "${GOLDEN:-tests/golden/reference-checksums.txt}" &&
    cat "$1/index.tsv" tests/golden/oracle/llm/index.tsv |
    awk -F '\t' 'NR == FNR { if (NF < 15) named["model:" $1] = 1; next } { split($0, w, " ") } w[1] in named' - tests/golden/model-checksums.txt
