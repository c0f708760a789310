/* pgfit_demo.c - --demo: a small model and its data that come with the project. They lie beside the
 * program in a build folder, and in the data folder of an installation. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "pgfit.h"

static char model[PATH_MAX + 64], data[PATH_MAX + 64];

static int is_there(const char *folder)
{
    snprintf(model, sizeof model, "%.*s/digits/digits.json", PATH_MAX, folder);
    snprintf(data, sizeof data, "%.*s/digits/digits.npz", PATH_MAX, folder);
    return access(model, R_OK) == 0 && access(data, R_OK) == 0;
}

static int find_files(void)
{
    char self[PATH_MAX], folder[PATH_MAX + 32];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash) {
        *slash = '\0';
        snprintf(folder, sizeof folder, "%s/../share/libpg", self);
        if (is_there(self) || is_there(folder))
            return 1;
    }
    return is_there(PG_DATADIR);
}

/* Sets every option that was not given. */
pg_status fit_take_demo(pg_err *err)
{
    if (!fit_args.demo)
        return PG_OK;
    if (!find_files())
        return pg_fail(err, PG_E_IO, "--demo digits: found no files in %s/digits", PG_DATADIR);
    if (fit_args.train.model || fit_args.data)
        return pg_fail(err, PG_E_ARG, "--demo brings its own model and data");
    fit_args.train.model = model;
    fit_args.data = data;
    fit_args.validation = data;
    if (!fit_args.train.loss)
        fit_args.train.loss = "sparse_categorical_crossentropy";
    if (!fit_args.train.metrics)
        fit_args.train.metrics = "accuracy";
    if (!fit_args.train.optimizer && !fit_args.train.optimizer_json)
        fit_args.train.optimizer = "adam";
    fit_set_where_open("epochs", "20");
    fit_set_where_open("batch-size", "64");
    fit_args.demo = NULL; /* from here on a run like any other */
    fit_args.is_demo = 1;
    return PG_OK;
}
