/* resume_output.c - recognises the run's own file at its output path: the state holds the file's
 * size, time and inode. They are a part of their own, which is changed in place once the trained
 * model has been written after the last state; so that part has its own checksum.
 *
 *   0  8  size          16  8  nanoseconds      32  4  CRC-32 of the bytes before
 *   8  8  seconds       24  8  inode            36  4  0
 *
 * All zeros: there is no file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/le.h"
#include "base/str.h"
#include "io/system.h"
#include "pg/resume.h"
#include "train/model/resume_file.h"
#include "train/model/resume_output.h"

/* The file, or the folder of shards in its place. */
static int look(const char *path, struct stat *sb)
{
    pg__str shards = {0};
    int there = stat(path, sb) == 0;
    if (!there && pg__str_printf(&shards, NULL, "%s.shards", path) == PG_OK)
        there = stat(shards.s, sb) == 0;
    pg__str_fini(&shards);
    return there;
}

void pg__output_mark(unsigned char out[PG_OUTPUT_BYTES], const char *path)
{
    struct stat sb;
    memset(out, 0, PG_OUTPUT_BYTES);
    if (!path || !look(path, &sb))
        return;
    pg__put_le(out, (uint64_t)sb.st_size, 8);
    pg__put_le(out + 8, (uint64_t)PG_MTIME(sb).tv_sec, 8);
    pg__put_le(out + 16, (uint64_t)PG_MTIME(sb).tv_nsec, 8);
    pg__put_le(out + 24, (uint64_t)sb.st_ino, 8);
    pg__put_le(out + 32, pg__crc32(0, out, 32), 4);
}

int pg_resume_owns(const char *resume_file, const char *output)
{
    unsigned char now[PG_OUTPUT_BYTES], kept[PG_OUTPUT_BYTES];
    uint64_t off, n;
    struct stat sb;
    if (!look(output, &sb))
        return 1;
    const int fd = open(resume_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const int found =
        fd >= 0 && pg__resume_file_find(resume_file, PG_RESUME_OUTPUT, &off, &n) == PG_OK &&
        n == sizeof kept && pread(fd, kept, sizeof kept, (off_t)off) == (ssize_t)sizeof kept;
    if (fd >= 0)
        close(fd);
    pg__output_mark(now, output);
    return found && memcmp(now, kept, sizeof kept) == 0;
}

/* If this fails, the file counts as not the run's own, which is safe. */
void pg__resume_wrote(const char *resume_file, const char *output)
{
    unsigned char mark[PG_OUTPUT_BYTES];
    uint64_t off, n;
    if (pg__resume_file_find(resume_file, PG_RESUME_OUTPUT, &off, &n) != PG_OK || n != sizeof mark)
        return;
    const int fd = open(resume_file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    pg__output_mark(mark, output);
    (void)!pwrite(fd, mark, sizeof mark, (off_t)off);
    close(fd);
}
