/* onnx.h - makes an ONNX graph of a lowered model.
 *
 * translate.c walks the tape of a model (model/lower); a line of ops.def names the function that
 * makes nodes of an operation. These functions have no results that say whether they failed: the
 * first failure is kept in the translation, what is called after it does nothing, and the walk
 * looks after each instruction.
 *
 * A value of the tape may be stored with its axes in several orders: convolutions of ONNX want
 * channels first, recurrent layers want steps first. pg__onnx_as() gives it in the order that a
 * node wants and adds a Transpose only if nobody has asked for that order before; what works
 * element by element stays in the order that its operand has. So transposes remain where the model
 * begins and ends, and where an operation needs the order of Keras. Values that depend on
 * variables alone become initialisers in the order in which they are wanted. */
#ifndef PG_ONNX_ONNX_H
#define PG_ONNX_ONNX_H

#include "base/proto.h"
#include "io/sink.h"
#include "model/lower/lower.h"
#include "pg/onnx.h"
#include "wrap/convert/convert.h"

/* ---- graph.c: names, nodes, initialisers ---- */

typedef uint32_t pg__onnx_name; /* of a tensor */
#define PG_ONNX_ABSENT UINT32_MAX

typedef struct pg__onnx_init {
    pg__onnx_name name;
    pg_dtype dtype;
    uint32_t rank;
    uint64_t dims[PG_MAX_RANK];
    double *values;  /* owned; NULL: the take says them */
    pg__take take;   /* elements of the source */
    double *factors; /* owned, or NULL: each index along the first axis has one */
    double *scales;  /* owned, or NULL: int8 numbers, each channel in steps of its own */
    uint32_t axis;   /* then: 1 + that of the channels */
    int is_optional; /* it is the default of an input of the graph */
} pg__onnx_init;

typedef struct pg__onnx_node {
    const char *op;              /* static */
    uint32_t first, n_in, n_out; /* operands and results in pg__onnx_graph.operands */
    size_t attr, n_attr;         /* bytes in pg__onnx_graph.attrs */
    /* Its body: so many nodes right before it, which have is_inner; names of what these take and
     * give, in pg__onnx_graph.operands. */
    size_t n_body;
    uint32_t body, n_body_in, n_body_out;
    int is_inner, is_dead;
} pg__onnx_node;

typedef struct pg__onnx_graph {
    pg__strs names;
    uint32_t *buckets; /* of names: 1 + index, or 0 */
    size_t n_buckets;
    pg__onnx_node *nodes;
    size_t n_nodes, cap_nodes;
    pg__onnx_name *operands;
    size_t n_operands, cap_operands;
    pg__str attrs;
    pg__onnx_init *inits;
    size_t n_inits, cap_inits;
} pg__onnx_graph;

void pg__onnx_graph_fini(pg__onnx_graph *g);

/* A name that no other tensor has: `like`, or that with a number. */
pg_status pg__onnx_new_name(pg__onnx_graph *g, const char *like, pg__onnx_name *out, pg_err *err);
/* Gives a tensor another name. What has it already gets one with a number, so that must be no input
 * and no output. */
pg_status pg__onnx_rename(pg__onnx_graph *g, pg__onnx_name which, const char *to, pg_err *err);
pg_status pg__onnx_add_node(pg__onnx_graph *g, const char *op, const pg__str *attrs,
                            const pg__onnx_name *in, size_t n_in, const pg__onnx_name *out,
                            size_t n_out, pg_err *err);
/* The nodes from `first` on become the body of the last one, which is behind them. */
pg_status pg__onnx_add_body(pg__onnx_graph *g, size_t first, const pg__onnx_name *in, size_t n_in,
                            const pg__onnx_name *out, size_t n_out, pg_err *err);
/* Takes over values and factors, also if it fails. */
pg_status pg__onnx_add_init(pg__onnx_graph *g, const pg__onnx_init *i, pg_err *err);
/* Marks nodes and removes initialisers that no output needs. */
pg_status pg__onnx_prune(pg__onnx_graph *g, const pg__onnx_name *outputs, size_t n, pg_err *err);
/* A Concat whose result only another one takes, along the same axis, becomes a part of that. After
 * pruning. */
