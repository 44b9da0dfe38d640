#!/bin/sh
# docs/dev/pictures.sh - make pictures: the programs that draw, with settings that take seconds, into $BUILD/pictures
# The networks are small and trained briefly, so these show what a picture looks like, not how good a method is.
# ONLY=deeponet draws the pictures of one program. A program that fails ends the run with its message.
set -eu
BUILD=${BUILD:-build}
ONLY=${ONLY:-}
to=$BUILD/pictures
mkdir -p "$to"

# draw PROGRAM FILES options ...: FILES, for the last line, are those that the options name
draw() {
    program=$1 files=$2
    shift 2
    case $program in *"$ONLY"*) ;; *) return 0 ;; esac
    "$BUILD/$program" "$@" >"$to/$program.log" 2>&1 || { cat "$to/$program.log" >&2; exit 1; }
    for file in $files; do
        [ -s "$to/$file" ] || { echo "pictures: $program wrote no $file" >&2; exit 1; }
        echo "$to/$file"
    done
}

draw tdn 'tdn-energies.svg tdn-forces.svg' train --atoms 6 --clusters 60 --epochs 12 --steps 300 --width 8 --blocks 1 \
    --quiet --energies "$to/tdn-energies.svg" --forces "$to/tdn-forces.svg"
for problem in fisher darcy heat; do
    draw deeponet "deeponet-$problem.png" train --problem $problem --train 150 --test 4 --steps 600 --width 96 \
        --picture "$to/deeponet-$problem.png"
done
draw spiking_nerf spiking_nerf-view.png train --size 24 --image 48 --views 10 --test 1 --rough 200 --steps 200 \
    --batch 96 --picture "$to/spiking_nerf-view.png"
draw spiking_nerf spiking_nerf-energy.svg table --size 16 --image 24 --views 8 --test 1 --rough 100 --steps 60 \
    --batch 64 --hidden 64 --svg "$to/spiking_nerf-energy.svg"
draw operator operator-darcy.ppm train --problem darcy --train 64 --test 4 --epochs 6 --width 12 --blocks 2 \
    --picture "$to/operator-darcy.ppm"
draw wave wave.png train --size 32 --train 24 --test 2 --epochs 4 --width 8 --picture "$to/wave.png"
draw compress_net compress_net.svg --method dense --method magnitude --method gradual --keep 0.2 --keep 0.1 --seeds 1 \
    --epochs 8 --width 48 --svg "$to/compress_net.svg"
draw distserve distserve.svg goodput --requests 200 --seeds 1 --svg "$to/distserve.svg"
draw energon energon.svg examples/models/story.gguf --ranks 4 --texts 48 --svg "$to/energon.svg"
draw pipeline pipeline.svg --bubble --ranks 4 --micros 8 --unit 1 --svg "$to/pipeline.svg"
draw robust_nets robust_nets.svg --method magnitude --method snip --keep 0.2 --seeds 1 --epochs 8 \
    --svg "$to/robust_nets.svg"
draw search_net search_net.svg --method full --method uniform --method tas --samples 300 --epochs 4 --search 20 \
    --width 8 --stages 2 --svg "$to/search_net.svg"
draw meta_prune meta_prune.svg --nets 1 --tests 1 --samples 100 --epochs 2 --width 4 --hidden 4 --layers 1 --meta 2 \
    --before 1 --after 1 --svg "$to/meta_prune.svg"
draw onebyte onebyte.svg blobs --ranks 2 --samples 4 --steps 150 --svg "$to/onebyte.svg"
draw noloco noloco.svg --ranks 2 --steps 100 --inner 10 --svg "$to/noloco.svg"
draw moe_fold moe_fold.svg --ranks 4 --drop probs --skew 1.2 --width 32 --hidden 16 --svg "$to/moe_fold.svg"
draw zero_topo zero_topo.svg --links --svg "$to/zero_topo.svg"
draw zero_topo zero_topo-losses.svg --check --svg "$to/zero_topo-losses.svg"
