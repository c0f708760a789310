/* layer_rnn.c - recurrent layers and their cells. The gates are stored side by side in one kernel
 * since Keras 2, each in three arrays of its own in Keras 1 (unless consume_less is "gpu"). */
#include <string.h>

#include "base/try.h"
#include "model/lower/layers.h"

static const uint64_t any = PG_DIM_ANY;

static int starts(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

/* Gates of a class: LSTM 4, GRU 3, a simple cell 1. */
static uint64_t gates_of(const char *class_name)
{
    return strstr(class_name, "LSTM") ? 4 : strstr(class_name, "GRU") ? 3 : 1;
}

/* Keras 1: for each gate W_g (in, u), U_g (u, u), b_g (u); filters instead of u, in and their
 * kernels for ConvLSTM2D. */
static const char *const lstm_gates[][3] = {
    {"W_i", "U_i", "b_i"}, {"W_c", "U_c", "b_c"}, {"W_f", "U_f", "b_f"}, {"W_o", "U_o", "b_o"}};
static const char *const gru_gates[][3] = {
    {"W_z", "U_z", "b_z"}, {"W_r", "U_r", "b_r"}, {"W_h", "U_h", "b_h"}};

static pg_status add_keras1_gates(pg__vars *out, const char *const (*gates)[3], size_t n,
                                  uint32_t rank, const uint64_t *w, const uint64_t *u, pg_err *err)
{
    const uint64_t units = w[rank - 1];
    pg_status st = PG_OK;
    for (size_t i = 0; i < n; i++) {
        PG_TRY(pg__vars_add(out, gates[i][0], "", 1, rank, w, err));
        PG_TRY(pg__vars_add(out, gates[i][1], "", 1, rank, u, err));
        PG_TRY(pg__vars_add(out, gates[i][2], "", 1, 1, &units, err));
    }
done:
    return st;
}

static pg_status keras1_rnn(pg__vars *out, const pg__layer *l, pg_err *err)
{
    const uint64_t gates = gates_of(l->class_name);
    const char *mode = pg__json_get_str(l->config, "consume_less");
    uint64_t units;
    pg_status st = PG_OK;
    PG_TRY(pg__config_dim(&units, l, "output_dim", err));
    if (gates > 1 && !(mode && strcmp(mode, "gpu") == 0)) {
        PG_TRY(add_keras1_gates(out, gates == 4 ? lstm_gates : gru_gates, (size_t)gates, 2,
                                (uint64_t[]){any, units}, (uint64_t[]){units, units}, err));
        goto done;
    }
    const uint64_t all = gates * units;
    PG_TRY(pg__vars_add(out, "W", "", 1, 2, (uint64_t[]){any, all}, err));
    PG_TRY(pg__vars_add(out, "U", "", 1, 2, (uint64_t[]){units, all}, err));
    PG_TRY(pg__vars_add(out, "b", "", 1, 1, &all, err));
done:
    return st;
}

pg_status pg__vars_rnn(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const int cudnn = starts(l->class_name, "CuDNN");
    uint64_t units, gates = gates_of(l->class_name);
    pg_status st = PG_OK;
    (void)dialect;
    if (!pg__config_has(l, "units") && pg__config_has(l, "output_dim"))
        return keras1_rnn(out, l, err);
    PG_TRY(pg__config_dim(&units, l, "units", err));
    const uint64_t all = gates * units;
    PG_TRY(pg__vars_add(out, "kernel", "", 1, 2, (uint64_t[]){any, all}, err));
    PG_TRY(pg__vars_add(out, "recurrent_kernel", "", 1, 2, (uint64_t[]){units, all}, err));
    if (!pg__config_bool(l, "use_bias", 1))
        goto done;
    if (cudnn)
        PG_TRY(pg__vars_add(out, "bias", "", 1, 1, (uint64_t[]){2 * all}, err));
    else if (gates == 3 && pg__config_bool(l, "reset_after", 0)) /* no key: written before it */
        PG_TRY(pg__vars_add(out, "bias", "", 1, 2, (uint64_t[]){2, all}, err));
    else
        PG_TRY(pg__vars_add(out, "bias", "", 1, 1, &all, err));
done:
    return st;
}

static pg_status keras1_conv_lstm(pg__vars *out, const pg__layer *l, pg_err *err)
{
    const char *order = pg__json_get_str(l->config, "dim_ordering");
    uint64_t rows, columns, filters;
    pg_status st = PG_OK;
    PG_TRY(pg__config_dim(&filters, l, "nb_filter", err));
    PG_TRY(pg__config_dim(&rows, l, "nb_row", err));
    PG_TRY(pg__config_dim(&columns, l, "nb_col", err));
    if (order && strcmp(order, "th") == 0)
        return pg__vars_unknown(out); /* was never usable in 1.2 */
    PG_TRY(add_keras1_gates(out, lstm_gates, 4, 4, (uint64_t[]){rows, columns, any, filters},
                            (uint64_t[]){rows, columns, filters, filters}, err));
done:
    return st;
}

pg_status pg__vars_conv_lstm(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const size_t rank = starts(l->class_name, "ConvLSTM1D")   ? 1
                        : starts(l->class_name, "ConvLSTM3D") ? 3
                                                              : 2;
    uint64_t filters, in[5], own[5];
    pg_status st = PG_OK;
    (void)dialect;
    if (pg__config_has(l, "nb_filter"))
        return keras1_conv_lstm(out, l, err);
    PG_TRY(pg__config_dim(&filters, l, "filters", err));
    PG_TRY(pg__config_dim_list(in, rank, l, "kernel_size", err));
    memcpy(own, in, sizeof own);
    const uint64_t all = 4 * filters;
    in[rank] = any, own[rank] = filters;
    in[rank + 1] = own[rank + 1] = all;
    PG_TRY(pg__vars_add(out, "kernel", "", 1, (uint32_t)rank + 2, in, err));
    PG_TRY(pg__vars_add(out, "recurrent_kernel", "", 1, (uint32_t)rank + 2, own, err));
    if (pg__config_bool(l, "use_bias", 1))
        PG_TRY(pg__vars_add(out, "bias", "", 1, 1, &all, err));
done:
    return st;
}

/* RNN(cell) and StackedRNNCells(cells): the variables of each cell in turn. Stacks within stacks,
 * which nobody uses, count as unknown, so that there is no recursion to limit. */
pg_status pg__vars_cells(pg__vars *out, const pg__layer *l, int dialect, pg_err *err)
{
    const pg__json *cell = pg__json_get(l->config, "cell");
    const pg__json *config = cell ? pg__json_get(cell, "config") : l->config;
    const pg__json *list = pg__json_get(config, "cells");
    pg_status st = PG_OK;
    for (size_t i = 0; i < (list ? pg__json_len(list) : 1); i++) {
        const pg__json *entry = list ? pg__json_at(list, i) : cell;
        const char *class_name = pg__json_get_str(entry, "class_name");
        const char *name = pg__json_get_str(pg__json_get(entry, "config"), "name");
        const pg__layer one = {.name = name ? name : l->name,
                               .class_name = class_name,
                               .config = pg__json_get(entry, "config"),
                               .trainable = 1};
        if (!class_name || !one.config || !strstr(class_name, "Cell") ||
            starts(class_name, "Stacked"))
            return pg__vars_unknown(out);
        PG_TRY(pg__vars_add_inner(out, &one, name ? name : "", dialect, err));
    }
done:
    return st;
}