pg_status pg__onnx_join_concats(pg__onnx_graph *g, const pg__onnx_name *outputs, size_t n,
                                pg_err *err);

/* ---- one translation ---- */

/* How a value is stored: axis i of the tensor is axis perm[i] of the value. Of one that is exact,
 * but read by others, too, there is one in their type. */
typedef struct pg__onnx_version {
    uint32_t perm[PG_MAX_RANK];
    pg_dtype dtype;
    pg__onnx_name name;
    uint32_t next; /* 1 + index of the next version of the same value; 0: none */
} pg__onnx_version;

/* An unknown dimension: the product of axes of tensors, times k. */
#define PG_ONNX_FACTORS PG_MAX_RANK
typedef struct pg__onnx_sym {
    uint64_t k;
    uint32_t n;
    struct {
        pg__val v;
        uint32_t axis;
    } of[PG_ONNX_FACTORS];
    pg__onnx_name size; /* tensor of one number that has it, or PG_ONNX_ABSENT */
    char *param;        /* its name, owned; or NULL */
} pg__onnx_sym;

/* What is known of a value of the tape. */
typedef struct pg__onnx_value {
    uint32_t versions; /* 1 + index of the first; 0: none */
    uint32_t maker;    /* 1 + index of its instruction; 0: none */
    uint32_t user;     /* 1 + index of the last that reads it; 0: none */
    uint32_t uses;
    int is_exact;  /* of float32 in any model */
    int is_static; /* it depends on variables alone */
    int has_take;  /* it is a view of a tensor of the source */
    pg__take take;
    uint32_t param;            /* 1 + index of the variable that names it; 0: none */
    void *data;                /* owned: its elements, double or int32_t, once somebody asked */
    uint32_t sym[PG_MAX_RANK]; /* 1 + index of a symbol; 0: the dimension is known */
} pg__onnx_value;

/* Facts about a mask of steps, from which recurrent layers take them (op_rnn.c). */
typedef struct pg__onnx_steps {
    pg__val mask;
    pg__onnx_name mask32;             /* as float, (rows, steps) */
    pg__onnx_name order;              /* positions of the unmasked steps first, (rows, steps, 1) */
    pg__onnx_name lengths, any;       /* how many per row, at least 1; whether there are any */
    pg__onnx_name place[2], shown[2]; /* per direction: where each step's output is; 1 or 0 */
} pg__onnx_steps;

typedef struct pg__onnx {
    const pg__lowered *low;
    const pg__tape *tape;
    const pg__tape *sized; /* the same where all sizes are known; empty: they are */
    const pg__graph *model;
    const pg__leaves *leaves;
    pg_store *weights;
    size_t *tensors; /* per parameter: of weights */
    const pg_onnx_opts *o;
    int64_t opset;
    pg_dtype asked; /* for numbers */
    pg_dtype real;  /* the same, or float32 while an instruction makes what is exact */
    pg__onnx_graph g;
    pg__onnx_value *values; /* per value of the tape */
    pg__onnx_version *versions;
    size_t n_versions, cap_versions;
    pg__onnx_sym *syms;
    size_t n_syms, cap_syms;
    pg__onnx_steps *steps;
    size_t n_steps, cap_steps;
    pg__onnx_name *inputs, *outputs; /* of the graph; states follow */
    size_t n_inputs, n_outputs;
    pg_dtype *input_types;
    const pg__inst *at; /* the current instruction */
    size_t body;        /* first node of the body that is being made */
    pg_status st;
    pg_err *err;
} pg__onnx;

typedef void (*pg__onnx_fn)(pg__onnx *x, const pg__inst *i);

/* Translates x->low; PG_E_UNSUPPORTED names the layer. */
pg_status pg__onnx_translate(pg__onnx *x, pg_err *err);
/* Does this input or output come and go with channels first? */
int pg__onnx_is_image(const pg__onnx *x, pg__val v);
void pg__onnx_fini(pg__onnx *x);

