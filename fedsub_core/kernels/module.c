/* The module fedsub_kernels: an empty Python module, whose shared library library.py opens. */
#define PY_SSIZE_T_CLEAN
#if !defined(Py_GIL_DISABLED)
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include "processor.h"
#include "variants.h"

#ifndef FEDSUB_SOURCE
#define FEDSUB_SOURCE "unknown"
#endif

/* A digest of the sources, and for which instruction sets this processor can run the
 * kernels, the best one first. */
FEDSUB_VISIBLE const char *fedsub_kernels(void) {
    static const char *const offered[] = {
        FEDSUB_SOURCE " portable",
        FEDSUB_SOURCE " avx2 portable",
        FEDSUB_SOURCE " avx512 avx2 portable",
    };
    return offered[best_vectors()];
}

/* What must be as library.py has it: a library may be older or newer than the Python files. */
FEDSUB_VISIBLE int64_t fedsub_layout(void) {
    return sizeof(Layer) + 1000 * (sizeof(Samples) + 1000 * (sizeof(Steps) +
           1000 * (sizeof(Relevance) + 1000 * (int64_t)FEDSUB_LAYOUT)));
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fedsub_kernels", NULL, 0, NULL,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_fedsub_kernels(void) { return PyModule_Create(&module); }
