#!/bin/sh
# golden.sh FOLDER: prints the expected checksums of every operation, and of the models that the index of FOLDER or of
# tests/golden lists.
cat "${GOLDEN:-tests/golden/reference-checksums.txt}" &&
    cat "$1/index.tsv" tests/golden/oracle/llm/index.tsv |
    awk -F '\t' 'NR == FNR { if (NF < 15) named["model:" $1] = 1; next } { split($0, w, " ") } w[1] in named' - \
        tests/golden/model-checksums.txt