/* exact.c: notes the values that a type of 16 bits would change beyond its rounding: those that ids
 * and masks are made of. */
void pg__onnx_find_exact(pg__onnx *x);

/* symbolic.c: PG_E_UNSUPPORTED if a layer computes with a size that is not known on the tape m,
 * which was lowered with opts. sized: the same tape where all sizes are known, for the caller to
 * end; it stays empty if m leaves nothing open. */
pg_status pg__onnx_check_sizes(pg__lowered *sized, const pg__lowered *m, const pg__lower_opts *opts,
                               pg_err *err);
void pg__onnx_hint_sizes(pg_err *err); /* the user may give them */

/* frame.c: the ModelProto without initialisers. */
pg_status pg__onnx_frame(pg__str *out, const pg__onnx *x, pg_err *err);

/* weights.c: which tensor belongs to which parameter; the initialisers as a store. */
pg_status pg__onnx_bind(pg__onnx *x, pg_err *err);
pg_status pg__onnx_inits_store(pg_store **out, pg__onnx *x, const pg__rounding **rounding,
                               pg_err *err);

/* quantize.c: kernels become int8; *n: how many. Which channel an element is of, and which number
 * it becomes. */
pg_status pg__onnx_quantize(pg__onnx *x, size_t *n, pg_err *err);
uint64_t pg__onnx_channel(const pg__onnx_init *i, uint64_t element);
int8_t pg__onnx_quantized(const pg__onnx_init *i, uint64_t element, double value);

/* beside.c: the file of tensors beside the model. */
typedef struct pg__onnx_beside {
    pg__str paths[2]; /* OUT.data, OUT.data-2 */
    int is_there[2];
    int is_old[2];  /* the model that is replaced has its tensors there */
    int is_used[2]; /* another model has */
    int replaces;   /* a model of that name exists */
    pg__sink *sink; /* NULL: no tensors are written beside the model */
    size_t at;      /* else: index of the sink's path */
} pg__onnx_beside;

/* Looks for what lies beside `out` already. */
pg_status pg__onnx_beside_look(pg__onnx_beside *b, const char *out, pg_err *err);
/* After that: opens one that no model needs. */
pg_status pg__onnx_beside_open(pg__onnx_beside *b, const pg__sink_opts *opts, pg_err *err);
const char *pg__onnx_beside_path(const pg__onnx_beside *b);
const char *pg__onnx_beside_name(const pg__onnx_beside *b); /* without folders */
pg_status pg__onnx_beside_commit(pg__onnx_beside *b, pg_err *err);
/* has_model: the model has its name; what only an older one had beside it goes. {0} is allowed. */
void pg__onnx_beside_close(pg__onnx_beside *b, int has_model);

/* statics.c: notes whether the instruction's result depends on variables alone; the name of a
 * variable; an initialiser that is a view of the source. */
int pg__onnx_note_static(pg__onnx *x, const pg__inst *i);
pg_status pg__onnx_param_name(pg__str *out, const pg__onnx *x, size_t param, pg_err *err);
pg_status pg__onnx_add_take(pg__onnx *x, pg__take *t, pg__onnx_name name, pg_err *err);

/* ---- for the operations (emit.c) ---- */

/* Keeps the first failure: "LAYER: what". */
void pg__onnx_refuse(pg__onnx *x, const char *fmt, ...) PG_PRINTF(2, 3);
void pg__onnx_check(pg__onnx *x, pg_status st);
const char *pg__onnx_layer(const pg__onnx *x); /* of the current instruction */

static inline const pg__dims *pg__onnx_dims(const pg__onnx *x, pg__val v)
{
    return &x->tape->values[v].shape;
}
/* The type of a value that is a number. */
static inline pg_dtype pg__onnx_real(const pg__onnx *x, pg__val v)
{
    return x->values[v].is_exact ? PG_F32 : x->asked;
}
static inline pg__val pg__onnx_in(const pg__onnx *x, const pg__inst *i, size_t k)
{
    return pg__in(x->tape, i, k);
}

