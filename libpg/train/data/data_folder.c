/* data_folder.c - pictures in folders: one subfolder for each class, ordered by name, as in
 * tf.keras.utils.image_dataset_from_directory(). A picture is read, decoded and resized to the
 * model's input when its row is read; values stay 0 to 255. A folder without subfolders gives
 * pictures without classes, for predictions. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "io/folder.h"
#include "io/image.h"
#include "train/data/data_impl.h"

typedef struct folder {
    pg__strs files;   /* paths */
    int32_t *classes; /* of each */
    size_t cap_classes;
    pg__strs names; /* of the classes */
    size_t n_loose; /* pictures beside the folders of the classes, which belong to none */
    char *loose;    /* the first of them */
    char *deep;     /* the first folder with pictures below that of a class; NULL: none */
    size_t height, width, channels;
    size_t n_root; /* length of the part of a path up to the folder */
    int nearest;
} folder;

/* ---- what is there ---- */

static int ends_with_any(const char *name, const char *const *suffixes)
{
    const size_t n = strlen(name);
    for (; *suffixes; suffixes++) {
        const size_t k = strlen(*suffixes);
        if (n > k && strcasecmp(name + n - k, *suffixes) == 0)
            return 1;
    }
    return 0;
}

/* Lists a folder, sorted: folders and pictures separately; ignores other files. */
static pg_status list_folder(const char *path, pg__strs *folders, pg__strs *pictures, pg_err *err)
{
    static const char *const read[] = {".png", ".jpg", ".jpeg", NULL};
    static const char *const known[] = {".bmp", ".gif", NULL};
    struct stat info;
    const struct dirent *e;
    int sys;
    pg_status st = PG_OK;
    DIR *dir = pg__folder_list(path);
    if (!dir)
        return pg_fail_sys(err, PG_E_IO, errno, "%s", PG_SHOW(path));
    while ((e = pg__folder_next(dir, &sys))) {
        if (e->d_name[0] == '.')
            continue;
        pg__strs *to = ends_with_any(e->d_name, read) ? pictures : NULL;
        if (fstatat(dirfd(dir), e->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode))
            to = folders;
        else if (ends_with_any(e->d_name, known))
            PG_FAIL(PG_E_UNSUPPORTED, "%s/%s: only PNG and JPEG pictures are read", PG_SHOW(path),
                    PG_SHOW(e->d_name));
        if (to)
            PG_TRY(pg__strs_printf(to, err, "%s/%s", path, e->d_name));
    }
    if (sys)
        st = pg_fail_sys(err, PG_E_IO, sys, "%s", PG_SHOW(path));
    pg__strs_sort(folders);
    pg__strs_sort(pictures);
done:
    (void)closedir(dir);
    return st;
}

static pg_status add_pictures(folder *f, const pg__strs *pictures, int32_t class_of, pg_err *err)
{
    pg_status st = PG_OK;
    if (pg__mem_grow(&f->classes, &f->cap_classes, f->files.n + pictures->n, sizeof *f->classes))
        return pg__nomem(err);
    for (size_t i = 0; i < pictures->n; i++) {
        f->classes[f->files.n] = class_of;
        PG_TRY(pg__strs_add(&f->files, pictures->v[i], strlen(pictures->v[i]), err));
    }
done:
    return st;
}

static size_t depth_of(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

/* All pictures of a class, folder by folder in the order of paths, like a sorted os.walk(). */
static pg_status add_class(folder *f, const char *root, int32_t class_of, pg_err *err)
{
    pg__strs folders = {0}, pictures = {0}, found = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__strs_add(&folders, root, strlen(root), err));
    for (size_t i = 0; i < folders.n; i++) { /* the list grows meanwhile */
        pg__strs_fini(&pictures);
        pg__strs_fini(&found);
        PG_TRY(list_folder(folders.v[i], &found, &pictures, err));
        if (found.n > 0 && depth_of(folders.v[i]) > depth_of(root) + PG_LIMIT_FOLDERS)
            PG_FAIL(PG_E_LIMIT, "%s: folders are too deep", PG_SHOW(folders.v[i]));
        for (size_t k = 0; k < found.n; k++)
            PG_TRY(pg__strs_add(&folders, found.v[k], strlen(found.v[k]), err));
    }
    pg__strs_sort(&folders);
    for (size_t i = 0; i < folders.n; i++) {
        pg__strs_fini(&pictures);
        pg__strs_fini(&found);
        PG_TRY(list_folder(folders.v[i], &found, &pictures, err));
        PG_TRY(add_pictures(f, &pictures, class_of, err));
        if (pictures.n > 0 && !f->deep && strcmp(folders.v[i], root) != 0 &&
            !(f->deep = pg__mem_strdup(folders.v[i])))
            PG_TRY(pg__nomem(err));
    }
done:
    pg__strs_fini(&folders);
    pg__strs_fini(&pictures);
    pg__strs_fini(&found);
    return st;
}

