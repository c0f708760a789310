/* resume_output.h - recognises the run's own file at its output path. */
#ifndef PG_TRAIN_MODEL_RESUME_OUTPUT_H
#define PG_TRAIN_MODEL_RESUME_OUTPUT_H

#define PG_OUTPUT_BYTES 40

/* Identifies the file that is there now, if any; path may be NULL. */
void pg__output_mark(unsigned char out[PG_OUTPUT_BYTES], const char *path);
/* Records that the trained model was written there, after the run's last state. */
void pg__resume_wrote(const char *resume_file, const char *output);

#endif
