/* src/gnn/tinygnn.c - for the stitched form, the bodies of src/gnn that have no header of their own */
#include "gnn/tinygnn.h"