static void close_folder(void *state)
{
    folder *f = state;
    pg__strs_fini(&f->files);
    pg__strs_fini(&f->names);
    pg__mem_free(f->classes);
    pg__mem_free(f->deep);
    pg__mem_free(f->loose);
    pg__mem_free(f);
}

static pg_status open_folder(pg_data *d, pg__io *io, const char *path, void **state, pg_err *err)
{
    pg__strs pictures = {0};
    pg_status st = PG_OK;
    folder *f = pg__mem_array(1, sizeof *f);
    (void)d, (void)io;
    if (!f)
        return pg__nomem(err);
    *state = f;
    f->n_root = strlen(path) + 1;
    PG_TRY(list_folder(path, &f->names, &pictures, err));
    for (size_t k = 0; k < f->names.n; k++)
        PG_TRY(add_class(f, f->names.v[k], (int32_t)k, err));
    if (f->names.n == 0)
        PG_TRY(add_pictures(f, &pictures, 0, err));
    else if ((f->n_loose = pictures.n) > 0 && !(f->loose = pg__mem_strdup(pictures.v[0])))
        PG_TRY(pg__nomem(err));
    if (f->files.n == 0)
        PG_FAIL(PG_E_MISMATCH, "%s: holds no PNG or JPEG pictures", PG_SHOW(path));
done:
    pg__strs_fini(&pictures);
    return st;
}

/* ---- resizing ---- */

/* tf.image.resize() without antialiasing: centres of pixels are at halves. */
static void resize_nearest(const folder *f, const pg__image *from, float *to)
{
    const float sy = (float)from->height / (float)f->height;
    const float sx = (float)from->width / (float)f->width;
    for (size_t y = 0; y < f->height; y++) {
        const size_t iy = (size_t)fminf(floorf(((float)y + 0.5f) * sy), (float)from->height - 1);
        for (size_t x = 0; x < f->width; x++) {
            const size_t ix = (size_t)fminf(floorf(((float)x + 0.5f) * sx), (float)from->width - 1);
            for (size_t c = 0; c < f->channels; c++)
                *to++ = from->pixels[(iy * from->width + ix) * f->channels + c];
        }
    }
}

/* The two neighbours of a position between pixels, and its distance from the first. */
typedef struct between {
    size_t low, high;
    float share;
} between;

static between place(size_t at, float scale, size_t n)
{
    const float in = ((float)at + 0.5f) * scale - 0.5f, floor_of = floorf(in);
    between b = {0, 0, in - floor_of};
    b.low = floor_of > 0 ? (size_t)floor_of : 0;
    b.high = in > 0 ? (size_t)ceilf(in) : 0;
    b.high = b.high < n ? b.high : n - 1;
    b.low = b.low < n ? b.low : n - 1;
    return b;
}

static void resize_bilinear(const folder *f, const pg__image *from, float *to)
{
    const float sy = (float)from->height / (float)f->height;
    const float sx = (float)from->width / (float)f->width;
    const size_t ch = f->channels, w = from->width;
    for (size_t y = 0; y < f->height; y++) {
        const between by = place(y, sy, from->height);
        const unsigned char *top = from->pixels + by.low * w * ch;
        const unsigned char *bottom = from->pixels + by.high * w * ch;
        for (size_t x = 0; x < f->width; x++) {
            const between bx = place(x, sx, w);
            for (size_t c = 0; c < ch; c++) {
                const float tl = top[bx.low * ch + c], tr = top[bx.high * ch + c];
                const float bl = bottom[bx.low * ch + c], br = bottom[bx.high * ch + c];
                const float t = tl + (tr - tl) * bx.share, b = bl + (br - bl) * bx.share;
                *to++ = t + (b - t) * by.share;
            }
        }
    }
}

/* ---- rows ---- */

