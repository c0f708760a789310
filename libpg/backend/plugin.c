/* plugin.c - see plugin.h. Opening it again gives the same plug-in, so nothing has to be
 * remembered. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/env.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"

#define NAME "pg-cuda.so"
/* A Python package has it in a package of its own, which also brings NVIDIA's libraries. */
#define INSTALL "pip install pgfit-cuda13"
#ifdef __x86_64__ /* for other processors there is none */
#define IN_PACKAGE PG_PYTHON_PACKAGE
#else
#define IN_PACKAGE 0
#endif

typedef const pg__backend *(*get_fn)(uint32_t abi);

/* ---- where ---- */

static pg_status find(char out[PATH_MAX], const char *device, pg_err *err)
{
    const char *named = pg__env("PG_CUDA_PLUGIN");
    if (named && *named) {
        const int n = snprintf(out, PATH_MAX, "%s%s", strchr(named, '/') ? "" : "./", named);
        if (n < PATH_MAX && access(out, F_OK) == 0)
            return PG_OK;
        (void)pg_fail(err, PG_E_UNSUPPORTED, "%s: PG_CUDA_PLUGIN names %s, which does not exist",
                      device, PG_SHOW(named));
        pg_err_hint(err, "unset PG_CUDA_PLUGIN, where " NAME " is installed with libpg");
        return PG_E_UNSUPPORTED;
    }
    if (pg__find_beside(out, NAME, "backend/cuda"))
        return PG_OK;
    if (IN_PACKAGE) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "%s: the GPU part of libpg, " NAME
                      ", is missing: it comes as a Python package of its own",
                      device);
        pg_err_hint(err, INSTALL);
        return PG_E_UNSUPPORTED;
    }
    (void)pg_fail(err, PG_E_UNSUPPORTED,
                  "%s: the GPU part of libpg, " NAME
                  ", is missing: this libpg was built without CUDA, or the file was left out when "
                  "it was installed",
                  device);
    pg_err_hint(err, "meson configure build -Dcuda=enabled && ninja -C build install, or "
                     "PG_CUDA_PLUGIN=FOLDER/" NAME);
    return PG_E_UNSUPPORTED;
}

/* ---- what is missing ---- */

static const struct {
    const char *library, *package, *python;
} packages[] = {
    {"libcudnn.", "libcudnn9-cuda-12 or libcudnn9-cuda-13", "nvidia-cudnn-cu12 or -cu13"},
    {"libcublasLt.", "libcublas of the CUDA Toolkit", "nvidia-cublas"},
    {"libcublas.", "libcublas of the CUDA Toolkit", "nvidia-cublas"},
    {"libcudart.", "cuda-cudart of the CUDA Toolkit", "nvidia-cuda-runtime"},
};

/* The loader says "libcudnn.so.9: cannot open shared object file: ...". */
static pg_status why_not(const char *device, const char *path, const char *said, pg_err *err)
{
    const size_t n = strcspn(said, ":");
    for (size_t k = 0; k < sizeof packages / sizeof *packages; k++)
        if (strncmp(said, packages[k].library, strlen(packages[k].library)) == 0) {
            (void)pg_fail(err, PG_E_UNSUPPORTED,
                          "%s: the GPU part of libpg needs %.*s, which is missing: install %s (for "
                          "Python: %s)",
                          device, (int)n, said, packages[k].package, packages[k].python);
            pg_err_hint(err, IN_PACKAGE
                                 ? INSTALL
                                 : "set LD_LIBRARY_PATH if the loader does not search its folder");
            return PG_E_UNSUPPORTED;
        }
    return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s", device, said[0] ? said : path);
}

static pg_status ask(const pg__backend **out, void *lib, const char *device, const char *path,
                     pg_err *err)
{
    union {
        void *symbol;
        get_fn get;
    } u = {.symbol = dlsym(lib, "pg_backend_get")};
    const pg__backend *b;
    if (!u.symbol)
        return pg_fail(err, PG_E_UNSUPPORTED, "%s: %s is not part of libpg", device, PG_SHOW(path));
    b = u.get(PG_BACKEND_ABI);
    if (!b || b->abi != PG_BACKEND_ABI || b->size != sizeof *b) {
        (void)pg_fail(err, PG_E_UNSUPPORTED,
                      "%s: %s came with another version of libpg: install both from one package",
                      device, PG_SHOW(path));
        if (IN_PACKAGE)
            pg_err_hint(err, "pip install -U pgfit-cuda13");
        return PG_E_UNSUPPORTED;
    }
    *out = b;
    return PG_OK;
}

pg_status pg__plugin_cuda(const pg__backend **out, const char *device, pg_err *err)
{
    char *path = pg__mem_array(PATH_MAX, 1);
    const pg__shown shown = pg__show(device);
    const char *said;
    void *lib = NULL;
    pg_status st = PG_OK;
    if (!path)
        return pg__nomem(err);
    PG_TRY(find(path, shown.s, err));
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        said = dlerror();
        st = why_not(shown.s, path, said ? said : "", err);
        goto done;
    }
    st = ask(out, lib, shown.s, path, err);
    if (st != PG_OK)
        (void)dlclose(lib);
done:
    pg__mem_free(path);
    return st;
}
