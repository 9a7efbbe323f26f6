/* The kernels for processors with 32 vectors of four floats, such as phones' (ARM's NEON). */
#define LANES 4
#define REGISTERS 32
#define ENTRY(name) fedsub_##name##_portable
#include "kernels.h"
