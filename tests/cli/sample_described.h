#ifndef SAMPLE_DESCRIBED_H
#define SAMPLE_DESCRIBED_H

#include "base/mem.h"
#include "image/image.h"

/* An image as a JSON file describes it:
 *
 *   {"target": "a", "arch": "sm_90a", "nvrtc": [13, 0], "stamp": "...", "group_cap": 0,
 *    "sm_count": 132, "smem_optin": 232448,
 *    "modules": [{"name": "m", "source": "m.cu", "constants": {"ROWS": 64}, "flags": ["-G"],
 *                 "cubins": ["x.cubin"], "entries": [ENTRY, ...]}],
 *    "levers": [{"name": "fast", "env": "FAST", "kind": 0, "on": true, "text": ""}],
 *    "absent": [["m", "g", "why"]]}
 *
 * An ENTRY is {"name": "e", "symbol": "e", "object": 0, "block": [256, 1, 1], "spill": 0,
 * "dynamic_smem": 512, "twin_of": "m:f", "bits": "same", "registers": 40, ...}.
 *
 * All but modules' names and cubins may be left out. Paths are the current folder's. The figures
 * of an entry are its cubin's unless they are given. A mistake ends the program. */
struct image describe_image(const char *path, struct arena *arena, size_t *out_group_cap);

#endif
