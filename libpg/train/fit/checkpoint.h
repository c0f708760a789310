/* checkpoint.h - the files of one ModelCheckpoint: which there are, and the one being written. */
#ifndef PG_TRAIN_FIT_CHECKPOINT_H
#define PG_TRAIN_FIT_CHECKPOINT_H

#include "train/fit/archive.h"
#include "train/model/model.h"

/* A file that was asked for. */
typedef struct pg__kept {
    char *name; /* as it was asked for */
    char *path; /* what is there: that file, or the folder of its shards; NULL: nothing */
    char *why;  /* the last attempt failed: the reason; else NULL */
    int is_best;
} pg__kept;

/* In the order of writing. */
typedef struct pg__kept_list {
    pg__kept *v;
    size_t n, cap;
} pg__kept_list;

void pg__kept_fini(pg__kept_list *l);
void pg__kept_archive(pg__kept_list *l, pg__archive *a);

/* A file was written (path), or could not be (why); it is the last one now. */
pg_status pg__kept_add(pg__kept_list *l, const char *name, const char *path, const char *why,
                       int is_best, pg_err *err);

/* Entries that must go so that `most` are left once `name` has been added; those that are no longer
 * there by name, the best one never. */
pg_status pg__kept_surplus(pg__strs *names, const pg__kept_list *l, const char *name, int is_best,
                           size_t most, pg_err *err);
const pg__kept *pg__kept_find(const pg__kept_list *l, const char *name);
void pg__kept_remove(pg__kept_list *l, const char *name);

/* One file on its way: filled in by the thread that trains, worked on by the writer's. */
typedef struct pg__checkpoint {
    pg_trainer *t;
    pg__snapshot *from;
    char *name;      /* of the file */
    size_t n_linked; /* of name: up to the folder, with its slash, where links are; PG_NONE: no
                        links */
    int is_best;
    pg__save_order order;
    pg__strs surplus, remove; /* names; the files and folders to remove for them */
    int had_folder;           /* files were written there before */
    /* What came of it. */
    pg__saved saved;
    int folder_was_gone;
    pg__strs told; /* what went wrong beside it */
} pg__checkpoint;

/* Folder, file, proof; then links move, and what is surplus is removed. */
pg_status pg__checkpoint_write(pg__checkpoint *c, pg_err *err);
void pg__checkpoint_free(pg__checkpoint *c);

#endif