static pg_status read_picture(const folder *f, const char *path, float *to, pg_err *err)
{
    pg__image image = {.pixels = NULL};
    pg__io *io = NULL;
    unsigned char *bytes = NULL;
    pg_status st = PG_OK;
    PG_TRY(pg__io_open(&io, path, err)); /* its message names the file */
    const uint64_t n = pg__io_size(io);
    st =
        n > PG_LIMIT_PICTURE_BYTES ? pg_fail(err, PG_E_LIMIT, "is too large for a picture") : PG_OK;
    if (st == PG_OK && !(bytes = pg__mem_array((size_t)n, 1)))
        st = pg__nomem(err);
    if (st == PG_OK)
        st = pg__io_read(io, 0, bytes, (size_t)n, err);
    if (st == PG_OK)
        st = pg__image_decode(&image, bytes, (size_t)n, f->channels, err);
    if (st != PG_OK) {
        pg_err_prefix(err, PG_SHOW(path));
        goto done;
    }
    if (f->nearest)
        resize_nearest(f, &image, to);
    else
        resize_bilinear(f, &image, to);
done:
    pg__mem_free(image.pixels);
    pg__mem_free(bytes);
    pg__io_close(io);
    return st;
}

static pg_status read_pictures(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                               pg_err *err)
{
    const folder *f = a->self;
    const size_t each = f->height * f->width * f->channels;
    pg_status st = PG_OK;
    for (uint64_t i = 0; i < n && st == PG_OK; i++)
        st = read_picture(f, f->files.v[first + i], (float *)raw + i * each, err);
    return st;
}

static const char *file_of(const pg__array *a, uint64_t row, const char **name)
{
    const folder *f = a->self;
    *name = f->files.v[row] + f->n_root;
    return f->files.v[row];
}

static pg_status read_classes(const pg__array *a, uint64_t first, uint64_t n, void *raw,
                              pg_err *err)
{
    const folder *f = a->self;
    (void)err;
    memcpy(raw, f->classes + first, (size_t)n * sizeof *f->classes);
    return PG_OK;
}

/* ---- classes ---- */

static const char *class_name(const folder *f, size_t k)
{
    return strrchr(f->names.v[k], '/') + 1;
}

/* Counts the pictures of each class. */
static pg_status count(size_t **out, const folder *f, pg_err *err)
{
    size_t *n = pg__mem_array(f->names.n, sizeof *n);
    if (!n)
        return pg__nomem(err);
    for (size_t i = 0; i < f->files.n; i++)
        n[f->classes[i]]++;
    *out = n;
    return PG_OK;
}

/* Otherwise any folder that happens to contain pictures somewhere would train. */
static pg_status check_classes(const pg_data *d, const folder *f, const size_t *n, pg_err *err)
{
    for (size_t k = 0; k < f->names.n; k++) {
        if (n[k] > 0)
            continue;
        (void)pg_fail(err, PG_E_MISMATCH, "the folder of class \"%s\" holds no pictures",
                      PG_SHOW(class_name(f, k)));
        pg_err_detail(err, "%s", pg_data_note(d, 0));
        pg_err_set(err, "any_classes", "%s", "");
        return PG_E_MISMATCH;
    }
    if (!f->deep)
        return PG_OK;
    (void)pg_fail(err, PG_E_MISMATCH,
                  "%s holds pictures; classes are the subfolders, with pictures "
                  "directly in them",
                  PG_SHOW(f->deep));
    pg_err_detail(err, "%s", pg_data_note(d, 0));
    pg_err_set(err, "any_classes", "%s", "");
    return PG_E_MISMATCH;
}

static pg_status note_classes(pg_data *d, const folder *f, const size_t *n, pg_err *err)
{
    enum { SHOWN = 20 };
    pg__str text = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__str_printf(&text, err, "%s: %zu class%s of pictures:", PG_SHOW(d->path), f->names.n,
                          f->names.n == 1 ? "" : "es"));
    for (size_t k = 0; k < f->names.n && k < SHOWN; k++)
        PG_TRY(pg__str_printf(&text, err, "%s %s %zu", k > 0 ? "," : "", PG_SHOW(class_name(f, k)),
                              n[k]));
    if (f->names.n > SHOWN)
        PG_TRY(pg__str_printf(&text, err, ", and %zu more", f->names.n - SHOWN));
    PG_TRY(pg__strs_add(&d->notes, text.s, text.n, err));
done:
    pg__str_fini(&text);
    return st;
}

static pg_status note_loose(pg_data *d, const folder *f, pg_err *err)
{
    if (f->n_loose == 0)
        return PG_OK;
    return pg__data_note(
        d, err, "%s: %zu picture%s beside the folders of the classes %s left out (%s%s)",
        PG_SHOW(d->path), f->n_loose, f->n_loose == 1 ? "" : "s", f->n_loose == 1 ? "is" : "are",
        PG_SHOW(strrchr(f->loose, '/') + 1), f->n_loose > 1 ? ", ..." : "");
}

