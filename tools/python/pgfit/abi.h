/* abi.h - what of the C API this package calls, as <pg/pg.h> declares it, without its comments.
 *
 * _abi.py makes ctypes of it. tests/python/abi.py has the C compiler compare both: sizes, offsets,
 * values and prototypes. */
/* clang-format off */
#define PG_MAX_RANK 8
#define PG_STATS_BINS 8
enum pg_status {
    PG_OK = 0, PG_E_ARG, PG_E_NOMEM, PG_E_IO, PG_E_FORMAT, PG_E_LIMIT, PG_E_UNSUPPORTED, PG_E_UNKNOWN, PG_E_NO,
    PG_E_AMBIGUOUS, PG_E_MISMATCH, PG_E_CANCELLED, PG_E_DEVICE, PG_E_PEER
};
enum pg_do {
    PG_DO_NOTHING = 0, PG_DO_SET, PG_DO_GIVE, PG_DO_UNWRAP, PG_DO_UNWRAP_TEMPLATE, PG_DO_WRAP, PG_DO_JOIN,
    PG_DO_CONVERT, PG_DO_COPY, PG_DO_COMPARE_BY_ORDER, PG_DO_GIVE_MODEL, PG_DO_CHOOSE_FORMAT, PG_DO_CHOOSE_PART,
    PG_DO_OVERWRITE, PG_DO_IN_PLACE, PG_DO_WRITE_NEW, PG_DO_REPACK, PG_DO_LEAVE_OUT, PG_DO_LARGER_SHARDS,
    PG_DO_SMALLER_BATCH, PG_DO_CHOOSE_DATA, PG_DO_USE_TEST_SET, PG_DO_RESUME, PG_DO_START_AFRESH, PG_DO_LIST_LAYERS,
    PG_DO_RENAME, PG_DO_USE_GPU, PG_DO_LAUNCH, PG_DO_LAUNCH_RANKS, PG_DO_RANK_PER_GPU, PG_DO_MEASURE_LINK,
    PG_DO_BUILD_WITH_MPI, PG_N_DO
};
struct pg_action {
    pg_do what; unsigned n_bytes; char args[632];
};
struct pg_err {
    pg_status code; int sys; char msg[512]; char hint[512]; char detail[1024]; pg_action action;
};
struct pg_progress {
    void (*tell)(void *ctx, uint64_t n_done, uint64_t n_total); void *ctx; uint64_t n_done, n_total; int busy;
};
enum pg_dtype {
    PG_F16, PG_BF16, PG_F32, PG_F64, PG_I8, PG_I16, PG_I32, PG_I64, PG_U8, PG_U16, PG_U32, PG_U64, PG_BOOL,
    PG_F8_E4M3, PG_F8_E5M2
};
struct pg_weight {
    const char *name; size_t layer; pg_dtype dtype; uint32_t rank; uint64_t dims[PG_MAX_RANK]; uint64_t n_bytes;
};
struct pg_pieces { uint64_t n; uint32_t axes; };
struct pg_rank_count { const char *kind; uint64_t n; };
struct pg_layer {
    const char *name; size_t first; size_t n_weights;
};
struct pg_open_opts {
    int salvage; const char *part; const char *rules; size_t n_threads;
};
struct pg_part {
    const char *path; const char *kind; uint64_t n_tensors, n_params; int is_model;
};
enum pg_text {
    PG_TEXT_MODEL_CONFIG, PG_TEXT_TRAINING_CONFIG, PG_TEXT_METADATA
};
struct pg_stats {
    double min, max, mean, std; uint64_t n, n_zero, n_nan, n_inf; uint64_t bins[PG_STATS_BINS]; uint32_t crc32;
};
struct pg_stats_opts {
    pg_progress *progress; const volatile int *cancel;
};
enum pg_verdict {
    PG_V_UNKNOWN, PG_V_SINGLE, PG_V_WRAPPER, PG_V_NESTED, PG_V_AMBIGUOUS, PG_V_DAMAGED, PG_V_NO_WEIGHTS
};
struct pg_finding {
    pg_verdict verdict; const char *recogniser; int certain; size_t replicas; char *template_name; char *reason; char
    **evidence; size_t n_evidence; char **slices, **merges; size_t n_slices, n_merges; char *unsettled; pg_action
    next; char *index;
};
struct pg_param_counts {
    int known; uint64_t trainable, non_trainable;
};
struct pg_write_opts {
    int force; int dry_run; int no_sync; int skip_verify; const char *part; const char *rules; size_t n_threads; int sha256; int in_place; const volatile
    int *cancel; pg_progress *progress; pg_status (*prove)(void *user, const char *path, pg_err *err); void *user;
};
struct pg_unwrap_opts {
    pg_write_opts write; const char *like; const char *like_text; const char *template_name; const char *strip_prefix;
    int partial; int weights_only; int no_optimizer;
};
struct pg_wrap_opts {
    pg_write_opts write; const char *like; unsigned n_replicas; const char *name;
};
struct pg_rewrite_report {
    const char *action; char *template_name; size_t replicas; size_t n_layers; size_t n_weighted; size_t n_tensors,
    n_state; size_t n_written; size_t n_verified; uint64_t n_params, n_bytes; uint64_t file_bytes; uint64_t
    added_bytes; char sha256[65]; char **removed; char **kept; char **notes; char **missing, **extra; size_t
    n_removed, n_kept, n_notes, n_missing, n_extra;
};
enum pg_layout {
    PG_LAYOUT_KERAS, PG_LAYOUT_PYTORCH
};
struct pg_convert_opts {
    pg_write_opts write; const char *to; const char *model; const char *model_text; int unwrap; pg_layout layout;
    const char *rename; const char *dtype; int keras; int keep_keras1;
};
struct pg_convert_report {
    const char *format; size_t n_tensors, n_state; size_t n_written; size_t n_verified; uint64_t n_params, n_bytes;
    uint64_t file_bytes; size_t n_changed; size_t n_hwio, n_transposed; size_t n_class_paths; double max_rel_error;
    uint64_t n_overflow; uint64_t n_underflow; char **notes; size_t n_notes;
};
struct pg_onnx_opts {
    pg_write_opts write; const char *model; const char *model_text; const char *dtype; int opset; uint64_t batch;
    const char *sizes; int channels_first; int fold_bn; uint64_t external_above;
    const char *check; const char *quantize;
};
struct pg_onnx_report {
    int opset; size_t n_nodes, n_inits; size_t n_tensors; size_t n_verified; uint64_t n_params, n_bytes; uint64_t file_bytes;
    char *data_file; uint64_t data_bytes; char *test_folder; uint64_t n_rows; size_t n_quantized; double max_change; double max_given;
    double max_rel_error; char **notes; size_t n_notes;
};
enum pg_shard_format {
    PG_SHARD_NPY, PG_SHARD_NPZ, PG_SHARD_SAFETENSORS, PG_SHARD_KERAS
};
struct pg_split_opts {
    pg_write_opts write; pg_shard_format format; uint64_t max_shard_bytes; size_t max_tensors; int unwrap; int sha256;
    size_t n_threads; unsigned job, n_jobs; int finish;
};
struct pg_join_opts {
    pg_write_opts write; const char *only; const char *dtype; uint64_t max_shard_bytes; unsigned job, n_jobs; int finish;
};
struct pg_shard_file {
    char *path; size_t n_tensors; uint64_t n_bytes;
};
struct pg_shard_report {
    pg_shard_file *files; size_t n_files, n_reused; size_t n_layers, n_tensors, n_state; size_t n_written; size_t
    n_verified; uint64_t n_params, n_bytes; size_t n_chunked_lists; char **missing, **damaged; size_t n_missing,
    n_damaged; char **notes; size_t n_notes;
};
struct pg_check_opts {
    const char *model; const char *model_text; int only_finite, only_no_wrapper; int strict; const char *sha256; const
    char *input, *expect, *device; double tolerance; const char *part; const char *rules; const volatile int *cancel; pg_progress
    *progress;
};
struct pg_check {
    const char *name; int ok; char *summary; char **details; size_t n_details;
};
struct pg_check_report {
    pg_check *checks; size_t n_checks; int ok; int damaged; int fitted; pg_action action; char *hint; char **notes;
    size_t n_notes;
};
struct pg_compare_opts {
    double abs, rel; int by_order; const char *ignore; int quick; const char *part, *part_b; const char *rules; const volatile int
    *cancel; pg_progress *progress;
};
enum pg_row_kind {
    PG_ROW_EQUAL, PG_ROW_DIFFERS, PG_ROW_SHAPE, PG_ROW_DTYPE, PG_ROW_ONLY_A, PG_ROW_ONLY_B
};
struct pg_compare_row {
    pg_row_kind kind; char *name; pg_weight a, b; uint64_t n, n_changed, n_nan; double max_abs, rms, rel_l2, cosine;
};
struct pg_comparison {
    pg_compare_row *rows; size_t n_rows, n_equal, n_differ, n_only_a, n_only_b; uint64_t n_params; int
    through_wrapper;
};
struct pg_array {
    const char *key; pg_dtype dtype; uint32_t rank; uint64_t dims[PG_MAX_RANK]; const void *values;
};
struct pg_train_opts {
    const char *model; const char *model_text; const char *weights; const char *freeze; const char *replace_head;
    const char *init_from; const char *part; uint64_t seed; const char *optimizer; const char *optimizer_json; const
    char *schedule; int optimizer_rules; const char *loss; const char *loss_weights; const char *metrics; const char
    *weighted_metrics; const char *rules; const char *devices; int gpu_tune; int cpu_merge; int precision; const char *quantize; const char *place; size_t
    threads; int deterministic; size_t lanes; int batch_norm; int conv; const char *compile_from; int
    loss_from_probabilities; int for_prediction; int joins_job; int shard_optimizer; const char *compress; double comm_timeout; const
    volatile int *cancel;
};
struct pg_save_opts {
    int force; int full_model; int beside;
};
struct pg_logs {
    const char *const *names; const double *values; size_t n;
};
struct pg_shape {
    uint32_t rank; uint64_t dims[PG_MAX_RANK];
};
struct pg_run {
    size_t n_devices, n_cores; const char *devices; size_t rank, n_ranks; const char *mpi; const char *kind; size_t
    batch_size; size_t n_batches, n_epochs; uint64_t n_train, n_val; pg_shape input, output; size_t n_inputs,
    n_outputs, n_layers; uint64_t n_params, n_param_bytes; const char *optimizer; double learning_rate;
};
struct pg_rank_share {
    char host[64]; double compute, exchange, waiting; double input;
};
struct pg_fit_report {
    size_t n_epochs; double seconds; double rows_per_second; double reduce, input; double alone; const pg_rank_share
    *ranks; size_t n_ranks;
};
enum pg_event_kind {
    PG_EVENT_NOTE, PG_EVENT_WARNING, PG_EVENT_CHECKPOINT, PG_EVENT_RATE, PG_EVENT_STOP, PG_EVENT_RESUME,
    PG_EVENT_SKIPPED
};
struct pg_event {
    pg_event_kind kind; size_t epoch; const char *file; const char *text;
};
struct pg_callback {
    void *user; pg_status (*train_begin)(void *user, const pg_run *run, pg_err *err); pg_status (*epoch_begin)(void
    *user, size_t epoch, pg_err *err); pg_status (*batch_end)(void *user, size_t batch, const pg_logs *own, const
    pg_logs *running, pg_err *err); pg_status (*epoch_end)(void *user, size_t epoch, const pg_logs *logs, pg_err
    *err); pg_status (*event)(void *user, const pg_event *e, pg_err *err); void (*train_end)(void *user, const
    pg_fit_report *report);
};
struct pg_fit_opts {
    size_t batch_size; size_t epochs; size_t initial_epoch; size_t steps_per_epoch; size_t validation_steps; size_t
    validation_freq; int no_shuffle; int shuffle_batches; const char *class_weight; size_t accumulate; uint64_t seed;
    pg_data *validation; double validation_split; int reset_states; const volatile int *cancel; int terminate_on_nan;
    int measure_alone; const char *const *callbacks; size_t n_callbacks; const char *resume_file; int resume; double
    resume_every; const char *settings; const char *output; int replaces_output; int profile; const volatile int *stop;
    const char *trace; size_t trace_first; size_t trace_last;
};
struct pg_predict_opts {
    size_t batch_size; size_t steps; int unquantized; int force; int profile; const volatile int *cancel;
};
struct pg_quantized {
    size_t n_products; uint64_t n_rows; const char *output; double max_change, max_given, rel_change; uint64_t n_choices, n_same;
};
struct pg_predictions {
    void *user; pg_status (*begin)(void *user, const pg_weight *outputs, size_t n_outputs, pg_err *err); pg_status
    (*rows)(void *user, size_t output, uint64_t first, size_t n_rows, const void *values, pg_err *err);
};

