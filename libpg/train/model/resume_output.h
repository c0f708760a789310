/* resume_output.h - which file at a run's output is its own. */
#ifndef PG_TRAIN_MODEL_RESUME_OUTPUT_H
#define PG_TRAIN_MODEL_RESUME_OUTPUT_H

#define PG__OUTPUT_BYTES 40

/* Of the file that is there now, if there is one; path may be NULL. */
void pg__output_mark(unsigned char out[PG__OUTPUT_BYTES], const char *path);
/* The trained model was written there, behind the run's last state. */
void pg__resume_wrote(const char *resume_file, const char *output);

#endif