static const folder *folder_of(const pg_data *d)
{
    return d->n_parts == 1 && d->parts[0].source == &pg__source_folder ? d->parts[0].state : NULL;
}

pg_status pg__folder_same_classes(const pg_data *train, const pg_data *val, pg_err *err)
{
    const folder *a = folder_of(train), *b = folder_of(val);
    if (!a || !b)
        return PG_OK;
    for (size_t k = 0; k < a->names.n || k < b->names.n; k++) {
        const char *one = k < a->names.n ? class_name(a, k) : NULL;
        const char *other = k < b->names.n ? class_name(b, k) : NULL;
        const int order = !one ? 1 : !other ? -1 : strcmp(one, other);
        if (order == 0)
            continue;
        /* Names are sorted: the smaller one of the first two that differ is nowhere else. */
        const pg_data *has = order < 0 ? train : val, *lacks = order < 0 ? val : train;
        return pg_fail(
            err, PG_E_MISMATCH,
            "%s: has no folder of class \"%s\", which %s has; both need the same classes",
            PG_SHOW(lacks->path), PG_SHOW(order < 0 ? one : other), PG_SHOW(has->path));
    }
    return PG_OK;
}

/* ---- for a model ---- */

static pg_status bind_folder(pg_data *d, void *state, const pg__ends *e, pg_err *err)
{
    folder *f = state;
    const pg__dims *reshape = pg__data_reshape(d);
    const pg__dims want = reshape && reshape->rank == 4 ? *reshape : e->input_dims[0];
    pg__array x = {
        .dtype = PG_F32, .names_files = 1, .read = read_pictures, .self = f, .file_of = file_of};
    pg__array y = {.dtype = PG_I32,
                   .is_class = 1,
                   .n_classes = f->names.n,
                   .dims = {1, {f->files.n}},
                   .read = read_classes,
                   .self = f};
    pg_status st = PG_OK;
    size_t *n = NULL;
    pg__data_drop(d);
    if (e->n_inputs != 1 || want.rank != 4)
        PG_FAIL(PG_E_MISMATCH,
                "pictures are for a model with one input of height, width, channels");
    if (want.d[1] == PG_DIM_ANY || want.d[2] == PG_DIM_ANY || want.d[3] == PG_DIM_ANY) {
        (void)pg_fail(err, PG_E_MISMATCH, "the model does not say the size of its pictures");
        pg_err_set(err, "reshape", "224,224,3");
        return PG_E_MISMATCH;
    }
    if (want.d[3] != 1 && want.d[3] != 3 && want.d[3] != 4)
        PG_FAIL(PG_E_MISMATCH, "pictures have 1, 3 or 4 channels, the model asks for %llu",
                (unsigned long long)want.d[3]);
    f->height = (size_t)want.d[1];
    f->width = (size_t)want.d[2];
    f->channels = (size_t)want.d[3];
    f->nearest = pg__data_is_nearest(d);
    x.dims = want;
    x.dims.d[0] = f->files.n;
    if (!(x.key = pg__mem_strdup("x0")))
        return pg__nomem(err);
    PG_TRY(pg__data_add(d, &x, err));
    if (f->names.n == 0 && e->targeted)
        PG_FAIL(PG_E_MISMATCH,
                "holds %zu picture%s and no folders; each class needs a folder of its own",
                f->files.n, f->files.n == 1 ? "" : "s");
    if (f->names.n == 0)
        goto done;
    if (e->targeted) {
        PG_TRY(count(&n, f, err));
        PG_TRY(note_classes(d, f, n, err));
        if (!d->any_classes)
            PG_TRY(check_classes(d, f, n, err));
    }
    PG_TRY(note_loose(d, f, err));
    if (!(y.key = pg__mem_strdup("y0")))
        return pg__nomem(err);
    PG_TRY(pg__data_add(d, &y, err));
done:
    pg__mem_free(n);
    return st;
}

/* Never claims files: data.c chooses it for folders. */
static int claims(const unsigned char *head, size_t n)
{
    (void)head, (void)n;
    return 0;
}

const pg__source pg__source_folder = {.name = "folder",
                                      .claims = claims,
                                      .open = open_folder,
                                      .bind = bind_folder,
                                      .close = close_folder};
