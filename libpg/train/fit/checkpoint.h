/* checkpoint.h - the files of one ModelCheckpoint: those that exist, and the one being written. */
#ifndef PG_TRAIN_FIT_CHECKPOINT_H
#define PG_TRAIN_FIT_CHECKPOINT_H

#include "train/fit/archive.h"
#include "train/model/model.h"

/* A requested file. */
typedef struct pg__kept {
    char *name; /* as requested */
    char *path; /* the file written, or the folder of its shards; NULL: nothing */
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

/* Records a file that was written (path) or could not be (why), as the last one. */
pg_status pg__kept_add(pg__kept_list *l, const char *name, const char *path, const char *why,
                       int is_best, pg_err *err);

/* Entries to remove so that `most` are left once `name` has been added; never the best one. */
pg_status pg__kept_surplus(pg__strs *names, const pg__kept_list *l, const char *name, int is_best,
                           size_t most, pg_err *err);
const pg__kept *pg__kept_find(const pg__kept_list *l, const char *name);
void pg__kept_remove(pg__kept_list *l, const char *name);

/* A file being written: the training thread fills this in, the writer's thread works on it. */
typedef struct pg__checkpoint {
    pg_trainer *t;
    pg__snapshot *from;
    char *name;      /* of the file */
    size_t n_linked; /* length of the part of name that is the links' folder, with its slash;
                        PG_NONE: no links */
    int is_best;
    pg__save_order order;
    pg__strs surplus, remove; /* names to drop; their files and folders */
    int had_folder;           /* files were written there before */
    /* The outcome. */
    pg__saved saved;
    int folder_was_gone;
    pg__strs reported; /* failures other than the file's */
} pg__checkpoint;

/* Makes the folder, writes and proves the file, moves links, then removes surplus files. */
pg_status pg__checkpoint_write(pg__checkpoint *c, pg_err *err);
void pg__checkpoint_free(pg__checkpoint *c);

#endif