const char *pg_version(void);
const char *pg_status_name(pg_status st);
const char *pg_do_name(pg_do what);
const char *pg_action_get(const pg_action *a, const char *key);
const char *pg_action_arg(const pg_action *a, size_t i, const char **value);
const char *pg_dtype_name(pg_dtype dtype);
pg_status pg_store_open(pg_store **out, const char *path, const pg_open_opts *opts, pg_err *err);
void pg_store_close(pg_store *s);
const char *pg_store_format(const pg_store *s);
const char *pg_store_writer(const pg_store *s);
const char *pg_store_damage(const pg_store *s);
pg_pieces pg_store_pieces(const pg_store *s, size_t i);
const char *pg_store_ranks(const pg_store *s);
size_t pg_store_n_rank_counts(const pg_store *s);
const pg_rank_count *pg_store_rank_count(const pg_store *s, size_t i);
const char *pg_store_others(const pg_store *s);
const char *pg_store_beside(const pg_store *s, size_t *n);
size_t pg_store_n_parts(const pg_store *s);
const pg_part *pg_store_part(const pg_store *s, size_t i);
size_t pg_store_n_layers(const pg_store *s);
size_t pg_store_n_weights(const pg_store *s);
size_t pg_store_n_state(const pg_store *s);
const pg_layer *pg_store_layer(const pg_store *s, size_t i);
const pg_weight *pg_store_weight(const pg_store *s, size_t i);
const pg_weight *pg_store_state(const pg_store *s, size_t i);
const char *pg_store_text(const pg_store *s, pg_text which, size_t *n_bytes);
pg_status pg_store_read(pg_store *s, size_t i, uint64_t off_bytes, void *buf, size_t n_bytes, pg_err *err);
pg_status pg_store_read_state(pg_store *s, size_t i, uint64_t off_bytes, void *buf, size_t n_bytes, pg_err *err);
int pg_store_place(const pg_store *s, size_t i, uint64_t *off_bytes);
int pg_store_place_state(const pg_store *s, size_t i, uint64_t *off_bytes);
pg_status pg_store_stats_of(pg_stats *out, uint64_t *bins, size_t n_bins, pg_store *s, const size_t *which, size_t n, const pg_stats_opts *opts, pg_err *err);
pg_status pg_store_check_same(const pg_store *s, pg_err *err);
pg_status pg_inspect(pg_finding *out, pg_store *s, pg_err *err);
void pg_finding_fini(pg_finding *f);
pg_status pg_count_params(pg_param_counts *out, pg_store *s, pg_err *err);
const char *pg_verdict_name(pg_verdict v);
pg_status pg_unwrap_file(const char *in, const char *out, const pg_unwrap_opts *opts, pg_rewrite_report *report, pg_err *err);
pg_status pg_wrap_file(const char *in, const char *out, const pg_wrap_opts *opts, pg_rewrite_report *report, pg_err *err);
void pg_rewrite_report_fini(pg_rewrite_report *r);
pg_status pg_convert_file(const char *in, const char *out, const pg_convert_opts *opts, pg_convert_report *report, pg_err *err);
pg_status pg_convert_open(pg_store **out, const char *in, const pg_convert_opts *opts, pg_convert_report *report, pg_err *err);
void pg_convert_report_fini(pg_convert_report *r);
pg_status pg_onnx_file(const char *in, const char *out, const pg_onnx_opts *opts, pg_onnx_report *report, pg_err *err);
void pg_onnx_report_fini(pg_onnx_report *r);
pg_status pg_split_file(const char *in, const char *dir, const pg_split_opts *opts, pg_shard_report *report, pg_err *err);
pg_status pg_join_file(const char *in, const char *out, const pg_join_opts *opts, pg_shard_report *report, pg_err *err);
pg_status pg_shard_size(uint64_t *out, const char *text, pg_err *err);
int pg_shard_format_by_name(pg_shard_format *out, const char *name);
void pg_shard_report_fini(pg_shard_report *r);
pg_status pg_check_file(pg_check_report *out, const char *path, const pg_check_opts *opts, pg_err *err);
void pg_check_report_fini(pg_check_report *r);
pg_status pg_compare_files(pg_comparison *out, const char *a, const char *b, const pg_compare_opts *opts, pg_err *err);
void pg_comparison_fini(pg_comparison *c);
pg_status pg_data_open(pg_data **out, const char *path, pg_err *err);
pg_status pg_data_arrays(pg_data **out, const pg_array *arrays, size_t n, pg_err *err);
void pg_data_close(pg_data *d);
size_t pg_data_n_notes(const pg_data *d);
const char *pg_data_note(const pg_data *d, size_t i);
pg_status pg_data_select(pg_data *d, const char *x, const char *y, pg_err *err);
pg_status pg_data_set(pg_data *d, const char *set, pg_err *err);
pg_status pg_trainer_open(pg_trainer **out, const pg_train_opts *opts, pg_err *err);
void pg_trainer_close(pg_trainer *t);
size_t pg_trainer_n_notes(const pg_trainer *t);
const char *pg_trainer_note(const pg_trainer *t, size_t i);
int pg_trainer_is_untrained(const pg_trainer *t);
size_t pg_trainer_n_weights(const pg_trainer *t);
const pg_weight *pg_trainer_weight(const pg_trainer *t, size_t i);
pg_status pg_trainer_read(pg_trainer *t, size_t i, double *out, size_t n_elems, pg_err *err);
pg_status pg_trainer_save(pg_trainer *t, const char *path, const pg_save_opts *opts, pg_err *err);
const char *pg_trainer_saved(const pg_trainer *t);
pg_status pg_fit(pg_trainer *t, pg_data *data, const pg_fit_opts *opts, const pg_callback *cb, pg_err *err);
pg_status pg_evaluate(pg_trainer *t, pg_data *data, const pg_predict_opts *opts, pg_logs *out, pg_err *err);
pg_status pg_predict(pg_trainer *t, pg_data *data, const pg_predict_opts *opts, const pg_predictions *to, pg_err *err);
pg_status pg_trainer_reset_states(pg_trainer *t, pg_err *err);
pg_status pg_predict_quantized(pg_trainer *t, pg_data *data, const pg_predict_opts *opts, pg_quantized *out, pg_err *err);
pg_status pg_model_summary(char **out, const pg_train_opts *opts, pg_err *err);
void pg_text_free(char *text);
