/* The module fedsub_kernels: an empty Python module, whose shared library chain.py opens. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "chain.h"

#if defined(_WIN32)
#define VISIBLE __declspec(dllexport)
#else
#define VISIBLE __attribute__((visibility("default")))
#endif

#ifndef FEDSUB_SOURCE
#define FEDSUB_SOURCE "unknown"
#endif

/* A digest of the sources, and for which instruction sets this processor can run the
 * kernels, the best one first. */
VISIBLE const char *fedsub_kernels(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const int two = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (two && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return FEDSUB_SOURCE " avx512 avx2 portable";
    return two ? FEDSUB_SOURCE " avx2 portable" : FEDSUB_SOURCE " portable";
#else
    return FEDSUB_SOURCE " portable";
#endif
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fedsub_kernels", NULL, 0, NULL,
                                    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_fedsub_kernels(void) { return PyModule_Create(&module); }