/* An instruction and a shape where all sizes are known. */
static inline const pg__inst *pg__onnx_sized(const pg__onnx *x, const pg__inst *i)
{
    return x->sized->n_insts > 0 ? &x->sized->insts[i - x->tape->insts] : i;
}
static inline const pg__dims *pg__onnx_sized_dims(const pg__onnx *x, pg__val v)
{
    return x->sized->n_values > 0 ? &x->sized->values[v].shape : pg__onnx_dims(x, v);
}

/* Orders of axes. */
typedef struct pg__onnx_perm {
    uint32_t p[PG_MAX_RANK];
} pg__onnx_perm;
pg__onnx_perm pg__onnx_plain(void);          /* as the value has them */
pg__onnx_perm pg__onnx_first(uint32_t rank); /* the last axis after the first: NCHW */
pg__onnx_perm pg__onnx_native(const pg__onnx *x, pg__val v); /* as it was made */
int pg__onnx_is_plain(const pg__onnx_perm *p, uint32_t rank);
/* Where axis a of the value is. */
uint32_t pg__onnx_axis(const pg__onnx_perm *p, uint32_t a);

/* The value's tensor in an order and, if it is a number, of x->real; made if it does not exist. */
pg__onnx_name pg__onnx_as(pg__onnx *x, pg__val v, const pg__onnx_perm *p);
pg__onnx_name pg__onnx_get(pg__onnx *x, pg__val v); /* plain */
/* The same for an operand that is aligned with a value of `rank` axes at the last one. */
pg__onnx_name pg__onnx_aligned(pg__onnx *x, pg__val v, uint32_t rank, const pg__onnx_perm *p);
/* An order that suits all operands of an instruction: that of the first that is computed. */
pg__onnx_perm pg__onnx_common(const pg__onnx *x, const pg__inst *i, uint32_t rank);
/* A static value as an initialiser, with axes of one in front up to `rank` (statics.c). */
pg__onnx_name pg__onnx_static(pg__onnx *x, pg__val v, uint32_t rank, const pg__onnx_perm *p);
/* A result of the current instruction is this tensor. */
void pg__onnx_set(pg__onnx *x, pg__val v, const pg__onnx_perm *p, pg__onnx_name name);
void pg__onnx_set_plain(pg__onnx *x, pg__val v, pg__onnx_name name);

/* Nodes; names of results are made of the layer's and the operator's. attrs may be NULL; it is
 * emptied. */
pg__onnx_name pg__onnx_op(pg__onnx *x, const char *op, pg__str *attrs, const pg__onnx_name *in,
                          size_t n_in);
void pg__onnx_ops(pg__onnx *x, const char *op, pg__str *attrs, const pg__onnx_name *in, size_t n_in,
                  pg__onnx_name *out, size_t n_out);
pg__onnx_name pg__onnx_op1(pg__onnx *x, const char *op, pg__onnx_name a);
pg__onnx_name pg__onnx_op2(pg__onnx *x, const char *op, pg__onnx_name a, pg__onnx_name b);
pg__onnx_name pg__onnx_op3(pg__onnx *x, const char *op, pg__onnx_name a, pg__onnx_name b,
                           pg__onnx_name c);
pg__onnx_name pg__onnx_transpose(pg__onnx *x, pg__onnx_name a, const uint32_t *perm, uint32_t rank);
pg__onnx_name pg__onnx_cast(pg__onnx *x, pg__onnx_name a, pg_dtype to);
pg__onnx_name pg__onnx_concat(pg__onnx *x, const pg__onnx_name *in, size_t n, int64_t axis);
/* Means, sums, ... over axes; the attribute became an operand in another opset for each. */
pg__onnx_name pg__onnx_reduce(pg__onnx *x, const char *op, pg__onnx_name a, const int64_t *axes,
                              size_t n, int keep);
