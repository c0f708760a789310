/* cb_backup_and_restore.c - Keras' BackupAndRestore: backup_dir, save_freq ("epoch" or batches),
 * delete_checkpoint. It uses the run's own resume file (resume.h), in that folder and at that
 * frequency: looked for at the start, removed at the end. Keras goes back to the last whole epoch
 * or save; here the run continues bit for bit. */
#include "base/mem.h"
#include "base/str.h"
#include "base/try.h"
#include "train/fit/callback.h"

typedef struct backup {
    size_t every; /* batches; 0: epochs */
    size_t n_seen;
} backup;

static pg_status open(void *self, pg__fit *f, pg__settings *s, pg_err *err)
{
    backup *b = self;
    const char *dir = NULL;
    int delete_it = 1, at_signals = 1;
    pg__str path = {0};
    pg_status st = PG_OK;
    PG_TRY(pg__settings_text(s, "backup_dir", &dir, err));
    PG_TRY(pg__settings_freq(s, "save_freq", &b->every, err));
    PG_TRY(pg__settings_flag(s, "delete_checkpoint", &delete_it, err));
    PG_TRY(pg__settings_flag(s, "save_before_preemption", &at_signals, err)); /* always on */
    if (!dir || *dir == '\0')
        PG_FAIL(PG_E_ARG, "BackupAndRestore: no backup_dir given");
    if (f->resume_file)
        PG_FAIL(PG_E_ARG, "BackupAndRestore: the run keeps its state in %s already",
                PG_SHOW(f->resume_file));
    PG_TRY(pg__str_printf(&path, err, "%s/resume.pg", dir));
    f->resume_file = path.s;
    path.s = NULL;
    f->resume = 2;
    const uint64_t n = pg__snapshot_bytes(f->t, 1);
    f->n_copied = n > f->n_copied ? n : f->n_copied;
    f->resume_ends = delete_it;
done:
    pg__str_fini(&path);
    return st;
}

static pg_status batch_end(void *self, pg__fit *f, const pg_logs *running, pg_err *err)
{
    backup *b = self;
    (void)running;
    (void)err;
    if (b->every > 0 && ++b->n_seen >= b->every) {
        b->n_seen = 0;
        f->keeps_state = 1;
    }
    return PG_OK;
}

static pg_status epoch_end(void *self, pg__fit *f, const pg_logs *logs, pg_err *err)
{
    const backup *b = self;
    (void)logs;
    (void)err;
    f->keeps_state |= b->every == 0;
    return PG_OK;
}

static void keep(void *self, pg__fit *f, pg__archive *a)
{
    backup *b = self;
    (void)f;
    pg__archive_size(a, &b->n_seen);
}

const pg__cb_type pg__cb_backup_and_restore = {.name = "BackupAndRestore",
                                               .n_bytes = sizeof(backup),
                                               .writes = 1,
                                               .open = open,
                                               .batch_end = batch_end,
                                               .epoch_end = epoch_end,
                                               .keep = keep};
