/* The kernels, for vectors of LANES floats, of which REGISTERS are at hand; included by one file
 * for each instruction set.
 *
 * A block of samples lies in panels of WIDTH of them: values of a layer are [panels, channels,
 * length, WIDTH], samples last. So products, forward and backward, multiply one weight with two
 * vectors of samples, and a convolution is one with other vectors at each position. Gradients of
 * weights sum over samples: a fully connected layer's take samples as lines for that, a
 * convolution's add vectors up over positions first. Every sum has one order, and fused
 * multiply-adds: all instruction sets give the same bits, whoever shares the stack.
 */
#include "vectors.h"
/* In this order: each builds on those before it. */
#include "layers.h"
#include "bounds.h"
#include "blocks.h"
#include "gradients.h"
#include "elementary.h"
#include "descent.h"
#include "relevance.h"
#include "encoder.h"
#include "spectrum.h"
#include "statistics.h"
#include "sums.h"
