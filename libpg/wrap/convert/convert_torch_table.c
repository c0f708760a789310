/* convert_torch_table.c - the layers with a counterpart in PyTorch, and how their tensors change:
 * the table for both directions and for the documentation. */
#include <string.h>

#include "wrap/convert/convert_torch.h"

/* Classes of one row are separated by blanks. */
static const pg_layout_row rows[] = {
    [PG_TORCH_DENSE] = {"Dense", "Linear", "(in, out) -> (out, in); after Flatten for (c, ...)"},
    [PG_TORCH_CONV] = {"Conv1D Conv2D Conv3D", "Conv1d Conv2d Conv3d",
                       "(*k, in, out) -> (out, in, *k)"},
    [PG_TORCH_CONV_TRANSPOSE] = {"Conv1DTranspose Conv2DTranspose Conv3DTranspose",
                                 "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
                                 "(*k, out, in) -> (in, out, *k)"},
    [PG_TORCH_DEPTHWISE] = {"DepthwiseConv1D DepthwiseConv2D", "Conv1d Conv2d, groups=in",
                            "(*k, in, m) -> (in * m, 1, *k)"},
    [PG_TORCH_SEPARABLE] = {"SeparableConv1D SeparableConv2D", "two of Conv1d or Conv2d",
                            "depthwise.weight, pointwise.weight, pointwise.bias"},
    [PG_TORCH_NORM] = {"BatchNormalization LayerNormalization GroupNormalization",
                       "BatchNorm1d BatchNorm2d LayerNorm GroupNorm",
                       "weight, bias, running_mean, running_var"},
    [PG_TORCH_PRELU] = {"PReLU", "PReLU", "slopes by channel"},
    [PG_TORCH_EMBEDDING] = {"Embedding", "Embedding", "as it is"},
    [PG_TORCH_RECURRENT] = {"LSTM GRU SimpleRNN", "LSTM GRU RNN",
                            "gates reordered, (in, g) -> (g, in); bias_ih, bias_hh"},
    [PG_TORCH_BIDIRECTIONAL] = {"Bidirectional", "bidirectional=True", "..._reverse"},
    [PG_TORCH_TIME_DISTRIBUTED] = {"TimeDistributed", "the module inside", "as inside"},
    [PG_TORCH_ATTENTION] = {"MultiHeadAttention", "MultiheadAttention",
                            "in_proj of query, key, value; out_proj"},
};
#define N_ROWS (sizeof rows / sizeof *rows)

const pg_layout_row *pg_layout_rows(size_t *n)
{
    *n = N_ROWS;
    return rows;
}

pg__torch_kind pg__torch_kind_of(const char *class_name)
{
    const size_t len = strlen(class_name);
    for (size_t i = 0; i < N_ROWS; i++)
        for (const char *word = rows[i].keras; *word;) {
            const size_t n = strcspn(word, " ");
            if (n == len && memcmp(word, class_name, n) == 0)
                return (pg__torch_kind)i;
            word += n + (word[n] == ' ');
        }
    return PG_TORCH_NONE;
}