pg__onnx_name pg__onnx_unsqueeze(pg__onnx *x, pg__onnx_name a, int64_t axis);
pg__onnx_name pg__onnx_squeeze(pg__onnx *x, pg__onnx_name a, int64_t axis);
pg__onnx_name pg__onnx_slice(pg__onnx *x, pg__onnx_name a, const int64_t *starts,
                             const int64_t *ends, const int64_t *axes, const int64_t *steps,
                             size_t n);

/* Nodes between the two are the body of the last of them, which reads constants and values from
 * outside by their names; in: names for what it is given. Within, no value's order of axes may be
 * asked for: others could not read it. */
void pg__onnx_body_begin(pg__onnx *x, pg__onnx_name *in, size_t n_in);
void pg__onnx_body_end(pg__onnx *x, const pg__onnx_name *in, size_t n_in, const pg__onnx_name *out,
                       size_t n_out);

/* Attributes. */
void pg__onnx_int(pg__onnx *x, pg__str *attrs, const char *name, int64_t v);
void pg__onnx_ints(pg__onnx *x, pg__str *attrs, const char *name, const int64_t *v, size_t n);
void pg__onnx_float(pg__onnx *x, pg__str *attrs, const char *name, double v);
void pg__onnx_floats(pg__onnx *x, pg__str *attrs, const char *name, const double *v, size_t n);
void pg__onnx_text(pg__onnx *x, pg__str *attrs, const char *name, const char *v);
void pg__onnx_texts(pg__onnx *x, pg__str *attrs, const char *name, const char *const *v, size_t n);

/* Constants; equal small ones are made once. */
pg__onnx_name pg__onnx_const(pg__onnx *x, const char *name, pg_dtype dtype, uint32_t rank,
                             const uint64_t *dims, const double *v);
pg__onnx_name pg__onnx_number(pg__onnx *x, double v);                    /* a scalar of x->real */
pg__onnx_name pg__onnx_numbers(pg__onnx *x, const int64_t *v, size_t n); /* of int64 */

/* Elements of a static value; NULL if it failed. The caller does not own them. */
const double *pg__onnx_data(pg__onnx *x, pg__val v);
int pg__onnx_is_static(const pg__onnx *x, pg__val v);

/* ---- unknown dimensions (dims.c) ---- */

/* The symbols of the current instruction's results from those of its operands. */
void pg__onnx_name_dims(pg__onnx *x, const pg__inst *i);
/* An unknown axis of an input; takes over the symbol's name. */
void pg__onnx_name_input(pg__onnx *x, pg__val v, uint32_t axis, char *param);
/* A tensor of one int64: the size of an axis. */
pg__onnx_name pg__onnx_size(pg__onnx *x, pg__val v, uint32_t axis);
/* A tensor of int64 for Reshape: the shape of `like`. from: what is reshaped. */
pg__onnx_name pg__onnx_shape(pg__onnx *x, pg__val from, pg__val like);
/* The axis has a size that nothing before it says. */
int pg__onnx_is_own(const pg__onnx *x, pg__val v, uint32_t axis);
/* pg__onnx_refuse() because of it: the user may give sizes. */
void pg__onnx_refuse_open(pg__onnx *x, const char *why);
int pg__onnx_same_dim(const pg__onnx *x, pg__val a, uint32_t i, pg__val b, uint32_t k);

/* op_rnn.c: does a recurrent operation take this product along? */
int pg__onnx_feeds_recurrence(const pg__onnx *x, pg__val v);
/* op_act.c: an activation of a tensor; op_scan.c: a recurrent operation as a loop. */
pg__onnx_name pg__onnx_activation(pg__onnx *x, pg__onnx_name v, const pg__act_attrs *a);
void pg__onnx_scan(pg__onnx *x, const pg__inst *i);

#define PG_ONNX_OP(name, fn, words) void pg__onnx_##fn(pg__onnx *x, const pg__inst *i);
#include "onnx/ops.def"
#undef PG_ONNX_OP

#endif
